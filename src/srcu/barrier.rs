//! `srcu_barrier()`: waits until every callback queued before it has been invoked; not for a grace period.
//!
//! A callback of the barrier's own is put behind the last one of each list that has any. One barrier runs at a time;
//! callers that come meanwhile are served by the next one, all at once.

use super::domain::{BOOT_CPU, Cb, Srcu};
use super::size::SizeState;
use super::world::{Work, World};
use crate::sync::full_fence;
use crate::tree::seq;
use crate::tree::waiters::Waiter;

/// What the barrier's lock protects (outside the CPUs' locks).
#[derive(Debug, Default)]
pub(super) struct BarrierState {
    /// `srcu_barrier_seq`.
    seq: u64,
    /// Its callbacks queued and not yet invoked, and one more while it visits the lists.
    count: u64,
    /// Callers and the number each waits for.
    callers: Vec<(Waiter, u64)>,
}

impl<C> Srcu<C> {
    /// The first half: the caller then blocks until `waiter` is completed, and passes [`Srcu::sync_end`].
    pub fn barrier(&self, cpu: u32, waiter: Waiter, world: &mut impl World) {
        self.check_init(world);
        let done = {
            let mut state = self.barrier.lock();
            let target = seq::snap(state.seq);
            state.callers.push((waiter, target));
            if seq::state(state.seq) == 0 {
                self.barrier_start(cpu, &mut state)
            } else {
                Vec::new()
            }
        };
        self.release(done, world);
    }

    fn barrier_start(&self, cpu: u32, state: &mut BarrierState) -> Vec<Waiter> {
        state.seq = seq::start(state.seq);
        state.count = 1;
        // A reader of the domain: the callbacks in front cannot become ready and be gone while lists are visited, and
        // the domain cannot grow past the state that is looked at here by more than one.
        let index = self.read_lock(cpu);
        if self.size_state() < SizeState::WaitBarrier {
            self.entrain(BOOT_CPU, state);
        } else {
            (0..self.tun.nr_cpus).for_each(|cpu| self.entrain(cpu, state));
        }
        self.read_unlock(cpu, index);
        self.barrier_drop(cpu, state)
    }

    fn entrain(&self, cpu: u32, state: &mut BarrierState) {
        let mut own = self.cpus[cpu as usize].lock();
        state.count += u64::from(own.cblist.entrain(Cb::Barrier).is_ok());
    }

    /// One of its callbacks was invoked, on this CPU.
    pub fn barrier_callback(&self, cpu: u32, world: &mut impl World) {
        let done = self.barrier_drop(cpu, &mut self.barrier.lock());
        self.release(done, world);
    }

    fn barrier_drop(&self, cpu: u32, state: &mut BarrierState) -> Vec<Waiter> {
        state.count -= 1;
        if state.count > 0 {
            return Vec::new();
        }
        // What the callbacks did comes before the callers go on. Partner: their `sync_end`.
        full_fence("srcu barrier");
        state.seq = seq::end(state.seq);
        let now = state.seq;
        let mut done: Vec<Waiter> = state
            .callers
            .extract_if(.., |(_, target)| seq::done(now, *target))
            .map(|(waiter, _)| waiter)
            .collect();
        if !state.callers.is_empty() {
            done.extend(self.barrier_start(cpu, state));
        }
        done
    }

    fn release(&self, done: Vec<Waiter>, world: &mut impl World) {
        world.spend(Work::Call);
        for waiter in done {
            world.complete(waiter, self.gp_seq());
        }
    }
}
