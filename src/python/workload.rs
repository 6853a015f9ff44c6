//! `treercu.SyncFlood`, `treercu.CpuLoad`, `treercu.Mix`, and whatever `simulate` accepts as a workload.

use super::errors::OrRaise;
use super::values::{Given, duration, given, in_units, refuse, unsigned, whole, word};
use crate::workload::{
    CpuLoad, Cpus, MAX_CALLS, MAX_DURATION_NS, MAX_TASKS, Mode, Part, Placement, SyncFlood, Workload,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// More CPUs than any machine has; stops a wrong argument early.
const MAX_CPU_LIST: usize = 1 << 20;

/// Checks one part as far as that goes without knowing the machine.
fn check(py: Python<'_>, part: Part) -> PyResult<()> {
    // A load alone has no end; that is a matter of the whole workload, checked when it runs.
    Workload { parts: vec![part] }
        .and(SyncFlood::default())
        .validate(u32::MAX)
        .or_raise(py)
}

fn hash_of(part: &Part) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(part).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn equality(py: Python<'_>, equal: Option<bool>) -> Py<PyAny> {
    match equal {
        Some(equal) => pyo3::types::PyBool::new(py, equal).to_owned().into_any().unbind(),
        None => py.NotImplemented(),
    }
}

/// `Class(name=value, ...)` with the fields that differ from the defaults, or are in `always`.
fn show_fields(
    class: &str,
    fields: &Bound<'_, PyDict>,
    defaults: &Bound<'_, PyDict>,
    always: &[&str],
) -> PyResult<String> {
    let mut parts = Vec::new();
    for (name, value) in fields.iter() {
        let name: String = name.extract()?;
        let same = defaults
            .get_item(&name)?
            .is_some_and(|d| d.eq(&value).unwrap_or(false));
        if !same || always.contains(&name.as_str()) {
            parts.push(format!("{name}={}", value.repr()?));
        }
    }
    Ok(format!("{class}({})", parts.join(", ")))
}

fn replaced<'py>(
    slf: &Bound<'py, PyAny>,
    fields: Bound<'py, PyDict>,
    changes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(changes) = changes {
        fields.update(changes.as_mapping())?;
    }
    slf.get_type().call((), Some(&fields))
}

/// `to_dict()`: the name as on the command line, then the fields.
fn as_dict<'py>(py: Python<'py>, kind: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("type", kind)?;
    dict.update(fields.as_mapping())?;
    Ok(dict)
}

/// Tasks that call `synchronize_rcu()`.
///
/// Closed loop (`interval_us=0`): the next call follows the return of the previous one after
/// `think_us`. Open loop: every task has a call due each `interval_us`; one that is due while the
/// previous still waits is made late, and its latency counts from when it was due.
///
/// tasks: number of tasks. calls: calls per task; when left out, 100, or as many as fit if
/// `duration_ms` is given. duration_ms: virtual time after which no new call is made, 0 for no
/// limit. placement: "spread", "random" or a CPU number. start_skew_us: each task's first call
/// comes at a time drawn from 0 to start_skew_us.
#[pyclass(name = "SyncFlood", module = "treercu", frozen)]
pub(super) struct PySyncFlood {
    pub(super) inner: SyncFlood,
}

fn parse_placement(object: &Bound<'_, PyAny>) -> PyResult<Placement> {
    const ALLOWED: &str = "spread, random, or a CPU number";
    match given(object) {
        Given::Text(text) if text == "spread" => Ok(Placement::Spread),
        Given::Text(text) if text == "random" => Ok(Placement::Random),
        Given::Int(_) | Given::Float(_) | Given::Huge => {
            Ok(Placement::Cpu(
                whole("placement", object, 0, (u32::MAX - 1).into())? as u32,
            ))
        }
        _ => Err(refuse("placement", object, "no such placement", ALLOWED)),
    }
}

impl PySyncFlood {
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flood = &self.inner;
        let dict = PyDict::new(py);
        dict.set_item("tasks", flood.tasks)?;
        dict.set_item("calls", flood.calls)?;
        dict.set_item("duration_ms", in_units(py, flood.duration_ns, MS)?)?;
        dict.set_item("placement", self.placement(py)?)?;
        dict.set_item("think_us", in_units(py, flood.think_ns, US)?)?;
        dict.set_item("start_skew_us", in_units(py, flood.start_skew_ns, US)?)?;
        dict.set_item("interval_us", in_units(py, flood.interval_ns, US)?)?;
        Ok(dict)
    }
}

#[pymethods]
impl PySyncFlood {
    #[new]
    #[pyo3(
        signature = (*, tasks=None, calls=None, duration_ms=None, placement=None, think_us=None, start_skew_us=None, interval_us=None),
        text_signature = "(*, tasks=1, calls=None, duration_ms=0, placement='spread', think_us=0, start_skew_us=0, interval_us=0)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        tasks: Option<&Bound<'_, PyAny>>,
        calls: Option<&Bound<'_, PyAny>>,
        duration_ms: Option<&Bound<'_, PyAny>>,
        placement: Option<&Bound<'_, PyAny>>,
        think_us: Option<&Bound<'_, PyAny>>,
        start_skew_us: Option<&Bound<'_, PyAny>>,
        interval_us: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut flood = SyncFlood::default();
        if let Some(object) = tasks {
            flood.tasks = unsigned("tasks", object, 1, MAX_TASKS)?;
        }
        if let Some(object) = duration_ms {
            flood.duration_ns = duration("duration_ms", object, "ms", MS, MAX_DURATION_NS)?;
        }
        match calls {
            Some(object) => flood.calls = unsigned("calls", object, 0, MAX_CALLS)?,
            None if flood.duration_ns > 0 => flood.calls = 0,
            None => {}
        }
        if let Some(object) = placement {
            flood.placement = parse_placement(object)?;
        }
        if let Some(object) = think_us {
            flood.think_ns = duration("think_us", object, "us", US, MAX_DURATION_NS)?;
        }
        if let Some(object) = start_skew_us {
            flood.start_skew_ns = duration("start_skew_us", object, "us", US, MAX_DURATION_NS)?;
        }
        if let Some(object) = interval_us {
            flood.interval_ns = duration("interval_us", object, "us", US, MAX_DURATION_NS)?;
        }
        check(py, Part::SyncFlood(flood.clone()))?;
        Ok(PySyncFlood { inner: flood })
    }

    /// Number of tasks.
    #[getter]
    fn tasks(&self) -> u64 {
        self.inner.tasks
    }

    /// Calls per task; 0: as many as fit into `duration_ms`.
    #[getter]
    fn calls(&self) -> u64 {
        self.inner.calls
    }

    /// Virtual time after which no new call is made; 0: no limit.
    #[getter]
    fn duration_ms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.duration_ns, MS)
    }

    /// "spread", "random" or a CPU number.
    #[getter]
    fn placement<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.inner.placement {
            Placement::Spread => PyString::new(py, "spread").into_any(),
            Placement::Random => PyString::new(py, "random").into_any(),
            Placement::Cpu(cpu) => cpu.into_pyobject(py)?.into_any(),
        })
    }

    /// Closed loop: pause between the return of a call and the next one.
    #[getter]
    fn think_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.think_ns, US)
    }

    /// Each task's first call comes at a time drawn from 0 to this.
    #[getter]
    fn start_skew_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.start_skew_ns, US)
    }

    /// Open loop: distance of the due times; 0: closed loop.
    #[getter]
    fn interval_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.interval_ns, US)
    }

    /// A copy with some fields changed.
    #[pyo3(signature = (**fields))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        replaced(slf.as_any(), slf.get().fields(slf.py())?, fields)
    }

    /// Type and fields, as the command line's JSON shows them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        as_dict(py, "sync-flood", &self.fields(py)?)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        equality(py, other.cast::<Self>().ok().map(|o| o.get().inner == self.inner))
    }

    fn __hash__(&self) -> u64 {
        hash_of(&Part::SyncFlood(self.inner.clone()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let defaults = PySyncFlood {
            inner: SyncFlood::default(),
        };
        show_fields(
            "SyncFlood",
            &self.fields(py)?,
            &defaults.fields(py)?,
            &["tasks", "calls"],
        )
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        Ok((PyTuple::empty(py), self.fields(py)?))
    }
}

/// One pinned task per CPU that keeps it busy.
///
/// cpus: "all", a CPU number or a list of them. mode: "user" or "kernel". run_us: length of one
/// busy stretch, 0 for without end. pause_us: sleep between two stretches. section_us: kernel mode,
/// length of the preemption-disabled sections, 0 for none. gap_us: preemptible time between two of
/// them. duration_ms: end of this load, 0 for as long as any other part runs.
#[pyclass(name = "CpuLoad", module = "treercu", frozen)]
pub(super) struct PyCpuLoad {
    pub(super) inner: CpuLoad,
}

fn parse_cpus(object: &Bound<'_, PyAny>) -> PyResult<Cpus> {
    const ALLOWED: &str = "all, a CPU number, or a list of CPU numbers";
    let one = |object: &Bound<'_, PyAny>| -> PyResult<u32> {
        Ok(whole("cpus", object, 0, (u32::MAX - 1).into())? as u32)
    };
    match given(object) {
        Given::Text(text) if text == "all" => Ok(Cpus::All),
        Given::Text(_) | Given::Bool(_) => Err(refuse("cpus", object, "not a set of CPUs", ALLOWED)),
        Given::Int(_) | Given::Huge | Given::Float(_) => Ok(Cpus::List(vec![one(object)?])),
        Given::Other => {
            let length = object
                .len()
                .map_err(|_| refuse("cpus", object, "not a set of CPUs", ALLOWED))?;
            if length > MAX_CPU_LIST {
                return Err(refuse("cpus", object, "too many CPUs", ALLOWED));
            }
            let mut list = Vec::with_capacity(length);
            for item in object.try_iter()? {
                list.push(one(&item?)?);
            }
            Ok(Cpus::List(list))
        }
    }
}

impl PyCpuLoad {
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let load = &self.inner;
        let dict = PyDict::new(py);
        dict.set_item("cpus", self.cpus(py)?)?;
        dict.set_item("mode", self.mode())?;
        dict.set_item("run_us", in_units(py, load.run_ns, US)?)?;
        dict.set_item("pause_us", in_units(py, load.pause_ns, US)?)?;
        dict.set_item("section_us", in_units(py, load.section_ns, US)?)?;
        dict.set_item("gap_us", in_units(py, load.gap_ns, US)?)?;
        dict.set_item("duration_ms", in_units(py, load.duration_ns, MS)?)?;
        Ok(dict)
    }
}

#[pymethods]
impl PyCpuLoad {
    #[new]
    #[pyo3(
        signature = (*, cpus=None, mode=None, run_us=None, pause_us=None, section_us=None, gap_us=None, duration_ms=None),
        text_signature = "(*, cpus='all', mode='user', run_us=0, pause_us=0, section_us=0, gap_us=10, duration_ms=0)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        cpus: Option<&Bound<'_, PyAny>>,
        mode: Option<&Bound<'_, PyAny>>,
        run_us: Option<&Bound<'_, PyAny>>,
        pause_us: Option<&Bound<'_, PyAny>>,
        section_us: Option<&Bound<'_, PyAny>>,
        gap_us: Option<&Bound<'_, PyAny>>,
        duration_ms: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut load = CpuLoad::default();
        if let Some(object) = cpus {
            load.cpus = parse_cpus(object)?;
        }
        if let Some(object) = mode {
            load.mode = match word("mode", object, &["user", "kernel"])?.as_str() {
                "kernel" => Mode::Kernel,
                _ => Mode::User,
            };
        }
        for (name, object, field) in [
            ("run_us", run_us, &mut load.run_ns),
            ("pause_us", pause_us, &mut load.pause_ns),
            ("section_us", section_us, &mut load.section_ns),
            ("gap_us", gap_us, &mut load.gap_ns),
        ] {
            if let Some(object) = object {
                *field = duration(name, object, "us", US, MAX_DURATION_NS)?;
            }
        }
        if let Some(object) = duration_ms {
            load.duration_ns = duration("duration_ms", object, "ms", MS, MAX_DURATION_NS)?;
        }
        check(py, Part::CpuLoad(load.clone()))?;
        Ok(PyCpuLoad { inner: load })
    }

    /// "all" or a list of CPU numbers.
    #[getter]
    fn cpus<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.inner.cpus {
            Cpus::All => PyString::new(py, "all").into_any(),
            Cpus::List(list) => PyList::new(py, list)?.into_any(),
        })
    }

    /// "user" or "kernel".
    #[getter]
    fn mode(&self) -> &'static str {
        match self.inner.mode {
            Mode::User => "user",
            Mode::Kernel => "kernel",
        }
    }

    /// Length of one busy stretch; 0: without end.
    #[getter]
    fn run_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.run_ns, US)
    }

    /// Sleep between two stretches.
    #[getter]
    fn pause_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.pause_ns, US)
    }

    /// Kernel mode: length of the preemption-disabled sections; 0: none.
    #[getter]
    fn section_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.section_ns, US)
    }

    /// Kernel mode: preemptible time between two sections.
    #[getter]
    fn gap_us<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.gap_ns, US)
    }

    /// End of this load; 0: as long as any other part runs.
    #[getter]
    fn duration_ms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, self.inner.duration_ns, MS)
    }

    /// A copy with some fields changed.
    #[pyo3(signature = (**fields))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        fields: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        replaced(slf.as_any(), slf.get().fields(slf.py())?, fields)
    }

    /// Type and fields, as the command line's JSON shows them.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        as_dict(py, "cpu-load", &self.fields(py)?)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        equality(py, other.cast::<Self>().ok().map(|o| o.get().inner == self.inner))
    }

    fn __hash__(&self) -> u64 {
        hash_of(&Part::CpuLoad(self.inner.clone()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let defaults = PyCpuLoad {
            inner: CpuLoad::default(),
        };
        show_fields(
            "CpuLoad",
            &self.fields(py)?,
            &defaults.fields(py)?,
            &["cpus", "mode"],
        )
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        Ok((PyTuple::empty(py), self.fields(py)?))
    }
}

/// Several workloads side by side on one machine.
#[pyclass(name = "Mix", module = "treercu", frozen, sequence)]
pub(super) struct PyMix {
    inner: Workload,
}

fn part_object<'py>(py: Python<'py>, part: &Part) -> PyResult<Bound<'py, PyAny>> {
    Ok(match part {
        Part::SyncFlood(flood) => Bound::new(py, PySyncFlood { inner: flood.clone() })?.into_any(),
        Part::CpuLoad(load) => Bound::new(py, PyCpuLoad { inner: load.clone() })?.into_any(),
    })
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
            list.append(part_object(py, part)?)?;
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
        equality(py, other.cast::<Self>().ok().map(|o| o.get().inner == self.inner))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for part in &self.inner.parts {
            hash_of(part).hash(&mut hasher);
        }
        hasher.finish()
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
    if let Ok(flood) = object.cast::<PySyncFlood>() {
        return Ok(flood.get().inner.clone().into());
    }
    if let Ok(load) = object.cast::<PyCpuLoad>() {
        return Ok(load.get().inner.clone().into());
    }
    if let Ok(mix) = object.cast::<PyMix>() {
        return Ok(mix.get().inner.clone());
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let mut all = Workload::default();
        for item in object.try_iter()? {
            let item = item?;
            if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
                return Err(not_a_workload(&item));
            }
            all = all.and(parse(&item)?);
        }
        return Ok(all);
    }
    Err(not_a_workload(object))
}

fn not_a_workload(object: &Bound<'_, PyAny>) -> PyErr {
    refuse(
        "workload",
        object,
        "not a workload",
        "SyncFlood, CpuLoad, Mix, or a list of them",
    )
}

/// The Python object for a workload that was given as `given`: itself when it is one of the classes.
pub(super) fn object_of<'py>(object: &Bound<'py, PyAny>, workload: &Workload) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return build(object.py(), workload);
    }
    Ok(object.clone())
}

/// The Python object for a workload.
pub(super) fn build<'py>(py: Python<'py>, workload: &Workload) -> PyResult<Bound<'py, PyAny>> {
    match workload.parts.as_slice() {
        [part] => part_object(py, part),
        _ => Ok(Bound::new(
            py,
            PyMix {
                inner: workload.clone(),
            },
        )?
        .into_any()),
    }
}
