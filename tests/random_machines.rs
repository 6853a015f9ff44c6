//! Random machines under the oracle.
//!
//! | environment | |
//! |---|---|
//! | `TREERCU_NUM` | how many machines (2000) |
//! | `TREERCU_SEED` | replay this one machine only |
//! | `TREERCU_BASE` | first seed (1) |
//! | `TREERCU_LOG` | 1: a line for each machine |
//! | `TREERCU_SHOW` | how many failures to tell in full (3) |
//! | `TREERCU_SHRINK_S` | seconds for making a failing machine smaller (20; 0: not at all) |
//!
//! A failing machine is told with its seed, a line that runs it again, and the smallest machine found that
//! fails in the same way.

mod common;

use common::generate::{Case, case};
use common::oracle::{Coverage, Facts, Oracle};
use common::shrink::shrink;
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// How a machine failed: a word that says whether another failure is of the same kind, and the whole story.
struct Failure {
    kind: String,
    text: String,
}

impl Failure {
    fn new(kind: &str, text: impl Into<String>) -> Failure {
        Failure {
            kind: kind.into(),
            text: text.into(),
        }
    }
}

fn watched(c: &Case) -> Result<(Oracle, Run), Failure> {
    let control = Arc::new(Control::default());
    let facts = Facts::of(c.config.tunables(), &c.machine, c.deadline_ns);
    let mut oracle = Oracle::new(facts).with_control(control.clone());
    let result = catch_unwind(AssertUnwindSafe(|| {
        simulate_observed(
            &c.config,
            &c.machine,
            &c.workload,
            c.seed,
            &RunOptions::default(),
            &control,
            &mut oracle,
        )
    }));
    // Whatever went wrong in the end, what the oracle saw first is what counts.
    if let Ok(Ok(run)) = &result
        && oracle.violations().is_empty()
    {
        oracle.check_run(run);
    }
    if let Some(first) = oracle.violations().first() {
        return Err(Failure::new(first.code, oracle.tell()));
    }
    match result {
        Ok(Ok(run)) => Ok((oracle, run)),
        Ok(Err(error)) => Err(Failure::new("error", error.to_string())),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
                .unwrap_or_else(|| "a panic without text".into());
            Err(Failure::new("panic", text))
        }
    }
}

/// The same seed decides the same bytes, and being looked at changes nothing.
fn same_again(c: &Case, run: &Run) -> Result<(), Failure> {
    let again = simulate(
        &c.config,
        &c.machine,
        &c.workload,
        c.seed,
        &RunOptions::default(),
        &Control::default(),
    )
    .map_err(|e| Failure::new("error", e.to_string()))?;
    let events = |run: &Run| run.simulated().expect("simulated").events;
    if again.digest() != run.digest() || events(&again) != events(run) {
        return Err(Failure::new("twice", "the same seed gave two different runs"));
    }
    Ok(())
}

fn one_case(c: &Case, log: bool) -> Result<Coverage, Failure> {
    let begun = Instant::now();
    if log {
        eprintln!("seed {}: {}", c.seed, c.tell());
    }
    let (oracle, run) = watched(c)?;
    let k = &oracle.coverage;
    if log {
        eprintln!(
            "seed {}: {:.0?} {} CPUs {} gps {} sights {} looks",
            c.seed,
            begun.elapsed(),
            c.config.tunables().nr_cpus,
            k.grace_periods,
            k.sights,
            k.looks,
        );
    }
    if c.seed.is_multiple_of(8) {
        same_again(c, &run)?;
    }
    Ok(oracle.coverage)
}

/// Runs one machine; the message is what went wrong.
fn one(seed: u64, log: bool) -> Result<Coverage, Box<(Case, Failure)>> {
    let c = case(seed);
    one_case(&c, log).map_err(|failure| Box::new((c, failure)))
}

/// The whole story of a failure.
fn tell(c: &Case, failure: &Failure) -> String {
    let seconds = number("TREERCU_SHRINK_S").unwrap_or(20);
    let mut text = format!("seed {}: {}\n{}\n", c.seed, failure.text, c.tell());
    if seconds > 0 {
        let (small, steps) = shrink(c, &failure.kind, Duration::from_secs(seconds), |c| {
            one_case(c, false).err().map(|f| f.kind)
        });
        let why = one_case(&small, false).err().map(|f| f.text).unwrap_or_default();
        text += &format!(
            "the smallest machine found that fails like this ({steps} steps):\n{}\n{}\n",
            small.tell(),
            why.lines().take(12).collect::<Vec<_>>().join("\n"),
        );
    }
    text + &format!("replay: {}", replay(c.seed))
}

#[test]
fn random_machines_under_the_oracle() {
    let log = std::env::var("TREERCU_LOG").is_ok();
    if let Some(seed) = number("TREERCU_SEED") {
        match one(seed, true) {
            Ok(coverage) => println!("{coverage:#?}"),
            Err(failed) => panic!("{}", tell(&failed.0, &failed.1)),
        }
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
            Err(failed) => failures.push(failed),
        }
    }
    println!("{total:#?}");
    if !failures.is_empty() {
        let show = number("TREERCU_SHOW").unwrap_or(3) as usize;
        let shown: Vec<_> = failures.iter().take(show).map(|f| tell(&f.0, &f.1)).collect();
        let seeds: Vec<_> = failures
            .iter()
            .map(|f| format!("{} {}", f.0.seed, f.1.kind))
            .collect();
        panic!(
            "{} of {count} machines failed: {seeds:?}\n\n{}",
            failures.len(),
            shown.join("\n\n")
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
    for how in Resolution::ALL {
        need(how.name(), c.resolved[how as usize], 50);
    }
    for levels in 1..=4 {
        need(&format!("trees of {levels} levels"), c.levels[levels], 20);
    }
    // Callers.
    need("calls on the direct route", c.direct_calls, 10_000);
    need("calls on the callback route", c.callback_calls, 10_000);
    need("polled calls", c.poll_calls, 2_000);
    need("fully polled calls", c.poll_full_calls, 2_000);
    need("barriers", c.barrier_calls, 2_000);
    need("barriers with callbacks before them", c.barriers_served, 1_000);
    need(
        "barriers during a takeover of callbacks",
        c.barriers_over_migration,
        100,
    );
    need("expedited calls", c.exp_calls, 10_000);
    need("expedited grace periods", c.exp_gps, 5_000);
    need("expedited calls that shared one", c.exp_calls - c.exp_gps, 2_000);
    need("expedited grace periods inside a normal one", c.exp_in_gp, 2_000);
    need("interrupts of expedited grace periods", c.exp_ipis, 10_000);
    need(
        "readers that an expedited grace period waited for",
        c.exp_reader_left,
        500,
    );
    need("readers that one waited for at once", c.max_exp_blockers, 4);
    need(
        "CPUs that left while an expedited one waited for them",
        c.exp_offline_owing,
        20,
    );
    need(
        "polled numbers ended by an expedited grace period",
        c.exp_ended_polled,
        500,
    );
    need("full cookies done by one", c.exp_ended_poll_full, 200);
    need("calls inside a grace period", c.began_inside_gp, 1_000);
    // Direct wake and its latch.
    need("work for the wake-up worker", c.worker, 500);
    need(
        "grace periods that found all wait heads taken",
        c.heads_exhausted,
        10,
    );
    need("wait heads in use at once", c.max_heads, 5);
    need("requests put off for want of a wait head", c.put_off, 20);
    need("closings of the latch", c.latch_closed, 500);
    need("openings of the latch", c.latch_opened, 500);
    need("calls that found the latch closed", c.latched_calls, 2_000);
    // Grace periods.
    need("early reports", c.early_reports, 1_000);
    need("early reports declined", c.early_declined, 10);
    need("grace periods with several scans", c.scan_left_holdout, 1_000);
    need("scans asked for by a flood", c.forced_scans, 20);
    need("lists over the overload mark", c.overloads, 1_000);
    need("scans early for overload", c.overload_scans, 100);
    need("sleeps of the delay knobs", c.delays, 500);
    need("grace periods back to back", c.back_to_back, 100);
    need("numbers that went through zero", c.wrapped, 1);
    need("CPUs that lagged too far", c.gpwraps, 500);
    // Callbacks.
    need("lists with two numbered segments", c.next_ready_used, 100);
    need(
        "lists with three waiting segments",
        c.next_while_both_numbered,
        100,
    );
    need("batches cut short", c.batch_split, 20);
    need("runs of the RCU core in ksoftirqd", c.ksoftirqd, 20);
    need("batches longer than their RCU core", c.long_batches, 20);
    need("grace periods noticed inside call_rcu()", c.noticed_in_call, 20);
    // Readers.
    need(
        "sections open at the start of a grace period",
        c.sections_spanned,
        100,
    );
    need("readers preempted", c.preempted, 10_000);
    need(
        "readers preempted while their CPU was owed",
        c.preempted_owing,
        2_000,
    );
    need("preempted sections open at a start", c.preempted_spanned, 2_000);
    need("grace periods ended by a reader", c.readers_waited_for, 500);
    need("quiescent states deferred", c.deferred, 500);
    need("blocked readers on one leaf", c.max_blockers, 8);
    need("ticks out of idle without preemption", c.idle_ticks, 500);
    need("reschedule points", c.resched_points, 50);
    // Hotplug.
    need("grace periods with CPUs offline", c.offline_gps, 500);
    need("CPUs that went offline", c.went_offline, 10_000);
    need("CPUs that came online in a grace period", c.online_in_gp, 2_000);
    need("CPUs that went offline while owed", c.offline_owing, 2_000);
    need(
        "CPUs that left between pass and initialisation",
        c.offline_in_init,
        100,
    );
    need("transitions during initialisation", c.hotplug_in_init, 1_000);
    need("leaves kept for their readers alone", c.leaf_without_cpus, 5);
    need("leaves without CPUs", c.empty_leaves, 500);
    need("takeovers of callbacks", c.migrations, 1_000);
    assert!(missing.is_empty(), "not met often enough: {missing:#?}");
}
