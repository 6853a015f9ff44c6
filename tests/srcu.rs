//! SRCU domains on random machines, under an oracle that shares nothing with the engine: it knows which sections are
//! open, and nothing of counters, indices or numbers.
//!
//! `TREERCU_NUM`: how many machines (300). `TREERCU_SEED`: this one only. A failure names its seed.

use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use treercu::config::Config;
use treercu::sim::{Control, Machine, Observer, RunOptions, Sight, SrcuSight, simulate, simulate_observed};
use treercu::srcu::{Flavour, Scan};
use treercu::stats::Run;
use treercu::tree::Snapshot;
use treercu::workload::{
    CallRcuFlood, CpuLoad, Cpus, Hotplug, Length, Mode, Part, Placement, SrcuCallKind, SrcuFlood, SyncFlood,
    Workload,
};

/// What one domain owes.
#[derive(Default)]
struct Domain {
    /// Open sections. Ids grow over the whole run.
    open: BTreeSet<u64>,
    /// Calls that wait, each with the newest section there was when it began.
    calls: BTreeMap<u64, (u64, SrcuCallKind)>,
    newest_call: u64,
    /// The grace period under way, and the newest section there was when it began.
    gp: Option<(u64, u64)>,
    gps: u64,
    /// Sections that were open when a grace period began, summed over grace periods.
    waited_for: u64,
}

impl Domain {
    /// A section that was open at a beginning and still is.
    fn still_open(&self, newest_then: u64) -> Option<u64> {
        self.open.first().copied().filter(|&oldest| oldest <= newest_then)
    }
}

#[derive(Default)]
struct Oracle {
    domains: BTreeMap<u32, Domain>,
    newest_section: u64,
    skipped: Option<Scan>,
    violations: Vec<String>,
}

impl Oracle {
    fn look(&mut self, part: u32, sight: SrcuSight) -> Result<(), String> {
        let newest = self.newest_section;
        let d = self.domains.entry(part).or_default();
        match sight {
            SrcuSight::Enter { id } => {
                if id <= newest || !d.open.insert(id) {
                    return Err(format!("section {id} is not new"));
                }
                self.newest_section = id;
            }
            SrcuSight::Exit { id } => {
                if !d.open.remove(&id) {
                    return Err(format!("section {id} ended and was not open"));
                }
            }
            SrcuSight::Begin { id, kind } => {
                if id <= d.newest_call || d.calls.insert(id, (newest, kind)).is_some() {
                    return Err(format!("call {id} is not new"));
                }
                d.newest_call = id;
            }
            SrcuSight::End { id } => {
                let Some((then, kind)) = d.calls.remove(&id) else {
                    return Err(format!("call {id} ended twice, or never began"));
                };
                if kind == SrcuCallKind::Barrier {
                    let before = d
                        .calls
                        .range(..id)
                        .find(|(_, (_, kind))| *kind == SrcuCallKind::Call);
                    if let Some((left, _)) = before {
                        return Err(format!("barrier {id} ended before callback {left}"));
                    }
                } else if let Some(section) = d.still_open(then) {
                    return Err(format!(
                        "{kind:?} {id} ended, section {section} of before has not"
                    ));
                }
            }
            SrcuSight::GpBegin { gp_seq } => {
                if let Some((other, _)) = d.gp.replace((gp_seq, newest)) {
                    return Err(format!("grace period {gp_seq:#x} began in {other:#x}"));
                }
                d.waited_for += d.open.len() as u64;
            }
            SrcuSight::GpEnd { gp_seq } => {
                let Some((number, then)) = d.gp.take() else {
                    return Err(format!("grace period {gp_seq:#x} ended and had not begun"));
                };
                d.gps += 1;
                if number != gp_seq {
                    return Err(format!("grace period {number:#x} ended as {gp_seq:#x}"));
                }
                if let Some(section) = d.still_open(then) {
                    return Err(format!(
                        "grace period {gp_seq:#x} ended, section {section} has not"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Observer for Oracle {
    fn skipped_scan(&self) -> Option<Scan> {
        self.skipped
    }

    fn see(&mut self, at_ns: u64, sight: Sight, _snapshot: &dyn Fn() -> Snapshot) {
        match sight {
            Sight::Srcu { part, sight } => {
                if let Err(what) = self.look(part, sight) {
                    self.violations
                        .push(format!("at {at_ns} ns, part {part}: {what}"));
                }
            }
            // Updaters wait for all their calls, so nothing may be left.
            Sight::End { interrupted: false } => {
                for (part, d) in &self.domains {
                    if let Some(id) = d.calls.keys().next() {
                        self.violations
                            .push(format!("part {part}: call {id} never ended"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Random numbers of the tests' own (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn length(&mut self, longest_us: u64) -> Length {
        let ns = (self.below(longest_us) + 1) * 1000;
        match self.below(3) {
            0 => Length::Fixed(ns),
            1 => Length::Uniform(0, ns),
            _ => Length::Exponential(ns / 4 + 1),
        }
    }
}

fn domain(d: &mut Dice) -> SrcuFlood {
    let kind = d.pick(&[
        SrcuCallKind::Sync,
        SrcuCallKind::Sync,
        SrcuCallKind::Expedited,
        SrcuCallKind::Call,
        SrcuCallKind::Call,
        SrcuCallKind::Poll,
    ]);
    SrcuFlood {
        tasks: d.below(8) + 1,
        calls: d.below(12) + 1,
        kind,
        flavour: d.pick(&[
            Flavour::Normal,
            Flavour::Normal,
            Flavour::Normal,
            Flavour::Fast,
            Flavour::FastUpdown,
            Flavour::Light,
        ]),
        think_ns: d.pick(&[0, 1_000, 30_000, 1_000_000]),
        readers: d.below(8),
        section: d.length(8_000),
        gap: d.length(1_000),
        sleep_percent: d.pick(&[0, 50, 100]),
        enter: if d.chance(50) {
            d.length(30_000)
        } else {
            Length::Fixed(0)
        },
        placement: d.pick(&[Placement::Spread, Placement::Random, Placement::Cpu(0)]),
        ..SrcuFlood::default()
    }
}

struct Case {
    config: Config,
    machine: Machine,
    workload: Workload,
    seed: u64,
}

fn case(seed: u64) -> Case {
    let mut d = Dice(seed);
    let nr_cpus = d.pick(&[1, 2, 3, 4, 8, 17, 40]);
    let maxcpus = if d.chance(20) {
        d.below(nr_cpus) + 1
    } else {
        nr_cpus
    };
    let mut settings: Vec<(&str, i64)> = vec![
        ("nr_cpus", nr_cpus as i64),
        ("maxcpus", maxcpus as i64),
        ("hz", d.pick(&[100, 250, 1000])),
        ("rcu_fanout_leaf", d.pick(&[2, 4, 16])),
        ("rcu_fanout", d.pick(&[4, 64])),
        ("convert_to_big", d.pick(&[0, 1, 2, 3, 16, 17])),
        ("exp_holdoff", d.pick(&[0, 1, 25_000, 10_000_000])),
        ("small_contention_lim", d.pick(&[0, 1, 100])),
        ("srcu_retry_check_delay", d.pick(&[0, 1, 5, 100])),
        ("counter_wrap_check", d.pick(&[0, 15, (u64::MAX >> 2) as i64])),
    ];
    if d.chance(50) {
        settings.push(("srcu_max_nodelay_phase", d.pick(&[3, 10, 1000])));
        settings.push(("srcu_max_nodelay", d.pick(&[0, 1, 20])));
    }
    let mut config = Config::new();
    let era = d.pick(&["6.8", "6.12", "6.18", "7.2"]);
    config = config.with("kernel", era).unwrap();
    config = config
        .replace(settings)
        .and_then(|c| c.with("preempt", d.pick(&["full", "lazy", "none"])))
        .and_then(|c| c.with("hz_periodic", d.chance(20)))
        .unwrap();
    let machine = Machine {
        noise: d.pick(&[0.0, 0.5, 50.0]),
        cpus_per_llc: d.pick(&[0, 2, 8]),
        srcu_call_ns: d.pick(&[0, 200, 20_000]),
        srcu_counter_ns: d.pick(&[0, 70, 2_000]),
        ..Machine::default()
    };
    let mut workload = Workload::from(domain(&mut d));
    // One domain a part. Barriers are what the updaters of a `call_srcu()` flood end with.
    for _ in 0..d.below(3) {
        workload = workload.and(domain(&mut d));
    }
    if d.chance(30) {
        workload = workload.and(SyncFlood {
            tasks: d.below(4) + 1,
            calls: 4,
            ..SyncFlood::default()
        });
    }
    if d.chance(30) {
        workload = workload.and(CpuLoad {
            cpus: Cpus::List(vec![d.below(maxcpus) as u32]),
            mode: Mode::Kernel,
            section_ns: d.pick(&[0, 100_000]),
            gap_ns: 10_000,
            ..CpuLoad::default()
        });
    }
    if d.chance(20) {
        workload = workload.and(CallRcuFlood::default());
    }
    if maxcpus > 1 && d.chance(40) {
        workload = workload.and(Hotplug {
            interval: d.length(5_000),
            ..Hotplug::default()
        });
    }
    // Sections that are spent running need CPUs to spare: the simulated scheduler lets whoever wakes go first, so that on
    // a machine with more to run than CPUs a preempted reader may not get back to its CPU at all.
    let moves = workload.parts.iter().any(|p| matches!(p, Part::Hotplug(_)));
    let mut spare = if moves { 0 } else { maxcpus.saturating_sub(1) / 2 };
    for part in &mut workload.parts {
        if let Part::SrcuFlood(flood) = part {
            if flood.readers > spare {
                flood.sleep_percent = 100;
            } else if flood.sleep_percent < 100 {
                spare -= flood.readers;
            }
        }
    }
    Case {
        config,
        machine,
        workload,
        seed,
    }
}

fn watched(c: &Case, skipped: Option<Scan>) -> (Oracle, Run) {
    let mut oracle = Oracle {
        skipped,
        ..Oracle::default()
    };
    let run = simulate_observed(
        &c.config,
        &c.machine,
        &c.workload,
        c.seed,
        &RunOptions::default(),
        &Control::default(),
        &mut oracle,
    )
    .unwrap_or_else(|error| {
        panic!(
            "seed {}: {error}\n{}\n{:?}\n{:?}",
            c.seed, c.config, c.machine, c.workload
        )
    });
    (oracle, run)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a number"))
}

#[test]
fn random_machines_keep_every_promise() {
    let seeds = match number("TREERCU_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("TREERCU_NUM").unwrap_or(300),
    };
    let totals: Vec<(u64, u64, u64, u64)> = seeds
        .into_par_iter()
        .map(|seed| {
            let c = case(seed);
            let (oracle, run) = watched(&c, None);
            assert!(
                oracle.violations.is_empty(),
                "seed {seed}: {:?}\n{}\n{:?}\n{:?}",
                &oracle.violations[..oracle.violations.len().min(3)],
                c.config,
                c.machine,
                c.workload,
            );
            let sum = |f: fn(&Domain) -> u64| oracle.domains.values().map(f).sum::<u64>();
            assert_eq!(sum(|d| d.gps), run.counters.srcu_grace_periods);
            (
                sum(|d| d.gps),
                sum(|d| d.waited_for),
                run.calls(),
                run.counters.srcu_expedited,
            )
        })
        .collect();
    let sum = |f: fn(&(u64, u64, u64, u64)) -> u64| totals.iter().map(f).sum::<u64>();
    println!(
        "{} machines: {} grace periods ({} expedited), {} calls, {} sections open when one began",
        totals.len(),
        sum(|t| t.0),
        sum(|t| t.3),
        sum(|t| t.2),
        sum(|t| t.1),
    );
    if totals.len() >= 100 {
        let each = totals.len() as u64;
        assert!(
            sum(|t| t.0) > 5 * each && sum(|t| t.1) > 3 * each,
            "the machines do too little"
        );
    }
}

/// The two-scan argument: each scan alone misses readers, and the oracle notices.
#[test]
fn a_grace_period_without_one_of_its_scans_is_noticed() {
    for scan in [Scan::First, Scan::Second] {
        let seeds: Vec<u64> = (1..=300).collect();
        let caught: Vec<u64> = seeds
            .into_par_iter()
            .filter(|&seed| !watched(&case(seed), Some(scan)).0.violations.is_empty())
            .collect();
        println!(
            "{scan:?} scan skipped: {} of 300 machines object, the first with seed {:?}",
            caught.len(),
            caught.first()
        );
        assert!(caught.len() >= 3, "{scan:?}: noticed by {caught:?} only");
    }
}

/// Without a delay between the fetch of the index and the count nobody is on the index that newcomers avoid when a
/// grace period begins, unless preempted there: it takes a reader that is held up to need the first scan.
#[test]
fn readers_that_are_held_up_are_what_the_first_scan_is_for() {
    let objections = |enter: Length| {
        let flood = SrcuFlood {
            tasks: 2,
            calls: 50,
            readers: 4,
            section: Length::Fixed(3_000_000),
            gap: Length::Exponential(500_000),
            enter,
            ..SrcuFlood::default()
        };
        let c = Case {
            config: Config::new()
                .with("nr_cpus", 4)
                .and_then(|c| c.with("hz", 1000))
                .unwrap(),
            machine: Machine {
                noise: 0.0,
                ..Machine::default()
            },
            workload: flood.into(),
            seed: 1,
        };
        assert_eq!(watched(&c, None).0.violations, Vec::<String>::new());
        watched(&c, Some(Scan::First)).0.violations.len()
    };
    assert_eq!(objections(Length::Fixed(0)), 0);
    assert!(objections(Length::Exponential(10_000_000)) > 0);
}

#[test]
fn the_observer_changes_nothing() {
    for seed in 1..=20 {
        let c = case(seed);
        let plain = simulate(
            &c.config,
            &c.machine,
            &c.workload,
            c.seed,
            &RunOptions::default(),
            &Control::default(),
        )
        .unwrap();
        let (_, seen) = watched(&c, None);
        assert_eq!(plain.digest(), seen.digest(), "seed {seed}");
    }
}
