//! The end of a grace period has the callbacks invoked that waited for it.

use super::domain::{BOOT_CPU, Srcu};
use super::funnel::{is_valid, slot};
use super::gp::GpWork;
use super::size::SizeState;
use super::world::{Work, World};
use crate::tree::seq;

/// Raw counts that a CPU's numbers may lag behind before they are refreshed.
const STALE: u64 = 100;

impl<C> Srcu<C> {
    /// The launch at one node; gives the next one. A small domain has one list, and no nodes.
    pub(super) fn launch_node(&self, node: usize, work: &GpWork, world: &mut impl World) -> Option<usize> {
        let size = self.size_state();
        if node == 0 && size < SizeState::WaitBarrier {
            world.queue_callbacks(BOOT_CPU, work.cb_delay);
            return None;
        }
        // A domain that became big since the last node was visited is not possible: it grows behind the launch.
        let tree = self.tree();
        let this = &tree[node];
        let slot = slot(work.ended);
        world.spend(Work::Node);
        let (launch, mask) = {
            let mut state = this.state.lock();
            let launch = this.is_leaf && (size < SizeState::Big || state.have_cbs[slot] == work.ended);
            // More than this number, less than the next one: launched.
            state.have_cbs[slot] = seq::start(work.ended);
            if !is_valid(state.gp_seq_needed_exp) || seq::lt(state.gp_seq_needed_exp, work.ended) {
                state.gp_seq_needed_exp = work.ended;
            }
            let mask = std::mem::take(&mut state.data_have_cbs[slot]);
            (launch, if size < SizeState::Big { u64::MAX } else { mask })
        };
        if launch {
            for cpu in this.shape.grplo..=this.shape.grphi {
                if mask & self.geometry.cpu_mask(cpu) != 0 && world.was_online(cpu) {
                    world.queue_callbacks(cpu, work.cb_delay);
                }
            }
        }
        (node + 1 < tree.len()).then_some(node + 1)
    }

    /// Now and then: CPUs that have needed nothing for long must not seem to be ahead when the number wraps.
    pub(super) fn refresh_numbers(&self, ended: u64) {
        if ended & self.tun.srcu.counter_wrap_check != 0 {
            return;
        }
        for lock in &self.cpus {
            let mut own = lock.lock();
            if seq::ge(ended, own.gp_seq_needed.wrapping_add(STALE)) {
                own.gp_seq_needed = ended;
            }
            if seq::ge(ended, own.gp_seq_needed_exp.wrapping_add(STALE)) {
                own.gp_seq_needed_exp = ended;
            }
        }
    }

    /// What a CPU's numbers say, for tests.
    #[cfg(test)]
    pub(super) fn cpu_needs(&self, cpu: u32) -> (u64, u64) {
        let own = self.cpus[cpu as usize].lock();
        (own.gp_seq_needed, own.gp_seq_needed_exp)
    }
}
