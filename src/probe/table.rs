//! The probes: one per live tunable.

use super::Direction::{Down, Up};
use super::{Metric, Probe};
use crate::workload::{
    CallRcuFlood, CpuLoad, Cpus, Length, Mode, Readers, SrcuCallKind, SrcuFlood, SyncCallKind, SyncFlood,
    Workload,
};

const MS: u64 = 1_000_000;

fn calls(calls: u64) -> SyncFlood {
    SyncFlood {
        calls,
        ..SyncFlood::default()
    }
}

fn crowd(tasks: u64, calls: u64) -> SyncFlood {
    SyncFlood {
        tasks,
        calls,
        ..SyncFlood::default()
    }
}

/// Four tasks that queue so many callbacks at a time.
fn callbacks(burst: u64) -> Workload {
    CallRcuFlood {
        tasks: 4,
        burst,
        interval: Length::Fixed(700_000),
        duration_ns: 60 * MS,
        ..CallRcuFlood::default()
    }
    .into()
}

/// CPU 1 stays in the kernel for so long, again and again.
fn held(flood: SyncFlood, section_ns: u64) -> Workload {
    Workload::from(flood).and(CpuLoad {
        cpus: Cpus::List(vec![1]),
        mode: Mode::Kernel,
        section_ns,
        gap_ns: 1_000,
        ..CpuLoad::default()
    })
}

fn readers(tasks: u64, section_ns: u64) -> Readers {
    Readers {
        tasks,
        section: Length::Fixed(section_ns),
        ..Readers::default()
    }
}

/// An SRCU domain with a reader that stays for most of a jiffy.
fn srcu_with_a_reader() -> Workload {
    SrcuFlood {
        calls: 20,
        think_ns: 3 * MS,
        readers: 1,
        section: Length::Fixed(900_000),
        kind: SrcuCallKind::Expedited,
        ..SrcuFlood::default()
    }
    .into()
}

/// An SRCU domain that many tasks queue callbacks for.
fn srcu_crowd() -> Workload {
    SrcuFlood {
        tasks: 64,
        calls: 50,
        kind: SrcuCallKind::Call,
        ..SrcuFlood::default()
    }
    .into()
}

const OF_32: &[(&str, &str)] = &[("kernel", "6.18"), ("nr_cpus", "32"), ("hz", "1000")];

pub(super) fn probes() -> Vec<Probe> {
    let probe = |tunable, workload: Workload, config, from, to, metric, direction, reason| Probe {
        tunable,
        sets: tunable,
        workload,
        config,
        machine: &[],
        from,
        to,
        metric,
        direction,
        reason,
    };
    let one: Workload = calls(40).into();
    vec![
        probe(
            "kernel",
            one.clone(),
            &[],
            "6.8",
            "7.2",
            Metric::MeanNs,
            Down,
            "a caller is woken at the end of its grace period instead of by a callback, and the early report spares a scan",
        ),
        probe(
            "nr_cpus",
            one.clone(),
            &[("hz", "1000")],
            "8",
            "600",
            Metric::MeanNs,
            Up,
            "each 256 possible CPUs lengthen the default waits by a jiffy",
        ),
        probe(
            "maxcpus",
            one.clone(),
            &[("nr_cpus", "64")],
            "4",
            "64",
            Metric::CpusScannedPerGp,
            Up,
            "each online CPU that is idle is looked at by a scan",
        ),
        probe(
            "hz",
            one.clone(),
            &[],
            "100",
            "1000",
            Metric::MeanNs,
            Down,
            "all waits are counted in jiffies",
        ),
        probe(
            "preempt",
            Workload::from(crowd(4, 10)).and(readers(8, 2 * MS)),
            &[("nr_cpus", "2")],
            "full",
            "none",
            Metric::Scans,
            Down,
            "each context switch is a quiescent state, and no scan has to find it out",
        ),
        probe(
            "hz_periodic",
            one.clone(),
            &[],
            "0",
            "1",
            Metric::TicksPerS,
            Up,
            "idle CPUs keep their ticks",
        ),
        probe(
            "nohz",
            one.clone(),
            &[],
            "1",
            "0",
            Metric::TicksPerS,
            Up,
            "idle CPUs keep their ticks",
        ),
        probe(
            "skew_tick",
            Workload::from(calls(40)).and(CpuLoad::default()),
            &[("nr_cpus", "16")],
            "0",
            "1",
            Metric::MeanNs,
            Down,
            "ticks of different CPUs no longer fall on one instant: what one of them starts, the later ones of the same jiffy go on with",
        ),
        probe(
            "rcu_fanout",
            crowd(40, 10).into(),
            &[("nr_cpus", "64"), ("rcu_fanout_leaf", "4")],
            "64",
            "3",
            Metric::GpKthreadNsPerGp,
            Up,
            "more nodes to initialise and to clean up",
        ),
        probe(
            "config_rcu_fanout_leaf",
            crowd(40, 10).into(),
            &[("nr_cpus", "64")],
            "16",
            "4",
            Metric::GpKthreadNsPerGp,
            Up,
            "more nodes to initialise and to clean up",
        ),
        probe(
            "rcu_fanout_leaf",
            crowd(40, 10).into(),
            &[("nr_cpus", "64")],
            "16",
            "4",
            Metric::GpKthreadNsPerGp,
            Up,
            "more nodes to initialise and to clean up",
        ),
        probe(
            "rcu_fanout_exact",
            calls(3).into(),
            &[("nr_cpus", "36"), ("rcu_fanout_leaf", "16")],
            "0",
            "1",
            Metric::FirstLeafCpus,
            Up,
            "the first leaf is full, the last one takes what is left",
        ),
        probe(
            "jiffies_till_first_fqs",
            one.clone(),
            OF_32,
            "3",
            "1",
            Metric::MeanNs,
            Down,
            "the first scan comes earlier",
        ),
        probe(
            "jiffies_till_next_fqs",
            one.clone(),
            OF_32,
            "3",
            "1",
            Metric::MeanNs,
            Down,
            "without the early report the kthread's own CPU is found by the second scan",
        ),
        probe(
            "jiffies_till_sched_qs",
            held(crowd(4, 5), 300 * MS),
            &[("nr_cpus", "8"), ("hz", "1000")],
            "3",
            "1000",
            Metric::MeanNs,
            Up,
            "a hold-out is asked for help later",
        ),
        Probe {
            sets: "jiffies_till_sched_qs",
            ..probe(
                "jiffies_to_sched_qs",
                held(crowd(4, 5), 300 * MS),
                &[("nr_cpus", "8"), ("hz", "1000")],
                "3",
                "1000",
                Metric::MeanNs,
                Up,
                "the age in force, which the kernel takes from jiffies_till_sched_qs: a hold-out is asked for help later",
            )
        },
        probe(
            "rcu_normal_wake_from_gp",
            one.clone(),
            OF_32,
            "0",
            "1",
            Metric::MeanNs,
            Down,
            "no callback has to be noticed and invoked",
        ),
        probe(
            "wake_from_gp_cpu_threshold",
            one.clone(),
            &[("kernel", "6.18"), ("nr_cpus", "8")],
            "4",
            "16",
            Metric::DirectWakes,
            Up,
            "automatic direct wake is on up to that many CPUs",
        ),
        probe(
            "early_qs",
            one.clone(),
            OF_32,
            "0",
            "1",
            Metric::MeanNs,
            Down,
            "the kthread's own CPU no longer needs a second scan",
        ),
        probe(
            "sr_normal_latch",
            crowd(200, 3).into(),
            &[("nr_cpus", "16")],
            "off",
            "merged",
            Metric::DirectWakes,
            Down,
            "while it is closed, calls wait by callback",
        ),
        probe(
            "sr_normal_latch_threshold",
            crowd(200, 3).into(),
            &[("nr_cpus", "16")],
            "8",
            "100000",
            Metric::DirectWakes,
            Up,
            "never so many in flight that it closes",
        ),
        probe(
            "gp_preinit_delay",
            one.clone(),
            &[],
            "0",
            "3",
            Metric::MeanNs,
            Up,
            "some grace periods sleep before they initialise",
        ),
        probe(
            "gp_init_delay",
            one.clone(),
            &[],
            "0",
            "3",
            Metric::MeanNs,
            Up,
            "some grace periods sleep before each node",
        ),
        probe(
            "gp_cleanup_delay",
            one.clone(),
            &[],
            "0",
            "3",
            Metric::MeanNs,
            Up,
            "some grace periods sleep after each node",
        ),
        probe(
            "blimit",
            callbacks(300),
            &[("hz", "1000")],
            "10",
            "2000",
            Metric::CallbacksPerSoftirq,
            Up,
            "a batch takes more",
        ),
        probe(
            "qhimark",
            callbacks(300),
            &[("hz", "1000")],
            "10000",
            "100",
            Metric::CallbacksPerSoftirq,
            Up,
            "a longer queue lifts the batch limit",
        ),
        probe(
            "qlowmark",
            callbacks(3000),
            &[("hz", "1000")],
            "10",
            "9000",
            Metric::CallbacksPerSoftirq,
            Down,
            "the batch limit comes back earlier",
        ),
        probe(
            "qovld",
            callbacks(300),
            &[("hz", "1000")],
            "20000",
            "10",
            Metric::GpMeanNs,
            Down,
            "overload shortens the waits to a third",
        ),
        probe(
            "rcu_divisor",
            callbacks(300),
            &[("hz", "1000")],
            "7",
            "1",
            Metric::CallbacksPerSoftirq,
            Up,
            "a batch takes half of what is ready",
        ),
        probe(
            "rcu_resched_ns",
            callbacks(9000),
            &[("hz", "1000")],
            "1000000000",
            "1000000",
            Metric::CallbacksPerSoftirq,
            Down,
            "a batch ends by time earlier",
        ),
        Probe {
            machine: &[("cb_invoke_ns", 100_000)],
            ..probe(
                "rcu_double_check_cb_time",
                callbacks(90),
                &[("nr_cpus", "4"), ("rcu_resched_ns", "1000000"), ("blimit", "100")],
                "0",
                "1",
                Metric::CallbacksPerSoftirq,
                Down,
                "the time limit is looked at in a small batch too, where callbacks are slow",
            )
        },
        probe(
            "config_rcu_cpu_stall_timeout",
            held(calls(2), 4000 * MS),
            &[("nr_cpus", "2"), ("hz", "100")],
            "300",
            "3",
            Metric::Stalls,
            Up,
            "the hold-out outlasts it",
        ),
        probe(
            "rcu_cpu_stall_timeout",
            held(calls(2), 4000 * MS),
            &[("nr_cpus", "2"), ("hz", "100")],
            "300",
            "3",
            Metric::Stalls,
            Up,
            "the hold-out outlasts it",
        ),
        probe(
            "config_rcu_exp_cpu_stall_timeout",
            held(
                SyncFlood {
                    kind: SyncCallKind::Expedited,
                    ..calls(3)
                },
                100 * MS,
            ),
            &[("nr_cpus", "2"), ("hz", "100")],
            "20000",
            "40",
            Metric::Stalls,
            Up,
            "the hold-out outlasts it",
        ),
        probe(
            "rcu_exp_cpu_stall_timeout",
            held(
                SyncFlood {
                    kind: SyncCallKind::Expedited,
                    ..calls(3)
                },
                100 * MS,
            ),
            &[("nr_cpus", "2"), ("hz", "100")],
            "20000",
            "40",
            Metric::Stalls,
            Up,
            "the hold-out outlasts it",
        ),
        probe(
            "rcu_cpu_stall_suppress",
            held(calls(2), 4000 * MS),
            &[("nr_cpus", "2"), ("hz", "100"), ("rcu_cpu_stall_timeout", "3")],
            "0",
            "1",
            Metric::Stalls,
            Down,
            "nobody reports the hold-out",
        ),
        probe(
            "prove_rcu",
            held(calls(2), 4000 * MS),
            &[("nr_cpus", "2"), ("hz", "100"), ("rcu_cpu_stall_timeout", "3")],
            "0",
            "1",
            Metric::Stalls,
            Down,
            "the hold-out does not outlast a timeout that is 5 s longer",
        ),
        probe(
            "rcu_expedited",
            one.clone(),
            &[],
            "0",
            "1",
            Metric::MeanNs,
            Down,
            "nobody's tick is waited for",
        ),
        probe(
            "rcu_normal",
            SyncFlood {
                kind: SyncCallKind::Expedited,
                ..calls(40)
            }
            .into(),
            &[],
            "0",
            "1",
            Metric::MeanNs,
            Up,
            "ticks are waited for",
        ),
        probe(
            "rcu_normal_after_boot",
            SyncFlood {
                kind: SyncCallKind::Expedited,
                ..calls(40)
            }
            .into(),
            &[],
            "0",
            "1",
            Metric::MeanNs,
            Up,
            "ticks are waited for",
        ),
        probe(
            "exp_holdoff",
            SrcuFlood {
                calls: 20,
                think_ns: 5_000,
                ..SrcuFlood::default()
            }
            .into(),
            &[],
            "25000",
            "1",
            Metric::SrcuAutoExpedited,
            Up,
            "a call 20 us behind the latest grace period is expedited by itself too",
        ),
        probe(
            "convert_to_big",
            srcu_crowd(),
            &[],
            "0",
            "1",
            Metric::Wakeups,
            Up,
            "callbacks go through the lists of all CPUs, each with work of its own",
        ),
        probe(
            "big_cpu_lim",
            srcu_crowd(),
            &[("nr_cpus", "16")],
            "128",
            "16",
            Metric::Wakeups,
            Up,
            "the domain has a tree from its start, and lists of all CPUs",
        ),
        probe(
            "small_contention_lim",
            srcu_crowd(),
            &[("nr_cpus", "16")],
            "100000",
            "3",
            Metric::Wakeups,
            Up,
            "contention gives the domain a tree, and lists of all CPUs",
        ),
        probe(
            "srcu_retry_check_delay",
            srcu_with_a_reader(),
            &[],
            "5",
            "50",
            Metric::SrcuZeroTestsPerGp,
            Down,
            "a longer pause between two tests",
        ),
        probe(
            "srcu_max_nodelay_phase",
            srcu_with_a_reader(),
            &[("hz", "1000")],
            "400",
            "3",
            Metric::SrcuZeroTestsPerGp,
            Down,
            "fewer tests go without a delay",
        ),
        probe(
            "srcu_max_nodelay",
            srcu_with_a_reader(),
            &[("hz", "1000")],
            "400",
            "2",
            Metric::SrcuWorkRunsPerGp,
            Down,
            "fewer runs go without a delay",
        ),
        probe(
            "kthread_prio",
            Workload::from(calls(10)).and(CpuLoad {
                mode: Mode::Kernel,
                ..CpuLoad::default()
            }),
            &[("nr_cpus", "2"), ("preempt", "lazy")],
            "0",
            "1",
            Metric::MeanNs,
            Down,
            "it does not wait for busy tasks' slices",
        ),
        probe(
            "rcu_nocbs",
            calls(20).into(),
            &[("hz", "1000"), ("rcu_normal_wake_from_gp", "0")],
            "",
            "all",
            Metric::MeanNs,
            Down,
            "rcuog asks for the grace period at once, and rcuop is woken at its end",
        ),
        probe(
            "rcu_nocb_poll",
            callbacks(1),
            &[("hz", "1000"), ("rcu_nocbs", "all")],
            "0",
            "1",
            Metric::ContextSwitches,
            Up,
            "each rcuog looks once a jiffy",
        ),
        probe(
            "rcu_nocb_gp_stride",
            crowd(8, 20).into(),
            &[
                ("hz", "1000"),
                ("rcu_nocbs", "all"),
                ("rcu_normal_wake_from_gp", "0"),
            ],
            "1",
            "8",
            Metric::Wakeups,
            Down,
            "one rcuog is woken instead of one a CPU",
        ),
        probe(
            "nocb_nobypass_lim_per_jiffy",
            calls(20).into(),
            &[
                ("hz", "1000"),
                ("rcu_nocbs", "all"),
                ("rcu_normal_wake_from_gp", "0"),
            ],
            "16",
            "0",
            Metric::MeanNs,
            Up,
            "every callback goes to the bypass, which is flushed after two jiffies",
        ),
    ]
}
