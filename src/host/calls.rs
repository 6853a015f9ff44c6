//! What an attached thread asks of the engine: waits, callbacks, cookies.

use super::callback::HostCb;
use super::clock::monotonic_ns;
use super::crowd::mark_of;
use super::engine::Shared;
use super::handle::own_nesting;
use super::slot::Slot;
use super::softirq::{SharedRef, invoking};
use super::world::{Actor, Host};
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Ordering, mutated};
use crate::tree::{Cb, FullCookie, Route};
use std::cell::Cell;
use std::time::Duration;

/// How a `synchronize_rcu()` call was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The grace period that released the call, as its number while it ran. Callback route: the last one
    /// whose end the virtual CPU had noticed. Expedited: the expedited sequence while it ran.
    pub gp_seq: u64,
    /// By direct wake rather than by callback.
    pub direct: bool,
}

/// Why a blocked call may return early. A flag is the simplest reason: true means that it is to return.
pub trait GiveUp {
    /// The call is to return. Asked before its thread sleeps and each time that it wakes; once true it stays true.
    fn now(&self) -> bool;

    /// The thread wakes at least this often to ask; `None`: only when somebody kicks it
    /// ([`Kicker`], [`super::Engine::kick_waiters`]). The wait itself goes on, nothing starts anew.
    fn every(&self) -> Option<Duration> {
        None
    }
}

impl GiveUp for AtomicBool {
    fn now(&self) -> bool {
        self.load(Ordering::SeqCst)
    }
}

/// Has a blocked thread ask its [`GiveUp`] again.
#[derive(Clone)]
pub struct Kicker {
    shared: SharedRef,
    slot: u32,
}

impl Kicker {
    pub(super) fn new(shared: &SharedRef, slot: &Slot) -> Self {
        Kicker {
            shared: shared.clone(),
            slot: slot.index,
        }
    }

    /// What the thread is to see was made true before.
    pub fn kick(&self) {
        self.shared.slots.get(self.slot).wait.kick(self.shared.parking);
        self.shared.crowd.wake(self.shared.parking, super::crowd::ALL);
    }
}

/// What a call may do while it is blocked.
#[derive(Clone, Copy)]
pub(super) struct Patience<'c>(pub Option<&'c dyn GiveUp>);

impl Patience<'_> {
    pub(super) fn is_over(self) -> bool {
        self.0.is_some_and(|reason| reason.now())
    }

    pub(super) fn every(self) -> Option<Duration> {
        self.0.and_then(|reason| reason.every())
    }

    fn every_ns(self) -> Option<u64> {
        let every = self.every()?;
        Some(every.as_nanos().min(u128::from(u64::MAX / 2)) as u64)
    }
}

#[cold]
pub(super) fn inside(call: &'static str) -> Error {
    Error::Misuse {
        call,
        reason: "called inside a read-side section, which it would wait for".to_owned(),
        allowed: "outside read-side sections",
    }
}

impl Shared {
    /// A blocking call may be made here.
    pub(super) fn may_block(&self, call: &'static str, slot: &Slot) -> Result<()> {
        // The thread may have a section open through its own attachment while it calls through a handle.
        self.may_wait(call)?;
        if slot.words.nesting() > 0 {
            return Err(inside(call));
        }
        Ok(())
    }

    /// The same, as far as it can be told without a slot.
    pub(super) fn may_wait(&self, call: &'static str) -> Result<()> {
        self.check(call)?;
        if own_nesting(self) > 0 {
            return Err(inside(call));
        }
        if invoking() == self.id {
            return Err(Error::Misuse {
                call,
                reason: "called from a callback, which it would wait for".to_owned(),
                allowed: "outside callbacks",
            });
        }
        Ok(())
    }

    /// Off the vCPU while the thread is blocked.
    fn block_outside(&self, slot: &Slot, number: u64, patience: Patience<'_>) -> Option<u64> {
        self.block_until(slot, number, None, patience)
    }

    /// Until the wait is over, the engine stops, the patience ends or the time (ns of the monotonic clock) has come.
    pub(super) fn block_until(
        &self,
        slot: &Slot,
        number: u64,
        until: Option<u64>,
        patience: Patience<'_>,
    ) -> Option<u64> {
        let over = Cell::new(false);
        let give_up = || {
            over.set(patience.is_over() || self.stopping());
            over.get()
        };
        loop {
            let slice = patience.every_ns().map(|ns| monotonic_ns() + ns);
            let deadline = match (until, slice) {
                (Some(until), Some(slice)) => Some(until.min(slice)),
                (until, slice) => until.or(slice),
            };
            let served = slot.wait.block(number, self.parking, deadline, give_up);
            if served.is_some() || over.get() || until.is_some_and(|until| monotonic_ns() >= until) {
                return served;
            }
        }
    }

    /// The thread does something else outside sections, and grace periods do not wait for it meanwhile.
    pub(super) fn outside<R>(&self, slot: &Slot, f: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Shared, &'a Slot);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.run_again(self.1);
            }
        }
        if self.rcu.is_preemptible() || self.is_forked() {
            return f();
        }
        self.leave_scan_set(slot);
        let _back = Back(self, slot);
        f()
    }

    /// Non-preemptible threads are inside for all that anybody knows as soon as they run again.
    pub(super) fn run_again(&self, slot: &Slot) {
        if !self.rcu.is_preemptible() && !slot.words.is_active() {
            slot.words.set_active();
            if !mutated("join skipped") {
                self.vcpus.join(slot);
            }
        }
    }

    pub(super) fn closed_meanwhile<T>(
        &self,
        call: &'static str,
        patience: Patience<'_>,
    ) -> Result<Option<T>> {
        if self.stopping() && !patience.is_over() {
            return Err(Error::Misuse {
                call,
                reason: "the engine was closed meanwhile, and some reader outlasted the deadline".to_owned(),
                allowed: "an open engine",
            });
        }
        Ok(None)
    }

    pub(super) fn synchronize(&self, slot: &Slot, patience: Patience<'_>) -> Result<Option<Served>> {
        if self.tun.sync_is_expedited {
            return self.drive_synchronize(slot, patience);
        }
        self.synchronize_normally(slot, patience)
    }

    /// `synchronize_rcu()` where it is not expedited, and the expedited call where that is normal.
    pub(super) fn synchronize_normally(&self, slot: &Slot, patience: Patience<'_>) -> Result<Option<Served>> {
        self.may_block("synchronize", slot)?;
        self.leave_scan_set(slot);
        let cpu = slot.cpu();
        // Who wakes now and then to look around sleeps by itself, the others in the crowd.
        let alone = patience.every_ns().is_some();
        let mark = if alone { 0 } else { mark_of(self.rcu.gp_seq()) };
        let (number, waiter) = slot.begin_wait(mark);
        let mut host = Host::new(self, Actor::Thread, cpu);
        host.drives = self.gp.driven;
        let route = self.rcu.synchronize(host.ctx(), waiter, &mut host);
        host.deliver();
        let direct = route == Route::Direct;
        if host.drives {
            self.drive(|| slot.wait.served(number).is_some());
        }
        if !direct {
            self.ticks.want(self, cpu);
        }
        let over = || self.stopping() || patience.is_over();
        let served = if alone {
            self.block_outside(slot, number, patience)
        } else {
            slot.wait.block_in(&self.crowd, number, self.parking, over)
        };
        self.run_again(slot);
        match served {
            Some(gp_seq) => Ok(Some(Served { gp_seq, direct })),
            None => self.closed_meanwhile("synchronize", patience),
        }
    }

    pub(super) fn barrier(&self, slot: &Slot, patience: Patience<'_>) -> Result<Option<()>> {
        self.may_block("barrier", slot)?;
        self.leave_scan_set(slot);
        let (number, waiter) = slot.begin_wait(0);
        let mut host = Host::new(self, Actor::Thread, slot.cpu());
        self.rcu.barrier(waiter, &mut host);
        host.deliver();
        let done = self.block_outside(slot, number, patience);
        self.run_again(slot);
        match done {
            Some(_) => Ok(Some(())),
            None => self.closed_meanwhile("barrier", patience),
        }
    }

    pub(super) fn call(&self, slot: &Slot, callback: HostCb) {
        let cpu = slot.cpu();
        let mut host = Host::new(self, Actor::Thread, cpu);
        self.rcu.call(host.ctx(), Cb::User(callback), &mut host);
        self.ticks.want(self, cpu);
    }

    pub(super) fn start_poll(&self, slot: &Slot) -> Result<u64> {
        self.check("start_poll")?;
        let mut host = Host::new(self, Actor::Thread, slot.cpu());
        Ok(self.rcu.start_poll(host.ctx(), &mut host))
    }

    pub(super) fn start_poll_full(&self, slot: &Slot) -> Result<FullCookie> {
        self.check("start_poll_full")?;
        let mut host = Host::new(self, Actor::Thread, slot.cpu());
        Ok(self.rcu.start_poll_full(host.ctx(), &mut host))
    }

    // Slow paths of readers. In the child of a fork nobody waits for readers, and whoever holds a lock may not be
    // there to let it go: they take none.

    /// `cond_resched()` of a non-preemptible thread.
    #[cold]
    pub(super) fn quiescent_slow(&self, slot: &Slot) {
        if self.is_forked() {
            return;
        }
        let cpu = slot.cpu();
        let mut run = self.vcpus.get(cpu).run.lock();
        slot.words.clear_mark();
        if slot.cpu() != cpu || !slot.words.is_active() {
            return;
        }
        let place = slot.place.load(Ordering::Relaxed) as usize;
        let answered = run.answer(place);
        let move_to = slot.state.lock().move_to.take();
        if let Some(to) = move_to {
            self.vcpus
                .part_locked(cpu, &mut run, slot, |index| self.slots.get(index));
            slot.set_cpu(to);
        }
        drop(run);
        if answered.any() {
            self.answered(cpu, answered, &mut Host::new(self, Actor::Thread, cpu));
        }
        if move_to.is_some() {
            self.vcpus.join(slot);
        }
    }

    /// The outermost unlock of a marked section.
    #[cold]
    pub(super) fn leave_marked(&self, slot: &Slot) {
        let mut state = slot.state.lock();
        if !mutated("mark taken off without the lock") {
            slot.words.clear_mark();
        }
        if state.reader.is_blocked() {
            let mut host = Host::new(self, Actor::Thread, slot.cpu());
            self.rcu
                .report_deferred_qs(host.ctx(), &mut state.reader, &mut host);
            drop(state);
            host.deliver();
        } else if mutated("mark taken off without the lock") {
            drop(state);
            slot.words.clear_mark();
        }
    }

    /// The first unlock-free entry after an extended quiescent state, and every entry without `membarrier`.
    #[cold]
    pub(super) fn enter_marked(&self, slot: &Slot) {
        if slot.words.enter_slow() && !self.is_forked() && !mutated("join skipped") {
            self.vcpus.join(slot);
        }
    }

    #[cold]
    pub(super) fn left(&self, slot: &Slot) {
        // A mark on a non-preemptible thread asks for a quiescent state, which the end of a section is not.
        if slot.words.leave_slow() && self.rcu.is_preemptible() && !self.is_forked() {
            self.leave_marked(slot);
        }
    }
}
