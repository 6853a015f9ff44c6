//! Callback offloading, in the simulated world. Expected values follow from the mechanism, in the comments.

use treercu::config::{Config, Value};

use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Run;
use treercu::trace::{Context, Event};
use treercu::workload::{CallRcuFlood, Hotplug, Length, Placement, SyncCallKind, SyncFlood, Workload};

fn config(settings: &[(&str, Value)]) -> Config {
    let base: &[(&str, Value)] = &[
        ("nr_cpus", 8.into()),
        ("hz", 1000.into()),
        ("kernel", "6.18".into()),
    ];
    base.iter()
        .chain(settings)
        .fold(Config::new(), |config, (name, value)| {
            config.with(name, value.clone()).unwrap()
        })
}

fn run(settings: &[(&str, Value)], workload: impl Into<Workload>) -> Run {
    run_with(settings, workload, &RunOptions::default())
}

fn run_with(settings: &[(&str, Value)], workload: impl Into<Workload>, options: &RunOptions) -> Run {
    let machine = Machine {
        noise: 0.0,
        gp_kthread_cpu: 7,
        ..Machine::default()
    };
    simulate(
        &config(settings),
        &machine,
        &workload.into(),
        3,
        options,
        &Control::default(),
    )
    .unwrap()
}

fn flood(burst: u64) -> CallRcuFlood {
    CallRcuFlood {
        tasks: 1,
        callbacks: 200 * burst,
        duration_ns: 0,
        burst,
        interval: Length::Fixed(500_000),
        placement: Placement::Cpu(1),
        ..CallRcuFlood::default()
    }
}

/// A caller that waits by callback needs its callback invoked: with its CPU offloaded that is `rcuop`'s doing,
/// so no softirq starts a batch, and every call still returns.
#[test]
fn callers_by_callback_return_although_their_cpus_are_offloaded() {
    let flood = SyncFlood {
        tasks: 4,
        calls: 50,
        ..SyncFlood::default()
    };
    let by_callback = ("rcu_normal_wake_from_gp", Value::Int(0));
    for list in ["", "all", "0-3", "1,5"] {
        let run = run(&[("rcu_nocbs", list.into()), by_callback.clone()], flood.clone());
        assert_eq!(run.samples.start_ns.len(), 200, "{list}");
        assert_eq!(run.counters.callbacks_queued, 200, "{list}");
        assert!(run.counters.callbacks_invoked >= 200, "{list}");
    }
}

/// An enqueuer wakes `rcuog`, which asks for the grace period at once: nothing waits for the tick that finds a
/// callback, nor for the one that notices the end. So calls are shorter than with the RCU core doing both.
#[test]
fn offloaded_callers_do_not_wait_for_ticks() {
    let flood = SyncFlood {
        tasks: 1,
        calls: 50,
        placement: Placement::Cpu(1),
        ..SyncFlood::default()
    };
    let by_callback = ("rcu_normal_wake_from_gp", Value::Int(0));
    let ms = |list: &str| {
        let settings = [("rcu_nocbs", list.into()), by_callback.clone()];
        run(&settings, flood.clone()).quantile(0.5).unwrap() as f64 / 1e6
    };
    let (here, away) = (ms(""), ms("all"));
    assert!(away < here - 1.0, "{here} ms with softirqs, {away} ms offloaded");
}

/// Where callbacks are invoked: in softirqs (or `ksoftirqd`) of the CPU that queued them, or all by `rcuop`.
#[test]
fn a_flood_is_invoked_by_the_kthreads() {
    for burst in [1, 10, 400] {
        for list in ["", "all"] {
            let settings = [("rcu_nocbs", list.into())];
            let options = RunOptions {
                trace_limit: 1_000_000,
                ..RunOptions::default()
            };
            let run = run_with(&settings, flood(burst), &options);
            let trace = run.trace.unwrap();
            let invoked: Vec<_> = trace
                .records
                .iter()
                .filter(|record| matches!(record.event, Event::InvokeCallback { .. }))
                .collect();
            assert!(
                invoked.len() as u64 > 100 * burst,
                "{list:?}, burst {burst}: {}",
                invoked.len()
            );
            for record in invoked {
                assert_eq!(
                    record.comm == "rcuop",
                    list == "all",
                    "burst {burst}: {}",
                    record.comm
                );
                assert!(list.is_empty() || record.context == Context::Task);
            }
        }
    }
}

/// The same seed gives the same bytes, and a list that names no CPU is no offloading at all.
#[test]
fn offloading_is_deterministic_and_an_empty_list_changes_nothing() {
    let digest = |list: &str| run(&[("rcu_nocbs", list.into())], flood(10)).digest();
    assert_eq!(digest("0-3"), digest("0-3"));
    assert_ne!(digest("0-3"), digest(""));
    assert_eq!(digest("100"), digest(""));
}

/// `rcuog` polls: nobody wakes it, it looks once a jiffy, so an idle machine makes more wake-ups.
#[test]
fn polling_replaces_wakeups_by_looks() {
    let slow = CallRcuFlood {
        callbacks: 20,
        burst: 1,
        interval: Length::Fixed(50_000_000),
        ..flood(1)
    };
    let wakeups = |poll: bool| {
        let settings = [("rcu_nocbs", "all".into()), ("rcu_nocb_poll", poll.into())];
        let run = run(&settings, slow.clone());
        assert!(run.counters.callbacks_invoked >= 19);
        run.counters.wakeups
    };
    assert!(wakeups(true) > 2 * wakeups(false));
}

/// Each of offloading's tunables moves the figure that its probe names, the way it says.
#[test]
fn the_probes_of_offloading_hold() {
    for name in [
        "rcu_nocbs",
        "rcu_nocb_poll",
        "rcu_nocb_gp_stride",
        "nocb_nobypass_lim_per_jiffy",
    ] {
        let probe = treercu::probe::probe(name).unwrap();
        let outcome = probe.run(5, &Control::default()).unwrap();
        assert!(outcome.moved, "{name}: {outcome:?}");
    }
}

/// `rcu_barrier()` finds callbacks on offloaded CPUs too, in the list or in the bypass, online or not: it returns, and
/// CPUs that leave keep their callbacks, which their kthreads go on to invoke elsewhere.
#[test]
fn barriers_and_hotplug_go_with_offloaded_cpus() {
    for limit in [0, 16] {
        let barriers = SyncFlood {
            tasks: 2,
            calls: 20,
            kind: SyncCallKind::Barrier,
            ..SyncFlood::default()
        };
        let queue = CallRcuFlood {
            tasks: 4,
            callbacks: 0,
            duration_ns: 200_000_000,
            burst: 20,
            ..flood(20)
        };
        let queue = CallRcuFlood {
            placement: Placement::Spread,
            ..queue
        };
        let hotplug = Hotplug {
            transitions: 40,
            ..Hotplug::default()
        };
        let load = Workload::from(barriers).and(queue).and(hotplug);
        let settings = [
            ("rcu_nocbs", "1-6".into()),
            ("nocb_nobypass_lim_per_jiffy", limit.into()),
        ];
        let run = run(&settings, load);
        assert_eq!(run.samples.start_ns.len(), 40);
        assert!(run.counters.cpus_offlined > 0);
        assert!(run.counters.callbacks_invoked * 2 > run.counters.callbacks_queued);
    }
}
