//! `treercu.measure`.

use super::job::{Given, Job};
use super::run::PyRun;
use super::values::word;
use crate::host::{FenceMode, TimerMode};
use crate::measure::{EngineKind, Options};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The names that `engine=` takes.
pub(super) fn engine_names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, EngineKind::ALL.map(|(name, _)| name))
}

/// One of `all`, by its name.
fn choice<T: Copy>(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
    all: &[(&'static str, T)],
    default: T,
) -> PyResult<T> {
    let Some(object) = object else {
        return Ok(default);
    };
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let chosen = word(name, object, &names)?;
    let found = all.iter().find(|(name, _)| *name == chosen);
    Ok(found.map_or(default, |(_, value)| *value))
}

/// Measures a workload on real threads, in real time; the same `Run` comes back.
///
/// Every task is a thread of this process, on a virtual CPU of the configuration. engine: what is measured,
/// one of `ENGINES`; the engines other than "treercu" read no tunable. seed decides placement, starts and
/// drawn lengths as in `simulate`, not the result. progress, cancel, memory_limit_mb, keep and trace are as
/// for `simulate`. Ctrl-C raises `Interrupted` with the partial run.
///
/// fence: what orders readers against a grace period, `"membarrier"`, `"fallback"` (readers execute full
/// fences), or `"auto"`, the first of them that this system has. timer: timeouts of the grace-period thread
/// are rounded to ticks as the kernel's timer `"wheel"` does it, or not at all (`"hrtimer"`).
#[pyfunction]
#[pyo3(
    signature = (config, workload, *, engine=None, seed=None, progress=None, cancel=None, memory_limit_mb=None, keep=None, trace=None, fence=None, timer=None),
    text_signature = "(config, workload, *, engine='treercu', seed=1, progress=None, cancel=None, memory_limit_mb=4096, keep='samples', trace=0, fence='auto', timer='wheel')"
)]
#[allow(clippy::too_many_arguments)]
pub(super) fn measure<'py>(
    py: Python<'py>,
    config: &Bound<'py, PyAny>,
    workload: &Bound<'py, PyAny>,
    engine: Option<&Bound<'py, PyAny>>,
    seed: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    cancel: Option<&Bound<'py, PyAny>>,
    memory_limit_mb: Option<&Bound<'py, PyAny>>,
    keep: Option<&Bound<'py, PyAny>>,
    trace: Option<&Bound<'py, PyAny>>,
    fence: Option<&Bound<'py, PyAny>>,
    timer: Option<&Bound<'py, PyAny>>,
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
    let defaults = Options::default();
    let options = Options {
        engine: choice("engine", engine, &EngineKind::ALL, defaults.engine)?,
        run: job.options.clone(),
        fence: choice("fence", fence, &FenceMode::ALL, defaults.fence)?,
        timer: choice("timer", timer, &TimerMode::ALL, defaults.timer)?,
    };
    let (config, workload) = &job.plain;
    let outcome = job.enter(py, |control| {
        crate::measure::measure(config, workload, job.seed, &options, control)
    })?;
    job.finish(py, outcome, None)
}
