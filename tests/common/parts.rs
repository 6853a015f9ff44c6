//! The parts of a random workload.

use super::generate::{Case, Dice, Frame, Kind};
use treercu::config::{Config, Value};
use treercu::sim::Machine;
use treercu::workload::{
    CallRcuFlood, CpuLoad, Cpus, Hotplug, Length, Mode, PeriodicInterrupt, Placement, Readers, SyncCallKind,
    SyncFlood, Workload,
};

pub fn workload(d: &mut Dice, f: &Frame) -> Workload {
    let mut w = Workload::default();
    let floods = match f.kind {
        Kind::Latch => 1,
        _ => d.pick(&[1, 1, 2, 2, 3]),
    };
    let comes_and_goes = f.online > 1 && (f.kind == Kind::Hotplug || d.chance(25));
    // The last CPU that is left ends a grace period at once.
    let f = &Frame {
        instant: f.instant || comes_and_goes,
        ..f.clone()
    };
    for number in 0..floods {
        w = w.and(sync_flood(d, f, number));
    }
    if f.kind == Kind::Readers || d.chance(50) {
        w = w.and(readers(d, f, comes_and_goes));
    }
    if f.kind == Kind::Callbacks || d.chance(if f.kind == Kind::Hotplug { 60 } else { 35 }) {
        w = w.and(call_rcu_flood(d, f));
    }
    if d.chance(if f.kind == Kind::Callbacks { 50 } else { 15 }) {
        w = w.and(interrupt(d, f));
    }
    if comes_and_goes {
        w = w.and(hotplug(d, f));
        if f.kind == Kind::Hotplug && d.chance(20) {
            w = w.and(hotplug(d, f));
        }
    }
    // A CPU carries at most one load.
    let mut free: Vec<u32> = (0..f.online as u32).collect();
    let loads = if f.kind == Kind::Readers {
        d.pick(&[1, 1, 2])
    } else {
        d.pick(&[0, 0, 1, 1, 2])
    };
    for _ in 0..loads {
        if !free.is_empty() {
            w = w.and(load(d, f, &mut free, comes_and_goes));
        }
    }
    let often = match f.kind {
        Kind::Readers | Kind::Hotplug => 60,
        _ => 30,
    };
    if d.chance(often) {
        w = w.and(expedited(d, f));
    }
    w
}

/// Expedited calls of some tasks at once, some thousand in a run at most.
fn expedited(d: &mut Dice, f: &Frame) -> SyncFlood {
    let tasks = d.skewed(1, 24);
    let calls = d.between(1, 1_500 / tasks);
    let pace = f.duration / calls;
    let mut s = SyncFlood {
        tasks,
        calls,
        duration_ns: f.duration,
        placement: placement(d, f),
        kind: SyncCallKind::Expedited,
        ..SyncFlood::default()
    };
    match d.between(0, 3) {
        // All at once, now and then.
        0 => s.interval_ns = d.between(pace / 2 + 1, 2 * pace + 1),
        1 => s.think_ns = d.skewed(1, 20_000),
        _ => s.think_ns = d.skewed(1_000, 2 * pace + 1_000),
    }
    if d.chance(50) {
        s.start_skew_ns = d.skewed(1, 4 * f.period);
    }
    s
}

fn placement(d: &mut Dice, f: &Frame) -> Placement {
    match d.between(0, 3) {
        0 => Placement::Random,
        1 => Placement::Cpu(d.between(0, f.online - 1) as u32),
        _ => Placement::Spread,
    }
}

/// A length around `mean`, of any kind.
fn length(d: &mut Dice, mean: u64) -> Length {
    match d.between(0, 2) {
        0 => Length::Fixed(mean),
        1 => {
            let low = d.between(0, mean);
            Length::Uniform(low, 2 * mean - low)
        }
        _ => Length::Exponential(mean),
    }
}

fn some_cpus(d: &mut Dice, f: &Frame, most: u64) -> Vec<u32> {
    let mut free: Vec<u32> = (0..f.online as u32).collect();
    let count = d.skewed(1, most.min(f.online));
    (0..count)
        .map(|_| free.swap_remove(d.next() as usize % free.len()))
        .collect()
}

fn sync_flood(d: &mut Dice, f: &Frame, number: u64) -> SyncFlood {
    let tasks = match d.between(0, 5) {
        _ if f.kind == Kind::Latch => d.between(4, 40),
        0 => 1,
        1 => d.between(2, 5),
        2 | 3 => d.between(4, 16),
        _ => d.skewed(1, 40),
    };
    let kind = if number == 0 && d.chance(60) || f.kind == Kind::Latch {
        SyncCallKind::Sync
    } else if f.kind == Kind::Callbacks || f.kind == Kind::Hotplug {
        d.pick(&[
            SyncCallKind::Barrier,
            SyncCallKind::Barrier,
            SyncCallKind::Poll,
            SyncCallKind::PollFull,
        ])
    } else {
        d.pick(&[
            SyncCallKind::Sync,
            SyncCallKind::Poll,
            SyncCallKind::PollFull,
            SyncCallKind::Barrier,
        ])
    };
    let mut s = SyncFlood {
        tasks,
        // Ends by count or by time, whichever is first.
        calls: if d.chance(60) || f.instant {
            d.between(1, f.target)
        } else {
            0
        },
        duration_ns: f.duration,
        placement: placement(d, f),
        kind,
        ..SyncFlood::default()
    };
    match d.between(0, 4) {
        0 => s.think_ns = d.skewed(1, 5 * f.period),
        1 => s.think_ns = d.between(1, 50_000),
        2 => s.interval_ns = d.between(f.period / 2, 12 * f.period),
        _ => {}
    }
    if kind == SyncCallKind::Barrier {
        // A barrier with nothing to wait for returns at once.
        s.tasks = s.tasks.min(8);
        s.calls = d.between(1, f.target);
        if s.interval_ns == 0 {
            s.think_ns = s.think_ns.max(d.skewed(1_000, 3 * f.period));
        }
    }
    if d.chance(60) {
        s.start_skew_ns = d.skewed(1, 8 * f.period);
    }
    s
}

/// At most some thousand sections in a run; up to several jiffies long.
fn readers(d: &mut Dice, f: &Frame, comes_and_goes: bool) -> Readers {
    let crowded = f.kind == Kind::Readers;
    let tasks = if crowded {
        d.between(2, (3 * f.online).min(40))
    } else {
        d.skewed(1, 2 * f.online.min(12))
    };
    let least = 10 * f.duration * tasks / 30_000;
    let (mut section, mut gap) = match d.between(0, 3) {
        0 => (d.skewed(100, 20_000), d.skewed(1, f.period)),
        1 => (d.skewed(1_000, f.period), d.skewed(1, f.period)),
        2 => (d.skewed(f.period / 4, 3 * f.period), d.skewed(1, f.period)),
        _ => (d.skewed(10_000, 2 * f.period), d.skewed(1, 2_000)),
    };
    if section + gap < least {
        if d.chance(50) {
            section += least - section - gap;
        } else {
            gap += least - section - gap;
        }
    }
    // All readers together leave some time to those that wait: the simulated scheduler has whoever wakes go first. Where
    // CPUs come and go, one CPU may be all there is.
    let placement = placement(d, f);
    let together = comes_and_goes || matches!(placement, Placement::Cpu(_));
    let cpus = if together { 1 } else { f.online };
    let busy = (section * tasks * 10 / (7 * cpus)).saturating_sub(section);
    gap = gap.max(busy);
    Readers {
        tasks,
        sections: if d.chance(30) {
            d.between(1, f.duration / (section + gap) + 1)
        } else {
            0
        },
        section: length(d, section),
        gap: length(d, gap),
        nested: d.pick(&[0, 0, 1, 3]),
        deferred_percent: d.pick(&[0, 0, 30, 100]) as u32,
        placement,
        duration_ns: f.duration,
    }
}

/// At most some thousand callbacks in a run.
fn call_rcu_flood(d: &mut Dice, f: &Frame) -> CallRcuFlood {
    let flood = f.kind == Kind::Callbacks;
    let tasks = d.skewed(1, if flood { 8 } else { 4 });
    let burst = d.skewed(1, if flood { 60 } else { 10 });
    let repost = d.pick(&[0, 0, 0, 1, 3]);
    let all = if flood { 6_000 } else { 3_000 };
    let least = f.duration * tasks * burst * (1 + u64::from(repost)) / all;
    let interval = d.skewed(1_000, 3 * f.period).max(least);
    CallRcuFlood {
        tasks,
        callbacks: if d.chance(40) {
            d.between(1, all / tasks)
        } else {
            0
        },
        burst,
        interval: length(d, interval),
        repost,
        hurry: d.chance(50),
        placement: placement(d, f),
        duration_ns: f.duration,
    }
}

fn interrupt(d: &mut Dice, f: &Frame) -> PeriodicInterrupt {
    let cpus = some_cpus(d, f, 4);
    let most = 3_000_000_000_000 / (f.duration * cpus.len() as u64);
    PeriodicInterrupt {
        rate_hz: d.skewed(1, 10_000).min(most).max(1),
        callbacks: d.pick(&[0, 1, 1, 2, 5]),
        cpus: Cpus::List(cpus),
        duration_ns: f.duration,
    }
}

/// At most some thousand transitions in a run, so short a time apart that they fall anywhere in a grace
/// period.
fn hotplug(d: &mut Dice, f: &Frame) -> Hotplug {
    let storm = f.kind == Kind::Hotplug;
    let least = f.duration / if storm { 4_000 } else { 300 };
    let interval = if storm {
        d.skewed(5_000, 2 * f.period)
    } else {
        d.skewed(100_000, 10 * f.period)
    };
    Hotplug {
        cpus: if d.chance(50) {
            Cpus::All
        } else {
            Cpus::List(some_cpus(d, f, if storm { 4 } else { f.online }))
        },
        interval: length(d, interval.max(least).max(1_000)),
        transitions: if d.chance(20) { d.between(1, 500) } else { 0 },
        duration_ns: f.duration,
    }
}

/// Where CPUs come and go, loads whose CPU has gone share those that are left, and the simulated scheduler is fair
/// to tasks that wait only where those that wake leave some time: there loads run on and on, in slices.
fn load(d: &mut Dice, f: &Frame, free: &mut Vec<u32>, endless: bool) -> CpuLoad {
    let cpus: Vec<u32> = if d.chance(if f.kind == Kind::Readers { 70 } else { 30 }) {
        std::mem::take(free)
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
    if !endless && d.chance(50) {
        load.run_ns = d
            .skewed(20_000, 20 * f.period)
            .max(f.duration * share / 4_000)
            .max(1_000);
        load.pause_ns = if d.chance(80) {
            d.skewed(1, 10 * f.period)
        } else {
            0
        };
    }
    let least = f.duration * share / 8_000;
    if load.mode == Mode::Kernel {
        // Up to several ticks long. At most some thousand sections, or reschedule points, in a run.
        load.gap_ns = d.skewed(1_000, 2 * f.period).max(least / 2).max(1_000);
        if d.chance(70) {
            load.section_ns = d.skewed(1_000, 6 * f.period).max(least / 2);
        }
    }
    if !endless && d.chance(30) {
        load.duration_ns = d.between(1, f.duration);
    }
    load.cpus = if share == f.online && d.chance(50) {
        Cpus::All
    } else {
        Cpus::List(cpus)
    };
    load
}

/// Grace periods in quick succession whose left-over callers wait for a worker that is kept from running:
/// every CPU is busy with one long slice, only the kthread gets in. The pool of wait heads runs dry.
pub fn slow_worker(seed: u64, mut d: Dice) -> Case {
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
        calls: d.between(3, 10),
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
        kind: Kind::SlowWorker,
        config,
        machine,
        workload: Workload::from(flood).and(load),
        deadline_ns: 600_000_000_000,
    }
}
