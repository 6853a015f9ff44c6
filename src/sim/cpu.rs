//! One simulated CPU: what it is doing, what is waiting for it, its tick.

use super::random::Stream;
use super::task::TaskId;
use crate::tree::Batch;
use crate::tree::watching::ContextTracking;
use std::collections::VecDeque;

/// An interrupt on its way to, or waiting at, a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Irq {
    /// Timer tick, or the clock event of an idle CPU: the whole tick handler runs.
    Tick,
    /// Reschedule interrupt.
    Resched,
    /// High-resolution timer that ends a task's sleep.
    Sleep(TaskId),
    /// Background noise begins.
    Noise,
    /// A barrier's interrupt.
    Barrier,
    /// An expedited grace period's interrupt.
    Exp,
    /// The `irq_work` of this SRCU domain, whose grace period has begun.
    SrcuStart(u32),
    /// A device interrupt of this workload part, which queues callbacks.
    Periodic(u32),
}

/// What the CPU is doing right now. Each phase but `Idle` (and an endless burst) ends with one
/// calendar entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the idle loop, in an extended quiescent state.
    Idle,
    /// Leaving a hardware idle state for this interrupt; RCU does not watch yet.
    Waking(Irq),
    /// Hard interrupt handler, interrupts off.
    Hard,
    /// One vector of a softirq pass.
    Soft,
    /// Context switch to this task (`None`: idle), interrupts off.
    Switch(Option<TaskId>),
    /// Running the current task's burst.
    Run,
}

/// Softirq vectors, in the order in which a pass runs them.
pub(super) const TIMER_SOFTIRQ: u8 = 1 << 1;
/// The RCU softirq is the last vector.
pub(super) const RCU_SOFTIRQ: u8 = 1 << 7;

/// Softirq processing at an interrupt's end.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoftPass {
    /// Vectors of this pass still to run.
    pub vectors: u8,
    /// Passes so far.
    pub passes: u32,
    /// Jiffy in which the first pass began.
    pub since_jiffy: u64,
}

/// One CPU.
#[derive(Debug)]
pub(super) struct Cpu<'r> {
    pub ct: ContextTracking,
    pub phase: Phase,
    /// Times of the calendar entries for ends of phases: the next one, and one behind it that was
    /// made before an interruption. An entry that comes too early looks again, so two are enough.
    pub near_entry: Option<u64>,
    pub far_entry: Option<u64>,
    /// When the current phase began and when it ends (`u64::MAX`: never by itself).
    pub phase_from: u64,
    pub phase_until: u64,
    /// Current task; `None`: idle.
    pub curr: Option<TaskId>,
    /// Runnable ordinary tasks, first to run first.
    pub queue: VecDeque<TaskId>,
    /// The runnable SCHED_FIFO task (only the grace-period kthread can be one), which goes first.
    pub fifo: Option<TaskId>,
    pub need_resched: bool,
    /// Lazy preemption: turn into `need_resched` at the next tick or return to user mode.
    pub resched_lazy: bool,
    /// Interrupts that arrived while interrupts were off.
    pub pending: VecDeque<Irq>,
    pub softirq: u8,
    pub soft: Option<SoftPass>,
    /// Callbacks being invoked.
    pub batch: Option<Batch<'r, UserCb>>,
    /// The interrupt being handled came out of an extended quiescent state.
    pub irq_section: Option<u64>,
    /// When an ordinary task last had the CPU, or none was waiting.
    pub fair_from: u64,
    /// When the current task got the CPU, for its slice.
    pub slice_from: u64,

    // Tick and idle.
    /// A periodic tick is wanted.
    pub tick_on: bool,
    /// The tick was stopped at an idle entry and the CPU has not left the idle loop since.
    pub tick_stopped: bool,
    /// Its own clock event has just come: it goes on watching the clock for whatever is left.
    pub watched_clock: bool,
    /// Jiffy of this CPU's own clock event while its tick is off.
    pub clock_event: Option<u64>,
    /// Jiffy for which a tick entry is in the calendar.
    pub programmed: Option<u64>,
    pub gen_tick: u32,
    /// Pending timers: (jiffy in whose tick they fire, timer).
    pub wheel: Vec<(u64, super::task::TimerId)>,
    pub noise: Option<Stream>,
    pub governor: Option<Stream>,
    pub noise_task: Option<TaskId>,
    pub ksoftirqd: Option<TaskId>,

    // Hotplug.
    pub online: bool,
    /// On its way offline: it runs nothing any more and dies when it is idle.
    pub dying: bool,
    /// Pinned tasks that wait for the CPU to come back.
    pub parked: Vec<TaskId>,
}

/// A callback of a workload: its number, and how often it posts itself again. Packed into one word, so
/// that a list of callbacks stays small.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserCb(u64);

impl UserCb {
    /// Bits for the reposts.
    const REPOST_BITS: u32 = 16;
    /// Top bit: it belongs to the guest.
    const GUEST: u64 = 1 << 63;

    pub(super) fn new(id: u64, reposts: u16) -> Self {
        debug_assert!(
            id >> (u64::BITS - 1 - Self::REPOST_BITS) == 0,
            "2^47 callbacks are enough"
        );
        UserCb(id << Self::REPOST_BITS | u64::from(reposts))
    }

    /// A callback of the guest.
    pub(super) fn of_guest(id: u64) -> Self {
        UserCb(Self::new(id, 0).0 | Self::GUEST)
    }

    pub(super) fn is_guests(self) -> bool {
        self.0 & Self::GUEST != 0
    }

    pub(super) fn id(self) -> u64 {
        (self.0 & !Self::GUEST) >> Self::REPOST_BITS
    }

    pub(super) fn reposts(self) -> u16 {
        self.0 as u16
    }
}

impl crate::tree::Callback for UserCb {
    fn rhp(&self) -> u64 {
        const BASE: u64 = 0xffff_8880_0000_0000;
        BASE + self.id() * 32
    }

    fn func(&self) -> &'static str {
        "workload_callback"
    }
}

impl Cpu<'_> {
    pub(super) fn new() -> Self {
        Cpu {
            ct: ContextTracking::default(),
            phase: Phase::Idle,
            near_entry: None,
            far_entry: None,
            phase_from: 0,
            phase_until: u64::MAX,
            curr: None,
            queue: VecDeque::new(),
            fifo: None,
            need_resched: false,
            resched_lazy: false,
            pending: VecDeque::new(),
            softirq: 0,
            soft: None,
            batch: None,
            irq_section: None,
            fair_from: 0,
            slice_from: 0,
            tick_on: false,
            tick_stopped: true,
            watched_clock: false,
            clock_event: None,
            programmed: None,
            gen_tick: 0,
            wheel: Vec::new(),
            noise: None,
            governor: None,
            noise_task: None,
            ksoftirqd: None,
            online: true,
            dying: false,
            parked: Vec::new(),
        }
    }

    /// Idle for the scheduler: the idle task is current and nothing is queued or on its way. An
    /// interrupt on an idle CPU leaves it idle in this sense.
    pub(super) fn is_idle(&self) -> bool {
        self.online
            && !self.dying
            && self.curr.is_none()
            && !self.has_waiting()
            && !matches!(self.phase, Phase::Switch(Some(_)))
    }

    /// Some task waits for the CPU.
    pub(super) fn has_waiting(&self) -> bool {
        self.fifo.is_some() || !self.queue.is_empty()
    }

    /// Interrupts are taken at once in this phase (waking counts as off: the CPU is on its way to one).
    pub(super) fn takes_irqs(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Run)
    }

    /// Jiffy of the first pending timer.
    pub(super) fn first_timer(&self) -> Option<u64> {
        self.wheel.iter().map(|&(jiffy, _)| jiffy).min()
    }
}
