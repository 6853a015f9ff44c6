//! Measuring on real threads: counts, order and bounds, never exact times.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use treercu::config::Config;
use treercu::error::Error;
use treercu::measure::{EngineKind, MAX_REAL_TASKS, Options, measure};
use treercu::sim::{Control, RunOptions};
use treercu::stats::{Keep, Run};
use treercu::workload::{
    CallRcuFlood, CpuLoad, Cpus, Hotplug, Length, Mode, PeriodicInterrupt, Readers, SyncCallKind, SyncFlood,
    Workload,
};

/// Counts allocations of the whole process.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests of this file run one at a time: they count threads' allocations and time what they do.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn config() -> Config {
    Config::new()
        .with("nr_cpus", 2)
        .and_then(|c| c.with("hz", 1000))
        .expect("valid")
}

fn options(engine: EngineKind) -> Options {
    Options {
        engine,
        ..Options::default()
    }
}

fn run(engine: EngineKind, workload: impl Into<Workload>) -> Result<Run, Error> {
    measure(
        &config(),
        &workload.into(),
        1,
        &options(engine),
        &Control::default(),
    )
}

/// Every engine of this machine; those that are not installed are named and left out.
fn engines() -> Vec<EngineKind> {
    let mut there = Vec::new();
    for (name, engine) in EngineKind::ALL {
        match run(engine, flood(1, 1)) {
            Ok(_) => there.push(engine),
            Err(Error::Config {
                parameter, reason, ..
            }) if parameter == "engine" => {
                println!("skipped: {name}: {reason}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    there
}

fn flood(tasks: u64, calls: u64) -> SyncFlood {
    SyncFlood {
        tasks,
        calls,
        ..SyncFlood::default()
    }
}

fn brief_readers(tasks: u64) -> Readers {
    Readers {
        tasks,
        section: Length::Uniform(1_000, 20_000),
        gap: Length::Exponential(30_000),
        nested: 2,
        ..Readers::default()
    }
}

#[test]
fn every_engine_makes_every_call_and_protects_its_readers() {
    let _alone = alone();
    for engine in engines() {
        let workload = Workload::from(flood(4, 50)).and(brief_readers(2));
        let run = run(engine, workload).expect("measures");
        let name = engine.name();
        let s = &run.samples;
        assert_eq!(s.len(), 200, "{name}");
        for task in 0..4 {
            let mut last = 0;
            let own: Vec<usize> = (0..s.len()).filter(|&i| s.task[i] == task).collect();
            assert_eq!(own.len(), 50, "{name}");
            for i in own {
                assert!(s.start_ns[i] >= last, "{name}: one call after the other");
                assert!(s.end_ns[i] >= s.start_ns[i], "{name}");
                assert_eq!(s.latency_ns[i], s.end_ns[i] - s.start_ns[i], "{name}");
                last = s.end_ns[i];
            }
        }
        assert!(s.end_ns.is_sorted(), "{name}: in order of completion");
        assert!(run.wall_ns >= *s.end_ns.last().expect("calls") as u64, "{name}");
        assert!(!run.interrupted, "{name}");
        assert!(run.simulated().is_none(), "{name}");
        let measured = run.measured().expect("measured");
        assert_eq!(measured.engine, name);
        assert!(measured.facts.clock_read_ns > 0.0);
        println!(
            "{name}: mean {:.0} ns, wall {:.3} ms",
            run.summary().mean_ns.expect("calls"),
            run.wall_ns as f64 / 1e6
        );
    }
}

#[test]
fn every_engine_makes_expedited_calls_and_protects_its_readers() {
    let _alone = alone();
    for engine in engines() {
        let sync = SyncFlood {
            kind: SyncCallKind::Expedited,
            ..flood(3, 200)
        };
        let run = run(engine, Workload::from(sync).and(brief_readers(2))).expect("measures");
        assert_eq!(run.samples.len(), 600, "{}", engine.name());
        println!(
            "{}: expedited, median {} ns",
            engine.name(),
            run.quantile(0.5).expect("calls")
        );
    }
}

#[test]
fn a_grace_period_waits_for_a_long_reader() {
    let _alone = alone();
    for engine in engines() {
        // Two readers whose sections of 20 ms follow each other almost without a gap.
        let readers = Readers {
            tasks: 1,
            section: Length::Fixed(20_000_000),
            gap: Length::Fixed(1_000_000),
            ..Readers::default()
        };
        let sync = SyncFlood {
            start_skew_ns: 30_000_000,
            ..flood(4, 5)
        };
        let run = run(engine, Workload::from(sync).and(readers)).expect("measures");
        let longest = run.quantile(1.0).expect("calls");
        assert!(longest > 5_000_000, "{}: {longest} ns", engine.name());
        assert!(longest < 2_000_000_000, "{}: {longest} ns", engine.name());
    }
}

#[test]
fn a_cancelled_flood_of_64_threads_ends_at_once_with_its_samples() {
    let _alone = alone();
    for engine in engines() {
        let workload = Workload::from(SyncFlood {
            tasks: 64,
            calls: 0,
            duration_ns: 60_000_000_000,
            think_ns: 1_000_000,
            ..SyncFlood::default()
        })
        .and(brief_readers(1));
        let control = Control::default();
        let (run, took) = std::thread::scope(|scope| {
            let control = &control;
            let running = scope.spawn(move || measure(&config(), &workload, 1, &options(engine), control));
            // Until it has run for a while: the time counts from when all threads are there.
            while control.done.load(Ordering::Relaxed) < 300_000_000 {
                assert!(!running.is_finished());
                std::thread::sleep(Duration::from_millis(5));
            }
            control.cancel.store(true, Ordering::Relaxed);
            let asked = Instant::now();
            let run = running.join().expect("no panic").expect("a partial run");
            (run, asked.elapsed())
        });
        println!(
            "{}: 64 threads gone {:.1} ms after the cancel, {} calls kept",
            engine.name(),
            took.as_secs_f64() * 1e3,
            run.samples.len()
        );
        assert!(run.interrupted);
        assert!(run.calls() > 0, "{}", engine.name());
        assert!(took < Duration::from_secs(1), "{}: {took:?}", engine.name());
        assert!(run.wall_ns >= 300_000_000 && run.wall_ns < 5_000_000_000);
    }
}

#[test]
fn sleepers_and_long_sections_end_with_a_cancel_too() {
    let _alone = alone();
    for engine in engines() {
        let workload = Workload::from(SyncFlood {
            think_ns: 50_000_000_000,
            ..flood(8, 100)
        })
        .and(Readers {
            tasks: 2,
            section: Length::Fixed(50_000_000_000),
            ..Readers::default()
        })
        .and(CpuLoad {
            cpus: Cpus::List(vec![0]),
            ..CpuLoad::default()
        });
        let control = Control::default();
        let took = std::thread::scope(|scope| {
            let control = &control;
            let running = scope.spawn(move || measure(&config(), &workload, 1, &options(engine), control));
            std::thread::sleep(Duration::from_millis(100));
            control.cancel.store(true, Ordering::Relaxed);
            let asked = Instant::now();
            let run = running.join().expect("no panic").expect("a partial run");
            assert!(run.interrupted);
            asked.elapsed()
        });
        assert!(took < Duration::from_secs(1), "{}: {took:?}", engine.name());
    }
}

/// Nobody knows that a sleeping thread without reader words is outside a section unless it says so.
#[test]
fn sleepers_of_a_non_preemptible_tree_hold_nobody_up() {
    let _alone = alone();
    let config = config().with("preempt", "none").expect("valid");
    let asleep = Readers {
        tasks: 4,
        gap: Length::Fixed(50_000_000_000),
        ..Readers::default()
    };
    let workload = Workload::from(flood(1, 10)).and(asleep);
    let options = options(EngineKind::Treercu);
    let run = measure(&config, &workload, 1, &options, &Control::default()).expect("measures");
    assert_eq!(run.samples.len(), 10);
    assert!(run.wall_ns < 2_000_000_000, "{} ns", run.wall_ns);
}

#[test]
fn a_run_that_is_cancelled_before_it_starts_is_empty() {
    let _alone = alone();
    for engine in engines() {
        let control = Control::default();
        control.cancel.store(true, Ordering::Relaxed);
        let run = measure(&config(), &flood(4, 100).into(), 1, &options(engine), &control).expect("a run");
        assert!(run.interrupted && run.samples.is_empty());
        assert_eq!(run.wall_ns, 0);
    }
}

#[test]
fn two_runs_at_once_are_two_runs() {
    let _alone = alone();
    for engine in engines() {
        std::thread::scope(|scope| {
            let both: Vec<_> = (0..2)
                .map(|_| scope.spawn(move || run(engine, Workload::from(flood(8, 50)).and(brief_readers(1)))))
                .collect();
            for running in both {
                let run = running.join().expect("no panic").expect("measures");
                assert_eq!(run.samples.len(), 400, "{}", engine.name());
            }
        });
    }
}

/// A run of many calls allocates as often as one of few, but for the chunks: so a call allocates nothing. The
/// engines that allocate for a call themselves (see their notes) cannot show it.
#[test]
fn no_call_allocates() {
    let _alone = alone();
    for engine in engines() {
        if matches!(engine, EngineKind::CrossbeamEpoch | EngineKind::Seize) {
            continue;
        }
        // Grace periods that do not wait for ticks.
        let config = config().with("jiffies_till_first_fqs", 0).expect("valid");
        let count = |calls: u64| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let workload = flood(2, calls).into();
            let run = measure(&config, &workload, 1, &options(engine), &Control::default());
            let run = run.expect("measures");
            assert_eq!(run.samples.len() as u64, 2 * calls);
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        count(10);
        let (few, many) = (count(100), count(5_000));
        println!(
            "{}: {few} allocations for 200 calls, {many} for 10,000",
            engine.name()
        );
        assert!(many <= few + 100, "{}: {few}, then {many}", engine.name());
    }
}

#[test]
fn an_open_loop_counts_from_when_a_call_was_due() {
    let _alone = alone();
    for engine in engines() {
        let paced = SyncFlood {
            interval_ns: 2_000_000,
            ..flood(1, 20)
        };
        let run = run(engine, paced).expect("measures");
        let steps: Vec<i64> = run.samples.start_ns.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(steps.iter().all(|&step| step == 2_000_000), "{steps:?}");
        assert!(run.wall_ns >= 38_000_000);
    }
}

#[test]
fn think_time_separates_calls() {
    let _alone = alone();
    for engine in engines() {
        let slow = SyncFlood {
            think_ns: 1_000_000,
            ..flood(1, 20)
        };
        let run = run(engine, slow).expect("measures");
        let s = &run.samples;
        assert!((1..s.len()).all(|i| s.start_ns[i] - s.end_ns[i - 1] >= 1_000_000));
    }
}

#[test]
fn a_duration_ends_a_flood() {
    let _alone = alone();
    for engine in engines() {
        let timed = SyncFlood {
            tasks: 2,
            calls: 0,
            duration_ns: 50_000_000,
            ..SyncFlood::default()
        };
        let run = run(engine, timed).expect("measures");
        assert!(run.calls() > 0);
        assert!(
            run.samples.start_ns.iter().all(|&ns| ns <= 50_000_000),
            "no call begins later"
        );
        assert!(
            run.wall_ns >= 45_000_000 && run.wall_ns < 5_000_000_000,
            "{}",
            run.wall_ns
        );
    }
}

#[test]
fn callbacks_run_once_each_and_may_post_themselves() {
    let _alone = alone();
    for engine in engines() {
        let callbacks = CallRcuFlood {
            tasks: 2,
            callbacks: 500,
            burst: 10,
            interval: Length::Fixed(100_000),
            repost: 1,
            ..CallRcuFlood::default()
        };
        let sync = SyncFlood {
            duration_ns: 100_000_000,
            calls: 0,
            ..SyncFlood::default()
        };
        let run = run(engine, Workload::from(callbacks).and(sync)).expect("measures");
        let c = &run.counters;
        let name = engine.name();
        println!(
            "{name}: {} callbacks queued, {} invoked",
            c.callbacks_queued, c.callbacks_invoked
        );
        assert!(
            (1_000..=2_000).contains(&c.callbacks_queued),
            "{name}: {}",
            c.callbacks_queued
        );
        assert!(c.callbacks_invoked <= c.callbacks_queued, "{name}");
        assert!(c.callbacks_invoked > 0, "{name}");
    }
}

#[test]
fn busy_threads_do_not_hold_a_grace_period_up_for_good() {
    let _alone = alone();
    for engine in engines() {
        for mode in [Mode::User, Mode::Kernel] {
            let load = CpuLoad {
                cpus: Cpus::List(vec![0]),
                mode,
                section_ns: if mode == Mode::Kernel { 50_000 } else { 0 },
                ..CpuLoad::default()
            };
            let run = run(engine, Workload::from(flood(1, 10)).and(load)).expect("measures");
            assert_eq!(run.samples.len(), 10, "{}", engine.name());
        }
    }
}

#[test]
fn keep_bounds_what_is_kept() {
    let _alone = alone();
    let engine = EngineKind::CrossbeamEpoch;
    for (keep, rows) in [(Keep::Histogram, 0), (Keep::Sample(30), 30)] {
        let options = Options {
            engine,
            run: RunOptions {
                keep,
                ..RunOptions::default()
            },
            ..Options::default()
        };
        let run =
            measure(&config(), &flood(3, 100).into(), 1, &options, &Control::default()).expect("measures");
        assert_eq!(run.calls(), 300);
        assert_eq!(run.samples.len(), rows);
        assert!(run.summary().mean_ns.is_some_and(|mean| mean > 0.0));
        assert!(run.quantile(0.9).is_ok());
    }
}

#[test]
fn progress_counts_calls() {
    let _alone = alone();
    let control = Control::default();
    measure(
        &config(),
        &flood(3, 40).into(),
        1,
        &options(EngineKind::Seize),
        &control,
    )
    .expect("measures");
    assert_eq!(control.total.load(Ordering::Relaxed), 120);
    assert_eq!(control.done.load(Ordering::Relaxed), 120);
}

/// Every way to wait, on preemptible and non-preemptible virtual CPUs.
#[test]
fn the_own_engine_waits_in_every_way() {
    let _alone = alone();
    for preempt in ["full", "none"] {
        for kind in [
            SyncCallKind::Sync,
            SyncCallKind::Expedited,
            SyncCallKind::Poll,
            SyncCallKind::PollFull,
            SyncCallKind::Barrier,
        ] {
            let config = config().with("preempt", preempt).expect("valid");
            let callbacks = CallRcuFlood {
                burst: 5,
                interval: Length::Fixed(1_000_000),
                repost: 1,
                ..CallRcuFlood::default()
            };
            // A barrier returns at once where no callback waits, an expedited call without any tick.
            let at_once = matches!(kind, SyncCallKind::Barrier | SyncCallKind::Expedited);
            let think_ns = if at_once { 3_000_000 } else { 0 };
            let sync = SyncFlood {
                kind,
                think_ns,
                ..flood(4, 10)
            };
            let workload = Workload::from(sync).and(brief_readers(2)).and(callbacks);
            let run = measure(
                &config,
                &workload,
                1,
                &options(EngineKind::Treercu),
                &Control::default(),
            );
            let run = run.unwrap_or_else(|error| panic!("{preempt} {kind:?}: {error}"));
            assert_eq!(run.samples.len(), 40, "{preempt} {kind:?}");
            assert!(run.counters.callbacks_invoked > 0, "{preempt} {kind:?}");
            assert!(run.counters.grace_periods > 0, "{preempt} {kind:?}");
            assert!(run.samples.cpu.iter().all(|&cpu| (0..2).contains(&cpu)));
            println!(
                "{preempt} {kind:?}: median {:.3} ms",
                run.quantile(0.5).expect("calls") as f64 / 1e6
            );
        }
    }
}

#[test]
fn grace_periods_of_the_own_engine_lie_inside_their_calls() {
    let _alone = alone();
    let config = config().with("nr_cpus", 8).expect("valid");
    let run = measure(
        &config,
        &flood(1, 20).into(),
        1,
        &options(EngineKind::Treercu),
        &Control::default(),
    )
    .expect("measures");
    let (s, g) = (&run.samples, &run.grace_periods);
    assert!(g.start_ns.is_sorted() && g.gp_seq.is_sorted());
    for call in 0..s.len() {
        let row = g.gp_seq.iter().position(|&seq| seq == s.gp_seq[call]);
        let row = row.unwrap_or_else(|| panic!("no record of {}", s.gp_seq[call]));
        assert!(
            s.start_ns[call] <= g.start_ns[row] && g.end_ns[row] <= s.end_ns[call],
            "call {call}: {}..{}, grace period {}..{}",
            s.start_ns[call],
            s.end_ns[call],
            g.start_ns[row],
            g.end_ns[row]
        );
    }
    let measured = run.measured().expect("measured");
    assert!(measured.facts.fence.is_some());
    assert!(
        measured
            .facts
            .tick_lateness
            .is_none_or(|late| late.max_ns >= late.p50_ns)
    );
    assert!(measured.gp_kthread_cpu_ns.is_some_and(|ns| ns > 0));
    assert!(run.cpu_ns >= measured.gp_kthread_cpu_ns.unwrap_or(0));
}

#[test]
fn virtual_cpus_come_and_go_under_a_flood() {
    let _alone = alone();
    for preempt in ["full", "none"] {
        let config = config()
            .with("nr_cpus", 4)
            .and_then(|c| c.with("preempt", preempt))
            .expect("valid");
        let hotplug = Hotplug {
            transitions: 20,
            interval: Length::Fixed(3_000_000),
            ..Hotplug::default()
        };
        let workload = Workload::from(flood(4, 20)).and(hotplug).and(brief_readers(4));
        let run = measure(
            &config,
            &workload,
            3,
            &options(EngineKind::Treercu),
            &Control::default(),
        )
        .unwrap_or_else(|error| panic!("{preempt}: {error}"));
        assert_eq!(run.samples.len(), 80);
        assert!(run.counters.cpus_offlined > 3, "{}", run.counters.cpus_offlined);
    }
}

#[test]
fn the_own_engine_traces() {
    let _alone = alone();
    let options = Options {
        run: RunOptions {
            trace_limit: 1000,
            ..RunOptions::default()
        },
        ..Options::default()
    };
    let run = measure(&config(), &flood(1, 3).into(), 1, &options, &Control::default()).expect("measures");
    assert!(run.trace.is_some_and(|trace| !trace.records.is_empty()));
}

fn refused(engine: EngineKind, workload: impl Into<Workload>) -> (String, String) {
    match run(engine, workload) {
        Err(Error::Config {
            parameter, allowed, ..
        }) => {
            assert!(!allowed.is_empty());
            (parameter, allowed)
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let _alone = alone();
    let engine = EngineKind::CrossbeamEpoch;
    let interrupt = Workload::from(PeriodicInterrupt::default()).and(flood(1, 1));
    assert_eq!(refused(engine, interrupt).0, "workload");
    let deferred = Workload::from(Readers {
        deferred_percent: 5,
        ..Readers::default()
    })
    .and(flood(1, 1));
    assert_eq!(refused(engine, deferred).0, "deferred_percent");
    let (parameter, allowed) = refused(engine, flood(MAX_REAL_TASKS + 1, 1));
    assert_eq!(parameter, "tasks");
    assert!(allowed.contains("4096"));
    for kind in [SyncCallKind::Poll, SyncCallKind::PollFull, SyncCallKind::Barrier] {
        let polled = SyncFlood { kind, ..flood(1, 1) };
        assert_eq!(refused(engine, polled).0, "kind");
    }
    let hotplug = Workload::from(flood(1, 1)).and(Hotplug::default());
    assert_eq!(refused(engine, hotplug).0, "workload");
    let hurried = Workload::from(flood(1, 1)).and(CallRcuFlood {
        hurry: true,
        ..CallRcuFlood::default()
    });
    assert_eq!(refused(engine, hurried).0, "hurry");
    let many = measure(
        &config(),
        &flood(10, 1_000_000_000).into(),
        1,
        &options(engine),
        &Control::default(),
    );
    assert!(matches!(many, Err(Error::Memory { .. })), "{many:?}");
}

/// Only a duration bounds the flood, so what it keeps can only be counted while it runs.
#[test]
fn a_flood_that_outgrows_its_memory_ends_with_an_error() {
    let _alone = alone();
    let options = Options {
        engine: EngineKind::CrossbeamEpoch,
        run: RunOptions {
            memory_limit_mb: 8,
            ..RunOptions::default()
        },
        ..Options::default()
    };
    let endless = SyncFlood {
        calls: 0,
        duration_ns: 600_000_000_000,
        ..SyncFlood::default()
    };
    let ended = measure(&config(), &endless.into(), 1, &options, &Control::default());
    assert!(
        matches!(ended, Err(Error::Memory { limit_mb: 8, .. })),
        "{ended:?}"
    );
}
