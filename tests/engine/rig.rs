//! A world that only records, and a hand that moves the kthread and the CPUs step by step.

use treercu::config::{Config, Latch, Preempt, Tunables};
use treercu::trace::Event;
use treercu::tree::waiters::Waiter;
use treercu::tree::watching::{ContextTracking, WatchSnap};
use treercu::tree::world::{Ctx, Current, Fence, GpRecord, Ipi, Kthread, TickHit, Work, WorkItem, World};
use treercu::tree::{Batch, Callback, Cb, GpKthread, GpResume, GpWait, Rcu, Reader, Snapshot, StallReport};

/// A user's callback with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called(pub u64);

impl Callback for Called {
    fn rhp(&self) -> u64 {
        self.0
    }
    fn func(&self) -> &'static str {
        "called"
    }
}

/// The surroundings: time and contexts are set by the test, everything else is written down.
#[derive(Default)]
pub struct Fake<'a> {
    pub now: u64,
    pub jiffies: u64,
    pub contexts: Vec<ContextTracking>,
    /// Heavy fences: why, and how many events came before.
    pub fences: Vec<(Fence, usize)>,
    pub wakes: usize,
    pub cores: Vec<u32>,
    pub ipis: Vec<u32>,
    pub heavy: Vec<u32>,
    pub reschedules: Vec<u32>,
    /// Waiters completed: token, number of the grace period.
    pub done: Vec<(u64, u64)>,
    pub work_queued: bool,
    pub works: Vec<Work>,
    pub events: Vec<Event>,
    pub records: Vec<GpRecord>,
    pub stalls: Vec<StallReport>,
    /// Done once, at the next `start` event: what another CPU does at that moment, without locks.
    pub at_start: Option<Box<dyn FnOnce() + 'a>>,
}

impl World for Fake<'_> {
    fn now(&self) -> u64 {
        self.now
    }
    fn jiffies(&self) -> u64 {
        self.jiffies
    }
    fn heavy_fence(&mut self, why: Fence) {
        self.fences.push((why, self.events.len()));
    }
    fn watching(&self, cpu: u32) -> WatchSnap {
        self.contexts[cpu as usize].snap()
    }
    fn wake(&mut self, _kthread: Kthread) {
        self.wakes += 1;
    }
    fn raise_core(&mut self, cpu: u32) {
        self.cores.push(cpu);
    }
    fn send_ipi(&mut self, cpu: u32, _ipi: Ipi) {
        self.ipis.push(cpu);
    }
    fn momentary_eqs(&mut self, cpu: u32) {
        self.heavy.push(cpu);
        self.contexts[cpu as usize].momentary_eqs();
    }
    fn resched(&mut self, cpu: u32) {
        self.reschedules.push(cpu);
    }
    fn complete(&mut self, waiter: Waiter, gp_seq: u64) {
        self.done.push((waiter.token(), gp_seq));
    }
    fn queue_work(&mut self, _item: WorkItem) -> bool {
        !std::mem::replace(&mut self.work_queued, true)
    }
    fn spend(&mut self, work: Work) {
        self.works.push(work);
    }
    fn tracing(&self) -> bool {
        true
    }
    fn trace(&mut self, event: Event) {
        self.events.push(event);
        let start = matches!(event, Event::GracePeriod { what: "start", .. });
        if let Some(act) = self.at_start.take_if(|_| start) {
            act();
        }
    }
    fn stall(&mut self, report: &StallReport) {
        self.stalls.push(report.clone());
    }
    fn grace_period_ended(&mut self, record: &GpRecord) {
        self.records.push(*record);
    }
}

/// Four preemptible CPUs below one node, HZ=1000, waits of 10 jiffies, no early report, no latch.
pub fn rcu(set: impl FnOnce(&mut Tunables)) -> Rcu<Called> {
    let mut tun = Config::new().tunables().clone();
    tun.nr_cpus = 4;
    tun.hz = 1000;
    tun.preempt = Preempt::Full;
    tun.jiffies_till_first_fqs = 10;
    tun.jiffies_till_next_fqs = 10;
    tun.jiffies_to_sched_qs = 100;
    tun.rcu_cpu_stall_timeout = 21;
    tun.wake_from_gp = true;
    tun.early_qs = false;
    tun.sr_normal_latch = Latch::Off;
    tun.sr_normal_latch_threshold = 64;
    tun.exp_stall_timeout_jiffies = 21_000;
    tun.maxcpus = u32::MAX;
    set(&mut tun);
    tun.maxcpus = tun.maxcpus.min(tun.nr_cpus);
    Rcu::new(&tun).expect("a small machine")
}

/// Seven nodes: root 0 — 1, 2 — leaves 3 (CPUs 0, 1), 4 (2, 3), 5 (4, 5), 6 (6, 7).
pub fn three_levels(tun: &mut Tunables) {
    tun.nr_cpus = 8;
    tun.rcu_fanout_leaf = 2;
    tun.rcu_fanout = 2;
}

/// Some task of this CPU.
pub fn task(cpu: u32) -> Ctx {
    Ctx {
        cpu,
        in_irq: false,
        current: Current::Task,
    }
}

/// An interrupt or softirq on top of it.
pub fn irq(cpu: u32) -> Ctx {
    Ctx {
        in_irq: true,
        ..task(cpu)
    }
}

/// A softirq on top of this CPU's idle task.
pub fn idle_irq(cpu: u32) -> Ctx {
    Ctx {
        current: Current::Idle,
        ..irq(cpu)
    }
}

/// The machine under test.
pub struct Rig<'a> {
    pub rcu: &'a Rcu<Called>,
    pub k: GpKthread,
    pub w: Fake<'a>,
    /// Where the kthread runs.
    pub gp_cpu: u32,
    wait: GpWait,
    next_callback: u64,
}

impl<'a> Rig<'a> {
    /// All CPUs are in the kernel, the kthread is asleep.
    pub fn new(rcu: &'a Rcu<Called>) -> Self {
        let mut rig = Rig {
            rcu,
            k: GpKthread::default(),
            w: Fake {
                jiffies: 1000,
                contexts: (0..rcu.geometry().nr_cpus).map(|_| Default::default()).collect(),
                ..Fake::default()
            },
            gp_cpu: 0,
            wait: GpWait::Yield,
            next_callback: 0,
        };
        rig.run();
        assert!(rig.asleep_for_request());
        rig
    }

    /// One step of the kthread.
    pub fn step(&mut self, resume: GpResume) -> GpWait {
        let ctx = Ctx {
            current: Current::GpKthread,
            ..task(self.gp_cpu)
        };
        self.wait = self.rcu.gp_step(&mut self.k, ctx, resume, &mut self.w);
        self.wait
    }

    fn go_on(&mut self, resume: GpResume) -> GpWait {
        self.step(resume);
        self.step_until(|rig| rig.wait != GpWait::Yield);
        self.wait
    }

    /// The kthread goes on until this holds.
    pub fn step_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if holds(self) {
                return;
            }
            self.step(GpResume::Run);
        }
        panic!("the kthread never gets there: {:?}", self.wait);
    }

    /// The kthread runs (say, after a wake-up) until it sleeps.
    pub fn run(&mut self) -> GpWait {
        self.go_on(GpResume::Run)
    }

    /// Its sleep times out; it runs until it sleeps again.
    pub fn time_out(&mut self) -> GpWait {
        match self.wait {
            GpWait::Timeout { jiffies, .. } | GpWait::Delay { jiffies } => self.w.jiffies += jiffies,
            other => panic!("no timed sleep: {other:?}"),
        }
        self.go_on(GpResume::TimedOut)
    }

    /// The same, at this jiffy.
    pub fn time_out_at(&mut self, jiffies: u64) -> GpWait {
        self.w.jiffies = jiffies;
        self.go_on(GpResume::TimedOut)
    }

    /// Length of the kthread's timed sleep.
    pub fn sleep(&self) -> u64 {
        match self.wait {
            GpWait::Timeout { jiffies, .. } => jiffies,
            other => panic!("no sleep before a scan: {other:?}"),
        }
    }

    pub fn asleep_for_request(&self) -> bool {
        matches!(self.wait, GpWait::Request { .. })
    }

    /// The kthread's next scan finds every CPU idle; it runs until it sleeps again.
    pub fn finish(&mut self) -> GpWait {
        let busy: Vec<u32> = (0..self.w.contexts.len() as u32)
            .filter(|&cpu| !self.w.contexts[cpu as usize].snap().in_eqs())
            .collect();
        busy.iter().for_each(|&cpu| self.idle(cpu));
        let wait = self.time_out();
        busy.iter().for_each(|&cpu| self.busy(cpu));
        wait
    }

    /// This CPU enters its idle loop.
    pub fn idle(&mut self, cpu: u32) {
        self.w.contexts[cpu as usize].idle_enter();
    }

    /// It leaves it.
    pub fn busy(&mut self, cpu: u32) {
        self.w.contexts[cpu as usize].idle_exit();
    }

    /// Requests a grace period from a task of this CPU.
    pub fn request(&mut self, cpu: u32) {
        self.rcu.start_poll(task(cpu), &mut self.w);
    }

    /// A grace period runs, and the kthread sleeps before its first scan.
    pub fn begin(&mut self) {
        self.request(0);
        self.run();
        assert!(self.rcu.gp_in_progress());
    }

    pub fn tick(&mut self, cpu: u32, hit: TickHit) {
        self.rcu.tick(irq(cpu), hit, None, &mut self.w);
    }

    /// The RCU core runs on this CPU, on top of some task.
    pub fn core(&mut self, cpu: u32) -> Option<Batch<'a, Called>> {
        self.rcu.core(irq(cpu), None, &mut self.w)
    }

    /// This CPU notices the grace period, then a tick in user mode records a quiescent state and the RCU
    /// core reports it.
    pub fn report(&mut self, cpu: u32) {
        drop(self.core(cpu));
        self.tick(cpu, TickHit::User);
        drop(self.core(cpu));
    }

    /// Queues callbacks on this CPU.
    pub fn call(&mut self, cpu: u32, count: u64) {
        for _ in 0..count {
            let callback = Cb::User(Called(self.next_callback));
            self.next_callback += 1;
            self.rcu.call(task(cpu), callback, &mut self.w);
        }
    }

    /// Queues callbacks on this CPU and has them wait out a grace period; its core was not run since.
    pub fn ripen(&mut self, cpu: u32, count: u64) {
        self.call(cpu, count);
        assert!(self.core(cpu).is_none(), "nothing was ready before");
        self.run();
        self.finish();
        assert!(self.asleep_for_request());
    }

    /// The task is preempted, or sleeps, on this CPU.
    pub fn switch(&mut self, cpu: u32, reader: &mut Reader) {
        self.rcu.context_switch(task(cpu), Some(reader), &mut self.w);
    }

    /// `synchronize_rcu()` on this CPU up to its blocking.
    pub fn synchronize(&mut self, cpu: u32, token: u64) {
        self.rcu.synchronize(task(cpu), Waiter::new(token), &mut self.w);
    }

    /// The queued work runs.
    pub fn work(&mut self) {
        assert!(std::mem::take(&mut self.w.work_queued), "no work was queued");
        self.rcu.work(WorkItem::SrsCleanup, &mut self.w);
    }

    pub fn snap(&self) -> Snapshot {
        self.rcu.snapshot()
    }

    /// `gp_flags` has FQS set.
    pub fn forced(&self) -> bool {
        self.snap().gp_flags & 2 != 0
    }

    /// `gp_flags` has INIT set.
    pub fn requested(&self) -> bool {
        self.snap().gp_flags & 1 != 0
    }

    /// Events of this kind since the records were last cleared.
    pub fn count(&self, name: &str) -> usize {
        let named = |event: &&Event| match event {
            Event::GracePeriod { what, .. } | Event::FutureGracePeriod { what, .. } => *what == name,
            _ => false,
        };
        self.w.events.iter().filter(named).count()
    }

    /// The funnel's events since the records were last cleared: what happened, level, first CPU.
    pub fn funnel(&self) -> Vec<(&'static str, u32, u32)> {
        let funnel = |event: &Event| match *event {
            Event::FutureGracePeriod {
                what, level, grplo, ..
            } => Some((what, level, grplo)),
            _ => None,
        };
        self.w.events.iter().filter_map(funnel).collect()
    }
}

/// Invokes callbacks until the batch ends by itself; returns their names.
pub fn drain(batch: &mut Batch<'_, Called>, ctx: Ctx, need_resched: bool, w: &mut Fake<'_>) -> Vec<u64> {
    let mut names = Vec::new();
    while let Some(callback) = batch.next(ctx, need_resched, w) {
        match callback {
            Cb::User(Called(name)) => names.push(name),
            other => panic!("not a user's: {other:?}"),
        }
    }
    names
}
