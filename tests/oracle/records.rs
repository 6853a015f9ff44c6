//! S0: the sights themselves; R: the records of a run.

use crate::common::oracle::{Facts, Oracle};
use crate::story::*;
use treercu::config::Config;
use treercu::sim::{Machine, Observer, Sight};
use treercu::stats::{Counters, GracePeriods, Keep, Resolution, Run, Samples, Simulated, World};
use treercu::workload::{SyncCallKind, SyncFlood, Workload};

#[test]
fn s0_sections_and_extended_quiescent_states_exclude_each_other() {
    breaks(
        "S0.section-in-eqs",
        true,
        true,
        |_| {},
        |s| s.see(Sight::SectionBegin { id: 1, cpu: 0 }),
    );
    let open = |s: &mut Story| {
        s.wake(0);
        s.see(Sight::SectionBegin { id: 1, cpu: 0 });
    };
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::EqsEnter { cpu: 0 })
    });
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::GpStep { cpu: 0 })
    });
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::SyncBegin {
            task: 1,
            cpu: 0,
            direct: true,
            kind: SyncCallKind::Sync,
        })
    });
    breaks("S0.section-end", true, true, open, |s| {
        s.see(Sight::SectionEnd { id: 2 })
    });
    breaks("S0.section-id", true, true, open, |s| {
        s.see(Sight::SectionBegin { id: 1, cpu: 0 })
    });
    breaks(
        "S0.eqs",
        true,
        true,
        |s| s.wake(0),
        |s| s.see(Sight::EqsExit { cpu: 0 }),
    );
    // CPU 3 has been seen to go idle.
    breaks(
        "S0.eqs",
        true,
        true,
        |_| {},
        |s| s.see(Sight::EqsEnter { cpu: 3 }),
    );
}

#[test]
fn the_shape_is_checked_against_a_second_construction() {
    let mut s = Story::new(true, true);
    s.tree.nodes[LEAF1].grplo = 1;
    let mut fresh = Oracle::new(facts(true, true));
    let tree = s.tree.clone();
    fresh.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(fresh.violations().iter().any(|v| v.code == "I5.shape"));
    // And who is online.
    let mut other = Oracle::new(Facts {
        online: 3,
        ..facts(true, true)
    });
    let tree = Story::new(true, true).tree;
    other.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(other.violations().iter().any(|v| v.code == "I13.online"));
}

#[test]
fn s0_calls_callbacks_and_offline_cpus() {
    let call = Sight::SyncBegin {
        task: 7,
        cpu: 2,
        direct: true,
        kind: SyncCallKind::Sync,
    };
    breaks("S0.call", true, true, Story::call, |s| s.see(call));
    breaks(
        "S0.call",
        true,
        true,
        |_| {},
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
    breaks("S0.callback-id", true, false, Story::call, |s| {
        s.see(Sight::CallbackQueued { cpu: 2, id: 0 })
    });
    let mut oracle = Oracle::new(Facts {
        online: 3,
        ..facts(true, true)
    });
    let mut tree = Story::new(true, true).tree;
    tree.nodes[LEAF1].qsmaskinitnext = 0b01;
    oracle.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(oracle.violations().is_empty());
    oracle.see(0, Sight::Tick { cpu: 3, user: true }, &|| tree.clone());
    assert!(oracle.violations().iter().any(|v| v.code == "S0.offline"));
}

/// One whole story and the run record that tells it truthfully.
fn told(early: bool, direct: bool) -> (Story, Run) {
    let mut s = Story::new(early, direct);
    s.whole();
    s.see(Sight::End { interrupted: false });
    s.silent();
    let done = s.oracle.coverage.clone();
    let (began, ended) = s.oracle.only_call();
    let (started, over) = s.oracle.only_gp();
    let gp_seq = BOOT as i64 + 1;
    let run = Run {
        samples: Samples {
            task: vec![7],
            cpu: vec![2],
            start_ns: vec![began as i64],
            end_ns: vec![ended as i64],
            latency_ns: vec![(ended - began) as i64],
            gp_seq: vec![gp_seq],
        }
        .into(),
        histogram: None,
        mean_ns: None,
        keep: Keep::default(),
        trace: None,
        stalls: Vec::new(),
        grace_periods: GracePeriods {
            gp_seq: vec![gp_seq],
            start_ns: vec![started as i64],
            end_ns: vec![over as i64],
            requests: vec![1],
            scans: vec![if early { 1 } else { 2 }],
            // The first scan empties the root with CPUs 2 and 3; without the report G is the last.
            holdout_cpu: vec![if early { 3 } else { G as i32 }],
            resolved_by: vec![Resolution::IdleScan as i32],
            kthread_cpu: vec![G as i32],
        },
        counters: Counters {
            ticks: if direct { 0 } else { 2 },
            context_switches: s.oracle.switches_seen(),
            grace_periods: done.grace_periods,
            fqs_scans: if early { 1 } else { 2 },
            callbacks_queued: done.callbacks,
            callbacks_invoked: done.callbacks,
            direct_wakes: done.direct_calls,
            ..Counters::default()
        },
        wall_ns: 0,
        cpu_ns: 0,
        seed: 0,
        config: Config::new(),
        world: World::Sim(Box::new(Simulated {
            machine: Machine::default(),
            virtual_ns: s.at,
            events: 0,
        })),
        workload: Workload::from(SyncFlood::default()),
        interrupted: false,
    };
    (s, run)
}

#[test]
fn r_a_true_record_is_accepted() {
    for (early, direct) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut s, run) = told(early, direct);
        s.oracle.check_run(&run);
        s.silent();
    }
}

fn change(run: &mut Run, how: impl FnOnce(&mut Samples)) {
    let mut samples = Samples::clone(&run.samples);
    how(&mut samples);
    run.samples = samples.into();
}

#[test]
fn r_false_records() {
    type Lie = fn(&mut Run);
    let lies: &[(&str, Lie)] = &[
        ("R.end", |r| r.interrupted = true),
        ("R.gps", |r| r.grace_periods = GracePeriods::default()),
        ("R.columns", |r| r.grace_periods.scans.clear()),
        ("R.gp", |r| r.grace_periods.gp_seq[0] += 4),
        ("R.gp", |r| r.grace_periods.kthread_cpu[0] = 0),
        ("R.gp-time", |r| {
            r.grace_periods.end_ns[0] = r.grace_periods.start_ns[0]
        }),
        ("R.gp-time", |r| r.grace_periods.start_ns[0] -= 100_000_000),
        ("R.resolution", |r| {
            r.grace_periods.resolved_by[0] = Resolution::Tick as i32
        }),
        ("R.resolution", |r| r.grace_periods.holdout_cpu[0] = 0),
        ("R.scans", |r| r.grace_periods.scans[0] = 0),
        ("R.requests", |r| r.grace_periods.requests[0] = 2),
        ("R.requests", |r| r.grace_periods.requests[0] = 0),
        ("R.samples", |r| r.samples = Samples::default().into()),
        ("R.sample", |r| change(r, |s| s.latency_ns[0] += 1)),
        ("R.sample", |r| change(r, |s| s.cpu[0] = 1)),
        ("R.sample-gp", |r| change(r, |s| s.gp_seq[0] += 4)),
        ("I11.late", |r| change(r, |s| s.gp_seq[0] += 4)),
        ("R.counter", |r| r.counters.ticks += 1),
        ("R.counter", |r| r.counters.context_switches += 1),
        ("R.counter", |r| r.counters.callbacks_invoked += 1),
        ("R.counter", |r| r.counters.direct_wakes += 1),
        ("R.counter", |r| r.counters.grace_periods += 1),
        ("R.counter", |r| r.counters.fqs_scans += 1),
    ];
    for (code, lie) in lies {
        let (mut s, mut run) = told(true, true);
        lie(&mut run);
        s.oracle.check_run(&run);
        s.objects(code);
    }
}
