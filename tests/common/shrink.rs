//! Makes a failing case smaller while it still fails in the same way.

use super::generate::Case;
use std::time::{Duration, Instant};
use treercu::workload::{Cpus, Length, Part, Placement, Workload};

/// The smallest case found within `budget` that still fails as `how` says, and how many steps led there.
/// `fails` gives the kind of failure of a case, if it fails.
pub fn shrink(
    case: &Case,
    how: &str,
    budget: Duration,
    fails: impl Fn(&Case) -> Option<String>,
) -> (Case, u32) {
    let begun = Instant::now();
    let mut best = case.clone();
    let mut steps = 0;
    'again: loop {
        for smaller in candidates(&best) {
            if begun.elapsed() > budget {
                return (best, steps);
            }
            if smaller
                .workload
                .validate(smaller.config.tunables().maxcpus)
                .is_ok()
                && fails(&smaller).as_deref() == Some(how)
            {
                best = smaller;
                steps += 1;
                continue 'again;
            }
        }
        return (best, steps);
    }
}

/// Smaller cases, the most promising first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    let parts = &case.workload.parts;
    let mut with = |parts: Vec<Part>| {
        let mut smaller = case.clone();
        smaller.workload = Workload { parts };
        out.push(smaller);
    };
    if parts.len() > 1 {
        for drop in 0..parts.len() {
            let mut rest = parts.clone();
            rest.remove(drop);
            with(rest);
        }
    }
    let shorter: Vec<Part> = parts.iter().map(half_duration).collect();
    if &shorter != parts {
        with(shorter);
    }
    for index in 0..parts.len() {
        for less in fewer(&parts[index]) {
            let mut changed = parts.clone();
            changed[index] = less;
            with(changed);
        }
    }
    let online = case.config.tunables().maxcpus;
    if online > 1 {
        for fewer in [online / 2, online - 1] {
            out.extend(with_cpus(case, fewer));
        }
    }
    if case.machine.noise > 0.0 {
        let mut quiet = case.clone();
        quiet.machine.noise = 0.0;
        out.push(quiet);
    }
    out
}

/// The machine with this many CPUs, all of them online.
fn with_cpus(case: &Case, cpus: u32) -> Option<Case> {
    let config = case.config.with("maxcpus", i64::from(cpus)).ok()?;
    let config = config.with("nr_cpus", i64::from(cpus)).ok()?;
    let mut smaller = case.clone();
    smaller.config = config;
    if smaller.machine.gp_kthread_cpu >= i64::from(cpus) {
        smaller.machine.gp_kthread_cpu = 0;
    }
    for part in &mut smaller.workload.parts {
        if let Some(Placement::Cpu(cpu)) = placement_of(part) {
            *cpu = (*cpu).min(cpus - 1);
        }
        if let Some(Cpus::List(list)) = cpus_of(part) {
            list.retain(|&cpu| cpu < cpus);
            if list.is_empty() {
                list.push(0);
            }
        }
    }
    Some(smaller)
}

fn placement_of(part: &mut Part) -> Option<&mut Placement> {
    match part {
        Part::SyncFlood(p) => Some(&mut p.placement),
        Part::Readers(p) => Some(&mut p.placement),
        Part::CallRcuFlood(p) => Some(&mut p.placement),
        Part::SrcuFlood(p) => Some(&mut p.placement),
        Part::CpuLoad(_) | Part::PeriodicInterrupt(_) | Part::Hotplug(_) | Part::HotplugSweep(_) => None,
    }
}

fn cpus_of(part: &mut Part) -> Option<&mut Cpus> {
    match part {
        Part::CpuLoad(p) => Some(&mut p.cpus),
        Part::PeriodicInterrupt(p) => Some(&mut p.cpus),
        Part::Hotplug(p) => Some(&mut p.cpus),
        Part::HotplugSweep(p) => Some(&mut p.cpus),
        Part::SyncFlood(_) | Part::Readers(_) | Part::CallRcuFlood(_) | Part::SrcuFlood(_) => None,
    }
}

fn half_duration(part: &Part) -> Part {
    let mut part = part.clone();
    let duration = match &mut part {
        Part::SyncFlood(p) => &mut p.duration_ns,
        Part::CpuLoad(p) => &mut p.duration_ns,
        Part::Readers(p) => &mut p.duration_ns,
        Part::CallRcuFlood(p) => &mut p.duration_ns,
        Part::PeriodicInterrupt(p) => &mut p.duration_ns,
        Part::Hotplug(p) => &mut p.duration_ns,
        Part::SrcuFlood(p) => &mut p.duration_ns,
        Part::HotplugSweep(_) => return part,
    };
    if *duration > 1_000_000 {
        *duration /= 2;
    }
    part
}

/// The part with one of its amounts halved, or a feature switched off.
fn fewer(part: &Part) -> Vec<Part> {
    let mut out = Vec::new();
    macro_rules! halve {
        ($p:ident, $kind:ident, $($field:ident > $least:literal),*) => {{$(
            if $p.$field > $least {
                let mut less = $p.clone();
                less.$field = ($p.$field / 2).max($least);
                out.push(Part::$kind(less));
            }
        )*}};
    }
    match part {
        Part::SyncFlood(p) => halve!(
            p,
            SyncFlood,
            tasks > 1,
            calls > 1,
            start_skew_ns > 0,
            think_ns > 0
        ),
        Part::HotplugSweep(p) => halve!(p, HotplugSweep, waits_down_percent > 0, waits_up_percent > 0),
        Part::Readers(p) => {
            halve!(
                p,
                Readers,
                tasks > 1,
                sections > 1,
                nested > 0,
                deferred_percent > 0
            );
            for (section, gap) in [(fixed(p.section), p.gap), (p.section, fixed(p.gap))] {
                if (section, gap) != (p.section, p.gap) {
                    let mut less = p.clone();
                    (less.section, less.gap) = (section, gap);
                    out.push(Part::Readers(less));
                }
            }
        }
        Part::CallRcuFlood(p) => halve!(p, CallRcuFlood, tasks > 1, callbacks > 1, burst > 1, repost > 0),
        Part::SrcuFlood(p) => halve!(p, SrcuFlood, tasks > 1, calls > 1, readers > 0, think_ns > 0),
        Part::PeriodicInterrupt(p) => halve!(p, PeriodicInterrupt, rate_hz > 1, callbacks > 0),
        Part::Hotplug(p) => {
            halve!(p, Hotplug, transitions > 1);
            out.extend(half_list(&p.cpus).map(|cpus| {
                let mut less = p.clone();
                less.cpus = cpus;
                Part::Hotplug(less)
            }));
        }
        Part::CpuLoad(p) => {
            halve!(p, CpuLoad, section_ns > 0);
            out.extend(half_list(&p.cpus).map(|cpus| {
                let mut less = p.clone();
                less.cpus = cpus;
                Part::CpuLoad(less)
            }));
        }
    }
    out
}

fn fixed(length: Length) -> Length {
    Length::Fixed(length.mean())
}

/// The first and the second half of a list of CPUs.
fn half_list(cpus: &Cpus) -> impl Iterator<Item = Cpus> {
    let list = match cpus {
        Cpus::List(list) if list.len() > 1 => list.clone(),
        _ => Vec::new(),
    };
    let (first, second) = list.split_at(list.len() / 2);
    [first.to_vec(), second.to_vec()]
        .into_iter()
        .filter(|half| !half.is_empty())
        .map(Cpus::List)
}

#[cfg(test)]
mod tests {
    use super::super::generate::case;
    use super::*;

    /// A failure that needs a hotplug part and two CPUs comes down to little more than that.
    #[test]
    fn what_is_not_needed_goes() {
        let fails = |c: &Case| {
            let hotplug = c.workload.parts.iter().any(|p| matches!(p, Part::Hotplug(_)));
            (hotplug && c.config.tunables().maxcpus >= 2).then(|| "it".to_string())
        };
        let big = (0..)
            .map(case)
            .find(|c| fails(c).is_some() && c.workload.parts.len() > 2)
            .expect("one of them has hotplug");
        let (small, steps) = shrink(&big, "it", Duration::from_secs(20), fails);
        assert!(steps > 3);
        assert_eq!(small.config.tunables().maxcpus, 2);
        assert_eq!(small.workload.parts.len(), 1, "{:?}", small.workload.parts);
        let Part::Hotplug(p) = &small.workload.parts[0] else {
            panic!("{:?}", small.workload.parts)
        };
        assert!(p.duration_ns <= 1_000_000);
        let (same, steps) = shrink(&big, "something else", Duration::from_secs(20), fails);
        assert_eq!((same.workload, steps), (big.workload, 0));
    }
}
