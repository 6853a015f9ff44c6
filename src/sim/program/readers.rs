//! Read-side sections.

use super::draw;
use crate::sim::kernel::Kernel;
use crate::sim::observe::{Observer, Sight};
use crate::sim::random::{Purpose, Stream};
use crate::sim::task::{Next, Program, ReaderPhase, ReaderTask, RunMode, SchedClass, TaskId};
use crate::tree::Reader;
use crate::workload::{Part, Readers};
use std::rc::Rc;

/// Gaps shorter than this are spent running.
const SHORTEST_SLEEP_NS: u64 = 1_000;
/// How long preemption stays disabled after a deferred unlock, ns.
const DISABLED_NS: u64 = 500;

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_readers(&mut self, readers: &Readers, part: u32, seed: u64) {
        let starts = self.starts(readers.tasks, readers.placement, 0, part, seed);
        for (index, (cpu, at)) in starts.enumerate() {
            let random = Stream::new(seed, Purpose::Readers, u64::from(part) << 32 | index as u64);
            let id = self.hw.tasks.len() as u64;
            let state = self.rcu.is_preemptible().then(|| Box::new(Reader::new(id)));
            self.hw.readers.push(state);
            let task = ReaderTask {
                part,
                reader: self.hw.readers.len() as u32 - 1,
                phase: ReaderPhase::Outside,
                sections_left: readers.sections,
                random,
                rest: 0,
                deferred: false,
                section: 0,
                done: false,
            };
            let id = self.add_task(Program::Reader(Box::new(task)), cpu, SchedClass::Other, false);
            if readers.sections > 0 || readers.duration_ns > 0 {
                self.live += 1;
            }
            self.sleep_until(id, cpu, at);
        }
    }

    pub(super) fn next_of_reader(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = std::mem::replace(&mut self.hw.tasks[id as usize].program, Program::Noise);
        let Program::Reader(mut task) = program else {
            unreachable!("asked of a reader")
        };
        let parts = Rc::clone(&self.parts);
        let Part::Readers(part) = &parts[task.part as usize] else {
            unreachable!("a reader belongs to readers")
        };
        let next = self.reader_step(id, cpu, &mut task, part);
        self.hw.tasks[id as usize].program = Program::Reader(task);
        next
    }

    fn reader_step(&mut self, id: TaskId, cpu: u32, task: &mut ReaderTask, part: &Readers) -> Next {
        let now = self.hw.now;
        match task.phase {
            ReaderPhase::Outside => {
                let over = (part.sections > 0 && task.sections_left == 0)
                    || (part.duration_ns > 0 && now >= part.duration_ns);
                if over {
                    if !std::mem::replace(&mut task.done, true) {
                        self.task_is_done(part.sections > 0 || part.duration_ns > 0);
                    }
                    return Next::Block;
                }
                task.sections_left = task.sections_left.saturating_sub(1);
                task.section = self.open_section(cpu);
                for _ in 0..=part.nested {
                    self.lock_reader(task.reader);
                }
                let length = draw(part.section, &mut task.random).max(2);
                task.rest = length / 2;
                task.deferred = task.random.below(100) < u64::from(part.deferred_percent);
                task.phase = ReaderPhase::FirstHalf;
                Next::Burst(length - task.rest, self.inside())
            }
            ReaderPhase::FirstHalf => {
                let mut cost = 0;
                for _ in 0..part.nested {
                    cost += self.unlock_reader(task.reader, cpu, false);
                }
                task.phase = ReaderPhase::SecondHalf;
                // With preemption disabled from here on, the outermost unlock will be a deferred one.
                let mode = if task.deferred {
                    RunMode::Section
                } else {
                    self.inside()
                };
                Next::Burst(task.rest + cost, mode)
            }
            ReaderPhase::SecondHalf => {
                self.see(Sight::SectionEnd { id: task.section });
                let cost = self.unlock_reader(task.reader, cpu, task.deferred);
                if task.deferred {
                    // Still a section: preemption is disabled.
                    task.section = self.open_section(cpu);
                    task.phase = ReaderPhase::Disabled;
                    return Next::Burst(DISABLED_NS + cost, RunMode::Section);
                }
                self.reader_gap(id, cpu, task, part, cost)
            }
            ReaderPhase::Disabled => {
                self.see(Sight::SectionEnd { id: task.section });
                self.reader_gap(id, cpu, task, part, 0)
            }
        }
    }

    fn reader_gap(&mut self, id: TaskId, cpu: u32, task: &mut ReaderTask, part: &Readers, cost: u64) -> Next {
        task.phase = ReaderPhase::Outside;
        let gap = draw(part.gap, &mut task.random);
        if gap + cost < SHORTEST_SLEEP_NS {
            return Next::Burst((gap + cost).max(1), RunMode::Kernel);
        }
        self.sleep_until(id, cpu, self.hw.now + gap + cost);
        Next::Block
    }

    /// What a reader's time inside its section counts as: without preemption it cannot give way there.
    fn inside(&self) -> RunMode {
        if self.rcu.is_preemptible() {
            RunMode::Kernel
        } else {
            RunMode::Section
        }
    }

    pub(in crate::sim) fn lock_reader(&mut self, index: u32) {
        if let Some(reader) = &mut self.hw.readers[index as usize] {
            reader.lock();
        }
    }

    /// Leaves one level; gives the cost.
    pub(in crate::sim) fn unlock_reader(&mut self, index: u32, cpu: u32, disabled: bool) -> u64 {
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        // Out of its place for the call, since the engine gets the rest of the machine as its world.
        let mut reader = self.hw.readers[index as usize].take();
        if let Some(reader) = reader.as_deref_mut() {
            rcu.read_unlock(ctx, reader, disabled, &mut self.hw);
        }
        self.hw.readers[index as usize] = reader;
        self.end_step()
    }
}
