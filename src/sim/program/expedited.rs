//! Callers of `synchronize_rcu_expedited()`.
//!
//! The caller does all the work itself: between two steps of the engine it can be interrupted, preempted
//! and moved like any task.

use crate::sim::kernel::Kernel;
use crate::sim::observe::{Observer, Sight};
use crate::sim::task::{Next, Program, RunMode, SyncPhase, TaskId, TimerId};
use crate::tree::waiters::Waiter;
use crate::tree::{ExpCall, ExpStep};

/// What a caller does when its current burst is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Step,
    /// Sleep until woken, or for so many jiffies.
    Sleep(Option<u64>),
    Return,
}

/// A `synchronize_rcu_expedited()` in flight.
#[derive(Debug)]
pub(in crate::sim) struct ExpeditedCaller {
    call: ExpCall,
    /// The same in each of its steps.
    waiter: Waiter,
    then: Then,
    /// CPU on whose wheel its timeout is armed.
    pub timer_cpu: Option<u32>,
}

impl<O: Observer> Kernel<'_, '_, O> {
    /// The first step of a call, which has been counted and shown.
    pub(super) fn expedited_call(&mut self, id: TaskId, cpu: u32) -> Next {
        self.caller(id).phase = SyncPhase::Expedited;
        let waiter = self.caller(id).waiter.clone();
        self.expedited_begin(id, waiter);
        let entry = self.hw.machine.sync_entry_ns;
        self.expedited_step(id, cpu, entry)
    }

    /// The task is in a call whose first step is still to be made.
    pub(in crate::sim) fn expedited_begin(&mut self, id: TaskId, waiter: Waiter) {
        let caller = ExpeditedCaller {
            call: self.rcu.exp_begin(),
            waiter,
            then: Then::Step,
            timer_cpu: None,
        };
        self.expedited.insert(id, caller);
    }

    /// A caller's burst is over, or its sleep.
    pub(in crate::sim) fn next_of_expedited(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = &self.hw.tasks[id as usize].program;
        let guests = matches!(program, Program::Guest { .. });
        let kworker = match program {
            Program::Kworker(index) => Some(*index),
            _ => None,
        };
        // Completed while the burst went on, or while the task was preempted in it: then it does not sleep.
        // (A guest's task and a kworker were simply woken then.)
        let completed = !guests && kworker.is_none() && self.caller(id).released_by.take().is_some();
        let caller = self.expedited.get_mut(&id).expect("a call is in flight");
        match caller.then {
            Then::Sleep(_) if completed => self.expedited_step(id, cpu, 0),
            Then::Step => self.expedited_step(id, cpu, 0),
            Then::Sleep(jiffies) => {
                // Whatever wakes it, it steps; a wake-up too many does no harm.
                caller.then = Then::Step;
                if let Some(jiffies) = jiffies {
                    caller.timer_cpu = Some(cpu);
                    self.arm_timer(cpu, TimerId::ExpTimeout(id), jiffies);
                }
                Next::Block
            }
            Then::Return => {
                let caller = self.expedited.remove(&id).expect("a call is in flight");
                if guests {
                    return self.guest_returns(id, cpu);
                }
                if let Some(index) = kworker {
                    return self.next_of_kworker(id, index, cpu);
                }
                self.sync_return(id, caller.call.gp_seq())
            }
        }
    }

    /// Steps the engine until it has cost something or there is nothing more to do.
    fn expedited_step(&mut self, id: TaskId, cpu: u32, mut cost: u64) -> Next {
        let mut caller = self.expedited.remove(&id).expect("a call is in flight");
        if let Some(armed_on) = caller.timer_cpu.take() {
            self.cancel_timer(armed_on, TimerId::ExpTimeout(id));
        }
        let rcu = self.rcu;
        let waiter = caller.waiter.clone();
        let ctx = self.ctx(cpu, false);
        caller.then = loop {
            self.begin_step(cpu);
            // What the entry cost has passed by the first step.
            self.hw.spent = cost;
            let step = rcu.exp_step(&mut caller.call, ctx, &waiter, &mut self.hw);
            cost = self.end_step();
            self.see(Sight::ExpStep { task: id, cpu });
            match step {
                ExpStep::Again | ExpStep::Prepare if cost > 0 => break Then::Step,
                // The machine runs on one thread: whatever a real one would have to fence is in order, and the
                // running readers are where the interrupts will find them.
                ExpStep::Again | ExpStep::Prepare => {}
                ExpStep::Wait => break Then::Sleep(None),
                ExpStep::WaitTimeout { jiffies } => break Then::Sleep(Some(jiffies)),
                ExpStep::Done => break Then::Return,
            }
        };
        self.expedited.insert(id, caller);
        Next::Burst(cost.max(1), RunMode::Kernel)
    }

    /// The interrupt of an expedited grace period.
    pub(in crate::sim) fn handle_exp_ipi(&mut self, cpu: u32) {
        self.hw.spent += self.hw.machine.ipi_handler_ns;
        let hit = self.interrupted(cpu);
        let ctx = self.ctx(cpu, true);
        let rcu = self.rcu;
        let curr = self.hw.cpus[cpu as usize].curr;
        let mut reader = self.take_reader(curr);
        rcu.exp_ipi(ctx, hit, reader.as_deref_mut(), &mut self.hw);
        self.put_reader(curr, reader);
        self.see(Sight::ExpIpi { cpu });
    }

    /// A timeout armed on a dead CPU has moved to this one.
    pub(super) fn move_exp_timers(&mut self, dead: u32, cpu: u32) {
        for caller in self.expedited.values_mut() {
            if caller.timer_cpu == Some(dead) {
                caller.timer_cpu = Some(cpu);
            }
        }
    }

    /// A timeout has passed.
    pub(in crate::sim) fn exp_timed_out(&mut self, id: TaskId) {
        if let Some(caller) = self.expedited.get_mut(&id) {
            caller.timer_cpu = None;
        }
        self.hw.wake_soon(id);
    }
}
