//! CPUs taken offline one after the other, each with its waits: how many, and how long they take.
//!
//! HZ=1000, scans after 3 and 3 jiffies, an idle machine without noise. The task calls right after a tick, since its last
//! call ended at one. With the early report and direct wake a call takes the wait for the first scan, whose timer is
//! rounded up to the tick after it: 3 + 1 ticks, 4 ms.

mod common;

use common::oracle::{Facts, Oracle};
use treercu::config::{Config, Value};
use treercu::sim::{Control, Machine, RunOptions, simulate_observed};
use treercu::stats::Run;
use treercu::workload::{Cpus, HotplugSweep, Length, Workload};

fn run(set: &[(&'static str, i64)], sweep: HotplugSweep) -> Run {
    let base = [
        ("nr_cpus", 32),
        ("hz", 1000),
        ("early_qs", 1),
        ("rcu_normal_wake_from_gp", 1),
    ];
    let pairs = base
        .iter()
        .chain(set)
        .map(|&(name, value)| (name, Value::Int(value)));
    let config = Config::from_pairs(pairs).expect("valid");
    let machine = Machine {
        noise: 0.0,
        ..Machine::default()
    };
    let mut oracle = Oracle::new(Facts::of(config.tunables(), &machine, 60_000_000_000));
    let run = simulate_observed(
        &config,
        &machine,
        &Workload::from(sweep),
        1,
        &RunOptions::default(),
        &Control::default(),
        &mut oracle,
    )
    .expect("runs");
    oracle.check_run(&run);
    assert!(oracle.violations().is_empty(), "{}", oracle.tell());
    run
}

fn siblings() -> HotplugSweep {
    HotplugSweep {
        cpus: Cpus::List((0..32).filter(|cpu| cpu % 8 != 0).collect()),
        waits_down_percent: 125,
        ..HotplugSweep::default()
    }
}

fn virtual_ms(run: &Run) -> f64 {
    run.simulated().expect("simulated").virtual_ns as f64 / 1e6
}

#[test]
fn each_wait_of_each_cpu_is_a_grace_period_one_after_the_other() {
    // 28 siblings of 4 cores of 8 threads, 1.25 calls each: 35 calls.
    let direct = run(&[], siblings());
    assert_eq!(direct.samples.len(), 35);
    assert_eq!(direct.counters.cpus_offlined, 28);
    assert!(direct.samples.end_ns.is_sorted());
    let expected_ms = 35.0 * 4.0;
    let ms = virtual_ms(&direct);
    assert!(
        (ms / expected_ms - 1.0).abs() < 0.05,
        "{ms} ms, {expected_ms} expected"
    );
    // Expedited: microseconds a call, and 20 us of CPU time a transition.
    let expedited = run(&[("rcu_expedited", 1)], siblings());
    assert_eq!(expedited.samples.len(), 35);
    assert!(virtual_ms(&expedited) < 5.0, "{} ms", virtual_ms(&expedited));
    // By callback: a tick to notice the callback, the same 4, a tick to notice the end.
    let callback = run(&[("rcu_normal_wake_from_gp", 0)], siblings());
    let expected_ms = 35.0 * 6.0;
    let ms = virtual_ms(&callback);
    assert!(
        (ms / expected_ms - 1.0).abs() < 0.05,
        "{ms} ms, {expected_ms} expected"
    );
}

#[test]
fn all_but_one_and_back_again() {
    let sweep = HotplugSweep {
        back: true,
        waits_up_percent: 50,
        other: Length::Fixed(1_000_000),
        ..HotplugSweep::default()
    };
    let run = run(&[("nr_cpus", 9)], sweep);
    // 8 calls down, 4 up; 16 transitions of a millisecond each.
    assert_eq!(run.samples.len(), 12);
    assert_eq!(run.counters.cpus_offlined, 8);
    // A call that begins in the middle of a tick takes 3 to 4 of them.
    let ms = virtual_ms(&run);
    assert!((12.0 * 3.0 + 16.0..=12.0 * 4.0 + 20.0).contains(&ms), "{ms} ms");
}

#[test]
fn a_sweep_that_leaves_nobody_is_refused() {
    let config = Config::from_pairs([("nr_cpus", Value::Int(4))]).expect("valid");
    let all = HotplugSweep {
        cpus: Cpus::List(vec![0, 1, 2, 3]),
        ..HotplugSweep::default()
    };
    let refused = Workload::from(all)
        .validate(config.tunables().maxcpus)
        .expect_err("refused");
    assert!(refused.to_string().contains("1 to 3"), "{refused}");
}
