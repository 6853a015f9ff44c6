//! Random machines, configurations and loads, each decided by one 64-bit seed.
//!
//! Sizes are kept small on purpose: a run ends a few dozen to a few hundred grace periods, so that a
//! thousand machines fit into one test. What varies is the shape.

use treercu::config::{Config, Value};
use treercu::sim::{Machine, TimerMigration};
use treercu::workload::{CpuLoad, Cpus, Mode, Placement, SyncFlood, Workload};

/// splitmix64: small, and a stranger to the generators of the crate.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed ^ 0x6a09_e667_f3bc_c909)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// low ..= high
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// The same, but small values as often as large ones.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let top = self.between(low, high);
        self.between(low, top)
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}

/// One machine with its load.
#[derive(Debug, Clone)]
pub struct Case {
    pub seed: u64,
    pub config: Config,
    pub machine: Machine,
    pub workload: Workload,
    /// Virtual time by which the run must be over.
    pub deadline_ns: u64,
}

impl Case {
    /// The machine in a few lines.
    pub fn tell(&self) -> String {
        format!(
            "{}\n  {:?}\n  {:?}",
            self.config.describe(),
            self.machine,
            self.workload.parts
        )
    }
}

pub fn case(seed: u64) -> Case {
    let mut d = Dice::new(seed);
    if d.chance(4) {
        return slow_worker(seed, d);
    }
    if d.chance(5) {
        return slow_tree(seed, d);
    }
    let nr_cpus = match d.between(0, 9) {
        0 => 1,
        1 => 2,
        2..=4 => d.between(3, 8),
        5..=7 => d.between(9, 24),
        _ => d.between(25, 40),
    };
    let online = if d.chance(20) {
        d.between(1, nr_cpus)
    } else {
        nr_cpus
    };
    let hz = d.pick(&[100, 250, 300, 1000]);
    let period = 1_000_000_000 / hz;
    let (leaf, fanout) = fanouts(&mut d, nr_cpus);

    let mut set: Vec<(&str, Value)> = vec![
        (
            "kernel",
            Value::Text(d.pick(&["6.8", "6.12", "6.18", "7.2"]).into()),
        ),
        ("nr_cpus", Value::Int(nr_cpus as i64)),
        ("maxcpus", Value::Int(online as i64)),
        ("hz", Value::Int(hz as i64)),
        ("rcu_fanout_leaf", Value::Int(leaf as i64)),
        ("rcu_fanout", Value::Int(fanout as i64)),
        ("rcu_fanout_exact", Value::Bool(d.chance(40))),
        ("early_qs", Value::Bool(d.chance(50))),
        ("rcu_normal_wake_from_gp", Value::Int(d.pick(&[0, 0, 1, 1, -1]))),
        ("preempt", Value::Text(d.pick(&["full", "lazy"]).into())),
        ("skew_tick", Value::Bool(d.chance(25))),
        ("kthread_prio", Value::Int(d.pick(&[0, 0, 0, 1, 50]))),
    ];
    let first = if d.chance(60) { Some(d.between(0, 5)) } else { None };
    if let Some(first) = first {
        set.push(("jiffies_till_first_fqs", Value::Int(first as i64)));
    }
    if d.chance(40) {
        set.push(("jiffies_till_next_fqs", Value::Int(d.between(1, 4) as i64)));
    }
    if d.chance(30) {
        // Early help requests: urgency, resched.
        set.push(("jiffies_till_sched_qs", Value::Int(d.between(0, 12) as i64)));
    }
    let periodic = d.chance(12);
    if periodic {
        set.push(("hz_periodic", Value::Bool(true)));
    }
    if d.chance(40) {
        set.push(("blimit", Value::Int(d.between(1, 5) as i64)));
        set.push(("rcu_divisor", Value::Int(d.pick(&[7, 1, 40]))));
    }
    if d.chance(30) {
        let high = d.between(0, 8) as i64;
        set.push(("qhimark", Value::Int(high)));
        set.push(("qlowmark", Value::Int(d.between(0, high as u64) as i64)));
    }
    if d.chance(20) {
        // Overloaded with a handful of callbacks.
        set.push(("qovld", Value::Int(d.between(0, 6) as i64)));
    }
    if d.chance(10) {
        set.push(("rcu_double_check_cb_time", Value::Bool(true)));
    }
    let config = Config::from_pairs(set).unwrap_or_else(|e| panic!("seed {seed}: {e}"));

    // A grace period takes about this long; the run is measured in them.
    let tunables = config.tunables();
    let waits = tunables.jiffies_till_first_fqs + tunables.jiffies_till_next_fqs + 4;
    let about = waits * period;
    let target = match d.between(0, 9) {
        // Past the wrap, which comes after 300.
        0 if nr_cpus <= 8 => d.between(310, 400),
        0 => d.between(100, 250),
        1..=5 => d.between(30, 90),
        _ => d.between(10, 30),
    };
    // Large machines and short periods cost more per grace period.
    let target = target.min(6_000 / nr_cpus.max(10));
    let duration = (about * target).max(20_000_000);

    let machine = machine(&mut d, nr_cpus, online, duration);
    let instant = online == 1 || first == Some(0);
    let workload = workload(&mut d, online, duration, period, target, instant);
    Case {
        seed,
        config,
        machine,
        workload,
        deadline_ns: 4 * duration + 10_000_000_000,
    }
}

/// Grace periods in quick succession whose left-over callers wait for a worker that is kept from running:
/// every CPU is busy with one long slice, only the kthread gets in. The pool of wait heads runs dry.
fn slow_worker(seed: u64, mut d: Dice) -> Case {
    let nr_cpus = d.between(1, 4);
    let tasks = d.between(12, 40);
    let set: Vec<(&str, Value)> = vec![
        ("nr_cpus", Value::Int(nr_cpus as i64)),
        ("hz", Value::Int(1000)),
        ("rcu_fanout_leaf", Value::Int(d.pick(&[2, 16]))),
        ("early_qs", Value::Bool(d.chance(50))),
        ("rcu_normal_wake_from_gp", Value::Int(1)),
        ("preempt", Value::Text("lazy".into())),
        ("kthread_prio", Value::Int(1)),
        ("jiffies_till_first_fqs", Value::Int(d.between(0, 1) as i64)),
    ];
    let config = Config::from_pairs(set).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let machine = Machine {
        noise: 0.0,
        slice_ns: d.between(30, 200) * 1_000_000,
        ..Machine::default()
    };
    let flood = SyncFlood {
        tasks,
        // With one call each, nobody comes after the last one that found the pool empty.
        calls: d.pick(&[1, 1, 1, 3, 10]),
        think_ns: d.skewed(1, 5_000_000),
        start_skew_ns: d.between(0, 20_000_000),
        ..SyncFlood::default()
    };
    let load = CpuLoad {
        run_ns: 0,
        mode: d.pick(&[Mode::User, Mode::Kernel]),
        ..CpuLoad::default()
    };
    Case {
        seed,
        config,
        machine,
        workload: Workload::from(flood).and(load),
        deadline_ns: 60_000_000_000,
    }
}

/// Many nodes at a high price each, and few callers: the passes over the tree last as long as the waits,
/// so that requests, ticks and switches fall between two nodes, and no second caller covers up for a
/// request that got lost there.
fn slow_tree(seed: u64, mut d: Dice) -> Case {
    let nr_cpus = d.between(4, 24);
    let hz = d.pick(&[250, 1000]);
    let period = 1_000_000_000 / hz;
    let (leaf, fanout) = loop {
        let (leaf, fanout) = (d.between(2, 4), d.between(2, 4));
        if leaf * fanout * fanout * fanout >= nr_cpus {
            break (leaf, fanout);
        }
    };
    let set: Vec<(&str, Value)> = vec![
        ("nr_cpus", Value::Int(nr_cpus as i64)),
        ("hz", Value::Int(hz as i64)),
        ("rcu_fanout_leaf", Value::Int(leaf as i64)),
        ("rcu_fanout", Value::Int(fanout as i64)),
        ("early_qs", Value::Bool(d.chance(50))),
        ("rcu_normal_wake_from_gp", Value::Int(d.between(0, 1) as i64)),
        ("kthread_prio", Value::Int(d.between(0, 1) as i64)),
        ("skew_tick", Value::Bool(d.chance(30))),
    ];
    let config = Config::from_pairs(set).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let machine = Machine {
        node_ns: d.between(20_000, 600_000),
        ..Machine::default()
    };
    let target = d.between(20, 60);
    let flood = SyncFlood {
        tasks: d.between(1, 3),
        calls: target,
        think_ns: d.skewed(1, 12 * period),
        start_skew_ns: d.skewed(1, 12 * period),
        ..SyncFlood::default()
    };
    let mut workload = Workload::from(flood);
    if d.chance(50) {
        let busy = d.between(1, nr_cpus);
        workload = workload.and(CpuLoad {
            cpus: Cpus::List((0..busy as u32).collect()),
            run_ns: d.between(period / 4, 5 * period),
            pause_ns: d.between(period / 4, 5 * period),
            ..CpuLoad::default()
        });
    }
    Case {
        seed,
        config,
        machine,
        workload,
        deadline_ns: 60_000_000_000,
    }
}

/// Odd fan-outs with room for all CPUs in four levels.
fn fanouts(d: &mut Dice, nr_cpus: u64) -> (u64, u64) {
    loop {
        let leaf = match d.between(0, 3) {
            0 => 16,
            1 => d.between(2, 64),
            _ => d.between(2, 6),
        };
        let fanout = match d.between(0, 3) {
            0 => 64,
            1 => d.between(2, 64),
            _ => d.between(2, 4),
        };
        if leaf * fanout * fanout * fanout >= nr_cpus {
            return (leaf, fanout);
        }
    }
}

fn machine(d: &mut Dice, nr_cpus: u64, online: u64, duration: u64) -> Machine {
    let mut m = Machine {
        timer_migration: d.pick(&[
            TimerMigration::Pull,
            TimerMigration::Pull,
            TimerMigration::Local,
            TimerMigration::Era,
        ]),
        gp_kthread_cpu: if d.chance(70) {
            -1
        } else {
            d.between(0, online - 1) as i64
        },
        cpus_per_llc: d.pick(&[0, 0, 1, 2, 4, 8]),
        ..Machine::default()
    };
    if d.chance(60) {
        // Costs from nothing to slow.
        m.idle_exit_ns = d.pick(&[0, 500, 2_000, 10_000, 50_000]);
        m.ipi_ns = d.pick(&[0, 200, 1_200, 20_000]);
        m.switch_ns = d.pick(&[10, 300, 1_200, 10_000]);
        m.idle_switch_ns = d.pick(&[0, 800, 5_000]);
        m.wake_ns = d.pick(&[0, 300, 3_000]);
        m.tick_handler_ns = d.pick(&[10, 1_500, 20_000]);
        m.timer_softirq_ns = d.pick(&[0, 300, 5_000]);
        m.rcu_softirq_ns = d.pick(&[0, 700, 15_000]);
        m.node_ns = d.pick(&[0, 150, 2_000, 20_000]);
        m.scan_cpu_ns = d.pick(&[0, 40, 1_000]);
        m.gp_fixed_ns = d.pick(&[0, 1_000, 10_000]);
        m.call_rcu_ns = d.pick(&[0, 150, 2_000]);
        m.cb_invoke_ns = d.pick(&[0, 200, 10_000, 100_000]);
        m.sync_entry_ns = d.pick(&[100, 500, 5_000]);
        m.caller_gap_ns = d.pick(&[0, 5_000, 50_000]);
        m.work_item_ns = d.pick(&[0, 300, 20_000]);
        m.slice_ns = d.pick(&[100_000, 700_000, 2_800_000, 10_000_000]);
    }
    // At most some ten thousand bursts in a run.
    let most = 12_000.0 * 1e9 / (duration as f64 * nr_cpus as f64);
    let noise = match d.between(0, 4) {
        0 => 0.0,
        1 | 2 => 0.5,
        3 => d.between(1, 30) as f64,
        _ => d.between(30, 200) as f64,
    };
    m.noise = noise.min(most.floor());
    if d.chance(50) {
        m.noise_min_ns = d.pick(&[0, 1_000, 50_000]);
        m.noise_max_ns = m.noise_min_ns + d.pick(&[0, 20_000, 150_000, 3_000_000]);
    }
    m.governor_keeps_tick = d.pick(&[0.0, 0.0, 0.05, 0.5, 1.0]);
    m
}

/// `instant`: a grace period may be over at once, so that only a number of calls bounds the run.
fn workload(d: &mut Dice, online: u64, duration: u64, period: u64, target: u64, instant: bool) -> Workload {
    let mut w = Workload::default();
    let floods = if d.chance(25) { 2 } else { 1 };
    for _ in 0..floods {
        let tasks = match d.between(0, 5) {
            0 => 1,
            1 => d.between(2, 5),
            2 | 3 => d.between(4, 16),
            _ => d.skewed(1, 64),
        };
        let mut f = SyncFlood {
            tasks,
            // Ends by count or by time, whichever is first.
            calls: if d.chance(60) || instant {
                d.between(1, target)
            } else {
                0
            },
            duration_ns: duration,
            placement: match d.between(0, 3) {
                0 => Placement::Random,
                1 => Placement::Cpu(d.between(0, online - 1) as u32),
                _ => Placement::Spread,
            },
            ..SyncFlood::default()
        };
        match d.between(0, 4) {
            0 => f.think_ns = d.skewed(1, 5 * period),
            1 => f.think_ns = d.between(1, 50_000),
            2 => f.interval_ns = d.between(period / 2, 12 * period),
            _ => {}
        }
        if d.chance(60) {
            f.start_skew_ns = d.skewed(1, 8 * period);
        }
        w = w.and(f);
    }
    // A CPU carries at most one load.
    let mut free: Vec<u32> = (0..online as u32).collect();
    for _ in 0..d.pick(&[0, 0, 1, 1, 2]) {
        if free.is_empty() {
            break;
        }
        let cpus: Vec<u32> = if d.chance(30) {
            std::mem::take(&mut free)
        } else {
            (0..d.skewed(1, free.len() as u64))
                .map(|_| free.swap_remove(d.next() as usize % free.len()))
                .collect()
        };
        let mut load = CpuLoad {
            mode: d.pick(&[Mode::User, Mode::Kernel]),
            ..CpuLoad::default()
        };
        let share = cpus.len() as u64;
        if d.chance(50) {
            load.run_ns = d
                .skewed(20_000, 20 * period)
                .max(duration * share / 4_000)
                .max(1_000);
            load.pause_ns = if d.chance(80) { d.skewed(1, 10 * period) } else { 0 };
        }
        if load.mode == Mode::Kernel && d.chance(70) {
            // Up to several ticks long. At most some ten thousand sections in a run.
            load.section_ns = d.skewed(1_000, 6 * period);
            load.gap_ns = d.skewed(1_000, 2 * period);
            let least = duration * share / 8_000;
            if load.section_ns + load.gap_ns < least {
                load.section_ns = d.between(least / 2, least);
                load.gap_ns = (least / 2).max(1_000);
            }
        }
        if d.chance(30) {
            load.duration_ns = d.between(1, duration);
        }
        load.cpus = if cpus.len() as u64 == online && d.chance(50) {
            Cpus::All
        } else {
            Cpus::List(cpus)
        };
        w = w.and(load);
    }
    w
}
