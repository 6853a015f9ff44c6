//! `treercu.Config` and the catalogue of tunables.

use super::errors::{ConfigWarning, OrRaise, raise};
use super::machine::with_names;
use super::probe::description;
use super::values::{json_object, refuse, show, tunable_object, tunable_value};
use crate::config::{Config, Kind, Spec, Standing, Value, elsewhere, known, lookup, settable};
use crate::error::Error;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Every tunable: what was given, and what is in force.
///
/// Keywords are the tunables' names (`treercu.tunables()` lists them): `kernel="6.18"` picks an
/// era's defaults, everything given explicitly wins. Attributes are the values in force. A value
/// that the kernel would limit is limited here too, with one `ConfigWarning`; one that it would
/// refuse is a `ConfigError`.
#[pyclass(name = "Config", module = "treercu", frozen)]
pub(super) struct PyConfig {
    pub(super) inner: Config,
}

fn changed(base: &Config, changes: Option<&Bound<'_, PyDict>>, py: Python<'_>) -> PyResult<Config> {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    for (key, object) in changes.into_iter().flatten() {
        let name: String = key.extract()?;
        match (tunable_value(&object), lookup(&name)) {
            (Ok(value), _) => pairs.push((name, value)),
            (Err(reason), Some(spec)) => return Err(refuse(&name, &object, reason, spec.range)),
            // Whatever the value, the name is the first thing to put right.
            (Err(_), None) => pairs.push((name, Value::Text(show(&object)))),
        }
    }
    base.replace(pairs).or_raise(py)
}

impl PyConfig {
    /// One warning for each adjustment that `before` did not have.
    fn warn(&self, py: Python<'_>, before: Option<&Config>) -> PyResult<()> {
        let category = py.get_type::<ConfigWarning>();
        for adjusted in self.inner.warnings() {
            if before.is_some_and(|config| config.warnings().contains(adjusted)) {
                continue;
            }
            let text = adjusted.to_string().replace('\0', " ");
            let text = std::ffi::CString::new(text).unwrap_or_default();
            PyErr::warn(py, category.as_any(), &text, 1)?;
        }
        Ok(())
    }
}

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (**tunables))]
    fn new(py: Python<'_>, tunables: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let config = PyConfig {
            inner: changed(&Config::new(), tunables, py)?,
        };
        config.warn(py, None)?;
        Ok(config)
    }

    /// A copy with some tunables given another value; all defaults are worked out again.
    #[pyo3(signature = (**tunables))]
    fn replace(&self, py: Python<'_>, tunables: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let config = PyConfig {
            inner: changed(&self.inner, tunables, py)?,
        };
        config.warn(py, Some(&self.inner))?;
        Ok(config)
    }

    /// Every tunable with the value in force.
    #[getter]
    fn effective<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for spec in settable() {
            let value = self.inner.get(spec.python_name).or_raise(py)?;
            dict.set_item(spec.python_name, tunable_object(py, &value)?)?;
        }
        Ok(dict)
    }

    /// The tunables that were given, with the values as given.
    #[getter]
    fn explicit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for spec in settable() {
            if let Some(value) = self.inner.explicit().get(spec.python_name) {
                dict.set_item(spec.python_name, tunable_object(py, value)?)?;
            }
        }
        Ok(dict)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match lookup(name).filter(|spec| spec.python_name == name) {
            Some(spec) => tunable_object(py, &self.inner.get(spec.python_name).or_raise(py)?),
            None => Err(PyAttributeError::new_err(format!(
                "Config has no tunable {name:?}"
            ))),
        }
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        with_names(slf.as_any(), settable().map(|spec| spec.python_name.to_owned()))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<Self>() {
            Ok(other) => pyo3::types::PyBool::new(py, self.inner == other.get().inner)
                .to_owned()
                .into_any()
                .unbind(),
            Err(_) => py.NotImplemented(),
        }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Equal configs have equal values in force.
        self.inner.to_json().to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        self.inner.describe()
    }

    /// A configuration from TOML: `name = value` lines, and tables as the kernel groups its parameters.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &str) -> PyResult<Self> {
        let config = PyConfig {
            inner: Config::from_toml(text).or_raise(py)?,
        };
        config.warn(py, None)?;
        Ok(config)
    }

    /// The values that were given, as TOML.
    fn to_toml(&self) -> String {
        self.inner.to_toml()
    }

    /// A kernel command line, read as the kernel reads it: the configuration, and a report of each word
    /// (text, name, value, verdict, used, why, rcu). Never fails and never warns; `base` is what the
    /// line is added to.
    #[staticmethod]
    #[pyo3(signature = (line, base=None))]
    fn from_cmdline<'py>(
        py: Python<'py>,
        line: &str,
        base: Option<&Bound<'py, PyConfig>>,
    ) -> PyResult<(Self, Bound<'py, PyAny>)> {
        let fallback = Config::new();
        let base = base.map_or(&fallback, |config| &config.get().inner);
        let (inner, words) = Config::from_cmdline(line, base);
        let report = serde_json::to_value(words).map_err(|err| raise(py, Error::Engine(err.to_string())))?;
        Ok((PyConfig { inner }, json_object(py, &report)?))
    }

    // Not through __new__: a copy must not repeat the warnings.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let restore = py.import("treercu._core")?.getattr("_restore_config")?;
        Ok((restore, PyTuple::new(py, [slf.get().explicit(py)?])?))
    }
}

/// Unpickles a `Config`.
#[pyfunction]
pub(super) fn _restore_config(py: Python<'_>, explicit: &Bound<'_, PyDict>) -> PyResult<PyConfig> {
    Ok(PyConfig {
        inner: changed(&Config::new(), Some(explicit), py)?,
    })
}

/// The catalogue: one dict per knob, first the tunables in groups, with their defaults under `config` (without
/// one: under the newest kernel's defaults), then the knobs of the kernel that are none here.
///
/// `status` is `"live"` (a mechanism reads it: `why` says which, `probe` what shows its effect), `"accepted"`
/// (parsed and checked, without effect in this model: `why`), `"build-time"` (a matter of the kernel's build;
/// `stand_in` is the tunable that stands for it, or `None`), or `"planned"` (its mechanism is not modelled
/// yet; it is refused). Those of the last two kinds have no `python_name`, default or range.
#[pyfunction]
#[pyo3(signature = (config=None))]
pub(super) fn tunables<'py>(
    py: Python<'py>,
    config: Option<&Bound<'py, PyConfig>>,
) -> PyResult<Bound<'py, PyList>> {
    let newest = Config::new();
    let base = config.map_or(&newest, |config| &config.get().inner);
    let list = PyList::empty(py);
    let status = |spec: &Spec| if spec.is_inert() { "accepted" } else { "live" };
    for spec in settable() {
        let dict = PyDict::new(py);
        dict.set_item("name", spec.name)?;
        dict.set_item("python_name", spec.python_name)?;
        dict.set_item("kernel_name", spec.kernel_name)?;
        dict.set_item("kind", word(&spec.kind))?;
        dict.set_item("default", tunable_object(py, &spec.default_for(base))?)?;
        dict.set_item("default_formula", spec.default_formula)?;
        dict.set_item("range", spec.range)?;
        dict.set_item("class", word(&spec.class))?;
        dict.set_item("unit", spec.unit)?;
        dict.set_item("effect", spec.effect)?;
        dict.set_item("tier", spec.tier)?;
        dict.set_item("status", status(spec))?;
        dict.set_item("why", spec.why)?;
        dict.set_item("stand_in", py.None())?;
        let probe = crate::probe::probe(spec.python_name);
        dict.set_item("probe", probe.map(|probe| description(py, &probe)).transpose()?)?;
        list.append(dict)?;
    }
    for knob in known().iter().filter(|knob| !knob.is_modelled()) {
        let Some(told) = elsewhere(knob.name) else {
            continue;
        };
        let dict = PyDict::new(py);
        let kernel_name = knob.name.strip_prefix("CONFIG_").unwrap_or(knob.last_part());
        dict.set_item("name", knob.name)?;
        dict.set_item("python_name", py.None())?;
        dict.set_item("kernel_name", kernel_name)?;
        dict.set_item("kind", word(&knob.kind))?;
        for empty in ["default", "default_formula", "range", "class"] {
            dict.set_item(empty, py.None())?;
        }
        dict.set_item("unit", "")?;
        dict.set_item("effect", told.effect)?;
        dict.set_item("tier", knob.tier)?;
        let (status, why, stand_in) = match told.standing {
            Standing::BuildTime("") if knob.kind == Kind::Kconfig => (
                "build-time",
                "a matter of the kernel's build, which nothing here stands for".to_owned(),
                None,
            ),
            Standing::BuildTime(stand_in) => (
                "build-time",
                format!("a matter of the kernel's build; {stand_in} stands for it"),
                Some(stand_in),
            ),
            Standing::Planned(mechanism) => ("planned", format!("not modelled yet: {mechanism}"), None),
        };
        dict.set_item("status", status)?;
        dict.set_item("why", why)?;
        dict.set_item("stand_in", stand_in)?;
        dict.set_item("probe", py.None())?;
        list.append(dict)?;
    }
    Ok(list)
}

/// The word that a plain enum serialises to.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
