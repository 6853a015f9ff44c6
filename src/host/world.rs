//! The engine's surroundings on real threads: what [`World`] asks for is recorded in a flag, a bitmap or
//! a futex word, never done by calling back.

use super::engine::Shared;
use super::slot::split;
use super::vcpu::Kind;
use crate::stats::{Counters, GracePeriods};
use crate::sync::{Ordering, full_fence};
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
        full_fence("F2 start");
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
        let Kthread::Gp = kthread;
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
        self.shared.counters.wakeups.fetch_add(1, Ordering::Relaxed);
        // Before the caller goes on and perhaps looks at the records.
        self.shared.records.released(gp_seq);
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

/// Records of the grace periods that ended, until somebody takes them.
#[derive(Debug, Default)]
pub(super) struct Records {
    inner: crate::sync::WorldLock<RecordsInner>,
}

#[derive(Debug, Default)]
struct RecordsInner {
    kept: GracePeriods,
    /// Calls released by a grace period that has no record yet.
    ahead: i64,
    forgotten: u64,
    grace_periods: u64,
    scans: u64,
    cpus_scanned: u64,
}

/// Records kept when nobody takes them; the older half makes room for newer ones.
const MAX_RECORDS: usize = 1 << 20;

impl Records {
    fn push(&self, record: &GpRecord) {
        let mut inner = self.inner.lock();
        if inner.kept.len() >= MAX_RECORDS {
            inner.kept.forget_oldest(MAX_RECORDS / 2);
            inner.forgotten += MAX_RECORDS as u64 / 2;
        }
        inner.grace_periods += 1;
        inner.scans += u64::from(record.scans);
        inner.cpus_scanned += record.cpus_scanned;
        let ahead = std::mem::take(&mut inner.ahead);
        record.append_to(&mut inner.kept, ahead);
    }

    fn released(&self, gp_seq: u64) {
        let mut inner = self.inner.lock();
        let Some(&last) = inner.kept.gp_seq.last() else {
            inner.ahead += 1;
            return;
        };
        // Numbers grow by 4 from one grace period to the next.
        let back = (last.wrapping_sub(gp_seq as i64)) / crate::tree::seq::SEQ_GP as i64;
        if back < 0 {
            inner.ahead += 1;
        } else if let Some(at) = inner.kept.len().checked_sub(1 + back as usize) {
            inner.kept.requests[at] += 1;
        }
    }

    /// What was recorded, which stays.
    pub fn look(&self) -> GracePeriods {
        self.inner.lock().kept.clone()
    }

    /// Takes what was recorded.
    pub fn take(&self) -> GracePeriods {
        let mut inner = self.inner.lock();
        std::mem::take(&mut inner.kept)
    }

    /// What the records add up to, those that were taken or forgotten included.
    pub fn totals(&self) -> Counters {
        let inner = self.inner.lock();
        Counters {
            grace_periods: inner.grace_periods,
            fqs_scans: inner.scans,
            fqs_cpus_scanned: inner.cpus_scanned,
            ..Counters::default()
        }
    }

    /// Records that had to make room for newer ones.
    pub fn forgotten(&self) -> u64 {
        self.inner.lock().forgotten
    }
}
