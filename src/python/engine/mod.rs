//! `treercu.Engine`: a real Tree RCU on the threads of a Python program.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the class: arguments in, calls on, results out |
//! | `book` | each thread's attachments and open sections |
//! | `section` | `read_lock()` |
//! | `wait` | blocking calls that answer signals and the cancel token |
//! | `dispatch` | the thread that runs Python callables |
//! | `life` | closing: by hand, by the finaliser, at the interpreter's exit |
//! | `inspect` | what the engine is doing: text and plain data |
//! | `snapshot` | the tree as plain data |

mod book;
mod dispatch;
mod inspect;
mod life;
mod section;
mod snapshot;
mod wait;

use super::config::PyConfig;
use super::enter::{CancelToken, cancel_token};
use super::errors::{MisuseError, OrRaise};
use super::job::trace_limit;
use super::trace::PyTrace;
use super::values::{duration, flag, refuse, unsigned, word};
use crate::config::Config;
use crate::host::{
    Attachment, FenceMode, GiveUp, GpDriver, Kicker, Options, ParkMode, Remaining, Served, TimerMode,
};
use crate::tree::FullCookie;
use dispatch::{Callable, Item};
use life::Core;
pub(super) use life::register;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
pub(super) use section::PyReadSection;
use std::sync::Arc;
use std::time::Duration;
use wait::{Watch, blocking};

/// How long `close()` waits unless it is told otherwise.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest that it can be told to wait, ns: 31 years.
const MAX_TIMEOUT_NS: u64 = 1_000_000_000_000_000_000;

/// A real Tree RCU on real threads, for interactive use: `with rcu.Engine(rcu.Config(nr_cpus=2)) as engine: ...`
///
/// The `nr_cpus` of the configuration are virtual CPUs; any number of threads use them, each attached by its first
/// call. An engine is open from the start, and has a tick, a grace-period and a softirq thread of its own until
/// `close()`, which the `with` statement calls. An idle one wakes nobody. All times are ns unless a name says
/// otherwise.
///
/// fence: what spares readers their fences, `membarrier`, or the `fallback` where readers pay for their own. park:
/// how threads block. timer: timeouts rounded as the kernel's timer wheel does, or not (`hrtimer`). gp_kthread_cpu:
/// virtual CPU of the grace-period kthread at first; by default the highest-numbered one. gp_driver: `"callers"` lets
/// callers carry out its steps where they would sleep, for more calls a second at the price of latencies that say
/// nothing about the kernel's. rcuc: callbacks on a thread per virtual CPU. trace: keep up to this many trace events; `True` for a million.
///
/// No call that waits holds the interpreter. Ctrl-C ends one with what the handler raises (`KeyboardInterrupt`), and
/// a `CancelToken` makes one return; the engine is as good as before. After `close()`, and in the child of a fork,
/// calls raise `MisuseError`. Errors: `ConfigError` for a bad option, `HostError` where the system refuses a thread.
#[pyclass(name = "Engine", module = "treercu", frozen, weakref)]
pub(super) struct PyEngine {
    core: Arc<Core>,
    config: Py<PyConfig>,
}

fn choice<T: Copy>(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
    default: T,
    all: &[(&str, T)],
) -> PyResult<T> {
    let Some(object) = object else {
        return Ok(default);
    };
    let names: Vec<&str> = all.iter().map(|&(name, _)| name).collect();
    let chosen = word(name, object, &names)?;
    Ok(all
        .iter()
        .find(|&&(name, _)| name == chosen)
        .map_or(default, |&(_, value)| value))
}

/// The number of a virtual CPU.
fn cpu_number(name: &str, object: &Bound<'_, PyAny>, config: &Config) -> PyResult<u32> {
    let last = config.tunables().nr_cpus - 1;
    Ok(unsigned(name, object, 0, last.into())? as u32)
}

fn cookie(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    unsigned("cookie", object, 0, u64::MAX)
}

fn full_cookie(object: &Bound<'_, PyAny>) -> PyResult<FullCookie> {
    let (norm, exp) = object
        .extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
        .map_err(|_| {
            refuse(
                "cookie",
                object,
                "not a full cookie",
                "what get_state_full() or start_poll_full() returned",
            )
        })?;
    Ok(FullCookie {
        norm: cookie(&norm)?,
        exp: cookie(&exp)?,
    })
}

impl PyEngine {
    /// A call that blocks, made with the thread's attachment; `None`: cancelled.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        call: &'static str,
        token: Option<&CancelToken>,
        wait: impl FnOnce(&mut Attachment, &dyn GiveUp) -> crate::error::Result<Option<T>> + Send,
    ) -> PyResult<Option<T>> {
        let engine = self.core.engine();
        engine.usable(call).or_raise(py)?;
        blocking(py, token, |watch: &Watch<'_>| {
            book::with(engine, call, |attachment| {
                let _sleeping = watch.token().map(|token| {
                    let kicker: Kicker = attachment.kicker();
                    token.wakes(move || kicker.kick())
                });
                wait(attachment, watch)
            })
        })
    }

    fn queue(
        &self,
        f: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
        queue: impl FnOnce(&Attachment, Item) -> crate::error::Result<()>,
    ) -> PyResult<()> {
        let py = f.py();
        if !f.is_callable() {
            return Err(refuse(
                "f",
                f,
                "not callable",
                "a function, or another callable object",
            ));
        }
        let engine = self.core.engine();
        engine.usable("call").or_raise(py)?;
        self.core.dispatch.start().or_raise(py)?;
        let callable = Callable {
            function: f.clone().unbind(),
            arguments: arguments.clone().unbind(),
        };
        let item = Item::new(&self.core.dispatch, callable);
        book::with(engine, "call", |attachment| queue(attachment, item)).or_raise(py)
    }
}

/// Numbers of grace periods are shown as the kernel prints them.
fn shown(served: Option<Served>) -> Option<i64> {
    served.map(|served| served.gp_seq as i64)
}

#[pymethods]
impl PyEngine {
    #[new]
    #[pyo3(
        signature = (config=None, *, fence=None, park=None, timer=None, gp_kthread_cpu=None, gp_driver=None, rcuc=None, trace=None),
        text_signature = "(config=None, *, fence='auto', park='auto', timer='wheel', gp_kthread_cpu=None, gp_driver='kthread', rcuc=False, trace=0)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        config: Option<&Bound<'_, PyAny>>,
        fence: Option<&Bound<'_, PyAny>>,
        park: Option<&Bound<'_, PyAny>>,
        timer: Option<&Bound<'_, PyAny>>,
        gp_kthread_cpu: Option<&Bound<'_, PyAny>>,
        gp_driver: Option<&Bound<'_, PyAny>>,
        rcuc: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let config = match config {
            Some(object) => object
                .cast::<PyConfig>()
                .map_err(|_| {
                    refuse(
                        "config",
                        object,
                        "not a configuration",
                        "a treercu.Config, or None",
                    )
                })?
                .clone()
                .unbind(),
            None => Py::new(py, PyConfig { inner: Config::new() })?,
        };
        let options = Options {
            fence: choice("fence", fence, FenceMode::Auto, &FenceMode::ALL)?,
            park: choice(
                "park",
                park,
                ParkMode::Auto,
                &[
                    ("auto", ParkMode::Auto),
                    ("futex", ParkMode::Futex),
                    ("portable", ParkMode::Portable),
                ],
            )?,
            timer: choice("timer", timer, TimerMode::Wheel, &TimerMode::ALL)?,
            gp_kthread_cpu: gp_kthread_cpu
                .map(|object| cpu_number("gp_kthread_cpu", object, &config.get().inner))
                .transpose()?,
            gp_driver: choice(
                "gp_driver",
                gp_driver,
                GpDriver::Kthread,
                &[("kthread", GpDriver::Kthread), ("callers", GpDriver::Callers)],
            )?,
            rcuc: rcuc.map_or(Ok(false), |object| flag("rcuc", object))?,
            trace_limit: trace.map_or(Ok(0), trace_limit)?,
        };
        let core = Core::open(py, &config.get().inner, &options)?;
        Ok(PyEngine { core, config })
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().core.engine().usable("Engine").or_raise(slf.py())?;
        Ok(slf.clone())
    }

    /// `close()`.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<bool> {
        life::close(py, &self.core, Remaining::Run, CLOSE_TIMEOUT)?;
        Ok(false)
    }

    /// A read-side section (`rcu_read_lock()`): `with engine.read_lock(): ...`
    fn read_lock(&self) -> PyReadSection {
        PyReadSection::new(&self.core)
    }

    /// `synchronize_rcu()`: waits until every section that is open now has ended.
    ///
    /// Returns the number of the grace period that was waited for, as the kernel prints it, or `None` when `cancel`
    /// ended the call. Allowed in a callable of `call()`; inside a section it raises `MisuseError`.
    #[pyo3(signature = (*, cancel=None))]
    fn synchronize(&self, py: Python<'_>, cancel: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
        let token = cancel_token(cancel)?;
        let token = token.as_ref().map(Py::get);
        self.wait(py, "synchronize", token, |attachment, reason| {
            attachment.synchronize_unless(reason)
        })
        .map(shown)
    }

    /// `synchronize_rcu_expedited()`: the same without waiting for ticks; the calling thread drives the grace period
    /// itself. Returns the expedited sequence while it ran, or `None` when `cancel` ended the call.
    ///
    /// Costs a fraction of a microsecond where no other thread reads.
    #[pyo3(signature = (*, cancel=None))]
    fn synchronize_expedited(
        &self,
        py: Python<'_>,
        cancel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<i64>> {
        let token = cancel_token(cancel)?;
        let token = token.as_ref().map(Py::get);
        self.wait(py, "synchronize_expedited", token, |attachment, reason| {
            attachment.synchronize_expedited_unless(reason)
        })
        .map(shown)
    }

    /// `rcu_barrier()`: waits until every callable that was queued before has returned.
    ///
    /// True, or False when `cancel` ended the call. In a callable of `call()`, or inside a section, it raises
    /// `MisuseError`: it would wait for itself.
    #[pyo3(signature = (*, cancel=None))]
    fn barrier(&self, py: Python<'_>, cancel: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let token = cancel_token(cancel)?;
        let token = token.as_ref().map(Py::get);
        let dispatch = &self.core.dispatch;
        if dispatch.is_me() {
            return Err(MisuseError::new_err(
                "barrier: called from a callable, which it would wait for; allowed: outside callables",
            ));
        }
        let handed_out = self.wait(py, "barrier", token, |attachment, reason| {
            attachment.barrier_unless(reason)
        })?;
        if handed_out.is_none() {
            return Ok(false);
        }
        let run = blocking(py, token, |watch: &Watch<'_>| {
            let _sleeping = watch.token().map(|token| {
                let dispatch = dispatch.clone();
                token.wakes(move || dispatch.kick())
            });
            Ok(dispatch.drain(watch).then_some(()))
        })?;
        Ok(run.is_some())
    }

    /// `call_rcu()`: has `f(*args)` called after a grace period.
    ///
    /// One thread of this engine's own, started by the first call, runs all callables, in the order in which their
    /// grace periods ended; those that one thread queued keep their order. It may queue more and wait for grace
    /// periods, but not for a `barrier()` or for `close()`. An exception goes to `sys.unraisablehook` and is counted
    /// in `callback_errors`; the next callable runs all the same.
    #[pyo3(signature = (f, /, *args))]
    fn call(&self, f: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.queue(f, args, |attachment, item| attachment.call(move || item.ready()))
    }

    /// `call_rcu_hurry()`: the same, never delayed to save power.
    #[pyo3(signature = (f, /, *args))]
    fn call_hurry(&self, f: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.queue(f, args, |attachment, item| {
            attachment.call_hurry(move || item.ready())
        })
    }

    /// `get_state_synchronize_rcu()`: a cookie, for `poll_state()` and `cond_sync()`.
    fn get_state(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.core.engine();
        engine.usable("get_state").or_raise(py)?;
        Ok(engine.get_state())
    }

    /// `start_poll_synchronize_rcu()`: the same, and a request for the grace period that it needs.
    ///
    /// As in the kernel, normal and expedited grace periods that overlap share one number, and this cookie counts
    /// numbers. So where an expedited one was in progress, the requested one may have no number of its own: the cookie
    /// then comes true with one grace period more, of either kind, which nobody has requested. Where others make
    /// expedited calls, take `start_poll_full()`, which always comes true by itself.
    fn start_poll(&self, py: Python<'_>) -> PyResult<u64> {
        book::with(self.core.engine(), "start_poll", |attachment| {
            attachment.start_poll()
        })
        .or_raise(py)
    }

    /// `poll_state_synchronize_rcu()`: True once a grace period has passed since the cookie was made.
    fn poll_state(&self, py: Python<'_>, cookie: &Bound<'_, PyAny>) -> PyResult<bool> {
        let cookie = self::cookie(cookie)?;
        let engine = self.core.engine();
        engine.usable("poll_state").or_raise(py)?;
        Ok(engine.poll_state(cookie))
    }

    /// `cond_synchronize_rcu()`: waits like `synchronize()`, unless `poll_state()` is True already.
    ///
    /// True, or False when `cancel` ended the call.
    #[pyo3(signature = (cookie, *, cancel=None))]
    fn cond_sync(
        &self,
        py: Python<'_>,
        cookie: &Bound<'_, PyAny>,
        cancel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        Ok(self.poll_state(py, cookie)? || self.synchronize(py, cancel)?.is_some())
    }

    /// `get_state_synchronize_rcu_full()`: a cookie that follows normal and expedited grace periods each by its own
    /// number.
    fn get_state_full(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let engine = self.core.engine();
        engine.usable("get_state_full").or_raise(py)?;
        let cookie = engine.get_state_full();
        Ok((cookie.norm, cookie.exp))
    }

    /// `start_poll_synchronize_rcu_full()`.
    fn start_poll_full(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let cookie = book::with(self.core.engine(), "start_poll_full", |attachment| {
            attachment.start_poll_full()
        })
        .or_raise(py)?;
        Ok((cookie.norm, cookie.exp))
    }

    /// `poll_state_synchronize_rcu_full()`.
    fn poll_state_full(&self, py: Python<'_>, cookie: &Bound<'_, PyAny>) -> PyResult<bool> {
        let cookie = full_cookie(cookie)?;
        let engine = self.core.engine();
        engine.usable("poll_state_full").or_raise(py)?;
        Ok(engine.poll_state_full(cookie))
    }

    /// `cond_synchronize_rcu_full()`.
    #[pyo3(signature = (cookie, *, cancel=None))]
    fn cond_sync_full(
        &self,
        py: Python<'_>,
        cookie: &Bound<'_, PyAny>,
        cancel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        Ok(self.poll_state_full(py, cookie)? || self.synchronize(py, cancel)?.is_some())
    }

    /// Passes a quiescent state (`cond_resched()`). With `preempt="none"` or `"voluntary"` a thread is attached for
    /// the length of its calls and sections only, so it never owes one between them; inside a section this does
    /// nothing.
    fn quiescent(&self, py: Python<'_>) -> PyResult<()> {
        book::with(self.core.engine(), "quiescent", |attachment| {
            attachment.quiescent();
            Ok(())
        })
        .or_raise(py)
    }

    /// Brings a virtual CPU online. `ConfigError` where it is.
    fn cpu_online(&self, py: Python<'_>, cpu: &Bound<'_, PyAny>) -> PyResult<()> {
        let cpu = cpu_number("cpu", cpu, self.core.engine().config())?;
        py.detach(|| self.core.engine().cpu_online(cpu)).or_raise(py)
    }

    /// Takes a virtual CPU offline; its threads and callbacks go on on others. True, or False when `cancel` ended the
    /// call: the CPU stays online then.
    ///
    /// `ConfigError` where it is not online, or the last one; `MisuseError` inside a section. `HostError` after 5 s:
    /// a thread there passes no quiescent state (`preempt="none"`, `"voluntary"`), or a callback does not return.
    #[pyo3(signature = (cpu, *, cancel=None))]
    fn cpu_offline(
        &self,
        py: Python<'_>,
        cpu: &Bound<'_, PyAny>,
        cancel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let cpu = cpu_number("cpu", cpu, self.core.engine().config())?;
        let token = cancel_token(cancel)?;
        let token = token.as_ref().map(Py::get);
        let done = self.wait(py, "cpu_offline", token, |attachment, reason| {
            attachment.cpu_offline_unless(cpu, reason)
        })?;
        Ok(done.is_some())
    }

    /// Closes the engine: refuses new calls, ends the grace period in progress without waits between its scans,
    /// has what was queued run (`remaining="run"`) or dropped (`"drop"`), never before its grace period is over, and
    /// joins the threads. The first call closes; others return when it is done.
    ///
    /// timeout: seconds to wait for readers inside a section and for callables; 0 waits for nothing. Then, or at
    /// Ctrl-C, the engine closes all the same, and what waits is never run. `StallError` names the threads that were
    /// still inside a section; `HostError`: a callable is still running.
    #[pyo3(signature = (remaining=None, *, timeout=None), text_signature = "($self, remaining='run', *, timeout=10)")]
    fn close(
        &self,
        py: Python<'_>,
        remaining: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let remaining = choice(
            "remaining",
            remaining,
            Remaining::Run,
            &[("run", Remaining::Run), ("drop", Remaining::Drop)],
        )?;
        let timeout = match timeout {
            Some(object) => {
                Duration::from_nanos(duration("timeout", object, "s", 1_000_000_000, MAX_TIMEOUT_NS)?)
            }
            None => CLOSE_TIMEOUT,
        };
        life::close(py, &self.core, remaining, timeout)
    }

    /// `"open"`, `"closing"` or `"closed"`.
    #[getter(state)]
    fn life(&self) -> &'static str {
        inspect::state(&self.core)
    }

    /// The configuration.
    #[getter]
    fn config(&self, py: Python<'_>) -> Py<PyConfig> {
        self.config.clone_ref(py)
    }

    /// Virtual CPUs that are online.
    #[getter]
    fn online_cpus(&self) -> Vec<u32> {
        self.core.engine().online_cpus()
    }

    /// Threads that are attached now, whether they read or not.
    #[getter]
    fn attached(&self) -> u32 {
        self.core.engine().attached()
    }

    /// `rs.gp_seq`, as the kernel prints it: the low two bits are not zero while a grace period is in progress.
    #[getter]
    fn gp_seq(&self) -> i64 {
        self.core.engine().gp_seq() as i64
    }

    /// Callables that raised an exception.
    #[getter]
    fn callback_errors(&self) -> u64 {
        self.core.dispatch.errors()
    }

    /// How the engine was opened and what it found: fence, park, hz, nr_cpus, preempt, gp_kthread_cpu, tick_lateness.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        inspect::info(py, &self.core)
    }

    /// Counters since the engine was opened, under the names of `Run.counters`; CPU times as of the threads' last
    /// sleep.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        inspect::counters(py, &self.core)
    }

    /// The whole tree as a plain dict that JSON can carry, under the kernel's names; consistent only while nothing
    /// happens. Readers on `gp_tasks` are numbers of attached threads.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = py.detach(|| self.core.engine().snapshot());
        snapshot::to_dict(py, &snapshot)
    }

    /// One row per grace period that ended: the columns of `Run.grace_periods`, times since the engine was opened.
    /// At most 2**20 rows, the newest, are kept; clear: forget these.
    #[pyo3(signature = (*, clear=None), text_signature = "($self, *, clear=False)")]
    fn grace_periods<'py>(
        &self,
        py: Python<'py>,
        clear: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let clear = clear.map_or(Ok(false), |object| flag("clear", object))?;
        inspect::grace_periods(py, &self.core, clear)
    }

    /// Grace periods that lasted longer than the stall timeout, one line each, with the threads that held them up.
    fn stalls(&self) -> Vec<String> {
        let stalls = self.core.engine().stalls();
        stalls.iter().map(ToString::to_string).collect()
    }

    /// The trace events since the last call of this, or `None` where the engine was opened without a trace.
    fn take_trace(&self) -> Option<PyTrace> {
        self.core.engine().take_trace().map(PyTrace::from)
    }

    fn __repr__(&self) -> String {
        inspect::describe(&self.core)
    }
}

impl Drop for PyEngine {
    fn drop(&mut self) {
        life::finalise(&self.core);
    }
}
