//! `treercu.torture`, `treercu.torture_scenarios`.

use super::enter::{CancelToken, cancel_token, enter, reporter};

use super::values::{json_object, real, refuse, unsigned, word};
use crate::torture::{MAX_SECONDS, MIN_SECONDS, Report, SCENARIOS, World, run};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};
use serde_json::to_value;

/// The result of `treercu.torture`.
///
/// `errors` is the sum of all error counters; `counters` has each of them under rcutorture's name, and
/// `text` is what rcutorture would have printed. `skipped` lists what this run did not do, and why.
#[pyclass(name = "TortureReport", module = "treercu", frozen)]
pub(super) struct PyTortureReport {
    inner: Report,
}

#[pymethods]
impl PyTortureReport {
    /// Name of the scenario.
    #[getter]
    fn scenario(&self) -> &'static str {
        self.inner.scenario
    }

    /// `"host"` or `"sim"`.
    #[getter]
    fn world(&self) -> &'static str {
        self.inner.world.name()
    }

    /// How long the test was to run, s: virtual time in the simulated world.
    #[getter]
    fn seconds(&self) -> f64 {
        self.inner.seconds
    }

    /// How long it ran, s.
    #[getter]
    fn ran_s(&self) -> f64 {
        self.inner.ran_s
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// The sum of all error counters.
    #[getter]
    fn errors(&self) -> u64 {
        self.inner.errors()
    }

    /// `"SUCCESS"`, `"FAILURE"`, or `"RCU_HOTPLUG"`: no error, but CPUs did not come or go as asked.
    #[getter]
    fn verdict(&self) -> &'static str {
        self.inner.verdict.name()
    }

    /// Every counter by name.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counters = to_value(&self.inner.counters).expect("plain numbers");
        json_object(py, &counters)
    }

    /// What did not happen: a list of dicts with `name` and `why`.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json_object(py, &to_value(&self.inner.skipped).expect("plain text"))
    }

    /// The test was cut short by a cancel request.
    #[getter]
    fn interrupted(&self) -> bool {
        self.inner.interrupted
    }

    /// What rcutorture would have printed.
    #[getter]
    fn text(&self) -> &str {
        &self.inner.text
    }

    /// Everything but the text, as one dict.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("scenario", self.scenario())?;
        dict.set_item("world", self.world())?;
        dict.set_item("seconds", self.seconds())?;
        dict.set_item("errors", self.errors())?;
        dict.set_item("counters", self.counters(py)?)?;
        dict.set_item("verdict", self.verdict())?;
        dict.set_item("seed", self.seed())?;
        dict.set_item("ran_s", self.ran_s())?;
        dict.set_item("skipped", self.skipped(py)?)?;
        dict.set_item("interrupted", self.interrupted())?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let cut = if self.inner.interrupted {
            ", interrupted"
        } else {
            ""
        };
        format!(
            "<TortureReport {} {} {}: {}, {} errors, {} versions in {:.3} s, seed {}{cut}>",
            self.scenario(),
            self.world(),
            self.inner.seconds,
            self.verdict(),
            self.errors(),
            self.inner.counters.ver,
            self.inner.ran_s,
            self.inner.seed
        )
    }
}

/// Runs rcutorture's model against the engine by a named scenario (see `torture_scenarios`).
///
/// world: `"host"`, real threads for so many seconds; `"sim"`, the simulated machine for so many virtual
/// ones, where the same seed gives the same counters. progress and cancel are as for `simulate`: Ctrl-C
/// raises `Interrupted` with the report so far as `.report`.
#[pyfunction]
#[pyo3(
    signature = (scenario, *, seconds=None, world=None, seed=None, progress=None, cancel=None),
    text_signature = "(scenario, *, seconds=5, world='host', seed=1, progress=None, cancel=None)"
)]
pub(super) fn torture(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    seconds: Option<&Bound<'_, PyAny>>,
    world: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
    cancel: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyTortureReport>> {
    let Ok(name) = scenario.extract::<String>() else {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(refuse("scenario", scenario, "not a name", &names.join(", ")));
    };
    let seconds = match seconds {
        Some(object) => real("seconds", object, &format!("{MIN_SECONDS} to {MAX_SECONDS}"))?,
        None => 5.0,
    };
    let world = match world {
        Some(object) if word("world", object, &["host", "sim"])? == "sim" => World::Sim,
        _ => World::Host,
    };
    let seed = match seed {
        Some(object) => unsigned("seed", object, 0, u64::MAX)?,
        None => 1,
    };
    let reporter = reporter(py, progress)?;
    let token: Option<Py<CancelToken>> = cancel_token(cancel)?;
    let outcome = enter(py, reporter.as_ref(), token.as_ref().map(Py::get), |control| {
        run(&name, seconds, world, seed, control)
    })?;
    outcome.finish(
        py,
        |inner| Py::new(py, PyTortureReport { inner }),
        |err, report| err.setattr("report", report),
    )
}

/// Every scenario of `torture`: a list of dicts with `name`, `intent`, `cpus` and `missing`, which lists
/// the settings of rcutorture's scenario that nothing here corresponds to yet.
#[pyfunction]
pub(super) fn torture_scenarios(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for scenario in SCENARIOS {
        let dict = PyDict::new(py);
        dict.set_item("name", scenario.name)?;
        dict.set_item("intent", scenario.intent)?;
        dict.set_item("cpus", scenario.cpus)?;
        let missing = PyList::empty(py);
        for &(name, why) in scenario.missing {
            let item = PyDict::new(py);
            item.set_item("name", name)?;
            item.set_item("why", why)?;
            missing.append(item)?;
        }
        dict.set_item("missing", missing)?;
        list.append(dict)?;
    }
    Ok(list)
}
