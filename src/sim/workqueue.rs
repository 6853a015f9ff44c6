//! Work queues bound to CPUs (`rcu_gp_wq`): items wait at a CPU, and its kworker tasks carry them out.
//!
//! A CPU's queue keeps one worker running. When that one sleeps in the middle of an item, the next is woken for the rest.
//! So how soon an item is carried out is a matter of wake-ups, of who else wants the CPU, and of what is queued before it.

use super::kernel::{Hw, Kernel};
use super::observe::{Observer, SrcuSight};
use super::srcu::Around;
use super::task::{Next, Program, RunMode, SchedClass, TaskId};
use crate::srcu::{Batch, Cb, GpWait, World};
use crate::tree::waiters::Waiter;
use crate::tree::{Route, seq};
use std::collections::VecDeque;

/// Callbacks invoked between two looks at pending interrupts.
const CALLBACKS_PER_BURST: u32 = 32;

/// A work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A domain's grace-period work.
    SrcuGp(u32),
    /// A domain's callbacks of this CPU.
    SrcuCallbacks(u32, u32),
}

/// One CPU's queue.
#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Workers without an item, asleep.
    idle: Vec<TaskId>,
    /// Workers that are awake.
    running: u32,
}

/// What a worker is at.
#[derive(Default)]
enum Doing<'r> {
    #[default]
    Nothing,
    Gp(u32),
    /// In the middle of a zero test: about to call `synchronize_rcu()`, or waiting in it.
    RcuCall(u32, bool),
    RcuWait(u32),
    Callbacks(u32, Batch<'r, u64>),
}

/// A kworker task.
struct Worker<'r> {
    cpu: u32,
    doing: Doing<'r>,
    /// Without an item.
    is_idle: bool,
    /// Sleeps inside an item.
    sleeps: bool,
    /// What it slept for has come.
    released: bool,
}

/// All queues and their workers.
#[derive(Default)]
pub(super) struct Workqueue<'r> {
    queues: Vec<Queue>,
    workers: Vec<Worker<'r>>,
}

impl Workqueue<'_> {
    /// What a worker slept for has come.
    pub fn release(&mut self, worker: u32) {
        self.workers[worker as usize].released = true;
    }
}

impl Hw<'_> {
    /// Queues an item at a CPU.
    pub(super) fn queue_item(&mut self, cpu: u32, item: Item) {
        if self.workqueue.queues.is_empty() {
            self.workqueue.queues.resize_with(self.cpus.len(), Queue::default);
        }
        let queue = &mut self.workqueue.queues[cpu as usize];
        queue.items.push_back(item);
        if queue.running == 0 {
            self.wake_worker(cpu);
        }
    }

    fn wake_worker(&mut self, cpu: u32) {
        let queue = &mut self.workqueue.queues[cpu as usize];
        queue.running += 1;
        let id = queue.idle.pop().unwrap_or_else(|| self.new_worker(cpu));
        let Program::Kworker(index) = self.tasks[id as usize].program else {
            unreachable!("a worker's task")
        };
        self.workqueue.workers[index as usize].is_idle = false;
        // Workers of a CPU that is offline run anywhere.
        let there = self.takes_tasks(cpu);
        let task = &mut self.tasks[id as usize];
        task.pinned = there;
        if there {
            task.cpu = cpu;
        }
        self.wake_soon(id);
    }

    fn new_worker(&mut self, cpu: u32) -> TaskId {
        let index = self.workqueue.workers.len() as u32;
        self.workqueue.workers.push(Worker {
            cpu,
            doing: Doing::Nothing,
            is_idle: true,
            sleeps: false,
            released: false,
        });
        self.add_task(Program::Kworker(index), cpu, SchedClass::Other, true)
    }

    /// A worker sleeps inside its item: others go on.
    fn worker_sleeps(&mut self, index: usize) {
        let worker = &mut self.workqueue.workers[index];
        if std::mem::replace(&mut worker.sleeps, true) {
            return;
        }
        let cpu = worker.cpu;
        let queue = &mut self.workqueue.queues[cpu as usize];
        queue.running -= 1;
        if queue.running == 0 && !queue.items.is_empty() {
            self.wake_worker(cpu);
        }
    }

    fn worker_wakes(&mut self, index: usize) {
        let worker = &mut self.workqueue.workers[index];
        if std::mem::take(&mut worker.sleeps) {
            self.workqueue.queues[worker.cpu as usize].running += 1;
        }
    }
}

impl<'r, O: Observer> Kernel<'r, '_, O> {
    pub(super) fn next_of_kworker(&mut self, id: TaskId, index: u32, cpu: u32) -> Next {
        let at = index as usize;
        if self.expedited.contains_key(&id) {
            // In `synchronize_rcu_expedited()`, which it carries out itself.
            self.hw.worker_wakes(at);
            let next = self.next_of_expedited(id, cpu);
            if next == Next::Block && self.expedited.contains_key(&id) {
                self.hw.worker_sleeps(at);
            }
            return next;
        }
        loop {
            let doing = std::mem::take(&mut self.hw.workqueue.workers[at].doing);
            let (doing, next) = match doing {
                Doing::Nothing => match self.take_item(at) {
                    Some(item) => (self.begin_item(item, at, cpu), None),
                    None => {
                        let worker = &mut self.hw.workqueue.workers[at];
                        let queue = &mut self.hw.workqueue.queues[worker.cpu as usize];
                        // It may have been woken for something that is over.
                        if !std::mem::replace(&mut worker.is_idle, true) {
                            queue.running -= 1;
                            queue.idle.push(id);
                        }
                        (Doing::Nothing, Some(Next::Block))
                    }
                },
                Doing::Gp(domain) => self.gp_work(domain, cpu),
                Doing::RcuCall(domain, true) => {
                    // It is told by being woken, and goes on with the call whenever it is.
                    self.expedited_begin(id, Waiter::new(u64::from(id) | super::guest::JUST_WAKE));
                    let entry = self.hw.machine.sync_entry_ns.max(1);
                    (Doing::Gp(domain), Some(Next::Burst(entry, RunMode::Kernel)))
                }
                Doing::RcuCall(domain, false) => {
                    let cost = self.worker_synchronizes(id, cpu);
                    (
                        Doing::RcuWait(domain),
                        Some(Next::Burst(cost.max(1), RunMode::Kernel)),
                    )
                }
                Doing::RcuWait(domain) => {
                    if std::mem::take(&mut self.hw.workqueue.workers[at].released) {
                        self.hw.worker_wakes(at);
                        (Doing::Gp(domain), None)
                    } else {
                        self.hw.worker_sleeps(at);
                        (Doing::RcuWait(domain), Some(Next::Block))
                    }
                }
                Doing::Callbacks(domain, batch) => self.invoke_srcu_callbacks(domain, batch, cpu),
            };
            self.hw.workqueue.workers[at].doing = doing;
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// The next item of its CPU. One that is being carried out by another worker waits for that one's end.
    fn take_item(&mut self, worker: usize) -> Option<Item> {
        let cpu = self.hw.workqueue.workers[worker].cpu as usize;
        loop {
            let item = self.hw.workqueue.queues[cpu].items.pop_front()?;
            if let Item::SrcuGp(domain) = item {
                let state = &mut self.domains[domain as usize];
                if state.gp_running.is_some() {
                    state.gp_again = true;
                    continue;
                }
            }
            return Some(item);
        }
    }

    fn begin_item(&mut self, item: Item, worker: usize, cpu: u32) -> Doing<'r> {
        match item {
            Item::SrcuGp(domain) => {
                let state = &mut self.domains[domain as usize];
                state.gp_pending = false;
                state.gp_running = Some(self.hw.workqueue.workers[worker].cpu);
                Doing::Gp(domain)
            }
            Item::SrcuCallbacks(domain, of) => {
                self.domains[domain as usize].cb_queued[of as usize] = false;
                self.begin_step(cpu);
                let batch = self.with_domain(domain, |srcu, _| srcu.callback_work(of));
                self.end_step();
                batch.map_or(Doing::Nothing, |batch| Doing::Callbacks(domain, batch))
            }
        }
    }

    /// One step of a grace-period work item.
    fn gp_work(&mut self, domain: u32, cpu: u32) -> (Doing<'r>, Option<Next>) {
        self.begin_step(cpu);
        let wait = self.step_gp_work(domain);
        if wait == GpWait::Done {
            self.hw.spent += self.hw.machine.work_item_ns;
            let state = &mut self.domains[domain as usize];
            let queue = state.gp_running.take();
            if std::mem::take(&mut state.gp_again)
                && let Some(queue) = queue
            {
                self.hw.queue_item(queue, Item::SrcuGp(domain));
            }
        }
        let cost = self.end_step();
        let burst = |ns: u64| (ns > 0).then_some(Next::Burst(ns, RunMode::Kernel));
        match wait {
            GpWait::Again => (Doing::Gp(domain), burst(cost)),
            GpWait::Spin { us } => (Doing::Gp(domain), burst(cost + us * 1_000)),
            GpWait::Rcu { expedited } => (Doing::RcuCall(domain, expedited), burst(cost)),
            GpWait::Done => (Doing::Nothing, burst(cost)),
        }
    }

    /// A worker calls `synchronize_rcu()`; gives the cost up to where it blocks.
    fn worker_synchronizes(&mut self, id: TaskId, cpu: u32) -> u64 {
        let rcu = self.rcu;
        self.begin_step(cpu);
        let mut call = rcu.sync_begin(Waiter::new(u64::from(id)), &mut self.hw);
        let direct = call.route() == Route::Direct;
        self.hw.counters.direct_wakes += u64::from(direct);
        // The other route queues a callback, which has a number like any other.
        self.hw.counters.callbacks_queued += u64::from(!direct);
        self.hw.next_callback += u64::from(!direct);
        let ctx = self.ctx(cpu, false);
        while !rcu.sync_step(&mut call, ctx, &mut self.hw) {}
        self.end_step() + self.hw.machine.sync_entry_ns
    }

    /// Invokes a few callbacks, with softirqs disabled.
    fn invoke_srcu_callbacks(
        &mut self,
        domain: u32,
        mut batch: Batch<'r, u64>,
        cpu: u32,
    ) -> (Doing<'r>, Option<Next>) {
        self.begin_step(cpu);
        for _ in 0..CALLBACKS_PER_BURST {
            let Some(callback) = batch.next() else {
                self.with_domain(domain, |_, world| batch.finish(world));
                let cost = self.end_step() + self.hw.machine.work_item_ns;
                return (Doing::Nothing, Some(Next::Burst(cost.max(1), RunMode::Kernel)));
            };
            self.hw.spent += self.hw.machine.cb_invoke_ns;
            match callback {
                Cb::User(call) => self.srcu_called_back(domain, call),
                Cb::Wake(waiter) => self.with_domain(domain, |srcu, world| {
                    // The latest grace period that is over.
                    world.complete(waiter, srcu.gp_seq() & !seq::SEQ_MASK);
                }),
                Cb::Barrier => self.with_domain(domain, |srcu, world| srcu.barrier_callback(cpu, world)),
                Cb::Expedite(of) => {
                    self.with_domain(domain, |srcu, world| srcu.expedite_callback(of, world));
                }
            }
        }
        let cost = self.end_step();
        (
            Doing::Callbacks(domain, batch),
            Some(Next::Burst(cost.max(1), RunMode::Section)),
        )
    }

    /// The callback of a call is invoked.
    fn srcu_called_back(&mut self, domain: u32, id: u64) {
        self.see_srcu(domain, SrcuSight::End { id });
        let ended = self.srcu[domain as usize].gp_seq() & !seq::SEQ_MASK;
        let at = self.hw.now + self.hw.spent;
        let call = self.srcu_calls.remove(&id).expect("a call is invoked once");
        self.srcu_call_over(call, at, super::srcu::gp_place(ended));
    }
}

impl std::fmt::Debug for Around<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Around(domain {})", self.domain)
    }
}
