//! What the threads of a run have in common: the subject, the plan, the ledger, when to stop and when
//! to pause.

use super::subject::{Session, Subject};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, Ordering::Relaxed};
use crate::torture::ledger::Ledger;
use crate::torture::plan::Plan;
use std::time::{Duration, Instant};

/// Everything shared.
pub(super) struct Rig<S: Subject> {
    pub subject: S,
    pub plan: Plan,
    pub ledger: Ledger,
    pub began: Instant,
    /// The test is over. Blocked calls of the subject look at it too.
    pub stop: AtomicBool,
    /// Stutter: everybody pauses.
    paused: AtomicBool,
    /// For sleepers.
    sleep: Mutex<()>,
    wake: Condvar,
    /// A callback flood is on: no long delays.
    pub flood: AtomicBool,
    /// What the writer is doing, by number.
    pub writer_state: AtomicU32,
    /// When the next long delay of any reader is due, ns since the start.
    pub next_long_ns: AtomicU64,
    /// CPUs that threads may register on: online, and not about to go.
    cpus: Mutex<Vec<bool>>,
    /// The injected stall is on.
    pub stalling: AtomicBool,
}

impl<S: Subject> Rig<S> {
    pub(super) fn new(subject: S, plan: Plan) -> Self {
        let readers = plan.readers as usize;
        // The writer and the fake writers, each with one grace period at a time.
        let updaters = 1 + plan.fakewriters as usize;
        let cpus = plan.config.tunables().maxcpus as usize;
        Rig {
            subject,
            ledger: Ledger::new(readers, updaters),
            began: Instant::now(),
            stop: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            sleep: Mutex::default(),
            wake: Condvar::new(),
            flood: AtomicBool::new(false),
            writer_state: AtomicU32::new(0),
            next_long_ns: AtomicU64::new(plan.long_every_ns / 2),
            cpus: Mutex::new(vec![true; cpus]),
            stalling: AtomicBool::new(false),
            plan,
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Sleeps; sooner awake when the test is over. False: it is.
    pub(super) fn nap(&self, ns: u64) -> bool {
        let until = Instant::now() + Duration::from_nanos(ns);
        if ns < 1_000_000 {
            // Too short to be worth a wake-up before its time.
            std::thread::sleep(Duration::from_nanos(ns));
            return !self.stopped();
        }
        let mut guard = self.sleep.lock();
        while !self.stopped() {
            if self.wake.wait_until(&mut guard, until).timed_out() {
                return !self.stopped();
            }
        }
        false
    }

    /// Spins; shorter when the test is over.
    pub(super) fn spin(&self, ns: u64) {
        let began = Instant::now();
        while (began.elapsed().as_nanos() as u64) < ns && !self.stopped() {
            std::hint::spin_loop();
        }
    }

    /// Sleeps as a registered thread that no grace period has to wait for. False: the test is over.
    pub(super) fn rest(&self, session: &mut S::Session, ns: u64) -> bool {
        session.outside(|| self.nap(ns))
    }

    /// Waits as a registered thread while everybody pauses. False: the test is over.
    pub(super) fn pause_point(&self, session: &mut S::Session) -> bool {
        if !self.paused.load(Relaxed) {
            return !self.stopped();
        }
        session.outside(|| self.stutter())
    }

    /// Waits while everybody pauses. False: the test is over.
    pub(super) fn stutter(&self) -> bool {
        if self.paused.load(Relaxed) {
            let mut guard = self.sleep.lock();
            while self.paused.load(Relaxed) && !self.stopped() {
                self.wake.wait(&mut guard);
            }
        }
        !self.stopped()
    }

    /// Pauses everybody, or lets them go on.
    pub(super) fn pause(&self, paused: bool) {
        let _guard = self.sleep.lock();
        self.paused.store(paused, Relaxed);
        self.wake.notify_all();
    }

    /// The test is over: everybody who sleeps or waits comes back.
    pub(super) fn stop(&self) {
        {
            let _guard = self.sleep.lock();
            self.stop.store(true, Relaxed);
            self.wake.notify_all();
        }
        self.subject.kick();
    }

    /// The CPU is (not) to be used by threads that register from now on.
    pub(super) fn set_online(&self, cpu: u32, online: bool) {
        self.cpus.lock()[cpu as usize] = online;
    }

    /// A session on the first usable CPU from `cpu` on.
    pub(super) fn register(&self, cpu: u64) -> Result<S::Session> {
        let chosen = {
            let cpus = self.cpus.lock();
            let from = (cpu % cpus.len() as u64) as usize;
            (from..cpus.len())
                .chain(0..from)
                .find(|&cpu| cpus[cpu])
                .unwrap_or(0)
        };
        self.subject.register(chosen as u32)
    }

    /// The answer of a call that waits; an error is a broken promise. False: nothing was waited for.
    pub(super) fn waited(&self, who: &str, outcome: Result<bool>) -> bool {
        match outcome {
            Ok(done) => done,
            Err(error) => {
                self.ledger.warn(|| format!("{who}: {error}"));
                // Whatever is wrong, it is not to be tried without end.
                self.nap(10_000_000);
                false
            }
        }
    }

    /// Waits for a grace period of the subject, normal or expedited.
    pub(super) fn wait(&self, who: &str, session: &mut S::Session, expedited: bool) -> bool {
        let outcome = if expedited {
            session.synchronize_expedited(&self.stop)
        } else {
            session.synchronize(&self.stop)
        };
        self.waited(who, outcome)
    }
}
