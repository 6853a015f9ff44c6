//! The one door into the engine: detach from the interpreter, work on another thread, watch for
//! signals, the cancel token and the progress reporter, and never let a panic through.

use super::errors::{EngineError, Interrupted, raise};
use super::values::refuse;
use crate::control::Control;
use crate::error::{Error, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the calling thread looks for signals and the cancel token.
pub(super) const POLL: Duration = Duration::from_millis(20);
/// How often it reports progress.
const REPORT: Duration = Duration::from_millis(100);

/// Ends a running call from another thread: the call *returns* what it has so far.
///
/// Pass it as `cancel=` and call `cancel()`. A token that is already cancelled ends a call at once.
#[pyclass(module = "treercu", frozen)]
#[derive(Default)]
pub(super) struct CancelToken {
    flag: Arc<AtomicBool>,
    blocked: Mutex<Blocked>,
}

/// How to wake the calls that sleep with a token in their hands.
#[derive(Default)]
struct Blocked {
    next: u64,
    kicks: Vec<(u64, Kick)>,
}

type Kick = Box<dyn Fn() + Send>;

/// A call that sleeps; see [`CancelToken::wakes`].
pub(super) struct Sleeping<'t> {
    token: &'t CancelToken,
    number: u64,
}

impl CancelToken {
    /// `cancel()` calls `kick` from now on, until the answer is dropped. The caller looks at the flag after this.
    pub(super) fn wakes(&self, kick: impl Fn() + Send + 'static) -> Sleeping<'_> {
        let mut blocked = self.blocked();
        let number = blocked.next;
        blocked.next += 1;
        blocked.kicks.push((number, Box::new(kick)));
        Sleeping { token: self, number }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    fn blocked(&self) -> std::sync::MutexGuard<'_, Blocked> {
        // A kick that panicked leaves the list as it was.
        self.blocked.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Drop for Sleeping<'_> {
    fn drop(&mut self) {
        let mut blocked = self.token.blocked();
        if let Some(at) = blocked
            .kicks
            .iter()
            .position(|&(number, _)| number == self.number)
        {
            drop(blocked.kicks.swap_remove(at));
        }
    }
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Asks every call that holds this token to return.
    fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
        for (_, kick) in &self.blocked().kicks {
            kick();
        }
    }

    /// Whether `cancel()` was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    fn __repr__(&self) -> String {
        format!(
            "<CancelToken cancelled={}>",
            if self.cancelled() { "True" } else { "False" }
        )
    }
}

/// `cancel=`: a token, or nothing.
pub(super) fn cancel_token(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<CancelToken>>> {
    let Some(object) = object else { return Ok(None) };
    let token = object
        .cast::<CancelToken>()
        .map_err(|_| refuse("cancel", object, "not a token", "a treercu.CancelToken, or None"))?;
    Ok(Some(token.clone().unbind()))
}

/// `progress=`: what [`enter`] reports to, or nothing.
pub(super) fn reporter(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    let none = py.None().into_bound(py);
    let reporter = py
        .import("treercu._progress")?
        .call_method1("reporter", (progress.unwrap_or(&none),))?;
    Ok((!reporter.is_none()).then(|| reporter.unbind()))
}

static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Makes panics of this extension silent on stderr: their text travels in `EngineError` instead.
/// The hook belongs to this module's own copy of the standard library and concerns nobody else.
pub(super) fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panic without a text".to_owned());
        let place = info
            .location()
            .map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = Some(format!("{what}{place}"));
        }
    }));
}

/// What came out of the engine.
pub(super) struct Outcome<T> {
    /// The result, partial if `raised` is set or the token was used.
    pub(super) value: T,
    /// What a signal handler or the progress reporter raised meanwhile.
    pub(super) raised: Option<PyErr>,
}

impl<T> Outcome<T> {
    /// The value, or what was raised; a `KeyboardInterrupt` becomes `Interrupted` with the partial
    /// result attached by `attach`.
    pub(super) fn finish<R>(
        self,
        py: Python<'_>,
        convert: impl FnOnce(T) -> PyResult<R>,
        attach: impl FnOnce(&Bound<'_, PyAny>, R) -> PyResult<()>,
    ) -> PyResult<R> {
        let converted = convert(self.value)?;
        let Some(cause) = self.raised else {
            return Ok(converted);
        };
        if !cause.is_instance_of::<PyKeyboardInterrupt>(py) {
            return Err(cause);
        }
        let err = Interrupted::new_err("interrupted; the partial run is in .run");
        attach(err.value(py).as_any(), converted)?;
        err.set_cause(py, Some(cause));
        Err(err)
    }
}

/// Runs `work` away from the interpreter; see the module page.
///
/// `progress` is an object with `update(done, total)` and `close()`, or `None`.
pub(super) fn enter<T, F>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    token: Option<&CancelToken>,
    work: F,
) -> PyResult<Outcome<T>>
where
    T: Send,
    F: FnOnce(&Control) -> Result<T> + Send,
{
    let flag = token.map(|token| token.flag.clone());
    let cancelled = || flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let control = Control::default();
    control.cancel.store(cancelled(), Ordering::Relaxed);

    let (result, mut raised) = py.detach(|| watch(&control, progress, &cancelled, work));
    if let Some(reporter) = progress {
        let end =
            report(py, reporter, &control).and_then(|()| reporter.bind(py).call_method0("close").map(drop));
        if let Err(err) = end {
            raised = raised.or(Some(err));
        }
    }
    match (result, raised) {
        (Ok(Ok(value)), raised) => Ok(Outcome { value, raised }),
        (_, Some(raised)) => Err(raised),
        (Ok(Err(error)), None) => Err(raise(py, error)),
        (Err(panic), None) => Err(EngineError::new_err(panic)),
    }
}

type Watched<T> = (std::result::Result<Result<T>, String>, Option<PyErr>);

fn watch<T, F>(
    control: &Control,
    progress: Option<&Py<PyAny>>,
    cancelled: &(dyn Fn() -> bool + Sync),
    work: F,
) -> Watched<T>
where
    T: Send,
    F: FnOnce(&Control) -> Result<T> + Send,
{
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel(1);
        let started = std::thread::Builder::new()
            .name("treercu-run".to_owned())
            .spawn_scoped(scope, move || {
                let result = catch_unwind(AssertUnwindSafe(|| work(control)));
                let _ = send.send(result.map_err(|_| {
                    let last = LAST_PANIC.lock().ok().and_then(|mut last| last.take());
                    format!(
                        "internal error: {}; this is a defect of treercu, not of the input",
                        last.unwrap_or_else(|| "panic".to_owned())
                    )
                }));
            });
        if let Err(err) = started {
            let failed = Error::Host(format!("cannot start a thread: {err}"));
            return (Ok(Err(failed)), None);
        }
        let mut raised = None;
        let mut reported = Instant::now();
        loop {
            match receive.recv_timeout(POLL) {
                Ok(result) => return (result, raised),
                Err(RecvTimeoutError::Disconnected) => {
                    return (Err("internal error: the worker vanished".to_owned()), raised);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if cancelled() {
                control.cancel.store(true, Ordering::Relaxed);
            }
            if raised.is_some() {
                // The work is on its way out: whoever asks again would only lose what it brings.
                let _ = Python::try_attach(|py| {
                    if let Err(err) = py.check_signals()
                        && !err.is_instance_of::<PyKeyboardInterrupt>(py)
                    {
                        err.write_unraisable(py, None);
                    }
                });
                continue;
            }
            let due = progress.filter(|_| reported.elapsed() >= REPORT);
            // None: the interpreter is going away under a daemon thread.
            let polled = Python::try_attach(|py| {
                py.check_signals()?;
                match due {
                    Some(reporter) => report(py, reporter, control),
                    None => Ok(()),
                }
            });
            if due.is_some() {
                reported = Instant::now();
            }
            match polled {
                Some(Ok(())) => {}
                Some(Err(err)) => {
                    raised = Some(err);
                    control.cancel.store(true, Ordering::Relaxed);
                }
                None => control.cancel.store(true, Ordering::Relaxed),
            }
        }
    })
}

fn report(py: Python<'_>, reporter: &Py<PyAny>, control: &Control) -> PyResult<()> {
    let done = control.done.load(Ordering::Relaxed);
    let total = control.total.load(Ordering::Relaxed);
    reporter.bind(py).call_method1("update", (done, total)).map(drop)
}
