//! How long the work item waits before it looks again.

use super::domain::{Srcu, Sup};
use super::gp::IDLE;
use super::world::World;
use crate::tree::seq;

/// Longest delay, jiffies (`SRCU_MAX_INTERVAL`).
const MAX_INTERVAL: u64 = 10;
/// Delay of what is not expedited, jiffies (`SRCU_INTERVAL`).
pub(super) const INTERVAL: u64 = 1;

impl<C> Srcu<C> {
    /// The number is behind an expedited demand.
    pub(super) fn is_expedited(&self, sup: &Sup) -> bool {
        seq::lt(self.gp_seq(), sup.gp_seq_needed_exp)
    }

    /// The delay, jiffies. Each evaluation that comes to none uses up some of the phase's budget.
    pub(super) fn evaluate_delay(&self, sup: &mut Sup, jiffies: u64) -> u64 {
        let mut delay = if self.is_expedited(sup) { 0 } else { INTERVAL };
        if seq::state(self.gp_seq()) != IDLE {
            // An old grace period takes its time, expedited or not.
            delay += jiffies.saturating_sub(1).saturating_sub(sup.gp_start);
            if delay == 0 {
                sup.n_exp_nodelay += 1;
                if sup.n_exp_nodelay > self.tun.srcu.max_nodelay_phase {
                    delay = 1;
                }
            }
        }
        delay.min(MAX_INTERVAL)
    }

    /// The same behind a run of the work item, where runs within one jiffy have a budget of their own.
    pub(super) fn delay_after_run(&self, sup: &mut Sup, world: &impl World) -> u64 {
        let jiffies = world.jiffies();
        let delay = self.evaluate_delay(sup, jiffies);
        if delay > 0 {
            sup.reschedule_count = 0;
        } else if sup.reschedule_jiffies == jiffies {
            sup.reschedule_count += 1;
            if sup.reschedule_count > self.tun.srcu.max_nodelay {
                return 1;
            }
        } else {
            sup.reschedule_jiffies = jiffies;
            sup.reschedule_count = 1;
        }
        delay
    }
}
