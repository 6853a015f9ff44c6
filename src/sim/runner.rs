//! From (config, machine, workload, seed) to a run.

use super::{Machine, NoObserver, Observer};
use crate::config::Config;
use crate::error::Result;
use crate::stats::Run;
use crate::workload::Workload;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Default limit on the estimated memory of a run (or of all replicas of one call), MiB.
pub const MEMORY_LIMIT_MB: u64 = 4096;

/// How to carry a run out; nothing here changes its result.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Limit on the estimated memory, MiB.
    pub memory_limit_mb: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            memory_limit_mb: MEMORY_LIMIT_MB,
        }
    }
}

/// Shared between a run and whoever waits for it: cancel flag and progress.
#[derive(Debug, Default)]
pub struct Control {
    /// Set it and every run under this control ends within milliseconds, with what it has.
    pub cancel: AtomicBool,
    /// Work done so far, in the unit of `total`.
    pub done: AtomicU64,
    /// Work expected in all (calls, or virtual ns where only a duration is given); 0: unknown.
    pub total: AtomicU64,
}

/// Runs one simulation.
pub fn simulate(
    config: &Config,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    options: &RunOptions,
    control: &Control,
) -> Result<Run> {
    simulate_observed(config, machine, workload, seed, options, control, &mut NoObserver)
}

/// Runs one simulation under the eyes of an observer.
pub fn simulate_observed<O: Observer>(
    _config: &Config,
    _machine: &Machine,
    _workload: &Workload,
    _seed: u64,
    _options: &RunOptions,
    _control: &Control,
    _observer: &mut O,
) -> Result<Run> {
    todo!()
}

/// Runs `replicas` simulations on `threads` threads (0: one per core); replica *i* has seed `seed + i`
/// (wrapping). The result does not depend on `threads`. A cancelled call returns what finished plus
/// the partial runs, in order.
pub fn simulate_many(
    _config: &Config,
    _machine: &Machine,
    _workload: &Workload,
    _seed: u64,
    _replicas: u64,
    _threads: usize,
    _options: &RunOptions,
    _control: &Control,
) -> Result<Vec<Run>> {
    todo!()
}
