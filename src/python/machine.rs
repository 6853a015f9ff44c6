//! `treercu.Machine`.

use super::errors::{OrRaise, raise};
use super::values::{json_object, nearest, real, whole, word};
use crate::error::Error;
use crate::sim::Machine;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value as Json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The simulated hardware and scheduler: costs in nanoseconds of virtual time, policies, background noise.
///
/// Every field is a keyword with a default; `Machine().to_dict()` shows them all. `replace()` gives
/// a changed copy.
#[pyclass(name = "Machine", module = "treercu", frozen)]
#[derive(Clone)]
pub(super) struct PyMachine {
    pub(super) inner: Machine,
}

fn fields(machine: &Machine) -> Map<String, Json> {
    match serde_json::to_value(machine) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// What a field takes is read off its present value: a word, a real number, a signed or an unsigned integer.
fn parse(name: &str, current: &Json, object: &Bound<'_, PyAny>) -> PyResult<Json> {
    Ok(match current {
        Json::String(_) => Json::from(word(name, object, &["era", "pull", "local"])?),
        Json::Number(number) if number.is_f64() => {
            let allowed = if name == "governor_keeps_tick" {
                "0 to 1".to_owned()
            } else {
                format!("0 to {}", crate::sim::MAX_NOISE)
            };
            Json::from(real(name, object, &allowed)?)
        }
        Json::Number(_) if name == "gp_kthread_cpu" => {
            Json::from(whole(name, object, -1, u32::MAX.into())? as i64)
        }
        Json::Number(_) => {
            let high = if name == "slice_ns" { 10 } else { 1 } * crate::sim::MAX_COST_NS;
            Json::from(whole(name, object, 0, high.into())? as u64)
        }
        _ => {
            return Err(raise(
                object.py(),
                Error::Engine(format!("machine field {name} has no parser")),
            ));
        }
    })
}

impl PyMachine {
    fn with(base: &Machine, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Some(changes) = changes else {
            return Ok(PyMachine { inner: base.clone() });
        };
        let py = changes.py();
        let mut all = fields(base);
        for (key, object) in changes.iter() {
            let name: String = key.extract()?;
            let Some(current) = all.get(&name) else {
                let near = nearest(&name, all.keys().map(String::as_str))
                    .map_or(String::new(), |n| format!("; did you mean {n}?"));
                return Err(raise(
                    py,
                    Error::config(
                        name,
                        super::values::show(&object),
                        format!("no such machine field{near}"),
                        all.keys().cloned().collect::<Vec<_>>().join(", "),
                    ),
                ));
            };
            let value = parse(&name, current, &object)?;
            all.insert(name, value);
        }
        let inner: Machine = serde_json::from_value(Json::Object(all))
            .map_err(|err| raise(py, Error::Engine(err.to_string())))?;
        // Which CPUs exist is known only together with a config; `simulate` checks that part again.
        inner.validate(u32::MAX).or_raise(py)?;
        Ok(PyMachine { inner })
    }
}

#[pymethods]
impl PyMachine {
    #[new]
    #[pyo3(signature = (**fields))]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::with(&Machine::default(), fields)
    }

    /// A copy with some fields changed.
    #[pyo3(signature = (**fields))]
    fn replace(&self, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::with(&self.inner, fields)
    }

    /// All fields with their values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json_object(py, &Json::Object(fields(&self.inner)))
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match fields(&self.inner).get(name) {
            Some(value) => json_object(py, value),
            None => Err(PyAttributeError::new_err(format!(
                "Machine has no field {name:?}"
            ))),
        }
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        with_names(slf.as_any(), fields(&slf.get().inner).keys().cloned())
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
        serde_json::to_string(&self.inner)
            .unwrap_or_default()
            .hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let defaults = fields(&Machine::default());
        let mut parts = Vec::new();
        for (name, value) in fields(&self.inner) {
            if defaults.get(&name) != Some(&value) {
                parts.push(format!("{name}={}", json_object(py, &value)?.repr()?));
            }
        }
        Ok(format!("Machine({})", parts.join(", ")))
    }

    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, pyo3::types::PyTuple>, Bound<'py, PyAny>)> {
        Ok((pyo3::types::PyTuple::empty(py), self.to_dict(py)?))
    }
}

/// `object.__dir__` plus names that only `__getattr__` knows.
pub(super) fn with_names<'py>(
    object: &Bound<'py, PyAny>,
    names: impl IntoIterator<Item = String>,
) -> PyResult<Bound<'py, PyList>> {
    let py = object.py();
    let base = py
        .import("builtins")?
        .getattr("object")?
        .call_method1("__dir__", (object,))?;
    let list = PyList::empty(py);
    for name in base.try_iter()? {
        list.append(name?)?;
    }
    for name in names {
        list.append(name)?;
    }
    Ok(list)
}
