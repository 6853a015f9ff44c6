//! Small machines on which mutants are hunted: every mechanism at work, a run of some tens of grace periods.

use crate::common::generate::Dice;
use treercu::config::{Config, Value};
use treercu::sim;
use treercu::workload::{
    CallRcuFlood, CpuLoad, Cpus, Hotplug, Length, Mode, Readers, SyncCallKind, SyncFlood, Workload,
};

/// Virtual time by which a run is over unless a grace period never ends, ns: some ten times what it takes.
const DEADLINE_NS: u64 = 12_000_000_000;
const US: u64 = 1_000;

/// How many CPUs, and over how many levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    One,
    Two,
    Three,
    /// One CPU more than a leaf holds: two leaves, one of them with a single CPU.
    LeafAndOne,
    /// Three or four levels.
    Deep,
}

pub const SHAPES: [Shape; 5] = [
    Shape::One,
    Shape::Two,
    Shape::Three,
    Shape::LeafAndOne,
    Shape::Deep,
];

/// A machine and what it runs.
pub struct Machine {
    pub seed: u64,
    pub config: Config,
    pub machine: sim::Machine,
    pub workload: Workload,
    pub deadline_ns: u64,
}

impl Machine {
    /// The `number`th machine of a shape. Of three, one is busy without a pause, one has CPUs that come and go.
    pub fn new(shape: Shape, number: u64) -> Machine {
        let mut d = Dice::new(number * 8 + shape as u64);
        let leaf = d.between(2, 4);
        let (nr_cpus, leaf, fanout) = match shape {
            Shape::One => (1, 16, 64),
            Shape::Two => (2, 16, 64),
            Shape::Three => (3, 16, 64),
            Shape::LeafAndOne => (leaf + 1, leaf, 4),
            Shape::Deep => (d.between(9, 14), 2, 2 + number % 2),
        };
        let busy = number % 3 == 2;
        let hotplug = number.is_multiple_of(3) && nr_cpus > 1;
        // Past the wrap of the numbers, which comes after 300 grace periods.
        let long = number == 4 && nr_cpus <= 3;
        let preempt = d.pick(&["full", "full", "full", "lazy", "none"]);
        let direct = i64::from(d.chance(60));
        let mut delay = |most| if long { 0 } else { d.between(0, most) as i64 };
        let mut delays = [delay(2), delay(2), delay(1)];
        if hotplug {
            // Time for readers to leave, and CPUs, between the first two passes of a grace period.
            delays[0] = d.between(1, 3) as i64;
        }
        let set: Vec<(&str, Value)> = vec![
            ("nr_cpus", Value::Int(nr_cpus as i64)),
            ("hz", Value::Int(1000)),
            ("rcu_fanout_leaf", Value::Int(leaf as i64)),
            ("rcu_fanout", Value::Int(fanout as i64)),
            ("preempt", Value::Text(preempt.into())),
            ("early_qs", Value::Bool(!busy && d.chance(50))),
            ("rcu_normal_wake_from_gp", Value::Int(direct)),
            ("sr_normal_latch_threshold", Value::Int(d.between(4, 40) as i64)),
            ("jiffies_till_first_fqs", Value::Int(d.between(1, 4) as i64)),
            ("jiffies_till_next_fqs", Value::Int(d.between(1, 3) as i64)),
            ("gp_preinit_delay", Value::Int(delays[0])),
            ("gp_init_delay", Value::Int(delays[1])),
            ("gp_cleanup_delay", Value::Int(delays[2])),
            ("blimit", Value::Int(d.between(1, 8) as i64)),
            ("qhimark", Value::Int(d.between(2, 200) as i64)),
            ("qlowmark", Value::Int(1)),
        ];
        let config = Config::from_pairs(set).expect("a good configuration");
        let machine = sim::Machine {
            slice_ns: d.pick(&[100 * US, 300 * US, 2_800 * US]),
            node_ns: d.pick(&[150, 20 * US]),
            ipi_ns: d.pick(&[1_200, 20 * US]),
            ..sim::Machine::default()
        };
        let flood = |tasks, calls, kind| SyncFlood {
            tasks,
            calls,
            think_ns: 700 * US,
            start_skew_ns: 5_000 * US,
            kind,
            ..SyncFlood::default()
        };
        let mut workload = Workload::from(flood(9, if long { 250 } else { 12 }, SyncCallKind::Sync))
            .and(flood(2, 15, SyncCallKind::Expedited))
            .and(flood(1, 10, SyncCallKind::Poll))
            .and(flood(1, 10, SyncCallKind::PollFull))
            .and(flood(1, 8, SyncCallKind::Barrier))
            .and(CallRcuFlood {
                tasks: 2,
                burst: 3,
                interval: Length::Exponential(900 * US),
                duration_ns: 60_000 * US,
                ..CallRcuFlood::default()
            })
            .and(Readers {
                tasks: if hotplug { 2 * nr_cpus } else { nr_cpus + 1 },
                section: Length::Exponential(d.pick(&[300 * US, 1_500 * US, 3_000 * US])),
                gap: Length::Exponential(5_000 * US),
                nested: d.between(0, 2) as u32,
                deferred_percent: 10,
                ..Readers::default()
            });
        if busy {
            // Never a moment idle.
            let kernel = CpuLoad {
                mode: Mode::Kernel,
                section_ns: 400 * US,
                gap_ns: 20 * US,
                ..CpuLoad::default()
            };
            workload = workload.and(if d.chance(50) { kernel } else { CpuLoad::default() });
        } else if !hotplug && !long {
            workload = workload.and(CpuLoad {
                cpus: Cpus::All,
                mode: Mode::Kernel,
                run_ns: 2_500 * US,
                pause_ns: 3_000 * US,
                section_ns: d.pick(&[300 * US, 2_000 * US]),
                gap_ns: 30 * US,
                ..CpuLoad::default()
            });
        }
        if hotplug {
            workload = workload.and(Hotplug {
                // Tasks do not move to CPUs that come back: half of them stay, so that the rest is not overcrowded.
                cpus: Cpus::List((nr_cpus / 2..nr_cpus).map(|cpu| cpu as u32).collect()),
                interval: Length::Exponential(d.pick(&[200 * US, 600 * US])),
                // Some are offline for good in the end.
                transitions: 150 + number,
                ..Hotplug::default()
            });
        }
        Machine {
            seed: number,
            config,
            machine,
            workload,
            deadline_ns: DEADLINE_NS,
        }
    }
}
