//! Virtual CPUs going offline and coming back.
//!
//! The threads of a vCPU that goes offline move to another one first. Each moves at a moment when the move cannot
//! hide a section from a grace period: granted an extended quiescent state (it re-joins on its new vCPU, with a full
//! fence), or queued on the old leaf's list (which every grace period waits for until the section ends), or, where
//! readers have no words, by itself at a quiescent state.

use super::calls::{GiveUp, Patience};
use super::clock::monotonic_ns;
use super::engine::{Engine, Shared};
use super::handle::{Handle, attached};
use super::reader::Sample;
use super::slot::Slot;
use super::world::{Actor, Host};
use crate::error::{Error, Result};
use crate::sync::Ordering;
use std::time::Duration;

/// Longest wait for non-preemptible threads to pass a quiescent state, and again for a batch of callbacks, ns.
const DEADLINE_NS: u64 = 5_000_000_000;

/// Between two looks whether the wait is over, the caller has given up or the engine stops.
const PAUSE: Duration = Duration::from_micros(50);

impl Engine {
    /// Takes a virtual CPU offline. Its threads go on on others; its callbacks are taken over.
    ///
    /// Errors: a CPU that is not online, or the last one. After 5 s: (`preempt=none|voluntary`) a thread there that
    /// passes no quiescent state, or a callback of that CPU that does not return; the CPU stays online then.
    /// Refused inside a section of the calling thread's own attachment, and in a callback. The owner of a [`Handle`]
    /// with `preempt=none|voluntary` calls [`Handle::cpu_offline`], which does not wait for that handle.
    pub fn cpu_offline(&self, cpu: u32) -> Result<()> {
        self.offline(cpu, Patience(None)).map(drop)
    }

    /// The same, until there is a reason to give up: `None` then, and the CPU stays online.
    pub fn cpu_offline_unless(&self, cpu: u32, reason: &dyn GiveUp) -> Result<Option<()>> {
        self.offline(cpu, Patience(Some(reason)))
    }

    fn offline(&self, cpu: u32, patience: Patience<'_>) -> Result<Option<()>> {
        let slot = attached(self.shared());
        // SAFETY: slots live as long as the engine's shared part, which `self` keeps.
        let slot = slot.map(|slot| unsafe { slot.as_ref() });
        self.shared().cpu_offline(slot, cpu, patience)
    }

    /// Brings a virtual CPU online; threads that register later may get it.
    pub fn cpu_online(&self, cpu: u32) -> Result<()> {
        self.shared().cpu_online(cpu)
    }
}

impl Handle {
    /// See [`Engine::cpu_offline`].
    pub fn cpu_offline(&mut self, cpu: u32) -> Result<()> {
        let slot = Some(self.slot());
        self.shared().cpu_offline(slot, cpu, Patience(None)).map(drop)
    }

    /// See [`Engine::cpu_offline_unless`].
    pub fn cpu_offline_unless(&mut self, cpu: u32, reason: &dyn GiveUp) -> Result<Option<()>> {
        let slot = Some(self.slot());
        self.shared().cpu_offline(slot, cpu, Patience(Some(reason)))
    }
}

/// Most threads pass a quiescent state soon: in the first millisecond of the wait other threads only go first.
fn pause(until: u64) {
    let soon = until.saturating_sub(monotonic_ns()) > DEADLINE_NS - 1_000_000;
    if soon || cfg!(any(treercu_loom, treercu_shuttle)) {
        crate::sync::yield_now();
    } else {
        std::thread::sleep(PAUSE);
    }
}

impl Shared {
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

    /// `slot`: the calling thread's, which is not to be waited for.
    pub(super) fn cpu_offline(
        &self,
        slot: Option<&Slot>,
        cpu: u32,
        patience: Patience<'_>,
    ) -> Result<Option<()>> {
        const CALL: &str = "cpu_offline";
        match slot {
            Some(slot) => self.may_block(CALL, slot)?,
            None => self.may_wait(CALL)?,
        }
        let offline = || {
            let asked = monotonic_ns();
            let _one = loop {
                if let Some(guard) = self.hotplug.try_lock() {
                    break guard;
                }
                if patience.is_over() {
                    return Ok(None);
                }
                pause(asked + DEADLINE_NS);
            };
            self.must_be(cpu, true)?;
            let Some(to) = self.vcpus.online().find(|&other| other != cpu) else {
                return Err(Error::config(
                    "cpu",
                    cpu,
                    "the last online virtual CPU",
                    "any while two are online",
                ));
            };
            match self.take_offline(cpu, to, patience)? {
                Some(()) => Ok(Some(())),
                None => self.closed_meanwhile(CALL, patience),
            }
        };
        match slot {
            Some(slot) => self.outside(slot, offline),
            None => offline(),
        }
    }

    fn take_offline(&self, cpu: u32, to: u32, patience: Patience<'_>) -> Result<Option<()>> {
        let vcpu = self.vcpus.get(cpu);
        // Nobody new comes from here on.
        vcpu.online.store(false, Ordering::SeqCst);
        // An attachment under way is over when its run queue's lock is free.
        drop(vcpu.run.lock());
        let over = || self.stopping() || patience.is_over();
        let mut host = Host::new(self, Actor::Thread, cpu);
        let mut until = monotonic_ns() + DEADLINE_NS;
        while let Some(slot) = self.slots.made().find(|slot| slot.cpu() == cpu) {
            if self.move_thread(slot, cpu, to, &mut host) {
                continue;
            }
            let late = monotonic_ns() > until;
            if late || over() {
                let name = slot.state.lock().name.clone();
                self.stay_online(cpu);
                return if late {
                    Err(Error::Host(format!(
                        "cpu={cpu}: thread {name} there passed no quiescent state for {} s; allowed: threads that \
                         call quiescent(), block in the engine or detach",
                        DEADLINE_NS / 1_000_000_000
                    )))
                } else {
                    Ok(None)
                };
            }
            pause(until);
        }
        let ctx = host.ctx();
        self.rcu.cpu_dead(ctx, None, &mut host);
        host.deliver();
        host.cpu = to;
        let ctx = host.ctx();
        until = monotonic_ns() + DEADLINE_NS;
        while !self.rcu.migrate_callbacks(ctx, cpu, &mut host) {
            let late = monotonic_ns() > until;
            if late || over() {
                host.deliver();
                // Its callbacks are where they were.
                self.rcu.cpu_online(cpu);
                vcpu.online.store(true, Ordering::SeqCst);
                if self.rcu.needs_cpu(cpu) {
                    self.ticks.want(self, cpu);
                }
                return if late {
                    Err(Error::Host(format!(
                        "cpu={cpu}: a callback there runs for more than {} s; allowed: callbacks that return",
                        DEADLINE_NS / 1_000_000_000
                    )))
                } else {
                    Ok(None)
                };
            }
            pause(until);
        }
        self.counters.offlined.fetch_add(1, Ordering::Relaxed);
        host.deliver();
        if self.rcu.needs_cpu(to) {
            self.ticks.want(self, to);
        }
        // The kthread notices at its next step.
        Ok(Some(()))
    }

    /// Not offline after all: who was asked to move stays, and who has moved stays there.
    fn stay_online(&self, cpu: u32) {
        let vcpu = self.vcpus.get(cpu);
        {
            // A move under way is over when the run queue's lock is free.
            let _run = vcpu.run.lock();
            for slot in self.slots.made().filter(|slot| slot.cpu() == cpu) {
                slot.state.lock().move_to = None;
            }
        }
        vcpu.online.store(true, Ordering::SeqCst);
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
        // Asked while it was active, perhaps: it is not to move once more, to where nobody may be by then.
        slot.state.lock().move_to = None;
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
