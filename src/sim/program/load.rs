//! Busy CPUs.

use crate::sim::kernel::{Event, Kernel};
use crate::sim::observe::{Observer, Sight};
use crate::sim::task::{LoadCaller, Next, Program, RunMode, SchedClass, TaskId};
use crate::workload::{CpuLoad, Mode, Part};
use std::rc::Rc;

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_loads(&mut self, load: &CpuLoad, part: u32) {
        for cpu in load.cpus.resolve(self.hw.tun.maxcpus) {
            let state = LoadCaller {
                part,
                stretch_until: 0,
                in_section: false,
                section: 0,
                done: false,
            };
            let id = self.add_task(Program::Load(Box::new(state)), cpu, SchedClass::Other, true);
            if load.duration_ns > 0 {
                self.live += 1;
            }
            self.hw.push(0, Event::Wake { task: id, from: cpu });
        }
    }

    pub(super) fn next_of_load(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = std::mem::replace(&mut self.hw.tasks[id as usize].program, Program::Noise);
        let Program::Load(mut state) = program else {
            unreachable!("asked of a CPU load")
        };
        let parts = Rc::clone(&self.parts);
        let Part::CpuLoad(load) = &parts[state.part as usize] else {
            unreachable!("a load belongs to a CPU load")
        };
        let next = self.load_step(id, cpu, &mut state, load);
        self.hw.tasks[id as usize].program = Program::Load(state);
        next
    }

    fn load_step(&mut self, id: TaskId, cpu: u32, state: &mut LoadCaller, load: &CpuLoad) -> Next {
        let now = self.hw.now;
        if std::mem::take(&mut state.in_section) {
            self.see(Sight::SectionEnd { id: state.section });
            if load.gap_ns > 0 {
                return Next::Burst(load.gap_ns, RunMode::Kernel);
            }
        }
        if load.duration_ns > 0 && now >= load.duration_ns {
            if !std::mem::replace(&mut state.done, true) {
                self.task_is_done(true);
            }
            return Next::Block;
        }
        if load.run_ns > 0 && state.stretch_until > 0 && now >= state.stretch_until {
            // The stretch is over: pause, and start the next one when woken.
            state.stretch_until = 0;
            if load.pause_ns > 0 {
                self.sleep_until(id, cpu, now + load.pause_ns);
                return Next::Block;
            }
            return Next::Burst(1, RunMode::Kernel);
        }
        if state.stretch_until == 0 {
            state.stretch_until = if load.run_ns > 0 {
                now + load.run_ns
            } else {
                u64::MAX
            };
        }
        if load.section_ns > 0 {
            state.in_section = true;
            state.section = self.open_section(cpu);
            return Next::Burst(load.section_ns, RunMode::Section);
        }
        let end = if load.duration_ns > 0 {
            load.duration_ns
        } else {
            u64::MAX
        };
        let until = state.stretch_until.min(end);
        let whole = if until == u64::MAX { u64::MAX } else { until - now };
        match load.mode {
            Mode::User => Next::Burst(whole, RunMode::User),
            Mode::Kernel if self.hw.tun.preempt.is_preemptible() => Next::Burst(whole, RunMode::Kernel),
            Mode::Kernel => {
                // Long code of a non-preemptible kernel has reschedule points.
                self.begin_step(cpu);
                let ctx = self.ctx(cpu, false);
                let rcu = self.rcu;
                rcu.cond_resched(ctx, &mut self.hw);
                let cost = self.end_step();
                self.see(Sight::ReschedPoint { cpu });
                Next::Burst(cost + whole.min(load.gap_ns), RunMode::Kernel)
            }
        }
    }
}
