//! A domain of sleepable RCU on real threads: [`Srcu`].
//!
//! Readers may sleep, may hold their section across any call, and may end it on another thread. Each thread counts itself
//! on one of the engine's virtual CPUs, chosen when it first reads; nothing is registered, nothing is scanned. One thread
//! per domain is its work queue: grace periods and callbacks. It sleeps while there is nothing to do.
//!
//! Readers of a normal domain execute full fences (B and C of [`crate::srcu::order`]; on x86-64 the counting instruction is
//! one). Readers of a fast or light domain execute none: their counting lies in RCU sections of the engine, and updaters
//! wait for its grace periods.

use super::callback::HostCb;
use super::clock::monotonic_ns;
use super::engine::{Engine, Shared as EngineShared, TimerMode};
use crate::error::{Error, Result};
use crate::srcu::{Cb, Flavour, GpRecord, GpWait, GpWork, Index, Lock, Srcu as Domain, World};
use crate::sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering, Tally, spin_loop};
use crate::tree::seq;
use crate::tree::waiters::Waiter;
use crate::wheel::wheel_expiry;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest that dropping the last handle on a domain waits for its readers and callbacks.
const DROP_DEADLINE: Duration = Duration::from_secs(2);
/// Shorter pauses between two zero tests are spent spinning, µs.
const SPIN_US: u64 = 50;

thread_local! {
    /// The number of this thread among those that used SRCU, which chooses its virtual CPU.
    static NUMBER: u32 = {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
    /// The domain whose callbacks this thread is invoking; 0: none.
    static INVOKING: Cell<u64> = const { Cell::new(0) };
}

/// A domain of sleepable RCU. Clones are the same domain; the last one closes it.
///
/// ```
/// use treercu::config::Config;
/// use treercu::host::{Engine, Options, SrcuPtr};
/// use treercu::srcu::Flavour;
///
/// let engine = Engine::new(&Config::new().with("hz", 1000)?, &Options::default())?;
/// let domain = engine.srcu(Flavour::Normal)?;
/// let shared = SrcuPtr::new(&domain, String::from("old"));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let section = domain.read_lock().unwrap();
///         std::thread::sleep(std::time::Duration::from_millis(2)); // allowed here
///         assert!(["old", "new"].contains(&shared.load(&section).as_str()));
///     });
///     shared.replace(String::from("new")).unwrap(); // the old one is freed after a grace period
///     domain.synchronize().unwrap();
/// });
/// # Ok::<(), treercu::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Srcu(Arc<Owner>);

struct Owner {
    parts: Arc<Parts>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

/// What the worker and the users share.
struct Parts {
    /// Unique in the process, never 0.
    id: u64,
    engine: Engine,
    domain: Domain<HostCb>,
    queue: Mutex<Queue>,
    wanted: Condvar,
    /// Who waits, by token.
    waits: Mutex<HashMap<u64, Arc<Wake>>>,
    /// Takes no new calls.
    closing: AtomicBool,
    /// Why no grace period can end any more.
    failed: Mutex<Option<Error>>,
    tokens: Tally,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    grace_periods: Tally,
    expedited: Tally,
    auto_expedited: Tally,
    tests: Tally,
    runs: Tally,
    callbacks: Tally,
    panics: Tally,
    wakeups: Tally,
}

/// What happened in a domain so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SrcuCounters {
    /// Grace periods that ended.
    pub grace_periods: u64,
    /// Those that were expedited when they ended.
    pub expedited: u64,
    /// `synchronize()` calls that were expedited by themselves.
    pub auto_expedited: u64,
    /// Zero tests.
    pub zero_tests: u64,
    /// Runs of the work item.
    pub work_runs: u64,
    /// Callbacks invoked.
    pub callbacks: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// Times that the worker woke.
    pub wakeups: u64,
}

/// The work queue: what is due when, ns of the monotonic clock.
#[derive(Default)]
struct Queue {
    /// The `irq_work` of a grace period that began.
    start: bool,
    gp: Option<u64>,
    callbacks: BTreeMap<u32, u64>,
    stop: bool,
}

/// Work that is due.
enum Due {
    Start,
    Gp,
    Callbacks(u32),
}

impl Queue {
    /// What is due now, or when the next thing is.
    fn next(&mut self, now: u64) -> std::result::Result<Due, Option<u64>> {
        if std::mem::take(&mut self.start) {
            return Ok(Due::Start);
        }
        if self.gp.is_some_and(|at| at <= now) {
            self.gp = None;
            return Ok(Due::Gp);
        }
        if let Some((&cpu, _)) = self.callbacks.iter().find(|&(_, &at)| at <= now) {
            self.callbacks.remove(&cpu);
            return Ok(Due::Callbacks(cpu));
        }
        Err(self.gp.into_iter().chain(self.callbacks.values().copied()).min())
    }
}

/// Somebody who waits.
#[derive(Default)]
struct Wake {
    served: Mutex<Option<u64>>,
    woken: Condvar,
}

/// The world of one domain. It only records, as all worlds do.
struct Around<'p>(&'p Parts);

impl Around<'_> {
    fn engine(&self) -> &EngineShared {
        self.0.engine.shared()
    }

    /// When work that is queued now for so many jiffies is due.
    fn due(&self, jiffies: u64) -> u64 {
        let shared = self.engine();
        match shared.timer {
            _ if jiffies == 0 => 0,
            TimerMode::Wheel => {
                let clock = &shared.clock;
                clock.jiffy_at(wheel_expiry(clock.jiffies(), jiffies))
            }
            TimerMode::Hrtimer => monotonic_ns() + jiffies * shared.clock.tick_ns,
        }
    }

    fn queue(&self, change: impl FnOnce(&mut Queue)) {
        crate::sync::assert_unlocked();
        change(&mut self.0.queue.lock());
        self.0.wanted.notify_one();
    }
}

impl World for Around<'_> {
    fn now(&self) -> u64 {
        self.engine().clock.now()
    }

    fn jiffies(&self) -> u64 {
        self.engine().clock.jiffies()
    }

    fn was_online(&self, cpu: u32) -> bool {
        // A virtual CPU without threads of its own has its callbacks carried out all the same.
        cpu < self.engine().tun.nr_cpus
    }

    fn is_contended(&mut self, _lock: Lock) -> bool {
        false
    }

    fn queue_start(&mut self) {
        self.queue(|queue| queue.start = true);
    }

    fn queue_gp(&mut self, delay: u64) {
        let due = self.due(delay);
        self.queue(|queue| {
            queue.gp.get_or_insert(due);
        });
    }

    fn queue_callbacks(&mut self, cpu: u32, delay: u64) {
        let due = self.due(delay);
        self.queue(|queue| {
            let at = queue.callbacks.entry(cpu).or_insert(due);
            *at = due.min(*at);
        });
    }

    fn complete(&mut self, waiter: Waiter, gp_seq: u64) {
        crate::sync::assert_unlocked();
        if let Some(wake) = self.0.waits.lock().remove(&waiter.token()) {
            *wake.served.lock() = Some(gp_seq);
            wake.woken.notify_one();
        }
    }

    fn grace_period_ended(&mut self, record: &GpRecord) {
        let add = |tally: &Tally, by: u64| tally.fetch_add(by, Ordering::Relaxed);
        let c = &self.0.counts;
        add(&c.grace_periods, 1);
        add(&c.expedited, u64::from(record.expedited));
        add(&c.tests, u64::from(record.tests));
        add(&c.runs, u64::from(record.runs));
    }
}

impl Engine {
    /// Opens a domain of SRCU, whose fast or light readers, if it has such, are readers of this engine.
    ///
    /// # Errors
    /// A closed engine; fast or light readers with `preempt=none|voluntary`, where a thread that sleeps in its section
    /// would have to report quiescent states meanwhile; a thread that cannot be started.
    pub fn srcu(&self, flavour: Flavour) -> Result<Srcu> {
        static IDS: Tally = Tally::new(1);
        let shared = self.shared();
        shared.check("srcu")?;
        if flavour.is_slow_gp() && !shared.rcu.is_preemptible() {
            return Err(Error::Misuse {
                call: "srcu",
                reason: "fast and light readers sleep while they are attached to the engine, whose threads have to report \
                         quiescent states"
                    .to_owned(),
                allowed: "preempt=full or lazy, or normal readers",
            });
        }
        /// Only its clock is asked.
        struct Opening<'e>(&'e EngineShared);
        impl World for Opening<'_> {
            fn now(&self) -> u64 {
                self.0.clock.now()
            }
            fn jiffies(&self) -> u64 {
                self.0.clock.jiffies()
            }
            fn was_online(&self, _cpu: u32) -> bool {
                true
            }
            fn is_contended(&mut self, _lock: Lock) -> bool {
                false
            }
            fn queue_start(&mut self) {}
            fn queue_gp(&mut self, _delay: u64) {}
            fn queue_callbacks(&mut self, _cpu: u32, _delay: u64) {}
            fn complete(&mut self, _waiter: Waiter, _gp_seq: u64) {}
        }
        let parts = Arc::new(Parts {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            engine: self.clone(),
            domain: Domain::new(&shared.tun, flavour, &Opening(shared))?,
            queue: Mutex::new(Queue::default()),
            wanted: Condvar::new(),
            waits: Mutex::new(HashMap::new()),
            closing: AtomicBool::new(false),
            failed: Mutex::new(None),
            tokens: Tally::new(0),
            counts: Counts::default(),
        });
        let worker = std::thread::Builder::new()
            .name(format!("treercu-srcu-{}", parts.id))
            .spawn({
                let parts = parts.clone();
                move || parts.work()
            })
            .map_err(|e| Error::Host(format!("cannot start a thread: {e}")))?;
        Ok(Srcu(Arc::new(Owner {
            parts,
            worker: Mutex::new(Some(worker)),
        })))
    }
}

impl Parts {
    fn around(&self) -> Around<'_> {
        Around(self)
    }

    /// The calling thread's virtual CPU.
    fn cpu(&self) -> u32 {
        NUMBER.with(|number| *number) % self.engine.shared().tun.nr_cpus
    }

    fn check(&self, call: &'static str) -> Result<()> {
        if self.engine.shared().is_forked() {
            return self.engine.shared().check(call);
        }
        if self.closing.load(Ordering::SeqCst) {
            return Err(Error::Misuse {
                call,
                reason: "the domain is closed".to_owned(),
                allowed: "an open domain",
            });
        }
        match &*self.failed.lock() {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    fn may_block(&self, call: &'static str) -> Result<()> {
        self.check(call)?;
        if INVOKING.get() == self.id {
            return Err(Error::Misuse {
                call,
                reason: "called from a callback of the domain, which it would wait for".to_owned(),
                allowed: "outside callbacks",
            });
        }
        Ok(())
    }

    /// Counting of a fast or light reader lies in an RCU section; a normal one needs none.
    fn counting<T>(&self, count: impl FnOnce(u32) -> T) -> Result<T> {
        let cpu = self.cpu();
        if !self.domain.flavour().is_slow_gp() {
            return Ok(count(cpu));
        }
        let section = self.engine.read_lock()?;
        let value = count(cpu);
        drop(section);
        Ok(value)
    }

    /// Gives a section back, on whatever thread.
    fn leave(&self, index: Index) {
        // It fails only where the engine is closed: then no grace period will end that counts on it.
        let _ = self.counting(|cpu| self.domain.read_unlock(cpu, index));
    }

    /// Begins a wait and blocks until it is over, or the time has come: `None` then.
    fn wait(
        &self,
        until: Option<Instant>,
        begin: impl FnOnce(u32, Waiter, &mut Around<'_>),
    ) -> Result<Option<u64>> {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let wake = Arc::new(Wake::default());
        self.waits.lock().insert(token, wake.clone());
        begin(self.cpu(), Waiter::new(token), &mut self.around());
        let mut served = wake.served.lock();
        loop {
            if let Some(gp_seq) = *served {
                self.domain.sync_end();
                return Ok(Some(gp_seq));
            }
            if let Some(why) = &*self.failed.lock() {
                return Err(why.clone());
            }
            match until {
                None => wake.woken.wait(&mut served),
                Some(at) => {
                    if wake.woken.wait_until(&mut served, at).timed_out() && served.is_none() {
                        self.waits.lock().remove(&token);
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The worker's life.
    fn work(&self) {
        super::os::precise_timers();
        let mut work = GpWork::default();
        loop {
            let due = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.stop {
                        return;
                    }
                    match queue.next(monotonic_ns()) {
                        Ok(due) => break due,
                        Err(None) => self.wanted.wait(&mut queue),
                        Err(Some(at)) => {
                            let ns = at.saturating_sub(monotonic_ns());
                            self.wanted.wait_for(&mut queue, Duration::from_nanos(ns));
                        }
                    }
                    self.counts.wakeups.fetch_add(1, Ordering::Relaxed);
                }
            };
            match due {
                Due::Start => self.domain.start_work(&mut self.around()),
                Due::Gp => {
                    if let Err(why) = self.run(&mut work) {
                        // In the middle of a zero test that can never be completed: nothing may go on from there.
                        return self.fail(why);
                    }
                }
                Due::Callbacks(cpu) => self.invoke(cpu),
            }
        }
    }

    /// One run of the grace-period work item. Error: RCU has no grace periods any more.
    fn run(&self, work: &mut GpWork) -> Result<()> {
        loop {
            match self.domain.gp_step(work, &mut self.around()) {
                GpWait::Again => {}
                GpWait::Done => return Ok(()),
                GpWait::Spin { us } if us > SPIN_US => std::thread::sleep(Duration::from_micros(us)),
                GpWait::Spin { us } => {
                    let until = monotonic_ns() + us * 1000;
                    while monotonic_ns() < until {
                        spin_loop();
                    }
                }
                GpWait::Rcu { expedited } => {
                    if expedited {
                        self.engine.synchronize_expedited()?;
                    } else {
                        self.engine.synchronize()?;
                    }
                }
            }
            if self.queue.lock().stop {
                return Ok(());
            }
        }
    }

    /// The engine has been closed: whoever waits is told.
    fn fail(&self, why: Error) {
        *self.failed.lock() = Some(why);
        for (_, wake) in self.waits.lock().drain() {
            // Under its lock, so that it is either asleep or yet to look.
            let _served = wake.served.lock();
            wake.woken.notify_one();
        }
    }

    fn invoke(&self, cpu: u32) {
        let Some(mut batch) = self.domain.callback_work(cpu) else {
            return;
        };
        while let Some(callback) = batch.next() {
            match callback {
                Cb::User(callback) => {
                    self.counts.callbacks.fetch_add(1, Ordering::Relaxed);
                    INVOKING.set(self.id);
                    // A panic concerns this callback alone.
                    if catch_unwind(AssertUnwindSafe(|| callback.run())).is_err() {
                        self.counts.panics.fetch_add(1, Ordering::Relaxed);
                    }
                    INVOKING.set(0);
                }
                Cb::Wake(waiter) => {
                    let ended = self.domain.gp_seq() & !seq::SEQ_MASK;
                    self.around().complete(waiter, ended);
                }
                Cb::Barrier => self.domain.barrier_callback(cpu, &mut self.around()),
                Cb::Expedite(of) => self.domain.expedite_callback(of, &mut self.around()),
            }
        }
        batch.finish(&mut self.around());
    }
}

/// An open section. It may be sent to another thread, and held for as long as it takes.
#[must_use = "the section ends when the guard is dropped"]
pub struct SrcuGuard<'d> {
    parts: &'d Parts,
    index: Index,
}

impl Drop for SrcuGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.parts.leave(self.index);
    }
}

/// An open section that borrows nothing (`srcu_down_read()`), for those who cannot name a lifetime.
#[must_use = "the section ends when the guard is dropped"]
pub struct SrcuDownGuard {
    srcu: Srcu,
    index: Index,
}

impl Drop for SrcuDownGuard {
    fn drop(&mut self) {
        self.srcu.parts().leave(self.index);
    }
}

mod sealed {
    /// A proof of an open section of the domain with this number.
    pub trait Sealed {
        fn domain(&self) -> u64;
    }
}

/// A proof that a section of some domain is open.
pub trait SrcuSection: sealed::Sealed {}

impl sealed::Sealed for SrcuGuard<'_> {
    fn domain(&self) -> u64 {
        self.parts.id
    }
}
impl SrcuSection for SrcuGuard<'_> {}
impl sealed::Sealed for SrcuDownGuard {
    fn domain(&self) -> u64 {
        self.srcu.id()
    }
}
impl SrcuSection for SrcuDownGuard {}

pub(super) fn domain_of(section: &impl SrcuSection) -> u64 {
    section.domain()
}

impl Srcu {
    fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// A number that no other domain of this process has.
    pub fn id(&self) -> u64 {
        self.parts().id
    }

    /// Its readers' kind.
    pub fn flavour(&self) -> Flavour {
        self.parts().domain.flavour()
    }

    /// Opens a section (`srcu_read_lock()`); sections nest, and each has its guard.
    ///
    /// # Errors
    /// Fast and light readers: as [`Engine::read_lock`].
    #[inline]
    pub fn read_lock(&self) -> Result<SrcuGuard<'_>> {
        let parts = self.parts();
        let index = parts.counting(|cpu| parts.domain.read_lock(cpu))?;
        Ok(SrcuGuard { parts, index })
    }

    /// Opens a section whose guard borrows nothing (`srcu_down_read()`).
    ///
    /// # Errors
    /// As [`Srcu::read_lock`].
    pub fn down_read(&self) -> Result<SrcuDownGuard> {
        let parts = self.parts();
        let index = parts.counting(|cpu| parts.domain.read_lock(cpu))?;
        Ok(SrcuDownGuard {
            srcu: self.clone(),
            index,
        })
    }

    /// `synchronize_srcu()`: waits until every section of this domain that is open now has ended. A domain that has been
    /// at rest for a while expedites it by itself. Inside a section of the domain it would wait for itself for ever.
    /// Gives the number of the latest grace period that had ended.
    ///
    /// # Errors
    /// A closed domain, a callback of the domain as the caller; fast and light domains: a closed engine.
    pub fn synchronize(&self) -> Result<u64> {
        let parts = self.parts();
        parts.may_block("synchronize")?;
        let served = parts.wait(None, |cpu, waiter, world| {
            let auto = parts.domain.synchronize(cpu, waiter, world);
            parts
                .counts
                .auto_expedited
                .fetch_add(u64::from(auto), Ordering::Relaxed);
        })?;
        Ok(served.expect("there is no deadline"))
    }

    /// `synchronize_srcu_expedited()`: the same in haste.
    ///
    /// # Errors
    /// As [`Srcu::synchronize`].
    pub fn synchronize_expedited(&self) -> Result<u64> {
        let parts = self.parts();
        parts.may_block("synchronize_expedited")?;
        let served = parts.wait(None, |cpu, waiter, world| {
            parts.domain.synchronize_expedited(cpu, waiter, world);
        })?;
        Ok(served.expect("there is no deadline"))
    }

    /// `srcu_barrier()`: waits until every callback queued before has been invoked.
    ///
    /// # Errors
    /// As [`Srcu::synchronize`].
    pub fn barrier(&self) -> Result<()> {
        let parts = self.parts();
        parts.may_block("barrier")?;
        parts.wait(None, |cpu, waiter, world| {
            parts.domain.barrier(cpu, waiter, world)
        })?;
        Ok(())
    }

    /// `call_srcu()`: has `f` called on the domain's thread after a grace period.
    ///
    /// # Errors
    /// A closed domain.
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.queue("call", HostCb::closure(f))
    }

    /// Drops the box after a grace period; no allocation.
    ///
    /// # Errors
    /// A closed domain.
    pub fn defer_drop<T: Send + 'static>(&self, value: Box<T>) -> Result<()> {
        self.queue("defer_drop", HostCb::free(value))
    }

    fn queue(&self, call: &'static str, callback: HostCb) -> Result<()> {
        let parts = self.parts();
        // A callback that is refused leaks, on purpose: readers may be inside.
        parts.check(call)?;
        parts.domain.call(parts.cpu(), callback, &mut parts.around());
        Ok(())
    }

    /// `get_state_synchronize_srcu()`: a cookie; starts nothing.
    pub fn get_state(&self) -> u64 {
        self.parts().domain.get_state(&self.parts().around())
    }

    /// `start_poll_synchronize_srcu()`: a cookie, and a request for the grace period it needs.
    ///
    /// # Errors
    /// A closed domain.
    pub fn start_poll(&self) -> Result<u64> {
        let parts = self.parts();
        parts.check("start_poll")?;
        Ok(parts.domain.start_poll(parts.cpu(), &mut parts.around()))
    }

    /// `poll_state_synchronize_srcu()`: the grace period of this cookie is over.
    pub fn poll_state(&self, cookie: u64) -> bool {
        self.parts().domain.poll_state(cookie)
    }

    /// `srcu_expedite_current()`: the grace period under way, or the next one, hurries.
    ///
    /// # Errors
    /// A closed domain.
    pub fn expedite_current(&self) -> Result<()> {
        let parts = self.parts();
        parts.check("expedite_current")?;
        parts.domain.expedite_current(parts.cpu(), &mut parts.around());
        Ok(())
    }

    /// For tests: leaves a scan out of grace periods, to see whether somebody notices.
    #[doc(hidden)]
    pub fn skip_scan(&self, scan: crate::srcu::Scan) {
        self.parts().domain.skip_scan(scan);
    }

    /// What happened so far.
    pub fn counters(&self) -> SrcuCounters {
        let c = &self.parts().counts;
        let get = |tally: &Tally| tally.load(Ordering::Relaxed);
        SrcuCounters {
            grace_periods: get(&c.grace_periods),
            expedited: get(&c.expedited),
            auto_expedited: get(&c.auto_expedited),
            zero_tests: get(&c.tests),
            work_runs: get(&c.runs),
            callbacks: get(&c.callbacks),
            panics: get(&c.panics),
            wakeups: get(&c.wakeups),
        }
    }

    /// The line that rcutorture prints about a domain. With `convert_to_big=2` it makes the domain grow.
    pub fn torture_stats(&self) -> String {
        self.parts().domain.torture_stats()
    }

    /// Closes the domain: refuses new requests, invokes the callbacks that wait, ends its thread.
    ///
    /// # Errors
    /// What was not over at the deadline (`cleanup_srcu_struct()`'s conditions): then callbacks are leaked, never invoked
    /// early.
    pub fn close(&self, deadline: Duration) -> Result<()> {
        self.0.close(deadline)
    }
}

impl Owner {
    fn close(&self, deadline: Duration) -> Result<()> {
        let parts = &self.parts;
        if INVOKING.get() == parts.id {
            return Err(Error::Misuse {
                call: "close",
                reason: "called from a callback of the domain, which it would wait for".to_owned(),
                allowed: "outside callbacks",
            });
        }
        if parts.closing.swap(true, Ordering::SeqCst) || parts.engine.shared().is_forked() {
            return Ok(());
        }
        let until = Instant::now() + deadline;
        let mut clean = Ok(());
        if parts.failed.lock().is_none() {
            parts.wait(Some(until), |cpu, waiter, world| {
                parts.domain.barrier(cpu, waiter, world)
            })?;
            loop {
                clean = parts.domain.check_cleanup(parts.around().jiffies());
                if clean.is_ok() || Instant::now() >= until || parts.failed.lock().is_some() {
                    break;
                }
                // A grace period that was asked for without a callback, or a reader that is on its way out.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.stop();
        clean.map_err(|left| Error::Misuse {
            call: "close",
            reason: format!("not everything was over at the deadline: {left:?}"),
            allowed: "no reader inside, no request under way",
        })
    }

    fn stop(&self) {
        self.parts.queue.lock().stop = true;
        self.parts.wanted.notify_one();
        if let Some(worker) = self.worker.lock().take()
            && worker.thread().id() != std::thread::current().id()
        {
            let _ = worker.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.parts.engine.shared().is_forked() {
            return; // The thread stayed behind.
        }
        if INVOKING.get() == self.parts.id {
            // The last handle was in a callback, whose thread cannot wait for itself.
            self.parts.closing.store(true, Ordering::SeqCst);
            self.stop();
        } else {
            let _ = self.close(DROP_DEADLINE);
        }
    }
}

impl std::fmt::Debug for Srcu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Srcu({}, {:?})", self.id(), self.flavour())
    }
}
