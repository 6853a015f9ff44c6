//! Every model passes, and every mutant is killed by one: a fence dropped, an order relaxed, a step done wrongly.
//!
//! A mutant that no model kills is a fence too many or a hole in the models. Those of [`SURVIVORS`] survive for the
//! reason given, and the table fails when one of them is killed after all.

use crate::run::{Model, check};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use treercu::sync::model::{mutant_was_met, set_mutant};

fn models() -> impl Iterator<Item = &'static Model> {
    // The quick ones first.
    [
        crate::waits::MODELS,
        crate::waiters::MODELS,
        crate::quiescent::MODELS,
        crate::attach::MODELS,
        crate::expedited::MODELS,
        crate::readers::MODELS,
        crate::calls::MODELS,
    ]
    .into_iter()
    .flatten()
}

/// Names as in the sources, behind the models that are tried first.
const MUTANTS: &[(&str, &[&str])] = &[
    (
        "reader",
        &[
            // The reader's side.
            "R2",
            "R2 in full",
            "R3",
            "R4",
            "R5",
            "R5 in full",
            "R6",
            "re-entry+others",
            "F1",
            "one word",
            "join skipped",
            "clear+others",
            "mark taken off without the lock",
            // A pass.
            "P1+others",
            "P1 skipped",
            "P2",
            "P3+others",
            "P3 mark+others",
            "F2+others",
            "F2 scan+F2+others",
            "others",
            "offer+others",
            "offer after the fence",
            "offer left standing",
            "settle+others",
            "grant unchecked",
            "mark taken off by a pass",
            "queued unseen",
            "active+others",
            "active look+others",
        ],
    ),
    ("hotplug", &["granted elsewhere", "cpu+others", "cpu look+others"]),
    (
        "attach",
        &["leave set+others", "set active+others", "is active+others"],
    ),
    ("quiescent", &["is marked+others"]),
    ("waiters", &["push", "take"]),
    (
        "wait:",
        &[
            "announce",
            "announce order",
            "wake order",
            "second look",
            "withdraw",
            "done",
            "done look",
            "done stored",
            "crowd counted",
            "crowd woken",
        ],
    ),
    ("synchronize", &["callers taken late"]),
    ("driven", &["spinner gone+others", "role given+others"]),
    (
        "ticks",
        &["tick wanted", "tick asked for", "tickless", "tick given up"],
    ),
    ("watching", &["watching", "watching again", "watching look"]),
    (
        "expedited",
        &[
            "F2 expedited+others",
            "readers+others",
            "readers look+expedited ended+others",
            "expedited done+others",
            "expedited end+others",
            "expedited ended+others",
            "sleeper counted",
            "driver waits",
            "driver woken+others",
            "exp_mutex taken",
            "exp_mutex taken+others",
            "exp_mutex given",
            "exp_mutex given+others",
        ],
    ),
];

/// Why they may survive.
const SURVIVORS: &[(&str, &str)] = &[
    (
        "others",
        "what the argument names does without the full fences of locks and cookies",
    ),
    (
        "re-entry+others",
        "one word, changed by read-modify-writes only; F1 and the run queue's lock follow",
    ),
    (
        "offer+others",
        "one word, changed by read-modify-writes only; H follows",
    ),
    (
        "settle+others",
        "one word, changed by read-modify-writes only, under the run queue's lock",
    ),
    (
        "P1+others",
        "H follows, and between non-preemptible threads the run queue's lock",
    ),
    ("offer left standing", "costs the thread one slow entry, no more"),
    (
        "granted elsewhere",
        "takes a third pass between two steps of a pass: beyond these models",
    ),
    ("leave set+others", "under the run queue's lock"),
    (
        "set active+others",
        "a thread's own word, and the run queue's lock follows",
    ),
    ("is active+others", "looked at again under the run queue's lock"),
    ("is marked+others", "looked at again under the run queue's lock"),
    (
        "expedited done+others",
        "the look at the number before it is an acquire",
    ),
    ("expedited end+others", "the full fence behind it"),
    (
        "exp_mutex given+others",
        "what it protects are atomics with orders of their own, or behind node locks",
    ),
    (
        "spinner gone+others",
        "the crowd's full fences come before the sleep: beyond these models that they may not",
    ),
    (
        "role given+others",
        "the crowd's full fences come before the sleep: beyond these models that they may not",
    ),
];

#[test]
fn every_model_passes() {
    let only = std::env::var("TREERCU_MODEL").unwrap_or_default();
    set_mutant(Box::leak(
        std::env::var("TREERCU_MUTANT")
            .unwrap_or_default()
            .into_boxed_str(),
    ));
    let mut failed = Vec::new();
    for model in models().filter(|model| model.name.contains(&only)) {
        let out = check(model);
        println!(
            "{:42} {:6} executions, {:6} with what it waits for, {:5} ms{}",
            model.name,
            out.executions,
            out.hits,
            out.took.as_millis(),
            out.failure
                .as_ref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default(),
        );
        if out.failure.is_some() {
            failed.push(model.name);
        }
    }
    set_mutant("");
    assert!(
        failed.is_empty(),
        "{failed:?} fail; tests/README.md says how to replay them"
    );
}

struct Row {
    mutant: &'static str,
    killed_by: Option<(&'static str, u64, String)>,
    met: bool,
    executions: u64,
}

fn hunt(first: &str, mutant: &'static str) -> Row {
    set_mutant(mutant);
    let mut row = Row {
        mutant,
        killed_by: None,
        met: false,
        executions: 0,
    };
    let (likely, others): (Vec<&Model>, Vec<&Model>) =
        models().partition(|model| model.name.starts_with(first));
    // A survivor is looked for in all models on request only: it costs as much as all of them.
    let survives = SURVIVORS.iter().any(|(name, _)| *name == mutant);
    let others = if survives && std::env::var_os("TREERCU_FULL").is_none() {
        Vec::new()
    } else {
        others
    };
    for model in likely.into_iter().chain(others) {
        let out = check(model);
        row.executions += out.executions;
        if let Some(why) = out.failure {
            row.killed_by = Some((model.name, out.executions, why));
            break;
        }
    }
    row.met = mutant_was_met();
    set_mutant("");
    row
}

#[test]
fn every_mutant_is_killed() {
    let only = std::env::var("TREERCU_MUTANT").unwrap_or_default();
    let mutants: Vec<(&str, &str)> = MUTANTS
        .iter()
        .flat_map(|(first, names)| names.iter().map(move |name| (*first, *name)))
        .filter(|(first, name)| only.is_empty() || only == *first || only.split(',').any(|one| one == *name))
        .collect();
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    // Mutants are switched by thread.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((first, mutant)) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = hunt(first, mutant);
                    eprintln!(
                        "{mutant}: {}",
                        row.killed_by.as_ref().map_or("survives", |by| by.0)
                    );
                    rows.lock().unwrap().push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|row| mutants.iter().position(|(_, mutant)| *mutant == row.mutant));
    let mut table = format!("{:32} {:38} {:>10}  how\n", "mutant", "killed by", "executions");
    let mut wrong = Vec::new();
    for row in &rows {
        let survivor = SURVIVORS.iter().find(|(mutant, _)| *mutant == row.mutant);
        let (by, executions, how) = match (&row.killed_by, survivor) {
            (Some((by, executions, why)), _) => (*by, *executions, why.as_str()),
            (None, Some((_, why))) => ("survives", row.executions, *why),
            (None, None) => ("SURVIVES", row.executions, ""),
        };
        writeln!(table, "{:32} {by:38} {executions:>10}  {how}", row.mutant).unwrap();
        if !row.met || row.killed_by.is_some() == survivor.is_some() {
            wrong.push(row.mutant);
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "not as expected, or met by no model: {wrong:?}");
}
