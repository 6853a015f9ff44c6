//! `treercu.simulate` and `treercu.simulate_many`.

use super::job::{Given, Job};
use super::machine::PyMachine;
use super::run::PyRun;
use super::values::{refuse, unsigned};
use crate::sim::{self, Machine};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Most replicas of one call.
const MAX_REPLICAS: u64 = 1_000_000;
/// Most threads of one call.
const MAX_THREADS: u64 = 1024;

/// `machine=`.
fn machine_of(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyMachine>> {
    match given {
        Some(object) => Ok(object
            .cast::<PyMachine>()
            .map_err(|_| refuse("machine", object, "not a machine", "a treercu.Machine, or None"))?
            .clone()
            .unbind()),
        None => Py::new(
            py,
            PyMachine {
                inner: Machine::default(),
            },
        ),
    }
}

/// Runs one simulation in virtual time.
///
/// The same config, workload, machine and seed give the same bytes on every machine. progress: `True`
/// for a bar on stderr, a callable `(done, total)`, `False` for none; by default a bar appears after a
/// second when stderr is a terminal. cancel: a `CancelToken`. Ctrl-C raises `Interrupted` with the
/// partial run.
///
/// keep: `"samples"` for every call; `"histogram"` for the distribution of the latencies only (buckets
/// of at most 0.1 %); N for the distribution and a random sample of N calls. trace: keep up to this
/// many trace events in `run.trace`; `True` for a million. Neither changes what happens in the run.
#[pyfunction]
#[pyo3(
    signature = (config, workload, *, seed=None, machine=None, progress=None, cancel=None, memory_limit_mb=None, keep=None, trace=None),
    text_signature = "(config, workload, *, seed=1, machine=None, progress=None, cancel=None, memory_limit_mb=4096, keep='samples', trace=0)"
)]
#[allow(clippy::too_many_arguments)]
pub(super) fn simulate<'py>(
    py: Python<'py>,
    config: &Bound<'py, PyAny>,
    workload: &Bound<'py, PyAny>,
    seed: Option<&Bound<'py, PyAny>>,
    machine: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    cancel: Option<&Bound<'py, PyAny>>,
    memory_limit_mb: Option<&Bound<'py, PyAny>>,
    keep: Option<&Bound<'py, PyAny>>,
    trace: Option<&Bound<'py, PyAny>>,
) -> PyResult<Py<PyRun>> {
    let job = Job::parse(
        py,
        Given {
            config,
            workload,
            seed,
            progress,
            cancel,
            memory_limit_mb,
            keep,
            trace,
        },
    )?;
    let (config, workload) = &job.plain;
    let machine = machine_of(py, machine)?;
    let plain = &machine.get().inner;
    let outcome = job.enter(py, |control| {
        sim::simulate(config, plain, workload, job.seed, &job.options, control)
    })?;
    job.finish(py, outcome, Some(&machine))
}

/// Runs several simulations side by side; replica *i* has seed `seed + i` (modulo 2**64).
///
/// threads: 0 for one per core. The result does not depend on it. A cancelled call returns what
/// finished and the partial runs, in order. keep and trace are as for `simulate`, for each replica.
#[pyfunction]
#[pyo3(
    signature = (config, workload, *, replicas, threads=None, seed=None, machine=None, progress=None, cancel=None, memory_limit_mb=None, keep=None, trace=None),
    text_signature = "(config, workload, *, replicas, threads=0, seed=1, machine=None, progress=None, cancel=None, memory_limit_mb=4096, keep='samples', trace=0)"
)]
#[allow(clippy::too_many_arguments)]
pub(super) fn simulate_many<'py>(
    py: Python<'py>,
    config: &Bound<'py, PyAny>,
    workload: &Bound<'py, PyAny>,
    replicas: &Bound<'py, PyAny>,
    threads: Option<&Bound<'py, PyAny>>,
    seed: Option<&Bound<'py, PyAny>>,
    machine: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    cancel: Option<&Bound<'py, PyAny>>,
    memory_limit_mb: Option<&Bound<'py, PyAny>>,
    keep: Option<&Bound<'py, PyAny>>,
    trace: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let replicas = unsigned("replicas", replicas, 1, MAX_REPLICAS)?;
    let threads = match threads {
        Some(object) => unsigned("threads", object, 0, MAX_THREADS)? as usize,
        None => 0,
    };
    let job = Job::parse(
        py,
        Given {
            config,
            workload,
            seed,
            progress,
            cancel,
            memory_limit_mb,
            keep,
            trace,
        },
    )?;
    let (config, workload) = &job.plain;
    let machine = machine_of(py, machine)?;
    let plain = &machine.get().inner;
    let outcome = job.enter(py, |control| {
        sim::simulate_many(
            config,
            plain,
            workload,
            job.seed,
            replicas,
            threads,
            &job.options,
            control,
        )
    })?;
    job.finish_all(py, outcome, Some(&machine))
}
