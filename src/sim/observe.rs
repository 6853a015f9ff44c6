//! The window through which an oracle watches a run: what happened in the simulated world, and the
//! tree's state after it. The engine neither knows nor pays for it when nobody looks.

use crate::srcu::Scan;
use crate::tree::Snapshot;
use crate::workload::{SrcuCallKind, SyncCallKind};

/// Something that happened, seen from outside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// A read-side section began (a preemption-disabled stretch of a kernel load, or an interrupt
    /// handler or softirq, which are read-side sections too).
    SectionBegin {
        /// Unique id of the section.
        id: u64,
        /// Where.
        cpu: u32,
    },
    /// That section ended.
    SectionEnd {
        /// Its id.
        id: u64,
    },
    /// `synchronize_rcu()`, or another way to wait, was entered.
    SyncBegin {
        /// Task id.
        task: u32,
        /// Where.
        cpu: u32,
        /// Direct-wake route (`Sync` only; else by callback).
        direct: bool,
        /// How the task waits.
        kind: SyncCallKind,
    },
    /// That task's `synchronize_rcu()` returned.
    SyncEnd {
        /// Task id.
        task: u32,
    },
    /// A callback was queued on this CPU. Ids grow in queueing order.
    CallbackQueued {
        /// Where.
        cpu: u32,
        /// Unique id.
        id: u64,
    },
    /// A callback was invoked on this CPU.
    CallbackInvoked {
        /// Where.
        cpu: u32,
        /// Its id.
        id: u64,
    },
    /// The CPU entered an extended quiescent state.
    EqsEnter {
        /// Which CPU.
        cpu: u32,
    },
    /// The CPU left it.
    EqsExit {
        /// Which CPU.
        cpu: u32,
    },
    /// The scheduler switched this CPU to another task.
    ContextSwitch {
        /// Which CPU.
        cpu: u32,
    },
    /// Long kernel code of a non-preemptible kernel passed a reschedule point (`cond_resched()`) on this
    /// CPU without switching.
    ReschedPoint {
        /// Which CPU.
        cpu: u32,
    },
    /// A timer tick ran on this CPU (the RCU part is done).
    Tick {
        /// Which CPU.
        cpu: u32,
        /// It interrupted user mode.
        user: bool,
    },
    /// The RCU core ran on this CPU.
    Core {
        /// Which CPU.
        cpu: u32,
    },
    /// One step of a `synchronize_rcu_expedited()` is done, outside any section.
    ExpStep {
        /// The task that called.
        task: u32,
        /// Where it ran.
        cpu: u32,
    },
    /// The interrupt of an expedited grace period was handled on this CPU, in a section of its own.
    ExpIpi {
        /// Which CPU.
        cpu: u32,
    },
    /// One step of the grace-period kthread is done.
    GpStep {
        /// Where it ran.
        cpu: u32,
    },
    /// A direct-wake request was completed (its waiter woken), by the kthread or the worker.
    DirectComplete {
        /// The waiting task.
        task: u32,
    },
    /// A CPU came online: grace periods that start from now on wait for it.
    CpuOnline {
        /// Which CPU.
        cpu: u32,
    },
    /// A CPU went offline; what it had queued moves to another CPU later.
    CpuOffline {
        /// Which CPU.
        cpu: u32,
    },
    /// The callbacks of a CPU that went offline were taken over.
    CallbacksMigrated {
        /// Dead CPU.
        from: u32,
        /// Surviving CPU.
        to: u32,
    },
    /// Something happened in an SRCU domain.
    Srcu {
        /// Number of the workload part that the domain belongs to.
        part: u32,
        /// What.
        sight: SrcuSight,
    },
    /// The run is over; `interrupted` as in the result.
    End {
        /// Cut short by a cancel request.
        interrupted: bool,
    },
}

/// What happened in an SRCU domain, seen from outside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SrcuSight {
    /// A reader counted itself: its section is open.
    Enter {
        /// Unique id of the section.
        id: u64,
    },
    /// It counted itself out.
    Exit {
        /// Its id.
        id: u64,
    },
    /// A call began. `Call`: the callback with this number was queued.
    Begin {
        /// Unique id of the call, growing.
        id: u64,
        /// What kind.
        kind: SrcuCallKind,
    },
    /// It returned. `Call`: its callback was invoked.
    End {
        /// Its id.
        id: u64,
    },
    /// A grace period began.
    GpBegin {
        /// Its number.
        gp_seq: u64,
    },
    /// It ended.
    GpEnd {
        /// The same number.
        gp_seq: u64,
    },
}

/// Watches a run. Implementations check what they see and panic, or collect, on a violation.
pub trait Observer {
    /// False lets the compiler remove every look.
    const ACTIVE: bool = true;

    /// For tests: a scan that SRCU domains leave out, to see whether the observer notices.
    #[doc(hidden)]
    fn skipped_scan(&self) -> Option<Scan> {
        None
    }

    /// `at_ns` never decreases, except that effects inside one step carry the step's own progress
    /// and may be ahead of other CPUs' events that follow. `snapshot` is taken on demand, after the event.
    fn see(&mut self, at_ns: u64, sight: Sight, snapshot: &dyn Fn() -> Snapshot);
}

/// Nobody looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const ACTIVE: bool = false;
    fn see(&mut self, _at_ns: u64, _sight: Sight, _snapshot: &dyn Fn() -> Snapshot) {}
}
