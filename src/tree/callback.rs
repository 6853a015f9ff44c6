//! Callbacks: queueing them (`call_rcu`), the RCU core, and invoking them in batches (invariant I2).
//!
//! An ordinary `call_rcu` asks for nothing: the next tick on its CPU finds the callback and has the
//! RCU core request a grace period. Only a flood asks at once.

use super::chunks::Chunks;
use super::nocb;
use super::preempt::Reader;
use super::rcu::{Cb, CpuData, FLAG_FQS, Own, Rcu};
use super::request::segments;
use super::world::{Ctx, Current, Work, World};
use crate::sync::{Ordering, mutated};
use crate::trace::Event;

/// Batch limit while flooded.
pub const DEFAULT_MAX_RCU_BLIMIT: i64 = 10_000;
/// The time limit of a batch is looked at once in this many callbacks.
const TIME_CHECK_INTERVAL: u64 = 32;

/// What a trace prints about a user's callback.
pub trait Callback {
    /// A stable number for it (`rhp`).
    fn rhp(&self) -> u64;
    /// The name of its function.
    fn func(&self) -> &'static str;
}

impl<C: Callback> Cb<C> {
    fn rhp(&self) -> u64 {
        match self {
            Cb::User(user) => user.rhp(),
            Cb::Wake(waiter) => waiter.rhp(),
            Cb::Barrier => 0,
        }
    }

    fn func(&self) -> &'static str {
        match self {
            Cb::User(user) => user.func(),
            Cb::Wake(_) => "wakeme_after_rcu",
            Cb::Barrier => "rcu_barrier_callback",
        }
    }
}

impl<C: Callback> Rcu<C> {
    /// `call_rcu()`: has `callback` invoked after a full grace period.
    pub fn call(&self, ctx: Ctx, callback: Cb<C>, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let (mut wake, mut force) = (false, false);
        let mut nocb = nocb::Call::Nothing;
        {
            let mut own = rdp.own.lock();
            self.check_cb_ovld(rdp, &own);
            let (rhp, func) = (callback.rhp(), callback.func());
            let offloaded = own.bypass.is_some();
            if offloaded {
                nocb = self.nocb_enqueue(ctx, rdp, &mut own, callback, world);
            } else {
                own.cblist.enqueue(callback);
            }
            world.emit(|| Event::Callback {
                rhp,
                func,
                qlen: own.cblist.len(),
            });
            world.emit(|| segments("SegCBQueued", &own.cblist));
            // SeqCst where it matters to somebody who looks without the lock (a tick that is about to stop, a barrier):
            // that there is a callback at all.
            let order = if own.cblist.len() == 1 {
                Ordering::SeqCst
            } else {
                Ordering::Relaxed
            };
            rdp.cblist_len.store(own.cblist.len(), order);
            let mark = own.qlen_last_fqs_check + self.tun.qhimark as u64;
            if own.cblist.len() > mark && !offloaded {
                (wake, force) = self.flood(rdp, &mut own, world);
            }
        }
        world.spend(Work::CallRcu);
        self.nocb_call(ctx.cpu, nocb, world);
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
        if force {
            self.force_quiescent_state(ctx, world);
        }
    }

    /// Too many callbacks since the last look: ask for a grace period, or hurry the running one.
    /// Returns (wake the kthread, force a scan).
    fn flood(&self, rdp: &CpuData<C>, own: &mut Own<C>, world: &mut impl World) -> (bool, bool) {
        let noticed = self.note_gp_changes(rdp, own, world);
        if !self.gp_in_progress() {
            // The marks stay, so that the next callback tests true again.
            return (self.accelerate_cbs_unlocked(rdp, own, world) || noticed, false);
        }
        own.blimit = DEFAULT_MAX_RCU_BLIMIT;
        let n_force_qs = self.n_force_qs.load(Ordering::Relaxed);
        let force = n_force_qs == own.n_force_qs_snap && !own.cblist.only_one_pending();
        own.n_force_qs_snap = n_force_qs;
        own.qlen_last_fqs_check = own.cblist.len();
        (noticed, force)
    }

    /// Keeps this CPU's bit in the leaf's overload mask in step with its queue length.
    fn check_cb_ovld(&self, rdp: &CpuData<C>, own: &Own<C>) {
        if self.tun.qovld <= 0 {
            return;
        }
        let over = own.cblist.len() >= self.tun.qovld as u64;
        let mask = &self.nodes[rdp.leaf].cbovldmask;
        if over != (mask.load(Ordering::Relaxed) & rdp.grpmask != 0) {
            let _leaf = self.lock_node(rdp.leaf);
            self.set_cb_ovld(rdp, over);
        }
    }

    /// `rcu_force_quiescent_state()`: asks the kthread for a scan now. Of many callers at once, one
    /// gets through each node towards the root; the others rely on it.
    fn force_quiescent_state(&self, ctx: Ctx, world: &mut impl World) {
        if !self.gp_in_progress() {
            return;
        }
        let mut passed: Option<usize> = None;
        let mut next = Some(self.cpus[ctx.cpu as usize].leaf);
        while let Some(index) = next {
            let node = &self.nodes[index];
            let stop = self.gp_flags.load(Ordering::SeqCst) & FLAG_FQS != 0
                || node
                    .fqs_funnel
                    .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                    .is_err();
            if let Some(child) = passed {
                self.nodes[child].fqs_funnel.store(false, Ordering::Release);
            }
            if stop {
                return;
            }
            passed = Some(index);
            next = node.shape.parent;
        }
        {
            let _root = self.lock_node(0);
            self.nodes[0].fqs_funnel.store(false, Ordering::Release);
            if self.change_gp_flags(|flags| flags | FLAG_FQS) & FLAG_FQS != 0 {
                return;
            }
        }
        self.wake_gp_kthread(ctx, world);
    }

    /// `rcu_core()`: what the RCU softirq does on a CPU. The returned batch is to be invoked with no
    /// lock held and then [finished](Batch::finish); dropped unfinished, its rest goes back.
    ///
    /// `reader`: the read-side state of the interrupted task, if it runs with everything enabled.
    pub fn core(
        &self,
        ctx: Ctx,
        reader: Option<&mut Reader>,
        world: &mut impl World,
    ) -> Option<Batch<'_, C>> {
        self.core_check(ctx, reader, world);
        self.core_batch(ctx, world)
    }

    /// First part of [`Rcu::core`]: grace-period changes, quiescent states, requests.
    pub fn core_check(&self, ctx: Ctx, reader: Option<&mut Reader>, world: &mut impl World) {
        world.emit(|| Event::Utilization("Start RCU core"));
        let rdp = &self.cpus[ctx.cpu as usize];
        if let Some(reader) = reader {
            self.report_deferred_qs(ctx, reader, world);
        }
        self.check_quiescent_state(ctx, world);
        let wake = {
            let mut own = rdp.own.lock();
            // This is what normally starts a grace period.
            own.bypass.is_none()
                && !self.gp_in_progress()
                && !own.cblist.restempty(super::cblist::NEXT_READY)
                && self.accelerate_cbs_unlocked(rdp, &mut own, world)
        };
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
        self.nocb_deferred_wakeup(ctx, world);
    }

    /// Callbacks wait to be invoked on this CPU, and nobody is at it.
    pub fn has_ready_callbacks(&self, cpu: u32) -> bool {
        let own = self.cpus[cpu as usize].own.lock();
        own.cblist.ready() && !own.in_batch && own.bypass.is_none()
    }

    /// Second part of [`Rcu::core`]: the callbacks that may be invoked, if any. Batches of one CPU
    /// exclude each other.
    pub fn core_batch(&self, ctx: Ctx, world: &mut impl World) -> Option<Batch<'_, C>> {
        let rdp = &self.cpus[ctx.cpu as usize];
        let mut own = rdp.own.lock();
        if mutated("Z02") && !own.cblist.ready() {
            let waiting = own.cblist.extract_pend();
            own.cblist.insert_done(waiting);
        }
        if !own.cblist.ready() || own.in_batch || own.bypass.is_some() {
            world.emit(|| Event::Utilization("End RCU core"));
            return None;
        }
        own.in_batch = true;
        let by_divisor = (own.cblist.seglen(super::cblist::DONE) >> self.tun.rcu_divisor) as i64;
        let limit = own.blimit.max(by_divisor);
        let check_time = self.tun.rcu_double_check_cb_time || limit > 100;
        let resched_ns = self.tun.rcu_resched_ns;
        world.emit(|| Event::BatchStart {
            qlen: own.cblist.len(),
            blimit: limit as u64,
        });
        let callbacks = own.cblist.extract_done();
        world.emit(|| segments("SegCbDequeued", &own.cblist));
        Some(Batch {
            rcu: self,
            rdp,
            callbacks,
            invoked: 0,
            limit: limit as u64,
            deadline_ns: check_time.then(|| world.now() + resched_ns),
            deadline_jiffies: self.tun.rcu_double_check_cb_time.then(|| {
                world.jiffies()
                    + (resched_ns * u64::from(self.tun.hz))
                        .div_ceil(1_000_000_000)
                        .max(1)
            }),
        })
    }

    /// What `rcuop` invokes: all that is ready, without a limit.
    pub(super) fn unlimited_batch(&self, cpu: u32, world: &mut impl World) -> Option<Batch<'_, C>> {
        let rdp = &self.cpus[cpu as usize];
        let mut own = rdp.own.lock();
        if !own.cblist.ready() || own.in_batch {
            return None;
        }
        own.in_batch = true;
        world.emit(|| Event::BatchStart {
            qlen: own.cblist.len(),
            blimit: u64::MAX,
        });
        let callbacks = own.cblist.extract_done();
        Some(Batch {
            rcu: self,
            rdp,
            callbacks,
            invoked: 0,
            limit: u64::MAX,
            deadline_ns: None,
            deadline_jiffies: None,
        })
    }
}

/// Callbacks that are being invoked on one CPU.
#[derive(Debug)]
pub struct Batch<'r, C> {
    rcu: &'r Rcu<C>,
    rdp: &'r CpuData<C>,
    callbacks: Chunks<Cb<C>>,
    invoked: u64,
    limit: u64,
    deadline_ns: Option<u64>,
    deadline_jiffies: Option<u64>,
}

impl<C: Callback> Batch<'_, C> {
    /// The next callback to invoke, or `None` when the batch is over: nothing left, the limit
    /// reached while somebody else wants the CPU, or its time used up.
    pub fn next(&mut self, ctx: Ctx, need_resched: bool, world: &mut impl World) -> Option<Cb<C>> {
        if self.invoked > 0 {
            let wanted = need_resched || ctx.current != Current::Idle;
            if self.invoked >= self.limit && wanted {
                return None;
            }
            let on_the_mark = self.invoked.is_multiple_of(TIME_CHECK_INTERVAL);
            let late = self
                .deadline_ns
                .is_some_and(|limit| on_the_mark && world.now() > limit)
                || self.deadline_jiffies.is_some_and(|limit| world.jiffies() > limit);
            if late {
                return None;
            }
        }
        let callback = self.callbacks.pop_front()?;
        self.invoked += 1;
        world.emit(|| Event::InvokeCallback {
            rhp: callback.rhp(),
            func: callback.func(),
        });
        Some(callback)
    }

    /// Callbacks invoked so far.
    pub fn invoked(&self) -> u64 {
        self.invoked
    }

    /// Ends the batch; left-overs have the core run again.
    pub fn finish(self, ctx: Ctx, need_resched: bool, world: &mut impl World) {
        let (rdp, invoked) = (self.rdp, self.invoked);
        drop(self);
        let own = rdp.own.lock();
        let (more, offloaded) = (own.cblist.ready(), own.bypass.is_some());
        std::mem::drop(own);
        world.emit(|| Event::BatchEnd {
            invoked,
            more,
            need_resched,
            idle: ctx.current == Current::Idle,
        });
        if more && !offloaded {
            world.raise_core(rdp.cpu);
        }
        world.emit(|| Event::Utilization("End RCU core"));
    }
}

/// Also by a panic in a callback: what was not invoked goes back to the front of DONE.
impl<C> Drop for Batch<'_, C> {
    fn drop(&mut self) {
        let tun = &self.rcu.tun;
        let mut own = self.rdp.own.lock();
        own.cblist.insert_done(std::mem::take(&mut self.callbacks));
        own.cblist.finished(self.invoked);
        own.in_batch = false;
        let len = own.cblist.len();
        self.rdp.cblist_len.store(len, Ordering::SeqCst);
        if own.blimit >= DEFAULT_MAX_RCU_BLIMIT && len as i64 <= tun.qlowmark {
            own.blimit = tun.blimit;
        }
        if len == 0 && own.qlen_last_fqs_check != 0 {
            own.qlen_last_fqs_check = 0;
            own.n_force_qs_snap = self.rcu.n_force_qs.load(Ordering::Relaxed);
        } else if len + (tun.qhimark as u64) < own.qlen_last_fqs_check {
            own.qlen_last_fqs_check = len;
        }
    }
}
