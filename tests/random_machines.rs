//! Two thousand random machines under the oracle. A machine that fails is made smaller while it goes on
//! failing, and shown with the line that replays it.
//!
//! | environment | |
//! |---|---|
//! | `TREERCU_NUM` | how many machines (2000) |
//! | `TREERCU_SEED` | replay this one machine only |
//! | `TREERCU_BASE` | first seed (1) |
//! | `TREERCU_LOG` | 1: a line for each machine |

mod common;

use common::generate::{Case, case};
use common::oracle::{Coverage, Facts, Oracle};
use common::shrink::shrink;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use treercu::sim::{Control, RunOptions, simulate, simulate_observed};
use treercu::stats::{Resolution, Run};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

fn replay(seed: u64) -> String {
    format!("TREERCU_SEED={seed} cargo test --test random_machines -- --nocapture")
}

fn watched(c: &Case) -> (Oracle, Result<Run, String>) {
    let control = Arc::new(Control::default());
    let facts = Facts::of(c.config.tunables(), &c.machine, c.deadline_ns);
    let mut oracle = Oracle::new(facts).with_control(control.clone());
    let result = simulate_observed(
        &c.config,
        &c.machine,
        &c.workload,
        c.seed,
        &RunOptions::default(),
        &control,
        &mut oracle,
    );
    if let Ok(run) = &result
        && oracle.violations().is_empty()
    {
        oracle.check_run(run);
    }
    (oracle, result.map_err(|e| e.to_string()))
}

/// The machine ends with a violation, an error or a panic.
fn is_broken(c: &Case) -> bool {
    std::panic::catch_unwind(|| {
        let (oracle, result) = watched(c);
        !oracle.violations().is_empty() || result.is_err()
    })
    .unwrap_or(true)
}

/// The smallest machine found that still fails, in words.
fn smallest(seed: u64) -> String {
    const BUDGET: Duration = Duration::from_secs(20);
    let c = case(seed);
    if !is_broken(&c) {
        return "not to be shrunk: it fails only when it is run twice".into();
    }
    format!(
        "smallest case found that still fails:\n{}",
        shrink(c, BUDGET, is_broken).tell()
    )
}

/// Runs one machine; the message is what went wrong.
fn one(seed: u64, log: bool) -> Result<Coverage, String> {
    let outcome = std::panic::catch_unwind(|| {
        let c = case(seed);
        let begun = Instant::now();
        let (oracle, result) = watched(&c);
        if log {
            let k = &oracle.coverage;
            eprintln!(
                "seed {seed}: {:.0?} {} CPUs {} gps {} sights {} looks {}",
                begun.elapsed(),
                c.config.tunables().nr_cpus,
                k.grace_periods,
                k.sights,
                k.looks,
                c.tell(),
            );
        }
        assert!(
            oracle.violations().is_empty(),
            "{}{}\nreplay: {}",
            oracle.tell(),
            c.tell(),
            replay(seed)
        );
        let run =
            result.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}\nreplay: {}", c.tell(), replay(seed)));
        // The same seed decides the same bytes, and being looked at changes nothing.
        if seed.is_multiple_of(8) {
            let again = simulate(
                &c.config,
                &c.machine,
                &c.workload,
                c.seed,
                &RunOptions::default(),
                &Control::default(),
            )
            .expect("it ran once");
            assert_eq!(
                again.digest(),
                run.digest(),
                "seed {seed} twice\nreplay: {}",
                replay(seed)
            );
            assert_eq!(
                again.events,
                run.events,
                "seed {seed} twice\nreplay: {}",
                replay(seed)
            );
        }
        oracle.coverage
    });
    outcome.map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
            .unwrap_or_else(|| "a panic without text".into());
        format!("seed {seed}: {text}\nreplay: {}", replay(seed))
    })
}

#[test]
fn random_machines_under_the_oracle() {
    let log = std::env::var("TREERCU_LOG").is_ok();
    if let Some(seed) = number("TREERCU_SEED") {
        let coverage = one(seed, true).unwrap_or_else(|text| panic!("{text}\n\n{}", smallest(seed)));
        println!("{coverage:#?}");
        return;
    }
    let count = number("TREERCU_NUM").unwrap_or(2000);
    let base = number("TREERCU_BASE").unwrap_or(1);
    let results: Vec<_> = (base..base + count)
        .into_par_iter()
        .map(|seed| one(seed, log))
        .collect();
    let mut total = Coverage::default();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(coverage) => total.add(&coverage),
            Err(text) => failures.push(text),
        }
    }
    println!("{total:#?}");
    if !failures.is_empty() {
        let shown = failures
            .iter()
            .take(number("TREERCU_SHOW").unwrap_or(3) as usize)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n\n");
        let first = failures[0].trim_start_matches("seed ").split(':').next();
        let small = first
            .and_then(|seed| seed.parse().ok())
            .map(smallest)
            .unwrap_or_default();
        let seeds: Vec<_> = failures
            .iter()
            .map(|f| f.split(':').next().unwrap_or("?"))
            .collect();
        panic!(
            "{} of {count} machines failed: {seeds:?}\n\n{shown}\n\n{small}",
            failures.len()
        );
    }
    if count >= 2000 {
        met_everything(&total);
    }
}

/// The machines came across every case that matters; otherwise the silence above proves less than it seems.
fn met_everything(c: &Coverage) {
    let mut missing = Vec::new();
    let mut need = |what: &str, times: u64, least: u64| {
        if times < least {
            missing.push(format!("{what}: {times} < {least}"));
        }
    };
    need("grace periods", c.grace_periods, 10_000);
    for how in [
        Resolution::Tick,
        Resolution::ContextSwitch,
        Resolution::IdleScan,
        Resolution::EarlyReport,
    ] {
        need(how.name(), c.resolved[how as usize], 20);
    }
    need("calls on the direct route", c.direct_calls, 10_000);
    need("calls on the callback route", c.callback_calls, 10_000);
    for levels in 1..=4 {
        need(&format!("trees of {levels} levels"), c.levels[levels], 20);
    }
    need("early reports", c.early_reports, 1_000);
    need("grace periods with several scans", c.scan_left_holdout, 1_000);
    need("work for the wake-up worker", c.worker, 500);
    need(
        "grace periods that found all wait heads taken",
        c.heads_exhausted,
        1,
    );
    need("wait heads in use at once", c.max_heads, 5);
    need("numbers that went through zero", c.wrapped, 1);
    need("lists with two numbered segments", c.next_ready_used, 100);
    need("lists with three waiting segments", c.next_while_both_numbered, 1);
    need("batches cut short", c.batch_split, 20);
    need("grace periods back to back", c.back_to_back, 100);
    need("runs of the RCU core in ksoftirqd", c.ksoftirqd, 20);
    need("batches longer than their RCU core", c.long_batches, 20);
    need("grace periods noticed inside call_rcu()", c.noticed_in_call, 20);
    need("scans asked for by a flood", c.forced_scans, 20);
    need("requests put off for want of a wait head", c.put_off, 20);
    need(
        "sections open at the start of a grace period",
        c.sections_spanned,
        100,
    );
    need("calls inside a grace period", c.began_inside_gp, 1_000);
    need("grace periods with CPUs offline", c.offline_gps, 500);
    for how in [Resolution::BlockedReader, Resolution::Offline] {
        need(how.name(), c.resolved[how as usize], 20);
    }
    need("readers preempted in a section", c.preempted, 1_000);
    need(
        "of these on a CPU that owed a quiescent state",
        c.preempted_owing,
        500,
    );
    need(
        "blocked readers that a grace period waited for",
        c.readers_waited_for,
        500,
    );
    need("deferred quiescent states", c.deferred, 500);
    need("quiescent states at ticks from idle", c.idle_ticks, 500);
    need("polled calls, plain", c.poll_calls, 1_000);
    need("polled calls, full", c.poll_full_calls, 1_000);
    need("barriers served", c.barriers_served, 1_000);
    need(
        "barriers during a migration of callbacks",
        c.barriers_over_migration,
        50,
    );
    need("times the latch closed", c.latch_closed, 500);
    need("times it opened again", c.latch_opened, 500);
    need("calls sent to the callback route by it", c.latched_calls, 500);
    need("CPUs that went offline", c.went_offline, 1_000);
    need("of these owing a quiescent state", c.offline_owing, 500);
    need("of these during initialisation", c.offline_in_init, 100);
    need("CPUs that came online in a grace period", c.online_in_gp, 500);
    need("hotplug during initialisation", c.hotplug_in_init, 500);
    need("leaves that lost their last CPU", c.empty_leaves, 100);
    need("of these with blocked readers left", c.leaf_without_cpus, 5);
    need("migrations of callbacks", c.migrations, 500);
    need("CPUs whose numbers were distrusted", c.gpwraps, 100);
    need("debugging delays", c.delays, 100);
    need("scans under overload", c.overload_scans, 500);
    need("early reports that declined", c.early_declined, 5);
    assert!(missing.is_empty(), "not met often enough: {missing:#?}");
}

/// The shrinker, on a made-up defect: "fails while CPUs come and go and at least two tasks call".
#[test]
fn shrinking_drops_what_does_not_matter() {
    use treercu::workload::Part;
    let broken = |c: &Case| {
        let hotplug = c
            .workload
            .parts
            .iter()
            .any(|part| matches!(part, Part::Hotplug(_)));
        let callers: u64 = (c.workload.parts.iter())
            .map(|part| {
                if let Part::SyncFlood(flood) = part {
                    flood.tasks
                } else {
                    0
                }
            })
            .sum();
        hotplug && callers >= 2
    };
    let seed = (1..)
        .find(|&seed| case(seed).workload.parts.len() >= 4 && broken(&case(seed)))
        .expect("some seed");
    let small = shrink(case(seed), Duration::from_secs(20), broken);
    assert!(broken(&small));
    assert_eq!(small.workload.parts.len(), 2, "{}", small.tell());
    assert!(small.config.tunables().nr_cpus <= 2, "{}", small.tell());
    for part in &small.workload.parts {
        if let Part::SyncFlood(flood) = part {
            assert!(flood.tasks < 4 && flood.calls <= 1, "{}", small.tell());
        }
    }
}
