//! Makes a failing machine smaller while it goes on failing: fewer parts, tasks, CPUs, less time.

use super::generate::Case;
use std::time::{Duration, Instant};
use treercu::workload::Part;

/// The smallest case found within `budget` that is still `broken`. Greedy: each step halves or drops
/// one thing, and starts over whenever that worked.
pub fn shrink(case: Case, budget: Duration, broken: impl Fn(&Case) -> bool) -> Case {
    let until = Instant::now() + budget;
    let mut best = case;
    'again: loop {
        for candidate in smaller(&best) {
            if Instant::now() >= until {
                return best;
            }
            if broken(&candidate) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// Every case that is one step smaller.
fn smaller(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    for index in 0..case.workload.parts.len() {
        if case.workload.parts.len() > 1 {
            let mut less = case.clone();
            less.workload.parts.remove(index);
            out.push(less);
        }
        for change in [halve_tasks, halve_amount, halve_time] {
            let mut less = case.clone();
            if change(&mut less.workload.parts[index]) {
                out.push(less);
            }
        }
    }
    let cpus = case.config.tunables().nr_cpus;
    if cpus > 1 {
        let mut less = case.clone();
        let fewer = [("nr_cpus", i64::from(cpus / 2)), ("maxcpus", i64::from(cpus / 2))];
        // Fan-outs or CPU lists may not fit the smaller machine; then it is no candidate.
        if let Ok(config) = case.config.replace(fewer) {
            less.config = config;
            less.machine.gp_kthread_cpu = less.machine.gp_kthread_cpu.min(i64::from(cpus / 2) - 1);
            out.push(less);
        }
    }
    if case.machine.noise > 0.0 {
        let mut less = case.clone();
        less.machine.noise = 0.0;
        out.push(less);
    }
    out.retain(|c| {
        let online = c.config.tunables().maxcpus;
        c.workload.validate(online).is_ok() && c.machine.validate(online).is_ok()
    });
    out
}

fn halve(value: &mut u64, least: u64) -> bool {
    let before = *value;
    *value = (before / 2).max(least);
    *value < before
}

fn halve_tasks(part: &mut Part) -> bool {
    match part {
        Part::SyncFlood(part) => halve(&mut part.tasks, 1),
        Part::Readers(part) => halve(&mut part.tasks, 1),
        Part::CallRcuFlood(part) => halve(&mut part.tasks, 1),
        Part::CpuLoad(_) | Part::PeriodicInterrupt(_) | Part::Hotplug(_) => false,
    }
}

/// Calls, sections, callbacks, transitions: never to zero, which would mean "without end".
fn halve_amount(part: &mut Part) -> bool {
    match part {
        Part::SyncFlood(part) => part.calls > 0 && halve(&mut part.calls, 1),
        Part::Readers(part) => part.sections > 0 && halve(&mut part.sections, 1),
        Part::CallRcuFlood(part) => part.callbacks > 0 && halve(&mut part.callbacks, 1),
        Part::Hotplug(part) => part.transitions > 0 && halve(&mut part.transitions, 1),
        Part::PeriodicInterrupt(part) => halve(&mut part.callbacks, 1),
        Part::CpuLoad(_) => false,
    }
}

fn halve_time(part: &mut Part) -> bool {
    let time = match part {
        Part::SyncFlood(part) => &mut part.duration_ns,
        Part::CpuLoad(part) => &mut part.duration_ns,
        Part::Readers(part) => &mut part.duration_ns,
        Part::CallRcuFlood(part) => &mut part.duration_ns,
        Part::PeriodicInterrupt(part) => &mut part.duration_ns,
        Part::Hotplug(part) => &mut part.duration_ns,
    };
    *time > 0 && halve(time, 1_000_000)
}
