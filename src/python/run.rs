//! `treercu.Run`: columns as read-only numpy views of the Rust run, and everything else about it.

use super::config::PyConfig;
use super::errors::{OrRaise, raise};
use super::job::keep as read_keep;
use super::machine::PyMachine;
use super::trace::PyTrace;
use super::values::{json_object, real, refuse, unsigned};
use super::workload;
use crate::error::Error;
use crate::stats::{
    Counters, GracePeriods, HISTOGRAM_DIGITS, Keep, Measured, Resolution, Run, Samples, Simulated, Stall,
    World,
};
use crate::tree::StallReport;
use hdrhistogram::Histogram;
use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::sync::{Arc, OnceLock};

/// What keeps a column's memory alive: the base object of every view.
#[pyclass(name = "_Owner", module = "treercu._core", frozen)]
struct Owner {
    _run: Arc<Run>,
}

/// The result of one run, simulated or measured.
///
/// `samples` and `grace_periods` are mappings of read-only numpy columns; the most used columns are
/// attributes too. All times are nanoseconds, of virtual time or on the monotonic clock since the start,
/// unless the name says otherwise. `world` says which; what only one world knows (`machine`, `virtual_s`,
/// `events`) the runs of the other do not have.
/// With `keep="histogram"` or `keep=N` the columns of samples hold what was kept; `calls`, `summary()`,
/// `quantile()`, `histogram()` and `distribution()` answer for all calls. Pickling drops the trace.
#[pyclass(name = "Run", module = "treercu", frozen)]
pub(super) struct PyRun {
    data: Arc<Run>,
    config: Py<PyConfig>,
    /// `None`: measured.
    machine: Option<Py<PyMachine>>,
    workload: Py<PyAny>,
    version: String,
    /// Of simulated runs, in words.
    host: String,
    samples: PyOnceLock<Py<PyAny>>,
    grace_periods: PyOnceLock<Py<PyAny>>,
    digest: OnceLock<String>,
}

type Int64Array<'py> = Bound<'py, PyArray1<i64>>;

/// The names of the codes in the column `resolved_by`.
pub(super) fn resolution_names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, Resolution::ALL.map(Resolution::name))
}

/// This machine, as text: part of every run's record.
fn host_facts() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} {}, {cpus} CPUs", std::env::consts::OS, std::env::consts::ARCH)
}

/// Latencies that occurred, ascending, each with how often it did.
fn pairs(run: &Run) -> Vec<(i64, i64)> {
    if let Some(histogram) = &run.histogram {
        return histogram
            .iter_recorded()
            .map(|v| (v.value_iterated_to() as i64, v.count_at_value() as i64))
            .collect();
    }
    let mut sorted = run.samples.latency_ns.clone();
    sorted.sort_unstable();
    sorted
        .chunk_by(|a, b| a == b)
        .map(|same| (same[0], same.len() as i64))
        .collect()
}

/// A read-only numpy view of `column`, which is memory of the run that `owner` keeps.
fn view<'py, T: Element>(owner: &Bound<'py, Owner>, column: &[T]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `column` is a vector inside the run behind `owner`'s `Arc`. The run is never changed
    // after it was made (only shared references to it exist), so the vector neither moves nor
    // reallocates, and numpy holds `owner` for as long as the view lives.
    let array = unsafe { PyArray1::borrow_from_array(&ArrayView1::from(column), owner.as_any().clone()) };
    // `Owner` offers no writable buffer, so numpy refuses to turn this back on.
    let flags = PyDict::new(owner.py());
    flags.set_item("write", false)?;
    array.call_method("setflags", (), Some(&flags))?;
    Ok(array.into_any())
}

/// `treercu.columns.Columns` over the named columns.
fn columns<'py>(
    py: Python<'py>,
    index: &str,
    named: Vec<(&str, Bound<'py, PyAny>)>,
    codes: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    for (name, array) in named {
        dict.set_item(name, array)?;
    }
    py.import("treercu.columns")?
        .getattr("Columns")?
        .call1((dict, index, codes))
}

impl PyRun {
    pub(super) fn build(
        py: Python<'_>,
        run: Run,
        config: &Py<PyConfig>,
        machine: Option<&Py<PyMachine>>,
        workload: &Py<PyAny>,
    ) -> PyResult<Py<PyRun>> {
        Py::new(
            py,
            PyRun {
                data: Arc::new(run),
                config: config.clone_ref(py),
                machine: machine.map(|machine| machine.clone_ref(py)),
                workload: workload.clone_ref(py),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                host: host_facts(),
                samples: PyOnceLock::new(),
                grace_periods: PyOnceLock::new(),
                digest: OnceLock::new(),
            },
        )
    }

    fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Owner>> {
        Bound::new(
            py,
            Owner {
                _run: self.data.clone(),
            },
        )
    }

    fn sample_column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.samples(py)?.get_item(name)
    }
}

#[pymethods]
impl PyRun {
    /// One row per call that was kept: task, cpu, start_ns, end_ns, latency_ns, gp_seq.
    #[getter]
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let made = self.samples.get_or_try_init(py, || {
            let owner = self.owner(py)?;
            // May have to put them in order first.
            let s = py.detach(|| -> &Samples { &self.data.samples });
            let named = vec![
                ("task", view(&owner, &s.task)?),
                ("cpu", view(&owner, &s.cpu)?),
                ("start_ns", view(&owner, &s.start_ns)?),
                ("end_ns", view(&owner, &s.end_ns)?),
                ("latency_ns", view(&owner, &s.latency_ns)?),
                ("gp_seq", view(&owner, &s.gp_seq)?),
            ];
            columns(py, "call", named, &PyDict::new(py)).map(Bound::unbind)
        })?;
        Ok(made.bind(py).clone())
    }

    /// One row per grace period that ended: gp_seq, start_ns, end_ns, requests, scans, holdout_cpu,
    /// resolved_by (codes, see `RESOLUTIONS`), kthread_cpu.
    #[getter]
    fn grace_periods<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let made = self.grace_periods.get_or_try_init(py, || {
            let owner = self.owner(py)?;
            let g = &self.data.grace_periods;
            let named = vec![
                ("gp_seq", view(&owner, &g.gp_seq)?),
                ("start_ns", view(&owner, &g.start_ns)?),
                ("end_ns", view(&owner, &g.end_ns)?),
                ("requests", view(&owner, &g.requests)?),
                ("scans", view(&owner, &g.scans)?),
                ("holdout_cpu", view(&owner, &g.holdout_cpu)?),
                ("resolved_by", view(&owner, &g.resolved_by)?),
                ("kthread_cpu", view(&owner, &g.kthread_cpu)?),
            ];
            let codes = PyDict::new(py);
            codes.set_item("resolved_by", resolution_names(py)?)?;
            columns(py, "grace_period", named, &codes).map(Bound::unbind)
        })?;
        Ok(made.bind(py).clone())
    }

    /// Latency of each completed call, ns.
    #[getter]
    fn latency_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "latency_ns")
    }

    /// When each call began (closed loop) or was due (open loop), ns.
    #[getter]
    fn start_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "start_ns")
    }

    /// When each call returned, ns.
    #[getter]
    fn end_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "end_ns")
    }

    /// Task of each call.
    #[getter]
    fn task<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "task")
    }

    /// CPU on which each call began.
    #[getter]
    fn cpu<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "cpu")
    }

    /// Grace period that released each call.
    #[getter]
    fn gp_seq<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.sample_column(py, "gp_seq")
    }

    /// Completed calls, kept or not.
    #[getter]
    fn calls(&self) -> u64 {
        self.data.calls()
    }

    /// What was kept of the calls: `"samples"`, `"histogram"`, or how many at most.
    #[getter]
    fn keep<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.data.keep {
            Keep::Samples => PyString::new(py, "samples").into_any(),
            Keep::Histogram => PyString::new(py, "histogram").into_any(),
            Keep::Sample(n) => n.into_pyobject(py)?.into_any(),
        })
    }

    /// The trace events, or `None` where none were asked for.
    #[getter]
    fn trace(&self) -> Option<PyTrace> {
        PyTrace::of(&self.data)
    }

    /// The distribution of the latencies of all calls: the values that occurred, ns ascending, and how
    /// often each did. Exact with `keep="samples"`, else values are rounded up by at most 0.1 %.
    fn distribution<'py>(&self, py: Python<'py>) -> (Int64Array<'py>, Int64Array<'py>) {
        let (values, counts) = py.detach(|| pairs(&self.data)).into_iter().unzip();
        (PyArray1::from_vec(py, values), PyArray1::from_vec(py, counts))
    }

    /// Whole-run counters.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_value(&self.data.counters)
            .map_err(|err| raise(py, Error::Engine(err.to_string())))?;
        json_object(py, &json)
    }

    /// Reports of grace periods that lasted too long, the first thousand: dicts of at_ns, expedited, gp_seq,
    /// waited_jiffies, cpus, readers and text.
    #[getter]
    fn stalls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for stall in &self.data.stalls {
            let report = &stall.report;
            let dict = PyDict::new(py);
            dict.set_item("at_ns", stall.at_ns)?;
            dict.set_item("expedited", report.expedited)?;
            dict.set_item("gp_seq", report.gp_seq as i64)?;
            dict.set_item("waited_jiffies", report.waited_jiffies)?;
            dict.set_item("cpus", &report.cpus)?;
            dict.set_item("readers", &report.readers)?;
            dict.set_item("text", report.to_string())?;
            list.append(dict)?;
        }
        Ok(list)
    }

    /// Mean, extremes, quantiles (nearest rank) and counts; `None` where the sample carries no answer.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let summary = py.detach(|| self.data.summary());
        let json = serde_json::to_value(summary).map_err(|err| raise(py, Error::Engine(err.to_string())))?;
        json_object(py, &json)
    }

    /// Latency quantile by nearest rank, ns: the smallest sample with at least `q` of all samples at or
    /// below it. A list of `q` gives an array. A quantile deeper than the sample carries is refused.
    fn quantile<'py>(&self, py: Python<'py>, q: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        const ALLOWED: &str = "0 to 1, or a list of such numbers";
        if q.hasattr("__len__")? && !q.is_instance_of::<pyo3::types::PyString>() {
            let mut all = Vec::new();
            for one in q
                .try_iter()
                .map_err(|_| refuse("q", q, "not a list of numbers", ALLOWED))?
            {
                all.push(real("q", &one?, "0 to 1")?);
            }
            let answers = py.detach(|| self.data.quantiles(&all)).or_raise(py)?;
            return Ok(PyArray1::from_vec(py, answers).into_any());
        }
        let one = real("q", q, ALLOWED)?;
        let answer = py.detach(|| self.data.quantile(one)).or_raise(py)?;
        Ok(answer.into_pyobject(py)?.into_any())
    }

    /// Equal-width histogram of the latencies: counts, and one more bin edges in ns.
    #[pyo3(signature = (bins=None), text_signature = "($self, bins=50)")]
    fn histogram<'py>(
        &self,
        py: Python<'py>,
        bins: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Int64Array<'py>, Int64Array<'py>)> {
        let bins = match bins {
            Some(object) => unsigned("bins", object, 1, 1_000_000)? as usize,
            None => 50,
        };
        let histogram = py.detach(|| self.data.histogram(bins)).or_raise(py)?;
        Ok((
            PyArray1::from_vec(py, histogram.counts),
            PyArray1::from_vec(py, histogram.edges_ns),
        ))
    }

    /// One number over samples, grace periods and counters: equal for equal runs.
    #[getter]
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.digest.get_or_init(|| self.data.digest()).clone())
    }

    /// The seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.data.seed
    }

    /// The configuration.
    #[getter]
    fn config(&self, py: Python<'_>) -> Py<PyConfig> {
        self.config.clone_ref(py)
    }

    /// The machine; of simulated runs only.
    #[getter]
    fn machine(&self, py: Python<'_>) -> PyResult<Py<PyMachine>> {
        let machine = self.machine.as_ref().ok_or_else(|| measured("machine"))?;
        Ok(machine.clone_ref(py))
    }

    /// `"sim"` or `"host"`.
    #[getter]
    fn world(&self) -> &'static str {
        self.data.world.name()
    }

    /// CPU time of the grace-period kthread, or thread, in seconds; `None`: the engine that was measured does
    /// not tell.
    #[getter]
    fn gp_kthread_cpu_s(&self) -> Option<f64> {
        let ns = match &self.data.world {
            World::Sim(_) => Some(self.data.counters.gp_kthread_cpu_ns),
            World::Host(measured) => measured.gp_kthread_cpu_ns,
        };
        ns.map(|ns| ns as f64 / 1e9)
    }

    /// CPU time of ticks, or of the tick thread, in seconds; `None`: the engine that was measured does not
    /// tell.
    #[getter]
    fn tick_cpu_s(&self) -> Option<f64> {
        let ns = match &self.data.world {
            World::Sim(_) => Some(self.data.counters.tick_cpu_ns),
            World::Host(measured) => measured.tick_cpu_ns,
        };
        ns.map(|ns| ns as f64 / 1e9)
    }

    /// The workload.
    #[getter]
    fn workload(&self, py: Python<'_>) -> Py<PyAny> {
        self.workload.clone_ref(py)
    }

    /// True when the run was cut short.
    #[getter]
    fn interrupted(&self) -> bool {
        self.data.interrupted
    }

    /// Virtual time covered, seconds; of simulated runs only.
    #[getter]
    fn virtual_s(&self) -> PyResult<f64> {
        let simulated = self.data.simulated().ok_or_else(|| measured("virtual_s"))?;
        Ok(simulated.virtual_ns as f64 / 1e9)
    }

    /// Wall-clock time of the run phase, seconds.
    #[getter]
    fn wall_s(&self) -> f64 {
        self.data.wall_ns as f64 / 1e9
    }

    /// CPU time of the run phase, seconds.
    #[getter]
    fn cpu_s(&self) -> f64 {
        self.data.cpu_ns as f64 / 1e9
    }

    /// Calendar entries dispatched; of simulated runs only.
    #[getter]
    fn events(&self) -> PyResult<u64> {
        let simulated = self.data.simulated().ok_or_else(|| measured("events"))?;
        Ok(simulated.events)
    }

    /// The version of treercu that made this run.
    #[getter]
    fn version(&self) -> &str {
        &self.version
    }

    /// The machine that made this run: in words if simulated, a dict of facts if measured.
    #[getter]
    fn host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(measured) = self.data.measured() else {
            return Ok(PyString::new(py, &self.host).into_any());
        };
        let facts = PyDict::new(py);
        facts.set_item("engine", &measured.engine)?;
        let json =
            serde_json::to_value(&measured.facts).map_err(|err| raise(py, Error::Engine(err.to_string())))?;
        facts.update(json_object(py, &json)?.cast::<pyo3::types::PyMapping>()?)?;
        facts.set_item("notes", &measured.notes)?;
        Ok(facts.into_any())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let summary = py.detach(|| self.data.summary());
        let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
        let figures = match (summary.mean_ns, summary.max_ns) {
            (Some(mean), Some(max)) => format!(", mean {}, max {}", ms(mean), ms(max as f64)),
            _ => String::new(),
        };
        let world = match self.data.measured() {
            Some(measured) => format!(", measured with {}", measured.engine),
            None => String::new(),
        };
        format!(
            "<Run: {} calls{figures}, {} grace periods{world}, seed {}{}>",
            summary.calls,
            summary.grace_periods,
            self.data.seed,
            if summary.interrupted { ", interrupted" } else { "" }
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let this = slf.get();
        let state = PyDict::new(py);
        for (key, columns) in [
            ("samples", this.samples(py)?),
            ("grace_periods", this.grace_periods(py)?),
        ] {
            let plain = PyDict::new(py);
            plain.update(columns.cast::<pyo3::types::PyMapping>()?)?;
            state.set_item(key, plain)?;
        }
        state.set_item("counters", this.counters(py)?)?;
        state.set_item("stalls", this.stalls(py)?)?;
        state.set_item("keep", this.keep(py)?)?;
        let distribution = this.data.histogram.is_some().then(|| this.distribution(py));
        state.set_item("distribution", distribution)?;
        state.set_item("mean_ns", this.data.mean_ns)?;
        match &this.data.world {
            World::Sim(simulated) => {
                state.set_item("machine", &this.machine)?;
                state.set_item("virtual_ns", simulated.virtual_ns)?;
                state.set_item("events", simulated.events)?;
            }
            World::Host(measured) => {
                let json = serde_json::to_string(measured)
                    .map_err(|err| raise(py, Error::Engine(err.to_string())))?;
                state.set_item("measured", json)?;
            }
        }
        state.set_item("wall_ns", this.data.wall_ns)?;
        state.set_item("cpu_ns", this.data.cpu_ns)?;
        state.set_item("seed", this.data.seed)?;
        state.set_item("interrupted", this.data.interrupted)?;
        state.set_item("config", &this.config)?;
        state.set_item("workload", &this.workload)?;
        state.set_item("version", &this.version)?;
        state.set_item("host", &this.host)?;
        let restore = py.import("treercu._core")?.getattr("_restore_run")?;
        Ok((restore, PyTuple::new(py, [state])?))
    }
}

/// A measured run has no such attribute.
fn measured(name: &str) -> PyErr {
    PyAttributeError::new_err(format!("a measured run has no {name}; only simulated ones have"))
}

type Restored = (Option<Py<PyMachine>>, World);

fn restore_world(py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<Restored> {
    if let Some(json) = state.get_item("measured")? {
        let measured: Measured = serde_json::from_str(&json.extract::<String>()?)
            .map_err(|err| raise(py, Error::Engine(format!("a run of another version: {err}"))))?;
        return Ok((None, World::Host(Box::new(measured))));
    }
    let item = |name: &str| state.as_any().get_item(name);
    let machine = item("machine")?.cast_into::<PyMachine>()?.unbind();
    let simulated = Simulated {
        machine: machine.get().inner.clone(),
        virtual_ns: item("virtual_ns")?.extract()?,
        events: item("events")?.extract()?,
    };
    Ok((Some(machine), World::Sim(Box::new(simulated))))
}

/// Unpickles a `Run`.
#[pyfunction]
pub(super) fn _restore_run(py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<Py<PyRun>> {
    let item = |name: &str| state.as_any().get_item(name);
    fn column<T: Element + Clone>(table: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<T>> {
        let array = table.get_item(name)?;
        Ok(array.cast::<PyArray1<T>>()?.to_vec()?)
    }
    fn column_at(table: &Bound<'_, PyAny>, at: usize) -> PyResult<Vec<i64>> {
        let array = table.get_item(at)?;
        Ok(array.cast::<PyArray1<i64>>()?.to_vec()?)
    }
    let s = item("samples")?;
    let samples = Samples {
        task: column(&s, "task")?,
        cpu: column(&s, "cpu")?,
        start_ns: column(&s, "start_ns")?,
        end_ns: column(&s, "end_ns")?,
        latency_ns: column(&s, "latency_ns")?,
        gp_seq: column(&s, "gp_seq")?,
    };
    let g = item("grace_periods")?;
    let grace_periods = GracePeriods {
        gp_seq: column(&g, "gp_seq")?,
        start_ns: column(&g, "start_ns")?,
        end_ns: column(&g, "end_ns")?,
        requests: column(&g, "requests")?,
        scans: column(&g, "scans")?,
        holdout_cpu: column(&g, "holdout_cpu")?,
        resolved_by: column(&g, "resolved_by")?,
        kthread_cpu: column(&g, "kthread_cpu")?,
    };
    let counters: serde_json::Map<String, serde_json::Value> = item("counters")?
        .cast::<PyDict>()?
        .iter()
        .map(|(name, value)| Ok((name.extract::<String>()?, value.extract::<u64>()?.into())))
        .collect::<PyResult<_>>()?;
    let counters: Counters = serde_json::from_value(counters.into())
        .map_err(|err| raise(py, Error::Engine(format!("a run of another version: {err}"))))?;
    let stalls = item("stalls")?
        .cast::<PyList>()?
        .iter()
        .map(|stall| {
            Ok(Stall {
                at_ns: stall.get_item("at_ns")?.extract()?,
                report: StallReport {
                    expedited: stall.get_item("expedited")?.extract()?,
                    gp_seq: stall.get_item("gp_seq")?.extract::<i64>()? as u64,
                    waited_jiffies: stall.get_item("waited_jiffies")?.extract()?,
                    cpus: stall.get_item("cpus")?.extract()?,
                    readers: stall.get_item("readers")?.extract()?,
                },
            })
        })
        .collect::<PyResult<_>>()?;
    let config: Py<PyConfig> = item("config")?.cast_into::<PyConfig>()?.unbind();
    let (machine, world) = restore_world(py, state)?;
    let workload = item("workload")?;
    let distribution = item("distribution")?;
    let histogram = match distribution.is_none() {
        true => None,
        false => {
            let broken = |why: String| raise(py, Error::Engine(format!("a broken distribution: {why}")));
            let mut histogram = Histogram::new(HISTOGRAM_DIGITS).map_err(|err| broken(err.to_string()))?;
            let values: Vec<i64> = column_at(&distribution, 0)?;
            let counts: Vec<i64> = column_at(&distribution, 1)?;
            for (value, count) in values.into_iter().zip(counts) {
                histogram
                    .record_n(value as u64, count as u64)
                    .map_err(|err| broken(err.to_string()))?;
            }
            Some(histogram)
        }
    };
    let run = Run {
        samples: samples.into(),
        grace_periods,
        counters,
        stalls,
        wall_ns: item("wall_ns")?.extract()?,
        cpu_ns: item("cpu_ns")?.extract()?,
        seed: item("seed")?.extract()?,
        config: config.get().inner.clone(),
        world,
        workload: workload::parse(&workload)?,
        keep: read_keep(&item("keep")?)?,
        histogram,
        mean_ns: item("mean_ns")?.extract()?,
        // Not pickled.
        trace: None,
        interrupted: item("interrupted")?.extract()?,
    };
    Py::new(
        py,
        PyRun {
            data: Arc::new(run),
            config,
            machine,
            workload: workload.unbind(),
            version: item("version")?.extract()?,
            host: item("host")?.extract()?,
            samples: PyOnceLock::new(),
            grace_periods: PyOnceLock::new(),
            digest: OnceLock::new(),
        },
    )
}
