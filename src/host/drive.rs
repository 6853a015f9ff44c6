//! Grace periods driven by their callers, on request ([`super::GpDriver::Callers`]): who asks for one carries out the
//! grace-period kthread's steps itself, so that a grace period with nobody in the way costs no context switch.
//!
//! The steps and their order are the kthread's; only the thread differs. Where the kthread has to sleep for readers or
//! for a time, its own thread takes over.
//!
//! Nobody may go to sleep with a request that nobody works on:
//!
//! - A caller makes its request, then tries to become the kthread. Where somebody is already, it counts itself as a
//!   *spinner*, waits for its call to be served, and tries again now and then for a while.
//! - Who is the kthread goes on until its own call is served, and then for as long as there are requests and no
//!   spinner who could take over, and a little longer where there is one.
//! - A spinner who gives up, or has no reason to go on, stops being counted and tries once more if there is a request.
//!   Where that fails, the kthread of that time has not given up its role yet, and when it has, it looks again at the
//!   number of spinners (a full fence on both sides: one of the two sees the other). So does the kthread's own thread
//!   before it sleeps.
//! - Who leaves a grace period to the kthread's own thread counts that, and wakes it. The count is needed: the request
//!   may have been another caller's, who comes back to find it taken and wakes nobody, so the thread's ticket is not old.

use super::engine::Shared;
use crate::sync::{Ordering, fence_after_rmw, mutated, spin_loop};
use crate::tree::{GpResume, GpWait};

/// Turns of the loop before a caller goes to sleep: a few grace periods long. Giving up the core instead lets the
/// callers that stay awake call more often and the others wait longer.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
const fn spins() -> u32 {
    256
}
#[cfg(any(treercu_loom, treercu_shuttle))]
use crate::sync::model::spins;
/// Of these, how many from one look at the role to the next. In between a spinner looks at nothing but its own line,
/// so that whoever is the kthread keeps the tree's lines in its cache.
const SPINS_PER_LOOK: u32 = 64;
/// Grace periods that a caller carries out for spinners before it leaves that to one of them: cheaper for all than to
/// pass the tree's lines from core to core each time.
const TURNS: u32 = 2;
/// Grace periods that a caller carries out for others before it calls the kthread's own thread.
const FOR_OTHERS: u32 = 16;

impl Shared {
    /// Sees to it that somebody works on the caller's request; `served`: it is done.
    pub(super) fn drive(&self, served: impl Fn() -> bool) {
        if !self.try_drive(&served) || served() {
            return;
        }
        self.gp.spinners.fetch_add(1, Ordering::SeqCst);
        for spun in 0..spins() {
            if served() {
                break;
            }
            if spun % SPINS_PER_LOOK == 0 && !self.gp.role.is_locked() && self.rcu.gp_is_requested() {
                self.gp.spinners.fetch_sub(1, Ordering::SeqCst);
                if !self.try_drive(&served) {
                    return;
                }
                self.gp.spinners.fetch_add(1, Ordering::SeqCst);
            }
            spin_loop();
        }
        self.gp.spinners.fetch_sub(1, Ordering::SeqCst);
        fence_after_rmw("spinner gone");
        if self.rcu.gp_is_requested() {
            self.try_drive(&served);
        }
    }

    /// Is the kthread for a while, unless somebody is already. False: its own thread has been called.
    fn try_drive(&self, served: &impl Fn() -> bool) -> bool {
        for turn in 0..FOR_OTHERS {
            let Some(mut role) = self.gp.role.try_lock() else {
                return true;
            };
            if role.timed || !self.vcpus.is_online(self.gp.cpu()) {
                break;
            }
            let (wait, marks) = self.gp_run(&mut role, GpResume::Run, served);
            let timed = role.timed;
            drop(role);
            fence_after_rmw("role given");
            self.wake_crowd(marks);
            match wait {
                _ if timed => break,
                // Requested since: the ticket is old.
                GpWait::Request { ticket } if self.rcu.gp_ticket_is_old(ticket) => {}
                GpWait::Yield if self.rcu.gp_is_requested() || !served() => {}
                _ => return true,
            }
            if turn >= TURNS && self.gp.spinners.load(Ordering::SeqCst) > 0 {
                return true;
            }
        }
        if !mutated("hand-over") {
            self.gp.handed.fetch_add(1, Ordering::SeqCst);
        }
        self.gp.park.wake(self.parking);
        false
    }
}
