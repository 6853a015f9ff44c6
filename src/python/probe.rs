//! `treercu.probe`: does a tunable do what it says?

use super::enter::enter;
use super::values::{json_object, refuse, unsigned};
use crate::config::lookup;
use crate::error::Error;
use crate::probe::{MAX_SEEDS, Outcome, Probe, SEEDS, probe as probe_of, probes};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::sync::atomic::Ordering;

/// Runs probes: simulates two settings of a tunable with the same seeds and looks whether its figure moves.
///
/// name: a tunable by Python or full name, or `"all"`. seeds: runs of each setting, with seeds 1 to `seeds`
/// (1 to 1000). Returns a list of dicts: `name`; `metric` (units are in its name); `before` and `after`, its
/// mean over the seeds with the first and the second setting; `before_runs` and `after_runs`, each run's
/// figure; `direction`, `"up"` or `"down"`; `moved`, true if every run of the second setting lies beyond
/// every run of the first, in that direction.
///
/// Raises `ConfigError` for an unknown name, one that has no probe, and a number of seeds out of range.
#[pyfunction]
#[pyo3(signature = (name=None, *, seeds=None), text_signature = "(name='all', *, seeds=5)")]
pub(super) fn probe<'py>(
    py: Python<'py>,
    name: Option<&Bound<'py, PyAny>>,
    seeds: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let seeds = match seeds {
        Some(object) => unsigned("seeds", object, 1, MAX_SEEDS)?,
        None => SEEDS,
    };
    let wanted = match name {
        None => probes(),
        Some(object) => {
            let allowed = "a tunable by name, or \"all\"";
            let name = object
                .cast::<PyString>()
                .map_err(|_| refuse("name", object, "not text", allowed))?
                .to_string();
            match (probe_of(&name), lookup(&name)) {
                _ if name == "all" => probes(),
                (Some(probe), _) => vec![probe],
                (None, Some(_)) => {
                    let reason = "it has no effect in this model, so that there is nothing to probe";
                    return Err(refuse("name", object, reason, "a tunable that is live"));
                }
                (None, None) => return Err(refuse("name", object, "no such tunable", allowed)),
            }
        }
    };
    let outcome = enter(py, None, None, |control| {
        let mut outcomes = Vec::new();
        for probe in &wanted {
            outcomes.push(probe.run(seeds, control)?);
            if control.cancel.load(Ordering::Relaxed) {
                // Whoever cancelled it raises.
                return Err(Error::Host("cut short".to_owned()));
            }
        }
        Ok(outcomes)
    })?;
    outcome.raised.map_or(Ok(()), Err)?;
    let list = PyList::empty(py);
    for one in &outcome.value {
        list.append(as_dict(py, one)?)?;
    }
    Ok(list)
}

fn as_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyAny>> {
    let mean = |figures: &[f64]| figures.iter().sum::<f64>() / figures.len() as f64;
    json_object(
        py,
        &serde_json::json!({
            "name": outcome.name,
            "metric": outcome.metric,
            "before": mean(&outcome.before),
            "after": mean(&outcome.after),
            "direction": outcome.direction,
            "moved": outcome.moved,
            "before_runs": outcome.before,
            "after_runs": outcome.after,
        }),
    )
}

/// A probe as data, for the table of tunables.
pub(super) fn description<'py>(py: Python<'py>, probe: &Probe) -> PyResult<Bound<'py, PyAny>> {
    let pairs = |pairs: &[(&str, &str)]| -> serde_json::Value {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let machine: serde_json::Map<_, _> = probe
        .machine
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.into()))
        .collect();
    json_object(
        py,
        &serde_json::json!({
            "workload": probe.workload.parts,
            "config": pairs(probe.config),
            "machine": machine,
            "sets": probe.sets,
            "from": probe.from,
            "to": probe.to,
            "metric": probe.metric,
            "direction": probe.direction,
            "reason": probe.reason,
        }),
    )
}
