//! The configuration: defaults by formula and era, limits, refusals, names.
//!
//! Most tests walk through the whole catalogue, so that a new tunable cannot be forgotten.

use proptest::prelude::*;
use std::collections::BTreeSet;
use treercu::config::{
    Class, Config, DEFAULT_ERA, ERAS, Era, Kind, Latch, MAX_CPUS, Preempt, Spec, Type, Value, catalogue,
    lookup, nearest_name, settable, table_for,
};
use treercu::error::Error;
use treercu::sim::Machine;

/// Parameter, value, reason, allowed of an `Error::Config`.
fn refusal(result: Result<Config, Error>) -> (String, String, String, String) {
    match result {
        Err(Error::Config {
            parameter,
            value,
            reason,
            allowed,
        }) => (parameter, value, reason, allowed),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn int(config: &Config, name: &str) -> i64 {
    config.get(name).unwrap().as_int().unwrap()
}

fn machine_of(nr_cpus: i64, hz: i64) -> Config {
    Config::from_pairs([("nr_cpus", nr_cpus), ("hz", hz)]).unwrap()
}

// ---------------------------------------------------------------- defaults

#[test]
fn default_waits_of_the_grace_period_kthread() {
    // base(HZ) = 1 + (HZ > 250) + (HZ > 500): 100 -> 1, 250 -> 1, 300 -> 2, 1000 -> 3.
    // One jiffy more for each full 256 CPUs: 255 -> 0, 256 and 511 -> 1, 1024 -> 4, 1536 -> 6, 2048 -> 8.
    let rows: [(i64, [u64; 4]); 9] = [
        (1, [1, 1, 2, 3]),
        (32, [1, 1, 2, 3]),
        (255, [1, 1, 2, 3]),
        (256, [2, 2, 3, 4]),
        (511, [2, 2, 3, 4]),
        (512, [3, 3, 4, 5]),
        (1024, [5, 5, 6, 7]),
        (1536, [7, 7, 8, 9]),
        (2048, [9, 9, 10, 11]),
    ];
    for (nr_cpus, expected) in rows {
        for (hz, wait) in [100, 250, 300, 1000].into_iter().zip(expected) {
            let config = machine_of(nr_cpus, hz);
            let t = config.tunables();
            assert_eq!(t.jiffies_till_first_fqs, wait, "{nr_cpus} CPUs, HZ={hz}");
            assert_eq!(t.jiffies_till_next_fqs, wait, "{nr_cpus} CPUs, HZ={hz}");
            assert!(config.warnings().is_empty());
        }
    }
}

#[test]
fn age_at_which_the_scheduler_is_asked() {
    // Small machines: first + 2 * next is 3, 3, 6, 9; HZ / 10 is larger each time.
    for (hz, age) in [(100, 10), (250, 25), (300, 30), (1000, 100)] {
        assert_eq!(machine_of(8, hz).tunables().jiffies_to_sched_qs, age, "HZ={hz}");
    }
    // 2048 CPUs at HZ=100: waits of 9, so 9 + 2 * 9 = 27 against 100 / 10 + 2048 / 256 = 18.
    assert_eq!(machine_of(2048, 100).tunables().jiffies_to_sched_qs, 27);
    // 2048 CPUs at HZ=1000: 11 + 22 = 33 against 100 + 8 = 108.
    assert_eq!(machine_of(2048, 1000).tunables().jiffies_to_sched_qs, 108);
    // It follows the waits that are set, as limited: 250 + 2 * 1 at HZ=250.
    let set = Config::from_pairs([("jiffies_till_first_fqs", 9999), ("jiffies_till_next_fqs", 0)]).unwrap();
    assert_eq!(set.tunables().jiffies_to_sched_qs, 252);
    // A given age replaces the computed one, zero included.
    for age in [0_i64, 7, 1_000_000] {
        let config = set.with("jiffies_till_sched_qs", age).unwrap();
        assert_eq!(int(&config, "jiffies_to_sched_qs"), age);
        assert_eq!(int(&config, "jiffies_till_sched_qs"), age);
        assert_eq!(config.warnings().len(), 2); // the two waits
    }
}

#[test]
fn plain_defaults() {
    let config = Config::new();
    assert_eq!(config, Config::default());
    let t = config.tunables();
    assert_eq!((t.kernel, t.nr_cpus, t.maxcpus, t.hz), (Era::V7_2, 8, 8, 250));
    assert_eq!(
        (t.preempt, t.periodic_ticks, t.skew_tick),
        (Preempt::Full, false, false)
    );
    assert_eq!(
        (t.rcu_fanout, t.rcu_fanout_leaf, t.rcu_fanout_exact),
        (64, 16, false)
    );
    assert_eq!((t.wake_from_gp, t.early_qs), (true, true));
    assert_eq!(
        (t.sr_normal_latch, t.sr_normal_latch_threshold),
        (Latch::Merged, 64)
    );
    assert_eq!(
        (
            t.gp_preinit_delay,
            t.gp_init_delay,
            t.gp_cleanup_delay,
            t.gpwrap_lag
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(
        (t.blimit, t.qhimark, t.qlowmark, t.qovld),
        (10, 10_000, 100, 20_000)
    );
    assert_eq!((t.rcu_divisor, t.rcu_resched_ns), (7, 3_000_000));
    assert!(!t.rcu_double_check_cb_time);
    assert_eq!((t.rcu_cpu_stall_timeout, t.kthread_prio), (21, 0));
    assert!(config.explicit().is_empty() && config.warnings().is_empty());
}

#[test]
fn raising_qhimark_does_not_move_qovld_but_a_negative_qovld_follows_it() {
    let raised = Config::new().with("qhimark", 50_000).unwrap();
    assert_eq!(raised.tunables().qovld, 20_000);
    let following = raised.with("qovld", -1).unwrap();
    assert_eq!(following.tunables().qovld, 100_000);
    assert_eq!(raised.with("qovld", 0).unwrap().tunables().qovld, 0);
}

#[test]
fn kconfig_entries_give_the_default_of_their_parameter() {
    let built = Config::from_pairs([
        ("CONFIG_RCU_FANOUT_LEAF", 8),
        ("CONFIG_RCU_CPU_STALL_TIMEOUT", 60),
    ])
    .unwrap();
    assert_eq!(built.tunables().rcu_fanout_leaf, 8);
    assert_eq!(built.tunables().rcu_cpu_stall_timeout, 60);
    let booted = built
        .replace([("rcu_fanout_leaf", 32), ("rcu_cpu_stall_timeout", 30)])
        .unwrap();
    assert_eq!(booted.tunables().rcu_fanout_leaf, 32);
    assert_eq!(booted.tunables().rcu_cpu_stall_timeout, 30);
    assert_eq!(int(&booted, "config_rcu_fanout_leaf"), 8);
}

#[test]
fn the_tick_stops_unless_told_otherwise() {
    for (hz_periodic, nohz, ticks) in [
        (false, true, false),
        (true, true, true),
        (false, false, true),
        (true, false, true),
    ] {
        let config = Config::from_pairs([("hz_periodic", hz_periodic), ("nohz", nohz)]).unwrap();
        assert_eq!(config.tunables().periodic_ticks, ticks);
    }
    assert!(
        Config::new()
            .with("nohz", "off")
            .unwrap()
            .tunables()
            .periodic_ticks
    );
}

#[test]
fn which_kind_a_call_is() {
    use treercu::workload::SyncCallKind::{self, Barrier, Expedited, Poll, Sync};
    // The kernel's table: rcu_normal goes before rcu_expedited; other ways to wait are as they are.
    let rows: [(i64, i64, i64, SyncCallKind, SyncCallKind); 6] = [
        (0, 0, 0, Sync, Expedited),
        (1, 0, 0, Expedited, Expedited),
        (0, 1, 0, Sync, Sync),
        (1, 1, 0, Sync, Sync),
        (0, 0, 1, Sync, Sync),
        (2, 0, -1, Sync, Sync),
    ];
    for (expedited, normal, after_boot, sync, exp) in rows {
        let config = Config::from_pairs([
            ("rcu_expedited", expedited),
            ("rcu_normal", normal),
            ("rcu_normal_after_boot", after_boot),
        ])
        .unwrap();
        let t = config.tunables();
        assert_eq!((Sync.in_force(t), Expedited.in_force(t)), (sync, exp), "{config}");
        assert_eq!((Barrier.in_force(t), Poll.in_force(t)), (Barrier, Poll));
    }
}

#[test]
fn a_kernel_that_checks_itself_waits_longer_before_it_reports() {
    let plain = Config::from_pairs([("hz", 1000)]).unwrap();
    let checked = plain.with("prove_rcu", true).unwrap();
    assert_eq!(plain.tunables().rcu_cpu_stall_timeout, 21);
    assert_eq!(checked.tunables().rcu_cpu_stall_timeout, 26);
    // 21 s, and a quarter and a jiffy more.
    assert_eq!(plain.tunables().exp_stall_timeout_jiffies, 21_000);
    assert_eq!(checked.tunables().exp_stall_timeout_jiffies, 21_000 + 5_250 + 1);
    assert_eq!(checked.get("rcu_cpu_stall_timeout").unwrap(), Value::Int(21));
}

// ---------------------------------------------------------------- eras

#[test]
fn era_defaults() {
    // kernel, rcu_normal_wake_from_gp, direct wake at 16 and at 17 CPUs, early report, timers pulled, latch
    let rows = [
        ("6.8", 0, false, false, false, false, Latch::Off),
        ("6.12", 0, false, false, false, true, Latch::Off),
        ("6.18", -1, true, false, false, true, Latch::Off),
        ("7.2", 1, true, true, true, true, Latch::Merged),
    ];
    assert_eq!(rows.len(), ERAS.len());
    for (row, (kernel, wake, wake16, wake17, early_qs, pulls, latch)) in ERAS.iter().zip(rows) {
        assert_eq!(row.era.name(), kernel);
        assert_eq!(Era::from_name(kernel), Some(row.era));
        assert_eq!(table_for(row.era), row);
        assert_eq!(row.era.pulls_timers(), pulls);
        assert!(!row.note.is_empty() && !row.source.is_empty());
        assert!(row.to_string().starts_with(&format!("kernel {kernel}: ")));

        let small = Config::new()
            .with("kernel", kernel)
            .unwrap()
            .with("nr_cpus", 16)
            .unwrap();
        assert_eq!(small.tunables().kernel, row.era);
        assert_eq!(int(&small, "rcu_normal_wake_from_gp"), wake);
        assert_eq!(small.tunables().wake_from_gp, wake16, "{kernel}");
        assert_eq!(
            small.with("nr_cpus", 17).unwrap().tunables().wake_from_gp,
            wake17,
            "{kernel}"
        );
        assert_eq!(small.tunables().early_qs, early_qs);
        assert_eq!(small.tunables().sr_normal_latch, latch);
        for form in [Latch::Off, Latch::V1, Latch::Merged] {
            let explicit = small.with("sr_normal_latch", form.name()).unwrap();
            assert_eq!(explicit.tunables().sr_normal_latch, form);
        }
    }
    assert_eq!(Config::new().tunables().kernel, DEFAULT_ERA);
}

#[test]
fn explicit_values_win_over_the_era() {
    for era in Era::ALL {
        let config = Config::new().with("kernel", era.name()).unwrap();
        for early_qs in [false, true] {
            for (wake, at_8, at_32) in [(0, false, false), (1, true, true), (-1, true, false)] {
                let config = config
                    .with("early_qs", early_qs)
                    .unwrap()
                    .with("rcu_normal_wake_from_gp", wake)
                    .unwrap();
                assert_eq!(config.tunables().early_qs, early_qs);
                assert_eq!(config.tunables().wake_from_gp, at_8);
                assert_eq!(config.with("nr_cpus", 32).unwrap().tunables().wake_from_gp, at_32);
            }
        }
    }
}

#[test]
fn an_era_sets_only_what_its_table_says() {
    let newest = Config::new();
    for era in Era::ALL {
        let config = newest.with("kernel", era.name()).unwrap();
        for spec in catalogue() {
            if !["kernel", "rcu_normal_wake_from_gp", "early_qs", "sr_normal_latch"]
                .contains(&spec.python_name)
            {
                assert_eq!(
                    config.get(spec.name),
                    newest.get(spec.name),
                    "{} in {era}",
                    spec.name
                );
            }
        }
    }
}

#[test]
fn when_srcu_domains_grow() {
    // (at initialisation, by torture, on contention)
    let sizing = |policy: i64, nr_cpus: i64, limit: i64| {
        let config = Config::new()
            .replace([
                ("convert_to_big", policy),
                ("nr_cpus", nr_cpus),
                ("big_cpu_lim", limit),
            ])
            .unwrap();
        let sizing = config.tunables().srcu.sizing;
        (sizing.at_init, sizing.by_torture, sizing.on_contention)
    };
    assert_eq!(sizing(0, 1000, 128), (false, false, false));
    assert_eq!(sizing(1, 1, 128), (true, false, false));
    assert_eq!(sizing(2, 1000, 128), (false, true, false));
    assert_eq!(sizing(0x12, 1000, 128), (false, true, true));
    for automatic in [3, 0x13] {
        assert_eq!(sizing(automatic, 127, 128), (false, false, true));
        assert_eq!(sizing(automatic, 128, 128), (true, false, false));
        assert_eq!(sizing(automatic, 5, 5), (true, false, false));
    }
}

#[test]
fn the_automatic_direct_wake_counts_possible_cpus() {
    let auto = Config::new().with("rcu_normal_wake_from_gp", -1).unwrap();
    // Possible, not online ones.
    let few_online = auto.replace([("nr_cpus", 32), ("maxcpus", 8)]).unwrap();
    assert!(!few_online.tunables().wake_from_gp);
    assert!(
        few_online
            .with("wake_from_gp_cpu_threshold", 32)
            .unwrap()
            .tunables()
            .wake_from_gp
    );
    assert!(
        !auto
            .with("wake_from_gp_cpu_threshold", 0)
            .unwrap()
            .tunables()
            .wake_from_gp
    );
}

// ---------------------------------------------------------------- ranges

/// What an integer tunable does at and beyond its ends, for 8 CPUs and HZ=250: `(given, used)` for what
/// is accepted, then what is refused. Written by hand from the parameter documentation.
fn ends(python_name: &str) -> (Vec<(i64, i64)>, Vec<i64>) {
    const I32: i64 = i32::MAX as i64;
    let (accepted, refused): (&[(i64, i64)], &[i64]) = match python_name {
        "nr_cpus" => (&[(1, 1), (16384, 16384)], &[0, -1, 16385, 1_000_000_000]),
        "maxcpus" => (&[(1, 1), (8, 8), (9, 8), (1_000_000, 8)], &[0, -1]),
        "hz" => (
            &[(100, 100), (250, 250), (300, 300), (1000, 1000)],
            &[0, 1, 99, 999, 1024, -250],
        ),
        "rcu_fanout" => (&[(2, 2), (64, 64)], &[1, 0, -2, 65, 1000]),
        "config_rcu_fanout_leaf" | "rcu_fanout_leaf" => (&[(2, 2), (64, 64)], &[1, 0, -16, 65, 1000]),
        "jiffies_till_first_fqs" => (
            &[(0, 0), (250, 250), (251, 250), (i64::MAX, 250)],
            &[-1, i64::MIN],
        ),
        "jiffies_till_next_fqs" => (
            &[(0, 1), (1, 1), (250, 250), (251, 250), (i64::MAX, 250)],
            &[-1, i64::MIN],
        ),
        "jiffies_till_sched_qs" => (&[(0, 0), (1, 1), (I32, I32)], &[-1, I32 + 1, i64::MAX]),
        "jiffies_to_sched_qs" => (&[(0, 25), (1, 25), (25, 25), (i64::MAX, 25)], &[-1, i64::MIN]),
        "rcu_normal_wake_from_gp" => (&[(-1, -1), (0, 0), (1, 1)], &[-2, 2, i64::MAX]),
        "wake_from_gp_cpu_threshold" => (&[(0, 0), (I32, I32)], &[-1, I32 + 1]),
        "sr_normal_latch_threshold" => (&[(1, 1), (1_000_000, 1_000_000)], &[0, -1, 1_000_001]),
        "gp_preinit_delay" | "gp_init_delay" | "gp_cleanup_delay" => {
            (&[(0, 0), (3, 3), (10_000, 10_000)], &[-1, 10_001, i64::MAX])
        }
        "exp_holdoff" | "counter_wrap_check" => (&[(0, 0), (1, 1), (i64::MAX, i64::MAX)], &[-1, i64::MIN]),
        "convert_to_big" => (
            &[
                (0, 0),
                (1, 1),
                (2, 2),
                (3, 3),
                (16, 16),
                (17, 17),
                (18, 18),
                (19, 19),
            ],
            &[-1, 4, 15, 20, 32, i64::MAX],
        ),
        "rcu_nocb_gp_stride" => (
            &[(1, 1), (I32, I32), (-1, 4), (0, 4), (-I32 - 1, 4)],
            &[I32 + 1, -I32 - 2],
        ),
        "nocb_nobypass_lim_per_jiffy" => (&[(0, 0), (I32, I32)], &[-1, I32 + 1]),
        "big_cpu_lim" => (&[(0, 0), (-1, -1), (I32, I32)], &[I32 + 1, -I32 - 2]),
        "small_contention_lim" | "srcu_max_nodelay" => (&[(0, 0), (I32, I32)], &[-1, I32 + 1]),
        "srcu_retry_check_delay" => (&[(0, 0), (1_000_000, 1_000_000)], &[-1, 1_000_001]),
        "srcu_max_nodelay_phase" => (&[(3, 3), (1000, 1000)], &[2, 0, -3, 1001]),
        "gpwrap_lag" => (
            &[(0, 0), (1, 1), (1_099_511_627_776, 1_099_511_627_776)],
            &[-1, 1_099_511_627_777, i64::MAX],
        ),
        "blimit" => (&[(1, 1), (I32, I32)], &[0, -1, I32 + 1, i64::MAX]),
        "qhimark" | "qlowmark" => (&[(0, 0), (I32, I32)], &[-1, I32 + 1, i64::MAX]),
        "qovld" => (
            &[
                (0, 0),
                (1, 1),
                (2 * I32, 2 * I32),
                (-1, 20_000),
                (i64::MIN, 20_000),
            ],
            &[2 * I32 + 1, i64::MAX],
        ),
        "rcu_divisor" => (
            &[(0, 0), (62, 62), (63, 62), (I32, 62), (-1, 7)],
            &[I32 + 1, -I32 - 2],
        ),
        "rcu_resched_ns" => (
            &[
                (1_000_000, 1_000_000),
                (1_000_000_000, 1_000_000_000),
                (999_999, 1_000_000),
                (0, 1_000_000),
                (i64::MIN, 1_000_000),
                (1_000_000_001, 1_000_000_000),
                (i64::MAX, 1_000_000_000),
            ],
            &[],
        ),
        "config_rcu_cpu_stall_timeout" => (&[(3, 3), (300, 300)], &[2, 0, -3, 301]),
        "rcu_cpu_stall_timeout" => (
            &[(3, 3), (300, 300), (2, 3), (-1, 3), (301, 300), (I32, 300)],
            &[I32 + 1, -I32 - 2],
        ),
        "config_rcu_exp_cpu_stall_timeout" => (&[(0, 0), (300_000, 300_000)], &[-1, 300_001]),
        // Whole jiffies of 4 ms, at least two.
        "rcu_exp_cpu_stall_timeout" => (
            &[
                (8, 8),
                (1000, 1000),
                (300_000, 300_000),
                (0, 21_000),
                (1, 8),
                (9, 12),
                (-1, 8),
                (300_001, 300_000),
                (I32, 300_000),
            ],
            &[I32 + 1, -I32 - 2],
        ),
        "kthread_prio" => (
            &[(0, 0), (99, 99), (-1, 0), (100, 99), (I32, 99)],
            &[I32 + 1, -I32 - 2],
        ),
        "rcu_cpu_stall_suppress" | "rcu_expedited" | "rcu_normal" | "rcu_normal_after_boot" => {
            (&[(0, 0), (1, 1), (-1, -1), (I32, I32)], &[I32 + 1, -I32 - 2])
        }
        other => panic!("{other}: this test has no row for this tunable"),
    };
    (accepted.to_vec(), refused.to_vec())
}

#[test]
fn integers_at_and_beyond_their_ends() {
    for spec in catalogue() {
        if !matches!(spec.value_type, Type::Int { .. } | Type::IntOneOf(_)) {
            continue;
        }
        let name = spec.python_name;
        let (accepted, refused) = ends(name);
        let mut limited = 0;
        for (given, used) in accepted {
            // As an integer under either name, and as text.
            let config = Config::new().with(name, given).unwrap();
            assert_eq!(config.get(name).unwrap(), Value::Int(used), "{name}={given}");
            assert_eq!(config, Config::new().with(spec.name, given).unwrap());
            assert_eq!(config, Config::new().with(name, given.to_string()).unwrap());
            assert_eq!(config.explicit()[name], Value::Int(given));
            let own: Vec<_> = config.warnings().iter().filter(|w| w.name == name).collect();
            if given == used {
                assert!(own.is_empty(), "{name}={given} warns: {own:?}");
            } else {
                limited += 1;
                assert_eq!(own.len(), 1, "{name}={given}");
                assert_eq!(
                    (&own[0].given, &own[0].used),
                    (&Value::Int(given), &Value::Int(used))
                );
                let text = own[0].to_string();
                assert!(
                    text.starts_with(&format!("{name}={given}: {used} is used (")),
                    "{text}"
                );
            }
            assert_eq!(
                own.len(),
                config.warnings().len(),
                "{name}={given} warns about others"
            );
        }
        assert_eq!(limited > 0, spec.class == Class::Clamped, "{name}: class");
        for given in refused {
            for value in [Value::Int(given), Value::Text(given.to_string())] {
                let (parameter, shown, reason, allowed) = refusal(Config::new().set(name, value));
                assert_eq!((parameter.as_str(), shown), (name, given.to_string()));
                assert!(!reason.is_empty());
                assert_eq!(allowed, spec.range);
            }
        }
    }
}

#[test]
fn booleans() {
    for spec in catalogue().iter().filter(|spec| spec.value_type == Type::Bool) {
        let on: [Value; 7] = [
            true.into(),
            1.into(),
            "1".into(),
            "true".into(),
            "on".into(),
            "y".into(),
            "True".into(),
        ];
        let off: [Value; 7] = [
            false.into(),
            0.into(),
            "0".into(),
            "false".into(),
            "off".into(),
            "n".into(),
            "FALSE".into(),
        ];
        for (values, expected) in [(on, true), (off, false)] {
            for value in values {
                let config = Config::new().set(spec.name, value.clone()).unwrap();
                assert_eq!(
                    config.get(spec.name).unwrap(),
                    Value::Bool(expected),
                    "{} {value:?}",
                    spec.name
                );
                assert_eq!(config.explicit()[spec.python_name], Value::Bool(expected));
            }
        }
        for value in [
            Value::from(2),
            (-1).into(),
            "2".into(),
            "maybe".into(),
            "".into(),
            1.0.into(),
        ] {
            let (parameter, ..) = refusal(Config::new().set(spec.name, value));
            assert_eq!(parameter, spec.name);
        }
        assert_eq!(spec.class, Class::Refused);
    }
}

#[test]
fn words() {
    for spec in catalogue() {
        if let Type::OneOf(choices) = spec.value_type {
            for &choice in choices {
                let config = Config::new().with(spec.name, choice).unwrap();
                assert_eq!(config.get(spec.name).unwrap(), Value::from(choice));
                assert!(spec.range.contains(choice));
            }
            for wrong in ["", "7.3", "FULL", " full", "6.8 "] {
                refusal(Config::new().with(spec.name, wrong));
            }
            assert_eq!(spec.class, Class::Refused);
        }
    }
    let eras: Vec<_> = Era::ALL.iter().map(|era| era.name()).collect();
    assert_eq!(lookup("kernel").unwrap().value_type, Type::OneOf(eras.leak()));
    let modelled = lookup("preempt").unwrap();
    for model in ["none", "voluntary"] {
        if modelled.range.contains(model) {
            continue; // the refusal has been lifted
        }
        let (_, _, reason, allowed) = refusal(Config::new().with("preempt", model));
        assert!(
            reason.contains("non-preemptible") && reason.contains("not modelled yet"),
            "{reason}"
        );
        assert_eq!(allowed, "full or lazy");
    }
}

#[test]
fn which_preemption_models_have_preemptible_readers() {
    for (model, name, preemptible) in [
        (Preempt::Full, "full", true),
        (Preempt::Lazy, "lazy", true),
        (Preempt::None, "none", false),
        (Preempt::Voluntary, "voluntary", false),
    ] {
        assert_eq!((model.name(), model.is_preemptible()), (name, preemptible));
        assert_eq!(serde_json::to_value(model).unwrap(), name);
    }
}

#[test]
fn wrong_types_and_nonsense_are_refused_by_every_tunable() {
    for spec in catalogue() {
        let mut wrong = vec![
            Value::Float(f64::NAN),
            Value::Float(f64::INFINITY),
            Value::Float(1.0),
            Value::Float(-0.5),
            Value::from(""),
            Value::from(" "),
            Value::from("-"),
            Value::from("nan"),
            Value::from("1e3"),
            Value::from("0x10"),
            Value::from(" 3"),
            Value::from("3 "),
            Value::from("3_0"),
            Value::from("٣"), // a decimal digit to Unicode, not to the kernel
            Value::from("99999999999999999999999"),
            Value::from("-99999999999999999999999"),
            Value::from("one\nline"),
        ];
        match spec.value_type {
            Type::Bool => {}
            Type::Int { .. } | Type::IntOneOf(_) => wrong.extend([Value::Bool(true), Value::Bool(false)]),
            Type::OneOf(_) => wrong.extend([Value::Bool(true), Value::Int(7)]),
            Type::CpuList => {
                // An empty list is one.
                wrong.retain(|value| *value != Value::from(""));
                wrong.extend([
                    Value::Bool(true),
                    Value::Int(-1),
                    Value::from("3-1"),
                    Value::from("1,,2"),
                ]);
            }
        }
        for value in wrong {
            let (parameter, shown, reason, allowed) =
                refusal(Config::new().set(spec.python_name, value.clone()));
            assert_eq!(parameter, spec.python_name);
            assert!(!shown.contains('\n') && !reason.contains('\n'));
            assert_eq!(allowed, spec.range);
            if matches!(value, Value::Float(_)) {
                assert!(reason.contains("floating-point number"), "{reason}");
            }
        }
    }
}

#[test]
fn some_messages_in_full() {
    let message = |name: &str, value: Value| Config::new().set(name, value).unwrap_err().to_string();
    assert_eq!(
        message("rcu_fanout_leaf", 1000.into()),
        "rcu_fanout_leaf=1000: out of range; allowed: 2 to 64 (the kernel warns and ignores others)"
    );
    assert_eq!(
        message("CONFIG_HZ", 999.into()),
        "CONFIG_HZ=999: no such choice; allowed: 100, 250, 300 or 1000"
    );
    assert_eq!(
        message("hz", true.into()),
        "hz=true: a boolean where an integer is needed; allowed: 100, 250, 300 or 1000"
    );
    assert_eq!(
        message("kernel", 7.2.into()),
        "kernel=7.2: a floating-point number where a release as text, in quotes, is needed; \
         allowed: \"6.8\", \"6.12\", \"6.18\" or \"7.2\""
    );
    assert!(message("maxcpus", 0.into()).contains("SMP"));
    let long = message("hz", "9\u{1b}[31m".repeat(10_000).into());
    assert!(long.len() < 400 && !long.contains('\u{1b}'), "{long}");
    let long = message(&"x\n".repeat(10_000), 1.into());
    assert!(long.len() < 400 && !long.contains('\n'), "{long}");
}

// ---------------------------------------------------------------- several together

#[test]
fn cpus_must_fit_in_four_levels() {
    // 2 CPUs a leaf and 2 children a node: 2 * 2 * 2 * 2 = 16.
    let narrow = [("rcu_fanout", 2), ("rcu_fanout_leaf", 2)];
    let narrow = Config::from_pairs(narrow).unwrap();
    assert_eq!(narrow.with("nr_cpus", 16).unwrap().tunables().nr_cpus, 16);
    let (parameter, value, reason, allowed) = refusal(narrow.with("nr_cpus", 17));
    assert_eq!((parameter.as_str(), value.as_str()), ("nr_cpus", "17"));
    assert!(
        reason.contains("rcu_fanout_leaf=2") && reason.contains("rcu_fanout=2"),
        "{reason}"
    );
    assert!(allowed.starts_with("1 to 16 "), "{allowed}");
    // All at once it does not matter what would not fit on the way.
    Config::from_pairs([
        ("nr_cpus", 1000),
        ("rcu_fanout", 2),
        ("rcu_fanout_leaf", 64),
        ("rcu_fanout", 4),
    ])
    .unwrap();
    // The largest machine fits with the default fan-outs.
    let largest = Config::new().with("nr_cpus", MAX_CPUS).unwrap();
    assert_eq!(largest.tunables().nr_cpus, MAX_CPUS);
}

#[test]
fn limits_follow_the_values_in_force() {
    // 500 is above HZ=250 and below HZ=1000.
    let config = Config::new().with("jiffies_till_first_fqs", 500).unwrap();
    assert_eq!(config.tunables().jiffies_till_first_fqs, 250);
    let faster = config.with("hz", 1000).unwrap();
    assert_eq!(faster.tunables().jiffies_till_first_fqs, 500);
    assert!(faster.warnings().is_empty());
    // The same for CPUs online at start.
    let config = Config::new().with("maxcpus", 32).unwrap();
    assert_eq!((config.tunables().maxcpus, config.warnings().len()), (8, 1));
    let larger = config.with("nr_cpus", 64).unwrap();
    assert_eq!((larger.tunables().maxcpus, larger.warnings().len()), (32, 0));
    assert_eq!(larger.without("maxcpus").unwrap().tunables().maxcpus, 64);
}

#[test]
fn setting_a_tunable_to_its_value_in_force_changes_nothing() {
    for era in Era::ALL {
        let config = Config::from_pairs([("kernel", era.name())]).unwrap();
        for spec in catalogue() {
            let again = config.set(spec.name, config.get(spec.name).unwrap()).unwrap();
            assert_eq!(again.tunables(), config.tunables(), "{}", spec.name);
            assert_eq!(again.effective(), config.effective(), "{}", spec.name);
            assert!(again.warnings().is_empty(), "{}", spec.name);
        }
    }
}

#[test]
fn default_for_is_the_value_with_this_one_not_set() {
    let config = machine_of(2048, 1000);
    let first = lookup("jiffies_till_first_fqs").unwrap();
    assert_eq!(first.default_for(&config), Value::Int(11));
    assert_eq!(
        first.default_for(&config.with("jiffies_till_first_fqs", 5).unwrap()),
        Value::Int(11)
    );
    // Also where the others would not be accepted without it.
    let needed = Config::from_pairs([("nr_cpus", 500), ("rcu_fanout", 2), ("rcu_fanout_leaf", 64)]).unwrap();
    assert_eq!(
        lookup("rcu_fanout_leaf").unwrap().default_for(&needed),
        Value::Int(16)
    );
    refusal(needed.without("rcu_fanout_leaf"));
}

#[test]
fn the_later_of_two_values_holds() {
    let config = Config::from_pairs([("hz", 100), ("CONFIG_HZ", 1000)]).unwrap();
    assert_eq!(config.tunables().hz, 1000);
    assert_eq!(config.explicit().len(), 1);
}

#[test]
fn a_refusal_leaves_the_configuration_as_it_was() {
    let config = machine_of(32, 1000);
    let before = config.clone();
    refusal(config.with("hz", 7));
    refusal(config.with("no_such_thing", 7));
    assert_eq!(config, before);
}

/// A few acceptable values of each tunable.
fn samples(spec: &Spec) -> Vec<Value> {
    match spec.value_type {
        Type::CpuList => ["", "all", "1-3", "0,7"].map(Value::from).to_vec(),
        Type::Bool => vec![true.into(), false.into(), "on".into(), 0.into()],
        Type::OneOf(choices) => choices.iter().map(|&word| word.into()).collect(),
        _ => ends(spec.python_name)
            .0
            .into_iter()
            .map(|(given, _)| given.into())
            .collect(),
    }
}

/// Some tunables in some order, each with some acceptable value.
fn some_settings() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let each: Vec<_> = catalogue()
        .iter()
        .map(|spec| {
            let value = prop::sample::select(samples(spec));
            let name = prop::sample::select(vec![spec.name, spec.python_name]);
            prop::option::of((name, value))
        })
        .collect();
    each.prop_map(|all| all.into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
}

proptest! {
    #[test]
    fn the_order_of_settings_does_not_matter(settings in some_settings(), seed in any::<u64>()) {
        let mut other = settings.clone();
        // Any fixed rearrangement that depends on the seed.
        other.sort_by_key(|(name, _)| {
            name.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
        });
        let at_once = Config::from_pairs(settings.clone());
        prop_assert_eq!(&at_once, &Config::from_pairs(other));
        // One by one, where each step is a machine that can exist.
        let steps = settings.iter().try_fold(Config::new(), |config, (name, value)| config.set(name, value.clone()));
        if let Ok(stepwise) = steps {
            prop_assert_eq!(&at_once, &Ok(stepwise));
        }
        if let Ok(config) = at_once {
            // What was given survives the round trip.
            let json = serde_json::to_string(&config).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Config>(&json).unwrap(), &config);
            let t = config.tunables();
            prop_assert!(t.maxcpus >= 1 && t.maxcpus <= t.nr_cpus);
            prop_assert!(t.jiffies_till_first_fqs <= u64::from(t.hz));
            prop_assert!((1..=u64::from(t.hz)).contains(&t.jiffies_till_next_fqs));
        }
    }

    #[test]
    fn whatever_is_given_is_accepted_or_refused_by_name(
        name in prop_oneof![
            prop::sample::select(catalogue().iter().map(|spec| spec.name.to_string()).collect::<Vec<_>>()),
            any::<String>(),
        ],
        value in prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-5i64..2000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            (-5i64..2000).prop_map(|i| Value::from(i.to_string())),
        ],
    ) {
        match Config::new().set(&name, value) {
            Ok(config) => {
                let spec = lookup(&name).unwrap();
                prop_assert!(config.explicit().contains_key(spec.python_name));
                prop_assert!(config.warnings().len() <= 1);
            }
            Err(Error::Config { parameter, allowed, .. }) => {
                prop_assert!(!allowed.is_empty());
                if lookup(&name).is_some() {
                    prop_assert_eq!(parameter, name);
                }
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

// ---------------------------------------------------------------- names and texts

#[test]
fn names_are_unique_and_disjoint_from_the_machine() {
    let mut names = BTreeSet::new();
    for spec in catalogue() {
        assert!(names.insert(spec.python_name), "{} twice", spec.python_name);
        if spec.name != spec.python_name {
            assert!(names.insert(spec.name), "{} twice", spec.name);
        }
        for name in [spec.name, spec.python_name] {
            assert_eq!(lookup(name), Some(spec));
        }
    }
    let machine = serde_json::to_value(Machine::default()).unwrap();
    for field in machine.as_object().unwrap().keys() {
        assert!(
            !names.contains(field.as_str()),
            "{field} is a tunable and a field of Machine"
        );
    }
}

#[test]
fn python_names_follow_from_catalogue_names() {
    let parameters: Vec<&str> = catalogue()
        .iter()
        .filter(|spec| spec.kind == Kind::ModuleParam)
        .map(|spec| spec.python_name)
        .collect();
    for spec in catalogue() {
        let expected = match spec.name.split_once('.') {
            Some((prefix, rest)) => {
                assert!(["rcutree", "rcupdate", "srcutree", "patch"].contains(&prefix));
                rest.to_lowercase()
            }
            None => match spec.name.strip_prefix("CONFIG_") {
                Some(rest) if parameters.contains(&rest.to_lowercase().as_str()) => spec.name.to_lowercase(),
                Some(rest) => rest.to_lowercase(),
                None => spec.name.to_string(),
            },
        };
        assert_eq!(spec.python_name, expected);
        assert!(
            spec.python_name
                .bytes()
                .all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
        );
        let prefix_says = match spec.kind {
            Kind::ModuleParam => ["rcutree.", "rcupdate.", "srcutree."]
                .iter()
                .any(|prefix| spec.name.starts_with(prefix)),
            Kind::Kconfig => spec.name.starts_with("CONFIG_"),
            Kind::Patch => spec.name.starts_with("patch."),
            Kind::BootArg | Kind::Model => spec.name == spec.python_name,
        };
        assert!(prefix_says, "{}", spec.name);
    }
}

#[test]
fn every_entry_is_described() {
    for spec in catalogue() {
        for text in [spec.kernel_name, spec.range, spec.default_formula, spec.why] {
            assert!(!text.is_empty(), "{}", spec.name);
        }
        assert!(
            spec.effect.ends_with('.') && !spec.effect.contains("  "),
            "{}",
            spec.effect
        );
        assert!((1..=3).contains(&spec.tier));
        // A number in the formula column is the default.
        let default = spec.default_for(&Config::new()).to_string();
        let formula = spec.default_formula;
        if formula.parse::<i64>().is_ok() || ["true", "false", "full"].contains(&formula) {
            assert_eq!(default, formula, "{}", spec.name);
        }
        let json = serde_json::to_value(spec).unwrap();
        for key in [
            "name",
            "python_name",
            "kernel_name",
            "kind",
            "type",
            "unit",
            "range",
            "class",
            "tier",
            "effect",
            "why",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
    }
    assert_eq!(serde_json::to_value(Kind::ModuleParam).unwrap(), "module_param");
    assert_eq!(serde_json::to_value(Class::Clamped).unwrap(), "clamped");
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    for (unknown, near) in [
        ("nr_cpu", "nr_cpus"),
        ("nr-cpus", "nr_cpus"),
        ("HZ", "hz"),
        ("zh", "hz"),
        ("cpus", "nr_cpus"),
        ("jiffies_till_fist_fqs", "jiffies_till_first_fqs"),
        ("rcutree.jiffies_till_next_fsq", "rcutree.jiffies_till_next_fqs"),
        ("CONFIG_HZ_PERIODICAL", "CONFIG_HZ_PERIODIC"),
        ("config_hz", "CONFIG_HZ"),
        ("fanout_leaf", "rcu_fanout_leaf"),
        ("wake_from_gp", "rcu_normal_wake_from_gp"),
        ("stall_timeout", "rcu_cpu_stall_timeout"),
        ("early", "early_qs"),
    ] {
        assert_eq!(nearest_name(unknown), near, "{unknown}");
        let (parameter, value, reason, allowed) = refusal(Config::new().with(unknown, 1));
        assert_eq!(
            (parameter.as_str(), value.as_str(), reason.as_str()),
            (unknown, "1", "no such tunable")
        );
        assert_eq!(allowed, format!("a known name; the nearest is {near}"));
        assert!(Config::new().get(unknown).is_err());
        assert!(Config::new().without(unknown).is_err());
    }
    // What is near nothing gets no suggestion.
    for unknown in ["", "foo", "x", &"9".repeat(5000)] {
        let (_, _, reason, allowed) = refusal(Config::new().with(unknown, 1));
        assert_eq!(reason, "no such tunable");
        assert_eq!(allowed, "a known name, as the table of tunables lists them");
    }
    // A name that is one edit away from a known one leads back to it.
    for spec in catalogue() {
        for name in [spec.name, spec.python_name] {
            assert_eq!(lookup(nearest_name(&format!("{name}x"))), Some(spec));
            assert_eq!(lookup(nearest_name(&name.to_uppercase())), Some(spec));
        }
    }
}

#[test]
fn described_as_a_python_call() {
    assert_eq!(Config::new().describe(), "Config()");
    let config = Config::from_pairs([
        ("early_qs", Value::from(0)),
        ("CONFIG_HZ", "1000".into()),
        ("nr_cpus", 32.into()),
        ("kernel", "7.2".into()),
        ("jiffies_till_first_fqs", 5000.into()),
    ])
    .unwrap();
    let text = r#"Config(kernel="7.2", nr_cpus=32, hz=1000, jiffies_till_first_fqs=5000, early_qs=False)"#;
    assert_eq!(config.describe(), text);
    assert_eq!(config.to_string(), text);
}

#[test]
fn json_of_what_was_given_and_of_what_is_in_force() {
    let config = Config::from_pairs([
        ("hz", Value::from(1000)),
        ("nohz", "off".into()),
        ("kthread_prio", 500.into()),
    ])
    .unwrap();
    assert_eq!(
        serde_json::to_string(&config).unwrap(),
        r#"{"hz":1000,"kthread_prio":500,"nohz":false}"#
    );
    let effective = config.to_json();
    assert_eq!(effective.as_object().unwrap().len(), settable().count());
    for spec in settable() {
        let value = &effective[spec.python_name];
        match spec.value_type {
            Type::Bool => assert!(value.is_boolean()),
            Type::OneOf(_) | Type::CpuList => assert!(value.is_string()),
            _ => assert!(value.is_i64()),
        }
    }
    assert_eq!(
        (&effective["kthread_prio"], &effective["kernel"]),
        (&99.into(), &"7.2".into())
    );

    // Names of either kind are read; what is wrong is said.
    let read: Config =
        serde_json::from_str(r#"{"CONFIG_HZ": 1000, "nohz": "off", "kthread_prio": 500}"#).unwrap();
    assert_eq!(read, config);
    for wrong in [
        r#"{"hz": 1000.5}"#,
        r#"{"hz": null}"#,
        r#"{"hzz": 100}"#,
        r#"{"hz": 18446744073709551615}"#,
        "[]",
    ] {
        assert!(serde_json::from_str::<Config>(wrong).is_err(), "{wrong}");
    }
}
