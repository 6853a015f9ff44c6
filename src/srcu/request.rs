//! Requests: `call_srcu()`, cookies, and the first half of `synchronize_srcu()`.

use super::domain::{BOOT_CPU, Cb, Srcu};
use super::size::SizeState;
use super::world::{Work, World};
use crate::sync::full_fence;
use crate::tree::seq;
use crate::tree::waiters::Waiter;

/// A cookie that always tests as done.
pub const COMPLETED: u64 = crate::tree::COMPLETED;

impl<C> Srcu<C> {
    /// `call_srcu()` on this CPU: has `callback` invoked after a full grace period. Gives the number it waits for.
    pub fn call(&self, cpu: u32, callback: C, world: &mut impl World) -> u64 {
        self.request(cpu, Some(Cb::User(callback)), false, world)
    }

    /// `start_poll_synchronize_srcu()`: a cookie, and a request for the grace period it needs.
    pub fn start_poll(&self, cpu: u32, world: &mut impl World) -> u64 {
        self.request(cpu, None, false, world)
    }

    /// `get_state_synchronize_srcu()`: a cookie, and nothing else.
    pub fn get_state(&self, world: &impl World) -> u64 {
        self.check_init(world);
        // Full barrier: the caller's updates come before the number. Partner: "gp start".
        full_fence("srcu get_state");
        seq::snap(self.gp_seq())
    }

    /// `poll_state_synchronize_srcu()`: the grace period of this cookie is over.
    pub fn poll_state(&self, cookie: u64) -> bool {
        let done = cookie == COMPLETED || seq::done_exact(self.gp_seq(), cookie);
        // Full barrier: what the caller frees now comes after the readers that the number proves gone. Partner: A, and
        // the barriers of the locks behind it.
        full_fence("srcu poll");
        done
    }

    /// `get_completed_synchronize_srcu()`.
    pub fn get_completed() -> u64 {
        COMPLETED
    }

    /// `synchronize_srcu()` up to where it blocks: then the caller sleeps until `waiter` is completed, and passes
    /// [`Srcu::sync_end`]. True: it was expedited by itself.
    ///
    /// Inside a reader of this domain it would wait for itself.
    pub fn synchronize(&self, cpu: u32, waiter: Waiter, world: &mut impl World) -> bool {
        let expedited = self.should_expedite(cpu, world);
        self.request(cpu, Some(Cb::Wake(waiter)), expedited, world);
        expedited
    }

    /// `synchronize_srcu_expedited()` up to where it blocks.
    pub fn synchronize_expedited(&self, cpu: u32, waiter: Waiter, world: &mut impl World) {
        self.request(cpu, Some(Cb::Wake(waiter)), true, world);
    }

    /// The last thing that a released caller does: its own CPU may have taken part in nothing.
    pub fn sync_end(&self) {
        full_fence("srcu poll"); // as in `poll_state`
    }

    /// What all of them share.
    pub(super) fn request(
        &self,
        this_cpu: u32,
        callback: Option<Cb<C>>,
        expedited: bool,
        world: &mut impl World,
    ) -> u64 {
        self.check_init(world);
        world.spend(Work::Call);
        // A reader of the domain itself: its number cannot run past the one taken below.
        let index = self.read_lock(this_cpu);
        let size = self.size_state();
        let cpu = if size < SizeState::WaitCall || !world.was_online(this_cpu) {
            BOOT_CPU
        } else {
            this_cpu
        };
        let (s, needs_gp, needs_exp) = {
            // Its full barrier is the request's: the caller's updates come before the number.
            let mut own = self.lock_cpu(cpu, world);
            let s = match callback {
                None => seq::snap(self.gp_seq()),
                Some(callback) => {
                    own.cblist.enqueue(callback);
                    // First the number, then the list: the other way round a grace period that ends in between makes
                    // it one too far for a list whose two numbered segments are taken, and the callback is stranded.
                    let s = seq::snap(self.gp_seq());
                    own.cblist.advance(self.gp_seq());
                    let numbered = own.cblist.accelerate(s);
                    assert!(numbered, "a callback without a number");
                    s
                }
            };
            let needs_gp = seq::lt(own.gp_seq_needed, s);
            if needs_gp {
                own.gp_seq_needed = s;
            }
            let needs_exp = expedited && seq::lt(own.gp_seq_needed_exp, s);
            if needs_exp {
                own.gp_seq_needed_exp = s;
            }
            (s, needs_gp, needs_exp)
        };
        // The state of before: a leaf is only used where its tree was there when the callback was queued.
        let leaf = self.leaf_of(cpu, size);
        if needs_gp {
            self.funnel(cpu, leaf, s, expedited, world);
        } else if needs_exp {
            self.funnel_exp(leaf, s, world);
        }
        self.read_unlock(this_cpu, index);
        s
    }
}
