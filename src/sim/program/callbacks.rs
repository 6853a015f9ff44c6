//! Callback floods and interrupts that queue callbacks.

use super::draw;
use crate::sim::cpu::{Irq, UserCb};
use crate::sim::kernel::{Event, Kernel};
use crate::sim::observe::{Observer, Sight};
use crate::sim::random::{Purpose, Stream};
use crate::sim::task::{FloodTask, Next, Program, RunMode, SchedClass, TaskId};
use crate::tree::Cb;
use crate::tree::world::Ctx;
use crate::workload::{CallRcuFlood, Part, PeriodicInterrupt};
use std::rc::Rc;

/// Callbacks queued between two looks at the rest of the machine.
const CALLBACKS_PER_BURST: u64 = 32;
/// Intervals shorter than this are spent running.
const SHORTEST_SLEEP_NS: u64 = 1_000;

impl<O: Observer> Kernel<'_, '_, O> {
    /// `call_rcu()` with a callback of a workload.
    pub(in crate::sim) fn queue_callback(&mut self, ctx: Ctx, reposts: u16) {
        self.queue_user_callback(ctx, UserCb::new(self.hw.next_callback, reposts));
    }

    /// The same with the next number's callback ready-made.
    pub(in crate::sim) fn queue_user_callback(&mut self, ctx: Ctx, callback: UserCb) {
        debug_assert_eq!(callback.id(), self.hw.next_callback);
        self.hw.next_callback += 1;
        self.hw.counters.callbacks_queued += 1;
        let rcu = self.rcu;
        rcu.call(ctx, Cb::User(callback), &mut self.hw);
        self.see(Sight::CallbackQueued {
            cpu: ctx.cpu,
            id: callback.id(),
        });
    }

    pub(super) fn start_call_rcu_flood(&mut self, flood: &CallRcuFlood, part: u32, seed: u64) {
        let starts = self.starts(flood.tasks, flood.placement, 0, part, seed);
        for (index, (cpu, at)) in starts.enumerate() {
            let task = FloodTask {
                part,
                callbacks_left: flood.callbacks,
                burst_left: 0,
                random: Stream::new(seed, Purpose::Flood, u64::from(part) << 32 | index as u64),
                done: false,
            };
            let id = self.add_task(Program::Flood(Box::new(task)), cpu, SchedClass::Other, false);
            if flood.callbacks > 0 || flood.duration_ns > 0 {
                self.live += 1;
            }
            self.sleep_until(id, cpu, at);
        }
    }

    pub(super) fn next_of_flood(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = std::mem::replace(&mut self.hw.tasks[id as usize].program, Program::Noise);
        let Program::Flood(mut task) = program else {
            unreachable!("asked of a callback flood")
        };
        let parts = Rc::clone(&self.parts);
        let Part::CallRcuFlood(part) = &parts[task.part as usize] else {
            unreachable!("a flood task belongs to a callback flood")
        };
        let next = self.flood_step(id, cpu, &mut task, part);
        self.hw.tasks[id as usize].program = Program::Flood(task);
        next
    }

    fn flood_step(&mut self, id: TaskId, cpu: u32, task: &mut FloodTask, part: &CallRcuFlood) -> Next {
        let now = self.hw.now;
        if task.burst_left == 0 {
            let over = (part.callbacks > 0 && task.callbacks_left == 0)
                || (part.duration_ns > 0 && now >= part.duration_ns);
            if over {
                if !std::mem::replace(&mut task.done, true) {
                    self.task_is_done(part.callbacks > 0 || part.duration_ns > 0);
                }
                return Next::Block;
            }
            task.burst_left = if part.callbacks > 0 {
                part.burst.min(task.callbacks_left)
            } else {
                part.burst
            };
        }
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let now_queued = task.burst_left.min(CALLBACKS_PER_BURST);
        for _ in 0..now_queued {
            self.queue_callback(ctx, part.repost);
        }
        task.burst_left -= now_queued;
        task.callbacks_left = task.callbacks_left.saturating_sub(now_queued);
        let cost = self.end_step().max(1);
        if task.burst_left > 0 {
            return Next::Burst(cost, RunMode::Kernel);
        }
        let interval = draw(part.interval, &mut task.random);
        if interval < SHORTEST_SLEEP_NS {
            return Next::Burst(cost + interval, RunMode::Kernel);
        }
        self.sleep_until(id, cpu, now + cost + interval);
        Next::Block
    }

    pub(super) fn start_interrupts(&mut self, interrupt: &PeriodicInterrupt, part: u32, seed: u64) {
        let period = 1_000_000_000 / interrupt.rate_hz;
        let mut start = Stream::new(seed, Purpose::Start, u64::from(part));
        for cpu in interrupt.cpus.resolve(self.hw.tun.maxcpus) {
            if interrupt.duration_ns > 0 {
                self.live += 1;
            }
            self.hw.push(
                start.below(period),
                Event::Irq {
                    cpu,
                    irq: Irq::Periodic(part),
                },
            );
        }
    }

    /// The interrupt's handler; it also has the next one come.
    pub(in crate::sim) fn periodic_interrupt(&mut self, cpu: u32, part: u32) {
        let Part::PeriodicInterrupt(interrupt) = &self.parts[part as usize] else {
            unreachable!("a periodic interrupt belongs to its part")
        };
        let (callbacks, period) = (interrupt.callbacks, 1_000_000_000 / interrupt.rate_hz);
        let until = interrupt.duration_ns;
        if until > 0 && self.hw.now >= until {
            return self.task_is_done(true);
        }
        self.hw.spent += self.hw.machine.irq_ns;
        let ctx = self.ctx(cpu, true);
        for _ in 0..callbacks {
            self.queue_callback(ctx, 0);
        }
        self.next_interrupt(cpu, part, period);
    }

    /// A device that interrupts faster than its handler runs loses interrupts; it does not queue them.
    pub(in crate::sim) fn next_interrupt(&mut self, cpu: u32, part: u32, period: u64) {
        let at = self.hw.now + self.hw.spent.max(period);
        self.hw.push(
            at,
            Event::Irq {
                cpu,
                irq: Irq::Periodic(part),
            },
        );
    }
}
