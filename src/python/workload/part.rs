//! The table behind each workload class, and everything that a class does with its table.
//!
//! [`part!`] takes one class: its documentation, its name on the command line, and its fields, each with
//! documentation, a [`Kind`](super::kinds::Kind), its default as Python shows it, and its place in the plain data. From that come
//! constructor, signature, class page, getters, `to_dict`, `repr`, `replace`, equality, hash and pickling.

use super::super::errors::OrRaise;
use crate::workload::{SyncFlood, Workload};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use std::hash::{DefaultHasher, Hash, Hasher};

/// One row of a table: a field of the part `P`.
pub(super) struct Field<P> {
    /// The name in Python; with dashes, on the command line.
    pub(super) name: &'static str,
    /// From the plain data to Python.
    pub(super) get: for<'py> fn(&P, Python<'py>) -> PyResult<Bound<'py, PyAny>>,
    /// From Python into the plain data.
    pub(super) set: fn(&mut P, &Bound<'_, PyAny>) -> PyResult<()>,
}

/// A part of a workload with its table.
pub(super) trait Part: Clone + Default + PartialEq + Into<Workload> + 'static {
    /// The class in Python.
    const CLASS: &'static str;
    /// The same on the command line.
    const NAME: &'static str;
    /// Fields that `repr` shows even at their defaults.
    const SHOWN: &'static [&'static str];
    /// The table.
    const FIELDS: &'static [Field<Self>];

    /// Defaults that depend on which fields were given.
    fn settle(&mut self, _given: &dyn Fn(&str) -> bool) {}
}

/// The part that these values give, in the order of the table; `None` leaves a field at its default.
pub(super) fn make<P: Part>(py: Python<'_>, values: &[Option<&Bound<'_, PyAny>>]) -> PyResult<P> {
    let mut part = P::default();
    for (field, value) in P::FIELDS.iter().zip(values) {
        if let Some(value) = value {
            (field.set)(&mut part, value)?;
        }
    }
    part.settle(&|name| {
        let row = P::FIELDS.iter().position(|field| field.name == name);
        row.is_some_and(|row| values[row].is_some())
    });
    // Checked as far as that goes without knowing the machine. A part that goes on for ever is a matter of
    // the whole workload, checked when that runs.
    part.clone()
        .into()
        .and(SyncFlood::default())
        .validate(u32::MAX)
        .or_raise(py)?;
    Ok(part)
}

/// All fields, in order.
pub(super) fn fields<'py, P: Part>(part: &P, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for field in P::FIELDS {
        dict.set_item(field.name, (field.get)(part, py)?)?;
    }
    Ok(dict)
}

/// `to_dict()`: the name as on the command line, then the fields.
pub(super) fn to_dict<'py, P: Part>(part: &P, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("type", P::NAME)?;
    dict.update(fields(part, py)?.as_mapping())?;
    Ok(dict)
}

/// `Class(name=value, ...)` with the fields that differ from the defaults, or are always shown.
pub(super) fn repr<P: Part>(part: &P, py: Python<'_>) -> PyResult<String> {
    let defaults = P::default();
    let mut shown = Vec::new();
    for field in P::FIELDS {
        let value = (field.get)(part, py)?;
        if P::SHOWN.contains(&field.name) || !value.eq((field.get)(&defaults, py)?)? {
            shown.push(format!("{}={}", field.name, value.repr()?));
        }
    }
    Ok(format!("{}({})", P::CLASS, shown.join(", ")))
}

/// A copy of `object`, whose part is `part`, made by its constructor.
pub(super) fn replace<'py, P: Part>(
    object: &Bound<'py, PyAny>,
    part: &P,
    changes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let all = fields(part, object.py())?;
    if let Some(changes) = changes {
        all.update(changes.as_mapping())?;
    }
    object.get_type().call((), Some(&all))
}

/// What `__eq__` returns; `None`: not comparable.
pub(super) fn equality(py: Python<'_>, equal: Option<bool>) -> Py<PyAny> {
    match equal {
        Some(equal) => PyBool::new(py, equal).to_owned().into_any().unbind(),
        None => py.NotImplemented(),
    }
}

/// The hash of a workload: equal for equal plain data.
pub(super) fn hash(workload: impl Into<Workload>) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&workload.into())
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

/// One class from its table; see the module page.
macro_rules! part {
    (
        $(#[doc = $about:literal])+
        $plain:ident as $class:ident, $python:literal, $name:literal, repr($($shown:ident),*) {
            $($(#[doc = $doc:literal])+ $field:ident: $kind:expr, $default:literal => $place:ident;)+
        }
        $(settle($part:ident, $given:ident) $settle:block)?
    ) => {
        impl Part for $plain {
            const CLASS: &'static str = $python;
            const NAME: &'static str = $name;
            const SHOWN: &'static [&'static str] = &[$(stringify!($shown)),*];
            const FIELDS: &'static [Field<Self>] = &[$(Field {
                name: stringify!($field),
                get: |part, py| $kind.show(py, &part.$place),
                set: |part, object| {
                    part.$place = $kind.read(stringify!($field), object)?;
                    Ok(())
                },
            }),+];
            $(fn settle(&mut self, $given: &dyn Fn(&str) -> bool) {
                let $part = self;
                $settle
            })?
        }

        // The class page begins with the signature, in the form in which CPython looks for it there.
        #[doc = concat!($python, "(*" $(, ", ", stringify!($field), "=", $default)+, ")\n--\n")]
        $(#[doc = $about])+
        #[doc = ""]
        $(#[doc = concat!("- ", stringify!($field), ":" $(, $doc)+)])+
        #[pyclass(name = $python, module = "treercu", frozen)]
        pub(super) struct $class {
            pub(super) inner: $plain,
        }

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (*, $($field = None),+), text_signature = None)]
            #[allow(clippy::too_many_arguments)]
            fn new(py: Python<'_>, $($field: Option<&Bound<'_, PyAny>>),+) -> PyResult<Self> {
                let inner = part::make(py, &[$($field),+])?;
                Ok($class { inner })
            }

            $(
                $(#[doc = $doc])+
                #[getter]
                fn $field<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    $kind.show(py, &self.inner.$place)
                }
            )+

            /// A copy with some fields changed.
            #[pyo3(signature = (**fields))]
            fn replace<'py>(
                slf: &Bound<'py, Self>,
                fields: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                part::replace(slf.as_any(), &slf.get().inner, fields)
            }

            /// Type and fields, as the command line's JSON shows them.
            fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                part::to_dict(&self.inner, py)
            }

            fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
                let other = other.cast::<Self>().ok();
                part::equality(py, other.map(|other| other.get().inner == self.inner))
            }

            fn __hash__(&self) -> u64 {
                part::hash(self.inner.clone())
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                part::repr(&self.inner, py)
            }

            fn __getnewargs_ex__<'py>(
                &self,
                py: Python<'py>,
            ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
                Ok((PyTuple::empty(py), part::fields(&self.inner, py)?))
            }
        }
    };
}
pub(super) use part;
