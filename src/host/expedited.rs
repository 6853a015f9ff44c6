//! `synchronize_rcu_expedited()`, driven by the caller itself: no hand-off where no reader is in the way, one heavy
//! fence where one may be.

use super::calls::{Patience, Served};
use super::clock::monotonic_ns;
use super::engine::Shared;
use super::slot::Slot;
use super::vcpu::Kind;
use super::world::{Actor, Covered, Host};
use crate::error::Result;
use crate::sync::{Ordering, fence};
use crate::tree::ExpStep;

impl Shared {
    pub(super) fn synchronize_expedited(
        &self,
        slot: &Slot,
        mut patience: Patience<'_>,
    ) -> Result<Option<Served>> {
        self.may_block("synchronize_expedited", slot)?;
        let mut host = Host::new(self, Actor::Thread, slot.cpu());
        let number = slot.wait.begin();
        // Held while blocked too: nobody else ever takes this lock.
        let mut waiter = slot.waiter.lock();
        waiter.renew(slot.token(number));
        let mut call = self.rcu.exp_begin();
        loop {
            let step = self.rcu.exp_step(&mut call, host.ctx(), &waiter, &mut host);
            host.deliver();
            let deadline = match step {
                ExpStep::Done => break,
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
            let over = || self.stopping() || patience.is_over();
            let done = slot.wait.block(number, self.parking, deadline, over);
            // The next wait of this call is ended by a completion of its own; each step looks for itself.
            slot.wait.rearm(number);
            if done.is_none() && over() {
                if self.rcu.exp_cancel(&mut call, &waiter) || self.stopping() {
                    self.run_again(slot);
                    return self.closed_meanwhile("synchronize_expedited", patience);
                }
                // Others sleep until this caller's grace period is done: it goes on, whatever it was told.
                patience = Patience(None);
            }
        }
        self.run_again(slot);
        Ok(Some(Served {
            gp_seq: call.gp_seq(),
            direct: false,
        }))
    }

    /// Makes sure of all threads but the caller, before the tree samples its CPUs.
    fn prepare_expedited(&self, slot: &Slot, gp_seq: u64, host: &mut Host<'_>) {
        fence(Ordering::SeqCst); // F2
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
