//! The whole tree as plain data, for oracles, pictures and debugging.

/// One `rcu_node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// 0 = root.
    pub level: u32,
    /// Lowest CPU covered.
    pub grplo: u32,
    /// Highest CPU covered.
    pub grphi: u32,
    /// Index of the parent in [`Snapshot::nodes`]; `None` for the root.
    pub parent: Option<usize>,
    /// This node's bit in the parent's masks.
    pub grpmask: u64,
    /// The node's copy of the grace-period number.
    pub gp_seq: u64,
    /// Furthest grace period requested, as known here.
    pub gp_seq_needed: u64,
    /// `gp_seq` when this node last passed its quiescent state up.
    pub completedqs: u64,
    /// Children or CPUs still owed in the current grace period.
    pub qsmask: u64,
    /// Children or CPUs owed at the start of a grace period.
    pub qsmaskinit: u64,
    /// Leaf: CPUs that RCU regards as online.
    pub qsmaskinitnext: u64,
    /// Leaf: blocked readers that the current grace period waits for, in list order.
    pub gp_blockers: Vec<u64>,
    /// Leaf: its last CPU left while blocked readers remained.
    pub wait_blkd_tasks: bool,
    /// Children or CPUs still owed in the current expedited grace period.
    pub expmask: u64,
    /// Children of which some CPU was ever online, as of the latest expedited grace period.
    pub expmaskinit: u64,
    /// Leaf: blocked readers that the current expedited grace period waits for, in list order.
    pub exp_blockers: Vec<u64>,
}

/// One CPU's `rcu_data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSnapshot {
    /// The CPU's copy of the grace-period number.
    pub gp_seq: u64,
    /// Furthest grace period requested, as known here.
    pub gp_seq_needed: u64,
    /// A quiescent state is still needed from this CPU (`cpu_no_qs.b.norm`).
    pub norm: bool,
    /// The tree waits for this CPU.
    pub core_needs_qs: bool,
    /// The CPU's numbers are not to be trusted.
    pub gpwrap: bool,
    /// Callbacks queued and not yet finished.
    pub cblist_len: u64,
    /// Callbacks per segment: DONE, WAIT, NEXT_READY, NEXT.
    pub seglen: [u64; 4],
    /// Numbers of WAIT (index 1) and NEXT_READY (index 2), meaningful where the segment is not empty.
    pub seg_gp_seq: [u64; 4],
    /// A batch of callbacks is being invoked.
    pub in_batch: bool,
    /// An expedited quiescent state is owed and was noticed (`cpu_no_qs.b.exp`).
    pub exp_owed: bool,
}

/// Direct-wake requests of `synchronize_rcu()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SrsSnapshot {
    /// Wait heads in use, of 5.
    pub heads_in_use: u32,
    /// `srs_wait_tail` is set.
    pub wait_tail: bool,
    /// `srs_done_tail` is set.
    pub done_tail: bool,
    /// `srs_cleanups_pending`.
    pub cleanups_pending: u32,
    /// `rcu_sr_normal_count`: calls on the direct route that are in flight.
    pub count: i64,
    /// `rcu_sr_normal_latched`.
    pub latched: bool,
}

/// The whole tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `rs.gp_seq`.
    pub gp_seq: u64,
    /// `gp_flags`: INIT 1, FQS 2.
    pub gp_flags: u32,
    /// `gp_state`, 0 to 8 as in the kernel.
    pub gp_state: u32,
    /// All nodes, root first, level by level.
    pub nodes: Vec<NodeSnapshot>,
    /// All CPUs.
    pub cpus: Vec<CpuSnapshot>,
    /// Direct-wake requests.
    pub srs: SrsSnapshot,
    /// `rs.gp_seq_polled`.
    pub gp_seq_polled: u64,
    /// `rs.expedited_sequence`.
    pub expedited_sequence: u64,
}
