//! Polled grace periods: cookies instead of waiting (invariant I14).
//!
//! A plain cookie is one number that normal and expedited grace periods share: overlapping ones share
//! one number, the first to end ends it, so such a cookie may wait longer than needed, never shorter.
//! A full cookie follows both kinds' own numbers and is done with either. Its normal part is taken from
//! `rs` (which starts first) and tested on the root (which ends first): from the root it would be too old
//! while a grace period is starting, and on `rs` it would be late after callbacks have already run.

use super::rcu::Rcu;
use super::seq;
use super::world::{Ctx, World};
use crate::sync::{AtomicU64, Ordering, full_fence, mutated};

/// A cookie that always tests as done (`RCU_GET_STATE_COMPLETED`).
pub const COMPLETED: u64 = 1;

/// The polled number (`gp_seq_polled`), and what each kind of grace period remembers of it.
///
/// A starting grace period starts its own number first, then this one; an ending one ends this one first.
/// The changes are single read-modify-writes: the kernel makes them under the root's lock, which the two
/// kinds would here contend for only to order what the word itself orders.
#[derive(Debug)]
pub(super) struct Polled {
    seq: AtomicU64,
    /// The number that the running normal grace period may end.
    norm_snap: AtomicU64,
    /// The same of the expedited one.
    exp_snap: AtomicU64,
}

impl Default for Polled {
    fn default() -> Self {
        Polled {
            seq: AtomicU64::new(seq::SEQ_BOOT),
            norm_snap: AtomicU64::new(0),
            exp_snap: AtomicU64::new(0),
        }
    }
}

impl Polled {
    pub(super) fn load(&self) -> u64 {
        self.seq.load(Ordering::SeqCst)
    }

    /// Starts the number unless the other kind has; gives it as it then stands. A cookie that still saw
    /// the number idle was taken before the full barrier between this and the first sample of a reader.
    fn start(&self) -> u64 {
        let now = self.load();
        if seq::state(now) != 0 {
            return now;
        }
        let started = seq::start(now);
        match self
            .seq
            .compare_exchange(now, started, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => started,
            // The other kind has just started it, or started and ended it: then it is not ours to end.
            Err(other) => other,
        }
    }

    /// Ends the number if it is still the one that this kind saw at its start.
    fn end(&self, snap: u64) {
        if seq::state(snap) != 0 {
            let ended = seq::end(snap);
            // Failure: the other kind ended it first.
            let _ = self
                .seq
                .compare_exchange(snap, ended, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
}

/// A full cookie (`struct rcu_gp_oldstate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullCookie {
    /// Normal grace periods.
    pub norm: u64,
    /// Expedited grace periods.
    pub exp: u64,
}

impl FullCookie {
    /// A cookie that always tests as done.
    pub const COMPLETED: FullCookie = FullCookie {
        norm: COMPLETED,
        exp: COMPLETED,
    };
}

impl<C> Rcu<C> {
    /// A normal grace period starts; its own number has just been started.
    pub(super) fn polled_gp_start(&self) {
        let snap = self.polled.start();
        self.polled.norm_snap.store(snap, Ordering::Relaxed);
        if mutated("A12") {
            self.polled_gp_end();
        }
    }

    /// It ends; its own number will be ended later.
    pub(super) fn polled_gp_end(&self) {
        self.polled.end(self.polled.norm_snap.load(Ordering::Relaxed));
    }

    /// An expedited grace period starts; its own number has just been started.
    pub(super) fn polled_exp_start(&self) {
        let snap = self.polled.start();
        self.polled.exp_snap.store(snap, Ordering::Relaxed);
    }

    /// It ends; its own number will be ended later.
    pub(super) fn polled_exp_end(&self) {
        self.polled.end(self.polled.exp_snap.load(Ordering::Relaxed));
    }

    /// `get_state_synchronize_rcu()`.
    pub fn get_state(&self) -> u64 {
        // Full barrier: the caller's updates before it come before the reading. Partner: the barrier
        // of the node lock that the next grace period's start takes.
        full_fence("get_state");
        if mutated("A11") {
            return seq::endval(self.polled.load());
        }
        seq::snap(self.polled.load())
    }

    /// `start_poll_synchronize_rcu()`: a cookie, and a request for the grace period it needs.
    pub fn start_poll(&self, ctx: Ctx, world: &mut impl World) -> u64 {
        let cookie = self.get_state();
        self.request_gp(ctx, world);
        cookie
    }

    /// `poll_state_synchronize_rcu()`.
    pub fn poll_state(&self, cookie: u64) -> bool {
        let done = cookie == COMPLETED || seq::done_exact(self.polled.load(), cookie);
        // Full barrier: what the caller frees now comes after the readers that the reading proves
        // gone. Partner: the one in `seq::end`'s place at the end of the grace period.
        full_fence("poll_state");
        done
    }

    /// `get_state_synchronize_rcu_full()`.
    pub fn get_state_full(&self) -> FullCookie {
        full_fence("get_state"); // as in `get_state`
        FullCookie {
            norm: seq::snap(self.gp_seq()),
            exp: seq::snap(self.exp_seq()),
        }
    }

    /// `start_poll_synchronize_rcu_full()`.
    pub fn start_poll_full(&self, ctx: Ctx, world: &mut impl World) -> FullCookie {
        // It asks for a normal grace period; expedited ones of others may be quicker.
        let cookie = self.get_state_full();
        self.request_gp(ctx, world);
        cookie
    }

    /// `poll_state_synchronize_rcu_full()`.
    pub fn poll_state_full(&self, cookie: FullCookie) -> bool {
        full_fence("poll_state before"); // pairs with the barrier behind the root's number in clean-up
        let root = self.nodes[0].gp_seq.load(Ordering::SeqCst);
        let done = cookie.norm == COMPLETED
            || seq::done_exact(root, cookie.norm)
            || cookie.exp == COMPLETED
            || seq::done_exact(self.exp_seq(), cookie.exp);
        full_fence("poll_state"); // as in `poll_state`
        done
    }
}
