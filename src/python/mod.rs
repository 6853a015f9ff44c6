//! The Python extension module `treercu._core`: classes, conversion, errors, signals. No algorithm here.
//!
//! Every function has the same three steps: *parse* the Python arguments into plain Rust data
//! ([`values`], [`workload`], [`machine`], [`config`]), *enter* the engine ([`enter`]: detached from
//! the interpreter, on another thread, with the calling thread watching for signals), *convert* the
//! result ([`run`]). This is the only place of the crate that names pyo3 and numpy.

mod config;
mod engine;
mod enter;
mod errors;
mod job;
mod machine;
mod measure;
mod probe;
mod run;
mod simulate;
mod torture;
mod trace;
mod values;
mod workload;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Facts about this build of the extension module.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("debug", cfg!(debug_assertions))?;
    info.set_item("os", std::env::consts::OS)?;
    info.set_item("arch", std::env::consts::ARCH)?;
    info.set_item("abi", "abi3-py310")?;
    info.set_item("python", Python::version_str())?;
    Ok(info)
}

#[pymodule(gil_used = false)]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    enter::record_panics();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<config::PyConfig>()?;
    m.add_class::<machine::PyMachine>()?;
    workload::add_classes(m)?;
    m.add_class::<run::PyRun>()?;
    m.add_class::<trace::PyTrace>()?;
    m.add_class::<enter::CancelToken>()?;
    m.add("ENGINES", measure::engine_names(m.py())?)?;
    m.add_class::<torture::PyTortureReport>()?;
    m.add_class::<engine::PyEngine>()?;
    m.add_class::<engine::PyReadSection>()?;
    engine::register(m)?;
    m.add("RESOLUTIONS", run::resolution_names(m.py())?)?;
    m.add_function(wrap_pyfunction!(build_info, m)?)?;
    m.add_function(wrap_pyfunction!(config::tunables, m)?)?;
    m.add_function(wrap_pyfunction!(probe::probe, m)?)?;
    m.add_function(wrap_pyfunction!(simulate::simulate, m)?)?;
    m.add_function(wrap_pyfunction!(simulate::simulate_many, m)?)?;
    m.add_function(wrap_pyfunction!(measure::measure, m)?)?;
    m.add_function(wrap_pyfunction!(job::last_run, m)?)?;
    m.add_function(wrap_pyfunction!(torture::torture, m)?)?;
    m.add_function(wrap_pyfunction!(torture::torture_scenarios, m)?)?;
    m.add_function(wrap_pyfunction!(run::_restore_run, m)?)?;
    m.add_function(wrap_pyfunction!(config::_restore_config, m)?)?;
    Ok(())
}
