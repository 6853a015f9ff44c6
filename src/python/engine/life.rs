//! The life of an engine that Python holds: closing, by hand, by the finaliser, and when the interpreter exits.

use super::super::errors::{HostError, MisuseError, OrRaise, StallError};
use super::book;
use super::dispatch::{Dispatch, Left};
use super::wait::{Watch, blocking};
use crate::error::Error;
use crate::host::{Engine, GiveUp, Options, Remaining, State};
use parking_lot::{Condvar, Mutex, MutexGuard};
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Longest that the finaliser waits for readers, and for a callable that is running.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest that all open engines together hold up the interpreter's exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(300);

/// What the Python object and its sections share.
pub(super) struct Core {
    engine: Engine,
    pub(super) dispatch: Arc<Dispatch>,
    closing: AtomicBool,
    /// Closing is over, callables and all.
    closed: Mutex<bool>,
    on_closed: Condvar,
}

/// Engines that may be open.
static OPEN: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());
/// The interpreter's exit has closed them.
static EXITED: AtomicBool = AtomicBool::new(false);

impl Core {
    pub(super) fn open(
        py: Python<'_>,
        config: &crate::config::Config,
        options: &Options,
    ) -> PyResult<Arc<Core>> {
        if EXITED.load(Ordering::SeqCst) {
            return Err(MisuseError::new_err(
                "Engine: the interpreter is exiting; allowed: before its atexit handlers run",
            ));
        }
        let engine = py.detach(|| Engine::new(config, options)).or_raise(py)?;
        let core = Arc::new(Core {
            engine,
            dispatch: Arc::default(),
            closing: AtomicBool::new(false),
            closed: Mutex::new(false),
            on_closed: Condvar::new(),
        });
        let mut open = OPEN.lock();
        open.retain(|core| core.strong_count() > 0);
        open.push(Arc::downgrade(&core));
        Ok(core)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Open in this process, and nobody is closing it.
    pub(super) fn is_open(&self) -> bool {
        self.engine.state() == State::Open && !self.engine.is_forked() && !self.closing.load(Ordering::SeqCst)
    }

    /// Closes the engine, once: the first call does it, others wait until it is done. Detached from the interpreter.
    /// Python callables that the engine hands out meanwhile are run (or dropped) before this returns.
    fn close(&self, remaining: Remaining, timeout: Duration, reason: &dyn GiveUp) -> Result<(), Trouble> {
        let first = !self.closing.swap(true, Ordering::SeqCst);
        if self.engine.is_forked() {
            // Nobody is here but this thread; its own locks may be held by somebody who is not.
            let _ = self.engine.close(remaining, Duration::ZERO);
            return Ok(());
        }
        let until = Instant::now() + timeout;
        if !first {
            return self.wait_closed(until, reason);
        }
        let result = self.close_first(remaining, timeout, until, reason);
        *self.closed.lock() = true;
        self.on_closed.notify_all();
        result
    }

    /// Until the call that closes is done, or there is a reason to give up.
    fn wait_closed(&self, until: Instant, reason: &dyn GiveUp) -> Result<(), Trouble> {
        let mut closed = self.closed.lock();
        while !*closed {
            // The handlers that it may run may want the lock.
            let over = MutexGuard::unlocked(&mut closed, || reason.now());
            if !*closed {
                let left = until.saturating_duration_since(Instant::now());
                if over || left.is_zero() {
                    return Err(Trouble::Elsewhere);
                }
                self.on_closed
                    .wait_for(&mut closed, reason.every().map_or(left, |every| every.min(left)));
            }
        }
        Ok(())
    }

    /// Closing is over. Not to be asked in the child of a fork, where the lock may be held for ever.
    fn is_closed(&self) -> bool {
        *self.closed.lock()
    }

    fn close_first(
        &self,
        remaining: Remaining,
        timeout: Duration,
        until: Instant,
        reason: &dyn GiveUp,
    ) -> Result<(), Trouble> {
        if remaining == Remaining::Drop {
            self.dispatch.discard();
        }
        let closed = self.engine.close_unless(remaining, timeout, reason);
        let left = self
            .dispatch
            .finish(until.saturating_duration_since(Instant::now()), reason);
        match (closed, left) {
            (Err(error), _) => Err(Trouble::Engine(error, self.engine.readers_inside())),
            (Ok(()), Left::Running) => Err(Trouble::Callable),
            (Ok(()), Left::Nobody) => Ok(()),
        }
    }
}

/// Why closing did not do all that was asked. The engine is closed all the same.
enum Trouble {
    /// The deadline came; these threads are inside a section.
    Engine(Error, Vec<String>),
    /// A callable did not return in time.
    Callable,
    /// Another call is closing the engine, and is not done.
    Elsewhere,
}

fn raise(py: Python<'_>, trouble: Trouble, timeout: Duration) -> PyErr {
    let seconds = timeout.as_secs_f64();
    match trouble {
        Trouble::Engine(
            Error::Stall {
                gp_seq,
                waited_s,
                cpus,
                ..
            },
            readers,
        ) => {
            let who = match readers.as_slice() {
                [] => "some grace period did not end".to_owned(),
                names => format!("still inside a read-side section: {}", names.join(", ")),
            };
            let err = StallError::new_err(format!(
                "close: not finished within timeout={seconds}: {who}; the engine is closed, and callbacks that waited \
                 are never run; allowed: sections that end"
            ));
            let value = err.value(py);
            let set = value
                .setattr("gp_seq", gp_seq)
                .and_then(|()| value.setattr("waited_s", waited_s))
                .and_then(|()| value.setattr("cpus", cpus));
            set.err().unwrap_or(err)
        }
        Trouble::Engine(other, _) => super::super::errors::raise(py, other),
        Trouble::Callable => HostError::new_err(format!(
            "close: a callable is still running after timeout={seconds}; the engine is closed, and what is queued \
             behind it is dropped when it returns; allowed: callables that return"
        )),
        Trouble::Elsewhere => HostError::new_err(format!(
            "close: another thread is closing the engine and is not done after timeout={seconds}; it goes on; \
             allowed: a longer timeout"
        )),
    }
}

/// `Engine.close()`.
pub(super) fn close(
    py: Python<'_>,
    core: &Arc<Core>,
    remaining: Remaining,
    timeout: Duration,
) -> PyResult<()> {
    if core.engine.is_forked() {
        let _ = core.close(remaining, timeout, &Endless);
        return Ok(());
    }
    if core.is_closed() {
        return Ok(());
    }
    if core.dispatch.is_me() {
        return Err(MisuseError::new_err(
            "close: called from a callable, which it would wait for; allowed: outside callables",
        ));
    }
    if book::nesting(core.engine.id()) > 0 {
        return Err(MisuseError::new_err(
            "close: called inside a read-side section, which it would wait for; allowed: outside read-side sections",
        ));
    }
    book::forget(core.engine.id());
    let closed = blocking(py, None, |watch: &Watch<'_>| {
        Ok(Some(core.close(remaining, timeout, watch)))
    })?;
    match closed {
        Some(Err(trouble)) => Err(raise(py, trouble, timeout)),
        _ => Ok(()),
    }
}

/// No reason to give up but the deadline.
struct Endless;

impl GiveUp for Endless {
    fn now(&self) -> bool {
        false
    }
}

/// The Python object is going, and nobody has closed the engine.
pub(super) fn finalise(core: &Arc<Core>) {
    if !core.is_open() {
        if core.engine.is_forked() {
            let _ = core.close(Remaining::Drop, Duration::ZERO, &Endless);
        }
        return;
    }
    let closed = Python::try_attach(|py| {
        warn_unclosed("an open treercu.Engine was dropped; close() it, or use it in a with statement");
        // A callable that is running may need the interpreter to come to its end.
        py.detach(|| {
            book::forget(core.engine.id());
            let _ = core.close(Remaining::Run, DROP_TIMEOUT, &Endless);
        });
    });
    if closed.is_none() {
        let _ = core.close(Remaining::Drop, Duration::ZERO, &Endless);
    }
}

/// Warns from where no exception can be raised and one may be on its way.
pub(super) fn warn_unclosed(text: &str) {
    let _ = Python::try_attach(|py| {
        let pending = PyErr::take(py);
        let text = std::ffi::CString::new(text).unwrap_or_default();
        if let Err(err) = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1) {
            err.write_unraisable(py, None);
        }
        if let Some(pending) = pending {
            pending.restore(py);
        }
    });
}

/// Closes every engine that is still open; `atexit` calls it before the interpreter finalises. Callables whose
/// grace period ends in time are run; a reader that never leaves its section is waited for 0.3 s in all.
#[pyfunction]
pub(in super::super) fn _close_engines(py: Python<'_>) {
    EXITED.store(true, Ordering::SeqCst);
    let engines: Vec<Arc<Core>> = OPEN.lock().iter().filter_map(Weak::upgrade).collect();
    let until = Instant::now() + EXIT_TIMEOUT;
    py.detach(|| {
        for core in &engines {
            // This thread does not come back into its sections.
            book::forget(core.engine.id());
            // Not zero, which would not even look.
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            let _ = core.close(Remaining::Run, left, &Endless);
        }
    });
    // The last reference may be this one: its finaliser has nothing left to do.
    drop(engines);
}

/// Has the interpreter close engines before it finalises.
pub(in super::super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_close_engines, m)?)?;
    let close = m.getattr("_close_engines")?;
    m.py().import("atexit")?.call_method1("register", (close,))?;
    Ok(())
}
