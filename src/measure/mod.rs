//! Measuring on real threads: the workloads of [`crate::workload`], the same [`Run`], and real time.
//!
//! What is measured is a *subject*: this crate's engine or another library, chosen by [`EngineKind`]. Every task of the workload
//! is a thread; all start together, write their calls into memory that is there before the start, and read
//! the clock twice a call. Nothing else happens on them: no lock is taken, nothing is allocated, nothing is
//! reported.
//!
//! Where a workload has readers, the floods of the same run keep replacing what the readers look at, and a
//! reader that sees an element after its grace period fails the run: each measurement checks that what it
//! measures does protect.
//!
//! | file | what |
//! |---|---|
//! | `threads.rs` | one run: start, watch, cancel, gather |
//! | `gate.rs` | the line from which all threads start, and the clock |
//! | `log.rs` | where a thread writes its calls |
//! | `published.rs` | the protected pointer, and the check on it |
//! | `flood.rs`, `readers.rs`, `load.rs`, `callbacks.rs`, `hotplug.rs` | the parts of a workload |
//! | `subject/` | what is measured |
//!
//! An interrupt has no thread, so `periodic-interrupt` is refused, and so is `deferred_percent` of
//! readers: threads of a process cannot disable preemption.

mod callbacks;
mod flood;
mod gate;
mod hotplug;
mod load;
mod log;
mod published;
mod readers;
mod subject;
#[cfg(test)]
mod tests;
mod threads;

use crate::config::Config;
use crate::control::MIB;
pub use crate::control::{Control, RunOptions};
use crate::error::{Error, Result};
use crate::host::{self, FenceMode, HostFacts, TimerMode};
use crate::random::{Purpose, Stream};
use crate::stats::{Keep, Measured, Run, World};
use crate::workload::{Part, SyncCallKind, Workload};
use subject::{Abilities, CrossbeamEpoch, Describe, Flavour, Liburcu, Seize, Subject, Treercu};

/// Hard limit on the threads of one measurement.
pub const MAX_REAL_TASKS: u64 = 4096;
/// Memory of a thread besides its calls, bytes: the part of its stack that is used, its entries with the
/// kernel and the C library.
const BYTES_PER_THREAD: u64 = 48 << 10;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// This crate's own.
    Treercu,
    /// The crate crossbeam-epoch.
    CrossbeamEpoch,
    /// The crate seize.
    Seize,
    /// liburcu, flavour memb, loaded at run time.
    LiburcuMemb,
    /// liburcu, flavour qsbr, loaded at run time.
    LiburcuQsbr,
}

impl EngineKind {
    /// Names and values.
    pub const ALL: [(&'static str, EngineKind); 5] = [
        ("treercu", EngineKind::Treercu),
        ("crossbeam-epoch", EngineKind::CrossbeamEpoch),
        ("seize", EngineKind::Seize),
        ("liburcu-memb", EngineKind::LiburcuMemb),
        ("liburcu-qsbr", EngineKind::LiburcuQsbr),
    ];

    /// The name used in output.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, kind)| *kind == self);
        named.expect("every value is listed").0
    }
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is measured.
    pub engine: EngineKind,
    /// Memory limit, what is kept, and how much of a trace.
    pub run: RunOptions,
    /// What orders readers against a grace period (`treercu` only).
    pub fence: FenceMode,
    /// How timeouts of the grace-period thread are rounded (`treercu` only).
    pub timer: TimerMode,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: EngineKind::Treercu,
            run: RunOptions::default(),
            fence: FenceMode::Auto,
            timer: TimerMode::Wheel,
        }
    }
}

/// Measures a workload on real threads.
///
/// `seed` decides placement (of the grace-period thread too), starts and drawn lengths, as in a simulated run;
/// what the threads make of them is theirs. A cancelled run comes back with what it has, `interrupted` set.
///
/// # Errors
///
/// [`Error::Config`] where config and workload do not fit each other, where the workload makes no sense on
/// real threads or asks for what the engine has not, or where liburcu is not installed; [`Error::Memory`]
/// before or during the run; [`Error::Host`] where a thread cannot be started; [`Error::Engine`] where a
/// reader was not protected.
pub fn measure(
    config: &Config,
    workload: &Workload,
    seed: u64,
    options: &Options,
    control: &Control,
) -> Result<Run> {
    check(config, workload, options)?;
    let tunables = config.tunables();
    let tasks = threads::threads(workload, tunables.maxcpus);
    let job = Job {
        config,
        workload,
        seed,
        options,
        control,
    };
    match options.engine {
        EngineKind::Treercu => {
            let options = host::Options {
                fence: options.fence,
                timer: options.timer,
                trace_limit: options.run.trace_limit,
                // As in a simulated run: a seed means the same placement in both worlds.
                gp_kthread_cpu: Some(
                    Stream::new(seed, Purpose::Kthread, 0).below(u64::from(tunables.maxcpus)) as u32,
                ),
                ..host::Options::default()
            };
            job.run(Treercu::open(config, &options)?)
        }
        EngineKind::CrossbeamEpoch => job.run(CrossbeamEpoch::new()),
        EngineKind::Seize => job.run(Seize::new(tasks as usize)),
        EngineKind::LiburcuMemb => job.run(Liburcu::load(Flavour::Memb)?),
        EngineKind::LiburcuQsbr => job.run(Liburcu::load(Flavour::Qsbr)?),
    }
}

/// One measurement.
struct Job<'a> {
    config: &'a Config,
    workload: &'a Workload,
    seed: u64,
    options: &'a Options,
    control: &'a Control,
}

impl Job<'_> {
    fn run<S: Subject + Describe>(&self, subject: S) -> Result<Run> {
        let name = self.options.engine.name();
        check_abilities(self.workload, self.options, name, subject.abilities())?;
        let mut facts = HostFacts::collect();
        let gathered = threads::run(
            &subject,
            self.config.tunables(),
            self.workload,
            self.seed,
            &self.options.run,
            self.control,
        )?;
        if gathered.caught > 0 {
            return Err(Error::Engine(format!(
                "{name}: readers saw {} elements after their grace period",
                gathered.caught
            )));
        }
        let mut notes = subject.notes();
        subject.facts(&mut facts);
        let remains = subject.close(gathered.start)?;
        let mut counters = remains.counters;
        if self.options.engine != EngineKind::Treercu {
            // The others count nothing.
            counters.callbacks_queued = gathered.callbacks_queued;
            counters.callbacks_invoked = gathered.callbacks_invoked;
        }
        let expedited =
            |part: &Part| matches!(part, Part::SyncFlood(flood) if flood.kind == SyncCallKind::Expedited);
        if self.options.engine != EngineKind::Treercu && self.workload.parts.iter().any(expedited) {
            notes.push(format!(
                "{name} has one way to wait: expedited calls are as others"
            ));
        }
        let engine_cpu_ns = remains.gp_kthread_cpu_ns.unwrap_or(0) + remains.tick_cpu_ns.unwrap_or(0);
        Ok(Run {
            samples: gathered.merged.samples,
            histogram: gathered.merged.histogram,
            mean_ns: gathered.merged.mean_ns,
            keep: self.options.run.keep,
            trace: remains.trace,
            grace_periods: remains.grace_periods,
            counters,
            stalls: remains.stalls,
            wall_ns: gathered.wall_ns,
            cpu_ns: gathered.cpu_ns + engine_cpu_ns,
            seed: self.seed,
            config: self.config.clone(),
            world: World::Host(Box::new(Measured {
                engine: name.to_owned(),
                facts,
                gp_kthread_cpu_ns: remains.gp_kthread_cpu_ns,
                tick_cpu_ns: remains.tick_cpu_ns,
                notes,
            })),
            workload: self.workload.clone(),
            interrupted: gathered.interrupted,
        })
    }
}

/// What can be checked without the subject.
fn check(config: &Config, workload: &Workload, options: &Options) -> Result<()> {
    let tunables = config.tunables();
    workload.validate(tunables.maxcpus)?;
    options.run.validate()?;
    for part in &workload.parts {
        match part {
            Part::PeriodicInterrupt(_) => {
                return Err(Error::config(
                    "workload",
                    "periodic-interrupt",
                    "real threads have no interrupts to queue callbacks from",
                    "call-rcu-flood, or simulate",
                ));
            }
            Part::HotplugSweep(_) => {
                return Err(Error::config(
                    "workload",
                    "hotplug-sweep",
                    "it is only simulated so far",
                    "hotplug beside a sync-flood, or simulate",
                ));
            }
            Part::SrcuFlood(_) => {
                return Err(Error::config(
                    "workload",
                    "srcu-flood",
                    "domains of SRCU are not measured yet",
                    "simulate, or host::Srcu by itself",
                ));
            }
            Part::Readers(readers) if readers.deferred_percent > 0 => {
                return Err(Error::config(
                    "deferred_percent",
                    readers.deferred_percent,
                    "threads of a process cannot disable preemption",
                    "0 on real threads",
                ));
            }
            _ => {}
        }
    }
    let tasks = threads::threads(workload, tunables.maxcpus);
    if tasks > MAX_REAL_TASKS {
        return Err(Error::config(
            "tasks",
            tasks,
            "too many threads",
            format!("up to {MAX_REAL_TASKS} tasks in all parts on real threads"),
        ));
    }
    check_memory(workload, tasks, options)
}

/// Where only a duration bounds a flood, nobody knows how many calls there will be: those count while they
/// are made.
fn check_memory(workload: &Workload, tasks: u64, options: &Options) -> Result<()> {
    let limit = options.run.memory_limit_mb;
    let mut kept = 0u64;
    let mut floods = 0u64;
    for part in &workload.parts {
        if let Part::SyncFlood(flood) = part {
            floods += flood.tasks;
            let known = match (flood.calls, options.run.keep) {
                (0, Keep::Samples) => log::CHUNK_ROWS as u64,
                (0, keep) => keep.at_most(u64::MAX),
                (calls, keep) => keep.at_most(calls),
            };
            kept = kept.saturating_add(flood.tasks.saturating_mul(known));
        }
    }
    let histograms = match options.run.keep {
        Keep::Samples => 0,
        Keep::Histogram | Keep::Sample(_) => floods * log::BYTES_PER_HISTOGRAM,
    };
    let calls = kept.saturating_mul(log::BYTES_PER_CALL);
    let need = calls
        .saturating_add(histograms)
        .saturating_add(tasks * BYTES_PER_THREAD);
    if need > limit.saturating_mul(MIB) {
        return Err(Error::Memory {
            need_mb: need.div_ceil(MIB),
            limit_mb: limit,
            what: format!("{tasks} threads, samples of up to {kept} calls"),
        });
    }
    Ok(())
}

/// What the subject has to be able to do.
fn check_abilities(workload: &Workload, options: &Options, name: &str, can: Abilities) -> Result<()> {
    let refuse = |parameter: &str, value: &str, what: &str, allowed: &str| {
        Err(Error::config(
            parameter,
            value,
            format!("{name} has no {what}"),
            allowed.to_owned(),
        ))
    };
    for part in &workload.parts {
        match part {
            Part::SyncFlood(flood) => match flood.kind {
                SyncCallKind::Poll if !can.poll => {
                    return refuse("kind", "poll", "polled grace periods", "sync, or another engine");
                }
                SyncCallKind::PollFull if !can.full_cookies => {
                    return refuse("kind", "poll-full", "full cookies", "sync, or another engine");
                }
                SyncCallKind::Barrier if !can.barrier => {
                    return refuse("kind", "barrier", "barrier", "sync, or another engine");
                }
                _ => {}
            },
            Part::CallRcuFlood(flood) if flood.hurry && !can.hurry => {
                return refuse("hurry", "true", "call_rcu_hurry()", "false, or another engine");
            }
            Part::Hotplug(_) if !can.cpus => {
                return refuse("workload", "hotplug", "CPUs to take offline", "engine = treercu");
            }
            _ => {}
        }
    }
    if options.engine != EngineKind::Treercu {
        if options.fence != FenceMode::Auto {
            return refuse(
                "fence",
                options.fence.name(),
                "choice of fences",
                "auto, or engine = treercu",
            );
        }
        if options.timer != TimerMode::Wheel {
            return refuse(
                "timer",
                options.timer.name(),
                "timers of its own",
                "wheel, or engine = treercu",
            );
        }
    }
    if options.run.trace_limit > 0 && !can.trace {
        let limit = options.run.trace_limit.to_string();
        return refuse("trace", &limit, "trace events", "0, or engine = treercu");
    }
    Ok(())
}
