//! Grace periods driven by their callers, on request ([`super::GpDriver::Callers`]): who asks for one carries out the
//! grace-period kthread's steps itself, so that a grace period with nobody in the way costs no context switch.
//!
//! The steps and their order are the kthread's; only the thread differs. Where the kthread has to sleep for readers or
//! for a time, its own thread takes over.
//!
//! Nobody may go to sleep with a request that nobody works on:
//!
//! - A caller makes its request, then counts itself as a *spinner* and tries to become the kthread for a while.
//! - Who is the kthread goes on until its own call is served, and then for as long as there are requests and no
//!   spinner who could take over.
//! - A spinner who gives up, or has no reason to go on, stops being counted and tries once more if there is a request.
//!   Where that fails, the kthread of that time has not given up its role yet, and when it has, it looks again at the
//!   number of spinners (a full fence on both sides: one of the two sees the other). So does the kthread's own thread
//!   before it sleeps.

use super::engine::Shared;
use crate::sync::{Ordering, full_fence, spin_loop};
use crate::tree::{GpResume, GpWait};

/// Looks at the role before a caller goes to sleep: a few grace periods long. Giving up the core instead lets the
/// callers that stay awake call more often and the others wait longer.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
const fn spins() -> u32 {
    256
}
#[cfg(any(treercu_loom, treercu_shuttle))]
use crate::sync::model::spins;
/// Grace periods that a caller carries out for others before it calls the kthread's own thread.
const FOR_OTHERS: u32 = 16;

impl Shared {
    /// Sees to it that somebody works on the caller's request; `served`: it is done.
    pub(super) fn drive(&self, served: impl Fn() -> bool) {
        let mut spun = 0;
        self.gp.spinners.fetch_add(1, Ordering::SeqCst);
        while spun < spins() && !served() {
            if !self.gp.role.is_locked() && self.rcu.gp_is_requested() {
                self.gp.spinners.fetch_sub(1, Ordering::SeqCst);
                if !self.try_drive(&served) {
                    return;
                }
                self.gp.spinners.fetch_add(1, Ordering::SeqCst);
            }
            spun += 1;
            spin_loop();
        }
        self.gp.spinners.fetch_sub(1, Ordering::SeqCst);
        full_fence("spinner gone");
        if self.rcu.gp_is_requested() {
            self.try_drive(&served);
        }
    }

    /// Is the kthread for a while, unless somebody is already. False: its own thread has been called.
    fn try_drive(&self, served: &impl Fn() -> bool) -> bool {
        for _ in 0..FOR_OTHERS {
            let Some(mut role) = self.gp.role.try_lock() else {
                return true;
            };
            if role.timed || !self.vcpus.is_online(self.gp.cpu()) {
                break;
            }
            let (wait, marks) = self.gp_run(&mut role, GpResume::Run, served);
            let timed = role.timed;
            drop(role);
            full_fence("role given");
            self.wake_crowd(marks);
            match wait {
                _ if timed => break,
                // Requested since: the ticket is old.
                GpWait::Request { ticket } if self.rcu.gp_ticket_is_old(ticket) => {}
                GpWait::Yield if self.rcu.gp_is_requested() || !served() => {}
                _ => return true,
            }
            if self.gp.spinners.load(Ordering::SeqCst) > 0 {
                return true;
            }
        }
        self.gp.park.wake(self.parking);
        false
    }
}
