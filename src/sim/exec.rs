//! How a CPU spends its time: interrupts, softirqs, context switches, bursts of tasks.
//!
//! A CPU is in one phase at a time. What a phase does to the engine and to other CPUs happens at its
//! start, each effect dated by the cost so far; then the phase lasts for its cost.

use super::cpu::UserCb;
use super::cpu::{Irq, Phase, RCU_SOFTIRQ, SoftPass, TIMER_SOFTIRQ};
use super::kernel::{Event, Kernel};
use super::observe::{Observer, Sight};
use super::task::{Next, Program, RunMode, SchedClass, TaskId, TaskState};
use crate::tree::Cb;
use crate::tree::seq;
use crate::tree::world::Ctx;
use crate::tree::world::World;

/// Callbacks invoked between two looks at pending interrupts.
const CALLBACKS_PER_PHASE: u32 = 32;
/// Ordinary tasks that a SCHED_FIFO one keeps off a CPU get this much of every period there (the
/// kernel's default: 50 ms of each second).
pub(super) const FAIR_RUNTIME_NS: u64 = 50_000_000;
pub(super) const FAIR_PERIOD_NS: u64 = 1_000_000_000;
/// Softirq passes in a row before ksoftirqd takes over.
const MAX_SOFTIRQ_PASSES: u32 = 10;

impl<O: Observer> Kernel<'_, '_, O> {
    /// Enters a phase that lasts `ns` (`u64::MAX`: until something else happens).
    fn set_phase(&mut self, cpu: u32, phase: Phase, ns: u64) {
        let now = self.hw.now;
        let c = &mut self.hw.cpus[cpu as usize];
        c.phase = phase;
        c.phase_from = now;
        c.phase_until = now.saturating_add(ns);
        self.queue_phase_end(cpu);
    }

    /// Has the calendar hold an entry at or before the end of the CPU's phase.
    fn queue_phase_end(&mut self, cpu: u32) {
        let c = &mut self.hw.cpus[cpu as usize];
        let at = c.phase_until;
        let covered = |entry: Option<u64>| entry.is_some_and(|queued| queued <= at);
        if at == u64::MAX || covered(c.near_entry) || covered(c.far_entry) {
            return;
        }
        // A burst is interrupted: its own entry stays behind the interrupt's.
        c.far_entry = c.far_entry.or(c.near_entry);
        c.near_entry = Some(at);
        self.hw.push(at, Event::Phase { cpu });
    }

    /// An entry made for the end of some phase of this CPU has come.
    pub(super) fn phase_entry(&mut self, cpu: u32) {
        let now = self.hw.now;
        let c = &mut self.hw.cpus[cpu as usize];
        if c.near_entry == Some(now) {
            c.near_entry = None;
        } else if c.far_entry == Some(now) {
            c.far_entry = None;
        }
        if c.phase != Phase::Idle && c.phase_until == now {
            self.phase_over(cpu);
        } else {
            self.queue_phase_end(cpu);
        }
    }

    pub(super) fn phase_over(&mut self, cpu: u32) {
        match self.hw.cpus[cpu as usize].phase {
            Phase::Idle => unreachable!("an idle CPU's phase has no end"),
            Phase::Waking(irq) => self.start_hard(cpu, irq),
            Phase::Hard | Phase::Soft => self.irq_tail(cpu),
            Phase::Switch(_) => self.switch_over(cpu),
            Phase::Run => {
                self.pause_burst(cpu);
                self.go_on(cpu);
            }
        }
    }

    /// An interrupt reaches the CPU.
    pub(super) fn irq_arrives(&mut self, cpu: u32, irq: Irq) {
        if !self.hw.cpus[cpu as usize].online {
            return self.irq_at_offline_cpu(cpu, irq);
        }
        let c = &mut self.hw.cpus[cpu as usize];
        if !c.takes_irqs() {
            c.pending.push_back(irq);
        } else if c.phase == Phase::Idle {
            self.set_phase(cpu, Phase::Waking(irq), self.hw.machine.idle_exit_ns);
        } else {
            self.pause_burst(cpu);
            self.start_hard(cpu, irq);
        }
    }

    fn start_hard(&mut self, cpu: u32, irq: Irq) {
        self.open_irq_section(cpu);
        self.begin_step(cpu);
        match irq {
            Irq::Tick => self.handle_tick(cpu),
            Irq::Resched => self.hw.spent += self.hw.machine.ipi_handler_ns,
            Irq::Sleep(task) => {
                self.hw.spent += self.hw.machine.irq_ns;
                self.hw.wake_soon(task);
            }
            Irq::Noise => self.noise_begins(cpu),
            Irq::Barrier => {
                self.hw.spent += self.hw.machine.irq_ns;
                let rcu = self.rcu;
                rcu.barrier_ipi(cpu, &mut self.hw);
            }
            Irq::Exp => self.handle_exp_ipi(cpu),
            Irq::SrcuStart(domain) => {
                self.hw.spent += self.hw.machine.irq_ns;
                self.srcu_start(domain);
            }
            Irq::Periodic(part) => self.periodic_interrupt(cpu, part),
        }
        let cost = self.end_step();
        if irq == Irq::Tick {
            self.hw.counters.tick_cpu_ns += cost;
        }
        self.set_phase(cpu, Phase::Hard, cost);
    }

    /// The outermost interrupt makes RCU watch an idle CPU, and is a read-side section of its own.
    fn open_irq_section(&mut self, cpu: u32) {
        if self.hw.cpus[cpu as usize].irq_section.is_some() {
            return;
        }
        if self.hw.cpus[cpu as usize].ct.irq_enter() {
            self.see(Sight::EqsExit { cpu });
        }
        let id = self.open_section(cpu);
        self.hw.cpus[cpu as usize].irq_section = Some(id);
    }

    pub(super) fn open_section(&mut self, cpu: u32) -> u64 {
        self.next_section += 1;
        let id = self.next_section;
        self.see(Sight::SectionBegin { id, cpu });
        id
    }

    /// After a hard interrupt or a softirq vector: more interrupts, more softirqs, or the way out.
    fn irq_tail(&mut self, cpu: u32) {
        let c = &mut self.hw.cpus[cpu as usize];
        if let Some(irq) = c.pending.pop_front() {
            if irq == Irq::Exp && c.soft.is_none() {
                // It waited for the end of another interrupt: with that, a read-side section is over.
                if let Some(id) = c.irq_section.take() {
                    self.see(Sight::SectionEnd { id });
                }
                let id = self.open_section(cpu);
                self.hw.cpus[cpu as usize].irq_section = Some(id);
            }
            return self.start_hard(cpu, irq);
        }
        if !self.soft_next(cpu) {
            self.irq_exit(cpu);
        }
    }

    /// Starts the next softirq vector, if one is to run here and now.
    fn soft_next(&mut self, cpu: u32) -> bool {
        let jiffies = self.hw.jiffies();
        let c = &mut self.hw.cpus[cpu as usize];
        if c.batch.is_some() && c.soft.is_some() {
            return self.run_soft_phase(cpu);
        }
        let mut pass = match c.soft {
            Some(pass) => pass,
            None if c.softirq == 0 || c.batch.is_some() => return false,
            None => SoftPass {
                vectors: std::mem::take(&mut c.softirq),
                passes: 1,
                since_jiffy: jiffies,
            },
        };
        if pass.vectors == 0 {
            if c.softirq == 0 {
                c.soft = None;
                return false;
            }
            // Raised again meanwhile: another pass while it is cheap, else a thread takes over.
            let limit = (2 * u64::from(self.hw.tun.hz) / 1000).max(1);
            let fresh = pass.passes < MAX_SOFTIRQ_PASSES && jiffies - pass.since_jiffy < limit;
            if !fresh || c.need_resched {
                c.soft = None;
                self.wake_ksoftirqd(cpu);
                return false;
            }
            pass.vectors = std::mem::take(&mut c.softirq);
            pass.passes += 1;
        }
        c.soft = Some(pass);
        self.run_soft_phase(cpu)
    }

    fn run_soft_phase(&mut self, cpu: u32) -> bool {
        self.begin_step(cpu);
        let mut pass = self.hw.cpus[cpu as usize].soft.expect("a softirq pass is on");
        pass.vectors = self.softirq_vector(cpu, pass.vectors, true);
        self.hw.cpus[cpu as usize].soft = Some(pass);
        let cost = self.end_step();
        self.hw.counters.softirq_cpu_ns += cost;
        self.set_phase(cpu, Phase::Soft, cost);
        true
    }

    /// Runs the first of these vectors (or goes on with a batch of callbacks); gives the rest.
    pub(super) fn softirq_vector(&mut self, cpu: u32, vectors: u8, in_irq: bool) -> u8 {
        if self.hw.cpus[cpu as usize].batch.is_some() {
            self.invoke_callbacks(cpu, in_irq);
            return vectors;
        }
        if vectors & TIMER_SOFTIRQ != 0 {
            self.hw.counters.timer_softirqs += 1;
            self.hw.spent += self.hw.machine.timer_softirq_ns;
            self.expire_timers(cpu);
            return vectors & !TIMER_SOFTIRQ;
        }
        self.hw.counters.rcu_softirqs += 1;
        self.hw.spent += self.hw.machine.rcu_softirq_ns;
        let ctx = self.ctx(cpu, in_irq);
        let rcu = self.rcu;
        // Deferred quiescent states of the interrupted task are reported here, unless it runs with
        // preemption disabled.
        let curr = self.hw.cpus[cpu as usize].curr;
        let open = curr.filter(|&id| self.hw.tasks[id as usize].mode != RunMode::Section);
        let mut reader = self.take_reader(open);
        self.hw.cpus[cpu as usize].batch = rcu.core(ctx, reader.as_deref_mut(), &mut self.hw);
        self.put_reader(open, reader);
        self.invoke_callbacks(cpu, in_irq);
        self.see(Sight::Core { cpu });
        vectors & !RCU_SOFTIRQ
    }

    /// Invokes callbacks of the CPU's batch, a few at a time.
    fn invoke_callbacks(&mut self, cpu: u32, in_irq: bool) {
        let Some(mut batch) = self.hw.cpus[cpu as usize].batch.take() else {
            return;
        };
        let ctx = self.ctx(cpu, in_irq);
        // The grace period that this CPU noticed last is what made these callbacks ready.
        let ended = self.rcu.cpu_gp_seq(cpu) & !seq::SEQ_MASK;
        let gp_seq = ended.wrapping_sub(seq::SEQ_GP - 1);
        for _ in 0..CALLBACKS_PER_PHASE {
            let need_resched = self.hw.cpus[cpu as usize].need_resched;
            let Some(callback) = batch.next(ctx, need_resched, &mut self.hw) else {
                batch.finish(ctx, need_resched, &mut self.hw);
                return;
            };
            self.invoke_callback(callback, ctx, cpu, gp_seq);
        }
        self.hw.cpus[cpu as usize].batch = Some(batch);
    }

    /// Invokes a callback of CPU `of`, which the grace period `gp_seq` made ready.
    pub(super) fn invoke_callback(&mut self, callback: Cb<UserCb>, ctx: Ctx, of: u32, gp_seq: u64) {
        let rcu = self.rcu;
        // A barrier's own callbacks were not counted when they were queued either.
        self.hw.counters.callbacks_invoked += u64::from(!matches!(callback, Cb::Barrier));
        self.hw.spent += self.hw.machine.cb_invoke_ns;
        match callback {
            Cb::Wake(waiter) => {
                if O::ACTIVE
                    && let Program::Sync(index) = self.hw.tasks[waiter.token() as usize].program
                {
                    let id = self.hw.callers[index as usize].ticket;
                    self.see(Sight::CallbackInvoked { cpu: of, id });
                }
                self.hw.complete(waiter, gp_seq);
            }
            Cb::User(user) => {
                self.see(Sight::CallbackInvoked {
                    cpu: of,
                    id: user.id(),
                });
                if user.is_guests() {
                    self.guest_callback(user.id(), ctx.cpu, ctx.in_irq);
                } else if let Some(reposts) = user.reposts().checked_sub(1) {
                    self.queue_callback(ctx, reposts);
                }
            }
            Cb::Barrier => rcu.barrier_callback(&mut self.hw),
        }
    }

    /// The last interrupt or softirq on this CPU is done.
    fn irq_exit(&mut self, cpu: u32) {
        if let Some(id) = self.hw.cpus[cpu as usize].irq_section.take() {
            self.see(Sight::SectionEnd { id });
        }
        if self.hw.cpus[cpu as usize].ct.irq_exit() {
            self.see(Sight::EqsEnter { cpu });
        }
        let c = &self.hw.cpus[cpu as usize];
        if c.curr.is_some() {
            self.go_on(cpu);
        } else if c.need_resched || c.has_waiting() {
            self.switch(cpu);
        } else {
            self.set_phase(cpu, Phase::Idle, u64::MAX);
            self.idle_tick(cpu);
        }
    }

    /// Books the time of the current burst up to now.
    pub(super) fn pause_burst(&mut self, cpu: u32) {
        let c = &self.hw.cpus[cpu as usize];
        debug_assert_eq!(c.phase, Phase::Run);
        let ran = self.hw.now - c.phase_from;
        let id = c.curr.expect("a task runs");
        let task = &mut self.hw.tasks[id as usize];
        if task.burst != u64::MAX {
            task.burst -= ran;
        }
        match task.program {
            Program::GpKthread => self.hw.counters.gp_kthread_cpu_ns += ran,
            Program::Noise => self.hw.counters.noise_cpu_ns += ran,
            _ => {}
        }
    }

    /// The current task goes on: with its burst, with its next step, or not at all.
    pub(super) fn go_on(&mut self, cpu: u32) {
        let preemptible = self.hw.tun.preempt.is_preemptible();
        loop {
            if let Some(irq) = self.hw.cpus[cpu as usize].pending.pop_front() {
                return self.start_hard(cpu, irq);
            }
            let c = &mut self.hw.cpus[cpu as usize];
            let id = c.curr.expect("a task runs");
            let task = &mut self.hw.tasks[id as usize];
            if c.resched_lazy && task.mode == RunMode::User {
                c.need_resched = true;
            }
            // A kernel that is not preemptible gives way in user mode or between two bursts, which is where
            // its reschedule points are; its read-side sections run as `Section`.
            let gives_way = match task.mode {
                RunMode::User => true,
                RunMode::Section => false,
                RunMode::Kernel => preemptible || task.burst == 0,
            };
            if c.need_resched && gives_way {
                return self.switch(cpu);
            }
            if task.burst > 0 {
                let ns = task.burst;
                return self.set_phase(cpu, Phase::Run, ns);
            }
            match self.next_of(id, cpu) {
                Next::Burst(ns, mode) => {
                    let task = &mut self.hw.tasks[id as usize];
                    task.burst = ns;
                    task.mode = mode;
                }
                Next::Block => {
                    let task = &mut self.hw.tasks[id as usize];
                    task.mode = RunMode::Kernel;
                    if !std::mem::take(&mut task.wake_pending) {
                        task.state = TaskState::Blocked;
                        return self.switch(cpu);
                    }
                }
            }
        }
    }

    /// A context switch: away from whatever is current, to the first in the queue or to idle.
    pub(super) fn switch(&mut self, cpu: u32) {
        let prev = self.hw.cpus[cpu as usize].curr;
        let from_idle = prev.is_none();
        if from_idle && self.hw.cpus[cpu as usize].ct.snap().in_eqs() {
            self.hw.cpus[cpu as usize].ct.idle_exit();
            self.see(Sight::EqsExit { cpu });
            self.leave_idle(cpu);
        }
        // RCU's part comes first, while the previous task is still current.
        let ctx = self.ctx(cpu, false);
        self.begin_step(cpu);
        let rcu = self.rcu;
        let mut reader = self.take_reader(prev);
        rcu.context_switch(ctx, reader.as_deref_mut(), &mut self.hw);
        self.put_reader(prev, reader);
        let rcu_cost = self.end_step();

        let next = self.pick_next(cpu, prev);
        let c = &mut self.hw.cpus[cpu as usize];
        c.curr = next;
        c.need_resched = false;
        // A lazily woken task still waits when it was the SCHED_FIFO one that came first.
        c.resched_lazy &= next == Some(self.hw.gp_task) && !c.queue.is_empty();
        self.hw.note_idle(cpu);
        self.hw.counters.context_switches += 1;
        self.see(Sight::ContextSwitch { cpu });
        let mut cost = self.hw.machine.switch_ns + rcu_cost;
        if from_idle || next.is_none() {
            cost += self.hw.machine.idle_switch_ns;
        }
        if next == Some(self.hw.gp_task) {
            self.hw.counters.gp_kthread_cpu_ns += cost;
        }
        self.set_phase(cpu, Phase::Switch(next), cost);
    }

    /// Puts the previous task back where it belongs and takes the next one off the queue.
    fn pick_next(&mut self, cpu: u32, prev: Option<TaskId>) -> Option<TaskId> {
        let used = self.slice_used(cpu);
        let slice_ns = self.hw.machine.slice_ns;
        let c = &mut self.hw.cpus[cpu as usize];
        if let Some(id) = prev {
            let task = &mut self.hw.tasks[id as usize];
            task.slice_used = 0;
            if task.state == TaskState::Running {
                task.state = TaskState::Queued;
                if task.class == SchedClass::Fifo {
                    c.fifo = Some(id);
                } else if used >= slice_ns {
                    // Its slice is used up: behind all others.
                    c.queue.push_back(id);
                } else {
                    // Preempted within its slice, of which it keeps the rest: right behind whoever
                    // preempted it, so in front when that is the SCHED_FIFO task.
                    task.slice_used = u32::try_from(used).unwrap_or(u32::MAX);
                    let place = usize::from(c.fifo.is_none()).min(c.queue.len());
                    c.queue.insert(place, id);
                }
            }
        }
        if c.dying {
            self.move_tasks_away(cpu);
        }
        let c = &mut self.hw.cpus[cpu as usize];
        let starving = !c.queue.is_empty() && self.hw.now - c.fair_from >= FAIR_PERIOD_NS - FAIR_RUNTIME_NS;
        let next = if starving {
            c.queue.pop_front()
        } else {
            c.fifo.take().or_else(|| c.queue.pop_front())
        };
        if next != Some(self.hw.gp_task) || c.queue.is_empty() {
            c.fair_from = self.hw.now;
        }
        if let Some(id) = next {
            self.hw.tasks[id as usize].state = TaskState::Running;
        }
        next
    }

    /// How much of its slice the current task has used, ns.
    pub(super) fn slice_used(&self, cpu: u32) -> u64 {
        let c = &self.hw.cpus[cpu as usize];
        let before = c
            .curr
            .map_or(0, |id| u64::from(self.hw.tasks[id as usize].slice_used));
        before + (self.hw.now - c.slice_from)
    }

    fn switch_over(&mut self, cpu: u32) {
        let now = self.hw.now;
        let c = &mut self.hw.cpus[cpu as usize];
        match c.curr {
            Some(id) => {
                c.slice_from = now;
                self.hw.tasks[id as usize].cpu = cpu;
                self.go_on(cpu);
            }
            None if c.has_waiting() => self.switch(cpu),
            None => {
                c.need_resched = false;
                if c.dying {
                    return self.die(cpu);
                }
                let ctx = self.ctx(cpu, false);
                let rcu = self.rcu;
                rcu.nocb_deferred_wakeup(ctx, &mut self.hw);
                let c = &mut self.hw.cpus[cpu as usize];
                c.ct.idle_enter();
                self.see(Sight::EqsEnter { cpu });
                self.set_phase(cpu, Phase::Idle, u64::MAX);
                self.idle_tick(cpu);
                if let Some(irq) = self.hw.cpus[cpu as usize].pending.pop_front() {
                    self.irq_arrives(cpu, irq);
                }
            }
        }
    }
}
