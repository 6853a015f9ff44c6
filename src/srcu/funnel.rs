//! Requests climb from a leaf to the domain (invariant S5). A small domain has no tree, and they begin at the top.
//!
//! A node has four slots, one for a grace period's counter modulo 4. A slot holds the number of the grace period that
//! somebody below needs, and at a leaf, who. When that grace period has ended and its callbacks are being launched, the
//! slot holds its number with state 1: more than itself, less than the next one.

use super::delay::INTERVAL;
use super::domain::Srcu;
use super::gp::IDLE;
use super::size::SizeState;
use super::world::{Work, World};
use crate::sync::{FullLock, Ordering, order};
use crate::tree::geometry::{Geometry, NodeShape};
use crate::tree::seq;

/// Slots of a node.
pub(super) const SLOTS: usize = 4;
/// What a slot holds at first (`SRCU_SNP_INIT_SEQ`): no number looks like it, and none is compared with it.
pub(super) const INVALID: u64 = 2;

/// A slot's number can be compared.
pub(super) fn is_valid(number: u64) -> bool {
    seq::state(number) != INVALID
}

/// The slot of a grace period that ends with this number.
pub(super) fn slot(number: u64) -> usize {
    (seq::ctr(number) % SLOTS as u64) as usize
}

/// One `srcu_node`.
#[derive(Debug)]
pub(super) struct Node {
    pub shape: NodeShape,
    pub is_leaf: bool,
    pub state: FullLock<NodeState>,
}

/// What a node's lock protects.
#[derive(Debug)]
pub(super) struct NodeState {
    pub have_cbs: [u64; SLOTS],
    pub data_have_cbs: [u64; SLOTS],
    pub gp_seq_needed_exp: u64,
}

impl Node {
    /// The whole tree of one domain.
    pub fn tree(geometry: &Geometry) -> Box<[Node]> {
        let first_leaf = geometry.leaves().start;
        geometry
            .nodes
            .iter()
            .enumerate()
            .map(|(index, shape)| Node {
                shape: shape.clone(),
                is_leaf: index >= first_leaf,
                state: FullLock::new(NodeState {
                    have_cbs: [INVALID; SLOTS],
                    data_have_cbs: [0; SLOTS],
                    gp_seq_needed_exp: INVALID,
                }),
            })
            .collect()
    }
}

impl NodeState {
    /// Raises the expedited demand; false: it was there.
    fn raise_exp(&mut self, s: u64) -> bool {
        let raise = !is_valid(self.gp_seq_needed_exp) || seq::lt(self.gp_seq_needed_exp, s);
        if raise {
            self.gp_seq_needed_exp = s;
        }
        raise
    }
}

impl<C> Srcu<C> {
    /// Where requests of this CPU begin, if they may use the tree.
    pub(super) fn leaf_of(&self, cpu: u32, size: SizeState) -> Option<usize> {
        (size >= SizeState::WaitBarrier).then(|| self.geometry.leaf_of(cpu))
    }

    pub(super) fn tree(&self) -> &[Node] {
        self.nodes
            .get()
            .expect("a state from WAIT_BARRIER on has its tree")
    }

    /// The grace period that ends with `s` is wanted, on behalf of what `cpu` has queued.
    pub(super) fn funnel(
        &self,
        cpu: u32,
        leaf: Option<usize>,
        s: u64,
        expedited: bool,
        world: &mut impl World,
    ) {
        let slot = slot(s);
        let mut at = leaf;
        while let Some(index) = at {
            let node = &self.tree()[index];
            world.spend(Work::Node);
            let mut state = node.state.lock();
            let found = state.have_cbs[slot];
            if is_valid(found) && seq::ge(found, s) {
                if node.is_leaf && found == s {
                    state.data_have_cbs[slot] |= self.geometry.cpu_mask(cpu);
                }
                drop(state);
                if node.is_leaf && found != s {
                    // Its callbacks have been launched already, without this CPU.
                    world.queue_callbacks(cpu, if expedited { 0 } else { INTERVAL });
                } else if expedited {
                    self.funnel_exp(Some(index), s, world);
                }
                return;
            }
            state.have_cbs[slot] = s;
            if node.is_leaf {
                state.data_have_cbs[slot] |= self.geometry.cpu_mask(cpu);
            }
            if expedited {
                state.raise_exp(s);
            }
            drop(state);
            at = node.shape.parent;
        }
        let start = {
            let mut sup = self.lock_domain(world);
            self.raise_needed(s);
            if expedited && seq::lt(sup.gp_seq_needed_exp, s) {
                sup.gp_seq_needed_exp = s;
            }
            let start = seq::state(self.gp_seq()) == IDLE && !seq::done(self.gp_seq(), s);
            if start {
                self.gp_start(&mut sup, world.now(), world.jiffies());
            }
            start
        };
        if start {
            self.began(world);
            world.queue_start();
        }
    }

    /// Under the domain's lock.
    fn raise_needed(&self, s: u64) {
        if seq::lt(self.gp_seq_needed(), s) {
            // Release: partner is the acquire of whoever looks whether there is demand.
            self.gp_seq_needed.store(s, order("needed", Ordering::Release));
        }
    }

    /// Only the haste is new.
    pub(super) fn funnel_exp(&self, from: Option<usize>, s: u64, world: &mut impl World) {
        let mut at = from;
        while let Some(index) = at {
            let node = &self.tree()[index];
            world.spend(Work::Node);
            // The node where a funnel stopped may have had its haste raised by nobody yet, so it is looked at too.
            if seq::done(self.gp_seq(), s) || !node.state.lock().raise_exp(s) {
                return;
            }
            at = node.shape.parent;
        }
        let mut sup = self.lock_domain(world);
        if seq::lt(sup.gp_seq_needed_exp, s) {
            sup.gp_seq_needed_exp = s;
        }
    }
}
