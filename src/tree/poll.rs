//! Polled grace periods: cookies instead of waiting (invariant I14).
//!
//! A plain cookie is one number that normal and expedited grace periods share: overlapping ones share
//! one number, the first to end ends it, so such a cookie may wait longer than needed, never shorter.
//! A full cookie follows the normal number itself. It is taken from `rs` (which starts first) and
//! tested on the root (which ends first): from the root it would be too old while a grace period is
//! starting, and on `rs` it would be late after callbacks have already run.

use super::rcu::Rcu;
use super::seq;
use super::world::{Ctx, World};
use crate::sync::{Ordering, fence};

/// A cookie that always tests as done (`RCU_GET_STATE_COMPLETED`).
pub const COMPLETED: u64 = 1;

/// The polled number's link to the running grace period; its lock is inside the root's.
#[derive(Debug, Default)]
pub(super) struct PolledState {
    /// The polled number that the running normal grace period may end; 0: none.
    snap: u64,
}

/// A full cookie (`struct rcu_gp_oldstate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullCookie {
    /// Normal grace periods.
    pub norm: u64,
}

impl FullCookie {
    /// A cookie that always tests as done.
    pub const COMPLETED: FullCookie = FullCookie { norm: COMPLETED };
}

impl<C> Rcu<C> {
    /// A normal grace period starts; its own number has just been started, the root is locked.
    pub(super) fn polled_gp_start(&self) {
        let mut polled = self.polled.lock();
        let now = self.gp_seq_polled.load(Ordering::Relaxed);
        let now = if seq::state(now) == 0 {
            seq::start(now)
        } else {
            now
        };
        self.gp_seq_polled.store(now, Ordering::SeqCst);
        polled.snap = now;
    }

    /// It ends; its own number will be ended later.
    pub(super) fn polled_gp_end(&self) {
        let mut polled = self.polled.lock();
        let now = self.gp_seq_polled.load(Ordering::Relaxed);
        if polled.snap != 0 && polled.snap == now {
            self.gp_seq_polled.store(seq::end(now), Ordering::SeqCst);
        }
        polled.snap = 0;
    }

    /// `get_state_synchronize_rcu()`.
    pub fn get_state(&self) -> u64 {
        // Full barrier: the caller's updates before it come before the reading. Partner: the barrier
        // of the node lock that the next grace period's start takes.
        fence(Ordering::SeqCst);
        seq::snap(self.gp_seq_polled.load(Ordering::SeqCst))
    }

    /// `start_poll_synchronize_rcu()`: a cookie, and a request for the grace period it needs.
    pub fn start_poll(&self, ctx: Ctx, world: &mut impl World) -> u64 {
        let cookie = self.get_state();
        self.request_gp(ctx, world);
        cookie
    }

    /// `poll_state_synchronize_rcu()`.
    pub fn poll_state(&self, cookie: u64) -> bool {
        let done = cookie == COMPLETED || seq::done_exact(self.gp_seq_polled.load(Ordering::SeqCst), cookie);
        // Full barrier: what the caller frees now comes after the readers that the reading proves
        // gone. Partner: the one in `seq::end`'s place at the end of the grace period.
        fence(Ordering::SeqCst);
        done
    }

    /// `get_state_synchronize_rcu_full()`.
    pub fn get_state_full(&self) -> FullCookie {
        fence(Ordering::SeqCst); // as in `get_state`
        FullCookie {
            norm: seq::snap(self.gp_seq()),
        }
    }

    /// `start_poll_synchronize_rcu_full()`.
    pub fn start_poll_full(&self, ctx: Ctx, world: &mut impl World) -> FullCookie {
        let cookie = self.get_state_full();
        self.request_gp(ctx, world);
        cookie
    }

    /// `poll_state_synchronize_rcu_full()`.
    pub fn poll_state_full(&self, cookie: FullCookie) -> bool {
        fence(Ordering::SeqCst); // pairs with the barrier behind the root's number in clean-up
        let root = self.nodes[0].gp_seq.load(Ordering::SeqCst);
        let done = cookie.norm == COMPLETED || seq::done_exact(root, cookie.norm);
        fence(Ordering::SeqCst); // as in `poll_state`
        done
    }
}
