//! The workload classes, `treercu.Mix`, and whatever `simulate` accepts as a workload.
//!
//! | file | what |
//! |---|---|
//! | `kinds.rs` | what a field can be |
//! | `part.rs` | a class from its table of fields |
//! | `parts.rs` | the tables |

mod kinds;
mod part;
mod parts;

use super::errors::OrRaise;
use super::values::refuse;
use crate::workload::Workload;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Adds the classes to the module.
pub(super) fn add_classes(m: &Bound<'_, PyModule>) -> PyResult<()> {
    parts::add(m)?;
    m.add_class::<PyMix>()
}

/// Several workloads side by side on one machine.
#[pyclass(name = "Mix", module = "treercu", frozen, sequence)]
struct PyMix {
    inner: Workload,
}

#[pymethods]
impl PyMix {
    #[new]
    #[pyo3(signature = (parts))]
    fn new(parts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let inner = parse(parts)?;
        if inner.parts.is_empty() {
            // The same words as at a run.
            inner.validate(u32::MAX).or_raise(parts.py())?;
        }
        Ok(PyMix { inner })
    }

    /// The workloads, in order.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for part in &self.inner.parts {
            list.append(parts::object(py, part)?)?;
        }
        Ok(list)
    }

    /// Type and parts, as the command line's JSON shows them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = PyList::empty(py);
        for part in self.parts(py)?.iter() {
            parts.append(part.call_method0("to_dict")?)?;
        }
        let dict = PyDict::new(py);
        dict.set_item("type", "mix")?;
        dict.set_item("parts", parts)?;
        Ok(dict)
    }

    fn __len__(&self) -> usize {
        self.inner.parts.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
        self.parts(py)?.try_iter()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        self.parts(py)?.as_any().get_item(index)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        let other = other.cast::<Self>().ok();
        part::equality(py, other.map(|other| other.get().inner == self.inner))
    }

    fn __hash__(&self) -> u64 {
        part::hash(self.inner.clone())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Mix({})", self.parts(py)?.repr()?))
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>,)> {
        Ok((self.parts(py)?,))
    }
}

/// A workload class, or a sequence of them, as plain data.
pub(super) fn parse(object: &Bound<'_, PyAny>) -> PyResult<Workload> {
    if let Some(workload) = parts::plain(object) {
        return Ok(workload);
    }
    if let Ok(mix) = object.cast::<PyMix>() {
        return Ok(mix.get().inner.clone());
    }
    if is_list(object) {
        let mut all = Workload::default();
        for item in object.try_iter()? {
            let item = item?;
            if is_list(&item) {
                return Err(not_a_workload(&item));
            }
            all = all.and(parse(&item)?);
        }
        return Ok(all);
    }
    Err(not_a_workload(object))
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}

fn not_a_workload(object: &Bound<'_, PyAny>) -> PyErr {
    let allowed = format!("{}, Mix, or a list of them", parts::CLASSES.join(", "));
    refuse("workload", object, "not a workload", &allowed)
}

/// The Python object for a workload that was given as `object`: itself when it is one of the classes.
pub(super) fn object_of<'py>(object: &Bound<'py, PyAny>, workload: &Workload) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if !is_list(object) {
        return Ok(object.clone());
    }
    match workload.parts.as_slice() {
        [part] => parts::object(py, part),
        _ => Ok(Bound::new(
            py,
            PyMix {
                inner: workload.clone(),
            },
        )?
        .into_any()),
    }
}
