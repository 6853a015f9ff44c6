//! What an engine is doing, for those who look at it from outside.

use super::engine::Engine;
use super::slot::Slot;
use crate::error::Result;
use crate::stats::GracePeriods;

impl Engine {
    /// Records of the grace periods that ended since the last call of [`Engine::take_grace_periods`]; they stay.
    pub fn grace_periods(&self) -> GracePeriods {
        self.shared().records.look()
    }

    /// `futex`, or `portable`.
    pub fn park_name(&self) -> &'static str {
        self.shared().parking.name()
    }

    /// The engine is open, in this process; else the error that `call` would end with.
    pub fn usable(&self, call: &'static str) -> Result<()> {
        self.shared().check(call)
    }

    /// The process was forked since the engine was opened, and this is the child: the engine's threads are not here.
    pub fn is_forked(&self) -> bool {
        self.shared().is_forked()
    }

    /// Readers may be preempted inside a section (`preempt=full|lazy`), and nobody waits for a thread outside one.
    pub fn is_preemptible(&self) -> bool {
        self.shared().rcu.is_preemptible()
    }

    /// Virtual CPUs that the grace period in progress still waits for.
    pub fn holdouts(&self) -> Vec<u32> {
        self.shared().rcu.holdouts()
    }

    /// How many readers the grace period in progress waits for that were found inside a section and queued.
    pub fn blocking_readers(&self) -> usize {
        self.shared().rcu.blocking_readers().len()
    }

    /// Names of attached threads that are inside a section, or (`preempt=none|voluntary`) may be for all that is
    /// known; a look in passing.
    pub fn readers_inside(&self) -> Vec<String> {
        let shared = self.shared();
        let inside = |slot: &&Slot| {
            slot.words.nesting() > 0 || (!shared.rcu.is_preemptible() && slot.words.is_active())
        };
        let name = |slot: &Slot| slot.state.lock().name.clone();
        shared.slots.made().filter(inside).map(name).collect()
    }

    /// Where the grace-period kthread runs, or last ran.
    pub fn gp_kthread_cpu(&self) -> u32 {
        self.shared().gp.cpu()
    }

    /// Callbacks queued and not yet invoked.
    pub fn callbacks_pending(&self) -> u64 {
        let shared = self.shared();
        (0..shared.tun.nr_cpus)
            .map(|cpu| shared.rcu.callbacks_of(cpu))
            .sum()
    }
}
