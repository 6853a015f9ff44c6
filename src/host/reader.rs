//! The three words of a thread that reads: what its fast path touches, and what others do to them.
//!
//! | word | written by | values |
//! |---|---|---|
//! | `nesting` | the thread, plain stores | sections open, one inside the other |
//! | `eqs` | read-modify-writes of anybody | is the thread in an extended quiescent state: `ACTIVE`, `PROPOSED`, `GRANTED` |
//! | `special` | read-modify-writes; only the thread clears | `MARK`: the outermost unlock has to take the slow path |
//!
//! Two words for `nesting` and `eqs`, never one: a plain store against a compare-exchange loses flags. The
//! argument for each order is in [`super::order`]; R1 … R6 and P1 … P3 are its names.

use super::order::FENCED;
use crate::sync::{AtomicU32, AtomicU64, Ordering, full_fence, light_fence, mutated, order};

/// In a scan set: passes look at the thread.
pub(super) const ACTIVE: u32 = 0;
/// A pass found it outside before and offers to leave it alone from now on.
pub(super) const PROPOSED: u32 = 1;
/// In an extended quiescent state: in no scan set, nobody looks.
pub(super) const GRANTED: u32 = 2;

/// The outermost unlock has more to do than count down.
pub(super) const MARK: u32 = 1;

/// The words. One cache line: the thread's own, read by others during a pass only.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ReaderWords {
    nesting: AtomicU64,
    eqs: AtomicU32,
    special: AtomicU32,
}

/// What a pass saw of a reader after its heavy fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// Outside any section.
    Outside,
    /// Inside, and the mark is still there.
    Inside,
    /// It took the mark off itself, so it has been outside since.
    Passed,
}

impl ReaderWords {
    /// In an extended quiescent state. `bits`: 0, or [`FENCED`].
    pub fn new(bits: u32) -> Self {
        ReaderWords {
            nesting: AtomicU64::new(0),
            eqs: AtomicU32::new(GRANTED | bits),
            special: AtomicU32::new(bits),
        }
    }

    /// `rcu_read_lock()`. True: [`ReaderWords::enter_slow`] has to follow.
    #[inline(always)]
    pub fn enter(&self) -> bool {
        let nesting = self.nesting.load(Ordering::Relaxed);
        self.nesting.store(nesting + 1, Ordering::Relaxed); // R1
        light_fence("R2");
        self.eqs.load(Ordering::Relaxed) != ACTIVE && !mutated("R3")
    }

    /// True: the thread was in an extended quiescent state and has to join its scan set, with a full fence
    /// (F1) behind that, before it reads anything.
    #[cold]
    pub fn enter_slow(&self) -> bool {
        if self.eqs.load(Ordering::Relaxed) & FENCED != 0 {
            full_fence("R2 in full"); // where there is no membarrier
        }
        if self.nesting() > 1 || self.eqs.load(Ordering::Relaxed) & !FENCED == ACTIVE {
            return false;
        }
        let before = self.eqs.fetch_and(FENCED, order("re-entry", Ordering::SeqCst));
        before & !FENCED == GRANTED
    }

    /// `rcu_read_unlock()`. True: [`ReaderWords::leave_slow`] has to follow.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        let nesting = self.nesting.load(Ordering::Relaxed) - 1;
        let flags = mutated("one word").then(|| self.special.load(Ordering::Relaxed));
        self.nesting.store(nesting, order("R4", Ordering::Release));
        if let Some(flags) = flags {
            // As if both were one word, written by a plain store.
            self.special.store(flags, Ordering::Relaxed);
        }
        light_fence("R5");
        self.special.load(Ordering::Relaxed) != 0 && !mutated("R6")
    }

    /// True: a pass marked the section that just ended; [`ReaderWords::clear_mark`] under the slot's lock
    /// has to follow.
    #[cold]
    pub fn leave_slow(&self) -> bool {
        if self.special.load(Ordering::Relaxed) & FENCED != 0 {
            full_fence("R5 in full"); // where there is no membarrier
        }
        self.nesting() == 0 && self.special.load(Ordering::Relaxed) & MARK != 0
    }

    /// The thread itself, outside any section, takes the mark off. Acquire: what follows sees what came
    /// before the mark. Release: the pass that misses the mark sees that the section is over.
    pub fn clear_mark(&self) {
        self.special.fetch_and(!MARK, order("clear", Ordering::AcqRel));
    }

    /// Sections open, as the thread itself knows it.
    #[inline]
    pub fn nesting(&self) -> u64 {
        self.nesting.load(Ordering::Relaxed)
    }

    /// The thread itself: in a scan set, or at least not granted yet.
    pub fn is_active(&self) -> bool {
        self.eqs.load(order("is active", Ordering::SeqCst)) & !FENCED != GRANTED
    }

    /// The thread itself, under its run queue's lock and outside any section: out of the scan set.
    pub fn set_granted(&self) {
        self.eqs.fetch_or(GRANTED, order("leave set", Ordering::SeqCst));
        self.eqs
            .fetch_and(!PROPOSED, order("leave set", Ordering::SeqCst));
    }

    /// The thread itself: back in the scan set.
    pub fn set_active(&self) {
        self.eqs.fetch_and(FENCED, order("set active", Ordering::SeqCst));
    }

    /// P1: the next outermost unlock has to answer. Release: who sees the mark sees what came before it.
    pub fn mark(&self) {
        if mutated("P1 skipped") {
            return;
        }
        self.special.fetch_or(MARK, order("P1", Ordering::Release));
    }

    /// Somebody asked the thread for something.
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.special.load(order("is marked", Ordering::Acquire)) & MARK != 0
    }

    /// P1: offer an extended quiescent state. True: this pass may grant it after its heavy fence.
    pub fn propose(&self) -> bool {
        let bits = self.eqs.load(Ordering::Relaxed) & FENCED;
        let order = order("offer", Ordering::SeqCst);
        match self
            .eqs
            .compare_exchange(ACTIVE | bits, PROPOSED | bits, order, order)
        {
            Ok(_) => true,
            Err(now) => now & !FENCED == PROPOSED,
        }
    }

    /// P3, under the slot's lock where the answer is to be acted upon.
    pub fn sample(&self) -> Sample {
        if self.nesting.load(order("P3", Ordering::Acquire)) == 0 {
            Sample::Outside
        } else if self.special.load(order("P3 mark", Ordering::Acquire)) & MARK != 0 {
            Sample::Inside
        } else {
            Sample::Passed
        }
    }

    /// After P3 found the thread outside, under its run queue's lock: it leaves the scan set. False: it took
    /// the offer back.
    pub fn grant(&self) -> bool {
        self.settle(GRANTED)
    }

    /// The offer does not stand.
    pub fn take_back(&self) {
        self.settle(ACTIVE);
    }

    fn settle(&self, to: u32) -> bool {
        let bits = self.eqs.load(Ordering::Relaxed) & FENCED;
        let order = order("settle", Ordering::SeqCst);
        if mutated("grant unchecked") {
            return self.eqs.swap(to | bits, order) & !FENCED != GRANTED;
        }
        self.eqs
            .compare_exchange(PROPOSED | bits, to | bits, order, order)
            .is_ok()
    }
}
