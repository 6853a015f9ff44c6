//! `Engine.read_lock()`: read-side sections as context managers.

use super::super::errors::{OrRaise, SectionError};
use super::book::{self, Open};
use super::life::{Core, warn_unclosed};
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// `CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR`: code whose frames can be suspended.
const SUSPENDABLE: u32 = 0x20 | 0x80 | 0x100 | 0x200;

/// A read-side section (`rcu_read_lock()` … `rcu_read_unlock()`): `with engine.read_lock(): ...`
///
/// Grace periods that begin inside wait until the block is left. Blocks nest, each with an object of its own.
/// Waiting for a grace period inside raises `MisuseError`: it would wait for itself.
///
/// A section belongs to the thread that entered it, and to nobody else while it is open. So it must not be left on
/// another thread (`SectionError`; it stays open), nor before a younger one of its thread (`SectionError`; it ends),
/// and control must not leave the block by a `yield` or an `await`: a suspended block would hold grace periods up
/// for as long as nobody resumes it, and other code of the thread would be inside unawares. Python tells nobody
/// when a frame is suspended, so this is refused where the section is entered: inside a generator or coroutine, if
/// the `with` block contains a `yield` or an `await`, reached or not. A block without one is fine there. Entering by
/// an `ExitStack` inside a generator or coroutine, or by calling `__enter__()`, is refused altogether, since nobody
/// can see where the section would end: put the reading into a plain function.
///
/// An object that is dropped while open ends its section, with a `ResourceWarning`; where it is dropped on another
/// thread, the section ends at its own thread's next call of the engine, or when that thread exits.
#[pyclass(name = "ReadSection", module = "treercu", frozen)]
pub(in super::super) struct PyReadSection {
    core: Arc<Core>,
    held: Mutex<Option<Held>>,
}

struct Held {
    thread: u64,
    open: Arc<Open>,
}

impl PyReadSection {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        PyReadSection {
            core: core.clone(),
            held: Mutex::new(None),
        }
    }
}

/// `ExitStack.enter_context`, whose caller is the one to look at.
fn enter_context(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let code = CODE.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        let stack = py.import("contextlib")?.getattr("ExitStack")?;
        Ok(stack.getattr("enter_context")?.getattr("__code__")?.unbind())
    })?;
    Ok(code.bind(py))
}

/// Refuses a block that a suspension may cross.
fn check_caller(py: Python<'_>) -> PyResult<()> {
    static GETFRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let getframe = GETFRAME.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("sys")?.getattr("_getframe")?.unbind())
    })?;
    let frame = getframe.bind(py).call0()?;
    let code = frame.getattr(intern!(py, "f_code"))?;
    let flags: u32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
    if flags & SUSPENDABLE == 0 && !code.is(enter_context(py)?) {
        return Ok(());
    }
    let crosses = py
        .import(intern!(py, "treercu._suspension"))?
        .call_method1(intern!(py, "crossed"), (frame,))?;
    if crosses.is_none() {
        return Ok(());
    }
    Err(SectionError::new_err(format!(
        "read_lock: {crosses}; allowed: a block without yield and await; put the reading into a plain function"
    )))
}

#[pymethods]
impl PyReadSection {
    /// Opens the section.
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let this = slf.get();
        check_caller(py)?;
        if this.held.lock().is_some() {
            return Err(SectionError::new_err(
                "read_lock: this section is open already; allowed: one call of read_lock() for each block",
            ));
        }
        let open = book::enter(this.core.engine()).or_raise(py)?;
        *this.held.lock() = Some(Held {
            thread: book::thread(),
            open,
        });
        Ok(slf.clone())
    }

    /// Ends it.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let held = {
            let mut held = self.held.lock();
            match held.as_ref() {
                None => {
                    return Err(SectionError::new_err(
                        "read_lock: this section is not open; allowed: leaving a block that was entered",
                    ));
                }
                Some(it) if it.thread != book::thread() => {
                    return Err(SectionError::new_err(
                        "read_lock: the section was entered on another thread; allowed: leaving it on the thread \
                         that entered it",
                    ));
                }
                Some(_) => held.take(),
            }
        };
        if let Some(held) = held {
            book::leave(self.core.engine().id(), &held.open)?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        let state = match self.held.lock().as_ref() {
            None => "not open",
            Some(held) if held.thread == book::thread() => "open",
            Some(_) => "open on another thread",
        };
        format!("<ReadSection {state}>")
    }
}

impl Drop for PyReadSection {
    fn drop(&mut self) {
        let Some(held) = self.held.get_mut().take() else {
            return;
        };
        if held.thread != book::thread() {
            held.open.abandon();
            warn_unclosed("a treercu read-side section was dropped while it was open on another thread");
            return;
        }
        // Whether others are younger: this one ends, and nobody is there to be told.
        let _ = book::leave(self.core.engine().id(), &held.open);
        warn_unclosed("a treercu read-side section was dropped while it was open");
    }
}
