//! treercu's host engine beside the libraries that people use: liburcu, crossbeam-epoch, seize.
//!
//! `cargo bench --bench peers [-- --json FILE] [--rows a,b] [--rounds N]`; see README.md beside this file.

mod callbacks;
mod expedited;
mod flood;
mod floor;
mod host;
mod ours;
mod read;
mod report;
mod rounds;
mod shim;

use report::Row;
use serde_json::json;
use shim::Urcu;
use std::process::ExitCode;

/// Rows by key, in the order in which they are measured.
const ROWS: [&str; 10] = [
    "floor",
    "read-full",
    "read-none",
    "exp-idle",
    "exp-one",
    "exp-two",
    "growth",
    "flood",
    "callbacks",
    "callbacks-free",
];

struct Arguments {
    json: Option<String>,
    rows: Vec<String>,
    rounds: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        json: None,
        rows: ROWS.map(str::to_owned).to_vec(),
        rounds: 21,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            // Given by cargo.
            "--bench" => {}
            "--json" => parsed.json = Some(value()?),
            "--rows" => parsed.rows = value()?.split(',').map(str::to_owned).collect(),
            "--rounds" => {
                parsed.rounds = value()?
                    .parse()
                    .map_err(|_| "--rounds takes a number".to_owned())?;
                if parsed.rounds == 0 {
                    return Err("--rounds takes a number from 1".to_owned());
                }
            }
            _ => {
                return Err(format!(
                    "unknown argument {name}; known: --json FILE, --rows a,b, --rounds N"
                ));
            }
        }
    }
    if let Some(unknown) = parsed.rows.iter().find(|row| !ROWS.contains(&row.as_str())) {
        return Err(format!("no row {unknown}; rows: {}", ROWS.join(", ")));
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let cores = host::cores();
    if !host::register_membarrier() {
        eprintln!("this system has no private expedited membarrier, which floor and comparison are about");
        return ExitCode::FAILURE;
    }
    let urcu = Urcu::load();
    let facts = host::facts();
    println!("{facts}");
    println!(
        "{} rounds, interleaved; median [quartiles]; ours/it: median and quartiles of the rounds' ratios\n",
        arguments.rounds
    );
    let mut rows: Vec<Row> = Vec::new();
    for key in &arguments.rows {
        let rounds = arguments.rounds;
        let new = match key.as_str() {
            "floor" => vec![floor::row(rounds, &cores)],
            "read-full" => vec![read::full(rounds, cores[0])],
            "read-none" => vec![read::none(rounds, cores[0])],
            "exp-idle" => vec![expedited::idle(rounds, cores[0], urcu.clone())],
            "exp-one" => vec![expedited::one_reader(rounds, &cores, urcu.clone())],
            "exp-two" => vec![expedited::two_readers(rounds, &cores, urcu.clone())],
            "growth" => vec![expedited::growth(rounds, &cores, urcu.clone())],
            "flood" => flood::rows(rounds, &cores, urcu.clone()).to_vec(),
            "callbacks" => vec![callbacks::row(rounds, &cores, urcu.clone())],
            "callbacks-free" => vec![callbacks::free(rounds, &cores, urcu.clone())],
            _ => unreachable!("checked above"),
        };
        host::pin(&cores);
        for row in new {
            println!("{}", row.text());
            rows.push(row);
        }
    }
    println!("| row | ours | peers | ours/peer (quartiles) | must | goal |\n|---|---|---|---|---|---|");
    for row in rows.iter().filter(|row| row.key != "floor") {
        println!("{}", row.line());
    }
    if let Some(path) = arguments.json {
        let all = json!({
            "host": facts,
            "rounds": arguments.rounds,
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&all).expect("plain data");
        if let Err(err) = std::fs::write(&path, text + "\n") {
            eprintln!("{path}: {err}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
