//! Why readers need no fence: the memory-ordering argument of the host world, and its fences.
//!
//! # The promise
//!
//! If any part of a read-side section comes before a grace period's start, all of it comes before the
//! grace period's end; and a section that the grace period did not wait for sees every store that came
//! before its start. A *grace period* here is a normal or an expedited one.
//!
//! # The reader's two stores and what they pair with
//!
//! A preemptible reader ([`super::slot`]) does, with `L` a compiler barrier and nothing else:
//!
//! | entering | leaving |
//! |---|---|
//! | R1 `nesting = n + 1` | R4 `nesting = n - 1`, release |
//! | R2 `L` | R5 `L` |
//! | R3 look at `eqs`, then the section | R6 look at `special` |
//!
//! Whoever is about to say that a vCPU is quiescent makes a *pass* ([`super::pass`]) over the threads
//! attached to it:
//!
//! | step | |
//! |---|---|
//! | P1 | under the run queue's lock: `special \|= MARK` for each thread of the scan set, and `eqs = PROPOSED` with a number of its own for those found outside before |
//! | P2 | one **heavy fence** `H` |
//! | P3 | read `nesting`, acquire |
//!
//! `H` is `membarrier(PRIVATE_EXPEDITED)`: it acts as a full fence in every running thread of the process at
//! some instruction between its call and its return (a thread that does not run passed a full fence when it
//! was switched out or will when it is switched in). So for each reader `H` falls between two of its
//! instructions, and each pair *store, `L`, load* of the reader makes a Dekker pair with the passes'
//! *store, `H`, load*:
//!
//! 1. **R1/R3 against the updater.** P3 reads 0 and the section of R1 is open later all the same: then R1 was
//!    not visible at P3, so `H` fell before R1 in that thread, so the section's loads come after `H` and see
//!    all that the updater stored before the grace period's start (its stores reach the pass by the chain of
//!    node locks: call or request, leaf … root, start of `gp_seq`, each acquisition a full barrier).
//! 2. **R4 against P3.** P3 reads 0, left there by R4: R4 is a release and P3 an acquire, so everything in that
//!    section comes before the report, and by the chain of locks before the end of the grace period.
//! 3. **R4/R6 against P1/P3.** P3 reads non-zero with the mark still set: `H` did not fall after R4 of that
//!    section; so R6 comes after `H` and sees the mark. That reader's outermost unlock takes the slow path,
//!    where the lock of its slot orders it against P3's decision to put it on the leaf's list.
//!    If P3 finds the mark gone, the reader itself took it off with a read-modify-write outside any section
//!    after P1 put it there; what it opened since sees the updater's stores through that pair (F2 in front of P1 makes
//!    a release of it, and the thread that takes the mark off acquires). Only the reader
//!    ever takes a mark off: a pass that did so for another pass could rely on a stale 0.
//! 4. **R1/R3 against P1 (`eqs`).** A grant is made after P3 read 0 and only for a proposal that this pass made
//!    or saw before its `H`; its number tells it from one that another pass made later, which the thread may not have
//!    seen when it entered. Either the pass sees R1, and there is no grant; or `H` fell before R1, and R3 sees
//!    the proposal (or what became of it), so that the reader re-enters the scan set before its first protected
//!    load: a read-modify-write of `eqs`, and if it was granted the run queue's lock and `fence(SeqCst)` (F1). The
//!    accesses of `eqs` themselves may be relaxed: what a grant changes besides it changes under that lock.
//! 5. **F1 against a pass that skips.** A pass looks for threads at all by `active` (of a vCPU) or `readers` (of
//!    the engine), read after `fence(SeqCst)` (F2). If it reads a value without the re-entering thread, F2 comes
//!    before F1 in the order of fences, and the thread's loads see the updater's stores. This is why a grace
//!    period with no thread in any scan set needs no `membarrier`. Where F2 stands right behind the release of a lock,
//!    x86-64 has no use for another instruction: that release is a locked one.
//!
//! Nothing here rests on the order between two readers: `H` gives none.
//!
//! One pass serves a whole leaf of a scan, or all leaves of an expedited grace period. The start of a normal
//! grace period itself therefore needs only F2: each later sample has its own `H` or F2 after the start.
//!
//! # Without membarrier
//!
//! `L` becomes `fence(SeqCst)` and `H` becomes `fence(SeqCst)`; the pairs above are then the textbook ones. The
//! readers' fast path is the same code: `eqs` and `special` carry a bit [`FENCED`] that sends each entry and each
//! exit through the slow path, where the fence is.
//!
//! # Non-preemptible readers
//!
//! Sections of `preempt=none` and `voluntary` have no words at all: only compiler barriers. A thread in the scan set
//! is inside a section for all that anybody knows until it passes a quiescent state, which it does itself: it loads
//! `special` (acquire) and, if marked, takes the run queue's lock and answers. The mark is set under that lock after
//! the grace period's start; the lock orders the thread's earlier sections before the report, and its later ones
//! after the updater's stores. Entering and leaving the scan set (attach, blocking, detach) goes through the lock and
//! F1. `H` is not needed anywhere.
//!
//! # Two threads blocked on one word
//!
//! [`super::park::Park`]: the sleeper announces (SeqCst swap), looks again, sleeps; the waker stores what is waited
//! for, then swaps. One of them sees the other.
//!
//! [`super::crowd::Crowd`] is the same for many sleepers: the sleeper counts itself, takes the word's value, looks; the
//! waker stores, looks at the count, and if it is not zero changes the word and wakes. A full barrier between the two
//! steps of each: either the sleeper's look sees what the waker stored, or the waker sees it counted, and then the word
//! that it named is old or it is asleep already.
//!
//! # Several threads as one kthread
//!
//! Where callers drive grace periods ([`super::drive`]) the kthread's variables go from thread to thread by the lock of its
//! role, which orders one holder's steps, and the passes in them, before the next one's as if one thread made them.
//! A caller that sleeps relies on the holder to see its request: request, stop being counted as a spinner, fence, try the
//! lock; the holder unlocks, fence, looks at requests and spinners. The kthread's own thread unlocks, announces that it is
//! going to sleep, fence, looks at requests.
//!
//! # Who checks this
//!
//! Loom models of these very functions, by every mutant of a fence, an order or a step: `tests/loom/mutants.rs` prints the
//! table, `tests/README.md` says what is not modelled. Who kills what:
//!
//! | mutant | killed by the models |
//! |---|---|
//! | R2 … R6, F1, P1 … P3, F2 | `reader: idle` and `reader: scanned`; R2 and R5 without membarrier by those with full fences |
//! | one word for `nesting` and `special` | `reader: idle` |
//! | a mark taken off without the slot's lock, or by a pass | `reader: scanned, 2 sections`; `hotplug: meanwhile` |
//! | an offer made after `H`; granted unchecked; another pass's later one granted | `attach: slot reused`; `reader: 2 passes, offered`; `reader: late grant` |
//! | `active` and the slot's vCPU relaxed | `attach: preemptible`; `hotplug: meanwhile` |
//! | announcing, waking and withdrawing of [`super::park`]; both fences of [`super::crowd`] | `wait: …` |
//! | the three fences of the role | `driven: …` |
//! | F2 of an expedited grace period, and its callers' wake-ups | `expedited: …` |
//!
//! The full fences of node locks and cookies happen to stand in for many of these: the models drop them too (`+others`).
//! Schedules alone, with every kind of waiter at once, are tried by `tests/shuttle`. On real threads, with `membarrier` and
//! without: `tests/host` and `tests/torture.rs`. They find a pass that looks at nobody or queues nobody at once; a missing
//! fence they do not find.

use crate::error::{Error, Result};
use crate::sync::{full_fence, heavy_fence};

/// Bit of `eqs` and `special`: readers have to execute full fences themselves.
pub(super) const FENCED: u32 = 1 << 31;

/// Which heavy fence an engine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceMode {
    /// `membarrier` where there is one, else the fallback.
    Auto,
    /// `membarrier(PRIVATE_EXPEDITED)`; an error where it is missing.
    Membarrier,
    /// Full fences in the readers.
    Fallback,
}

impl FenceMode {
    /// Names and values.
    pub const ALL: [(&'static str, FenceMode); 3] = [
        ("auto", FenceMode::Auto),
        ("membarrier", FenceMode::Membarrier),
        ("fallback", FenceMode::Fallback),
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            FenceMode::Auto => "auto",
            FenceMode::Membarrier => "membarrier",
            FenceMode::Fallback => "fallback",
        }
    }
}

/// The heavy fence in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeavyFence {
    #[cfg(target_os = "linux")]
    Membarrier,
    Full,
}

impl HeavyFence {
    pub fn choose(mode: FenceMode) -> Result<Self> {
        match (mode, register()) {
            (FenceMode::Fallback, _) => Ok(HeavyFence::Full),
            #[cfg(target_os = "linux")]
            (_, true) => Ok(HeavyFence::Membarrier),
            (FenceMode::Membarrier, _) => Err(Error::config(
                "fence",
                "membarrier",
                "this system has no membarrier(PRIVATE_EXPEDITED)",
                "auto, fallback",
            )),
            _ => Ok(HeavyFence::Full),
        }
    }

    /// What the readers' words carry.
    pub fn reader_bits(self) -> u32 {
        if self == HeavyFence::Full { FENCED } else { 0 }
    }

    /// `H`. Pairs with `L` of every reader.
    pub fn execute(self) {
        full_fence("P2");
        heavy_fence("P2");
        #[cfg(all(target_os = "linux", not(any(treercu_loom, treercu_shuttle))))]
        if self == HeavyFence::Membarrier {
            use rustix::thread::{MembarrierCommand, membarrier};
            // The process is registered, so this cannot fail.
            membarrier(MembarrierCommand::PrivateExpedited).expect("membarrier of a registered process");
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            HeavyFence::Membarrier => "membarrier",
            HeavyFence::Full => "fallback",
        }
    }
}

#[cfg(all(target_os = "linux", not(any(treercu_loom, treercu_shuttle))))]
fn register() -> bool {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
    membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
        && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

#[cfg(any(treercu_loom, treercu_shuttle))]
fn register() -> bool {
    crate::sync::model::has_membarrier()
}

#[cfg(not(any(target_os = "linux", treercu_loom, treercu_shuttle)))]
fn register() -> bool {
    false
}
