//! `synchronize_rcu()`: the callback route and the direct-wake route (invariant I11).
//!
//! Direct wake: callers push themselves on one lock-free stack. At the start of a grace period, just
//! before its number is advanced, the kthread takes the stack under one of five *wait heads*; at the
//! end it wakes the newest few callers itself and leaves the rest to a worker. The head stays behind
//! as the done tail until a later grace period's clean-up or worker frees it, so a machine at rest
//! keeps one in use. With all five in use a grace period serves nobody and one more is requested.

use super::rcu::{Cb, Rcu};
use super::snapshot::SrsSnapshot;
use super::waiters::{Waiter, WaiterChain, WaiterStack};
use super::world::{Ctx, WorkItem, World};
use crate::sync::{AtomicU32, FullLock, Ordering};

/// Wait heads (`SR_NORMAL_GP_WAIT_HEAD_MAX`).
pub const WAIT_HEADS: usize = 5;
/// Callers that the kthread wakes itself (`SR_MAX_USERS_WAKE_FROM_GP`).
pub const MAX_DIRECT_WAKES: usize = 5;

/// How a `synchronize_rcu()` call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// By a callback of its own on the calling CPU.
    Callback,
    /// On the request stack, woken by the kthread or its worker.
    Direct,
}

#[derive(Debug, Default)]
struct WaitHead {
    in_use: bool,
    /// Number, while it runs, of the grace period that serves them.
    gp_seq: u64,
    /// Callers taken under this head that were not woken yet.
    chain: WaiterChain,
}

impl WaitHead {
    /// The callers one by one, newest first, each with the number of the grace period it waited for.
    fn take_waiters(&mut self) -> impl Iterator<Item = (Waiter, u64)> {
        std::iter::from_fn(|| self.chain.pop().map(|waiter| (waiter, self.gp_seq)))
    }
}

/// What the kthread and the worker share.
#[derive(Debug, Default)]
struct Served {
    heads: [WaitHead; WAIT_HEADS],
    /// Head of the grace period in progress (`srs_wait_tail`).
    wait_tail: Option<usize>,
    /// Heads of grace periods that are over, newest first; the first is `srs_done_tail`.
    done: Vec<usize>,
}

/// Direct-wake requests.
#[derive(Debug, Default)]
pub(super) struct SyncRequests {
    next: WaiterStack,
    served: FullLock<Served>,
    /// Workers queued or running (`srs_cleanups_pending`).
    cleanups_pending: AtomicU32,
}

impl SyncRequests {
    pub(super) fn snapshot(&self) -> SrsSnapshot {
        let served = self.served.lock();
        SrsSnapshot {
            heads_in_use: served.heads.iter().filter(|head| head.in_use).count() as u32,
            wait_tail: served.wait_tail.is_some(),
            done_tail: !served.done.is_empty(),
            cleanups_pending: self.cleanups_pending.load(Ordering::Relaxed),
        }
    }

    /// `rcu_sr_normal_gp_init()`, before the grace-period number starts: whoever pushes later has to
    /// wait for the next grace period. True: no head was free, so one more grace period is needed.
    pub(super) fn gp_init(&self, gp_seq: u64) -> bool {
        if self.next.is_empty() {
            return false;
        }
        let mut served = self.served.lock();
        let Some(free) = served.heads.iter().position(|head| !head.in_use) else {
            return true;
        };
        debug_assert!(served.wait_tail.is_none(), "a wait head outside a grace period");
        served.heads[free] = WaitHead {
            in_use: true,
            gp_seq,
            chain: self.next.take(),
        };
        served.wait_tail = Some(free);
        false
    }

    /// `rcu_sr_normal_gp_cleanup()`. Returns the callers to wake now, newest first, and whether
    /// the worker has to be queued.
    fn gp_cleanup(&self) -> (Vec<(Waiter, u64)>, bool) {
        let mut served = self.served.lock();
        let Some(tail) = served.wait_tail.take() else {
            return (Vec::new(), false);
        };
        let wake: Vec<_> = served.heads[tail].take_waiters().take(MAX_DIRECT_WAKES).collect();
        if let [only] = served.done[..]
            && served.heads[tail].chain.is_empty()
            && served.heads[only].chain.is_empty()
            && self.cleanups_pending.load(Ordering::Acquire) == 0
        {
            served.heads[only].in_use = false;
            served.done.clear();
        }
        served.done.insert(0, tail);
        let left = !served.heads[tail].chain.is_empty() || served.done.len() > 1;
        if left {
            self.cleanups_pending.fetch_add(1, Ordering::Relaxed);
        }
        (wake, left)
    }

    /// `rcu_sr_normal_gp_cleanup_work()`: everything behind the done tail as it is now. The done tail
    /// itself stays in use.
    fn cleanup_work(&self) -> Vec<(Waiter, u64)> {
        let mut wake = Vec::new();
        let mut served = self.served.lock();
        let heads = served.done.clone();
        for (position, head) in heads.into_iter().enumerate() {
            wake.extend(served.heads[head].take_waiters());
            if position > 0 {
                served.heads[head].in_use = false;
            }
        }
        served.done.truncate(1);
        wake
    }
}

impl<C> Rcu<C> {
    /// Which way a normal `synchronize_rcu()` goes.
    pub fn sync_route(&self) -> Route {
        if self.tun.wake_from_gp {
            Route::Direct
        } else {
            Route::Callback
        }
    }

    /// The first half of `synchronize_rcu()`: after this the caller blocks until `waiter` is completed.
    pub fn synchronize(&self, ctx: Ctx, waiter: Waiter, world: &mut impl World) -> Route {
        let route = self.sync_route();
        match route {
            Route::Callback => self.call(ctx, Cb::Wake(waiter), world),
            Route::Direct => {
                self.srs.next.push(waiter);
                self.request_gp(ctx, world);
            }
        }
        route
    }

    /// Wakes the callers whose grace period ended, as far as the kthread does so itself.
    pub(super) fn srs_gp_cleanup(&self, world: &mut impl World) {
        let (wake, left) = self.srs.gp_cleanup();
        for (waiter, gp_seq) in wake {
            world.complete(waiter, gp_seq);
        }
        if left && !world.queue_work(WorkItem::SrsCleanup) {
            // Queued before and not running yet: that run will see this head too.
            self.srs.cleanups_pending.fetch_sub(1, Ordering::Release);
        }
    }

    /// Runs a work item. Items of one kind never run at the same time.
    pub fn work(&self, item: WorkItem, world: &mut impl World) {
        match item {
            WorkItem::SrsCleanup => {
                for (waiter, gp_seq) in self.srs.cleanup_work() {
                    world.complete(waiter, gp_seq);
                }
                self.srs.cleanups_pending.fetch_sub(1, Ordering::Release);
            }
        }
    }
}
