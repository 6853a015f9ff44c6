//! The seam: what a domain asks of its surroundings. As with the tree's, no lock is held across a call except `now`
//! and `jiffies`, and a world never calls back into the domain from inside a call. A world serves one domain.

use crate::tree::waiters::Waiter;

/// Locks whose contention is metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lock {
    /// One CPU's callback list.
    Cpu(u32),
    /// The domain's.
    Domain,
}

/// A piece of work with a cost: the simulated world charges it, a real one has already paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Reader counters of this many CPUs were read, of one index, locks or unlocks.
    Sum(u32),
    /// The full barrier between the two sums.
    Barrier,
    /// The index was flipped.
    Flip,
    /// A grace period began.
    GpStart,
    /// It ended.
    GpEnd,
    /// One node was visited, or one CPU's data.
    Node,
    /// A callback was queued or a cookie taken.
    Call,
}

/// A grace period that just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpRecord {
    /// The number, while it was in its first scan.
    pub gp_seq: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Zero tests done.
    pub tests: u32,
    /// Runs of the work item.
    pub runs: u32,
    /// It was expedited when it ended.
    pub expedited: bool,
}

/// A domain's surroundings.
pub trait World {
    /// Time in ns, including what was spent since the current step began.
    fn now(&self) -> u64;
    /// The tick counter.
    fn jiffies(&self) -> u64;
    /// The CPU has been fully online at some time.
    fn was_online(&self, cpu: u32) -> bool;
    /// A metered lock is about to be taken. True: somebody seems to hold it. (A world whose locks are real says no,
    /// and the lock itself is asked.)
    fn is_contended(&mut self, lock: Lock) -> bool;
    /// Have [`super::Srcu::start_work`] called soon, outside all locks (an `irq_work` there).
    fn queue_start(&mut self);
    /// Queue the domain's work item so many jiffies from now, unless it is queued or timed already.
    fn queue_gp(&mut self, delay: u64);
    /// Queue this CPU's callback work so many jiffies from now; an earlier time wins. It runs there, if it can.
    fn queue_callbacks(&mut self, cpu: u32, delay: u64);
    /// Release a waiter. `gp_seq`: the number at that moment.
    fn complete(&mut self, waiter: Waiter, gp_seq: u64);
    /// CPU time was used for `work`.
    fn spend(&mut self, _work: Work) {}
    /// A grace period began, with this number.
    fn grace_period_began(&mut self, _gp_seq: u64) {}
    /// A grace period ended, before anybody learns of it.
    fn grace_period_ended(&mut self, _record: &GpRecord) {}
}
