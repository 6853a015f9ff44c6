//! Tasks: what each kind does next, and its state.

use super::program::SrcuReader;
use super::random::Stream;
use crate::tree::waiters::Waiter;
use std::num::NonZeroU32;

/// Index of a task.
pub(super) type TaskId = u32;

/// A timer on the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerId {
    /// Timeout of the grace-period kthread's sleep.
    GpTimeout,
    /// Timeout of an expedited caller's wait, after which it reports a stall.
    ExpTimeout(TaskId),
    /// The delay of this SRCU domain's work item.
    SrcuGp(u32),
    /// The delay of this domain's callbacks of this CPU.
    SrcuCallbacks(u32, u32),
    /// A deferred wake-up of this group's `rcuog`.
    Nocb(u32),
    /// This `rcuog` polls.
    NocbPoll(u32),
}

/// Scheduling class, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SchedClass {
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_OTHER.
    Other,
}

/// What a running task's time counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMode {
    /// User mode.
    User,
    /// Preemptible kernel code.
    Kernel,
    /// Kernel code with preemption disabled: a read-side section.
    Section,
}

/// Where a `synchronize_rcu()` caller is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncPhase {
    /// Before a call (first, or after gap, think time or due time).
    Call,
    /// In `synchronize_rcu()`, not yet blocking.
    Entering,
    /// About to block or to return.
    InCall,
    /// In `synchronize_rcu_expedited()`.
    Expedited,
    /// Polling with a cookie.
    Polling,
    /// Polling with a full cookie.
    PollingFull,
    /// All done.
    Done,
}

/// One `synchronize_rcu()` caller.
#[derive(Debug)]
pub(super) struct SyncCaller {
    pub waiter: Waiter,
    pub phase: SyncPhase,
    /// Task number in the samples.
    pub number: u32,
    /// Which sync-flood part.
    pub part: u32,
    /// When the first call is due.
    pub first_due: u64,
    pub calls_made: u32,
    pub start_ns: u64,
    pub start_cpu: u32,
    /// The grace period that released the call, once it did, counted from 1 at boot.
    pub released_by: Option<NonZeroU32>,
    /// The call's callback (for observers), or its polling cookie unless that is a full one.
    pub ticket: u64,
    /// The call is on the direct route.
    pub direct: bool,
}

/// Where a CPU load is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadCaller {
    /// Which cpu-load part.
    pub part: u32,
    /// End of the current busy stretch.
    pub stretch_until: u64,
    /// The section to open next, or open now.
    pub in_section: bool,
    pub section: u64,
    /// Its duration is over.
    pub done: bool,
}

/// Where a reader is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaderPhase {
    /// Outside any section.
    Outside,
    /// In the first half, all levels of nesting open.
    FirstHalf,
    /// In the second half, only the outermost level open.
    SecondHalf,
    /// The rest of a preemption-disabled region around the outermost unlock.
    Disabled,
}

/// A task with read-side sections.
#[derive(Debug)]
pub(super) struct ReaderTask {
    pub part: u32,
    /// Index of its read-side state.
    pub reader: u32,
    pub phase: ReaderPhase,
    pub sections_left: u64,
    pub random: Stream,
    /// Second half of the section in progress, ns.
    pub rest: u64,
    /// Preemption is disabled around this section's outermost unlock.
    pub deferred: bool,
    pub section: u64,
    pub done: bool,
}

/// A task that queues callbacks.
#[derive(Debug)]
pub(super) struct FloodTask {
    pub part: u32,
    pub callbacks_left: u64,
    /// Callbacks of the current burst still to queue.
    pub burst_left: u64,
    pub random: Stream,
    pub done: bool,
}

/// The task that takes CPUs offline and online.
#[derive(Debug)]
pub(super) struct HotplugTask {
    pub part: u32,
    pub transitions_left: u64,
    pub random: Stream,
    /// CPU that is on its way offline.
    pub waiting_for: Option<u32>,
    pub done: bool,
}

/// What a task does.
#[derive(Debug)]
pub(super) enum Program {
    GpKthread,
    /// A caller, by its index among the callers.
    Sync(u32),
    Load(Box<LoadCaller>),
    Reader(Box<ReaderTask>),
    Flood(Box<FloodTask>),
    Hotplug(Box<HotplugTask>),
    /// A task of the guest, by its number there; where its read-side state is; its wait is over.
    Guest {
        index: u32,
        reader: u32,
        released: bool,
    },
    /// The `sync_wq` worker.
    Worker,
    /// A worker of a CPU's work queue, by its number.
    Kworker(u32),
    /// An updater of an SRCU domain, by its index among them.
    SrcuCaller(u32),
    SrcuReader(Box<SrcuReader>),
    /// Background noise of one CPU; its bursts are set from outside.
    Noise,
    Ksoftirqd,
    /// `rcuog` of a group of offloaded CPUs.
    NocbGp(u32),
    /// `rcuop` of an offloaded CPU.
    NocbCb(u32),
}

impl Program {
    /// The task's name in traces.
    pub(super) fn comm(&self) -> &'static str {
        match self {
            Program::GpKthread => "rcu_gp_kthread",
            Program::Sync(_) => "sync",
            Program::Load(_) => "load",
            Program::Reader(_) => "reader",
            Program::Flood(_) => "flood",
            Program::Hotplug(_) => "cpuhp",
            Program::Guest { .. } => "rcu_torture",
            Program::Worker | Program::Kworker(_) => "kworker",
            Program::SrcuCaller(_) => "srcu",
            Program::SrcuReader(_) => "srcu_reader",
            Program::Noise => "noise",
            Program::Ksoftirqd => "ksoftirqd",
            Program::NocbGp(_) => "rcuog",
            Program::NocbCb(_) => "rcuop",
        }
    }
}

/// Scheduler state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskState {
    Running,
    Queued,
    Blocked,
}

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    pub program: Program,
    pub state: TaskState,
    pub class: SchedClass,
    /// May not leave its CPU.
    pub pinned: bool,
    /// Where it runs, or last ran.
    pub cpu: u32,
    /// Part of its slice used before it was last preempted, ns (saturating).
    pub slice_used: u32,
    /// Rest of the current burst, ns; `u64::MAX`: endless.
    pub burst: u64,
    pub mode: RunMode,
    /// Woken while not asleep: the next block returns at once.
    pub wake_pending: bool,
}

impl Task {
    /// Belongs to its CPU as such and waits for it while it is offline. Other pinned tasks lose their
    /// affinity then.
    pub(super) fn is_per_cpu_kthread(&self) -> bool {
        matches!(self.program, Program::Noise | Program::Ksoftirqd)
    }
}

/// What a task wants when its burst is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Run this long in this mode, then ask again.
    Burst(u64, RunMode),
    /// Sleep until woken.
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Task state decides how large a flood fits, and how fast it runs: keep it small.
    #[test]
    fn tasks_are_small() {
        println!(
            "Task {} SyncCaller {}",
            size_of::<Task>(),
            size_of::<SyncCaller>()
        );
        assert!(size_of::<Task>() <= 40, "{}", size_of::<Task>());
        assert!(size_of::<SyncCaller>() <= 56, "{}", size_of::<SyncCaller>());
    }
}
