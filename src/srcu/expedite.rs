//! Who expedites by itself, and `srcu_expedite_current()`.

use super::domain::{Cb, Srcu};
use super::world::World;
use crate::sync::full_fence;
use crate::tree::seq;

/// State of one CPU's private expediting callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Current {
    Idle,
    Pending,
    /// Asked for again while it was pending.
    Repost,
}

impl<C> Srcu<C> {
    /// The domain seems to be at rest, and has been for a while: then waiting a jiffy would serve nobody. A heuristic; a
    /// wrong answer costs time, nothing else.
    pub(super) fn should_expedite(&self, cpu: u32, world: &impl World) -> bool {
        self.check_init(world);
        let holdoff = self.tun.srcu.exp_holdoff_ns;
        // RCU grace periods are not expedited unasked.
        if self.flavour.is_slow_gp() || self.cpus[cpu as usize].lock().cblist.pend() || holdoff == 0 {
            return false;
        }
        let last = self.sup.lock().last_gp_end;
        let now = world.now();
        if now.wrapping_sub(last) < holdoff {
            return false;
        }
        let number = self.gp_seq();
        full_fence("expedite look");
        if seq::lt(number, self.gp_seq_needed()) {
            return false;
        }
        full_fence("expedite look");
        number == self.gp_seq()
    }

    /// `srcu_expedite_current()`: the grace period under way, or the next one, hurries. A delay that is being slept
    /// already is slept to its end.
    pub fn expedite_current(&self, cpu: u32, world: &mut impl World) {
        let post = {
            let mut own = self.cpus[cpu as usize].lock();
            let idle = own.expedite == Current::Idle;
            own.expedite = if idle { Current::Pending } else { Current::Repost };
            idle
        };
        if post {
            self.request(cpu, Some(Cb::Expedite(cpu)), true, world);
        }
    }

    /// Its callback was invoked.
    pub fn expedite_callback(&self, cpu: u32, world: &mut impl World) {
        let again = {
            let mut own = self.cpus[cpu as usize].lock();
            let again = own.expedite == Current::Repost;
            own.expedite = if again { Current::Pending } else { Current::Idle };
            again
        };
        if again {
            self.request(cpu, Some(Cb::Expedite(cpu)), true, world);
        }
    }
}
