//! The state that all mechanisms share: the tree's nodes, the CPUs' data, the global words.
//!
//! Lock order: a CPU's own lock → its leaf → … → the root. Words that somebody reads without the
//! lock are atomics beside it; they are written only with the lock held.

use super::barrier::BarrierState;
use super::blocked::{BlockedList, ReaderId};
use super::cblist::SegCbList;
use super::exp::{ExpNode, Expedited};
use super::geometry::{Geometry, NodeShape};
use super::gp::GpState;
use super::nocb::Offloading;
use super::nocb_bypass::Bypass;
use super::poll::Polled;
use super::seq;
use super::snapshot::{CpuSnapshot, NodeSnapshot, Snapshot};
use super::sync::SyncRequests;
use super::waiters::Waiter;
use super::world::{Ctx, Current, Kthread, World};
use crate::config::Tunables;
use crate::error::Result;
use crate::stats::Resolution;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, FullGuard, FullLock, Ordering, assert_unlocked, mutated,
};

/// `gp_flags`: a grace period is requested.
pub(super) const FLAG_INIT: u32 = 1;
/// `gp_flags`: scan now, or the root is done.
pub(super) const FLAG_FQS: u32 = 2;

/// A callback: the user's, or one the engine posts itself.
#[derive(Debug)]
pub enum Cb<C> {
    /// The user's.
    User(C),
    /// Releases a `synchronize_rcu()` caller.
    Wake(Waiter),
    /// Part of an `rcu_barrier()`.
    Barrier,
}

/// One `rcu_node`.
#[derive(Debug)]
pub(super) struct Node {
    pub shape: NodeShape,
    pub is_leaf: bool,
    pub state: FullLock<NodeState>,
    /// This node's copy of the grace-period number.
    pub gp_seq: AtomicU64,
    /// Owed in the current grace period.
    pub qsmask: AtomicU64,
    /// Leaf: CPUs over the callback-overload mark.
    pub cbovldmask: AtomicU64,
    /// Leaf: some blocked reader blocks the current grace period (`gp_tasks` is set).
    pub gp_tasks: AtomicBool,
    /// One call_rcu flood at a time passes on towards the root.
    pub fqs_funnel: AtomicBool,
    /// Leaf: CPUs came or went since the last hotplug pass, or it has to look again. Raised under `ofl_lock` or the
    /// leaf's lock.
    pub hotplug: AtomicBool,
    pub exp: ExpNode,
}

/// What a node's lock protects besides its atomics.
#[derive(Debug)]
pub(super) struct NodeState {
    pub gp_seq_needed: u64,
    pub completedqs: u64,
    pub qsmaskinit: u64,
    /// Leaf: CPUs that RCU regards as online.
    pub qsmaskinitnext: u64,
    /// Leaf: readers preempted inside a section on one of its CPUs.
    pub blocked: BlockedList,
    /// Leaf: its last CPU left while blocked readers remained, so it stays attached to its parent.
    pub wait_blkd_tasks: bool,
    /// Children of which some CPU was ever online: who is asked by an expedited grace period.
    pub expmaskinit: u64,
    /// Leaf: the same with CPUs that have come since the latest one.
    pub expmaskinitnext: u64,
}

/// One CPU's `rcu_data`.
#[derive(Debug)]
pub(super) struct CpuData<C> {
    pub cpu: u32,
    pub leaf: usize,
    pub grpmask: u64,
    pub own: FullLock<Own<C>>,
    /// This CPU's copy of the grace-period number.
    pub gp_seq: AtomicU64,
    pub gp_seq_needed: AtomicU64,
    /// Left so far behind that its numbers mean nothing.
    pub gpwrap: AtomicBool,
    /// The scan wants a quiescent state soon.
    pub urgent_qs: AtomicBool,
    /// … and is willing to pay for a momentary extended quiescent state.
    pub need_heavy_qs: AtomicBool,
    pub watching_snap: AtomicU64,
    pub last_fqs_resched: AtomicU64,
    /// `cpu_no_qs.b.exp`: this CPU was asked for an expedited quiescent state in a bad moment. Written by
    /// the CPU itself.
    pub exp_owed: AtomicBool,
    pub exp_watching_snap: AtomicU64,
    /// `cblist.len()` for those who look without the CPU's lock.
    pub cblist_len: AtomicU64,
    /// `barrier_seq_snap`: the barrier this CPU's callbacks were last told about.
    pub barrier_seq_snap: AtomicU64,
}

/// What only the CPU itself touches ("interrupts off here").
#[derive(Debug)]
pub(super) struct Own<C> {
    pub cblist: SegCbList<Cb<C>>,
    /// `cpu_no_qs.b.norm`: this grace period still needs a quiescent state from here.
    pub norm: bool,
    /// The tree waits for this CPU.
    pub core_needs_qs: bool,
    /// What recorded the latest quiescent state.
    pub recorded_by: Resolution,
    pub blimit: i64,
    pub qlen_last_fqs_check: u64,
    pub n_force_qs_snap: u64,
    pub in_batch: bool,
    /// The list takes callbacks (false once the CPU is dead and its callbacks are gone).
    pub enabled: bool,
    /// A deferred quiescent state already raised the RCU core.
    pub defer_qs_pending: bool,
    /// The bypass list of an offloaded CPU.
    pub bypass: Option<Box<Bypass<C>>>,
}

/// What stands behind it begins a cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line;

/// Tree RCU for one machine. `C` is the user's callback.
///
/// In this order in memory: what every call reads, then the words of the grace period, which change all the time,
/// then what single mechanisms use.
#[derive(Debug)]
#[repr(C)]
pub struct Rcu<C> {
    pub(super) tun: Tunables,
    /// Preemptible read-side sections (`rcu_preempt`), or not (`rcu_sched`).
    pub(super) preemptible: bool,
    pub(super) geometry: Geometry,
    pub(super) nodes: Box<[Node]>,
    pub(super) cpus: Box<[CpuData<C>]>,
    _grace_period: Line,
    pub(super) gp_seq: AtomicU64,
    pub(super) gp_flags: AtomicU32,
    pub(super) gp_state: AtomicU32,
    /// Event count that the kthread waits on: every wake bumps it.
    pub(super) gp_ticket: AtomicU64,
    pub(super) n_force_qs: AtomicU64,
    /// Jiffy in which the latest grace period started.
    pub(super) gp_start_jiffies: AtomicU64,
    /// Jiffy from which on the grace period in progress counts as stalled.
    pub(super) jiffies_stall: AtomicU64,
    /// Who emptied the root: CPU << 8 | how. Written under the root lock.
    pub(super) last_holdout: AtomicU64,
    _mechanisms: Line,
    pub(super) srs: SyncRequests,
    /// Makes "reported" and "mask cleared" of an outgoing CPU one step for grace-period initialisation.
    pub(super) ofl_lock: FullLock<()>,
    pub(super) polled: Polled,
    /// Callback offloading, where some CPU is offloaded.
    pub(super) nocb: Option<Box<Offloading>>,
    pub(super) exp: Expedited,
    pub(super) barrier: FullLock<BarrierState>,
}

impl<C> Rcu<C> {
    /// A tree for these tunables: CPUs 0 .. `maxcpus` online, nothing in flight.
    pub fn new(tun: &Tunables) -> Result<Self> {
        let geometry = Geometry::new(
            tun.nr_cpus,
            tun.rcu_fanout_leaf,
            tun.rcu_fanout,
            tun.rcu_fanout_exact,
        )?;
        let first_leaf = geometry.leaves().start;
        let nodes: Box<[Node]> = geometry
            .nodes
            .iter()
            .enumerate()
            .map(|(index, shape)| {
                let is_leaf = index >= first_leaf;
                let online = if is_leaf {
                    (shape.grplo..=shape.grphi)
                        .filter(|&cpu| cpu < tun.maxcpus)
                        .fold(0, |mask, cpu| mask | 1 << (cpu - shape.grplo))
                } else {
                    0
                };
                Node {
                    shape: shape.clone(),
                    is_leaf,
                    state: FullLock::new(NodeState {
                        gp_seq_needed: seq::SEQ_BOOT,
                        completedqs: seq::SEQ_BOOT,
                        qsmaskinit: 0,
                        qsmaskinitnext: online,
                        blocked: BlockedList::default(),
                        wait_blkd_tasks: false,
                        expmaskinit: 0,
                        expmaskinitnext: online,
                    }),
                    gp_seq: AtomicU64::new(seq::SEQ_BOOT),
                    qsmask: AtomicU64::new(0),
                    cbovldmask: AtomicU64::new(0),
                    gp_tasks: AtomicBool::new(false),
                    fqs_funnel: AtomicBool::new(false),
                    hotplug: AtomicBool::new(true),
                    exp: ExpNode::default(),
                }
            })
            .collect();
        let cpus = (0..tun.nr_cpus)
            .map(|cpu| CpuData {
                cpu,
                leaf: geometry.leaf_of(cpu),
                grpmask: geometry.cpu_mask(cpu),
                own: FullLock::new(Own {
                    cblist: SegCbList::default(),
                    norm: true,
                    core_needs_qs: false,
                    recorded_by: Resolution::ContextSwitch,
                    blimit: tun.blimit,
                    qlen_last_fqs_check: 0,
                    n_force_qs_snap: 0,
                    in_batch: false,
                    enabled: true,
                    defer_qs_pending: false,
                    bypass: tun.offloaded.contains(&cpu).then(Box::default),
                }),
                gp_seq: AtomicU64::new(seq::SEQ_BOOT),
                gp_seq_needed: AtomicU64::new(seq::SEQ_BOOT),
                gpwrap: AtomicBool::new(true),
                urgent_qs: AtomicBool::new(false),
                need_heavy_qs: AtomicBool::new(false),
                watching_snap: AtomicU64::new(0),
                last_fqs_resched: AtomicU64::new(0),
                exp_owed: AtomicBool::new(false),
                exp_watching_snap: AtomicU64::new(0),
                cblist_len: AtomicU64::new(0),
                barrier_seq_snap: AtomicU64::new(0),
            })
            .collect();
        let nocb = Offloading::new(tun, |cpu| geometry.leaf_of(cpu));
        Ok(Rcu {
            tun: tun.clone(),
            preemptible: tun.preempt.is_preemptible(),
            geometry,
            _grace_period: Line,
            _mechanisms: Line,
            gp_seq: AtomicU64::new(seq::SEQ_BOOT),
            gp_flags: AtomicU32::new(0),
            gp_state: AtomicU32::new(0),
            gp_ticket: AtomicU64::new(0),
            n_force_qs: AtomicU64::new(0),
            nodes,
            cpus,
            srs: SyncRequests::default(),
            ofl_lock: FullLock::new(()),
            polled: Polled::default(),
            nocb,
            exp: Expedited::new(tun.maxcpus),
            barrier: FullLock::new(BarrierState::default()),
            gp_start_jiffies: AtomicU64::new(0),
            jiffies_stall: AtomicU64::new(0),
            last_holdout: AtomicU64::new(0),
        })
    }

    /// Read-side sections can be preempted (`rcu_preempt`, not `rcu_sched`).
    pub fn is_preemptible(&self) -> bool {
        self.preemptible
    }

    /// The tree's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// `rs.gp_seq`.
    pub fn gp_seq(&self) -> u64 {
        self.gp_seq.load(Ordering::SeqCst)
    }

    /// A grace period is in progress, as `rs.gp_seq` says.
    pub fn gp_in_progress(&self) -> bool {
        seq::state(self.gp_seq()) != 0
    }

    /// The kthread is cleaning up after the grace period in progress: nobody is waited for any more.
    pub fn gp_is_ending(&self) -> bool {
        self.gp_state.load(Ordering::Relaxed) == GpState::Cleanup as u32
    }

    /// The grace-period number as this CPU knows it.
    pub fn cpu_gp_seq(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].gp_seq.load(Ordering::Relaxed)
    }

    /// The grace-period number as this CPU's leaf has it.
    pub fn leaf_gp_seq(&self, cpu: u32) -> u64 {
        self.nodes[self.cpus[cpu as usize].leaf]
            .gp_seq
            .load(Ordering::Acquire)
    }

    /// The last grace period whose end this CPU has noticed, as its number while it ran.
    pub fn last_gp_of(&self, cpu: u32) -> u64 {
        (self.cpu_gp_seq(cpu) & !seq::SEQ_MASK).wrapping_sub(seq::SEQ_GP - 1)
    }

    /// `rcu_needs_cpu()`: callbacks are queued here that this CPU itself has to look after, so it keeps its
    /// tick when idle (invariant I10).
    pub fn needs_cpu(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].cblist_len.load(Ordering::Relaxed) != 0 && !self.is_offloaded(cpu)
    }

    /// Callbacks queued on this CPU and not yet finished.
    pub fn callbacks_of(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].cblist_len.load(Ordering::Relaxed)
    }

    /// CPUs that the grace period in progress still waits for.
    pub fn holdouts(&self) -> Vec<u32> {
        self.geometry
            .leaves()
            .flat_map(|leaf| {
                let node = &self.nodes[leaf];
                bits(node.qsmask.load(Ordering::Relaxed)).map(|bit| node.shape.grplo + bit)
            })
            .collect()
    }

    /// CPUs of one leaf (by its index among the nodes) that the grace period in progress waits for.
    pub fn owed_by_leaf(&self, leaf: usize) -> impl Iterator<Item = u32> + '_ {
        let node = &self.nodes[leaf];
        bits(node.qsmask.load(Ordering::SeqCst)).map(|bit| node.shape.grplo + bit)
    }

    /// Readers blocked inside a section that the grace period in progress still waits for.
    pub fn blocking_readers(&self) -> Vec<ReaderId> {
        self.geometry
            .leaves()
            .flat_map(|leaf| self.lock_node(leaf).blocked.gp_blockers())
            .collect()
    }

    /// Locks a node. Every acquisition is a full barrier; see [`FullLock`].
    pub(super) fn lock_node(&self, index: usize) -> FullGuard<'_, NodeState> {
        self.nodes[index].state.lock()
    }

    /// Sets or clears the CPU's overload bit; its leaf is locked.
    pub(super) fn set_cb_ovld(&self, rdp: &CpuData<C>, over: bool) {
        let mask = &self.nodes[rdp.leaf].cbovldmask;
        if over {
            mask.fetch_or(rdp.grpmask, Ordering::Relaxed);
        } else {
            mask.fetch_and(!rdp.grpmask, Ordering::Relaxed);
        }
    }

    /// Changes `gp_flags`. The root is locked, which is what lets this be a load and a store; whoever looks without
    /// the lock looks again after the ticket, which is bumped behind the lock. Returns what it was.
    pub(super) fn change_gp_flags(&self, change: impl FnOnce(u32) -> u32) -> u32 {
        let before = self.gp_flags.load(Ordering::Relaxed);
        let after = change(before);
        if after != before {
            self.gp_flags.store(after, Ordering::Release);
        }
        before
    }

    /// Wakes the grace-period kthread, unless nothing is asked of it or it is itself the caller. An
    /// interrupt on its CPU does wake it: it may sit between its last check and its sleep.
    pub(super) fn wake_gp_kthread(&self, ctx: Ctx, world: &mut impl World) {
        assert_unlocked();
        let self_wake = ctx.current == Current::GpKthread && !ctx.in_irq;
        if self_wake || self.gp_flags.load(Ordering::SeqCst) == 0 {
            return;
        }
        if mutated("Z40") {
            return;
        }
        self.gp_ticket.fetch_add(1, Ordering::SeqCst);
        world.wake(Kthread::Gp);
        if mutated("Z41") {
            self.gp_ticket.fetch_add(1, Ordering::SeqCst);
            world.wake(Kthread::Gp);
        }
    }

    /// A grace period is requested that has not started.
    pub fn gp_is_requested(&self) -> bool {
        self.gp_flags.load(Ordering::SeqCst) & FLAG_INIT != 0
    }

    /// True when the kthread was woken since it took this ticket.
    pub fn gp_ticket_is_old(&self, ticket: u64) -> bool {
        self.gp_ticket.load(Ordering::SeqCst) != ticket
    }

    /// The whole tree as plain data. Takes each lock in turn: consistent only while nobody runs.
    pub fn snapshot(&self) -> Snapshot {
        let nodes = (0..self.nodes.len())
            .map(|index| {
                let state = self.lock_node(index);
                let node = &self.nodes[index];
                NodeSnapshot {
                    level: node.shape.level,
                    grplo: node.shape.grplo,
                    grphi: node.shape.grphi,
                    parent: node.shape.parent,
                    grpmask: node.shape.grpmask,
                    gp_seq: node.gp_seq.load(Ordering::Relaxed),
                    gp_seq_needed: state.gp_seq_needed,
                    completedqs: state.completedqs,
                    qsmask: node.qsmask.load(Ordering::Relaxed),
                    qsmaskinit: state.qsmaskinit,
                    qsmaskinitnext: state.qsmaskinitnext,
                    gp_blockers: state.blocked.gp_blockers(),
                    wait_blkd_tasks: state.wait_blkd_tasks,
                    expmask: node.exp.mask.load(Ordering::Relaxed),
                    expmaskinit: state.expmaskinit,
                    exp_blockers: state.blocked.exp_blockers(),
                }
            })
            .collect();
        let cpus = self
            .cpus
            .iter()
            .map(|rdp| {
                let own = rdp.own.lock();
                CpuSnapshot {
                    gp_seq: rdp.gp_seq.load(Ordering::Relaxed),
                    gp_seq_needed: rdp.gp_seq_needed.load(Ordering::Relaxed),
                    norm: own.norm,
                    core_needs_qs: own.core_needs_qs,
                    gpwrap: rdp.gpwrap.load(Ordering::Relaxed),
                    cblist_len: own.cblist.len(),
                    seglen: std::array::from_fn(|segment| own.cblist.seglen(segment)),
                    seg_gp_seq: std::array::from_fn(|segment| own.cblist.segment_gp_seq(segment)),
                    in_batch: own.in_batch,
                    exp_owed: rdp.exp_owed.load(Ordering::Relaxed),
                }
            })
            .collect();
        Snapshot {
            gp_seq: self.gp_seq(),
            gp_flags: self.gp_flags.load(Ordering::Relaxed),
            gp_state: self.gp_state.load(Ordering::Relaxed),
            nodes,
            cpus,
            srs: self.srs.snapshot(),
            gp_seq_polled: self.polled.load(),
            expedited_sequence: self.exp_seq(),
        }
    }
}

/// Positions of the set bits, lowest first.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            bit
        })
    })
}
