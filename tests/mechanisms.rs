//! Mechanisms beyond the idle machine, each with its expected figures derived by hand.

use treercu::config::{Config, Value};
use treercu::sim::{Control, Machine, NoObserver, Observer, RunOptions, Sight, simulate, simulate_observed};
use treercu::stats::{Resolution, Run};
use treercu::tree::Snapshot;
use treercu::workload::{
    CallRcuFlood, CpuLoad, Cpus, Hotplug, Length, Mode, PeriodicInterrupt, Placement, Readers, SyncCallKind,
    SyncFlood, Workload,
};

const MS: u64 = 1_000_000;

fn quiet() -> Machine {
    Machine {
        noise: 0.0,
        gp_kthread_cpu: 0,
        ..Machine::default()
    }
}

fn config(pairs: &[(&str, Value)]) -> Config {
    Config::from_pairs(pairs.iter().map(|(name, value)| (*name, value.clone()))).expect("valid")
}

fn run_under<O: Observer>(
    cfg: &Config,
    machine: &Machine,
    work: impl Into<Workload>,
    seed: u64,
    o: &mut O,
) -> Run {
    simulate_observed(
        cfg,
        machine,
        &work.into(),
        seed,
        &RunOptions::default(),
        &Control::default(),
        o,
    )
    .expect("runs")
}

fn run(cfg: &Config, machine: &Machine, work: impl Into<Workload>, seed: u64) -> Run {
    run_under(cfg, machine, work, seed, &mut NoObserver)
}

fn p50_ms(run: &Run) -> f64 {
    run.quantile(0.5).expect("samples") as f64 / 1e6
}

fn resolved(run: &Run, how: Resolution) -> usize {
    run.grace_periods
        .resolved_by
        .iter()
        .filter(|&&code| code == how as i32)
        .count()
}

/// A reader alone on CPU 1 in a section of 50 ms, never preempted: its CPU is the hold-out. Its ticks
/// find a section (no quiescent state) until it ends, then the next tick or the sleep's context switch
/// is one. A reader that competes with a user-mode task is preempted inside its section: its CPU gets a
/// quiescent state at the switch, and the grace period waits for the reader on the leaf's list.
#[test]
fn a_preempted_reader_holds_the_grace_period_from_the_list() {
    let cfg = config(&[("nr_cpus", 4.into()), ("hz", 1000.into())]);
    let readers = Readers {
        tasks: 1,
        section: Length::Fixed(50 * MS),
        gap: Length::Fixed(10 * MS),
        placement: Placement::Cpu(1),
        ..Readers::default()
    };
    let calls = SyncFlood {
        calls: 40,
        placement: Placement::Cpu(2),
        ..SyncFlood::default()
    };
    let alone = run(
        &cfg,
        &quiet(),
        Workload::from(calls.clone()).and(readers.clone()),
        1,
    );
    assert_eq!(
        resolved(&alone, Resolution::BlockedReader),
        0,
        "nobody preempts it"
    );
    let max = alone.summary().max_ns.expect("calls") as f64 / 1e6;
    assert!(
        (45.0..56.0).contains(&max),
        "at most one section plus a wait: {max} ms"
    );

    // With the competitor each gets every other slice of 2.8 ms, noticed at ticks: a section of 50 ms
    // takes about twice as long.
    let all_busy = CpuLoad {
        cpus: Cpus::All,
        ..CpuLoad::default()
    };
    let shared = run(
        &cfg,
        &quiet(),
        Workload::from(calls).and(readers).and(all_busy),
        1,
    );
    assert!(
        resolved(&shared, Resolution::BlockedReader) > 5,
        "{:?}",
        shared.grace_periods.resolved_by
    );
    let max = shared.summary().max_ns.expect("calls") as f64 / 1e6;
    assert!((80.0..125.0).contains(&max), "about twice the section: {max} ms");
}

/// A kernel without preemption has no blocked readers: the section runs through, and long kernel code
/// gives its quiescent state at a reschedule point once the scan has asked, after `jiffies_to_sched_qs`.
/// HZ=1000, small machine: 100 jiffies; the first later scan at which now > start + 100 is the one at
/// 4·26 = 104 jiffies, whose urgency the next reschedule point answers and the next tick reports.
#[test]
fn without_preemption_kernel_code_answers_when_it_is_asked() {
    for model in ["none", "voluntary"] {
        let cfg = config(&[
            ("preempt", model.into()),
            ("nr_cpus", 4.into()),
            ("hz", 1000.into()),
        ]);
        assert_eq!(cfg.tunables().jiffies_to_sched_qs, 100);
        let load = CpuLoad {
            mode: Mode::Kernel,
            cpus: Cpus::List(vec![3]),
            ..CpuLoad::default()
        };
        let calls = SyncFlood {
            calls: 5,
            placement: Placement::Cpu(1),
            ..SyncFlood::default()
        };
        let result = run(&cfg, &quiet(), Workload::from(calls.clone()).and(load.clone()), 1);
        assert!(
            (103.5..106.5).contains(&p50_ms(&result)),
            "{model}: {} ms",
            p50_ms(&result)
        );
        assert_eq!(resolved(&result, Resolution::ContextSwitch), 5);
        // The same load on a preemptible kernel is quiescent at each tick.
        let full = cfg.with("preempt", "full").expect("valid");
        let result = run(&full, &quiet(), Workload::from(calls).and(load), 1);
        assert!(p50_ms(&result) <= 4.1, "preemptible: {} ms", p50_ms(&result));
    }
}

/// Polling: a cookie needs a full grace period from now on (direct request, k = 1: W = 4 ticks), and the
/// poller looks at each tick boundary, so a phase-locked poller takes 4 + 1 ticks: its look at the tick
/// in which the grace period ends comes before the kthread has cleaned up.
#[test]
fn pollers_see_the_end_at_the_next_look() {
    let cfg = config(&[("nr_cpus", 8.into()), ("hz", 1000.into())]);
    for kind in [SyncCallKind::Poll, SyncCallKind::PollFull] {
        let flood = SyncFlood {
            calls: 20,
            kind,
            placement: Placement::Cpu(1),
            ..SyncFlood::default()
        };
        let result = run(&cfg, &quiet(), flood, 1);
        assert!(
            (3.9..5.1).contains(&p50_ms(&result)),
            "{kind:?}: {}",
            p50_ms(&result)
        );
        assert_eq!(result.samples.len(), 20);
    }
}

/// `rcu_barrier()` waits for the callbacks queued before it: their grace period (1 + 4 + 1 ticks with
/// the early report) and not longer; with no callbacks anywhere it returns at once.
#[test]
fn a_barrier_rides_on_the_callbacks_in_front_of_it() {
    let cfg = config(&[("nr_cpus", 8.into()), ("hz", 1000.into())]);
    let barrier = SyncFlood {
        calls: 10,
        kind: SyncCallKind::Barrier,
        placement: Placement::Cpu(1),
        ..SyncFlood::default()
    };
    let idle = run(&cfg, &quiet(), barrier.clone(), 1);
    assert!(
        idle.summary().max_ns.expect("calls") < 50_000,
        "no callbacks, nothing to wait for"
    );
    let flood = CallRcuFlood {
        interval: Length::Fixed(300_000),
        placement: Placement::Cpu(2),
        ..CallRcuFlood::default()
    };
    let busy = run(&cfg, &quiet(), Workload::from(barrier).and(flood), 1);
    let p50 = p50_ms(&busy);
    // A callback queued just before the barrier waits for the running grace period and a whole one.
    assert!((4.0..13.0).contains(&p50), "{p50} ms");
}

/// The `gp_*_delay` test aids: one sleep of `delay` jiffies (delay + 1 ticks on the wheel) before each
/// node's initialisation, in every (nodes · 3 · delay)-th grace period. One node: every third for
/// delay 1, and then the grace period is longer by 2 ticks.
#[test]
fn delays_come_in_few_grace_periods_and_cost_what_they_say() {
    let cfg = config(&[("nr_cpus", 4.into()), ("hz", 1000.into())]);
    let calls = SyncFlood {
        calls: 60,
        placement: Placement::Cpu(1),
        ..SyncFlood::default()
    };
    for knob in ["gp_preinit_delay", "gp_init_delay", "gp_cleanup_delay"] {
        let result = run(&cfg.with(knob, 1).expect("valid"), &quiet(), calls.clone(), 1);
        let g = &result.grace_periods;
        let slow: Vec<i64> = (0..g.len())
            .filter(|&i| g.end_ns[i] - g.start_ns[i] > 5 * MS as i64 - 100_000)
            .map(|i| g.gp_seq[i] >> 2)
            .collect();
        assert!(
            slow.len() >= g.len() / 3 - 1,
            "{knob}: {} of {}",
            slow.len(),
            g.len()
        );
        // The counter wraps like the kernel's word: the rule is on the unsigned value.
        assert!(slow.windows(2).all(|w| w[1] - w[0] == 3), "{knob}: {slow:?}");
    }
}

/// Latch, merged form: with 64 requests in flight new calls go by callback until all are done.
#[test]
fn the_latch_sends_a_flood_to_the_callback_route() {
    let flood = SyncFlood {
        tasks: 200,
        calls: 20,
        ..SyncFlood::default()
    };
    let cfg = config(&[("nr_cpus", 16.into())]);
    let merged = run(&cfg, &quiet(), flood.clone(), 1);
    assert!(merged.counters.direct_wakes > 0 && merged.counters.callbacks_invoked > 0);
    assert_eq!(
        merged.counters.direct_wakes + merged.counters.callbacks_queued,
        4000
    );
    let off = run(
        &cfg.with("sr_normal_latch", "off").expect("valid"),
        &quiet(),
        flood,
        1,
    );
    assert_eq!(off.counters.direct_wakes, 4000);
    let few = run(
        &cfg,
        &quiet(),
        SyncFlood {
            tasks: 63,
            calls: 20,
            ..SyncFlood::default()
        },
        1,
    );
    assert_eq!(
        few.counters.callbacks_queued, 0,
        "63 callers never reach the threshold of 64"
    );
}

/// Looks at the latch when a run is over.
#[derive(Default)]
struct LatchWatch {
    stuck: bool,
    negative: bool,
}

impl Observer for LatchWatch {
    fn see(&mut self, _at_ns: u64, sight: Sight, snapshot: &dyn Fn() -> Snapshot) {
        if let Sight::End { .. } = sight {
            let srs = snapshot().srs;
            self.stuck = srs.latched && srs.count <= 0;
        }
        if let Sight::DirectComplete { .. } = sight {
            self.negative |= snapshot().srs.count < 0;
        }
    }
}

/// Callers that are preempted for milliseconds between the steps on the request list.
fn preempted_callers(latch: &str, seed: u64) -> LatchWatch {
    // A threshold of 4 to 67 and as many callers or a few more.
    let threshold = if seed.is_multiple_of(8) {
        64
    } else {
        4 + (seed % 8) as i64
    };
    let tasks = threshold as u64 + seed % 3;
    let cfg = config(&[
        ("nr_cpus", 4.into()),
        ("hz", 1000.into()),
        ("sr_normal_latch", latch.into()),
        ("sr_normal_latch_threshold", threshold.into()),
    ]);
    let machine = Machine {
        noise: 500.0,
        noise_min_ns: MS,
        noise_max_ns: 10 * MS,
        srs_step_ns: 150_000,
        ..Machine::default()
    };
    let mut watch = LatchWatch::default();
    run_under(
        &cfg,
        &machine,
        SyncFlood {
            tasks,
            calls: 12,
            think_ns: 30 * MS,
            ..SyncFlood::default()
        },
        seed,
        &mut watch,
    );
    watch
}

/// Version 1 pushes before it counts, and sets the latch some time after it has seen the threshold: when all
/// requests complete in between, nothing is left to open it again. The merged form cannot: only the
/// caller that makes the count exactly the threshold sets it, with its own request counted and not pushed yet.
#[test]
fn the_first_latch_sticks_and_the_merged_one_does_not() {
    let stuck: Vec<u64> = (0..200)
        .filter(|&seed| preempted_callers("v1", seed).stuck)
        .collect();
    println!("latch v1 sticks with nothing in flight at seeds {stuck:?} of 0..200");
    assert!(!stuck.is_empty(), "a schedule on which v1 sticks");
    let runs = std::env::var("TREERCU_LATCH_RUNS").map_or(1_000, |n| n.parse().expect("a number"));
    for seed in 0..runs {
        let merged = preempted_callers("merged", seed);
        assert!(!merged.stuck, "seed {seed}: merged latch stuck");
        assert!(!merged.negative, "seed {seed}: merged count below zero");
    }
    println!("merged: never in {runs} floods");
}

/// One CPU. With the early report the report at the end of initialisation empties the root, so there
/// is no wait and no scan; without it the caller's callback keeps the tick and the next tick reports.
/// Kthread CPU time of a grace period, from the machine's stated costs (one node):
///   start 1000, hotplug pass 150, initialisation 150, clean-up 150                       = 1450 ns
///   one activation: switch 1200 + into or out of idle 800 when it comes from idle         = 2000 ns
///   with the report: + 150 for the report; one activation                                 = 3600 ns
///   without: a second activation after the wait                                           = 5450 ns
#[test]
fn one_cpu_the_early_report_saves_one_activation_of_the_kthread() {
    for hz in [250, 1000] {
        let cfg = config(&[
            ("nr_cpus", 1.into()),
            ("hz", hz.into()),
            ("rcu_normal_wake_from_gp", 0.into()),
        ]);
        let calls = SyncFlood {
            calls: 200,
            ..SyncFlood::default()
        };
        let per_gp = |early: bool| {
            let result = run(
                &cfg.with("early_qs", early).expect("valid"),
                &quiet(),
                calls.clone(),
                1,
            );
            let gps = result.counters.grace_periods as f64;
            println!(
                "HZ={hz} early_qs={early}: {} grace periods, {:.0} ns kthread, {:.2} switches, {:.2} scans each",
                gps,
                result.counters.gp_kthread_cpu_ns as f64 / gps,
                result.counters.context_switches as f64 / gps,
                result.counters.fqs_scans as f64 / gps
            );
            assert_eq!(
                result.counters.fqs_scans, 0,
                "the CPU reports itself before any scan"
            );
            result.counters.gp_kthread_cpu_ns as f64 / gps
        };
        let (without, with) = (per_gp(false), per_gp(true));
        assert!((without - 5450.0).abs() < 60.0, "{without} ns");
        assert!((with - 3600.0).abs() < 60.0, "{with} ns");
        println!(
            "HZ={hz}: {:.0} % (published: task-clock -11 %, cycles -8 %)",
            (with / without - 1.0) * 100.0
        );
    }
}

/// Can interrupts that post callbacks make the kthread take the CPU? Each grace period needs the RCU core
/// to notice callbacks, which happens at a tick, or the kthread's own look at the end of one. So at most
/// one grace period starts per tick by the first way and one more by the second: two per tick.
#[test]
fn floods_of_callbacks_cost_at_most_two_grace_periods_a_tick() {
    for hz in [250i64, 1000] {
        for early in [false, true] {
            let cfg = config(&[
                ("nr_cpus", 1.into()),
                ("hz", hz.into()),
                ("early_qs", early.into()),
            ]);
            let interrupt = |rate_hz| -> Workload {
                PeriodicInterrupt {
                    rate_hz,
                    duration_ns: 500 * MS,
                    ..PeriodicInterrupt::default()
                }
                .into()
            };
            let hurry: Workload = CallRcuFlood {
                hurry: true,
                interval: Length::Fixed(10_000),
                duration_ns: 500 * MS,
                ..CallRcuFlood::default()
            }
            .into();
            for (what, work) in [
                ("1 kHz", interrupt(1000)),
                ("4 kHz", interrupt(4000)),
                ("10 kHz", interrupt(10_000)),
                ("hurry", hurry),
            ] {
                let result = run(&cfg, &quiet(), work, 1);
                let seconds = result.simulated().expect("simulated").virtual_ns as f64 / 1e9;
                let rate = result.counters.grace_periods as f64 / seconds;
                let share = result.counters.gp_kthread_cpu_ns as f64 / (seconds * 1e9);
                println!(
                    "HZ={hz} early_qs={early} {what}: {rate:.0} grace periods/s, {:.0} ns each, {:.2} % of the CPU",
                    result.counters.gp_kthread_cpu_ns as f64 / result.counters.grace_periods as f64,
                    share * 100.0
                );
                assert!(rate <= 2.0 * hz as f64 + 5.0, "{what}: {rate} per second");
                assert!(share < 0.02, "{what}: the kthread takes {share}");
                assert!(result.counters.callbacks_invoked * 10 > result.counters.callbacks_queued * 9);
            }
        }
    }
}

/// Overload (`qovld`): while a CPU is over the mark the waits shrink from j to (j + 2) / 3, here from 3 to
/// 1 jiffy, so grace periods get shorter; without the mark they do not.
#[test]
fn overload_shortens_the_waits() {
    let flood = CallRcuFlood {
        burst: 500,
        interval: Length::Fixed(MS),
        callbacks: 60_000,
        placement: Placement::Cpu(1),
        ..CallRcuFlood::default()
    };
    let mean_gp_ms = |qovld: i64| {
        let cfg = config(&[
            ("nr_cpus", 8.into()),
            ("hz", 1000.into()),
            ("qovld", qovld.into()),
            ("early_qs", false.into()),
            ("blimit", 100_000.into()),
        ]);
        let g = run(&cfg, &quiet(), flood.clone(), 1).grace_periods;
        let total: i64 = g
            .start_ns
            .iter()
            .zip(&g.end_ns)
            .map(|(start, end)| end - start)
            .sum();
        total as f64 / g.len() as f64 / 1e6
    };
    let (plain, overloaded) = (mean_gp_ms(0), mean_gp_ms(100));
    println!("grace periods of {plain:.2} ms without and {overloaded:.2} ms under overload handling");
    assert!(overloaded < 0.75 * plain, "{overloaded} against {plain} ms");
}

/// CPUs come and go at random; calls and callbacks go on, and the tree follows.
#[test]
fn hotplug_loses_nothing() {
    for seed in 0..20 {
        let cfg = config(&[
            ("nr_cpus", 12.into()),
            ("hz", 1000.into()),
            ("rcu_fanout_leaf", 3.into()),
            ("rcu_fanout", 2.into()),
        ]);
        let work = Workload::from(SyncFlood {
            tasks: 8,
            calls: 30,
            ..SyncFlood::default()
        })
        .and(CallRcuFlood {
            interval: Length::Exponential(200_000),
            ..CallRcuFlood::default()
        })
        .and(Hotplug {
            interval: Length::Exponential(2 * MS),
            ..Hotplug::default()
        });
        let result = run(&cfg, &Machine::default(), work, seed);
        assert_eq!(result.samples.len(), 240);
        assert!(result.counters.cpus_offlined > 3, "seed {seed}");
        assert!(result.summary().max_ns.expect("calls") < 60 * MS as i64);
    }
}

#[test]
fn simulate_refuses_what_cannot_end() {
    let cfg = config(&[]);
    let work: Workload = Readers::default().into();
    let error = simulate(
        &cfg,
        &quiet(),
        &work,
        1,
        &RunOptions::default(),
        &Control::default(),
    )
    .expect_err("endless");
    assert!(error.to_string().contains("duration_ms"), "{error}");
}
