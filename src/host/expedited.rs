//! `synchronize_rcu_expedited()`, driven by the caller itself: no hand-off where no reader is in the way, one heavy
//! fence where one may be.

use super::calls::{Patience, Served};
use super::clock::monotonic_ns;
use super::engine::Shared;
use super::slot::Slot;
use super::vcpu::Kind;
use super::world::{Actor, Covered, Host};
use crate::error::Result;
use crate::sync::full_fence;
use crate::tree::waiters::Waiter;
use crate::tree::{ExpCall, ExpStep};
use std::sync::mpsc::sync_channel;

impl Shared {
    pub(super) fn synchronize_expedited(
        &self,
        slot: &Slot,
        patience: Patience<'_>,
    ) -> Result<Option<Served>> {
        if self.tun.expedited_is_normal {
            return self.synchronize_normally(slot, patience);
        }
        self.drive_synchronize(slot, patience)
    }

    /// An expedited grace period, whatever the call was.
    pub(super) fn drive_synchronize(&self, slot: &Slot, patience: Patience<'_>) -> Result<Option<Served>> {
        self.may_block("synchronize_expedited", slot)?;
        let number = slot.wait.begin();
        // Held while blocked too: nobody else ever takes this lock.
        let mut waiter = slot.waiter.lock();
        waiter.renew(slot.token(number));
        let call = self.rcu.exp_begin();
        let gp_seq = call.gp_seq();
        let done = self.drive_expedited(slot, number, &waiter, call, patience);
        self.run_again(slot);
        if !done {
            return self.closed_meanwhile("synchronize_expedited", patience);
        }
        Ok(Some(Served {
            gp_seq,
            direct: false,
        }))
    }

    /// Steps the call until it is done; false: the engine stops, or the caller gave up and nobody relies on this
    /// thread any more.
    fn drive_expedited(
        &self,
        slot: &Slot,
        number: u64,
        waiter: &Waiter,
        mut call: ExpCall,
        mut patience: Patience<'_>,
    ) -> bool {
        let mut host = Host::new(self, Actor::Thread, slot.cpu());
        loop {
            let step = self.rcu.exp_step(&mut call, host.ctx(), waiter, &mut host);
            host.deliver();
            let deadline = match step {
                ExpStep::Done => return true,
                ExpStep::Again => continue,
                ExpStep::Prepare => {
                    self.prepare_expedited(slot, call.gp_seq(), &mut host);
                    continue;
                }
                ExpStep::Wait => None,
                ExpStep::WaitTimeout { jiffies } => Some(monotonic_ns() + jiffies * self.clock.tick_ns),
            };
            if !self.rcu.is_preemptible() {
                // Blocked, it could not answer whoever asks it meanwhile.
                self.leave_scan_set(slot);
            }
            let done = self.block_until(slot, number, deadline, patience);
            // The next wait of this call is ended by a completion of its own; each step looks for itself.
            slot.wait.rearm(number);
            if done.is_some() {
                continue;
            }
            if self.stopping() {
                return false;
            }
            if patience.is_over() {
                if self.rcu.exp_cancel(&mut call, waiter) {
                    return false;
                }
                // Others sleep until this caller's grace period is done.
                match self.hand_over(call, waiter) {
                    Ok(()) => return false,
                    // No thread could be started, so this one goes on, whatever it was told.
                    Err(back) => call = back,
                }
                patience = Patience(None);
            }
        }
    }

    /// A thread of the engine goes on with a call whose caller gave up.
    fn hand_over(&self, call: ExpCall, waiter: &Waiter) -> std::result::Result<(), ExpCall> {
        let (Some(shared), Some(slot)) = (self.me.upgrade(), self.slots.take()) else {
            return Err(call);
        };
        let index = slot.index;
        let (send, receive) = sync_channel::<(ExpCall, Waiter)>(1);
        let started = std::thread::Builder::new()
            .name("treercu-exp".to_owned())
            .spawn(move || {
                if let Ok((call, before)) = receive.recv() {
                    shared.adopt(shared.slots.get(index), call, &before);
                }
            });
        let Ok(thread) = started else {
            self.slots.put_back(slot);
            return Err(call);
        };
        {
            let mut threads = self.threads.lock();
            // Those of earlier calls.
            threads.retain(|thread| !thread.is_finished());
            threads.push(thread);
        }
        send.send((call, waiter.clone())).map_err(|lost| lost.0.0)
    }

    fn adopt(&self, slot: &Slot, call: ExpCall, before: &Waiter) {
        slot.set_cpu(self.vcpus.next_in_turn());
        let (number, waiter) = slot.begin_wait(0);
        self.rcu.exp_adopt(before, &waiter);
        if self.drive_expedited(slot, number, &waiter, call, Patience(None)) {
            self.slots.put_back(slot);
        }
    }

    /// Makes sure of all threads but the caller, before the tree samples its CPUs.
    fn prepare_expedited(&self, slot: &Slot, gp_seq: u64, host: &mut Host<'_>) {
        full_fence("F2 expedited");
        host.covered = Covered::All;
        let readers = self.vcpus.readers();
        // In this order: only the thread itself re-joins a scan set, so if it is in one now it was counted.
        if readers == 0 || (readers == 1 && slot.words.is_active()) {
            return;
        }
        if self.rcu.is_preemptible() {
            self.block_readers(self.vcpus.busy(), Some(slot), host);
            return;
        }
        for cpu in self.vcpus.busy() {
            if !self.ask(cpu, Kind::Expedited, gp_seq, Some(slot)) {
                host.unanswered.push(cpu);
            }
        }
    }

    /// The tree asks a vCPU that it does not know to be quiescent: one with non-preemptible threads, which were asked
    /// before. If the last has answered before the tree waited for it, nobody has reported it.
    pub(super) fn expedited_ipi(&self, cpu: u32, host: &mut Host<'_>) {
        let asked = *self.vcpus.get(cpu).run.lock().asked(Kind::Expedited);
        if asked.left == 0 {
            self.report_expedited(cpu, asked.gp_seq, host);
        }
    }

    /// By the number of the grace period that asked: an answer may be reported late, when another one is waited for.
    pub(super) fn report_expedited(&self, cpu: u32, gp_seq: u64, host: &mut Host<'_>) {
        let before = std::mem::replace(&mut host.cpu, cpu);
        self.rcu.exp_report_observed(host.ctx(), gp_seq, host);
        host.cpu = before;
    }
}
