//! What each kind of task does next.

use super::cpu::Irq;
use super::kernel::{Event, Kernel};
use super::observe::{Observer, Sight};
use super::random::{Purpose, Stream};
use super::task::{LoadCaller, Next, Program, RunMode, SchedClass, SyncCaller, SyncPhase, TaskId, TimerId};
use crate::tree::waiters::Waiter;
use crate::tree::world::{Ctx, Current};
use crate::tree::{GpResume, GpWait, Route};
use crate::workload::{CpuLoad, Cpus, Mode, Part, Placement, SyncFlood};

const NS_PER_S: f64 = 1e9;

impl<O: Observer> Kernel<'_, '_, O> {
    /// Asks a running task what it does next.
    pub(super) fn next_of(&mut self, id: TaskId, cpu: u32) -> Next {
        match self.hw.tasks[id as usize].program {
            Program::GpKthread => self.next_of_gp_kthread(cpu),
            Program::Sync(_) => self.next_of_sync(id, cpu),
            Program::Load(_) => self.next_of_load(id, cpu),
            Program::Worker => self.next_of_worker(cpu),
            // A noise burst is set when it begins; when it is over there is nothing left.
            Program::Noise => Next::Block,
            Program::Ksoftirqd => self.next_of_ksoftirqd(cpu),
        }
    }

    // ---- the grace-period kthread

    /// The kthread starts up and goes to sleep, waiting for its first request.
    pub(super) fn boot_kthread(&mut self, cpu: u32) {
        let ctx = Ctx {
            cpu,
            in_irq: false,
            current: Current::GpKthread,
        };
        let rcu = self.rcu;
        self.gp_wait = rcu.gp_step(&mut self.gp, ctx, GpResume::Run, &mut self.hw);
        self.gp_asleep = true;
    }

    fn next_of_gp_kthread(&mut self, cpu: u32) -> Next {
        let mut resume = GpResume::Run;
        if std::mem::take(&mut self.gp_asleep) {
            // Awake again, by a wake-up or by its timer.
            let armed_on = self.gp_timer_cpu;
            self.cancel_timer(armed_on, TimerId::GpTimeout);
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
                GpWait::Timeout { jiffies, .. } => {
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

    // ---- synchronize_rcu() callers

    fn next_of_sync(&mut self, id: TaskId, cpu: u32) -> Next {
        let Program::Sync(caller) = &self.hw.tasks[id as usize].program else {
            unreachable!("asked of a sync caller")
        };
        match caller.phase {
            SyncPhase::Done => Next::Block,
            SyncPhase::Call => self.sync_call(id, cpu),
            SyncPhase::InCall if caller.released_by.is_none() => Next::Block,
            SyncPhase::InCall => self.sync_return(id),
        }
    }

    fn flood(&self, part: u32) -> &SyncFlood {
        match &self.parts[part as usize] {
            Part::SyncFlood(flood) => flood,
            Part::CpuLoad(_) => unreachable!("a sync caller belongs to a sync flood"),
        }
    }

    fn caller(&mut self, id: TaskId) -> &mut SyncCaller {
        match &mut self.hw.tasks[id as usize].program {
            Program::Sync(caller) => caller,
            _ => unreachable!("asked of a sync caller"),
        }
    }

    fn sync_call(&mut self, id: TaskId, cpu: u32) -> Next {
        let now = self.hw.now;
        let (part, first_due, made) = {
            let caller = self.caller(id);
            (caller.part, caller.first_due, caller.calls_made)
        };
        let flood = self.flood(part);
        let (bounded, until) = (flood.calls > 0, flood.duration_ns);
        let open_due = (flood.interval_ns > 0).then(|| first_due + made * flood.interval_ns);
        let due = open_due.unwrap_or(first_due);
        let out_of_time = until > 0 && now.max(due) >= until;
        if out_of_time || (bounded && self.caller(id).calls_left == 0) {
            self.caller(id).phase = SyncPhase::Done;
            self.live -= 1;
            return Next::Block;
        }
        if now < due {
            self.sleep_until(id, cpu, due);
            return Next::Block;
        }
        let direct = self.rcu.sync_route() == Route::Direct;
        let callback = self.next_callback;
        if !direct {
            self.next_callback += 1;
        }
        self.in_flight += 1;
        let caller = self.caller(id);
        caller.phase = SyncPhase::InCall;
        caller.released_by = None;
        caller.start_ns = open_due.unwrap_or(now);
        caller.start_cpu = cpu;
        caller.callback = callback;
        caller.calls_made += 1;
        caller.calls_left = caller.calls_left.saturating_sub(1);
        let waiter = caller.waiter.clone();
        self.see(Sight::SyncBegin {
            task: id,
            cpu,
            direct,
        });
        if direct {
            self.hw.counters.direct_wakes += 1;
        } else {
            self.hw.counters.callbacks_queued += 1;
            self.see(Sight::CallbackQueued { cpu, id: callback });
        }
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        rcu.synchronize(ctx, waiter, &mut self.hw);
        let cost = self.end_step() + self.hw.machine.sync_entry_ns;
        Next::Burst(cost, RunMode::Kernel)
    }

    fn sync_return(&mut self, id: TaskId) -> Next {
        let now = self.hw.now;
        self.see(Sight::SyncEnd { task: id });
        let gap = self.hw.machine.caller_gap_ns;
        let caller = self.caller(id);
        let released_by = caller.released_by.take().expect("released");
        let (part, number, start, start_cpu) =
            (caller.part, caller.number, caller.start_ns, caller.start_cpu);
        caller.phase = SyncPhase::Call;
        self.hw.tasks[id as usize].wake_pending = false;
        let (think, closed) = {
            let flood = self.flood(part);
            (flood.think_ns, flood.interval_ns == 0)
        };
        if closed {
            self.caller(id).first_due = now + think;
        }
        self.in_flight -= 1;
        self.calls_done += 1;
        self.hw.last_progress = now;
        let samples = &mut self.hw.samples;
        samples.task.push(number as i32);
        samples.cpu.push(start_cpu as i32);
        samples.start_ns.push(start as i64);
        samples.end_ns.push(now as i64);
        samples.latency_ns.push((now - start) as i64);
        samples.gp_seq.push(released_by as i64);
        Next::Burst(gap.max(1), RunMode::User)
    }

    // ---- busy CPUs

    fn next_of_load(&mut self, id: TaskId, cpu: u32) -> Next {
        let now = self.hw.now;
        let Program::Load(mut state) = self.hw.tasks[id as usize].program else {
            unreachable!("asked of a CPU load")
        };
        let Part::CpuLoad(load) = &self.parts[state.part as usize] else {
            unreachable!("a load belongs to a CPU load")
        };
        let load = load.clone();
        if std::mem::take(&mut state.in_section) {
            self.see(Sight::SectionEnd { id: state.section });
            state.section = 0;
            if load.gap_ns > 0 {
                self.hw.tasks[id as usize].program = Program::Load(state);
                return Next::Burst(load.gap_ns, RunMode::Kernel);
            }
        }
        let next = if load.duration_ns > 0 && now >= load.duration_ns {
            if !state.done {
                state.done = true;
                self.live -= 1;
            }
            Next::Block
        } else if load.run_ns > 0 && state.stretch_until > 0 && now >= state.stretch_until {
            // The stretch is over: pause, and start the next one when woken.
            state.stretch_until = 0;
            if load.pause_ns > 0 {
                self.sleep_until(id, cpu, now + load.pause_ns);
                Next::Block
            } else {
                Next::Burst(1, RunMode::Kernel)
            }
        } else {
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
                Next::Burst(load.section_ns, RunMode::Section)
            } else {
                let end = if load.duration_ns > 0 {
                    load.duration_ns
                } else {
                    u64::MAX
                };
                let until = state.stretch_until.min(end);
                let burst = if until == u64::MAX { u64::MAX } else { until - now };
                let mode = match load.mode {
                    Mode::User => RunMode::User,
                    Mode::Kernel => RunMode::Kernel,
                };
                Next::Burst(burst, mode)
            }
        };
        self.hw.tasks[id as usize].program = Program::Load(state);
        next
    }

    // ---- helpers of the kernel

    fn next_of_worker(&mut self, cpu: u32) -> Next {
        if !std::mem::take(&mut self.hw.work_queued) {
            return Next::Block;
        }
        self.begin_step(cpu);
        let rcu = self.rcu;
        rcu.work(crate::tree::world::WorkItem::SrsCleanup, &mut self.hw);
        let cost = self.end_step() + self.hw.machine.work_item_ns;
        Next::Burst(cost.max(1), RunMode::Kernel)
    }

    fn next_of_ksoftirqd(&mut self, cpu: u32) -> Next {
        let c = &mut self.hw.cpus[cpu as usize];
        if c.softirq == 0 && c.batch.is_none() {
            return Next::Block;
        }
        let vectors = if c.batch.is_some() {
            0
        } else {
            std::mem::take(&mut c.softirq)
        };
        self.begin_step(cpu);
        let left = self.softirq_vector(cpu, vectors, true);
        self.hw.cpus[cpu as usize].softirq |= left;
        let cost = self.end_step();
        self.hw.counters.softirq_cpu_ns += cost;
        // Each pass of the thread ends with a quiescent state.
        if self.hw.cpus[cpu as usize].batch.is_none() {
            self.rcu.context_switch(self.ctx(cpu, false));
            self.see(Sight::ContextSwitch { cpu });
        }
        Next::Burst(cost.max(1), RunMode::Section)
    }

    /// Has the calendar hold this CPU's next burst of background noise.
    pub(super) fn schedule_noise(&mut self, cpu: u32) {
        let rate = self.hw.machine.noise;
        if let Some(stream) = &mut self.hw.cpus[cpu as usize].noise {
            let at = self.hw.now + stream.exponential(NS_PER_S / rate);
            self.hw.push(at, Event::Irq { cpu, irq: Irq::Noise });
        }
    }

    /// A burst of noise begins: an interrupt that wakes a pinned task.
    pub(super) fn noise_begins(&mut self, cpu: u32) {
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

    // ---- setting the workload up

    /// Creates the tasks of all parts; each begins by a wake-up at its time.
    pub(super) fn start_workload(&mut self, parts: &[Part], seed: u64) {
        self.parts = parts.to_vec();
        let online = self.hw.tun.maxcpus;
        let mut number = 0;
        for (part, what) in parts.iter().enumerate() {
            match what {
                Part::SyncFlood(flood) => {
                    let mut placement = Stream::new(seed, Purpose::Placement, part as u64);
                    let mut start = Stream::new(seed, Purpose::Start, part as u64);
                    let first = placement.below(u64::from(online)) as u32;
                    for index in 0..flood.tasks {
                        let cpu = match flood.placement {
                            Placement::Spread => (u64::from(first) + index) % u64::from(online),
                            Placement::Random => placement.below(u64::from(online)),
                            Placement::Cpu(cpu) => u64::from(cpu),
                        } as u32;
                        // Tasks begin at a random phase of the tick, plus their skew.
                        let due = start.below(self.hw.tick_ns) + start.below(flood.start_skew_ns);
                        let waiter = Waiter::new(self.hw.tasks.len() as u64);
                        let id = self.add_task(
                            Program::Sync(Box::new(SyncCaller {
                                waiter,
                                phase: SyncPhase::Call,
                                number,
                                part: part as u32,
                                calls_left: flood.calls,
                                first_due: due,
                                calls_made: 0,
                                start_ns: 0,
                                start_cpu: cpu,
                                released_by: None,
                                callback: 0,
                            })),
                            cpu,
                            SchedClass::Other,
                            false,
                        );
                        number += 1;
                        self.live += 1;
                        self.sleep_until(id, cpu, due);
                    }
                }
                Part::CpuLoad(load) => {
                    let cpus: Vec<u32> = match &load.cpus {
                        Cpus::All => (0..online).collect(),
                        Cpus::List(list) => list.clone(),
                    };
                    for cpu in cpus {
                        self.start_load(load, part as u32, cpu);
                    }
                }
            }
        }
    }

    fn start_load(&mut self, load: &CpuLoad, part: u32, cpu: u32) {
        let state = LoadCaller {
            part,
            stretch_until: 0,
            in_section: false,
            section: 0,
            done: false,
        };
        let id = self.add_task(Program::Load(state), cpu, SchedClass::Other, true);
        if load.duration_ns > 0 {
            self.live += 1;
        }
        self.hw.push(0, Event::Wake { task: id, from: cpu });
    }
}
