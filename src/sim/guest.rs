//! Tasks that somebody outside of the simulator programs: the torture driver.
//!
//! The simulator asks a [`Guest`] what each of its tasks does next, exactly as it asks its own programs, and
//! lends it [`Hands`]: the machine as seen from a task. A guest is told when a task's wait is over by being
//! asked again, and when one of its callbacks is invoked by [`Guest::callback`].

use super::cpu::UserCb;
use super::kernel::Kernel;
use super::machine::Machine;
use super::observe::{NoObserver, Observer, Sight};
use super::task::{Next, Program, RunMode, SchedClass, TaskId};
use crate::config::Config;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::stats::Keep;
use crate::tree::waiters::Waiter;
use crate::tree::{FullCookie, Rcu, Reader, Route};
use std::sync::atomic::Ordering::Relaxed;

/// What a guest's task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Runs for so many ns, preemptible where the kernel is.
    Run(u64),
    /// Runs for so many ns with preemption disabled.
    RunDisabled(u64),
    /// Sleeps for so many ns.
    Sleep(u64),
    /// Sleeps until what it waits for has come. Whoever asked for nothing sleeps for ever.
    Wait,
    /// Is done for good.
    Exit,
}

/// The program of all guest tasks of a run.
pub(crate) trait Guest {
    /// What task number `index` does next.
    fn next(&mut self, index: u32, hands: &mut dyn Hands) -> Step;

    /// One of its callbacks is invoked.
    fn callback(&mut self, id: u64, hands: &mut dyn Hands);

    /// Now and then, between two events: a look at the clock, at the grace-period number, and at the stalls
    /// reported so far. False ends the run.
    fn look(&mut self, now: u64, gp_seq: u64, stalls: u64) -> bool;
}

/// The machine as a task sees it. Times in ns of virtual time.
pub(crate) trait Hands {
    fn now(&self) -> u64;
    fn gp_seq(&self) -> u64;
    /// `rcu_read_lock()` of the task that is asked.
    fn read_lock(&mut self);
    /// `rcu_read_unlock()`; `disabled`: with preemption disabled.
    fn read_unlock(&mut self, disabled: bool);
    /// Give way at the next chance.
    fn resched(&mut self);
    /// A reschedule point of a kernel that is not preemptible.
    fn cond_resched(&mut self);
    /// `synchronize_rcu()`: wait afterwards.
    fn synchronize(&mut self);
    /// `synchronize_rcu_expedited()`: wait afterwards.
    fn synchronize_expedited(&mut self);
    /// `rcu_barrier()`: wait afterwards.
    fn barrier(&mut self);
    /// What was waited for has come (once).
    fn take_released(&mut self) -> bool;
    fn get_state(&self) -> u64;
    fn start_poll(&mut self) -> u64;
    fn poll_state(&self, cookie: u64) -> bool;
    fn get_state_full(&self) -> FullCookie;
    fn start_poll_full(&mut self) -> FullCookie;
    fn poll_state_full(&self, cookie: FullCookie) -> bool;
    /// `call_rcu()`, from a task or from a callback; gives the callback's id.
    fn call(&mut self) -> u64;
    /// CPUs online, by number.
    fn online(&self) -> Vec<bool>;
    /// Begins to take a CPU down: wait until it is offline, then [`Hands::take_over`]. False: it cannot be
    /// done now.
    fn take_down(&mut self, cpu: u32) -> bool;
    /// Takes over what the CPU left, once it is offline.
    fn take_over(&mut self, dead: u32);
    fn bring_up(&mut self, cpu: u32);
    /// Stalls reported so far.
    fn stalls(&self) -> u64;
}

/// Bit of a waiter's token: its task is in an expedited call, which it goes on with whenever it is woken. Such a
/// completion may come late, and must not be taken for that of another wait.
pub(super) const JUST_WAKE: u64 = 1 << 32;

/// One look at the machine: from a task, or from a callback.
struct Grip<'k, 'r, 'o, O: Observer> {
    kernel: &'k mut Kernel<'r, 'o, O>,
    cpu: u32,
    /// The task that is asked; none in a callback.
    task: Option<TaskId>,
    /// In a softirq.
    in_irq: bool,
    /// CPU time that its calls took.
    cost: u64,
}

impl<'r, 'o, O: Observer> Grip<'_, 'r, 'o, O> {
    /// A call into the engine from a task is a step of its own; from a callback it is part of that step.
    fn step<T>(&mut self, call: impl FnOnce(&mut Kernel<'r, 'o, O>) -> T) -> T {
        if self.task.is_none() {
            return call(self.kernel);
        }
        self.kernel.begin_step(self.cpu);
        let value = call(self.kernel);
        self.cost += self.kernel.end_step();
        value
    }

    fn id(&self) -> TaskId {
        self.task.expect("only a task does this")
    }

    fn waiter(&self) -> Waiter {
        Waiter::new(u64::from(self.id()))
    }

    fn reader(&self) -> u32 {
        match self.kernel.hw.tasks[self.id() as usize].program {
            Program::Guest { reader, .. } => reader,
            _ => unreachable!("a guest's task"),
        }
    }

    fn begins_to_wait(&mut self) {
        if self.kernel.in_flight == 0 {
            self.kernel.hw.last_progress = self.kernel.hw.now;
        }
        self.kernel.in_flight += 1;
    }
}

impl<O: Observer> Hands for Grip<'_, '_, '_, O> {
    fn now(&self) -> u64 {
        self.kernel.hw.now
    }

    fn gp_seq(&self) -> u64 {
        self.kernel.rcu.gp_seq()
    }

    fn read_lock(&mut self) {
        let reader = self.reader();
        self.kernel.lock_reader(reader);
    }

    fn read_unlock(&mut self, disabled: bool) {
        let (reader, cpu) = (self.reader(), self.cpu);
        self.cost += self.kernel.unlock_reader(reader, cpu, disabled);
    }

    fn resched(&mut self) {
        self.kernel.hw.cpus[self.cpu as usize].need_resched = true;
    }

    fn cond_resched(&mut self) {
        let cpu = self.cpu;
        self.step(|kernel| {
            let ctx = kernel.ctx(cpu, false);
            kernel.rcu.cond_resched(ctx, &mut kernel.hw);
        });
        self.kernel.see(Sight::ReschedPoint { cpu });
    }

    fn synchronize(&mut self) {
        self.begins_to_wait();
        let (waiter, cpu) = (self.waiter(), self.cpu);
        self.step(|kernel| {
            let rcu = kernel.rcu;
            let mut call = rcu.sync_begin(waiter, &mut kernel.hw);
            let direct = call.route() == Route::Direct;
            kernel.hw.counters.direct_wakes += u64::from(direct);
            // The other route queues a callback, which has a number like any other.
            kernel.hw.counters.callbacks_queued += u64::from(!direct);
            kernel.hw.next_callback += u64::from(!direct);
            let ctx = kernel.ctx(cpu, false);
            while !rcu.sync_step(&mut call, ctx, &mut kernel.hw) {}
        });
        self.cost += self.kernel.hw.machine.sync_entry_ns;
    }

    fn synchronize_expedited(&mut self) {
        self.begins_to_wait();
        let id = self.id();
        self.kernel
            .expedited_begin(id, Waiter::new(u64::from(id) | JUST_WAKE));
        self.cost += self.kernel.hw.machine.sync_entry_ns;
    }

    fn barrier(&mut self) {
        self.begins_to_wait();
        let waiter = self.waiter();
        self.step(|kernel| {
            let rcu = kernel.rcu;
            rcu.barrier(waiter, &mut kernel.hw);
        });
        self.cost += self.kernel.hw.machine.sync_entry_ns;
    }

    fn take_released(&mut self) -> bool {
        let id = self.id();
        let Program::Guest { released, .. } = &mut self.kernel.hw.tasks[id as usize].program else {
            unreachable!("a guest's task")
        };
        let came = std::mem::take(released);
        if came {
            self.kernel.in_flight -= 1;
            self.kernel.hw.last_progress = self.kernel.hw.now;
            // It may have come before the task could go to sleep.
            self.kernel.hw.tasks[id as usize].wake_pending = false;
        }
        came
    }

    fn get_state(&self) -> u64 {
        self.kernel.rcu.get_state()
    }

    fn start_poll(&mut self) -> u64 {
        let cpu = self.cpu;
        self.step(|kernel| {
            let ctx = kernel.ctx(cpu, false);
            kernel.rcu.start_poll(ctx, &mut kernel.hw)
        })
    }

    fn poll_state(&self, cookie: u64) -> bool {
        self.kernel.rcu.poll_state(cookie)
    }

    fn get_state_full(&self) -> FullCookie {
        self.kernel.rcu.get_state_full()
    }

    fn start_poll_full(&mut self) -> FullCookie {
        let cpu = self.cpu;
        self.step(|kernel| {
            let ctx = kernel.ctx(cpu, false);
            kernel.rcu.start_poll_full(ctx, &mut kernel.hw)
        })
    }

    fn poll_state_full(&self, cookie: FullCookie) -> bool {
        self.kernel.rcu.poll_state_full(cookie)
    }

    fn call(&mut self) -> u64 {
        let (cpu, in_irq) = (self.cpu, self.in_irq);
        self.step(|kernel| {
            let ctx = kernel.ctx(cpu, in_irq);
            let id = kernel.hw.next_callback;
            kernel.queue_user_callback(ctx, UserCb::of_guest(id));
            id
        })
    }

    fn online(&self) -> Vec<bool> {
        self.kernel.hw.cpus.iter().map(|cpu| cpu.online).collect()
    }

    fn take_down(&mut self, cpu: u32) -> bool {
        let id = self.id();
        let kernel = &mut *self.kernel;
        let others = kernel.hw.cpus.iter().filter(|c| c.online && !c.dying).count() > 1;
        if kernel.hotplug_task.is_some() || !others {
            return false;
        }
        kernel.hotplug_task = Some(id);
        kernel.hw.counters.cpus_offlined += 1;
        kernel.take_down(cpu);
        true
    }

    fn take_over(&mut self, dead: u32) {
        let id = self.id();
        self.kernel.hw.tasks[id as usize].wake_pending = false;
        self.kernel.hotplug_task = None;
        self.kernel.take_over(self.cpu, dead);
    }

    fn bring_up(&mut self, cpu: u32) {
        self.kernel.bring_up(cpu);
    }

    fn stalls(&self) -> u64 {
        self.kernel.hw.counters.stalls
    }
}

impl<O: Observer> Kernel<'_, '_, O> {
    /// Creates a guest task, with read-side state of its own; it begins at `at`.
    fn add_guest(&mut self, index: u32, cpu: u32, at: u64) {
        let id = self.hw.tasks.len() as u64;
        let state = self.rcu.is_preemptible().then(|| Box::new(Reader::new(id)));
        self.hw.readers.push(state);
        let program = Program::Guest {
            index,
            reader: self.hw.readers.len() as u32 - 1,
            released: false,
        };
        let id = self.add_task(program, cpu, SchedClass::Other, false);
        self.live += 1;
        self.sleep_until(id, cpu, at);
    }

    /// An expedited call of a guest task is over.
    pub(super) fn guest_returns(&mut self, id: TaskId, cpu: u32) -> Next {
        let Program::Guest { index, released, .. } = &mut self.hw.tasks[id as usize].program else {
            unreachable!("a guest's task")
        };
        *released = true;
        let index = *index;
        self.next_of_guest(id, index, cpu)
    }

    pub(super) fn next_of_guest(&mut self, id: TaskId, index: u32, cpu: u32) -> Next {
        if self.expedited.contains_key(&id) {
            return self.next_of_expedited(id, cpu);
        }
        let guest = self.guest.take().expect("guest tasks have a guest");
        let mut grip = Grip {
            kernel: self,
            cpu,
            task: Some(id),
            in_irq: false,
            cost: 0,
        };
        let step = guest.next(index, &mut grip);
        let cost = grip.cost;
        self.guest = Some(guest);
        match step {
            Step::Run(ns) => Next::Burst((ns + cost).max(1), RunMode::Kernel),
            Step::RunDisabled(ns) => Next::Burst((ns + cost).max(1), RunMode::Section),
            Step::Sleep(ns) => {
                self.sleep_until(id, cpu, self.hw.now + (ns + cost).max(1));
                Next::Block
            }
            // What it did before it waits takes its time; then it is asked again.
            Step::Wait if cost > 0 => Next::Burst(cost, RunMode::Kernel),
            Step::Wait => Next::Block,
            Step::Exit => {
                self.live -= 1;
                Next::Block
            }
        }
    }

    /// A callback of the guest is invoked.
    pub(super) fn guest_callback(&mut self, id: u64, cpu: u32, in_irq: bool) {
        let guest = self.guest.take().expect("a guest's callback has a guest");
        let mut grip = Grip {
            kernel: self,
            cpu,
            task: None,
            in_irq,
            cost: 0,
        };
        guest.callback(id, &mut grip);
        self.guest = Some(guest);
    }
}

/// What a guest's run leaves besides what the guest itself knows.
#[derive(Debug)]
pub(crate) struct GuestRun {
    /// Virtual time covered.
    pub virtual_ns: u64,
    /// Cut short by a cancel request.
    pub interrupted: bool,
    /// Nothing got on any more, and why.
    pub stuck: Option<Error>,
}

/// Events between two looks at the cancel flag and the guest's clock.
const LOOK_INTERVAL: u64 = 256;
/// A wait without progress for so many stall timeouts is given up.
const STALL_TIMEOUTS: u64 = 2;

/// Runs guest tasks on a machine of their own: each begins at its time, on its CPU. The run ends when all
/// have exited, when the guest says so, or when nothing gets on any more.
pub(crate) fn run_guest(
    config: &Config,
    machine: &Machine,
    tasks: &[(u32, u64)],
    seed: u64,
    guest: &mut dyn Guest,
    control: &Control,
) -> Result<GuestRun> {
    let tun = config.tunables();
    machine.validate(tun.maxcpus)?;
    let rcu: Rcu<UserCb> = Rcu::new(tun)?;
    let mut nobody = NoObserver;
    let mut kernel = Kernel::new(&rcu, &[], tun, machine, Keep::Histogram, seed, &mut nobody);
    kernel.guest = Some(guest);
    for (index, &(cpu, at)) in tasks.iter().enumerate() {
        kernel.add_guest(index as u32, cpu, at);
    }
    let stall_ns = STALL_TIMEOUTS * u64::from(tun.rcu_cpu_stall_timeout) * 1_000_000_000;
    let (mut events, mut interrupted, mut stuck) = (0u64, false, None);
    while kernel.live > 0 {
        if events.is_multiple_of(LOOK_INTERVAL) {
            if control.cancel.load(Relaxed) {
                interrupted = true;
                break;
            }
            let (now, gp_seq, stalls) = (kernel.hw.now, rcu.gp_seq(), kernel.hw.counters.stalls);
            if !kernel
                .guest
                .as_mut()
                .is_some_and(|guest| guest.look(now, gp_seq, stalls))
            {
                break;
            }
        }
        if !kernel.dispatch() {
            stuck = Some(Error::Engine(format!(
                "nothing is left to happen at {} ns with {} tasks unfinished",
                kernel.hw.now, kernel.live
            )));
            break;
        }
        events += 1;
        if kernel.in_flight > 0 && kernel.hw.now - kernel.hw.last_progress > stall_ns {
            stuck = Some(Error::Stall {
                is_virtual: true,
                gp_seq: rcu.gp_seq() as i64,
                waited_s: (kernel.hw.now - kernel.hw.last_progress) / 1_000_000_000,
                cpus: rcu.holdouts(),
            });
            break;
        }
    }
    Ok(GuestRun {
        virtual_ns: kernel.hw.now,
        interrupted,
        stuck,
    })
}
