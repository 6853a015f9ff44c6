//! `synchronize_rcu()`: the callback route and the direct-wake route (invariant I11).
//!
//! Direct wake: callers push themselves on one lock-free stack. At the start of a grace period, just
//! before its number is advanced, the kthread takes the stack under one of five *wait heads*; at the
//! end it wakes the newest few callers itself and leaves the rest to a worker. The head stays behind
//! as the done tail until a later grace period's clean-up or worker frees it, so a machine at rest
//! keeps one in use. With all five in use a grace period serves nobody and one more is requested.
//!
//! The *latch* keeps a flood off that stack: from 64 direct requests in flight on, new calls take the
//! callback route until none is in flight (invariant I12).

use super::callback::Callback;
use super::rcu::{Cb, Rcu};
use super::snapshot::SrsSnapshot;
use super::waiters::{Waiter, WaiterChain, WaiterStack};
use super::world::{Ctx, WorkItem, World};
use crate::config::Latch;
use crate::sync::{AtomicBool, AtomicI64, AtomicU32, FullLock, Ordering, mutated};
use crate::trace::Event;

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
    /// Direct requests in flight, as far as they are counted (`rcu_sr_normal_count`).
    count: AtomicI64,
    /// New calls take the callback route until all counted ones are gone (`rcu_sr_normal_latched`).
    latched: AtomicBool,
}

/// Stages of a call on the direct route. Each is one atomic step; a caller may be preempted between
/// two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Push,
    Count,
    Latch,
    Request,
}

/// A `synchronize_rcu()` call on its way to blocking.
#[derive(Debug)]
pub struct SyncCall {
    route: Route,
    stage: Stage,
    waiter: Option<Waiter>,
}

impl SyncCall {
    /// How this call waits.
    pub fn route(&self) -> Route {
        self.route
    }
}

impl SyncRequests {
    pub(super) fn snapshot(&self) -> SrsSnapshot {
        let served = self.served.lock();
        SrsSnapshot {
            heads_in_use: served.heads.iter().filter(|head| head.in_use).count() as u32,
            wait_tail: served.wait_tail.is_some(),
            done_tail: !served.done.is_empty(),
            cleanups_pending: self.cleanups_pending.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            latched: self.latched.load(Ordering::Relaxed),
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
        promise!(served.wait_tail.is_none(), "a wait head outside a grace period");
        served.heads[free] = WaitHead {
            in_use: true,
            gp_seq,
            chain: self.next.take(),
        };
        served.wait_tail = Some(free);
        false
    }

    /// `rcu_sr_normal_gp_cleanup()`. Returns the callers to wake now, newest first, and whether
    /// the worker has to be queued. Nothing is allocated.
    fn gp_cleanup(&self) -> ([Option<(Waiter, u64)>; MAX_DIRECT_WAKES], bool) {
        let mut wake = [const { None }; MAX_DIRECT_WAKES];
        let mut served = self.served.lock();
        let Some(tail) = served.wait_tail.take() else {
            return (wake, false);
        };
        for (place, waiter) in wake.iter_mut().zip(served.heads[tail].take_waiters()) {
            *place = Some(waiter);
        }
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
    /// itself stays in use. The callers come as they were taken, each with its grace period's number.
    fn cleanup_work(&self) -> [WaitHead; WAIT_HEADS] {
        let mut wake: [WaitHead; WAIT_HEADS] = Default::default();
        let mut served = self.served.lock();
        let Served { heads, done, .. } = &mut *served;
        for (position, (&head, taken)) in done.iter().zip(&mut wake).enumerate() {
            let head = &mut heads[head];
            taken.gp_seq = head.gp_seq;
            taken.chain = std::mem::take(&mut head.chain);
            if position > 0 {
                head.in_use = false;
            }
        }
        done.truncate(1);
        wake
    }
}

impl<C: Callback> Rcu<C> {
    /// Begins a normal `synchronize_rcu()` and decides its route.
    pub fn sync_begin(&self, waiter: Waiter, world: &mut impl World) -> SyncCall {
        world.emit(|| Event::SrNormal {
            rhp: waiter.rhp(),
            what: "request",
        });
        let direct = self.tun.wake_from_gp && !self.srs.latched.load(Ordering::SeqCst);
        SyncCall {
            route: if direct { Route::Direct } else { Route::Callback },
            // The latch's first version pushes a request before it counts it, so that it can be completed
            // before it is counted; the merged one counts first.
            stage: match self.tun.sr_normal_latch {
                Latch::Merged => Stage::Count,
                Latch::Off | Latch::V1 => Stage::Push,
            },
            waiter: Some(waiter),
        }
    }

    /// One step of the call. True: the caller may block until its waiter is completed.
    pub fn sync_step(&self, call: &mut SyncCall, ctx: Ctx, world: &mut impl World) -> bool {
        if mutated("Z01")
            && let Some(waiter) = call.waiter.take()
        {
            world.complete(waiter, self.gp_seq());
            return true;
        }
        if call.route == Route::Callback {
            if let Some(waiter) = call.waiter.take() {
                self.call(ctx, Cb::Wake(waiter), world);
            }
            return true;
        }
        let latch = self.tun.sr_normal_latch;
        let threshold = self.tun.sr_normal_latch_threshold as i64;
        match call.stage {
            Stage::Push => {
                if let Some(waiter) = call.waiter.take() {
                    self.srs.next.push(waiter);
                }
                call.stage = if latch == Latch::V1 {
                    Stage::Count
                } else {
                    Stage::Request
                };
            }
            Stage::Count => {
                let count = self.srs.count.fetch_add(1, Ordering::SeqCst) + 1;
                let closes = match latch {
                    Latch::V1 => count >= threshold,
                    // Only an exact hit: this call's own request is counted and not pushed yet, so a
                    // later drain to zero is sure to come and open the latch again.
                    Latch::Off | Latch::Merged => count == threshold,
                };
                call.stage = match (closes, latch) {
                    (true, _) => Stage::Latch,
                    (false, Latch::V1) => Stage::Request,
                    (false, _) => Stage::Push,
                };
            }
            Stage::Latch => {
                self.srs.latched.store(true, Ordering::SeqCst);
                call.stage = if latch == Latch::V1 {
                    Stage::Request
                } else {
                    Stage::Push
                };
            }
            Stage::Request => {
                self.request_gp(ctx, world);
                return true;
            }
        }
        false
    }

    /// The caller runs again: the last step of `synchronize_rcu()`.
    pub fn sync_end(&self, waiter: &Waiter, world: &mut impl World) {
        world.emit(|| Event::SrNormal {
            rhp: waiter.rhp(),
            what: "complete",
        });
    }

    /// The first half of `synchronize_rcu()` in one go: after this the caller blocks.
    pub fn synchronize(&self, ctx: Ctx, waiter: Waiter, world: &mut impl World) -> Route {
        let mut call = self.sync_begin(waiter, world);
        while !self.sync_step(&mut call, ctx, world) {}
        call.route
    }
}

impl<C> Rcu<C> {
    /// A direct request was completed: latch accounting. Only the step to zero opens the latch.
    fn uncount(&self) {
        if self.tun.sr_normal_latch == Latch::Off {
            return;
        }
        if self.srs.count.fetch_sub(1, Ordering::SeqCst) == 1 && !mutated("A10") {
            self.srs.latched.store(false, Ordering::SeqCst);
        }
    }

    /// Wakes the callers whose grace period ended, as far as the kthread does so itself.
    pub(super) fn srs_gp_cleanup(&self, world: &mut impl World) {
        if mutated("callers taken late") {
            self.srs.gp_init(self.gp_seq());
        }
        let (wake, left) = self.srs.gp_cleanup();
        for (waiter, gp_seq) in wake.into_iter().flatten() {
            world.complete(waiter, gp_seq);
            self.uncount();
        }
        if mutated("A09") {
            return;
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
                for mut head in self.srs.cleanup_work() {
                    for (waiter, gp_seq) in head.take_waiters() {
                        world.complete(waiter, gp_seq);
                        self.uncount();
                    }
                }
                self.srs.cleanups_pending.fetch_sub(1, Ordering::Release);
            }
        }
    }
}
