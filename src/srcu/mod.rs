//! Tree SRCU: sleepable RCU as state machines that never block, read no clock and start no thread.
//!
//! A user owns a *domain* ([`Srcu`]). Only the readers of that domain delay its grace periods, so they may sleep,
//! migrate and nest as they like. A reader adds one to a per-CPU counter when it comes and to another one when it goes; a
//! grace period sums both over all CPUs and waits for equality, once for each of two pairs of counters. Nothing else
//! of the machine takes part: no tick, no interrupt, no scheduler.
//!
//! | file | mechanism |
//! |---|---|
//! | [`world`] | the seam: what a domain asks of its surroundings |
//! | [`order`] | why two sums of relaxed counters are enough: the memory-ordering argument |
//! | `domain` | the shared state, initialisation on first use |
//! | `flavour` | kinds of readers |
//! | `reader` | the per-CPU counters, entering and leaving |
//! | `zero` | the zero test |
//! | `gp` | the grace-period work item: IDLE, SCAN1, flip, SCAN2, end |
//! | `delay` | how long the work item waits before it looks again |
//! | `launch` | the end of a grace period has callbacks invoked |
//! | `funnel` | requests climb from a leaf to the domain |
//! | `request` | `call_srcu`, cookies, `synchronize_srcu` |
//! | `invoke` | callbacks, in batches |
//! | `expedite` | who expedites by itself, and `srcu_expedite_current` |
//! | `barrier` | `srcu_barrier` |
//! | `size` | small and big domains, contention |
//! | `cleanup` | what has to be true before a domain goes |
//! | `stats` | the line that rcutorture prints |
//!
//! # Invariants
//!
//! - **S1** A grace period ends only after each pair of counters was found quiescent once since it began, so every
//!   reader that was there at its beginning has left.
//! - **S2** The pair under test is the one that new readers avoid, so newcomers cannot hold a grace period up.
//! - **S3** At most one run of a domain's work item at a time: the world sees to it. It stands for the kernel's
//!   `srcu_gp_mutex` and `srcu_cb_mutex`, so callbacks of one grace period are launched before the next one ends, and
//!   four slots in a node suffice.
//! - **S4** A request is numbered before the list is advanced, never after: its callbacks always fit.
//! - **S5** A leaf's slot that holds a grace period's number has the bit of each CPU that waits for it; a slot that is
//!   past it sends the newcomer straight to its callbacks.
//! - **S6** One CPU's callbacks are invoked by one worker at a time, which is what makes the barrier sound.
//! - **S7** Sizes change one state per end of a grace period: first the barrier looks everywhere, then callbacks are
//!   queued everywhere, then four grace periods pass before slots are trusted.
//! - **S8** Once a demand has reached the domain it is met: while the number is behind `gp_seq_needed`, the work item
//!   is queued, timed or running.
//!
//! # How long it takes without readers
//!
//! | case | time to completion |
//! |---|---|
//! | a domain at rest, or `synchronize_srcu_expedited()` | two dispatches of work and two zero tests: tens of µs |
//! | normal (within the hold-off of the latest grace period) | timer wheel's first tick, two tests, the same again for callbacks |
//! | normal, with a reader that stays | waits as long as the grace period is old, 1 jiffy at least and 10 at most, between two looks |
//! | expedited, with a short reader | looks some µs apart, until a phase's or a jiffy's budget of them is used up |
//! | fast or light readers | as above and two RCU grace periods, one a zero test |
//!
//! `tests/srcu_model.rs` derives these from the machine's costs, term by term, and compares.
//!
//! Not here: the boot list (a domain is used once the world runs), the detection of a callback that is queued twice
//! (a callback is owned), warnings about mixed flavours (a domain has one).

mod barrier;
mod cleanup;
mod delay;
mod domain;
mod expedite;
mod flavour;
mod funnel;
mod gp;
mod invoke;
mod launch;
pub mod order;
mod reader;
mod request;
mod size;
mod stats;
#[cfg(test)]
mod tests;
pub mod world;
mod zero;

pub use cleanup::Unclean;
pub use domain::{BOOT_CPU, Cb, SEQ_INITIAL, Srcu};
pub use flavour::Flavour;
pub use gp::{GpWait, GpWork, IDLE, SCAN1, SCAN2};
pub use invoke::Batch;
pub use reader::Index;
pub use request::COMPLETED;
pub use size::SizeState;
pub use world::{GpRecord, Lock, Work, World};
pub use zero::Scan;
