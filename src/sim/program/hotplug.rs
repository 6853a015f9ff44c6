//! CPUs going offline and coming back.
//!
//! On its way offline a CPU stops taking tasks, hands over what it has, and when it is idle takes its
//! leave of RCU; the controlling task then takes over its callbacks and timers.

use super::draw;
use crate::sim::cpu::{Irq, Phase};
use crate::sim::kernel::{Event, Kernel};
use crate::sim::observe::{Observer, Sight};
use crate::sim::random::{Purpose, Stream};
use crate::sim::task::{HotplugTask, Next, Program, RunMode, SchedClass, TaskId, TaskState};
use crate::workload::{Hotplug, Part};
use std::rc::Rc;

/// CPU time of the controlling task per transition, ns. Assumed; what a transition waits for besides
/// is not part of this workload.
pub(super) const TRANSITION_NS: u64 = 20_000;

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_hotplug(&mut self, hotplug: &Hotplug, part: u32, seed: u64) {
        let mut random = Stream::new(seed, Purpose::Hotplug, u64::from(part));
        let at = draw(hotplug.interval, &mut random);
        let task = HotplugTask {
            part,
            transitions_left: hotplug.transitions,
            random,
            waiting_for: None,
            done: false,
        };
        let id = self.add_task(Program::Hotplug(Box::new(task)), 0, SchedClass::Other, false);
        if hotplug.transitions > 0 || hotplug.duration_ns > 0 {
            self.live += 1;
        }
        self.sleep_until(id, 0, at);
    }

    pub(super) fn next_of_hotplug(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = std::mem::replace(&mut self.hw.tasks[id as usize].program, Program::Noise);
        let Program::Hotplug(mut task) = program else {
            unreachable!("asked of a hotplug task")
        };
        let parts = Rc::clone(&self.parts);
        let Part::Hotplug(part) = &parts[task.part as usize] else {
            unreachable!("a hotplug task belongs to hotplug")
        };
        let next = self.hotplug_step(id, cpu, &mut task, part);
        self.hw.tasks[id as usize].program = Program::Hotplug(task);
        next
    }

    fn hotplug_step(&mut self, id: TaskId, cpu: u32, task: &mut HotplugTask, part: &Hotplug) -> Next {
        if let Some(dead) = task.waiting_for {
            if self.hw.cpus[dead as usize].online {
                return Next::Block;
            }
            task.waiting_for = None;
            self.hotplug_task = None;
            self.take_over(cpu, dead);
            self.sleep_until(
                id,
                cpu,
                self.hw.now + draw(part.interval, &mut task.random).max(1),
            );
            return Next::Block;
        }
        let over = (part.transitions > 0 && task.transitions_left == 0)
            || (part.duration_ns > 0 && self.hw.now >= part.duration_ns);
        if over {
            if !std::mem::replace(&mut task.done, true) {
                self.task_is_done(part.transitions > 0 || part.duration_ns > 0);
            }
            return Next::Block;
        }
        // One transition at a time on the whole machine.
        if self.hotplug_task.is_some() {
            self.sleep_until(
                id,
                cpu,
                self.hw.now + draw(part.interval, &mut task.random).max(1),
            );
            return Next::Block;
        }
        task.transitions_left = task.transitions_left.saturating_sub(1);
        let cpus = part.cpus.resolve(self.hw.tun.maxcpus);
        let chosen = cpus[task.random.below(cpus.len() as u64) as usize];
        if !self.hw.cpus[chosen as usize].online {
            self.bring_up(chosen);
        } else if self.hw.cpus.iter().filter(|c| c.online && !c.dying).count() > 1 {
            task.waiting_for = Some(chosen);
            self.hotplug_task = Some(id);
            self.hw.counters.cpus_offlined += 1;
            self.take_down(chosen);
            return Next::Burst(TRANSITION_NS, RunMode::Kernel);
        }
        self.sleep_until(
            id,
            cpu,
            self.hw.now + draw(part.interval, &mut task.random).max(1),
        );
        Next::Block
    }

    /// The CPU takes no tasks from here on; it dies as soon as it is idle.
    pub(in crate::sim) fn take_down(&mut self, cpu: u32) {
        self.hw.cpus[cpu as usize].dying = true;
        self.hw.cpus[cpu as usize].need_resched = true;
        self.hw.note_idle(cpu);
        self.hw.interrupt(cpu, Irq::Resched);
    }

    /// At a context switch of a dying CPU: tasks move, its own kthreads wait for its return.
    pub(in crate::sim) fn move_tasks_away(&mut self, cpu: u32) {
        loop {
            let c = &mut self.hw.cpus[cpu as usize];
            let Some(id) = c.fifo.take().or_else(|| c.queue.pop_front()) else {
                return;
            };
            if self.hw.tasks[id as usize].is_per_cpu_kthread() {
                self.hw.cpus[cpu as usize].parked.push(id);
            } else {
                self.move_task(id, cpu);
            }
        }
    }

    /// The dying CPU is idle: it leaves.
    pub(in crate::sim) fn die(&mut self, cpu: u32) {
        // A batch that ksoftirqd had begun goes back onto the list.
        drop(self.hw.cpus[cpu as usize].batch.take());
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        rcu.cpu_dead(ctx, None, &mut self.hw);
        self.end_step();
        self.see(Sight::CpuOffline { cpu });
        let pull = self.hw.pull;
        let c = &mut self.hw.cpus[cpu as usize];
        c.ct.idle_enter();
        c.online = false;
        c.dying = false;
        c.need_resched = false;
        c.softirq = 0;
        c.tick_on = false;
        c.clock_event = None;
        c.programmed = None;
        c.gen_tick = c.gen_tick.wrapping_add(1);
        c.phase = Phase::Idle;
        c.phase_until = u64::MAX;
        if !std::mem::replace(&mut c.tick_stopped, true) && pull {
            self.hw.hierarchy.deactivate(cpu);
        }
        let pending: Vec<Irq> = c.pending.drain(..).collect();
        self.see(Sight::EqsEnter { cpu });
        for irq in pending {
            self.irq_at_offline_cpu(cpu, irq);
        }
        if let Some(task) = self.hotplug_task {
            self.hw.push(self.hw.now, Event::Wake { task, from: cpu });
        }
    }

    /// The controlling task takes over what the dead CPU left: timers and callbacks.
    pub(in crate::sim) fn take_over(&mut self, cpu: u32, dead: u32) {
        let timers = std::mem::take(&mut self.hw.cpus[dead as usize].wheel);
        self.hw.hung.retain(|&(_, owner)| owner != dead);
        if !timers.is_empty() && self.gp_timer_cpu == dead {
            self.gp_timer_cpu = cpu;
        }
        self.move_exp_timers(dead, cpu);
        self.hw.cpus[cpu as usize].wheel.extend(timers);
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        let migrated = rcu.migrate_callbacks(ctx, dead, &mut self.hw);
        debug_assert!(migrated, "a dead CPU runs no callbacks");
        self.end_step();
        self.see(Sight::CallbacksMigrated { from: dead, to: cpu });
    }

    pub(in crate::sim) fn bring_up(&mut self, cpu: u32) {
        self.rcu.cpu_online(cpu);
        self.hw.cpus[cpu as usize].online = true;
        self.hw.note_idle(cpu);
        self.see(Sight::CpuOnline { cpu });
        if self.hw.tun.periodic_ticks {
            self.leave_idle(cpu);
        }
        for id in std::mem::take(&mut self.hw.cpus[cpu as usize].parked) {
            self.hw.tasks[id as usize].state = TaskState::Blocked;
            self.hw.push(self.hw.now, Event::Wake { task: id, from: cpu });
        }
    }

    /// Interrupts that find their CPU offline go to another one, or nowhere.
    pub(in crate::sim) fn irq_at_offline_cpu(&mut self, cpu: u32, irq: Irq) {
        match irq {
            // An expedited grace period does not wait for it: it reported itself when it died.
            Irq::Tick | Irq::Resched | Irq::Exp => {}
            Irq::Sleep(_) => self.hw.push(
                self.hw.now,
                Event::Irq {
                    cpu: self.hw.first_online(),
                    irq,
                },
            ),
            Irq::Noise => self.schedule_noise(cpu),
            Irq::Barrier => {
                self.begin_step(self.hw.first_online());
                let rcu = self.rcu;
                rcu.barrier_ipi(cpu, &mut self.hw);
                self.end_step();
            }
            Irq::SrcuStart(domain) => {
                self.begin_step(self.hw.first_online());
                self.srcu_start(domain);
                self.end_step();
            }
            Irq::Periodic(part) => {
                let Part::PeriodicInterrupt(interrupt) = &self.parts[part as usize] else {
                    unreachable!("a periodic interrupt belongs to its part")
                };
                if interrupt.duration_ns > 0 && self.hw.now >= interrupt.duration_ns {
                    return self.task_is_done(true);
                }
                let period = 1_000_000_000 / interrupt.rate_hz;
                self.next_interrupt(cpu, part, period);
            }
        }
    }
}
