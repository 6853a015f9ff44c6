//! Making sure of readers: what has to happen before anybody reports a quiescent state for a vCPU that has
//! threads attached.
//!
//! Preemptible readers that are found inside a section go on the leaf's list of blocked readers, as if they
//! had been preempted there; the vCPU is quiescent then. Non-preemptible ones are asked, and the vCPU is
//! quiescent when the last of them has answered. The order of steps is argued in [`super::order`].

use super::engine::Shared;
use super::reader::{Offer, Sample};
use super::slot::{Slot, SlotState};
use super::vcpu::{Answered, Kind};
use super::world::Host;
use crate::stats::Resolution;
use crate::sync::{Ordering, fence_after_rmw, mutated};

/// Passes in a row that have to find a thread outside before it is put out of the scan set.
const QUIET_PASSES: u32 = 1;

impl Shared {
    /// Makes sure of one vCPU. True: nothing that runs there is in a section that began before.
    pub(super) fn make_sure(&self, cpu: u32, kind: Kind, gp_seq: u64, host: &mut Host<'_>) -> bool {
        fence_after_rmw("F2"); // a lock was just released
        if self.vcpus.get(cpu).active() == 0 {
            return true;
        }
        if self.rcu.is_preemptible() {
            self.block_readers(std::iter::once(cpu), None, host);
            true
        } else {
            self.ask(cpu, kind, gp_seq, None)
        }
    }

    /// Preemptible: looks at all threads attached to these vCPUs and queues those inside a section. `me`: the
    /// calling thread, which is in none.
    pub(super) fn block_readers(
        &self,
        cpus: impl Iterator<Item = u32>,
        me: Option<&Slot>,
        host: &mut Host<'_>,
    ) {
        // P1
        let mut marked: Vec<(u32, Option<Offer>)> = Vec::new();
        for cpu in cpus {
            let vcpu = self.vcpus.get(cpu);
            if vcpu.active() == 0 {
                continue;
            }
            for entry in &vcpu.run.lock().entries {
                if me.is_some_and(|me| me.index == entry.slot) {
                    continue;
                }
                let slot = self.slots.get(entry.slot);
                slot.words.mark();
                let quiet = slot.quiet.load(Ordering::Relaxed) >= QUIET_PASSES;
                marked.push((entry.slot, quiet.then(|| slot.words.propose()).flatten()));
            }
        }
        if marked.is_empty() {
            return;
        }
        self.fence.execute(); // P2
        self.counters.heavy_fences.fetch_add(1, Ordering::Relaxed);
        for (index, offer) in marked {
            let slot = self.slots.get(index);
            // P3
            let seen = slot.words.sample();
            if seen == Sample::Outside {
                slot.quiet.fetch_add(1, Ordering::Relaxed);
                if mutated("mark taken off by a pass") {
                    slot.words.clear_mark();
                }
                let late = mutated("offer after the fence").then(|| slot.words.propose());
                if let Some(offer) = offer.or(late.flatten()) {
                    self.grant(slot, offer);
                }
                continue;
            }
            slot.quiet.store(0, Ordering::Relaxed);
            if let Some(offer) = offer {
                slot.words.take_back(offer);
            }
            if seen == Sample::Inside {
                self.block(slot, host);
            }
        }
    }

    /// The thread was outside after the heavy fence that followed the offer: leave it alone from now on.
    ///
    /// It may have been inside between the offer and the fence, and have been moved to another vCPU then.
    pub(super) fn grant(&self, slot: &Slot, offer: Offer) {
        let cpu = slot.cpu();
        let mut run = self.vcpus.get(cpu).run.lock();
        if (slot.cpu() == cpu || mutated("granted elsewhere")) && slot.words.grant(offer) {
            self.vcpus
                .part_locked(cpu, &mut run, slot, |index| self.slots.get(index));
            self.counters.grants.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The thread was inside after the heavy fence: onto the list, unless it has left meanwhile. True: it is
    /// queued now.
    fn block(&self, slot: &Slot, host: &mut Host<'_>) -> bool {
        self.block_locked(slot, &mut slot.state.lock(), host)
    }

    pub(super) fn block_locked(&self, slot: &Slot, state: &mut SlotState, host: &mut Host<'_>) -> bool {
        // Under the slot's lock the mark tells: a reader that left has to take this lock to clear it.
        if slot.words.sample() != Sample::Inside && !mutated("queued unseen") {
            return false;
        }
        if !state.reader.is_blocked() {
            self.rcu.block_reader(slot.cpu(), &mut state.reader, host);
            self.counters.blocked.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Non-preemptible: asks all threads attached to `cpu`, once per grace period. True: none owes an answer.
    pub(super) fn ask(&self, cpu: u32, kind: Kind, gp_seq: u64, me: Option<&Slot>) -> bool {
        let vcpu = self.vcpus.get(cpu);
        let mut run = vcpu.run.lock();
        let asked = *run.asked(kind);
        if asked.gp_seq == gp_seq {
            return asked.left == 0 || mutated("answer not awaited");
        }
        let mut left = 0;
        for entry in &mut run.entries {
            let owes = me.is_none_or(|me| me.index != entry.slot);
            entry.owes[kind as usize] = owes;
            if owes {
                left += 1;
                self.slots.get(entry.slot).words.mark();
            }
        }
        let asked = run.asked(kind);
        asked.gp_seq = gp_seq;
        asked.left = left;
        left == 0
    }

    /// The last thread that owed an answer on `cpu` gave it.
    pub(super) fn answered(&self, cpu: u32, answered: Answered, host: &mut Host<'_>) {
        if let Some(gp_seq) = answered.expedited {
            self.report_expedited(cpu, gp_seq, host);
        }
        host.cpu = cpu;
        if let Some(gp_seq) = answered.normal {
            // The thread is at an entry of the engine, outside any section, so it serves the core of its vCPU:
            // first to take notice of the grace period, which was in progress when it was asked, then to report.
            self.rcu.core_check(host.ctx(), None, host);
            if self.rcu.owed_gp(cpu) == Some(gp_seq) {
                self.rcu
                    .record_observed_qs(cpu, gp_seq, Resolution::ContextSwitch, host);
                self.rcu.core_check(host.ctx(), None, host);
            }
        }
        host.deliver();
    }
}
