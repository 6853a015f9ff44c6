//! Callback offloading, in the simulated world. Expected values follow from the mechanism, in the comments.

use treercu::config::{Config, Value};

use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Run;
use treercu::workload::{CallRcuFlood, Length, Placement, SyncFlood, Workload};

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
        &RunOptions::default(),
        &Control::default(),
    )
    .unwrap()
}

fn flood(burst: u64) -> CallRcuFlood {
    CallRcuFlood {
        tasks: 1,
        callbacks: 2_000,
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
        run(&[("rcu_nocbs", list.into()), by_callback.clone()], flood.clone())
            .mean_ns
            .unwrap()
            / 1e6
    };
    let (here, away) = (ms(""), ms("all"));
    assert!(away < here - 1.0, "{here} ms with softirqs, {away} ms offloaded");
}

/// Offloaded or not, each callback is invoked once the flood's grace periods are over, and the RCU softirqs of the
/// flooding CPU become fewer.
#[test]
fn a_flood_is_invoked_by_the_kthreads() {
    for burst in [1, 10, 400] {
        let (here, away) = (
            run(&[], flood(burst)),
            run(&[("rcu_nocbs", "all".into())], flood(burst)),
        );
        for run in [&here, &away] {
            assert_eq!(run.counters.callbacks_queued, 2_000);
        }
        assert!(away.counters.callbacks_invoked > 0, "burst {burst}");
        assert!(
            away.counters.rcu_softirqs < here.counters.rcu_softirqs,
            "burst {burst}: {} offloaded, {} not",
            away.counters.rcu_softirqs,
            here.counters.rcu_softirqs
        );
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
