//! `treercu.simulate`, `treercu.simulate_many`, `treercu.last_run`.

use super::config::PyConfig;
use super::enter::{CancelToken, enter};
use super::machine::PyMachine;
use super::run::{PyRun, build_all};
use super::values::{Given as Looks, given, refuse, unsigned, whole};
use super::workload;
use crate::sim::{self, MEMORY_LIMIT_MB, Machine, RunOptions};
use crate::stats::{Keep, MAX_SAMPLE};
use crate::trace::{DEFAULT_TRACE_LIMIT, MAX_TRACE_LIMIT};
use crate::workload::Workload;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Mutex;

/// Most replicas of one call.
const MAX_REPLICAS: u64 = 1_000_000;
/// Most threads of one call.
const MAX_THREADS: u64 = 1024;

/// The partial run of the last interrupted call.
static LAST: Mutex<Option<Py<PyRun>>> = Mutex::new(None);

/// The partial run of the last call that a signal interrupted; `None` when there was none.
#[pyfunction]
pub(super) fn last_run(py: Python<'_>) -> Option<Py<PyRun>> {
    let last = LAST.lock().ok()?;
    last.as_ref().map(|run| run.clone_ref(py))
}

fn remember(py: Python<'_>, run: &Py<PyRun>) {
    // The old run is dropped after the lock is released: dropping may run Python code.
    let old = LAST
        .lock()
        .ok()
        .and_then(|mut last| last.replace(run.clone_ref(py)));
    drop(old);
}

/// Everything that both functions parse.
struct Job {
    config: Py<PyConfig>,
    machine: Py<PyMachine>,
    workload: Py<PyAny>,
    plain: (crate::config::Config, Machine, Workload),
    seed: u64,
    options: RunOptions,
    reporter: Option<Py<PyAny>>,
    token: Option<Py<CancelToken>>,
}

/// The arguments that `simulate` and `simulate_many` share, as Python gave them.
struct Given<'a, 'py> {
    config: &'a Bound<'py, PyAny>,
    workload: &'a Bound<'py, PyAny>,
    seed: Option<&'a Bound<'py, PyAny>>,
    machine: Option<&'a Bound<'py, PyAny>>,
    progress: Option<&'a Bound<'py, PyAny>>,
    cancel: Option<&'a Bound<'py, PyAny>>,
    memory_limit_mb: Option<&'a Bound<'py, PyAny>>,
    keep: Option<&'a Bound<'py, PyAny>>,
    trace: Option<&'a Bound<'py, PyAny>>,
}

/// `"samples"`, `"histogram"`, or how many calls.
pub(super) fn keep(object: &Bound<'_, PyAny>) -> PyResult<Keep> {
    let allowed = format!("samples, histogram, or a number of calls from 1 to {MAX_SAMPLE}");
    match given(object) {
        Looks::Text(text) if text == "samples" => Ok(Keep::Samples),
        Looks::Text(text) if text == "histogram" => Ok(Keep::Histogram),
        Looks::Int(n) if (1..=i128::from(MAX_SAMPLE)).contains(&n) => Ok(Keep::Sample(n as u64)),
        Looks::Int(_) | Looks::Huge => Err(refuse("keep", object, "out of range", &allowed)),
        _ => Err(refuse("keep", object, "not one of the choices", &allowed)),
    }
}

/// How many events are kept: a number, or `True` for the default limit and `False` for none.
fn trace_limit(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Looks::Bool(on) = given(object) {
        return Ok(if on { DEFAULT_TRACE_LIMIT } else { 0 });
    }
    Ok(whole("trace", object, 0, MAX_TRACE_LIMIT as i128)? as usize)
}

fn parse(py: Python<'_>, given: Given<'_, '_>) -> PyResult<Job> {
    let config = given
        .config
        .cast::<PyConfig>()
        .map_err(|_| refuse("config", given.config, "not a configuration", "a treercu.Config"))?;
    let machine = match given.machine {
        Some(object) => object
            .cast::<PyMachine>()
            .map_err(|_| refuse("machine", object, "not a machine", "a treercu.Machine, or None"))?
            .clone()
            .unbind(),
        None => Py::new(
            py,
            PyMachine {
                inner: Machine::default(),
            },
        )?,
    };
    let workload = workload::parse(given.workload)?;
    let token = match given.cancel {
        Some(object) => Some(
            object
                .cast::<CancelToken>()
                .map_err(|_| refuse("cancel", object, "not a token", "a treercu.CancelToken, or None"))?
                .clone()
                .unbind(),
        ),
        None => None,
    };
    let seed = match given.seed {
        Some(object) => unsigned("seed", object, 0, u64::MAX)?,
        None => 1,
    };
    let memory_limit_mb = match given.memory_limit_mb {
        Some(object) => unsigned("memory_limit_mb", object, 1, u32::MAX.into())?,
        None => MEMORY_LIMIT_MB,
    };
    let none = py.None().into_bound(py);
    let reporter = py
        .import("treercu._progress")?
        .call_method1("reporter", (given.progress.unwrap_or(&none),))?;
    Ok(Job {
        plain: (
            config.get().inner.clone(),
            machine.get().inner.clone(),
            workload.clone(),
        ),
        config: config.clone().unbind(),
        machine,
        workload: workload::object_of(given.workload, &workload)?.unbind(),
        seed,
        options: RunOptions {
            memory_limit_mb,
            keep: given.keep.map_or(Ok(Keep::default()), keep)?,
            trace_limit: given.trace.map_or(Ok(0), trace_limit)?,
        },
        reporter: (!reporter.is_none()).then(|| reporter.unbind()),
        token,
    })
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
    let job = parse(
        py,
        Given {
            config,
            workload,
            seed,
            machine,
            progress,
            cancel,
            memory_limit_mb,
            keep,
            trace,
        },
    )?;
    let (config, machine, workload) = &job.plain;
    let outcome = enter(
        py,
        job.reporter.as_ref(),
        job.token.as_ref().map(Py::get),
        |control| sim::simulate(config, machine, workload, job.seed, &job.options, control),
    )?;
    outcome.finish(
        py,
        |run| PyRun::build(py, run, &job.config, &job.machine, &job.workload),
        |err, run| {
            remember(py, &run);
            err.setattr("runs", PyList::new(py, [&run])?)?;
            err.setattr("run", run)
        },
    )
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
    let job = parse(
        py,
        Given {
            config,
            workload,
            seed,
            machine,
            progress,
            cancel,
            memory_limit_mb,
            keep,
            trace,
        },
    )?;
    let (config, machine, workload) = &job.plain;
    let outcome = enter(
        py,
        job.reporter.as_ref(),
        job.token.as_ref().map(Py::get),
        |control| {
            sim::simulate_many(
                config,
                machine,
                workload,
                job.seed,
                replicas,
                threads,
                &job.options,
                control,
            )
        },
    )?;
    outcome.finish(
        py,
        |runs| build_all(py, runs, &job.config, &job.machine, &job.workload),
        |err, runs| {
            if let Ok(last) = runs.get_item(runs.len().saturating_sub(1)) {
                remember(py, last.cast::<PyRun>()?.as_unbound());
                err.setattr("run", last)?;
            }
            err.setattr("runs", runs)
        },
    )
}
