//! A thousand random machines under the oracle.
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
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;
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
        let coverage = one(seed, true).unwrap_or_else(|text| panic!("{text}"));
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
        let seeds: Vec<_> = failures
            .iter()
            .map(|f| f.split(':').next().unwrap_or("?"))
            .collect();
        panic!(
            "{} of {count} machines failed: {seeds:?}\n\n{shown}",
            failures.len()
        );
    }
    if count >= 1000 {
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
    assert!(missing.is_empty(), "not met often enough: {missing:#?}");
}
