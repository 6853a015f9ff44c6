//! The kernel's own threads: grace-period kthread, `sync_wq` worker, ksoftirqd, background noise.

use crate::sim::cpu::Irq;
use crate::sim::kernel::{Event, Kernel};
use crate::sim::observe::{Observer, Sight};
use crate::sim::task::{Next, Program, RunMode, SchedClass, TimerId};
use crate::tree::world::{Ctx, Current, WorkItem};
use crate::tree::{GpResume, GpWait};

const NS_PER_S: f64 = 1e9;

impl<O: Observer> Kernel<'_, '_, O> {
    /// The kthread starts up and goes to sleep, waiting for its first request.
    pub(in crate::sim) fn boot_kthread(&mut self, cpu: u32) {
        let ctx = Ctx {
            cpu,
            in_irq: false,
            current: Current::GpKthread,
        };
        let rcu = self.rcu;
        self.gp_wait = rcu.gp_step(&mut self.gp, ctx, GpResume::Run, &mut self.hw);
        self.gp_asleep = true;
    }

    pub(super) fn next_of_gp_kthread(&mut self, cpu: u32) -> Next {
        let mut resume = GpResume::Run;
        if self.gp_asleep {
            if matches!(self.gp_wait, GpWait::Delay { .. }) && !self.gp_timed_out {
                // A delay is sat out whatever happens.
                return Next::Block;
            }
            self.gp_asleep = false;
            self.cancel_timer(self.gp_timer_cpu, TimerId::GpTimeout);
            if std::mem::take(&mut self.gp_timed_out) {
                resume = GpResume::TimedOut;
            }
            self.gp_wait = GpWait::Yield;
        }
        loop {
            match self.gp_wait {
                GpWait::Yield => {}
                GpWait::Request { ticket } | GpWait::Timeout { ticket, .. }
                    if self.rcu.gp_ticket_is_old(ticket) => {}
                GpWait::Request { .. } => {
                    self.gp_asleep = true;
                    return Next::Block;
                }
                GpWait::Timeout { jiffies, .. } | GpWait::Delay { jiffies } => {
                    self.arm_timer(cpu, TimerId::GpTimeout, jiffies);
                    self.gp_timer_cpu = cpu;
                    self.gp_timed_out = false;
                    self.gp_asleep = true;
                    return Next::Block;
                }
            }
            self.begin_step(cpu);
            let ctx = self.ctx(cpu, false);
            let rcu = self.rcu;
            self.gp_wait = rcu.gp_step(&mut self.gp, ctx, resume, &mut self.hw);
            resume = GpResume::Run;
            let cost = self.end_step();
            self.see(Sight::GpStep { cpu });
            if cost > 0 {
                return Next::Burst(cost, RunMode::Kernel);
            }
        }
    }

    pub(super) fn next_of_worker(&mut self, cpu: u32) -> Next {
        if !std::mem::take(&mut self.hw.work_queued) {
            return Next::Block;
        }
        self.begin_step(cpu);
        let rcu = self.rcu;
        rcu.work(WorkItem::SrsCleanup, &mut self.hw);
        let cost = self.end_step() + self.hw.machine.work_item_ns;
        Next::Burst(cost.max(1), RunMode::Kernel)
    }

    pub(super) fn next_of_ksoftirqd(&mut self, cpu: u32) -> Next {
        let c = &mut self.hw.cpus[cpu as usize];
        if c.softirq == 0 && c.batch.is_none() {
            return Next::Block;
        }
        if c.need_resched && c.batch.is_none() {
            // Between two passes softirqs are enabled for a moment: others may have the CPU.
            return Next::Burst(1, RunMode::Kernel);
        }
        let vectors = if c.batch.is_some() {
            0
        } else {
            std::mem::take(&mut c.softirq)
        };
        self.begin_step(cpu);
        let left = self.softirq_vector(cpu, vectors, true);
        self.hw.cpus[cpu as usize].softirq |= left;
        // Each pass of the thread ends with a quiescent state.
        if self.hw.cpus[cpu as usize].batch.is_none() {
            let ctx = self.ctx(cpu, false);
            let rcu = self.rcu;
            rcu.context_switch(ctx, None, &mut self.hw);
            self.see(Sight::ContextSwitch { cpu });
        }
        let cost = self.end_step();
        self.hw.counters.softirq_cpu_ns += cost;
        Next::Burst(cost.max(1), RunMode::Section)
    }

    /// Has the calendar hold this CPU's next burst of background noise.
    pub(in crate::sim) fn schedule_noise(&mut self, cpu: u32) {
        let rate = self.hw.machine.noise;
        if let Some(stream) = &mut self.hw.cpus[cpu as usize].noise {
            let at = self.hw.now + stream.exponential(NS_PER_S / rate);
            self.hw.push(at, Event::Irq { cpu, irq: Irq::Noise });
        }
    }

    /// A burst of noise begins: an interrupt that wakes a pinned task.
    pub(in crate::sim) fn noise_begins(&mut self, cpu: u32) {
        self.hw.spent += self.hw.machine.irq_ns;
        let (low, high) = (self.hw.machine.noise_min_ns, self.hw.machine.noise_max_ns);
        let task = match self.hw.cpus[cpu as usize].noise_task {
            Some(task) => task,
            None => {
                let task = self.add_task(Program::Noise, cpu, SchedClass::Other, true);
                self.hw.cpus[cpu as usize].noise_task = Some(task);
                task
            }
        };
        let length = match &mut self.hw.cpus[cpu as usize].noise {
            Some(stream) => stream.between(low, high),
            None => 0,
        };
        self.hw.tasks[task as usize].burst += length;
        self.hw.tasks[task as usize].mode = RunMode::User;
        self.hw.wake_soon(task);
        self.schedule_noise(cpu);
    }
}
