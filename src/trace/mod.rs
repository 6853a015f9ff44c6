//! Trace events under the kernel's tracepoint names, bounded, on request.
//!
//! The engine emits [`Event`]s; its world adds when, on which CPU and in which task. A [`Trace`] keeps
//! the first so many and counts the rest. [`Trace::to_ftrace`] writes them as ftrace prints them, so
//! that tools made for kernel traces read ours.

mod text;

/// Default limit on the records of one trace.
pub const DEFAULT_TRACE_LIMIT: usize = 1_000_000;
/// Hard limit on the records of one trace.
pub const MAX_TRACE_LIMIT: usize = 200_000_000;

/// Counts of the four segments of a callback list, or their numbers.
pub type Segments = [u64; 4];

/// What happened, by tracepoint. Numbers are as the tracepoint prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// `rcu_utilization`: beginnings and ends of RCU's own work.
    Utilization(&'static str),
    /// `rcu_grace_period`: number and what happened to it.
    GracePeriod {
        /// The number printed with this event.
        gp_seq: u64,
        /// `newreq`, `start`, `end`, `fqswait`, `cpuqs` …
        what: &'static str,
    },
    /// `rcu_future_grace_period`: a request on its way through the funnel.
    FutureGracePeriod {
        /// The node's number.
        gp_seq: u64,
        /// The number asked for.
        req: u64,
        /// Level of the node.
        level: u32,
        /// Lowest CPU of the node.
        grplo: u32,
        /// Highest CPU of the node.
        grphi: u32,
        /// `Startleaf`, `Startedroot`, `Cleanup` …
        what: &'static str,
    },
    /// `rcu_grace_period_init`: a node was initialised.
    GracePeriodInit {
        /// The grace period.
        gp_seq: u64,
        /// Level of the node.
        level: u32,
        /// Lowest CPU of the node.
        grplo: u32,
        /// Highest CPU of the node.
        grphi: u32,
        /// Who owes a quiescent state.
        qsmask: u64,
    },
    /// `rcu_quiescent_state_report`: bits of a node were cleared.
    QuiescentStateReport {
        /// The grace period.
        gp_seq: u64,
        /// Bits cleared.
        mask: u64,
        /// Bits left.
        qsmask: u64,
        /// Level of the node.
        level: u32,
        /// Lowest CPU of the node.
        grplo: u32,
        /// Highest CPU of the node.
        grphi: u32,
        /// Blocked readers are waited for too.
        gp_tasks: bool,
        /// By the last blocked reader (prints another flavour name).
        by_reader: bool,
    },
    /// `rcu_fqs`: the scan found a CPU in, or past, an extended quiescent state.
    Fqs {
        /// The CPU's number, possibly of an earlier grace period.
        gp_seq: u64,
        /// The CPU.
        cpu: u32,
    },
    /// `rcu_preempt_task`: a reader was preempted inside its section.
    PreemptTask {
        /// The grace period that it will block.
        gp_seq: u64,
        /// The reader.
        pid: u64,
    },
    /// `rcu_unlock_preempted_task`: it left the section.
    UnlockPreemptedTask {
        /// The leaf's number.
        gp_seq: u64,
        /// The reader.
        pid: u64,
        /// Told at the start of a grace period that this reader blocks (prints another name).
        at_gp_start: bool,
    },
    /// `rcu_sr_normal`: a normal `synchronize_rcu()`.
    SrNormal {
        /// The request.
        rhp: u64,
        /// `request` or `complete`.
        what: &'static str,
    },
    /// `rcu_callback`: a callback was queued.
    Callback {
        /// The callback.
        rhp: u64,
        /// Its function.
        func: &'static str,
        /// Queue length with it.
        qlen: u64,
    },
    /// `rcu_segcb_stats`: segments of a callback list.
    SegCbStats {
        /// `SegCbPreAcc`, `SegCbPostAcc`, `SegCbDequeued`, `SegCBQueued`.
        what: &'static str,
        /// Callbacks per segment.
        seglen: Segments,
        /// Numbers per segment.
        gp_seq: Segments,
    },
    /// `rcu_batch_start`: callbacks are about to be invoked.
    BatchStart {
        /// Queue length.
        qlen: u64,
        /// Batch limit.
        blimit: u64,
    },
    /// `rcu_invoke_callback`: one is invoked.
    InvokeCallback {
        /// The callback.
        rhp: u64,
        /// Its function.
        func: &'static str,
    },
    /// `rcu_batch_end`: the batch is over.
    BatchEnd {
        /// Callbacks invoked.
        invoked: u64,
        /// Ready callbacks are left.
        more: bool,
        /// A context switch is wanted.
        need_resched: bool,
        /// On top of the idle task.
        idle: bool,
    },
    /// `rcu_exp_grace_period`: a step of an expedited grace period, or of a caller.
    ExpGracePeriod {
        /// The number by which the grace period, or the caller, is done.
        gp_seq: u64,
        /// `snap`, `start`, `reset`, `select`, `startwait`, `end`, `endwake`, `done`.
        what: &'static str,
    },
    /// `rcu_exp_funnel_lock`: a caller on its way to the root.
    ExpFunnelLock {
        /// Level of the node.
        level: u32,
        /// Lowest CPU of the node.
        grplo: u32,
        /// Highest CPU of the node.
        grphi: u32,
        /// `nxtlvl`: goes on; `wait`: sleeps here.
        what: &'static str,
    },
    /// `rcu_stall_warning`: `SelfDetected`, `StallDetected` or `ExpeditedStall`.
    StallWarning(&'static str),
    /// `rcu_barrier`: a step of `rcu_barrier()`.
    Barrier {
        /// `Begin`, `Inc1`, `OnlineQ` …
        what: &'static str,
        /// The CPU concerned, or -1.
        cpu: i64,
        /// The count.
        remaining: u64,
        /// The sequence word, or the caller's target for `Begin`.
        done: u64,
    },
}

/// In what context an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// A task.
    Task,
    /// A hard interrupt.
    HardIrq,
    /// A softirq.
    SoftIrq,
}

/// One event with its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When, ns of virtual time.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Name of the current task.
    pub comm: &'static str,
    /// Its id; 0: idle.
    pub pid: u32,
    /// Interrupt context.
    pub context: Context,
    /// What happened.
    pub event: Event,
}

/// The events of a run, in the order in which they were emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Flavour name that most events print: `rcu_preempt` or `rcu_sched`.
    pub flavour: &'static str,
    /// The events, oldest first.
    pub records: Vec<Record>,
    /// Events that came after the limit was reached.
    pub dropped: u64,
    limit: usize,
}

impl Trace {
    /// An empty trace of at most `limit` records.
    pub fn new(preemptible: bool, limit: usize) -> Self {
        Trace {
            flavour: if preemptible { "rcu_preempt" } else { "rcu_sched" },
            records: Vec::new(),
            dropped: 0,
            limit,
        }
    }

    /// An empty one of the same kind.
    pub(crate) fn emptied(&self) -> Self {
        Trace {
            flavour: self.flavour,
            records: Vec::new(),
            dropped: 0,
            limit: self.limit,
        }
    }

    /// Counts time from `ns` on; what was before is left out.
    pub(crate) fn begin_at(&mut self, ns: u64) {
        self.records.retain(|record| record.at_ns >= ns);
        for record in &mut self.records {
            record.at_ns -= ns;
        }
    }

    /// Adds a record, or counts it as dropped.
    pub fn push(&mut self, record: Record) {
        if self.records.len() < self.limit {
            self.records.push(record);
        } else {
            self.dropped += 1;
        }
    }

    /// The records, oldest time first. Effects of one step carry the step's own progress, so the order
    /// of emission is kept only within one instant.
    pub fn in_order(&self) -> Vec<&Record> {
        let mut order: Vec<&Record> = self.records.iter().collect();
        order.sort_by_key(|record| record.at_ns);
        order
    }

    /// An event as its line ends in ftrace's output: `rcu_grace_period: rcu_preempt 5 start`.
    pub fn event_text(&self, event: &Event) -> String {
        text::event_text(self.flavour, event)
    }

    /// The trace as ftrace prints it: one line an event, oldest time first.
    pub fn to_ftrace(&self) -> String {
        text::ftrace(self)
    }
}
