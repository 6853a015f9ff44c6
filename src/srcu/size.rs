//! Small domains and big ones (invariant S7), and the contention that makes one grow.
//!
//! | state | callbacks are queued on | a barrier looks at | a grace period's end launches |
//! |---|---|---|---|
//! | SMALL, ALLOC | the boot CPU | the boot CPU | the boot CPU |
//! | WAIT_BARRIER | the boot CPU | all CPUs | all CPUs |
//! | WAIT_CALL, WAIT_CBS1..4 | their own CPU | all | all |
//! | BIG | their own CPU | all | those whose bit is in the leaf's slot |

use super::domain::{Own, Srcu, Sup};
use super::funnel::Node;
use super::world::{Lock, World};
use crate::sync::{FullGuard, Ordering, order};

/// How far a domain has grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum SizeState {
    /// No tree.
    Small = 0,
    /// The next end of a grace period allocates one.
    Alloc = 1,
    /// The tree is there; barriers have to look at all CPUs before anybody queues there.
    WaitBarrier = 2,
    /// Callbacks are queued on their own CPU from here on.
    WaitCall = 3,
    /// Slots are not to be trusted yet: each of the four has to see a grace period.
    WaitCbs1 = 4,
    /// The second.
    WaitCbs2 = 5,
    /// The third.
    WaitCbs3 = 6,
    /// The fourth.
    WaitCbs4 = 7,
    /// Grown up.
    Big = 8,
}

impl SizeState {
    const ALL: [SizeState; 9] = [
        SizeState::Small,
        SizeState::Alloc,
        SizeState::WaitBarrier,
        SizeState::WaitCall,
        SizeState::WaitCbs1,
        SizeState::WaitCbs2,
        SizeState::WaitCbs3,
        SizeState::WaitCbs4,
        SizeState::Big,
    ];

    /// The name that statistics print.
    pub fn name(self) -> &'static str {
        match self {
            SizeState::Small => "SRCU_SIZE_SMALL",
            SizeState::Alloc => "SRCU_SIZE_ALLOC",
            SizeState::WaitBarrier => "SRCU_SIZE_WAIT_BARRIER",
            SizeState::WaitCall => "SRCU_SIZE_WAIT_CALL",
            SizeState::WaitCbs1 => "SRCU_SIZE_WAIT_CBS1",
            SizeState::WaitCbs2 => "SRCU_SIZE_WAIT_CBS2",
            SizeState::WaitCbs3 => "SRCU_SIZE_WAIT_CBS3",
            SizeState::WaitCbs4 => "SRCU_SIZE_WAIT_CBS4",
            SizeState::Big => "SRCU_SIZE_BIG",
        }
    }
}

impl<C> Srcu<C> {
    /// The state. Acquire: with it the tree is seen. Partner: the release in `set_size`.
    pub fn size_state(&self) -> SizeState {
        SizeState::ALL[self.size_state.load(order("size look", Ordering::Acquire)) as usize]
    }

    pub(super) fn set_size(&self, state: SizeState) {
        self.size_state
            .store(state as u32, order("size", Ordering::Release));
    }

    pub(super) fn allocate_tree(&self) {
        let _ = self.nodes.set(Node::tree(&self.geometry));
    }

    /// One step of growth, at the end of a grace period.
    pub(super) fn grow(&self) {
        match self.size_state() {
            SizeState::Small | SizeState::Big => {}
            SizeState::Alloc => {
                self.allocate_tree();
                self.set_size(SizeState::WaitBarrier);
            }
            state => self.set_size(SizeState::ALL[state as usize + 1]),
        }
    }

    /// Growth begins, under the domain's lock (which `_sup` shows).
    pub(super) fn begin_to_grow(&self, _sup: &mut Sup) {
        if self.size_state() == SizeState::Small {
            self.set_size(SizeState::Alloc);
        }
    }

    /// An acquisition found its lock taken.
    fn count_contention(&self, sup: &mut Sup, jiffies: u64) {
        if !self.tun.srcu.sizing.on_contention || self.size_state() != SizeState::Small {
            return;
        }
        if sup.size_jiffies != jiffies {
            sup.size_jiffies = jiffies;
            sup.n_lock_retries = 0;
        }
        sup.n_lock_retries += 1;
        if sup.n_lock_retries > self.tun.srcu.small_contention_lim {
            self.begin_to_grow(sup);
        }
    }

    /// Locks a CPU's data, metered.
    pub(super) fn lock_cpu(&self, cpu: u32, world: &mut impl World) -> FullGuard<'_, Own<C>> {
        let lock = &self.cpus[cpu as usize];
        if !world.is_contended(Lock::Cpu(cpu))
            && let Some(own) = lock.try_lock()
        {
            return own;
        }
        self.count_contention(&mut self.sup.lock(), world.jiffies());
        lock.lock()
    }

    /// Locks the domain, metered.
    pub(super) fn lock_domain(&self, world: &mut impl World) -> FullGuard<'_, Sup> {
        if !world.is_contended(Lock::Domain)
            && let Some(sup) = self.sup.try_lock()
        {
            return sup;
        }
        let mut sup = self.sup.lock();
        self.count_contention(&mut sup, world.jiffies());
        sup
    }
}
