//! What an engine is doing: one line of text, counters, records.

use super::super::errors::raise;
use super::super::run::resolution_names;
use super::super::values::json_object;
use super::life::Core;
use crate::error::Error;
use crate::host::State;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(super) fn state(core: &Core) -> &'static str {
    let engine = core.engine();
    match engine.state() {
        State::Open if engine.is_forked() => "closed",
        State::Open if core.is_open() => "open",
        State::Open | State::Closing => "closing",
        State::Closed => "closed",
    }
}

fn counted(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// The `repr()`.
pub(super) fn describe(core: &Core) -> String {
    let engine = core.engine();
    if engine.is_forked() {
        return "<Engine closed: it stayed with the process that opened it>".to_owned();
    }
    let tun = engine.config().tunables();
    let state = state(core);
    let setup = format!("{}, hz={}", counted(tun.nr_cpus.into(), "vCPU"), tun.hz);
    if state == "closed" {
        return format!("<Engine closed: {setup}>");
    }
    let gp_seq = engine.gp_seq();
    let progress = if gp_seq & 3 == 0 {
        "no grace period in progress".to_owned()
    } else {
        let waits = match engine.holdouts().as_slice() {
            [] => match engine.blocking_readers() {
                0 => String::new(),
                readers => format!(" waiting for {}", counted(readers as u64, "blocked reader")),
            },
            [cpu] => format!(" waiting for CPU {cpu}"),
            [first, second] => format!(" waiting for CPUs {first} and {second}"),
            [first, .., last] => {
                format!(" waiting for {} CPUs, {first} to {last}", engine.holdouts().len())
            }
        };
        format!("grace period {} in progress{waits}", gp_seq as i64)
    };
    let attached = counted(engine.attached().into(), "thread");
    let pending = counted(engine.callbacks_pending() + core.dispatch.waiting(), "callback");
    format!("<Engine {state}: {setup}, {progress}, {attached} attached, {pending} pending>")
}

pub(super) fn info<'py>(py: Python<'py>, core: &Core) -> PyResult<Bound<'py, PyDict>> {
    let engine = core.engine();
    let tun = engine.config().tunables();
    let late = engine.tick_lateness();
    let lateness = PyDict::new(py);
    lateness.set_item("ticks", late.ticks)?;
    lateness.set_item("p50_ns", late.p50_ns)?;
    lateness.set_item("p99_ns", late.p99_ns)?;
    lateness.set_item("max_ns", late.max_ns)?;
    let info = PyDict::new(py);
    info.set_item("fence", engine.fence_name())?;
    info.set_item("park", engine.park_name())?;
    info.set_item("hz", tun.hz)?;
    info.set_item("nr_cpus", tun.nr_cpus)?;
    info.set_item("preemptible", engine.is_preemptible())?;
    info.set_item("gp_kthread_cpu", engine.gp_kthread_cpu())?;
    info.set_item("tick_lateness", lateness)?;
    Ok(info)
}

pub(super) fn counters<'py>(py: Python<'py>, core: &Core) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_value(core.engine().counters())
        .map_err(|err| raise(py, Error::Engine(err.to_string())))?;
    json_object(py, &json)
}

pub(super) fn grace_periods<'py>(py: Python<'py>, core: &Core, clear: bool) -> PyResult<Bound<'py, PyAny>> {
    let engine = core.engine();
    let records = py.detach(|| {
        if clear {
            engine.take_grace_periods()
        } else {
            engine.grace_periods()
        }
    });
    let columns = PyDict::new(py);
    columns.set_item("gp_seq", PyArray1::from_vec(py, records.gp_seq))?;
    columns.set_item("start_ns", PyArray1::from_vec(py, records.start_ns))?;
    columns.set_item("end_ns", PyArray1::from_vec(py, records.end_ns))?;
    columns.set_item("requests", PyArray1::from_vec(py, records.requests))?;
    columns.set_item("scans", PyArray1::from_vec(py, records.scans))?;
    columns.set_item("holdout_cpu", PyArray1::from_vec(py, records.holdout_cpu))?;
    columns.set_item("resolved_by", PyArray1::from_vec(py, records.resolved_by))?;
    columns.set_item("kthread_cpu", PyArray1::from_vec(py, records.kthread_cpu))?;
    let codes = PyDict::new(py);
    codes.set_item("resolved_by", resolution_names(py)?)?;
    py.import("treercu.columns")?
        .getattr("Columns")?
        .call1((columns, "grace_period", codes))
}
