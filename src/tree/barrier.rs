//! `rcu_barrier()`: waits until every callback queued before it has been invoked (invariant I16).
//!
//! A callback of the barrier's own is put behind the last callback of each CPU that has any; it starts
//! no grace period but rides on those that the callbacks in front need anyway. CPUs that are online
//! entrain in an interrupt of their own; for offline ones the caller does it. One barrier runs at a
//! time; callers that come meanwhile are served by the next one, all at once.

use super::rcu::{Cb, CpuData, Own, Rcu};
use super::seq;
use super::waiters::Waiter;
use super::world::{Ipi, World};
use crate::sync::{Ordering, fence, mutated};
use crate::trace::Event;

/// The barrier's own count while it visits the CPUs.
const BIAS: u64 = 2;

/// Protected by `barrier_lock` (outside the node locks).
#[derive(Debug, Default)]
pub(super) struct BarrierState {
    /// `barrier_sequence`.
    seq: u64,
    /// Barrier callbacks queued and not yet invoked, plus one per CPU that was sent an interrupt and
    /// has not answered, plus the bias.
    count: u64,
    /// Callers and the number each waits for.
    callers: Vec<(Waiter, u64)>,
}

/// What is to be done once the lock is dropped.
#[derive(Debug, Default)]
struct Outcome {
    ask: Vec<u32>,
    done: Vec<Waiter>,
    /// Offloaded CPUs whose lists wait now and did not before.
    look: Vec<u32>,
}

impl<C> Rcu<C> {
    /// The first half of `rcu_barrier()`: the caller then blocks until `waiter` is completed.
    pub fn barrier(&self, waiter: Waiter, world: &mut impl World) {
        let outcome = {
            let mut state = self.barrier.lock();
            let target = seq::snap(state.seq);
            state.callers.push((waiter, target));
            world.emit(|| event("Begin", -1, state.count, target));
            if seq::state(state.seq) == 0 {
                self.barrier_start(&mut state, world)
            } else {
                Outcome::default()
            }
        };
        self.barrier_deliver(outcome, world);
    }

    fn barrier_start(&self, state: &mut BarrierState, world: &mut impl World) -> Outcome {
        state.seq = seq::start(state.seq);
        world.emit(|| event("Inc1", -1, state.count, state.seq));
        state.count = BIAS;
        let mut outcome = Outcome::default();
        for rdp in &self.cpus {
            if rdp.barrier_seq_snap.load(Ordering::Acquire) == state.seq {
                continue;
            }
            if rdp.cblist_len.load(Ordering::SeqCst) == 0 || mutated("Z52") {
                rdp.barrier_seq_snap.store(state.seq, Ordering::Release);
                world.emit(|| event("NQ", i64::from(rdp.cpu), state.count, state.seq));
            } else if self.rcu_online(rdp) {
                state.count += 1;
                outcome.ask.push(rdp.cpu);
                world.emit(|| event("OnlineQ", i64::from(rdp.cpu), state.count, state.seq));
            } else {
                if self.barrier_entrain(state, rdp, &mut rdp.own.lock(), world) {
                    outcome.look.push(rdp.cpu);
                }
                world.emit(|| event("OfflineNoCBQ", i64::from(rdp.cpu), state.count, state.seq));
            }
        }
        self.barrier_drop(state, BIAS, &mut outcome, world);
        outcome
    }

    /// RCU regards the CPU as online.
    pub(super) fn rcu_online(&self, rdp: &CpuData<C>) -> bool {
        self.lock_node(rdp.leaf).qsmaskinitnext & rdp.grpmask != 0
    }

    /// Puts the barrier's callback behind this CPU's last one, once per barrier. True: `rcuog` has to look.
    pub(super) fn barrier_entrain(
        &self,
        state: &mut BarrierState,
        rdp: &CpuData<C>,
        own: &mut Own<C>,
        world: &mut impl World,
    ) -> bool {
        if seq::state(state.seq) == 0 || rdp.barrier_seq_snap.load(Ordering::Relaxed) == state.seq {
            return false;
        }
        let idle = own.bypass.is_some() && !own.cblist.pend();
        // Behind those in the bypass too.
        Self::nocb_flush(own, world.jiffies());
        if own.cblist.entrain(Cb::Barrier).is_ok() {
            rdp.cblist_len.store(own.cblist.len(), Ordering::SeqCst);
            state.count += 1;
            world.emit(|| event("IRQ", -1, state.count, state.seq));
        } else {
            world.emit(|| event("IRQNQ", -1, state.count, state.seq));
        }
        rdp.barrier_seq_snap.store(state.seq, Ordering::Release);
        idle && own.cblist.pend()
    }

    /// The interrupt that a barrier sent to `cpu`: it runs there, or, when `cpu` went offline before
    /// the interrupt arrived, whoever finds that out does its part.
    pub fn barrier_ipi(&self, cpu: u32, world: &mut impl World) {
        let outcome = {
            let mut state = self.barrier.lock();
            let rdp = &self.cpus[cpu as usize];
            let mut outcome = Outcome::default();
            if self.barrier_entrain(&mut state, rdp, &mut rdp.own.lock(), world) {
                outcome.look.push(cpu);
            }
            self.barrier_drop(&mut state, 1, &mut outcome, world);
            outcome
        };
        self.barrier_deliver(outcome, world);
    }

    /// A barrier callback was invoked.
    pub fn barrier_callback(&self, world: &mut impl World) {
        let outcome = {
            let mut outcome = Outcome::default();
            let mut state = self.barrier.lock();
            let what = if state.count == 1 { "LastCB" } else { "CB" };
            world.emit(|| event(what, -1, state.count - 1, state.seq));
            self.barrier_drop(&mut state, 1, &mut outcome, world);
            outcome
        };
        self.barrier_deliver(outcome, world);
    }

    fn barrier_drop(&self, state: &mut BarrierState, by: u64, outcome: &mut Outcome, world: &mut impl World) {
        state.count -= by;
        if state.count > 0 {
            return;
        }
        // Full barrier before the end: everything the callbacks did comes before the callers go on.
        fence(Ordering::SeqCst);
        world.emit(|| event("Inc2", -1, state.count, state.seq));
        state.seq = seq::end(state.seq);
        for rdp in &self.cpus {
            rdp.barrier_seq_snap.store(state.seq, Ordering::Relaxed);
        }
        let now = state.seq;
        outcome.done.extend(
            state
                .callers
                .extract_if(.., |(_, target)| seq::done(now, *target))
                .map(|(waiter, _)| waiter),
        );
        if !state.callers.is_empty() {
            let next = self.barrier_start(state, world);
            outcome.ask.extend(next.ask);
            outcome.done.extend(next.done);
            outcome.look.extend(next.look);
        }
    }

    fn barrier_deliver(&self, outcome: Outcome, world: &mut impl World) {
        for cpu in outcome.ask {
            world.send_ipi(cpu, Ipi::Barrier);
        }
        for cpu in outcome.look {
            self.nocb_wake(cpu, world);
        }
        for waiter in outcome.done {
            world.complete(waiter, self.gp_seq());
        }
    }
}

fn event(what: &'static str, cpu: i64, remaining: u64, done: u64) -> Event {
    Event::Barrier {
        what,
        cpu,
        remaining,
        done,
    }
}
