//! From (config, machine, workload, seed) to a run.

use super::kernel::{Hw, Kernel};
use super::{Machine, NoObserver, Observer, Sight};
use crate::config::Config;
use crate::control::{Control, MIB, Progress, RunOptions, thread_cpu_ns};
use crate::error::{Error, Result};
use crate::stats::{GracePeriods, Run, Samples, Simulated, World};
use crate::trace::{Record, Trace};
use crate::tree::{Rcu, seq};
use crate::workload::{Part, SyncCallKind, Workload};
use rayon::prelude::*;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Hard limit on the replicas of one call.
pub const MAX_REPLICAS: u64 = 1_000_000;
/// Hard limit on worker threads.
pub const MAX_THREADS: usize = 1024;

/// Calendar entries between two looks at the cancel flag.
const CHECK_INTERVAL: u64 = 512;
/// A waiting call without any progress for this many stall timeouts is given up as stalled.
const STALL_TIMEOUTS: u64 = 10;
/// Memory of one CPU, of one task, and of one pending call besides its sample, bytes. Measured with
/// 4096 CPUs and 60,000 tasks and rounded up.
const BYTES_PER_CPU: u64 = 2_048;
const BYTES_PER_TASK: u64 = 512;
/// Memory of a pending callback (lists grow by doubling) and of a calendar entry, bytes.
const BYTES_PER_CALLBACK: u64 = 32;
const BYTES_PER_EVENT: u64 = 32;
/// Callbacks queued between two looks at memory.
const CALLBACK_CHECK: u64 = 1 << 16;
/// An expedited call takes at least this long with any usual costs, ns.
const SHORTEST_EXPEDITED_NS: u64 = 1_000;
/// The same of a `synchronize_srcu()`, whose work is dispatched twice; a `call_srcu()` alone is quicker.
const SHORTEST_SRCU_NS: u64 = 1_000;
/// End of virtual time, ns: 73 years.
const HORIZON_NS: u64 = 1 << 61;
/// Runs one simulation.
pub fn simulate(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    options: &RunOptions,
    control: &Control,
) -> Result<Run> {
    simulate_observed(config, machine, workload, seed, options, control, &mut NoObserver)
}

/// Runs one simulation under the eyes of an observer.
pub fn simulate_observed<O: Observer>(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    options: &RunOptions,
    control: &Control,
    observer: &mut O,
) -> Result<Run> {
    check(config, machine, workload, 1, options)?;
    let progress = Progress::of(workload);
    control.total.store(progress.total, Ordering::Relaxed);
    run(
        config, machine, workload, seed, options, control, progress, observer,
    )
}

/// Runs `replicas` simulations on `threads` threads (0: one per core); replica *i* has seed `seed + i`
/// (wrapping). The result does not depend on `threads`. A cancelled call returns what finished plus
/// the partial runs, in order.
#[allow(clippy::too_many_arguments)]
pub fn simulate_many(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    replicas: u64,
    threads: usize,
    options: &RunOptions,
    control: &Control,
) -> Result<Vec<Run>> {
    if replicas == 0 || replicas > MAX_REPLICAS {
        return Err(Error::config(
            "replicas",
            replicas,
            "out of range",
            format!("1 to {MAX_REPLICAS}"),
        ));
    }
    if threads > MAX_THREADS {
        return Err(Error::config(
            "threads",
            threads,
            "out of range",
            format!("0 (one per core) to {MAX_THREADS}"),
        ));
    }
    check(config, machine, workload, replicas, options)?;
    let progress = Progress::of(workload);
    control
        .total
        .store(progress.total.saturating_mul(replicas), Ordering::Relaxed);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("treercu-sim-{i}"))
        .build()
        .map_err(|e| Error::Engine(format!("cannot start worker threads: {e}")))?;
    pool.install(|| {
        (0..replicas)
            .into_par_iter()
            .map(|replica| {
                let seed = seed.wrapping_add(replica);
                run(
                    config,
                    machine,
                    workload,
                    seed,
                    options,
                    control,
                    progress,
                    &mut NoObserver,
                )
            })
            .collect()
    })
}

/// Checks everything that can be checked before a run.
fn check(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    replicas: u64,
    options: &RunOptions,
) -> Result<()> {
    let tun = config.tunables();
    machine.validate(tun.maxcpus)?;
    workload.validate(tun.maxcpus)?;
    options.validate()?;
    for part in &workload.parts {
        if let Part::PeriodicInterrupt(interrupt) = part {
            let cost = machine.irq_ns + interrupt.callbacks * machine.call_rcu_ns;
            if cost >= 1_000_000_000 / interrupt.rate_hz {
                return Err(Error::config(
                    "rate_hz",
                    interrupt.rate_hz,
                    format!(
                        "the handler takes {cost} ns (irq_ns + callbacks * call_rcu_ns), so its CPU would do nothing else"
                    ),
                    format!("below {} with these costs", 1_000_000_000 / cost.max(1)),
                ));
            }
        }
    }
    let (need, what) = estimate(config, workload, options);
    let need = need.saturating_mul(replicas);
    if need > options.memory_limit_mb.saturating_mul(MIB) {
        return Err(Error::Memory {
            need_mb: need.div_ceil(MIB),
            limit_mb: options.memory_limit_mb,
            what: if replicas > 1 {
                format!("{replicas} replicas, each {what}")
            } else {
                what
            },
        });
    }
    Ok(())
}

/// Bytes that a run may need, and what takes the most. Columns double when they grow, hence the
/// factor of two; where only a duration bounds a flood, a call is taken to last at least one tick
/// (with `jiffies_till_first_fqs=0`: 20 µs).
fn estimate(config: &Config, workload: &Workload, options: &RunOptions) -> (u64, String) {
    let tun = config.tunables();
    let tick_ns = 1_000_000_000 / u64::from(tun.hz);
    let shortest = if tun.jiffies_till_first_fqs == 0 {
        20_000
    } else {
        tick_ns
    };
    let (mut tasks, mut calls, mut span) = (0u64, 0u64, 0u64);
    let online = u64::from(tun.maxcpus);
    for part in &workload.parts {
        tasks = tasks.saturating_add(match part {
            Part::SyncFlood(flood) => {
                let pace = if flood.interval_ns > 0 {
                    flood.interval_ns
                } else if flood.kind.in_force(tun) == SyncCallKind::Expedited {
                    SHORTEST_EXPEDITED_NS + flood.think_ns
                } else {
                    shortest + flood.think_ns
                };
                let by_time = if flood.duration_ns > 0 {
                    flood.duration_ns / pace + 1
                } else {
                    u64::MAX
                };
                let by_count = if flood.calls > 0 { flood.calls } else { u64::MAX };
                calls = calls.saturating_add(flood.tasks.saturating_mul(by_time.min(by_count)));
                // A rough idea of how many grace periods there are: one per call of one task.
                span = span.saturating_add(by_time.min(by_count));
                flood.tasks
            }
            Part::CpuLoad(load) => load.cpus.resolve(tun.maxcpus).len() as u64,
            Part::Readers(readers) => readers.tasks,
            Part::CallRcuFlood(flood) => flood.tasks,
            Part::PeriodicInterrupt(_) => online,
            Part::Hotplug(_) => 1,
            Part::HotplugSweep(sweep) => {
                let percent = sweep.waits_down_percent + if sweep.back { sweep.waits_up_percent } else { 0 };
                let waits = sweep.swept(tun.maxcpus).len() as u64 * percent / 100;
                calls = calls.saturating_add(waits);
                span = span.saturating_add(waits);
                1
            }
            Part::SrcuFlood(flood) => {
                let pace = SHORTEST_SRCU_NS + flood.think_ns;
                let by_time = if flood.duration_ns > 0 {
                    flood.duration_ns / pace + 1
                } else {
                    u64::MAX
                };
                let by_count = if flood.calls > 0 { flood.calls } else { u64::MAX };
                calls = calls.saturating_add(flood.tasks.saturating_mul(by_time.min(by_count)));
                flood.tasks.saturating_add(flood.readers)
            }
        });
    }
    let kept = options.keep.at_most(calls);
    let traced = options.trace_limit as u64;
    let parts = [
        (
            u64::from(tun.nr_cpus) * BYTES_PER_CPU,
            format!("{} CPUs", tun.nr_cpus),
        ),
        (tasks.saturating_mul(BYTES_PER_TASK), format!("{tasks} tasks")),
        (
            kept.saturating_mul(2 * Samples::ROW_BYTES),
            format!("samples of up to {kept} calls"),
        ),
        (
            span.saturating_mul(4 * GracePeriods::ROW_BYTES),
            format!("records of up to {span} grace periods"),
        ),
        (
            traced.saturating_mul(2 * size_of::<Record>() as u64),
            format!("a trace of up to {traced} events"),
        ),
    ];
    let total = parts
        .iter()
        .fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
    let what = parts
        .into_iter()
        .max_by_key(|(bytes, _)| *bytes)
        .map(|(_, what)| what)
        .unwrap_or_default();
    (total, what)
}

/// The records of grace periods grow with what happens, not with what was asked for: a run that
/// outgrows the limit ends with an error instead of being killed.
fn check_memory(hw: &Hw, options: &RunOptions) -> Result<()> {
    let calls = hw.recorder.samples.len() as u64 * 2 * Samples::ROW_BYTES;
    let records = hw.grace_periods.len() as u64 * 2 * GracePeriods::ROW_BYTES;
    let callbacks = hw.pending_callbacks() * BYTES_PER_CALLBACK;
    let events = hw.pending_events * BYTES_PER_EVENT;
    let need = calls + records + callbacks + events;
    if need > options.memory_limit_mb.saturating_mul(MIB) {
        return Err(Error::Memory {
            need_mb: need.div_ceil(MIB),
            limit_mb: options.memory_limit_mb,
            what: format!(
                "so far {} grace periods, {} calls kept, {} callbacks pending, {} calendar entries",
                hw.grace_periods.len(),
                hw.recorder.samples.len(),
                hw.pending_callbacks(),
                hw.pending_events
            ),
        });
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn run<O: Observer>(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    options: &RunOptions,
    control: &Control,
    progress: Progress,
    observer: &mut O,
) -> Result<Run> {
    let tun = config.tunables();
    let wall = Instant::now();
    let cpu = thread_cpu_ns();
    let rcu: Rcu<super::cpu::UserCb> = Rcu::new(tun)?;
    let srcu = super::srcu::domains(tun, workload, observer.skipped_scan())?;
    let mut kernel = Kernel::new(&rcu, &srcu, tun, machine, options.keep, seed, observer);
    if options.trace_limit > 0 {
        kernel.hw.trace = Some(Trace::new(rcu.is_preemptible(), options.trace_limit));
    }
    kernel.start_workload(&workload.parts, seed, &control.cancel);
    // A workload that was cancelled while it started may have left nothing to run.
    let mut interrupted = kernel.live == 0 && control.cancel.load(Ordering::Relaxed);

    let stall_ns = STALL_TIMEOUTS * u64::from(tun.rcu_cpu_stall_timeout) * 1_000_000_000;
    let mut events = 0u64;
    let mut reported = 0u64;
    let mut looked_at = 0u64;
    while kernel.live > 0 {
        if events.is_multiple_of(CHECK_INTERVAL) {
            if control.cancel.load(Ordering::Relaxed) {
                interrupted = true;
                break;
            }
            check_memory(&kernel.hw, options)?;
            let done = if progress.by_calls {
                kernel.calls_done
            } else {
                kernel.hw.now.min(progress.total)
            };
            control.done.fetch_add(done - reported, Ordering::Relaxed);
            reported = done;
        }
        if !kernel.dispatch() {
            return Err(Error::Engine(format!(
                "seed {seed}: nothing is left to happen at {} ns with {} tasks unfinished",
                kernel.hw.now, kernel.live
            )));
        }
        events += 1;
        let queued = kernel.hw.counters.callbacks_queued;
        if queued - looked_at > CALLBACK_CHECK {
            looked_at = queued;
            check_memory(&kernel.hw, options)?;
        }
        if kernel.hw.now >= HORIZON_NS {
            return Err(Error::config(
                "workload",
                format!("virtual time {} ns", kernel.hw.now),
                "the workload goes on beyond the end of virtual time",
                format!("runs of less than {HORIZON_NS} ns (73 years)"),
            ));
        }
        if kernel.in_flight > 0 && kernel.hw.now - kernel.hw.last_progress > stall_ns {
            return Err(Error::Stall {
                is_virtual: true,
                gp_seq: rcu.gp_seq() as i64,
                waited_s: (kernel.hw.now - kernel.hw.last_progress) / 1_000_000_000,
                cpus: if rcu.gp_in_progress() {
                    rcu.holdouts()
                } else {
                    rcu.exp_holdouts()
                },
            });
        }
    }
    let done = if progress.by_calls {
        kernel.calls_done
    } else {
        progress.total
    };
    control
        .done
        .fetch_add(done.saturating_sub(reported), Ordering::Relaxed);
    kernel.see(Sight::End { interrupted });

    let virtual_ns = kernel.hw.now;
    let hw = kernel.hw;
    let (grace_periods, mut counters) = (hw.grace_periods, hw.counters);
    counters.expedited_grace_periods = seq::ctr(rcu.exp_seq());
    let mean_ns = hw.recorder.mean_ns();
    Ok(Run {
        samples: hw.recorder.samples.into(),
        histogram: hw.recorder.histogram,
        mean_ns,
        keep: options.keep,
        trace: hw.trace,
        grace_periods,
        counters,
        stalls: hw.stalls,
        wall_ns: wall.elapsed().as_nanos() as u64,
        cpu_ns: thread_cpu_ns() - cpu,
        seed,
        config: config.clone(),
        world: World::Sim(Box::new(Simulated {
            machine: machine.clone(),
            virtual_ns,
            events,
        })),
        workload: workload.clone(),
        interrupted,
    })
}
