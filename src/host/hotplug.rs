//! Virtual CPUs going offline and coming back.
//!
//! The threads of a vCPU that goes offline move to another one first. Each moves at a moment when the move cannot
//! hide a section from a grace period: granted an extended quiescent state (it re-joins on its new vCPU, with a full
//! fence), or queued on the old leaf's list (which every grace period waits for until the section ends), or, where
//! readers have no words, by itself at a quiescent state.

use super::clock::monotonic_ns;
use super::engine::{Engine, Shared};
use super::reader::Sample;
use super::slot::Slot;
use super::softirq::invoking;
use super::world::{Actor, Host};
use crate::error::{Error, Result};
use crate::sync::Ordering;

/// Longest wait for non-preemptible threads to pass a quiescent state, ns.
const MOVE_DEADLINE_NS: u64 = 5_000_000_000;

/// Between two looks whether a batch of callbacks is over.
const BATCH_PAUSE: std::time::Duration = std::time::Duration::from_micros(50);

impl Engine {
    /// Takes a virtual CPU offline. Its threads go on on others; its callbacks are taken over.
    ///
    /// Errors: a CPU that is not online, the last one, or (`preempt=none|voluntary`) a thread there that passes no
    /// quiescent state within 5 s.
    pub fn cpu_offline(&self, cpu: u32) -> Result<()> {
        self.shared().cpu_offline(cpu)
    }

    /// Brings a virtual CPU online; threads that register later may get it.
    pub fn cpu_online(&self, cpu: u32) -> Result<()> {
        self.shared().cpu_online(cpu)
    }
}

impl Shared {
    pub(super) fn cpu_offline(&self, cpu: u32) -> Result<()> {
        self.check("cpu_offline")?;
        if invoking() == self.id {
            return Err(Error::Misuse {
                call: "cpu_offline",
                reason: "called from a callback, whose batch it would wait for".to_owned(),
                allowed: "outside callbacks",
            });
        }
        let _one = self.hotplug.lock();
        self.must_be(cpu, true)?;
        let Some(to) = self.vcpus.online().find(|&other| other != cpu) else {
            return Err(Error::config(
                "cpu",
                cpu,
                "the last online virtual CPU",
                "any while two are online",
            ));
        };
        self.take_offline(cpu, to)
    }

    pub(super) fn cpu_online(&self, cpu: u32) -> Result<()> {
        self.check("cpu_online")?;
        let _one = self.hotplug.lock();
        self.must_be(cpu, false)?;
        self.rcu.cpu_online(cpu);
        self.vcpus.get(cpu).online.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn must_be(&self, cpu: u32, online: bool) -> Result<()> {
        if cpu >= self.tun.nr_cpus || self.vcpus.is_online(cpu) != online {
            let these: Vec<String> = (0..self.tun.nr_cpus)
                .filter(|&cpu| self.vcpus.is_online(cpu) == online)
                .map(|cpu| cpu.to_string())
                .collect();
            let is = if online { "online" } else { "offline" };
            return Err(Error::config(
                "cpu",
                cpu,
                format!("not {is}"),
                if these.is_empty() {
                    format!("none: no virtual CPU is {is}")
                } else {
                    these.join(", ")
                },
            ));
        }
        Ok(())
    }

    fn take_offline(&self, cpu: u32, to: u32) -> Result<()> {
        let vcpu = self.vcpus.get(cpu);
        // Nobody new comes from here on.
        vcpu.online.store(false, Ordering::SeqCst);
        // An attachment under way is over when its run queue's lock is free.
        drop(vcpu.run.lock());
        let until = monotonic_ns() + MOVE_DEADLINE_NS;
        let mut host = Host::new(self, Actor::Thread, cpu);
        while let Some(slot) = self.slots.made().find(|slot| slot.cpu() == cpu) {
            if self.move_thread(slot, cpu, to, &mut host) {
                continue;
            }
            if monotonic_ns() > until || self.stopping() {
                vcpu.online.store(true, Ordering::SeqCst);
                let name = slot.state.lock().name.clone();
                return Err(Error::Host(format!(
                    "cpu={cpu}: thread {name} there passed no quiescent state for {} s; it has to call quiescent() \
                     or block in the engine",
                    MOVE_DEADLINE_NS / 1_000_000_000
                )));
            }
            crate::sync::yield_now();
        }
        self.counters.offlined.fetch_add(1, Ordering::Relaxed);
        let ctx = host.ctx();
        self.rcu.cpu_dead(ctx, None, &mut host);
        host.deliver();
        host.cpu = to;
        let ctx = host.ctx();
        while !self.rcu.migrate_callbacks(ctx, cpu, &mut host) {
            if self.stopping() {
                return Ok(());
            }
            std::thread::sleep(BATCH_PAUSE);
        }
        host.deliver();
        if self.rcu.needs_cpu(to) {
            self.ticks.want(self, to);
        }
        // The kthread notices at its next step.
        Ok(())
    }

    /// One attempt. Slots that nobody uses move like threads in an extended quiescent state.
    pub(super) fn move_thread(&self, slot: &Slot, cpu: u32, to: u32, host: &mut Host<'_>) -> bool {
        if !self.rcu.is_preemptible() && slot.words.is_active() {
            slot.state.lock().move_to = Some(to);
            slot.words.mark();
            return false;
        }
        if slot.words.is_active() {
            // As a pass does: mark, offer, heavy fence, look.
            slot.words.mark();
            let offer = slot.words.propose();
            self.fence.execute();
            match (slot.words.sample(), offer) {
                (Sample::Outside, Some(offer)) => self.grant(slot, offer),
                (Sample::Inside, offer) => {
                    if let Some(offer) = offer {
                        slot.words.take_back(offer);
                    }
                    return self.move_inside(slot, cpu, to, host);
                }
                (_, Some(offer)) => slot.words.take_back(offer),
                (_, None) => {}
            }
        }
        // In an extended quiescent state it is in no scan set; the lock keeps it from joining meanwhile.
        let _run = self.vcpus.get(cpu).run.lock();
        if slot.words.is_active() {
            return false;
        }
        slot.set_cpu(to);
        true
    }

    /// A thread inside a section: onto the old leaf's list, and into the new vCPU's scan set, in one.
    fn move_inside(&self, slot: &Slot, cpu: u32, to: u32, host: &mut Host<'_>) -> bool {
        let (low, high) = (cpu.min(to), cpu.max(to));
        let mut first = self.vcpus.get(low).run.lock();
        let mut second = self.vcpus.get(high).run.lock();
        let (from_run, to_run) = if cpu < to {
            (&mut *first, &mut *second)
        } else {
            (&mut *second, &mut *first)
        };
        // While its slot is locked the thread cannot finish the unlock of a marked section: once queued it stays
        // queued, and in this section, until it is in the other scan set.
        let mut state = slot.state.lock();
        if slot.cpu() != cpu || !self.block_locked(slot, &mut state, host) {
            return false;
        }
        let here = slot.place.load(Ordering::Relaxed) as usize;
        if from_run.entries.get(here).map(|entry| entry.slot) != Some(slot.index) {
            return false; // It is about to join.
        }
        self.vcpus
            .part_locked(cpu, from_run, slot, |index| self.slots.get(index));
        slot.set_cpu(to);
        self.vcpus.join_locked(to, to_run, slot);
        true
    }
}
