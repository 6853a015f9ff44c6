//! What `simulate`, `simulate_many` and `measure` share: their common arguments, the door into the engine,
//! and what becomes of an interrupted call.

use super::config::PyConfig;
use super::enter::{CancelToken, Outcome, cancel_token, enter, reporter};
use super::machine::PyMachine;
use super::run::PyRun;
use super::values::{Given as Looks, given, refuse, unsigned, whole};
use super::workload;
use crate::control::{Control, MEMORY_LIMIT_MB, RunOptions};
use crate::error::Result;
use crate::stats::{Keep, MAX_SAMPLE, Run};
use crate::trace::{DEFAULT_TRACE_LIMIT, MAX_TRACE_LIMIT};
use crate::workload::Workload;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Mutex;

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

/// The arguments that all of them take, as Python gave them.
pub(super) struct Given<'a, 'py> {
    pub config: &'a Bound<'py, PyAny>,
    pub workload: &'a Bound<'py, PyAny>,
    pub seed: Option<&'a Bound<'py, PyAny>>,
    pub progress: Option<&'a Bound<'py, PyAny>>,
    pub cancel: Option<&'a Bound<'py, PyAny>>,
    pub memory_limit_mb: Option<&'a Bound<'py, PyAny>>,
    pub keep: Option<&'a Bound<'py, PyAny>>,
    pub trace: Option<&'a Bound<'py, PyAny>>,
}

/// The same, parsed.
pub(super) struct Job {
    config: Py<PyConfig>,
    workload: Py<PyAny>,
    pub plain: (crate::config::Config, Workload),
    pub seed: u64,
    pub options: RunOptions,
    reporter: Option<Py<PyAny>>,
    token: Option<Py<CancelToken>>,
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
pub(super) fn trace_limit(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Looks::Bool(on) = given(object) {
        return Ok(if on { DEFAULT_TRACE_LIMIT } else { 0 });
    }
    Ok(whole("trace", object, 0, MAX_TRACE_LIMIT as i128)? as usize)
}

impl Job {
    pub(super) fn parse(py: Python<'_>, given: Given<'_, '_>) -> PyResult<Self> {
        let config = given
            .config
            .cast::<PyConfig>()
            .map_err(|_| refuse("config", given.config, "not a configuration", "a treercu.Config"))?;
        let workload = workload::parse(given.workload)?;
        let token = cancel_token(given.cancel)?;
        let seed = match given.seed {
            Some(object) => unsigned("seed", object, 0, u64::MAX)?,
            None => 1,
        };
        let memory_limit_mb = match given.memory_limit_mb {
            Some(object) => unsigned("memory_limit_mb", object, 1, u32::MAX.into())?,
            None => MEMORY_LIMIT_MB,
        };
        let reporter = reporter(py, given.progress)?;
        Ok(Job {
            plain: (config.get().inner.clone(), workload.clone()),
            config: config.clone().unbind(),
            workload: workload::object_of(given.workload, &workload)?.unbind(),
            seed,
            options: RunOptions {
                memory_limit_mb,
                keep: given.keep.map_or(Ok(Keep::default()), keep)?,
                trace_limit: given.trace.map_or(Ok(0), trace_limit)?,
            },
            reporter,
            token,
        })
    }

    /// Works away from the interpreter.
    pub(super) fn enter<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Control) -> Result<T> + Send,
    ) -> PyResult<Outcome<T>> {
        enter(py, self.reporter.as_ref(), self.token.as_ref().map(Py::get), work)
    }

    fn build(&self, py: Python<'_>, run: Run, machine: Option<&Py<PyMachine>>) -> PyResult<Py<PyRun>> {
        PyRun::build(py, run, &self.config, machine, &self.workload)
    }

    /// The run as a Python object, or what was raised meanwhile.
    pub(super) fn finish(
        &self,
        py: Python<'_>,
        outcome: Outcome<Run>,
        machine: Option<&Py<PyMachine>>,
    ) -> PyResult<Py<PyRun>> {
        outcome.finish(
            py,
            |run| self.build(py, run, machine),
            |err, run| {
                remember(py, &run);
                err.setattr("runs", PyList::new(py, [&run])?)?;
                err.setattr("run", run)
            },
        )
    }

    /// The runs as a list, or what was raised meanwhile.
    pub(super) fn finish_all<'py>(
        &self,
        py: Python<'py>,
        outcome: Outcome<Vec<Run>>,
        machine: Option<&Py<PyMachine>>,
    ) -> PyResult<Bound<'py, PyList>> {
        outcome.finish(
            py,
            |runs| {
                let list = PyList::empty(py);
                for run in runs {
                    list.append(self.build(py, run, machine)?)?;
                }
                Ok(list)
            },
            |err, runs| {
                if let Ok(last) = runs.get_item(runs.len().saturating_sub(1)) {
                    remember(py, last.cast::<PyRun>()?.as_unbound());
                    err.setattr("run", last)?;
                }
                err.setattr("runs", runs)
            },
        )
    }
}
