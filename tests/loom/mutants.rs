//! Every model passes, and every mutant is killed by one: a fence dropped, an order relaxed, a step done wrongly.
//!
//! A mutant that no model kills is a fence too many or a hole in the models. Where one survives for a good reason the
//! table says so, and fails when it is killed after all.

use crate::run::{Model, check, full};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use treercu::sync::model::{OTHERS, mutant_was_met, set_mutant};

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

/// One way to do something wrongly. Names are those of the sources, some of them together.
struct Mutant {
    name: &'static str,
    /// Beginnings of the names of the models that are tried, in this order. Where all of them are long, so is the hunt.
    tried: &'static [&'static str],
    /// It is expected to survive them, for this reason.
    survives: Option<&'static str>,
}

const fn killed(name: &'static str, by: &'static [&'static str]) -> Mutant {
    Mutant {
        name,
        tried: by,
        survives: None,
    }
}

const fn survives(name: &'static str, tried: &'static [&'static str], why: &'static str) -> Mutant {
    Mutant {
        name,
        tried,
        survives: Some(why),
    }
}

const MUTANTS: &[Mutant] = &[
    // The reader's side.
    killed("R2", &["reader: scanned"]),
    killed("R2 in full", &["reader: scanned, full fences"]),
    killed("R3", &["reader: idle"]),
    killed("R4", &["reader: idle"]),
    killed("R5", &["reader: idle"]),
    killed("R5 in full", &["reader: idle, full fences"]),
    killed("R6", &["reader: idle"]),
    killed("F1", &["reader: idle"]),
    killed("one word", &["reader: idle"]),
    killed("join skipped", &["reader: idle"]),
    killed("clear+others", &["reader: idle"]),
    killed(
        "mark taken off without the lock",
        &["reader: scanned, 2 sections"],
    ),
    // A pass.
    killed("P1 skipped", &["reader: idle"]),
    killed("P2", &["reader: idle"]),
    killed("P3+others", &["reader: idle"]),
    killed("P3 mark+others", &["reader: idle"]),
    killed("F2+others", &["reader: idle"]),
    killed("F2 scan+F2+others", &["reader: idle"]),
    killed("queued unseen", &["reader: idle"]),
    killed("mark taken off by a pass", &["hotplug: meanwhile"]),
    killed("offer after the fence", &["attach: slot reused"]),
    killed("grant unchecked", &["reader: 2 passes, offered"]),
    killed("any offer granted", &["reader: late grant"]),
    killed("granted elsewhere", &["hotplug: while offered"]),
    killed("active+others", &["attach: preemptible"]),
    killed("active look+others", &["attach: preemptible"]),
    survives(
        "others",
        &[
            "reader: idle",
            "reader: scanned",
            "reader: offered",
            "attach: preemptible",
            "hotplug: idle thread",
        ],
        "what the argument names does without the full fences of locks and cookies",
    ),
    survives(
        "cpu+others",
        &["hotplug: idle thread", "hotplug: meanwhile"],
        "set under the slot's lock too, and looked at behind it, or again under the run queue's lock",
    ),
    survives(
        "cpu look+others",
        &["hotplug: idle thread", "hotplug: meanwhile"],
        "set under the slot's lock too, and looked at behind it, or again under the run queue's lock",
    ),
    // Non-preemptible threads.
    killed("answer not awaited", &["quiescent: ticked"]),
    killed("watching", &["watching: through idle"]),
    killed("watching again", &["watching: through idle"]),
    killed("watching look", &["watching: through idle"]),
    // Waiting.
    killed("push", &["waiters: push and take"]),
    killed("take", &["waiters: push and take"]),
    killed("announce", &["wait: completed"]),
    killed("announce order", &["wait: completed"]),
    killed("wake order", &["wait: completed"]),
    killed("second look", &["wait: completed"]),
    killed("withdraw", &["wait: kicked twice"]),
    killed("done", &["wait: completed"]),
    killed("done look", &["wait: completed"]),
    killed("done stored", &["wait: late completion"]),
    killed("crowd counted", &["wait: crowd"]),
    killed("crowd woken", &["wait: crowd"]),
    // The end of a grace period.
    killed("reported+others", &["quiescent: polled"]),
    killed("root empty+others", &["quiescent: polled"]),
    // Who carries grace periods and ticks out.
    killed("callers taken late", &["synchronize: pushed late"]),
    killed("spinner gone+others", &["driven: 2 callers apart"]),
    killed("role given+others", &["driven: 2 callers apart"]),
    killed("kthread asleep+others", &["driven: reader"]),
    killed("tick wanted+others", &["ticks: core raised"]),
    killed("tick given up+others", &["ticks: core raised"]),
    killed("ticks go on unsaid", &["ticks: by the kthread"]),
    killed("tick asked for", &["ticks: wanted"]),
    killed("tickless", &["ticks: wanted"]),
    // Expedited grace periods.
    killed("F2 expedited+others", &["expedited: idle reader"]),
    killed("readers+others", &["expedited: idle reader"]),
    killed("readers look+expedited ended+others", &["expedited: idle reader"]),
    killed("expedited end+others", &["expedited: polled"]),
    killed("expedited ended+others", &["expedited: 3 callers"]),
    killed("sleeper counted", &["expedited: 3 callers"]),
    killed("driver waits", &["expedited: idle reader"]),
    killed("driver woken+others", &["expedited: idle reader"]),
    killed("exp_mutex taken", &["expedited: mutex"]),
    killed("exp_mutex given", &["expedited: mutex"]),
];

/// Steps that take more threads than a model here has: tests/shuttle/mutants.rs has them.
const LEFT_TO_SHUTTLE: &[&str] = &["hand-over"];

/// Two at a time; the results come in the order of what was to be done. Mutants are switched by thread.
fn side_by_side<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(index) else { break };
                    let result = work(one);
                    done.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn every_model_passes() {
    let only = std::env::var("TREERCU_MODEL").unwrap_or_default();
    let mutant: &'static str = std::env::var("TREERCU_MUTANT").unwrap_or_default().leak();
    let exact = models().any(|model| model.name == only);
    let chosen: Vec<&Model> = models()
        .filter(|model| match &*only {
            "" => full() || !model.long,
            name if exact => model.name == name,
            part => model.name.contains(part),
        })
        .collect();
    let outcomes = side_by_side(&chosen, |model| {
        set_mutant(mutant);
        check(model)
    });
    let mut failed = Vec::new();
    for (model, out) in chosen.iter().zip(outcomes) {
        let (executions, hits, ms) = (out.executions, out.hits, out.took.as_millis());
        let why = out.failure.as_ref().map(|why| format!(": {why}"));
        println!(
            "{:42} {executions:6} executions, {hits:6} with what it waits for, {ms:5} ms{}",
            model.name,
            why.unwrap_or_default(),
        );
        if out.failure.is_some() {
            failed.push(model.name);
        }
    }
    assert!(
        failed.is_empty(),
        "{failed:?} fail; tests/README.md says how to replay them"
    );
}

struct Row {
    mutant: &'static Mutant,
    killed_by: Option<(&'static str, u64, String)>,
    met: bool,
    executions: u64,
    took: Duration,
}

impl Row {
    fn is_as_expected(&self) -> bool {
        self.met && self.killed_by.is_some() != self.mutant.survives.is_some()
    }
}

impl Mutant {
    /// The models that are tried, of survivors in full all with a name that begins like theirs, up to the colon.
    fn models(&self) -> impl Iterator<Item = &'static Model> {
        let all = full() && self.survives.is_some();
        self.tried
            .iter()
            .map(move |name| match name.split_once(':') {
                Some((family, _)) if all => family,
                _ => name,
            })
            .flat_map(|name| models().filter(move |model| model.name.starts_with(name)))
            .filter(|model| full() || !model.long)
    }
}

fn hunt(mutant: &'static Mutant) -> Row {
    set_mutant(mutant.name);
    let began = Instant::now();
    let mut row = Row {
        mutant,
        killed_by: None,
        met: false,
        executions: 0,
        took: Duration::ZERO,
    };
    for model in mutant.models() {
        let out = check(model);
        row.executions += out.executions;
        if let Some(why) = out.failure {
            row.killed_by = Some((model.name, out.executions, why));
            break;
        }
    }
    row.met = mutant_was_met();
    row.took = began.elapsed();
    set_mutant("");
    row
}

#[test]
fn every_mutant_is_killed() {
    let only = std::env::var("TREERCU_MUTANT").unwrap_or_default();
    let mutants: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|mutant| only.is_empty() || only.split(',').any(|one| one == mutant.name))
        .filter(|mutant| mutant.models().next().is_some())
        .collect();
    let rows = side_by_side(&mutants, |mutant| hunt(mutant));
    let mut table = format!(
        "{:36} {:28} {:>10} {:>6}  how\n",
        "mutant", "killed by", "executions", "ms"
    );
    for row in &rows {
        let (by, executions, how) = match (&row.killed_by, row.mutant.survives) {
            (Some((by, executions, why)), _) => (*by, *executions, why.as_str()),
            (None, Some(why)) => ("survives", row.executions, why),
            (None, None) => ("SURVIVES", row.executions, ""),
        };
        let (name, ms) = (row.mutant.name, row.took.as_millis());
        writeln!(table, "{name:36} {by:28} {executions:>10} {ms:>6}  {how}").unwrap();
    }
    println!("{table}");
    let wrong: Vec<&str> = rows
        .iter()
        .filter(|row| !row.is_as_expected())
        .map(|row| row.mutant.name)
        .collect();
    assert!(wrong.is_empty(), "not as expected, or met by no model: {wrong:?}");
}

/// Every step that has a name in the sources is in the table, or among the fences that are dropped together.
#[test]
fn every_name_is_in_the_table() {
    let mut unknown = Vec::new();
    let mut dirs = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            // SRCU has no models here yet.
            if entry
                .file_stem()
                .is_some_and(|stem| stem.to_string_lossy().starts_with("srcu"))
            {
                continue;
            }
            if entry.is_dir() {
                dirs.push(entry);
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            for call in ["order(\"", "_fence(\"", "fence_after_rmw(\"", "mutated(\""] {
                for after in text.split(call).skip(1) {
                    let name = after.split('"').next().unwrap();
                    // Those are for `tests/bug_zoo`, which has a look of its own at the names.
                    let of_the_zoo = name.starts_with(['Z', 'A'])
                        && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
                    let known = of_the_zoo
                        || name == "offline unseen"
                        || OTHERS.contains(&name)
                        || LEFT_TO_SHUTTLE.contains(&name)
                        || MUTANTS
                            .iter()
                            .any(|mutant| mutant.name.split('+').any(|part| part == name));
                    if !known {
                        unknown.push(format!("{name} in {}", entry.display()));
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}
