//! Probes: for each live tunable two settings, and a figure of the simulated run that has to move from one to the other.
//!
//! A tunable that is there and moves nothing is a lie. So each [`Probe`] names a workload that its mechanism decides,
//! one value and another, a metric and the direction in which the mechanism moves it, with the reason. [`Probe::run`]
//! simulates both settings with the same seeds; the metric has *moved* if every run of the second setting lies beyond
//! every run of the first: the smallest difference that counts is larger than the spread over the seeds.
//!
//! | file | holds |
//! |---|---|
//! | `metric.rs` | the figures of a run that probes look at |
//! | `table.rs` | the probes |

mod metric;
mod table;

pub use metric::Metric;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::sim::{Control, Machine, RunOptions, simulate};
use crate::stats::Run;
use crate::workload::Workload;
use rayon::prelude::*;
use serde::Serialize;

/// Seeds that a probe runs with, 1 ..= this.
pub const SEEDS: u64 = 5;
/// Hard limit on the seeds of one probe.
pub const MAX_SEEDS: u64 = 1_000;

/// Where a metric goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It grows.
    Up,
    /// It shrinks.
    Down,
}

/// Two settings of one tunable, and what has to move.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// Python name of the tunable.
    pub tunable: &'static str,
    /// What is run.
    pub workload: Workload,
    /// Other tunables that are set in both runs.
    pub config: &'static [(&'static str, &'static str)],
    /// Python name of the tunable that is set: the same, or the one that a view follows.
    pub sets: &'static str,
    /// Fields of the machine that differ from their defaults in both runs.
    pub machine: &'static [(&'static str, i64)],
    /// The first value.
    pub from: &'static str,
    /// The second value.
    pub to: &'static str,
    /// The figure.
    pub metric: Metric,
    /// Where it goes.
    pub direction: Direction,
    /// Why it does.
    pub reason: &'static str,
}

/// What a probe found.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Python name of the tunable.
    pub name: &'static str,
    /// The figure's name; its unit is in it.
    pub metric: &'static str,
    /// The figure with the first value, one per seed.
    pub before: Vec<f64>,
    /// The figure with the second value, one per seed.
    pub after: Vec<f64>,
    /// Where it should have gone.
    pub direction: Direction,
    /// It went there, beyond the spread over the seeds.
    pub moved: bool,
}

/// The probe of this tunable, by its Python or full name, or by the parameter whose default it gives.
pub fn probe(name: &str) -> Option<Probe> {
    let python_name = crate::config::lookup(name)?.python_name;
    table::probes()
        .into_iter()
        .find(|probe| probe.tunable == python_name)
}

/// Every probe, in the order of the table of tunables.
pub fn probes() -> Vec<Probe> {
    table::probes()
}

impl Probe {
    /// Both settings, simulated with seeds 1 to `seeds`, on as many threads as there are cores.
    ///
    /// # Errors
    /// [`Error::Config`] for a number of seeds out of range; what the simulation may refuse.
    pub fn run(&self, seeds: u64, control: &Control) -> Result<Outcome> {
        if seeds == 0 || seeds > MAX_SEEDS {
            return Err(Error::config(
                "seeds",
                seeds,
                "out of range",
                format!("1 to {MAX_SEEDS}"),
            ));
        }
        let values = |value: &'static str| -> Result<Vec<f64>> {
            let (config, machine) = (self.config_with(value)?, self.machine()?);
            (1..=seeds)
                .into_par_iter()
                .map(|seed| Ok(self.metric.of(&self.one(&config, &machine, seed, control)?)))
                .collect()
        };
        let (before, after) = rayon::join(|| values(self.from), || values(self.to));
        let (before, after) = (before?, after?);
        // A run without the figure has moved nothing.
        let there = before.iter().chain(&after).all(|figure| figure.is_finite());
        let moved = there
            && match self.direction {
                Direction::Up => largest(&before) < smallest(&after),
                Direction::Down => largest(&after) < smallest(&before),
            };
        Ok(Outcome {
            name: self.tunable,
            metric: self.metric.name(),
            before,
            after,
            direction: self.direction,
            moved,
        })
    }

    /// The configuration with this value of the tunable.
    ///
    /// # Errors
    /// [`Error::Config`], which would be an error of the table.
    pub fn config_with(&self, value: &str) -> Result<Config> {
        Config::from_pairs(self.config.iter().copied().chain([(self.sets, value)]))
    }

    /// The machine.
    ///
    /// # Errors
    /// [`Error::Config`], which would be an error of the table.
    pub fn machine(&self) -> Result<Machine> {
        let fields: serde_json::Map<String, serde_json::Value> = self
            .machine
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.into()))
            .collect();
        serde_json::from_value(fields.into())
            .map_err(|err| Error::config("machine", self.tunable, err.to_string(), "fields of a machine"))
    }

    fn one(&self, config: &Config, machine: &Machine, seed: u64, control: &Control) -> Result<Run> {
        let options = RunOptions {
            trace_limit: self.metric.trace_limit(),
            ..RunOptions::default()
        };
        simulate(config, machine, &self.workload, seed, &options, control)
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
