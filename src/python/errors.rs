//! The crate's [`Error`] as the Python classes of `treercu.errors`.

use super::values::cut;
use crate::error::Error;
use pyo3::prelude::*;

mod python {
    #![allow(missing_docs)]
    pyo3::import_exception!(treercu.errors, ConfigError);
    pyo3::import_exception!(treercu.errors, MemoryLimitError);
    pyo3::import_exception!(treercu.errors, StallError);
    pyo3::import_exception!(treercu.errors, EngineError);
    pyo3::import_exception!(treercu.errors, HostError);
    pyo3::import_exception!(treercu.errors, MisuseError);
    pyo3::import_exception!(treercu.errors, SectionError);
    pyo3::import_exception!(treercu.errors, Interrupted);
    pyo3::import_exception!(treercu.errors, ConfigWarning);
}
pub(super) use python::{
    ConfigError, ConfigWarning, EngineError, HostError, Interrupted, MemoryLimitError, MisuseError,
    SectionError, StallError,
};

/// The Python exception for an engine error; its fields become attributes.
pub(super) fn raise(py: Python<'_>, error: Error) -> PyErr {
    let error = match error {
        // Numbers and names may have any length.
        Error::Config {
            parameter,
            value,
            reason,
            allowed,
        } => Error::Config {
            parameter: cut(parameter),
            value: cut(value),
            reason,
            allowed,
        },
        other => other,
    };
    let message = error.to_string();
    let build = || -> PyResult<PyErr> {
        Ok(match error {
            Error::Config {
                parameter,
                value,
                reason,
                allowed,
            } => {
                let err = ConfigError::new_err(message.clone());
                let object = err.value(py);
                object.setattr("parameter", parameter)?;
                object.setattr("value", value)?;
                object.setattr("reason", reason)?;
                object.setattr("allowed", allowed)?;
                err
            }
            Error::Memory {
                need_mb, limit_mb, ..
            } => {
                let err = MemoryLimitError::new_err(message.clone());
                err.value(py).setattr("need_mb", need_mb)?;
                err.value(py).setattr("limit_mb", limit_mb)?;
                err
            }
            Error::Stall {
                gp_seq,
                waited_s,
                cpus,
                ..
            } => {
                let err = StallError::new_err(message.clone());
                err.value(py).setattr("gp_seq", gp_seq)?;
                err.value(py).setattr("waited_s", waited_s)?;
                err.value(py).setattr("cpus", cpus)?;
                err
            }
            Error::Host(_) => HostError::new_err(message.clone()),
            Error::Misuse { .. } => MisuseError::new_err(message.clone()),
            _ => EngineError::new_err(message.clone()),
        })
    };
    build().unwrap_or_else(|err| err)
}

/// `Result::map_err` with [`raise`].
pub(super) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for crate::error::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, error))
    }
}
