//! The bug zoo: the engine with one step done wrongly, on machines of every shape, under the exact oracle.
//!
//! For each [`Mutant`](table::Mutant) machines are run, shape by shape, until one is caught. What counts is decided
//! by what the mutant breaks: a grace period that is *too short* has to show as a section, a callback or a caller that
//! it should have waited for; one that *never ends* by the time at which the run should long be over. The engine's own
//! assertions are off (see `promise!`), and the oracle's looks at the tree's words are passed over: a test-suite that
//! watches promises has to notice by them.
//!
//! The suite fails when a mutant survives, when one that does no harm is caught, when no run executes a mutant's step,
//! when a name in the sources is missing in the table, and when the engine as it is is caught at anything.
//!
//! | environment | |
//! |---|---|
//! | `TREERCU_NUM` | most machines per mutant and shape (24) |
//! | `TREERCU_MUTANT` | these mutants only, separated by commas |
//! | `TREERCU_LOG` | tell what the oracle says, and of which machine |

// Its own tests are not run here.
#[allow(unused_imports)]
#[path = "../common/mod.rs"]
mod common;
mod machines;
mod table;

use common::oracle::{Facts, Oracle};
use machines::{Machine, SHAPES};
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use table::{MUTANTS, Mutant, Verdict};
use treercu::sim::{Control, RunOptions, simulate_observed};
use treercu::zoo::{mutant_was_met, set_mutant};

/// What one run showed.
enum Shown {
    Nothing,
    /// The oracle's code.
    Caught(&'static str),
    /// The simulation came apart.
    Panic,
}

fn run(machine: &Machine, counts: fn(&str) -> bool) -> Shown {
    let control = Arc::new(Control::default());
    let facts = Facts::of(machine.config.tunables(), &machine.machine, machine.deadline_ns);
    let mut oracle = Oracle::new(facts).with_control(control.clone());
    oracle.only = counts;
    oracle.enough = 1;
    let result = catch_unwind(AssertUnwindSafe(|| {
        simulate_observed(
            &machine.config,
            &machine.machine,
            &machine.workload,
            machine.seed,
            &RunOptions::default(),
            &control,
            &mut oracle,
        )
    }));
    match (oracle.violations().first(), result) {
        (Some(first), _) => {
            // How: for one mutant, with its machine.
            if std::env::var_os("TREERCU_LOG").is_some() {
                println!(
                    "{}\n{:?}\n{:?}",
                    oracle.tell(),
                    machine.config.describe(),
                    machine.machine
                );
                machine
                    .workload
                    .parts
                    .iter()
                    .for_each(|part| println!("  {part:?}"));
            }
            Shown::Caught(first.code)
        }
        (None, Ok(Ok(_))) => Shown::Nothing,
        (None, Ok(Err(error))) => {
            eprintln!("a machine that cannot be run: {error}");
            std::process::exit(2)
        }
        (None, Err(_)) => Shown::Panic,
    }
}

/// What became of a mutant.
struct Row {
    mutant: &'static Mutant,
    /// For each shape, how many runs it took and what caught it.
    caught: Vec<Option<(u64, &'static str)>>,
    runs: u64,
    panics: u64,
    met: bool,
}

impl Row {
    fn of(mutant: &'static Mutant, most: u64) -> Row {
        let mut row = Row {
            mutant,
            caught: Vec::new(),
            runs: 0,
            panics: 0,
            met: false,
        };
        for shape in SHAPES {
            let mut caught = None;
            for (tried, number) in mutant.machines(most).enumerate() {
                let machine = Machine::new(shape, number);
                set_mutant(mutant.name);
                let shown = run(&machine, mutant.verdict.counts());
                row.met |= mutant_was_met();
                set_mutant("");
                row.runs += 1;
                match shown {
                    Shown::Nothing => {}
                    Shown::Panic => row.panics += 1,
                    Shown::Caught(code) => {
                        caught = Some((tried as u64 + 1, code));
                        break;
                    }
                }
            }
            row.caught.push(caught);
        }
        row
    }

    fn is_as_expected(&self) -> bool {
        let caught = self.caught.iter().any(Option::is_some);
        let harmless = matches!(self.mutant.verdict, Verdict::Survives);
        caught != harmless && (self.met || self.mutant.name == "none") && !(harmless && self.panics > 0)
    }

    fn tell(&self) -> String {
        let first = self.caught.iter().flatten().next();
        let shapes: Vec<String> = self
            .caught
            .iter()
            .map(|caught| caught.map_or("-".into(), |(runs, _)| runs.to_string()))
            .collect();
        let mut text = format!(
            "{:20} {:68} {:10} {:>4} {:>4} {:>4} {:>6} {:>4}  {}",
            self.mutant.name,
            self.mutant.breaks,
            self.mutant.verdict.word(),
            shapes[0],
            shapes[1],
            shapes[2],
            shapes[3],
            shapes[4],
            first.map_or("", |(_, code)| code),
        );
        if !self.met && self.mutant.name != "none" {
            text += "  NOT MET";
        }
        if self.panics > 0 {
            text += &format!("  ({} of {} runs came apart)", self.panics, self.runs);
        }
        if !self.is_as_expected() {
            text += "  <== NOT AS EXPECTED";
        }
        text
    }
}

/// Names of mutants in the engine's sources.
fn in_sources() -> Vec<String> {
    let mut names = Vec::new();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tree");
    for entry in std::fs::read_dir(dir).expect("the sources") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for after in text.split("mutated(\"").skip(1) {
            names.push(after.split('"').next().expect("a name").to_owned());
        }
    }
    names
}

fn main() -> ExitCode {
    let most: u64 =
        std::env::var("TREERCU_NUM").map_or(24, |text| text.parse().expect("TREERCU_NUM: a number"));
    let chosen = std::env::var("TREERCU_MUTANT").unwrap_or_default();
    let began = Instant::now();
    std::panic::set_hook(Box::new(|_| {}));
    let rows: Vec<Row> = MUTANTS
        .par_iter()
        .filter(|mutant| chosen.is_empty() || chosen.split(',').any(|name| name == mutant.name))
        .map(|mutant| Row::of(mutant, most))
        .collect();
    let _ = std::panic::take_hook();
    println!(
        "{:20} {:68} {:10} {:>4} {:>4} {:>4} {:>6} {:>4}  runs until it is caught, on 1, 2, 3, leaf + 1 and many CPUs",
        "", "what is done wrongly", "verdict", "1", "2", "3", "leaf+1", "deep"
    );
    rows.iter().for_each(|row| println!("{}", row.tell()));
    let unknown: Vec<String> = in_sources()
        .into_iter()
        .filter(|name| {
            let parts = |mutant: &Mutant| mutant.name.split('+').any(|part| part == name);
            !MUTANTS.iter().any(parts)
        })
        .collect();
    let wrong = rows.iter().filter(|row| !row.is_as_expected()).count();
    println!(
        "{} mutants, {} runs, {:.1} s; {wrong} not as expected; names without a row: {unknown:?}",
        rows.len(),
        rows.iter().map(|row| row.runs).sum::<u64>(),
        began.elapsed().as_secs_f64(),
    );
    ExitCode::from(u8::from(wrong > 0 || !unknown.is_empty()))
}
