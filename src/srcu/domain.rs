//! A domain: the state that all mechanisms share, and its initialisation.
//!
//! Locks are held for one step each and none inside another: a CPU's list, then nodes, then the domain. Only the
//! barrier's lock is held while lists are visited.

use super::barrier::BarrierState;
use super::expedite::Current;
use super::flavour::Flavour;
use super::funnel::Node;
use super::reader::Counters;
use super::size::SizeState;
use super::world::World;
use crate::config::Tunables;
use crate::error::Result;
use crate::sync::{AtomicU32, AtomicU64, FullLock, Ordering, order};
use crate::tree::cblist::SegCbList;
use crate::tree::geometry::Geometry;
use crate::tree::seq;
use crate::tree::waiters::Waiter;
use std::sync::OnceLock;

/// The CPU on which a small domain queues callbacks.
pub const BOOT_CPU: u32 = 0;

/// The first number: its counter is −100, so that it wraps early, on purpose.
pub const SEQ_INITIAL: u64 = 0u64.wrapping_sub(100) << seq::SEQ_SHIFT;
/// `gp_seq_needed` of a domain that is not initialised: its state bits are not 0.
const NEEDED_UNINITIALISED: u64 = SEQ_INITIAL - 1;

/// A callback: the user's, or one the domain posts itself.
#[derive(Debug)]
pub enum Cb<C> {
    /// The user's.
    User(C),
    /// Releases a `synchronize_srcu()` caller.
    Wake(Waiter),
    /// Part of a barrier.
    Barrier,
    /// Of `srcu_expedite_current()` on this CPU.
    Expedite(u32),
}

/// What the domain's lock protects (`srcu_usage`).
#[derive(Debug)]
pub(super) struct Sup {
    pub gp_seq_needed_exp: u64,
    /// Jiffy in which the grace period began, and when, ns.
    pub gp_start: u64,
    pub gp_start_ns: u64,
    /// When the latest one ended, ns.
    pub last_gp_end: u64,
    /// Evaluations without delay in this phase.
    pub n_exp_nodelay: u64,
    pub reschedule_jiffies: u64,
    pub reschedule_count: u64,
    /// Contention meter: contended acquisitions in this jiffy.
    pub size_jiffies: u64,
    pub n_lock_retries: u64,
}

/// What one CPU's lock protects (`srcu_data`).
#[derive(Debug)]
pub(super) struct Own<C> {
    pub cblist: SegCbList<Cb<C>>,
    pub gp_seq_needed: u64,
    pub gp_seq_needed_exp: u64,
    /// A worker is invoking callbacks of this list.
    pub invoking: bool,
    pub expedite: Current,
}

/// One SRCU domain (`srcu_struct`). `C` is the user's callback.
#[derive(Debug)]
pub struct Srcu<C> {
    pub(super) tun: Tunables,
    pub(super) flavour: Flavour,
    pub(super) geometry: Geometry,
    /// The index that new readers use (`srcu_ctrp`).
    pub(super) current: AtomicU32,
    pub(super) counters: Box<[Counters]>,
    /// Changed under the domain's lock.
    pub(super) gp_seq: AtomicU64,
    /// Changed under the domain's lock.
    pub(super) gp_seq_needed: AtomicU64,
    /// A [`SizeState`].
    pub(super) size_state: AtomicU32,
    pub(super) sup: FullLock<Sup>,
    pub(super) cpus: Box<[FullLock<Own<C>>]>,
    /// The tree, once there is one: root first, the leaves last.
    pub(super) nodes: OnceLock<Box<[Node]>>,
    pub(super) barrier: FullLock<BarrierState>,
    /// For tests: the scan that is left out.
    pub(super) skipped: AtomicU32,
}

impl<C> Srcu<C> {
    /// `init_srcu_struct()`: a domain that is ready for use, made in a place that may sleep.
    pub fn new(tun: &Tunables, flavour: Flavour, world: &impl World) -> Result<Self> {
        let srcu = Srcu::new_static(tun, flavour)?;
        srcu.initialise(true, world);
        Ok(srcu)
    }

    /// `DEFINE_SRCU()`: a domain that is initialised by the first request.
    pub fn new_static(tun: &Tunables, flavour: Flavour) -> Result<Self> {
        let geometry = Geometry::new(
            tun.nr_cpus,
            tun.rcu_fanout_leaf,
            tun.rcu_fanout,
            tun.rcu_fanout_exact,
        )?;
        let own = || Own {
            cblist: SegCbList::default(),
            gp_seq_needed: SEQ_INITIAL,
            gp_seq_needed_exp: SEQ_INITIAL,
            invoking: false,
            expedite: Current::Idle,
        };
        Ok(Srcu {
            flavour,
            geometry,
            current: AtomicU32::new(0),
            counters: (0..tun.nr_cpus).map(|_| Counters::new()).collect(),
            gp_seq: AtomicU64::new(SEQ_INITIAL),
            gp_seq_needed: AtomicU64::new(NEEDED_UNINITIALISED),
            size_state: AtomicU32::new(SizeState::Small as u32),
            sup: FullLock::new(Sup {
                gp_seq_needed_exp: SEQ_INITIAL,
                gp_start: 0,
                gp_start_ns: 0,
                last_gp_end: 0,
                n_exp_nodelay: 0,
                reschedule_jiffies: 0,
                reschedule_count: 0,
                size_jiffies: 0,
                n_lock_retries: 0,
            }),
            cpus: (0..tun.nr_cpus).map(|_| FullLock::new(own())).collect(),
            nodes: OnceLock::new(),
            barrier: FullLock::new(BarrierState::default()),
            skipped: AtomicU32::new(0),
            tun: tun.clone(),
        })
    }

    /// Every request comes by here first (`check_init_srcu_struct()`). Whoever initialises a static domain may be in any
    /// place, so nothing is allocated here.
    #[inline]
    pub(super) fn check_init(&self, world: &impl World) {
        // Acquire: the rest of the initialisation is seen with it. Partner: the release in `initialise`.
        if seq::state(self.gp_seq_needed.load(order("initialised", Ordering::Acquire))) != 0 {
            self.initialise(false, world);
        }
    }

    #[cold]
    fn initialise(&self, may_sleep: bool, world: &impl World) {
        let mut sup = self.sup.lock();
        if seq::state(self.gp_seq_needed()) == 0 {
            return;
        }
        sup.last_gp_end = world.now();
        if self.tun.srcu.sizing.at_init {
            if may_sleep {
                self.allocate_tree();
                self.set_size(SizeState::Big);
            } else {
                self.set_size(SizeState::Alloc);
            }
        }
        // Release: whoever sees this sees the rest.
        self.gp_seq_needed
            .store(SEQ_INITIAL, order("initialise", Ordering::Release));
    }

    /// The number of the latest grace period (`srcu_gp_seq`).
    pub fn gp_seq(&self) -> u64 {
        self.gp_seq.load(Ordering::SeqCst)
    }

    /// The number that is asked for.
    pub fn gp_seq_needed(&self) -> u64 {
        self.gp_seq_needed.load(Ordering::SeqCst)
    }

    /// A grace period is under way.
    pub fn gp_in_progress(&self) -> bool {
        seq::state(self.gp_seq()) != 0
    }

    /// Everything that was asked for is done.
    pub fn is_at_rest(&self) -> bool {
        let needed = self.gp_seq_needed();
        seq::state(needed) != 0 || (!self.gp_in_progress() && seq::done(self.gp_seq(), needed))
    }

    /// Its readers' kind.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Callbacks queued on this CPU and not finished.
    pub fn callbacks(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].lock().cblist.len()
    }
}
