//! The seam: what the engine asks of its surroundings, and who calls it from where.
//!
//! Rules: no engine lock is held across a call except `now`, `jiffies`, `watching`, `spend` and `emit`; a
//! world never calls back into the engine from inside a call, it only records.

use super::stall::StallReport;
use super::waiters::Waiter;
use super::watching::WatchSnap;
use crate::stats::{GracePeriods, Resolution};
use crate::trace::Event;

/// What runs on the CPU that enters the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Current {
    /// The idle task.
    Idle,
    /// The grace-period kthread.
    GpKthread,
    /// Any other task.
    Task,
}

/// Who is calling, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ctx {
    /// The CPU.
    pub cpu: u32,
    /// In a hard interrupt or softirq.
    pub in_irq: bool,
    /// What that CPU was running.
    pub current: Current,
}

/// What a timer tick interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickHit {
    /// User mode.
    User,
    /// The idle task.
    Idle,
    /// Kernel code that may be preempted.
    Kernel,
    /// Kernel code with preemption or softirqs disabled, which is a read-side section.
    KernelSection,
}

/// Interrupts that the engine sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ipi {
    /// Calls [`super::Rcu::barrier_ipi`] there. A world that finds the CPU offline makes the call on its
    /// behalf.
    Barrier,
    /// Calls [`super::Rcu::exp_ipi`] there. One that finds its CPU offline is dropped: the CPU has reported
    /// on its way out.
    Exp,
}

/// Kernel threads of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kthread {
    /// The grace-period kthread.
    Gp,
    /// `rcuog` of this group of offloaded CPUs.
    NocbGp(u32),
    /// `rcuop` of this CPU.
    NocbCb(u32),
}

/// Deferred work of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkItem {
    /// Wake the `synchronize_rcu()` callers that the kthread left over (`srs_cleanup_work`).
    SrsCleanup,
}

/// Why a heavy fence is asked for. It pairs with every reader's light fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Between the start of the grace-period number and the first `qsmask` store: no sample of a
    /// reader taken before it counts for this grace period.
    GpStart,
}

/// A piece of work with a cost: the simulated world charges it, a real one has already paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Fixed part of starting a grace period.
    GpStart,
    /// Hotplug pass of a leaf.
    HotplugLeaf,
    /// Initialisation of a node.
    InitNode,
    /// The early report.
    EarlyReport,
    /// A scan looked at this many CPUs of one leaf.
    ScanCpus(u32),
    /// Cleanup of a node.
    CleanupNode,
    /// A callback was queued.
    CallRcu,
    /// Fixed part of starting an expedited grace period.
    ExpStart,
    /// This many inner nodes were reset for one.
    ExpReset(u32),
    /// A leaf was reset, and this many CPUs of it looked at.
    ExpSelect(u32),
    /// An expedited grace period was ended.
    ExpEnd,
}

/// A grace period that just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpRecord {
    /// `rs.gp_seq` while it ran.
    pub gp_seq: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Scans done.
    pub scans: u32,
    /// CPUs that those scans looked at.
    pub cpus_scanned: u64,
    /// Last CPU waited for, if any.
    pub holdout_cpu: Option<u32>,
    /// How that CPU was resolved.
    pub resolved_by: Resolution,
    /// CPU on which the kthread ended it.
    pub kthread_cpu: u32,
}

impl GpRecord {
    /// Adds it to the records of a run. `requests`: calls that it has released already.
    pub(crate) fn append_to(&self, records: &mut GracePeriods, requests: i64) {
        records.gp_seq.push(self.gp_seq as i64);
        records.start_ns.push(self.start_ns as i64);
        records.end_ns.push(self.end_ns as i64);
        records.requests.push(requests);
        records.scans.push(self.scans as i32);
        records
            .holdout_cpu
            .push(self.holdout_cpu.map_or(-1, |cpu| cpu as i32));
        records.resolved_by.push(self.resolved_by as i32);
        records.kthread_cpu.push(self.kthread_cpu as i32);
    }
}

/// The engine's surroundings.
pub trait World {
    /// Time in ns, including what was spent since the current step began.
    fn now(&self) -> u64;
    /// The tick counter.
    fn jiffies(&self) -> u64;
    /// A barrier against all readers.
    fn heavy_fence(&mut self, why: Fence);
    /// The CPU's context-tracking counter, read with full ordering.
    fn watching(&self, cpu: u32) -> WatchSnap;
    /// Wake a kthread. The engine has already bumped the ticket it waits on.
    fn wake(&mut self, kthread: Kthread);
    /// Have the RCU core run on that CPU soon.
    fn raise_core(&mut self, cpu: u32);
    /// Interrupt that CPU. A world that finds it offline does what the interrupt says about that.
    fn send_ipi(&mut self, cpu: u32, ipi: Ipi);
    /// Pass through an extended quiescent state for a moment (this CPU).
    fn momentary_eqs(&mut self, cpu: u32);
    /// Ask that CPU for a context switch.
    fn resched(&mut self, cpu: u32);
    /// Release a waiter. `gp_seq` is the number, while it ran, of the grace period that served it (of an
    /// expedited call: `expedited_sequence` at that moment).
    fn complete(&mut self, waiter: Waiter, gp_seq: u64);
    /// Run [`super::Rcu::work`] soon, on any CPU, in a task. False: it was queued already and has
    /// not begun to run.
    fn queue_work(&mut self, item: WorkItem) -> bool;
    /// Account for work done.
    fn spend(&mut self, work: Work);
    /// Has [`super::Rcu::nocb_timer`] called in so many jiffies, and not when it was to be called before.
    fn set_nocb_timer(&mut self, _group: u32, _jiffies: u64) {
        unreachable!("no CPU of this world is offloaded")
    }
    /// Does not have it called.
    fn cancel_nocb_timer(&mut self, _group: u32) {
        unreachable!("no CPU of this world is offloaded")
    }
    /// Nobody but the caller can be inside a section on that CPU, which is its own. Always so where a CPU runs
    /// one task at a time.
    fn is_alone(&self, _cpu: u32) -> bool {
        true
    }
    /// Trace events are wanted.
    fn tracing(&self) -> bool {
        false
    }
    /// A trace event; called only while [`World::tracing`].
    fn trace(&mut self, _event: Event) {}
    /// Emits a trace event, which is made only when it is wanted.
    fn emit(&mut self, event: impl FnOnce() -> Event) {
        if self.tracing() {
            let event = event();
            self.trace(event);
        }
    }
    /// A grace period has lasted too long.
    fn stall(&mut self, report: &StallReport);
    /// A grace period ended.
    fn grace_period_ended(&mut self, record: &GpRecord);
}
