//! The Rust side of `benchmarks/overhead.py`: the same floods, without an interpreter in the process.
//!
//! With the argument `serve`, each line on stdin is a flood as JSON, `{"config": {…}, "tasks": …, "duration_ms": …, "kind": "sync", "seed": …}`;
//! each line on stdout is what [`measure`] made of it. The process stays between floods, as Python's does, so that
//! both are as warm as each other.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;
use treercu::config::{Config, Value};
use treercu::measure::{Control, Options, measure};
use treercu::workload::{SyncCallKind, SyncFlood};

/// What is to be measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flood {
    config: Config,
    tasks: u64,
    duration_ms: u64,
    kind: SyncCallKind,
    seed: u64,
}

/// What was measured.
#[derive(Serialize)]
struct Figures<'r> {
    calls: u64,
    /// From the start of the flood to the end of its last call.
    wall_ns: u64,
    /// Of the call of `measure`, threads' start and samples' merging included.
    whole_ns: u64,
    /// Every tunable as the flood had it.
    config: &'r BTreeMap<&'static str, Value>,
}

fn main() {
    if !std::env::args().any(|word| word == "serve") {
        println!("run benchmarks/overhead.py, which compares floods of this program with Python's");
        return;
    }
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in stdin.lines() {
        let line = line.expect("a readable stdin");
        let flood: Flood = serde_json::from_str(&line).expect("a flood as JSON");
        let workload = SyncFlood {
            tasks: flood.tasks,
            calls: 0,
            duration_ns: flood.duration_ms * 1_000_000,
            kind: flood.kind,
            ..SyncFlood::default()
        };
        let began = Instant::now();
        let run = measure(
            &flood.config,
            &workload.into(),
            flood.seed,
            &Options::default(),
            &Control::default(),
        )
        .expect("measures");
        let figures = Figures {
            whole_ns: began.elapsed().as_nanos() as u64,
            calls: run.calls(),
            wall_ns: run.wall_ns,
            config: flood.config.effective(),
        };
        let text = serde_json::to_string(&figures).expect("serialises");
        writeln!(stdout, "{text}").expect("a writable stdout");
        stdout.flush().expect("a writable stdout");
    }
}
