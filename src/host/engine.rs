//! An open engine: its parts, its threads, its life.

use super::callback::HostCb;
use super::calls::{GiveUp, Patience};
use super::clock::{Clock, monotonic_ns};
use super::crowd::Crowd;
use super::gp_thread::GpControl;
use super::handle::own_nesting;
use super::order::{FenceMode, HeavyFence};
use super::os::{self, ParkMode};
use super::park::Parking;
use super::records::Records;
use super::slot::{Slot, Slots};
use super::softirq::{Panics, SharedRef, Softirq, WeakShared};
use super::stalls::{HostStall, Stalls};
use super::tick::Ticks;
use super::vcpu::Vcpus;
use super::world::{Actor, Host};
use crate::config::{Config, Tunables};
use crate::error::{Error, Result};
use crate::stats::{Counters, GracePeriods};
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, Tally, WorldLock};
use crate::trace::{MAX_TRACE_LIMIT, Trace};
use crate::tree::{Rcu, Snapshot};
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How timeouts of the grace-period kthread are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerMode {
    /// As the kernel's timer wheel rounds them: to the tick after the one in which they are due, or coarser.
    Wheel,
    /// Not at all.
    Hrtimer,
}

impl TimerMode {
    /// Names and values.
    pub const ALL: [(&'static str, TimerMode); 2] =
        [("wheel", TimerMode::Wheel), ("hrtimer", TimerMode::Hrtimer)];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            TimerMode::Wheel => "wheel",
            TimerMode::Hrtimer => "hrtimer",
        }
    }
}

/// Who carries out the steps of the grace-period kthread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpDriver {
    /// A thread of its own, as in the kernel.
    Kthread,
    /// A caller of `synchronize_rcu()` on the direct-wake route, instead of going to sleep, while no reader has to be
    /// waited for; else the kthread's own thread. Many more calls a second where there are more callers than cores, at
    /// the price of latencies that say nothing about the kernel's. With `gp_preinit_delay`, `gp_init_delay` or
    /// `gp_cleanup_delay` it is always the thread. The kthread's CPU time ([`Engine::thread_cpu`]) does not include
    /// what callers did for it.
    Callers,
}

/// How to open an engine; nothing here is a tunable of RCU.
#[derive(Debug, Clone)]
pub struct Options {
    /// The fence that spares readers theirs.
    pub fence: FenceMode,
    /// How threads block.
    pub park: ParkMode,
    /// How timeouts are rounded.
    pub timer: TimerMode,
    /// vCPU of the grace-period kthread at first; `None`: the highest-numbered one that is online.
    pub gp_kthread_cpu: Option<u32>,
    /// Who carries out its steps.
    pub gp_driver: GpDriver,
    /// Callbacks run on a thread per vCPU (`rcuc/N`) instead of one for all (`ksoftirqd`).
    pub rcuc: bool,
    /// Keep this many trace events; 0: no trace.
    pub trace_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            fence: FenceMode::Auto,
            park: ParkMode::Auto,
            timer: TimerMode::Wheel,
            gp_kthread_cpu: None,
            gp_driver: GpDriver::Kthread,
            rcuc: false,
            trace_limit: 0,
        }
    }
}

/// What becomes of callbacks that wait when an engine closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// They are invoked, after their grace period.
    Run,
    /// They are dropped without being invoked, after their grace period.
    Drop,
}

/// Life of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Takes calls.
    Open = 0,
    /// Refuses new calls, finishes what is under way.
    Closing = 1,
    /// Done.
    Closed = 2,
}

/// Counts of what happened, beside those of the tree.
#[derive(Debug, Default)]
pub(super) struct HostCounters {
    pub wakeups: Tally,
    pub ipis: Tally,
    pub heavy_fences: Tally,
    pub grants: Tally,
    pub blocked: Tally,
    pub cores: Tally,
    pub direct: Tally,
    pub gp_migrations: Tally,
    pub offlined: Tally,
}

/// Everything that an engine's threads and users share.
pub(super) struct Shared {
    /// Number of the engine, unique in the process and never 0.
    pub id: u64,
    pub me: WeakShared,
    pub config: Config,
    pub tun: Tunables,
    pub rcu: Rcu<HostCb>,
    pub clock: Clock,
    pub fence: HeavyFence,
    pub parking: Parking,
    pub crowd: Crowd,
    pub timer: TimerMode,
    pub rcuc: bool,
    pub slots: Slots,
    pub vcpus: Vcpus,
    // What is written all the time lies apart from what every call reads.
    pub gp: CachePadded<GpControl>,
    pub ticks: CachePadded<Ticks>,
    pub soft: CachePadded<Softirq>,
    pub counters: CachePadded<HostCounters>,
    pub records: CachePadded<Records>,
    pub stalls: Stalls,
    pub trace: Option<WorldLock<Trace>>,
    pub threads: WorldLock<Vec<JoinHandle<()>>>,
    pub failed: WorldLock<Vec<String>>,
    /// One change of the set of online vCPUs at a time.
    pub hotplug: WorldLock<()>,
    /// The close that began first is done, threads joined and all.
    finished: Mutex<bool>,
    on_finished: Condvar,
    state: AtomicU32,
    phase: AtomicU32,
    /// Forks of the process before the engine was opened.
    forks: u32,
}

/// Bits of `phase`.
const HURRIED: u32 = 1;
const DISCARD: u32 = 2;
const STOP: u32 = 4;

impl Shared {
    /// The parts of an engine, with no thread started.
    pub(super) fn new(config: &Config, options: &Options) -> Result<SharedRef> {
        static IDS: Tally = Tally::new(1);
        let tun = config.tunables().clone();
        let fence = HeavyFence::choose(options.fence)?;
        let parking = os::choose_parking(options.park)?;
        if !tun.offloaded.is_empty() {
            let given = format!("{:?}", tun.offloaded);
            return Err(Error::config(
                "rcu_nocbs",
                given,
                "callback offloading is only simulated so far",
                "empty on real threads",
            ));
        }
        if options.trace_limit > MAX_TRACE_LIMIT {
            return Err(Error::config(
                "trace_limit",
                options.trace_limit,
                "out of range",
                format!("0 to {MAX_TRACE_LIMIT}"),
            ));
        }
        let gp_cpu = options.gp_kthread_cpu.unwrap_or(tun.maxcpus - 1);
        if gp_cpu >= tun.maxcpus {
            return Err(Error::config(
                "gp_kthread_cpu",
                gp_cpu,
                "no such online virtual CPU",
                format!("0 to {}", tun.maxcpus - 1),
            ));
        }
        let driven = options.gp_driver == GpDriver::Callers
            && tun.gp_preinit_delay == 0
            && tun.gp_init_delay == 0
            && tun.gp_cleanup_delay == 0;
        let rcu = Rcu::new(&tun)?;
        let trace = (options.trace_limit > 0)
            .then(|| WorldLock::new(Trace::new(rcu.is_preemptible(), options.trace_limit)));
        Ok(Arc::new_cyclic(|me| Shared {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            me: me.clone(),
            config: config.clone(),
            clock: Clock::start(tun.hz),
            fence,
            parking,
            crowd: Crowd::default(),
            timer: options.timer,
            rcuc: options.rcuc,
            slots: Slots::new(fence.reader_bits()),
            vcpus: Vcpus::new(tun.nr_cpus, tun.maxcpus),
            gp: GpControl::new(gp_cpu, driven).into(),
            ticks: Ticks::new(tun.nr_cpus).into(),
            soft: Softirq::new(tun.nr_cpus, options.rcuc).into(),
            counters: CachePadded::default(),
            records: CachePadded::default(),
            stalls: Stalls::default(),
            trace,
            threads: WorldLock::default(),
            failed: WorldLock::default(),
            hotplug: WorldLock::new(()),
            finished: Mutex::new(false),
            on_finished: Condvar::new(),
            state: AtomicU32::new(State::Open as u32),
            phase: AtomicU32::new(0),
            forks: os::forks(),
            rcu,
            tun,
        }))
    }

    pub(super) fn stopping(&self) -> bool {
        self.phase.load(Ordering::SeqCst) & STOP != 0
    }

    /// Has the engine's threads end.
    #[cfg(any(treercu_loom, treercu_shuttle))]
    pub(super) fn stop(&self) {
        self.phase.fetch_or(STOP, Ordering::SeqCst);
        self.wake_all();
        self.kick_waiters();
    }

    pub(super) fn hurried(&self) -> bool {
        self.phase.load(Ordering::Relaxed) & HURRIED != 0
    }

    pub(super) fn discarding(&self) -> bool {
        self.phase.load(Ordering::Relaxed) & DISCARD != 0
    }

    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::Open,
            1 => State::Closing,
            _ => State::Closed,
        }
    }

    /// This process is a child of the one that opened the engine.
    pub(super) fn is_forked(&self) -> bool {
        self.forks != os::forks()
    }

    /// The engine takes calls, in this process.
    #[inline]
    pub(super) fn check(&self, call: &'static str) -> Result<()> {
        if self.state.load(Ordering::Relaxed) == State::Open as u32 && !self.is_forked() {
            return Ok(());
        }
        self.why_not(call)
    }

    #[cold]
    fn why_not(&self, call: &'static str) -> Result<()> {
        if self.is_forked() {
            return Err(Error::Misuse {
                call,
                reason: "the engine was opened before this process was forked, and its threads stayed behind"
                    .to_owned(),
                allowed: "an engine that was opened in this process",
            });
        }
        Err(Error::Misuse {
            call,
            reason: "the engine is closed".to_owned(),
            allowed: "an open engine",
        })
    }

    /// Wakes every engine thread, so that it looks at the engine's phase.
    fn wake_all(&self) {
        self.gp.park.wake(self.parking);
        self.ticks.park.wake(self.parking);
        self.soft.wake_all(self);
    }

    /// Has every blocked thread look at its reasons to give up.
    pub(super) fn kick_waiters(&self) {
        for slot in self.slots.made() {
            slot.wait.kick(self.parking);
        }
        self.crowd.wake(self.parking, super::crowd::ALL);
    }

    /// Waits until the close that began first is done. False: the time (ns of the monotonic clock) came, or a reason
    /// to give up, before that.
    fn wait_closed(&self, until: u64, patience: Patience<'_>) -> bool {
        /// Nobody kicks who waits here, so that a reason which does not say how often it wants to be asked is
        /// asked this often.
        const LOOK: Duration = Duration::from_millis(10);
        let every = patience.every().map_or(LOOK, |every| every.min(LOOK));
        let mut finished = self.finished.lock();
        while !*finished {
            let now = monotonic_ns();
            if now >= until {
                return false;
            }
            // Asking may take long: somebody who wants the lock meanwhile is to get it.
            if parking_lot::MutexGuard::unlocked(&mut finished, || patience.is_over()) {
                return false;
            }
            if !*finished {
                self.on_finished
                    .wait_for(&mut finished, every.min(Duration::from_nanos(until - now)));
            }
        }
        true
    }

    /// What is said where closing does not come to its end in time.
    fn unfinished(&self, deadline: Duration) -> Error {
        Error::Stall {
            is_virtual: false,
            gp_seq: self.rcu.gp_seq() as i64,
            waited_s: deadline.as_secs(),
            cpus: self.rcu.holdouts(),
        }
    }

    /// Attaches a thread to a vCPU.
    pub(super) fn attach(&self, cpu: Option<u32>) -> Result<&Slot> {
        self.check("register")?;
        if let Some(cpu) = cpu
            && (cpu >= self.tun.nr_cpus || !self.vcpus.is_online(cpu))
        {
            let online: Vec<String> = self.vcpus.online().map(|cpu| cpu.to_string()).collect();
            return Err(Error::config(
                "cpu",
                cpu,
                "no such online virtual CPU",
                online.join(", "),
            ));
        }
        let slot = self.slots.take().ok_or_else(|| {
            Error::config(
                "threads",
                super::slot::MAX_THREADS,
                "too many threads are attached",
                format!("up to {}", super::slot::MAX_THREADS),
            )
        })?;
        {
            let mut state = slot.state.lock();
            state.move_to = None;
            state.name = std::thread::current()
                .name()
                .unwrap_or("a thread without a name")
                .to_owned();
        }
        loop {
            let cpu = match cpu {
                Some(cpu) if self.vcpus.is_online(cpu) => cpu,
                _ => self.vcpus.next_in_turn(),
            };
            let _run = self.vcpus.get(cpu).run.lock();
            // Under this lock, so that the vCPU does not go offline without the newcomer.
            if self.vcpus.is_online(cpu) {
                slot.set_cpu(cpu);
                break;
            }
        }
        if !self.rcu.is_preemptible() {
            slot.words.set_active();
            self.vcpus.join(slot);
        }
        Ok(slot)
    }

    /// The thread is gone. One that leaks a guard stays inside its section for ever, and so does its slot.
    pub(super) fn detach(&self, slot: &Slot) {
        if slot.words.nesting() > 0 {
            return;
        }
        self.leave_scan_set(slot);
        self.slots.put_back(slot);
    }

    /// Outside any section the thread leaves the scan set of its vCPU: it blocks, or goes.
    pub(super) fn leave_scan_set(&self, slot: &Slot) {
        if !slot.words.is_active() {
            return;
        }
        loop {
            let cpu = slot.cpu();
            let mut run = self.vcpus.get(cpu).run.lock();
            if slot.cpu() != cpu {
                continue;
            }
            if !slot.words.is_active() {
                return; // A pass was faster.
            }
            slot.words.set_granted();
            let answered = self
                .vcpus
                .part_locked(cpu, &mut run, slot, |index| self.slots.get(index));
            drop(run);
            if answered.any() {
                self.answered(cpu, answered, &mut Host::new(self, Actor::Thread, cpu));
            }
            return;
        }
    }
}

/// A real Tree RCU on real threads. Clones are handles on the same engine; the last one closes it.
#[derive(Clone)]
pub struct Engine(Arc<Owner>);

struct Owner {
    shared: SharedRef,
}

/// Longest that dropping the last handle on an engine waits for its readers.
const DROP_DEADLINE: Duration = Duration::from_secs(2);

impl Drop for Owner {
    fn drop(&mut self) {
        // Readers that outlast the deadline keep what they protect: it is leaked.
        if super::softirq::invoking() == self.shared.id {
            // The last handle was in a callback, whose thread cannot wait for itself.
            let shared = self.shared.clone();
            std::thread::spawn(move || close(&shared, Remaining::Run, DROP_DEADLINE, Patience(None)));
        } else {
            let _ = close(&self.shared, Remaining::Run, DROP_DEADLINE, Patience(None));
        }
    }
}

/// CPU time of an engine's threads, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    /// Grace-period kthread.
    pub gp_ns: u64,
    /// Tick thread.
    pub tick_ns: u64,
}

/// How late ticks came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Ticks measured.
    pub ticks: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Maximum, ns.
    pub max_ns: u64,
}

impl Engine {
    /// Opens an engine. `nr_cpus` of the configuration are virtual CPUs: threads share them.
    ///
    /// Errors: a bad option, a tree that cannot be built, a thread that cannot be started.
    pub fn new(config: &Config, options: &Options) -> Result<Engine> {
        os::watch_forks();
        let shared = Shared::new(config, options)?;
        shared.spawn("gp", Shared::gp_thread);
        shared.spawn("tick", Shared::tick_thread);
        if !options.rcuc {
            shared.spawn("softirq", Shared::softirq_thread);
        }
        let failed = shared.failed.lock().pop();
        if let Some(why) = failed {
            let _ = close(&shared, Remaining::Drop, Duration::ZERO, Patience(None));
            return Err(Error::Host(format!(
                "{why}; close other engines or raise the limit on threads"
            )));
        }
        Ok(Engine(Arc::new(Owner { shared })))
    }

    pub(super) fn shared(&self) -> &SharedRef {
        &self.0.shared
    }

    /// Open, closing or closed.
    pub fn state(&self) -> State {
        self.shared().state()
    }

    /// The configuration it runs under.
    pub fn config(&self) -> &Config {
        &self.shared().config
    }

    /// A number that no other engine of this process has.
    pub fn id(&self) -> u64 {
        self.shared().id
    }

    /// `rs.gp_seq`.
    pub fn gp_seq(&self) -> u64 {
        self.shared().rcu.gp_seq()
    }

    /// The whole tree as plain data; consistent only while nothing happens.
    pub fn snapshot(&self) -> Snapshot {
        self.shared().rcu.snapshot()
    }

    /// Records of the grace periods that ended since the last call of this.
    pub fn take_grace_periods(&self) -> GracePeriods {
        self.shared().records.take()
    }

    /// Records that were dropped because nobody took them in time.
    pub fn forgotten_grace_periods(&self) -> u64 {
        self.shared().records.forgotten()
    }

    /// The trace so far, if one was asked for; it starts anew.
    pub fn take_trace(&self) -> Option<Trace> {
        let shared = self.shared();
        let mut trace = shared.trace.as_ref()?.lock();
        let empty = trace.emptied();
        Some(std::mem::replace(&mut *trace, empty))
    }

    /// Counters since the engine was opened. CPU times are in [`Engine::thread_cpu`] too.
    pub fn counters(&self) -> Counters {
        let shared = self.shared();
        let c = &shared.counters;
        let get = |counter: &Tally| counter.load(Ordering::Relaxed);
        let cpu = self.thread_cpu();
        let pending = self.callbacks_pending();
        let invoked = get(&shared.soft.invoked);
        Counters {
            ticks: get(&shared.ticks.count),
            rcu_softirqs: get(&c.cores),
            wakeups: get(&c.wakeups) + get(&c.direct),
            ipis: get(&c.ipis),
            callbacks_queued: invoked + pending,
            callbacks_invoked: invoked,
            direct_wakes: get(&c.direct),
            gp_kthread_cpu_ns: cpu.gp_ns,
            tick_cpu_ns: cpu.tick_ns,
            gp_kthread_migrations: get(&c.gp_migrations),
            cpus_offlined: get(&c.offlined),
            expedited_grace_periods: crate::tree::seq::ctr(shared.rcu.exp_seq()),
            stalls: shared.stalls.count(),
            heavy_fences: get(&c.heavy_fences),
            readers_blocked: get(&c.blocked),
            eqs_grants: get(&c.grants),
            callbacks_peak: get(&shared.ticks.callbacks_peak),
            ..shared.records.totals()
        }
    }

    /// CPU time of the engine's threads, as of their last sleep.
    pub fn thread_cpu(&self) -> ThreadCpu {
        let shared = self.shared();
        ThreadCpu {
            gp_ns: shared.gp.cpu_ns.load(Ordering::Relaxed),
            tick_ns: shared.ticks.cpu_ns.load(Ordering::Relaxed),
        }
    }

    /// How late the ticks came so far.
    pub fn tick_lateness(&self) -> Lateness {
        let (ticks, p50_ns, p99_ns, max_ns) = self.shared().ticks.lateness();
        Lateness {
            ticks,
            p50_ns,
            p99_ns,
            max_ns,
        }
    }

    /// `membarrier`, or `fallback` where readers execute full fences.
    pub fn fence_name(&self) -> &'static str {
        self.shared().fence.name()
    }

    /// Grace periods that lasted longer than the stall timeout, and who held them up.
    pub fn stalls(&self) -> Vec<HostStall> {
        self.shared().stalls.all()
    }

    /// Callbacks that panicked.
    pub fn panics(&self) -> Panics {
        self.shared().soft.panics()
    }

    /// Time since it was opened, ns: the time of its records and traces.
    pub fn now_ns(&self) -> u64 {
        self.shared().clock.now()
    }

    /// Threads attached now.
    pub fn attached(&self) -> u32 {
        self.shared().slots.in_use()
    }

    /// vCPUs that are online now.
    pub fn online_cpus(&self) -> Vec<u32> {
        self.shared().vcpus.online().collect()
    }

    /// Every blocked call looks at its cancel flag again.
    pub fn kick_waiters(&self) {
        self.shared().kick_waiters();
    }

    /// Closes the engine: refuses new calls, ends the grace period in progress without waits between its
    /// scans, waits for readers, has the callbacks that wait run or dropped, and joins the threads. The first call
    /// does it; others return when it is done.
    ///
    /// Errors: after `deadline` some reader still was inside a section. The engine is closed all the same;
    /// callbacks that waited for that reader are leaked, never invoked early. A call that waits for another one's
    /// close gives up at its own deadline, and the other one goes on. Refused in a callback, and inside a section of
    /// the calling thread's own attachment, which it would wait for; a section of a [`Handle`](super::Handle) is
    /// waited for like anybody else's.
    pub fn close(&self, remaining: Remaining, deadline: Duration) -> Result<()> {
        self.close_with(remaining, deadline, Patience(None))
    }

    /// The same; a reason to give up is as good as the end of the deadline.
    pub fn close_unless(&self, remaining: Remaining, deadline: Duration, reason: &dyn GiveUp) -> Result<()> {
        self.close_with(remaining, deadline, Patience(Some(reason)))
    }

    fn close_with(&self, remaining: Remaining, deadline: Duration, patience: Patience<'_>) -> Result<()> {
        let shared = self.shared();
        let waits = !deadline.is_zero() && shared.state() != State::Closed && !shared.is_forked();
        if waits && own_nesting(shared) > 0 {
            return Err(super::calls::inside("close"));
        }
        // The calling thread is not to be waited for.
        self.detach();
        close(shared, remaining, deadline, patience)
    }
}

fn close(shared: &SharedRef, remaining: Remaining, deadline: Duration, patience: Patience<'_>) -> Result<()> {
    if super::softirq::invoking() == shared.id {
        return Err(Error::Misuse {
            call: "close",
            reason: "called from a callback, which it would wait for".to_owned(),
            allowed: "outside callbacks",
        });
    }
    let until = monotonic_ns().saturating_add(deadline.as_nanos().min(u128::from(u64::MAX / 2)) as u64);
    if shared
        .state
        .compare_exchange(
            State::Open as u32,
            State::Closing as u32,
            Ordering::SeqCst,
            Ordering::SeqCst,
        )
        .is_err()
    {
        return if shared.is_forked() || shared.wait_closed(until, patience) {
            Ok(())
        } else {
            Err(shared.unfinished(deadline))
        };
    }
    if shared.is_forked() {
        // In the child of a fork there is nobody to wait for, and somebody who is not here may hold any lock. The
        // threads hold references to what is shared, so that it stays, and their handles with it.
        shared.state.store(State::Closed as u32, Ordering::SeqCst);
        return Ok(());
    }
    let discard = if remaining == Remaining::Drop { DISCARD } else { 0 };
    shared.phase.fetch_or(HURRIED | discard, Ordering::SeqCst);
    shared.wake_all();
    let left = finish(shared, deadline, until, patience);
    shared.phase.fetch_or(STOP, Ordering::SeqCst);
    shared.state.store(State::Closed as u32, Ordering::SeqCst);
    shared.wake_all();
    shared.kick_waiters();
    let me = std::thread::current().id();
    for thread in std::mem::take(&mut *shared.threads.lock()) {
        // A thread that fails to start its body is gone already; a panic in one was reported by its own means.
        if thread.thread().id() != me {
            let _ = thread.join();
        }
    }
    *shared.finished.lock() = true;
    shared.on_finished.notify_all();
    left
}

/// Waits until nothing is under way: every callback done, no grace period in progress, nobody blocked.
fn finish(shared: &SharedRef, deadline: Duration, until: u64, patience: Patience<'_>) -> Result<()> {
    if deadline.is_zero() {
        return Ok(());
    }
    let Some(slot) = shared.slots.take() else {
        return Ok(());
    };
    let cpu = shared.vcpus.online().next().unwrap_or(0);
    slot.set_cpu(cpu);
    let mut host = Host::new(shared, Actor::Thread, cpu);
    // A callback may queue another one; those are waited for too, for as long as there is time.
    let mut in_time = true;
    while in_time && (0..shared.tun.nr_cpus).any(|cpu| shared.rcu.needs_cpu(cpu)) {
        let (number, waiter) = slot.begin_wait(0);
        shared.rcu.barrier(waiter, &mut host);
        host.deliver();
        in_time = shared.block_until(slot, number, Some(until), patience).is_some();
    }
    // A last full grace period: callers that are still blocked are served by it, and what readers see stays.
    if in_time {
        let (number, waiter) = slot.begin_wait(0);
        let ctx = host.ctx();
        shared.rcu.synchronize(ctx, waiter, &mut host);
        host.deliver();
        shared.ticks.want(shared, cpu);
        in_time = shared.block_until(slot, number, Some(until), patience).is_some();
    }
    if in_time {
        shared.slots.put_back(slot);
        return Ok(());
    }
    Err(shared.unfinished(deadline))
}
