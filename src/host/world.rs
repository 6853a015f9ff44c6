//! The engine's surroundings on real threads: what [`World`] asks for is recorded in a flag, a bitmap or
//! a futex word, never done by calling back.

use super::engine::Shared;
use super::slot::split;
use super::vcpu::Kind;
use crate::sync::{Ordering, fence_after_rmw};
use crate::trace::{Context, Event, Record};
use crate::tree::StallReport;
use crate::tree::waiters::Waiter;
use crate::tree::watching::WatchSnap;
use crate::tree::world::{Ctx, Current, Fence, GpRecord, Ipi, Kthread, Work, WorkItem, World};
use std::cell::Cell;
use std::num::NonZeroU32;

/// Who is at work, for traces and for the question where a raised core is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Actor {
    /// A thread that uses the engine.
    Thread,
    GpKthread,
    Tick,
    Softirq,
}

impl Actor {
    fn comm(self) -> &'static str {
        match self {
            Actor::Thread => "thread",
            Actor::GpKthread => "rcu_gp_kthread",
            Actor::Tick => "tick",
            Actor::Softirq => "ksoftirqd",
        }
    }
}

/// vCPUs of which a pass has made sure in this step.
#[derive(Debug, Default)]
pub(super) enum Covered {
    #[default]
    None,
    /// All but those of `Host::unanswered`, for an expedited grace period.
    All,
    /// These of one leaf, by number.
    Some(Vec<u32>),
}

/// One entry into the engine.
pub(super) struct Host<'s> {
    pub shared: &'s Shared,
    pub actor: Actor,
    pub cpu: u32,
    pub covered: Covered,
    /// vCPUs that a pass could not make sure of: non-preemptible threads were asked and have not answered.
    pub unanswered: Vec<u32>,
    ipis: Vec<(u32, Ipi)>,
    /// The callers that the kthread left over are to be woken.
    cleanup: bool,
    /// Reading the clock is a good part of a grace period with nobody in the way: a jiffy that was read once is kept.
    pub keeps_jiffies: bool,
    pub jiffies: Cell<Option<u64>>,
    /// The reading that this jiffy came from, for the rest of the same step.
    now: Cell<Option<u64>>,
    /// The caller sees to the grace-period kthread's work itself: it need not be woken.
    pub drives: bool,
    /// Marks of callers that are to be woken in the crowd.
    pub marks: u32,
}

impl<'s> Host<'s> {
    pub fn new(shared: &'s Shared, actor: Actor, cpu: u32) -> Self {
        Host {
            shared,
            actor,
            cpu,
            covered: Covered::None,
            unanswered: Vec::new(),
            ipis: Vec::new(),
            cleanup: false,
            keeps_jiffies: false,
            jiffies: Cell::new(None),
            now: Cell::new(None),
            drives: false,
            marks: 0,
        }
    }

    /// The engine's view of who is calling.
    pub fn ctx(&self) -> Ctx {
        Ctx {
            cpu: self.cpu,
            in_irq: matches!(self.actor, Actor::Tick),
            current: match self.actor {
                Actor::GpKthread => Current::GpKthread,
                Actor::Thread => Current::Task,
                Actor::Tick | Actor::Softirq if self.shared.vcpus.get(self.cpu).active() > 0 => Current::Task,
                Actor::Tick | Actor::Softirq => Current::Idle,
            },
        }
    }

    /// Makes the calls that the engine asked for, now that it has returned. An interrupt needs no CPU of its
    /// own here: the vCPU's data are protected by its locks, whoever runs the handler.
    ///
    /// Work items have no thread of their own either: the kthread, their only source, carries them out. On few
    /// cores a worker would have to wait for one while the kthread ends one grace period after the other for
    /// want of a free wait head.
    pub fn deliver(&mut self) {
        if std::mem::take(&mut self.cleanup) {
            self.shared.rcu.work(WorkItem::SrsCleanup, self);
        }
        if self.actor != Actor::GpKthread {
            self.wake_crowd();
        }
        while let Some((cpu, ipi)) = self.ipis.pop() {
            match ipi {
                Ipi::Barrier => self.shared.rcu.barrier_ipi(cpu, self),
                Ipi::Exp => self.shared.expedited_ipi(cpu, self),
            }
        }
    }

    /// Another step of the kthread.
    pub fn next_step(&mut self) {
        self.covered = Covered::None;
        self.unanswered.clear();
        self.now.set(None);
    }

    /// Wakes callers that were completed since the last time, all at once.
    pub fn wake_crowd(&mut self) {
        self.shared.wake_crowd(std::mem::take(&mut self.marks));
    }
}

impl Shared {
    /// Wakes callers with these marks.
    pub(super) fn wake_crowd(&self, marks: u32) {
        if let Some(marks) = NonZeroU32::new(marks) {
            self.crowd.wake(self.parking, marks);
        }
    }
}

impl World for Host<'_> {
    fn now(&self) -> u64 {
        self.now.get().unwrap_or_else(|| self.shared.clock.now())
    }

    fn jiffies(&self) -> u64 {
        if let Some(jiffies) = self.jiffies.get() {
            return jiffies;
        }
        let now = self.shared.clock.now();
        let jiffies = now / self.shared.clock.tick_ns;
        if self.keeps_jiffies {
            self.now.set(Some(now));
            self.jiffies.set(Some(jiffies));
        }
        jiffies
    }

    fn heavy_fence(&mut self, why: Fence) {
        let Fence::GpStart = why;
        // F2. Each sample of a reader that is taken later has a fence of its own in front.
        fence_after_rmw("F2 start"); // the root was just unlocked
        self.shared.ticks.gp_started(self.shared);
    }

    fn watching(&self, cpu: u32) -> WatchSnap {
        let vcpu = self.shared.vcpus.get(cpu);
        let sure = match &self.covered {
            Covered::None => false,
            // The kthread is no reader.
            Covered::All if self.unanswered.contains(&cpu) => return WatchSnap::WATCHING,
            Covered::All => return WatchSnap::IDLE,
            Covered::Some(cpus) => cpus.contains(&cpu),
        };
        if sure || vcpu.active() == 0 {
            vcpu.kthread.snap()
        } else {
            // In no extended quiescent state, and never seen to pass one: such a vCPU is reported by itself.
            WatchSnap::WATCHING
        }
    }

    fn wake(&mut self, kthread: Kthread) {
        debug_assert_eq!(kthread, Kthread::Gp, "offloading is only simulated so far");
        if self.drives && self.shared.rcu.gp_is_requested() {
            return;
        }
        self.shared.counters.wakeups.fetch_add(1, Ordering::Relaxed);
        self.shared.gp.park.wake(self.shared.parking);
    }

    fn raise_core(&mut self, cpu: u32) {
        match self.actor {
            Actor::Softirq => self.shared.soft.raise(self.shared, cpu),
            _ => self.shared.ticks.raise_core(self.shared, cpu),
        }
    }

    fn send_ipi(&mut self, cpu: u32, ipi: Ipi) {
        self.shared.counters.ipis.fetch_add(1, Ordering::Relaxed);
        self.ipis.push((cpu, ipi));
    }

    fn momentary_eqs(&mut self, _cpu: u32) {
        // Asked for at a context switch of a CPU whose scan is impatient; here a scan's own pass asks the threads.
    }

    fn resched(&mut self, cpu: u32) {
        // A preemptible vCPU is never waited for as such. Of another one the threads are asked again, in case
        // some joined since.
        if !self.shared.rcu.is_preemptible() {
            self.shared.ask(cpu, Kind::Normal, self.shared.rcu.gp_seq(), None);
        }
    }

    fn complete(&mut self, waiter: Waiter, gp_seq: u64) {
        let (index, number) = split(waiter.token());
        // The list's count goes first: the thread may begin its next wait at once and wants its node back.
        drop(waiter);
        let by_kthread = self.actor == Actor::GpKthread;
        if by_kthread {
            // One kthread at a time: a load and a store.
            let direct = &self.shared.counters.direct;
            direct.store(direct.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.shared.counters.wakeups.fetch_add(1, Ordering::Relaxed);
        }
        // Before the caller goes on and perhaps looks at the records.
        self.shared.records.released(gp_seq, by_kthread);
        let slot = self.shared.slots.get(index);
        if let Some(mark) = slot.wait.complete(number, gp_seq, self.shared.parking) {
            self.marks |= mark.get();
        }
    }

    fn is_alone(&self, cpu: u32) -> bool {
        !self.unanswered.contains(&cpu)
    }

    fn stall(&mut self, report: &StallReport) {
        self.shared.stalls.report(self.shared, report);
    }

    fn queue_work(&mut self, item: WorkItem) -> bool {
        let WorkItem::SrsCleanup = item;
        !std::mem::replace(&mut self.cleanup, true)
    }

    fn spend(&mut self, _work: Work) {
        // Real work has been paid for already.
    }

    fn tracing(&self) -> bool {
        self.shared.trace.is_some()
    }

    fn trace(&mut self, event: Event) {
        if let Some(trace) = &self.shared.trace {
            let record = Record {
                at_ns: self.shared.clock.now(),
                cpu: self.cpu,
                comm: self.actor.comm(),
                pid: 1 + self.actor as u32,
                context: match self.actor {
                    Actor::Tick => Context::HardIrq,
                    Actor::Softirq => Context::SoftIrq,
                    _ => Context::Task,
                },
                event,
            };
            trace.lock().push(record);
        }
    }

    fn grace_period_ended(&mut self, record: &GpRecord) {
        self.shared.records.push(record);
    }
}
