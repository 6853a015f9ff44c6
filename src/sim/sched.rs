//! Waking tasks: where a woken task runs, and whom it preempts.

use super::cpu::{Irq, Phase};
use super::kernel::{Event, Hw, Kernel};
use super::observe::{Observer, Sight};
use super::task::{Program, SchedClass, TaskId, TaskState};
use crate::config::Preempt;

/// An ordinary task runs this long before another ordinary one that wakes may preempt it, ns. Coarser
/// than the kernel's protected slice. Assumed.
const PROTECTED_NS: u64 = 100_000;

/// Which online CPUs are idle for the scheduler, as a bit set.
#[derive(Debug)]
pub(super) struct IdleMask {
    words: Vec<u64>,
    online: u32,
    llc: u32,
}

impl IdleMask {
    pub(super) fn all_idle(online: u32, cpus_per_llc: u64) -> Self {
        let mut words = vec![u64::MAX; online.div_ceil(64) as usize];
        if !online.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = (1 << (online % 64)) - 1;
        }
        let llc = if cpus_per_llc == 0 {
            online
        } else {
            cpus_per_llc.min(u64::from(online)) as u32
        };
        IdleMask { words, online, llc }
    }

    fn set(&mut self, cpu: u32, idle: bool) {
        let (word, bit) = (cpu as usize / 64, 1u64 << (cpu % 64));
        if idle {
            self.words[word] |= bit;
        } else {
            self.words[word] &= !bit;
        }
    }

    fn is_idle(&self, cpu: u32) -> bool {
        self.words[cpu as usize / 64] & (1 << (cpu % 64)) != 0
    }

    fn same_llc(&self, a: u32, b: u32) -> bool {
        a / self.llc == b / self.llc
    }

    /// First idle CPU of `cpu`'s last-level cache from `cpu + 1` on, wrapping.
    fn next_in_llc(&self, cpu: u32) -> Option<u32> {
        let low = cpu / self.llc * self.llc;
        let high = (low + self.llc).min(self.online);
        self.first_in(cpu + 1, high).or_else(|| self.first_in(low, cpu))
    }

    fn first_in(&self, from: u32, to: u32) -> Option<u32> {
        let mut cpu = from;
        while cpu < to {
            let word = self.words[cpu as usize / 64] >> (cpu % 64);
            if word != 0 {
                let found = cpu + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            cpu = (cpu / 64 + 1) * 64;
        }
        None
    }
}

impl Hw<'_> {
    /// Keeps the idle mask in step with one CPU.
    pub(super) fn note_idle(&mut self, cpu: u32) {
        let idle = self.cpus[cpu as usize].is_idle();
        self.idle_mask.set(cpu, idle);
    }

    /// The CPU is online and not on its way offline.
    pub(super) fn takes_tasks(&self, cpu: u32) -> bool {
        let c = &self.cpus[cpu as usize];
        c.online && !c.dying
    }

    /// Lowest CPU that takes tasks.
    pub(super) fn first_online(&self) -> u32 {
        (0..self.cpus.len() as u32)
            .find(|&cpu| self.takes_tasks(cpu))
            .expect("one CPU stays online")
    }

    /// Where a woken task goes: its previous CPU if idle, else the waker's if idle and of the same
    /// last-level cache, else the next idle one of that cache, else its previous CPU. A real-time
    /// task stays unless a real-time task is there.
    fn place(&self, id: TaskId, from: u32) -> u32 {
        let task = &self.tasks[id as usize];
        let prev = task.cpu;
        let mask = &self.idle_mask;
        if task.pinned || mask.is_idle(prev) {
            return prev;
        }
        if !self.takes_tasks(prev) {
            return mask.next_in_llc(prev).unwrap_or(from);
        }
        if task.class == SchedClass::Fifo {
            let current = self.cpus[prev as usize].curr;
            let taken = current.is_some_and(|other| self.tasks[other as usize].class == SchedClass::Fifo);
            return if taken {
                mask.next_in_llc(prev).unwrap_or(prev)
            } else {
                prev
            };
        }
        if mask.is_idle(from) && mask.same_llc(prev, from) {
            return from;
        }
        mask.next_in_llc(prev).unwrap_or(prev)
    }
}

impl<O: Observer> Kernel<'_, '_, O> {
    /// `try_to_wake_up()`, on behalf of something on CPU `from`.
    pub(super) fn wake_task(&mut self, id: TaskId, from: u32) {
        match self.hw.tasks[id as usize].state {
            TaskState::Running => self.hw.tasks[id as usize].wake_pending = true,
            TaskState::Queued => {}
            TaskState::Blocked => {
                self.hw.counters.wakeups += 1;
                self.enqueue_somewhere(id, from);
            }
        }
    }

    /// Queues a task where it belongs. A CPU's own kthreads wait for it while it is offline; other tasks
    /// that are pinned to it lose their affinity, as in the kernel.
    pub(super) fn enqueue_somewhere(&mut self, id: TaskId, from: u32) {
        let near = if self.hw.takes_tasks(from) {
            from
        } else {
            self.hw.first_online()
        };
        let task = &self.hw.tasks[id as usize];
        if task.pinned && !task.is_per_cpu_kthread() && !self.hw.takes_tasks(task.cpu) {
            self.hw.tasks[id as usize].pinned = false;
        }
        let target = self.hw.place(id, near);
        if self.hw.takes_tasks(target) {
            // A CPU on its way offline interrupts the other one like anybody else.
            self.enqueue(id, target, from);
        } else {
            debug_assert!(self.hw.tasks[id as usize].pinned);
            self.hw.tasks[id as usize].state = TaskState::Queued;
            self.hw.cpus[target as usize].parked.push(id);
        }
    }

    /// Moves a task off a CPU that takes none any more: to the end of another queue, with what it has
    /// used of its slice.
    pub(super) fn move_task(&mut self, id: TaskId, from: u32) {
        let used = self.hw.tasks[id as usize].slice_used;
        self.enqueue_somewhere(id, from);
        let target = self.hw.tasks[id as usize].cpu;
        let c = &mut self.hw.cpus[target as usize];
        if c.queue.front() == Some(&id) && c.curr.is_some() {
            c.queue.rotate_left(1);
        }
        self.hw.tasks[id as usize].slice_used = used;
    }

    fn enqueue(&mut self, id: TaskId, target: u32, from: u32) {
        // With lazy preemption an ordinary task waits; a non-preemptible kernel's task is marked at
        // once and gives way at its next reschedule point.
        let full = self.hw.tun.preempt != Preempt::Lazy;
        let task = &mut self.hw.tasks[id as usize];
        if id == self.hw.gp_task && task.cpu != target {
            self.hw.counters.gp_kthread_migrations += 1;
        }
        task.state = TaskState::Queued;
        task.cpu = target;
        let class = task.class;
        task.slice_used = 0;
        let current = self.hw.cpus[target as usize].curr;
        let current_class = current.map(|other| self.hw.tasks[other as usize].class);
        let (preempt, lazy) = match current_class {
            None => (true, false),
            Some(other) if class < other => (true, false),
            Some(SchedClass::Fifo) => (false, false),
            // Coarser than the kernel's slice rule: an ordinary task that wakes gets the CPU at once with
            // full preemption, at the next tick or return to user mode with lazy.
            Some(SchedClass::Other) => (full, !full),
        };
        // A task that just got the CPU keeps it for a moment, or one that wakes all the time would never
        // let it run.
        let protected = current_class == Some(SchedClass::Other)
            && class == SchedClass::Other
            && self.slice_used(target) < PROTECTED_NS;
        // It is noticed at the next tick.
        let (preempt, lazy) = (preempt && !protected, lazy || (preempt && protected));
        let c = &mut self.hw.cpus[target as usize];
        if c.queue.is_empty() {
            c.fair_from = self.hw.now;
        }
        if class == SchedClass::Fifo {
            c.fifo = Some(id);
        } else if (preempt || lazy) && current.is_some() {
            c.queue.push_front(id);
        } else {
            c.queue.push_back(id);
        }
        c.need_resched |= preempt;
        c.resched_lazy |= lazy;
        let phase = c.phase;
        self.hw.note_idle(target);
        if !preempt {
            return;
        }
        if target != from || phase == Phase::Idle {
            self.hw.interrupt(target, Irq::Resched);
        } else if phase == Phase::Run {
            // A running task woke somebody on its own CPU.
            self.pause_burst(target);
            self.go_on(target);
        }
    }

    /// A `synchronize_rcu()` caller is released by this grace period (see `gp_index`).
    pub(super) fn release(&mut self, id: TaskId, from: u32, gp: u32) {
        let mut direct = false;
        if let Program::Sync(index) = self.hw.tasks[id as usize].program {
            let caller = &mut self.hw.callers[index as usize];
            caller.released_by = std::num::NonZeroU32::new(gp);
            direct = caller.direct;
        }
        if let Program::Guest { released, .. } = &mut self.hw.tasks[id as usize].program {
            *released = true;
        }
        match self.hw.tasks[id as usize].program {
            Program::SrcuCaller(index) => self.srcu_callers[index as usize].released = Some(gp),
            Program::Kworker(index) => self.hw.workqueue.release(index),
            _ => {}
        }
        if direct {
            self.see(Sight::DirectComplete { task: id });
        }
        self.wake_task(id, from);
    }

    /// Softirqs of this CPU are left to its thread.
    pub(super) fn wake_ksoftirqd(&mut self, cpu: u32) {
        let id = match self.hw.cpus[cpu as usize].ksoftirqd {
            Some(id) => id,
            None => {
                let id = self.add_task(Program::Ksoftirqd, cpu, SchedClass::Other, true);
                self.hw.cpus[cpu as usize].ksoftirqd = Some(id);
                id
            }
        };
        self.hw.push(self.hw.now, Event::Wake { task: id, from: cpu });
    }
}
