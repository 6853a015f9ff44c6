//! The simulated machine as a whole: its state, its answers to the engine, its event loop.

use super::calendar::{Calendar, Class};
use super::cpu::{Cpu, Irq, RCU_SOFTIRQ, UserCb};
use super::guest::{Guest, JUST_WAKE};
use super::machine::{Machine, TimerMigration};
use super::observe::{Observer, Sight};
use super::program::{ExpeditedCaller, NocbState, SrcuCall, SrcuCaller, Sweep};
use super::random::{Purpose, Stream};
use super::sched::IdleMask;
use super::srcu::DomainState;
use super::task::{Program, RunMode, SchedClass, SyncCaller, Task, TaskId, TaskState, TimerId};
use super::timer::Hierarchy;
use super::workqueue::Workqueue;
use crate::config::Tunables;
use crate::srcu::Srcu;
use crate::stats::{Counters, GracePeriods, Keep, Recorder, Stall};
use crate::trace::{Context, Event as TraceEvent, Record, Trace};
use crate::tree::waiters::Waiter;
use crate::tree::watching::WatchSnap;
use crate::tree::world::{Ctx, Current, Fence, GpRecord, Ipi, Kthread, TickHit, Work, WorkItem, World};
use crate::tree::{FullCookie, GpKthread, GpWait, Rcu, Reader, StallReport, SyncCall, seq};
use crate::workload::Part;
use std::collections::HashMap;
use std::rc::Rc;

/// Stall reports that a run keeps; the counter goes on.
const MAX_STALLS: usize = 1_000;

/// Calendar entries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The CPU's current phase is over.
    Phase { cpu: u32 },
    /// A programmed tick or clock event.
    Tick { cpu: u32, generation: u32 },
    /// An interrupt reaches a CPU.
    Irq { cpu: u32, irq: Irq },
    /// A task is woken by something that ran on CPU `from`.
    Wake { task: TaskId, from: u32 },
    /// The next callers of the workload begin.
    Start,
    /// A `synchronize_rcu()` caller is released.
    Complete { task: TaskId, from: u32, gp: u32 },
}

/// Hardware and scheduler: everything but the engine, which asks it through [`World`].
pub(super) struct Hw<'r> {
    /// Time of the event being dispatched, ns.
    pub now: u64,
    /// CPU time spent since, in the step being carried out.
    pub spent: u64,
    /// CPU that carries it out.
    pub at_cpu: u32,
    pub tick_ns: u64,
    pub tun: Tunables,
    pub machine: Machine,
    /// Idle CPUs' timers are expired by active ones.
    pub pull: bool,
    pub calendar: Calendar<Event>,
    /// Entries in it.
    pub pending_events: u64,
    pub cpus: Vec<Cpu<'r>>,
    pub tasks: Vec<Task>,
    /// Read-side state of the tasks that have sections (none on kernels without preemption).
    pub readers: Vec<Option<Box<Reader>>>,
    /// State of the `synchronize_rcu()` callers among them.
    pub callers: Vec<SyncCaller>,
    pub idle_mask: IdleMask,
    pub hierarchy: Hierarchy,
    /// First timers of idle CPUs, for others to expire: (jiffy, CPU).
    pub hung: Vec<(u64, u32)>,
    pub gp_task: TaskId,
    pub worker_task: TaskId,
    pub work_queued: bool,
    pub counters: Counters,
    pub recorder: Recorder,
    pub sample_stream: Stream,
    pub grace_periods: GracePeriods,
    pub stalls: Vec<Stall>,
    /// Calls that the grace period in progress has already released.
    pub requests_ahead: i64,
    /// Time of the last sign of progress of a waiting call, ns.
    pub last_progress: u64,
    pub next_callback: u64,
    /// Trace events, when they are wanted.
    pub trace: Option<Trace>,
    pub workqueue: Workqueue<'r>,
    /// The kthreads of offloaded CPUs.
    pub nocb: Option<Box<NocbState<'r>>>,
}

impl Hw<'_> {
    /// Where the read-side state of a task is, if it has sections.
    fn reader_of(&self, task: TaskId) -> Option<usize> {
        match &self.tasks[task as usize].program {
            Program::Reader(task) => Some(task.reader as usize),
            Program::Guest { reader, .. } => Some(*reader as usize),
            _ => None,
        }
    }

    /// Callbacks queued and not yet invoked.
    pub(super) fn pending_callbacks(&self) -> u64 {
        self.counters
            .callbacks_queued
            .saturating_sub(self.counters.callbacks_invoked)
    }

    /// Adds a blocked task.
    pub(super) fn add_task(&mut self, program: Program, cpu: u32, class: SchedClass, pinned: bool) -> TaskId {
        self.tasks.push(Task {
            program,
            state: TaskState::Blocked,
            class,
            pinned,
            cpu,
            slice_used: 0,
            burst: 0,
            mode: RunMode::Kernel,
            wake_pending: false,
        });
        self.tasks.len() as TaskId - 1
    }

    pub(super) fn after_now(&self, delay: u64) -> u64 {
        self.now + self.spent + delay
    }

    pub(super) fn push(&mut self, at: u64, event: Event) {
        let class = if matches!(event, Event::Tick { .. }) {
            Class::Tick
        } else {
            Class::Other
        };
        self.pending_events += 1;
        self.calendar.push(at, class, event);
    }

    pub(super) fn interrupt(&mut self, cpu: u32, irq: Irq) {
        self.counters.ipis += 1;
        self.push(self.after_now(self.machine.ipi_ns), Event::Irq { cpu, irq });
    }

    pub(super) fn wake_soon(&mut self, task: TaskId) {
        self.spent += self.machine.wake_ns;
        self.push(
            self.after_now(0),
            Event::Wake {
                task,
                from: self.at_cpu,
            },
        );
    }
}

impl World for Hw<'_> {
    fn now(&self) -> u64 {
        self.now + self.spent
    }

    fn jiffies(&self) -> u64 {
        (self.now + self.spent) / self.tick_ns
    }

    fn heavy_fence(&mut self, _why: Fence) {
        // One thread runs the whole machine, so everything is ordered; the time is in `Work::GpStart`.
    }

    fn watching(&self, cpu: u32) -> WatchSnap {
        self.cpus[cpu as usize].ct.snap()
    }

    fn wake(&mut self, kthread: Kthread) {
        match kthread {
            Kthread::Gp => self.wake_soon(self.gp_task),
            Kthread::NocbGp(group) => {
                let task = self.nocb.as_ref().map(|nocb| nocb.rcuog(group));
                task.into_iter().for_each(|task| self.wake_soon(task));
            }
            Kthread::NocbCb(cpu) => {
                let task = self.nocb.as_ref().map(|nocb| nocb.rcuop(cpu));
                task.into_iter().for_each(|task| self.wake_soon(task));
            }
        }
    }

    fn raise_core(&mut self, cpu: u32) {
        // Only ever asked for from an interrupt or softirq on that CPU, which looks before it returns.
        debug_assert_eq!(cpu, self.at_cpu);
        self.cpus[cpu as usize].softirq |= RCU_SOFTIRQ;
    }

    fn resched(&mut self, cpu: u32) {
        self.cpus[cpu as usize].need_resched = true;
        if cpu != self.at_cpu {
            self.interrupt(cpu, Irq::Resched);
        }
    }

    fn send_ipi(&mut self, cpu: u32, ipi: Ipi) {
        let irq = match ipi {
            Ipi::Barrier => Irq::Barrier,
            Ipi::Exp => Irq::Exp,
        };
        self.interrupt(cpu, irq);
    }

    fn set_nocb_timer(&mut self, group: u32, jiffies: u64) {
        self.cancel_nocb_timer(group);
        let cpu = self.at_cpu;
        self.arm_timer(cpu, TimerId::Nocb(group), jiffies);
        if let Some(nocb) = &mut self.nocb {
            nocb.armed_on(group, cpu);
        }
    }

    fn cancel_nocb_timer(&mut self, group: u32) {
        if let Some(cpu) = self.nocb.as_mut().and_then(|nocb| nocb.take_armed(group)) {
            self.cancel_timer(cpu, TimerId::Nocb(group));
        }
    }

    fn momentary_eqs(&mut self, cpu: u32) {
        self.cpus[cpu as usize].ct.momentary_eqs();
    }

    fn complete(&mut self, waiter: Waiter, gp_seq: u64) {
        self.spent += self.machine.wake_ns;
        let task = waiter.token() as TaskId;
        if waiter.token() & JUST_WAKE != 0 {
            let from = self.at_cpu;
            return self.push(self.after_now(0), Event::Wake { task, from });
        }
        let gp = gp_index(gp_seq);
        self.push(
            self.after_now(0),
            Event::Complete {
                task,
                from: self.at_cpu,
                gp,
            },
        );
    }

    fn queue_work(&mut self, item: WorkItem) -> bool {
        let WorkItem::SrsCleanup = item;
        if std::mem::replace(&mut self.work_queued, true) {
            return false;
        }
        self.wake_soon(self.worker_task);
        true
    }

    fn spend(&mut self, work: Work) {
        let m = &self.machine;
        self.spent += match work {
            Work::GpStart => m.gp_fixed_ns,
            Work::HotplugLeaf | Work::InitNode | Work::CleanupNode | Work::EarlyReport => m.node_ns,
            Work::ScanCpus(cpus) => m.node_ns + u64::from(cpus) * m.scan_cpu_ns,
            Work::CallRcu => m.call_rcu_ns,
            Work::ExpStart => m.gp_fixed_ns,
            Work::ExpReset(nodes) => u64::from(nodes) * m.node_ns,
            Work::ExpSelect(cpus) => m.node_ns + u64::from(cpus) * m.scan_cpu_ns,
            Work::ExpEnd => m.node_ns,
        };
    }

    fn tracing(&self) -> bool {
        self.trace.is_some()
    }

    fn trace(&mut self, event: TraceEvent) {
        let c = &self.cpus[self.at_cpu as usize];
        let context = match (c.phase, c.irq_section.is_some()) {
            (_, false) => Context::Task,
            (_, true) if c.soft.is_some() => Context::SoftIrq,
            (_, true) => Context::HardIrq,
        };
        // The kthread has the flavour's name.
        let flavour = self.trace.as_ref().map_or("rcu", |trace| trace.flavour);
        let (comm, pid) = match c.curr {
            None => ("<idle>", 0),
            // Process ids start above those of early kernel threads.
            Some(id) if id == self.gp_task => (flavour, id + 100),
            Some(id) => (self.tasks[id as usize].program.comm(), id + 100),
        };
        let record = Record {
            at_ns: self.now + self.spent,
            cpu: self.at_cpu,
            comm,
            pid,
            context,
            event,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(record);
        }
    }

    fn stall(&mut self, report: &StallReport) {
        self.counters.stalls += 1;
        if self.stalls.len() < MAX_STALLS {
            self.stalls.push(Stall {
                at_ns: self.now(),
                report: report.clone(),
            });
        }
    }

    fn grace_period_ended(&mut self, record: &GpRecord) {
        self.counters.grace_periods += 1;
        self.counters.fqs_scans += u64::from(record.scans);
        self.counters.fqs_cpus_scanned += record.cpus_scanned;
        let requests = std::mem::take(&mut self.requests_ahead);
        record.append_to(&mut self.grace_periods, requests);
    }
}

/// The machine and the engine under one observer.
pub(super) struct Kernel<'r, 'o, O: Observer> {
    pub rcu: &'r Rcu<UserCb>,
    /// Domains of SRCU, and what the machine keeps of each.
    pub srcu: &'r [Srcu<u64>],
    pub domains: Vec<DomainState>,
    pub srcu_callers: Vec<SrcuCaller>,
    /// `call_srcu()` callbacks that are queued.
    pub srcu_calls: HashMap<u64, SrcuCall>,
    pub next_srcu_call: u64,
    pub hw: Hw<'r>,
    /// The workload. Shared, so that a task's program can look at its part while it changes the rest.
    pub parts: Rc<[Part]>,
    pub gp: GpKthread,
    /// What the kthread asked for with its last step.
    pub gp_wait: GpWait,
    /// The kthread is in the sleep it asked for.
    pub gp_asleep: bool,
    pub gp_timed_out: bool,
    /// CPU on whose wheel the kthread's timeout was armed.
    pub gp_timer_cpu: u32,
    /// The task that is taking a CPU down, until it has taken over what that one left.
    pub hotplug_task: Option<TaskId>,
    /// Tasks that take CPUs offline between their calls.
    pub sweeps: HashMap<TaskId, Sweep>,
    /// Bounded tasks that are not done yet; the run ends with the last one.
    pub live: u64,
    /// Callers that have not begun, last to begin first. One calendar entry stands for all of them.
    pub starts: Vec<TaskId>,
    /// Calls that are being entered step by step.
    pub entering: HashMap<TaskId, SyncCall>,
    /// Expedited calls in flight.
    pub expedited: HashMap<TaskId, ExpeditedCaller>,
    /// Cookies of pollers with full ones.
    pub full_cookies: HashMap<TaskId, FullCookie>,
    /// `synchronize_rcu()` calls in flight.
    pub in_flight: u64,
    pub calls_done: u64,
    pub next_section: u64,
    pub observer: &'o mut O,
    /// Who programs the guest tasks, if there are any.
    pub guest: Option<&'o mut dyn Guest>,
}

impl<'r, 'o, O: Observer> Kernel<'r, 'o, O> {
    /// A machine at rest: all CPUs idle without a tick, the kthread waiting for a request.
    pub(super) fn new(
        rcu: &'r Rcu<UserCb>,
        srcu: &'r [Srcu<u64>],
        tun: &Tunables,
        machine: &Machine,
        keep: Keep,
        seed: u64,
        observer: &'o mut O,
    ) -> Self {
        let online = tun.maxcpus;
        let pull = match machine.timer_migration {
            TimerMigration::Era => tun.kernel.pulls_timers(),
            TimerMigration::Pull => true,
            TimerMigration::Local => false,
        };
        let gp_cpu = match machine.gp_kthread_cpu {
            -1 => Stream::new(seed, Purpose::Kthread, 0).below(u64::from(online)) as u32,
            cpu => cpu as u32,
        };
        let mut cpus: Vec<Cpu<'r>> = (0..tun.nr_cpus).map(|_| Cpu::new()).collect();
        for (id, cpu) in cpus.iter_mut().enumerate() {
            cpu.online = (id as u32) < online;
            cpu.ct.idle_enter();
            if machine.noise > 0.0 {
                cpu.noise = Some(Stream::new(seed, Purpose::Noise, id as u64));
            }
            if machine.governor_keeps_tick > 0.0 {
                cpu.governor = Some(Stream::new(seed, Purpose::Governor, id as u64));
            }
        }
        let hw = Hw {
            now: 0,
            spent: 0,
            at_cpu: gp_cpu,
            tick_ns: 1_000_000_000 / u64::from(tun.hz),
            tun: tun.clone(),
            machine: machine.clone(),
            pull,
            calendar: Calendar::new(),
            pending_events: 0,
            cpus,
            tasks: Vec::new(),
            readers: Vec::new(),
            callers: Vec::new(),
            idle_mask: IdleMask::all_idle(online, machine.cpus_per_llc),
            hierarchy: Hierarchy::new(tun.nr_cpus),
            hung: Vec::new(),
            gp_task: 0,
            worker_task: 0,
            work_queued: false,
            counters: Counters::default(),
            recorder: Recorder::new(keep),
            sample_stream: Stream::new(seed, Purpose::Sample, 0),
            grace_periods: GracePeriods::default(),
            stalls: Vec::new(),
            requests_ahead: 0,
            last_progress: 0,
            next_callback: 0,
            trace: None,
            workqueue: Workqueue::default(),
            nocb: None,
        };
        let mut kernel = Kernel {
            rcu,
            srcu,
            domains: Vec::new(),
            srcu_callers: Vec::new(),
            srcu_calls: HashMap::new(),
            next_srcu_call: 0,
            hw,
            parts: Rc::from([]),
            gp: GpKthread::default(),
            gp_wait: GpWait::Yield,
            gp_asleep: false,
            gp_timed_out: false,
            gp_timer_cpu: gp_cpu,
            hotplug_task: None,
            sweeps: HashMap::new(),
            live: 0,
            starts: Vec::new(),
            entering: HashMap::new(),
            expedited: HashMap::new(),
            full_cookies: HashMap::new(),
            in_flight: 0,
            calls_done: 0,
            next_section: 0,
            observer,
            guest: None,
        };
        let gp_class = if tun.kthread_prio > 0 {
            SchedClass::Fifo
        } else {
            SchedClass::Other
        };
        kernel.hw.gp_task = kernel.add_task(Program::GpKthread, gp_cpu, gp_class, false);
        kernel.hw.worker_task = kernel.add_task(Program::Worker, gp_cpu, SchedClass::Other, false);
        kernel.boot_kthread(gp_cpu);
        kernel.boot_nocb();
        for cpu in 0..online {
            kernel.schedule_noise(cpu);
        }
        if tun.periodic_ticks {
            for cpu in 0..online {
                kernel.leave_idle(cpu);
            }
        }
        kernel
    }

    /// Adds a blocked task.
    pub(super) fn add_task(&mut self, program: Program, cpu: u32, class: SchedClass, pinned: bool) -> TaskId {
        self.hw.add_task(program, cpu, class, pinned)
    }

    /// Begins a step on `cpu`: from here on the engine's costs add up.
    pub(super) fn begin_step(&mut self, cpu: u32) {
        self.hw.spent = 0;
        self.hw.at_cpu = cpu;
    }

    /// Ends the step and gives its cost.
    pub(super) fn end_step(&mut self) -> u64 {
        std::mem::take(&mut self.hw.spent)
    }

    /// Shows the observer something.
    #[inline]
    pub(super) fn see(&mut self, sight: Sight) {
        if O::ACTIVE {
            let rcu = self.rcu;
            self.observer.see(self.hw.now, sight, &|| rcu.snapshot());
        }
    }

    /// Who runs on that CPU.
    pub(super) fn current(&self, cpu: u32) -> Current {
        match self.hw.cpus[cpu as usize].curr {
            None => Current::Idle,
            Some(task) if task == self.hw.gp_task => Current::GpKthread,
            Some(_) => Current::Task,
        }
    }

    pub(super) fn ctx(&self, cpu: u32, in_irq: bool) -> Ctx {
        Ctx {
            cpu,
            in_irq,
            current: self.current(cpu),
        }
    }

    /// Takes the read-side state of a task out, for the time of a call into the engine.
    pub(super) fn take_reader(&mut self, task: Option<TaskId>) -> Option<Box<Reader>> {
        let index = self.hw.reader_of(task?)?;
        self.hw.readers[index].take()
    }

    pub(super) fn put_reader(&mut self, task: Option<TaskId>, reader: Option<Box<Reader>>) {
        if let Some(index) = task.and_then(|task| self.hw.reader_of(task)) {
            self.hw.readers[index] = reader;
        }
    }

    /// What an interrupt on that CPU interrupts.
    pub(super) fn interrupted(&self, cpu: u32) -> TickHit {
        let c = &self.hw.cpus[cpu as usize];
        match (c.soft.is_some(), c.curr) {
            (true, _) => TickHit::KernelSection,
            (false, None) => TickHit::Idle,
            (false, Some(task)) => match self.hw.tasks[task as usize].mode {
                RunMode::User => TickHit::User,
                RunMode::Kernel => TickHit::Kernel,
                RunMode::Section => TickHit::KernelSection,
            },
        }
    }

    /// Dispatches one calendar entry. False: the calendar is empty.
    pub(super) fn dispatch(&mut self) -> bool {
        let Some((at, event)) = self.hw.calendar.pop() else {
            return false;
        };
        self.hw.pending_events -= 1;
        debug_assert!(at >= self.hw.now, "time goes forward");
        self.hw.now = at;
        self.hw.spent = 0;
        match event {
            Event::Phase { cpu } => self.phase_entry(cpu),
            Event::Tick { cpu, generation } => {
                let c = &mut self.hw.cpus[cpu as usize];
                if c.gen_tick == generation {
                    c.programmed = None;
                    self.irq_arrives(cpu, Irq::Tick);
                }
            }
            Event::Irq { cpu, irq } => self.irq_arrives(cpu, irq),
            Event::Start => self.start_callers(),
            Event::Wake { task, from } => self.wake_task(task, from),
            Event::Complete { task, from, gp } => self.release(task, from, gp),
        }
        true
    }
}

/// Grace periods counted from 1 at boot, from a number while it runs: short enough for a calendar
/// entry and for a caller. (Polling can be satisfied by 0, the state at boot.)
pub(super) fn gp_index(gp_seq: u64) -> u32 {
    (gp_seq.wrapping_sub(seq::SEQ_BOOT) >> seq::SEQ_SHIFT) as u32 + 1
}

/// The number, while it runs, of the grace period with this index.
pub(super) fn gp_number(index: u32) -> u64 {
    seq::start(seq::SEQ_BOOT.wrapping_add(u64::from(index - 1) << seq::SEQ_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_entries_are_small() {
        assert!(size_of::<Event>() <= 16, "{}", size_of::<Event>());
        for index in [1, 2, 299, 300, 301, 1_000_000] {
            assert_eq!(gp_index(gp_number(index)), index);
        }
    }
}
