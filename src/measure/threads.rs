//! One run: threads are started, wait at the gate, do their part of the workload, and are gathered.
//!
//! Every thread belongs to the run; none outlives [`run`]. The calling thread watches: the cancel flag,
//! progress, and the end of the last bounded part. To end a run it sets `stop`, has the subject wake its
//! waiters, and wakes sleepers; every loop of a part looks at `stop`.

use super::gate::{Clock, Gate};
use super::log::{Budget, Log, Merged, merge};
use super::published::Published;
use super::subject::{Subject, SubjectThread, Tally};
use super::{callbacks, flood, hotplug, load, readers};
use crate::control::{Control, Progress, RunOptions, thread_cpu_ns};
use crate::error::{Error, Result};
use crate::random::{Purpose, Stream};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::workload::{Part, Placement, SyncFlood, Workload};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How often the watching thread looks at the cancel flag and at progress.
const WATCH: Duration = Duration::from_millis(5);
/// Stack of a workload's thread, bytes.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// What all threads of a run share.
pub(super) struct Shared<'s, S: Subject> {
    pub subject: &'s S,
    /// Length of a jiffy, ns.
    pub tick_ns: u64,
    /// The pointer that readers follow; `None` without readers.
    pub published: Option<Published>,
    /// CPUs online at the start.
    pub maxcpus: u32,
    /// Which CPUs are online now.
    pub online: Mutex<Vec<bool>>,
    /// Everything ends.
    pub stop: AtomicBool,
    /// Threads of bounded parts that are not done.
    live: AtomicU64,
    /// When the last of them was done, ns.
    ended_ns: AtomicU64,
    failure: Mutex<Option<Error>>,
    gate: Gate,
    watcher: Thread,
}

impl<S: Subject> Shared<'_, S> {
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The first failure counts; the run ends.
    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        drop(failure);
        self.stop.store(true, Ordering::Relaxed);
        self.gate.shut();
        self.subject.kick();
        self.watcher.unpark();
    }

    /// A thread of a bounded part is done.
    fn part_done(&self, now_ns: u64) {
        self.ended_ns.fetch_max(now_ns, Ordering::Relaxed);
        // Release: whoever sees the last one gone sees all times.
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.watcher.unpark();
        }
    }
}

/// What one thread does.
#[derive(Clone)]
pub(super) struct Job<'p> {
    pub part: &'p Part,
    /// Index of the part, for its streams of random numbers.
    pub index: u32,
    /// Number of the thread within its part.
    pub number: u64,
    /// Task number counted over the floods; for the others what comes after them.
    pub task: u32,
    pub cpu: u32,
    /// When it begins, ns after the start.
    pub begin_ns: u64,
    /// Where its callbacks are counted.
    pub tally: Option<Arc<Tally>>,
}

/// A thread at work.
pub(super) struct Worker<'r, 's, S: Subject> {
    pub run: &'r Shared<'s, S>,
    pub job: Job<'r>,
    pub thread: S::Thread<'s>,
    pub clock: Clock,
    /// Calls made so far, for whoever watches.
    pub done: &'r AtomicU64,
}

impl<S: Subject> Worker<'_, '_, S> {
    /// Sleeps until that time of the run, out of the subject's sight, or until the run ends.
    pub fn sleep_until(&mut self, at_ns: u64) {
        let (run, clock) = (self.run, self.clock);
        self.thread.away(|| {
            while !run.stopped() {
                let now = clock.now();
                if now >= at_ns {
                    break;
                }
                std::thread::park_timeout(Duration::from_nanos(at_ns - now));
            }
        });
    }

    /// Keeps the processor busy until that time, or until the run ends.
    pub fn spin_until(&self, at_ns: u64) {
        while self.clock.now() < at_ns && !self.run.stopped() {
            std::hint::spin_loop();
        }
    }

    pub fn stream(&self, purpose: Purpose, seed: u64) -> Stream {
        Stream::new(seed, purpose, u64::from(self.job.index) << 32 | self.job.number)
    }
}

/// What a run leaves, before the subject's own part.
pub(super) struct Gathered {
    pub merged: Merged,
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub interrupted: bool,
    pub callbacks_queued: u64,
    pub callbacks_invoked: u64,
    pub caught: u64,
    /// When the run started, on the monotonic clock.
    pub start: Option<std::time::Instant>,
}

/// The threads of a workload: where they belong and when they begin.
fn jobs(workload: &Workload, online: u32, seed: u64) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    for (index, part) in workload.parts.iter().enumerate() {
        let (tasks, placement, skew_ns) = match part {
            Part::SyncFlood(flood) => (flood.tasks, flood.placement, flood.start_skew_ns),
            Part::Readers(readers) => (readers.tasks, readers.placement, 0),
            Part::CallRcuFlood(flood) => (flood.tasks, flood.placement, 0),
            Part::CpuLoad(_)
            | Part::Hotplug(_)
            | Part::HotplugSweep(_)
            | Part::PeriodicInterrupt(_)
            | Part::SrcuFlood(_) => (0, Placement::Spread, 0),
        };
        // The same draws as in a simulated run: a seed means the same placement in both worlds.
        let mut place = Stream::new(seed, Purpose::Placement, index as u64);
        let mut start = Stream::new(seed, Purpose::Start, index as u64);
        let first = place.below(u64::from(online));
        let tally = matches!(part, Part::CallRcuFlood(_)).then(Arc::default);
        let mut add = |number: u64, cpu: u64, begin_ns: u64| {
            jobs.push(Job {
                part,
                index: index as u32,
                number,
                task: 0,
                cpu: cpu as u32,
                begin_ns,
                tally: tally.clone(),
            });
        };
        for number in 0..tasks {
            let cpu = match placement {
                Placement::Spread => (first + number) % u64::from(online),
                Placement::Random => place.below(u64::from(online)),
                Placement::Cpu(cpu) => u64::from(cpu),
            };
            add(number, cpu, start.below(skew_ns));
        }
        match part {
            Part::CpuLoad(load) => {
                for (number, cpu) in load.cpus.resolve(online).into_iter().enumerate() {
                    add(number as u64, u64::from(cpu), 0);
                }
            }
            Part::Hotplug(_) => add(0, 0, 0),
            _ => {}
        }
    }
    let is_flood = |job: &Job<'_>| matches!(job.part, Part::SyncFlood(_));
    let floods = jobs.iter().filter(|job| is_flood(job)).count() as u32;
    let (mut flood, mut other) = (0, floods);
    for job in &mut jobs {
        let next = if is_flood(job) { &mut flood } else { &mut other };
        job.task = *next;
        *next += 1;
    }
    jobs
}

/// Number of threads that a workload takes.
pub(super) fn threads(workload: &Workload, online: u32) -> u64 {
    workload.parts.iter().fold(0u64, |sum, part| {
        sum.saturating_add(match part {
            Part::SyncFlood(flood) => flood.tasks,
            Part::Readers(readers) => readers.tasks,
            Part::CallRcuFlood(flood) => flood.tasks,
            Part::CpuLoad(load) => load.cpus.resolve(online).len() as u64,
            Part::Hotplug(_) => 1,
            Part::PeriodicInterrupt(_) | Part::HotplugSweep(_) | Part::SrcuFlood(_) => 0,
        })
    })
}

/// Runs the workload on real threads.
pub(super) fn run<S: Subject>(
    subject: &S,
    tunables: &crate::config::Tunables,
    workload: &Workload,
    seed: u64,
    options: &RunOptions,
    control: &Control,
) -> Result<Gathered> {
    let online = tunables.maxcpus;
    let jobs = jobs(workload, online, seed);
    let floods = jobs
        .iter()
        .filter(|job| matches!(job.part, Part::SyncFlood(_)))
        .count();
    let reading = workload.parts.iter().any(|part| matches!(part, Part::Readers(_)));
    let bounded = jobs.iter().filter(|job| job.part.is_bounded()).count();
    let shared = Shared {
        subject,
        tick_ns: 1_000_000_000 / u64::from(tunables.hz),
        maxcpus: online,
        published: reading.then(|| Published::new(floods)),
        online: Mutex::new((0..tunables.nr_cpus).map(|cpu| cpu < online).collect()),
        stop: AtomicBool::new(false),
        live: AtomicU64::new(bounded as u64),
        ended_ns: AtomicU64::new(0),
        failure: Mutex::new(None),
        gate: Gate::new(),
        watcher: std::thread::current(),
    };
    let budget = Budget::new(options.memory_limit_mb);
    let done: Vec<CachePadded<AtomicU64>> = jobs.iter().map(|_| CachePadded::default()).collect();
    let progress = Progress::of(workload);
    control.total.store(progress.total, Ordering::Relaxed);

    let mut cancelled = false;
    let mut start = None;
    let (logs, cpu_ns) = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(jobs.len());
        for (job, done) in jobs.iter().zip(&done) {
            let (shared, budget) = (&shared, &budget);
            let started = std::thread::Builder::new()
                .name(format!("treercu-w{}", job.task))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || {
                    work(shared, job.clone(), seed, options, budget, done)
                });
            match started {
                Ok(handle) => handles.push(handle),
                Err(err) => {
                    shared.fail(Error::Host(format!(
                        "cannot start thread {} of {}: {err}",
                        handles.len() + 1,
                        jobs.len()
                    )));
                    break;
                }
            }
        }
        let is_cancelled = || control.cancel.load(Ordering::Relaxed);
        if let Some(clock) = shared.gate.open(jobs.len(), is_cancelled) {
            start = Some(clock.start);
            cancelled = watch(&shared, control, progress, clock, &done);
        } else {
            cancelled = is_cancelled();
        }
        shared.stop.store(true, Ordering::Relaxed);
        for tally in jobs.iter().filter_map(|job| job.tally.as_ref()) {
            tally.over.store(true, Ordering::Relaxed);
        }
        shared.subject.kick();
        for handle in &handles {
            handle.thread().unpark();
        }
        let mut logs = Vec::with_capacity(floods);
        let mut cpu_ns = 0;
        for handle in handles {
            match handle.join() {
                Ok((log, cpu)) => {
                    logs.extend(log);
                    cpu_ns += cpu;
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (logs, cpu_ns)
    });
    let failure = shared
        .failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(error) = failure {
        return Err(error);
    }
    let wall_ns = match (cancelled, start) {
        (_, None) => 0,
        (true, Some(start)) => start.elapsed().as_nanos() as u64,
        (false, Some(_)) => shared.ended_ns.load(Ordering::Relaxed),
    };
    let mut seen: Vec<&Arc<Tally>> = Vec::new();
    for tally in jobs.iter().filter_map(|job| job.tally.as_ref()) {
        if !seen.iter().any(|known| Arc::ptr_eq(known, tally)) {
            seen.push(tally);
        }
    }
    let count = |what: fn(&Tally) -> &AtomicU64| seen.iter().map(|t| what(t).load(Ordering::Relaxed)).sum();
    Ok(Gathered {
        merged: merge(logs, options.keep, Stream::new(seed, Purpose::Merge, 0)),
        wall_ns,
        cpu_ns,
        interrupted: cancelled,
        callbacks_queued: count(|tally| &tally.queued),
        callbacks_invoked: count(|tally| &tally.invoked),
        caught: shared.published.as_ref().map_or(0, Published::caught),
        start,
    })
}

/// Until the bounded parts are over, or somebody fails or cancels; true: cancelled.
fn watch<S: Subject>(
    shared: &Shared<'_, S>,
    control: &Control,
    progress: Progress,
    clock: Clock,
    done: &[CachePadded<AtomicU64>],
) -> bool {
    let report = |all: bool| {
        let so_far = if progress.by_calls {
            done.iter().map(|count| count.load(Ordering::Relaxed)).sum()
        } else if all {
            progress.total
        } else {
            clock.now().min(progress.total)
        };
        control.done.store(so_far, Ordering::Relaxed);
    };
    loop {
        if shared.live.load(Ordering::Acquire) == 0 {
            report(true);
            return false;
        }
        if shared.stopped() {
            return false;
        }
        if control.cancel.load(Ordering::Relaxed) {
            report(false);
            return true;
        }
        report(false);
        std::thread::park_timeout(WATCH);
    }
}

/// Ends the run if its thread panics, so that no other thread waits for it.
struct OnPanic<'r, 's, S: Subject>(&'r Shared<'s, S>);

impl<S: Subject> Drop for OnPanic<'_, '_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .fail(Error::Engine("a workload thread panicked".to_owned()));
        }
    }
}

/// The life of one thread; gives its calls and its CPU time.
fn work<'r, 's, S: Subject>(
    shared: &'r Shared<'s, S>,
    job: Job<'r>,
    seed: u64,
    options: &RunOptions,
    budget: &'r Budget,
    done: &'r AtomicU64,
) -> (Option<Log<'r>>, u64) {
    let _on_panic = OnPanic(shared);
    precise_sleep();
    let cpus = shared.subject.abilities().cpus;
    let mut log = None;
    if let Part::SyncFlood(SyncFlood { calls, .. }) = job.part {
        let random = Stream::new(seed, Purpose::Sample, u64::from(job.task));
        let cpu = if cpus { job.cpu as i32 } else { -1 };
        match Log::new(job.task as i32, cpu, options.keep, *calls, budget, random) {
            Ok(made) => log = Some(made),
            Err(error) => {
                shared.fail(error);
                return (None, 0);
            }
        }
    }
    let thread = match shared.subject.register(job.cpu) {
        Ok(thread) => thread,
        Err(error) => {
            shared.fail(error);
            return (None, 0);
        }
    };
    let mut worker = Worker {
        run: shared,
        job,
        thread,
        clock: Clock {
            start: std::time::Instant::now(),
        },
        done,
    };
    let Some(clock) = worker.thread.away(|| shared.gate.pass()) else {
        return (None, 0);
    };
    worker.clock = clock;
    let began = thread_cpu_ns();
    if worker.job.begin_ns > 0 {
        worker.sleep_until(worker.job.begin_ns);
    }
    let part = worker.job.part;
    let outcome = match part {
        Part::SyncFlood(flood) => {
            let log = log.as_mut().expect("made above");
            flood::run(&mut worker, flood, log)
        }
        Part::CpuLoad(load) => load::run(&mut worker, load),
        Part::Readers(readers) => readers::run(&mut worker, readers, seed),
        Part::CallRcuFlood(flood) => callbacks::run(&mut worker, flood, seed),
        Part::Hotplug(hotplug) => hotplug::run(&mut worker, hotplug, seed),
        Part::PeriodicInterrupt(_) | Part::HotplugSweep(_) | Part::SrcuFlood(_) => {
            unreachable!("refused before the run")
        }
    };
    match outcome {
        Ok(()) if part.is_bounded() => shared.part_done(worker.clock.now()),
        Ok(()) => {}
        Err(error) => shared.fail(error),
    }
    (log, thread_cpu_ns() - began)
}

/// Sleeps of this thread end when they are due, not up to 50 us later.
fn precise_sleep() {
    #[cfg(target_os = "linux")]
    {
        // Where it is refused, sleeps are as coarse as before.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}
