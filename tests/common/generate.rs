//! Random machines, configurations and loads, each decided by one 64-bit seed.
//!
//! Sizes are kept small on purpose: a run ends a few dozen to a few hundred grace periods, so that
//! thousands of machines fit into one test. What varies is the shape. Most machines mix everything; some
//! are built around one mechanism, with settings under which it is exercised hard.

use super::parts;
use treercu::config::{Config, Value};
use treercu::sim::{Machine, TimerMigration};
use treercu::workload::{Part, Workload};

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

/// What a machine is built around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Mixed,
    /// CPUs that come and go all the time, small leaves, preempted readers.
    Hotplug,
    /// More readers than CPUs.
    Readers,
    /// The latch, with a small threshold and callers preempted between its steps.
    Latch,
    /// Callback floods and barriers.
    Callbacks,
    /// Direct wakes whose worker is kept from running.
    SlowWorker,
}

/// One machine with its load.
#[derive(Debug, Clone)]
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    pub config: Config,
    pub machine: Machine,
    pub workload: Workload,
    /// Virtual time by which the run must be over.
    pub deadline_ns: u64,
}

impl Case {
    /// The machine in a few lines.
    pub fn tell(&self) -> String {
        let mut text = format!(
            "{:?}\n{}\n  {:?}",
            self.kind,
            self.config.describe(),
            self.machine
        );
        for part in &self.workload.parts {
            text += &format!("\n  {part:?}");
        }
        text
    }
}

/// What the parts of a workload must know about their machine.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: Kind,
    pub online: u64,
    /// Length of the run and of a jiffy, ns.
    pub duration: u64,
    pub period: u64,
    /// Grace periods aimed at.
    pub target: u64,
    /// A grace period may be over at once, so that only a number of calls bounds the run.
    pub instant: bool,
}

pub fn case(seed: u64) -> Case {
    let mut d = Dice::new(seed);
    let kind = match d.between(0, 99) {
        0..4 => return parts::slow_worker(seed, d),
        4..24 => Kind::Hotplug,
        24..38 => Kind::Readers,
        38..46 => Kind::Latch,
        46..58 => Kind::Callbacks,
        _ => Kind::Mixed,
    };
    let nr_cpus = match d.between(0, 9) {
        0 if kind != Kind::Hotplug => 1,
        0 | 1 => 2,
        2..=4 => d.between(3, 8),
        5..=7 => d.between(9, 24),
        _ => d.between(25, 48),
    };
    let online = if d.chance(20) {
        d.between(1, nr_cpus)
    } else {
        nr_cpus
    };
    let hz = d.pick(&[100, 250, 300, 1000]);
    let period = 1_000_000_000 / hz;
    let first = if d.chance(60) { Some(d.between(0, 5)) } else { None };
    let mut set = settings(&mut d, kind, nr_cpus, online, hz, first);
    // Which kind a call is has dice of its own, as whatever comes later should have: what it draws changes no
    // machine that does not have it.
    let mut own = Dice::new(seed ^ 0x7263_755f_6b69_6e64);
    let expedited = own.chance(6);
    if expedited {
        set.push(("rcu_expedited", Value::Int(1)));
    }
    if own.chance(6) {
        set.push(("rcu_normal", Value::Int(1)));
    }
    let mut config = Config::from_pairs(set).unwrap_or_else(|e| panic!("seed {seed}: {e}"));

    // A grace period takes about this long; the run is measured in them.
    let tunables = config.tunables().clone();
    let waits = tunables.jiffies_till_first_fqs + tunables.jiffies_till_next_fqs + 4;
    let about = waits * period;
    let target = match d.between(0, 9) {
        // Past the wrap, which comes after 300.
        0 if nr_cpus <= 8 && kind == Kind::Mixed => d.between(310, 400),
        0 => d.between(60, 150),
        1..=5 => d.between(15, 45),
        _ => d.between(5, 20),
    };
    // Large machines and short periods cost more per grace period.
    let target = target.min(4_000 / nr_cpus.max(10));
    let duration = (about * target).max(20_000_000);
    let frame = Frame {
        kind,
        online,
        duration,
        period,
        target,
        instant: online == 1 || first == Some(0) || expedited,
    };
    let machine = machine(&mut d, kind, nr_cpus, online, duration);
    let workload = parts::workload(&mut d, &frame);
    // On a single CPU a SCHED_FIFO kthread that finds no wait head goes on for ever, one empty grace period after
    // the other, and the worker that would free the heads never runs. (A kernel throttles it.)
    let alone = online == 1 || workload.parts.iter().any(|p| matches!(p, Part::Hotplug(_)));
    if alone && tunables.kthread_prio > 0 {
        config = config
            .with("kthread_prio", 0)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    Case {
        seed,
        kind,
        config,
        machine,
        workload,
        deadline_ns: duration + 60_000_000_000,
    }
}

fn settings(
    d: &mut Dice,
    kind: Kind,
    nr_cpus: u64,
    online: u64,
    hz: u64,
    first: Option<u64>,
) -> Vec<(&'static str, Value)> {
    let (leaf, fanout) = fanouts(d, nr_cpus, kind == Kind::Hotplug);
    let preempt = match kind {
        Kind::Readers => d.pick(&["full", "full", "lazy", "lazy", "none"]),
        Kind::Hotplug => d.pick(&["full", "full", "lazy", "none", "voluntary"]),
        _ => d.pick(&["full", "full", "lazy", "lazy", "none", "voluntary"]),
    };
    let direct = if kind == Kind::Latch {
        1
    } else {
        d.pick(&[0, 0, 1, 1, -1])
    };
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
        ("rcu_normal_wake_from_gp", Value::Int(direct)),
        ("preempt", Value::Text(preempt.into())),
        ("skew_tick", Value::Bool(d.chance(25))),
        ("kthread_prio", Value::Int(d.pick(&[0, 0, 0, 1, 50]))),
    ];
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
    if d.chance(12) {
        set.push(("hz_periodic", Value::Bool(true)));
    }
    let flooded = kind == Kind::Callbacks;
    if flooded || d.chance(40) {
        set.push(("blimit", Value::Int(d.between(1, 5) as i64)));
        set.push(("rcu_divisor", Value::Int(d.pick(&[7, 1, 40]))));
    }
    if flooded || d.chance(30) {
        let high = d.between(0, 8) as i64;
        set.push(("qhimark", Value::Int(high)));
        set.push(("qlowmark", Value::Int(d.between(0, high as u64) as i64)));
    }
    if d.chance(if flooded { 60 } else { 20 }) {
        // Overloaded with a handful of callbacks.
        set.push(("qovld", Value::Int(d.between(0, 12) as i64)));
    }
    if d.chance(10) {
        set.push(("rcu_double_check_cb_time", Value::Bool(true)));
    }
    if kind == Kind::Latch || d.chance(50) {
        let latch = if kind == Kind::Latch || d.chance(70) {
            "merged"
        } else {
            "off"
        };
        set.push(("sr_normal_latch", Value::Text(latch.into())));
        set.push(("sr_normal_latch_threshold", Value::Int(d.skewed(1, 12) as i64)));
    }
    for knob in ["gp_preinit_delay", "gp_init_delay", "gp_cleanup_delay"] {
        if d.chance(if kind == Kind::Hotplug { 25 } else { 8 }) {
            set.push((knob, Value::Int(d.skewed(1, 3) as i64)));
        }
    }
    if d.chance(15) {
        set.push(("gpwrap_lag", Value::Int(d.between(1, 6) as i64)));
    }
    set
}

/// Odd fan-outs with room for all CPUs in four levels.
fn fanouts(d: &mut Dice, nr_cpus: u64, small: bool) -> (u64, u64) {
    loop {
        let leaf = match d.between(0, 3) {
            _ if small => d.between(2, 4),
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

fn machine(d: &mut Dice, kind: Kind, nr_cpus: u64, online: u64, duration: u64) -> Machine {
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
    }
    if kind == Kind::Hotplug && d.chance(50) {
        // Initialisation takes long enough for a transition between any two of its steps.
        m.node_ns = d.pick(&[2_000, 20_000, 100_000]);
        m.gp_fixed_ns = d.pick(&[1_000, 50_000]);
        // Long enough for the CPU that an interrupt is sent to to be gone when it arrives.
        m.ipi_ns = d.pick(&[1_200, 20_000, 200_000]);
    }
    if kind == Kind::Readers || d.chance(60) {
        m.slice_ns = d.pick(&[100_000, 100_000, 700_000, 2_800_000, 10_000_000]);
    }
    if d.chance(if kind == Kind::Latch { 70 } else { 15 }) {
        m.srs_step_ns = d.pick(&[100, 2_000, 20_000]);
    }
    // At most some thousand bursts in a run.
    let most = 5_000.0 * 1e9 / (duration as f64 * nr_cpus as f64);
    let noise = match d.between(0, 4) {
        0 => 0.0,
        1 | 2 => 0.5,
        3 => d.between(1, 30) as f64,
        _ => d.between(30, 200) as f64,
    };
    m.noise = if kind == Kind::Latch {
        most.min(500.0)
    } else {
        noise.min(most.floor())
    };
    if d.chance(50) {
        m.noise_min_ns = d.pick(&[0, 1_000, 50_000]);
        m.noise_max_ns = m.noise_min_ns + d.pick(&[0, 20_000, 150_000, 3_000_000]);
    }
    m.governor_keeps_tick = d.pick(&[0.0, 0.0, 0.05, 0.5, 1.0]);
    m
}
