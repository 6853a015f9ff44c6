//! `treercu.Trace`: the trace of a run or an engine.

use crate::stats::Run;
use crate::trace::Trace;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::sync::Arc;

/// The trace events of a run or an engine, under the kernel's tracepoint names, oldest first.
///
/// `len()` is the number of events; `dropped` says how many more there were beyond the limit.
#[pyclass(name = "Trace", module = "treercu", frozen)]
pub(super) struct PyTrace {
    source: Source,
}

enum Source {
    Run(Arc<Run>),
    Engine(Trace),
}

impl From<Trace> for PyTrace {
    fn from(trace: Trace) -> Self {
        PyTrace {
            source: Source::Engine(trace),
        }
    }
}

impl PyTrace {
    /// The trace of `run`, if it has one.
    pub(super) fn of(run: &Arc<Run>) -> Option<Self> {
        run.trace.is_some().then(|| PyTrace {
            source: Source::Run(run.clone()),
        })
    }

    fn trace(&self) -> &Trace {
        match &self.source {
            Source::Run(run) => run.trace.as_ref().expect("made from a run with a trace only"),
            Source::Engine(trace) => trace,
        }
    }
}

#[pymethods]
impl PyTrace {
    fn __len__(&self) -> usize {
        self.trace().records.len()
    }

    /// Events that came after the limit was reached.
    #[getter]
    fn dropped(&self) -> u64 {
        self.trace().dropped
    }

    /// The events as ftrace prints them, one line each; a last comment counts what was dropped.
    fn to_ftrace(&self, py: Python<'_>) -> String {
        py.detach(|| self.trace().to_ftrace())
    }

    /// A pandas DataFrame with one row per event: at_ns, cpu, comm, pid, event (the tracepoint), text (the
    /// rest of ftrace's line).
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let trace = self.trace();
        let (records, texts) = py.detach(|| {
            let records = trace.in_order();
            let texts: Vec<String> = records.iter().map(|r| trace.event_text(&r.event)).collect();
            (records, texts)
        });
        let (comms, events, rest) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
        for (record, text) in records.iter().zip(&texts) {
            let (event, text) = text.split_once(": ").unwrap_or((text, ""));
            comms.append(PyString::intern(py, record.comm))?;
            events.append(PyString::intern(py, event))?;
            rest.append(text)?;
        }
        let numbers = |of: fn(&crate::trace::Record) -> u32| {
            PyArray1::from_iter(py, records.iter().map(|record| of(record) as i32))
        };
        let columns = PyDict::new(py);
        let at = records.iter().map(|record| record.at_ns as i64);
        columns.set_item("at_ns", PyArray1::from_iter(py, at))?;
        columns.set_item("cpu", numbers(|record| record.cpu))?;
        columns.set_item("comm", comms)?;
        columns.set_item("pid", numbers(|record| record.pid))?;
        columns.set_item("event", events)?;
        columns.set_item("text", rest)?;
        py.import("treercu.columns")?
            .getattr("trace_frame")?
            .call1((columns,))
    }

    fn __repr__(&self) -> String {
        let trace = self.trace();
        let dropped = match trace.dropped {
            0 => String::new(),
            n => format!(", {n} more dropped"),
        };
        format!("<Trace: {} events{dropped}>", trace.records.len())
    }
}
