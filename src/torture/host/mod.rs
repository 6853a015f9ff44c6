//! The driver on real threads.
//!
//! | file | threads |
//! |---|---|
//! | `writer.rs` | the writer, the fake writers |
//! | `reader.rs` | readers, and readers that exit |
//! | `barrier.rs` | barrier test |
//! | `forward.rs` | forward-progress test |
//! | `onoff.rs` | virtual CPUs that come and go |
//! | `stall.rs` | stall injection |
//! | `gp.rs` | waiting by each kind of grace period |
//! | `rig.rs` | what they share |
//! | `subject.rs` | what is asked of the RCU under test |
//! | `engine.rs` | the engine as such |
//! | [`busted`], [`trivial`] | two RCUs to try the driver on: one that must fail, one that must not |

mod barrier;
pub mod busted;
mod engine;
mod forward;
mod gp;
mod onoff;
mod reader;
mod rig;
mod stall;
mod subject;
pub mod trivial;
mod writer;

pub use subject::{Callback, Session, Subject};

use super::World;
use super::plan::Plan;
use super::random::Random;
use super::report::{Report, Scribe};
use super::scenario::Flavour;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::host::{Engine, Options};
use crate::sync::{AtomicBool, Ordering::Relaxed};
use rig::Rig;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the driver looks at the clock and at the cancel flag.
const LOOK: Duration = Duration::from_millis(5);
/// How long callbacks may take to come at the end, and after a cancel.
const END: Duration = Duration::from_secs(30);
const CANCELLED: Duration = Duration::from_millis(50);

/// Cores of this host.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Runs a plan against the subject that its scenario names.
pub(super) fn run(plan: Plan, control: &Control) -> Result<Report> {
    match plan.scenario.flavour {
        Flavour::Rcu => {
            let engine = Engine::new(&plan.config, &Options::default())?;
            torture(engine, plan, control)
        }
        Flavour::Trivial => torture(trivial::Trivial::new()?, plan, control),
        Flavour::Busted => torture(busted::Busted::default(), plan, control),
    }
}

type Work<S> = Box<dyn FnOnce(&Arc<Rig<S>>, &mut Random) -> Result<()> + Send>;

struct Crew<S: Subject> {
    rig: Arc<Rig<S>>,
    threads: Vec<(&'static str, JoinHandle<Result<()>>)>,
}

impl<S: Subject> Crew<S> {
    /// Starts a thread with a random stream of its own.
    fn start(&mut self, name: &'static str, work: Work<S>) -> Result<()> {
        let rig = self.rig.clone();
        let mut random = Random::new(rig.plan.seed, self.threads.len() as u64);
        let thread = std::thread::Builder::new()
            // The system shows 15 characters.
            .name(name.replace("rcu_torture_", "rcut_"))
            .spawn(move || work(&rig, &mut random))
            .map_err(|err| Error::Engine(format!("cannot start a thread: {err}")))?;
        self.threads.push((name, thread));
        Ok(())
    }

    fn start_all(&mut self) -> Result<()> {
        let plan = self.rig.plan.clone();
        for index in 0..plan.readers as usize {
            self.start(
                "rcu_torture_reader",
                Box::new(move |rig, random| reader::reader(rig, index, random)),
            )?;
        }
        self.start("rcu_torture_writer", Box::new(writer::writer))?;
        for index in 0..plan.fakewriters as usize {
            self.start(
                "rcu_torture_fakewriter",
                Box::new(move |rig, random| writer::fake_writer(rig, index, random)),
            )?;
        }
        if plan.barrier_cbs > 0 {
            let rounds = Arc::new(barrier::Rounds::default());
            for _ in 0..plan.barrier_cbs {
                let rounds = rounds.clone();
                self.start(
                    "rcu_torture_barrier_cbs",
                    Box::new(move |rig, random| barrier::poster(rig, &rounds, random)),
                )?;
            }
            self.start(
                "rcu_torture_barrier",
                Box::new(move |rig, random| barrier::barrier(rig, &rounds, random)),
            )?;
        }
        for index in 0..plan.fwd_progress as usize {
            self.start(
                "rcu_torture_fwd_prog",
                Box::new(move |rig, random| forward::forward(rig, index, random)),
            )?;
        }
        if plan.read_exit_burst > 0 {
            self.start("rcu_torture_read_exit", Box::new(reader::read_exit))?;
        }
        if plan.onoff_every_ns > 0 {
            self.start("torture_onoff", Box::new(onoff::onoff))?;
        }
        if plan.stall_ns > 0 {
            self.start("rcu_torture_stall", Box::new(stall::stall))?;
        }
        Ok(())
    }

    /// Has everybody stop and waits for them.
    fn stop(&mut self) {
        self.rig.stop();
        for (name, thread) in self.threads.drain(..) {
            // Whoever was about to block when the flag was set is kicked once more.
            while !thread.is_finished() {
                self.rig.subject.kick();
                std::thread::sleep(Duration::from_micros(200));
            }
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.rig.ledger.warn(|| format!("{name}: {error}")),
                Err(_) => self.rig.ledger.warn(|| format!("{name}: panicked")),
            }
        }
    }
}

/// Tortures `subject` as planned. What goes wrong is in the report.
///
/// # Errors
///
/// [`Error::Engine`] when no thread can be started.
pub fn torture<S: Subject>(subject: S, mut plan: Plan, control: &Control) -> Result<Report> {
    plan.leave_out(|kind| subject.refuses(kind));
    if plan.stall_ns > 0 && subject.stalls().is_none() {
        plan.skip("stall_cpu's report", "stalls are not reported yet");
    }
    let mut scribe = Scribe::start(&plan);
    let rig = Arc::new(Rig::new(subject, plan.clone()));
    let mut crew = Crew {
        rig: rig.clone(),
        threads: Vec::new(),
    };
    control.total.store(plan.run_ns, Relaxed);
    let started = crew.start_all();
    let interrupted = started.is_ok() && attend(&rig, control, &mut scribe);
    let ran_ns = rig.now_ns();
    crew.stop();
    if let Err(error) = started {
        let _ = rig.subject.close(false, CANCELLED);
        return Err(error);
    }
    finish(&rig, interrupted);
    Ok(scribe.end(plan, World::Host, &rig.ledger, ran_ns, interrupted))
}

/// The driver's own part while the threads work: clock, statistics, stutter, stalls. True: cancelled.
fn attend<S: Subject>(rig: &Rig<S>, control: &Control, scribe: &mut Scribe) -> bool {
    let plan = &rig.plan;
    let mut printed = 0;
    let mut stalls = 0;
    loop {
        let now = rig.now_ns();
        control.done.store(now.min(plan.run_ns), Relaxed);
        if control.cancel.load(Relaxed) {
            return true;
        }
        if now >= plan.run_ns {
            return false;
        }
        if now / plan.stat_ns > printed {
            printed = now / plan.stat_ns;
            let state = writer::state_name(rig.writer_state.load(Relaxed));
            scribe.stats(&rig.ledger.counters(), state, rig.subject.gp_seq());
        }
        // Run for `stutter`, pause for a quarter of it; an injected stall is not interrupted.
        let phase = now % (plan.stutter_ns + plan.stutter_ns / 4);
        rig.pause(phase >= plan.stutter_ns);
        let seen = rig.subject.stalls().unwrap_or(0);
        if seen > stalls && !rig.stalling.load(Relaxed) {
            rig.ledger
                .warn(|| format!("{} stalls that nobody injected", seen - stalls));
        }
        stalls = seen;
        std::thread::sleep(LOOK);
    }
}

/// All threads are gone: wait for the callbacks that are on their way, and close.
fn finish<S: Subject>(rig: &Arc<Rig<S>>, interrupted: bool) {
    rig.ledger
        .stalls
        .store(rig.subject.stalls().unwrap_or(0), Relaxed);
    if !interrupted {
        flush(rig);
    }
    rig.ledger.pipe.retract();
    let deadline = if interrupted { CANCELLED } else { END };
    if let Err(error) = rig.subject.close(!interrupted, deadline)
        && !interrupted
    {
        rig.ledger.warn(|| format!("closing: {error}"));
    }
}

fn flush<S: Subject>(rig: &Arc<Rig<S>>) {
    let cancel = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while !done.load(Relaxed) && began.elapsed() < END {
                std::thread::sleep(LOOK);
            }
            cancel.store(true, Relaxed);
            rig.subject.kick();
        });
        let outcome = rig.register(0).and_then(|mut session| session.barrier(&cancel));
        done.store(true, Relaxed);
        outcome
    });
    match outcome {
        Ok(true) => {}
        Ok(false) => rig
            .ledger
            .warn(|| format!("callbacks did not come within {} s", END.as_secs())),
        Err(error) => rig.ledger.warn(|| format!("the last barrier: {error}")),
    }
}
