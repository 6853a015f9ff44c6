//! Blocking calls: away from the interpreter, on the calling thread itself, with an eye on signals and the token.
//!
//! No thread is started. The main thread wakes every [`POLL`], and whenever a signal interrupts its sleep, attaches
//! to the interpreter for a moment and has the handlers run; the wait meanwhile goes on. Other threads never run
//! handlers, so they sleep until the grace period ends or the token kicks them.

use super::super::enter::{CancelToken, POLL};
use super::super::errors::OrRaise;
use crate::error::Result;
use crate::host::GiveUp;
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Why a blocked call gives up: the token, or what a signal handler raised.
pub(super) struct Watch<'t> {
    token: Option<&'t CancelToken>,
    over: Cell<bool>,
    /// The first look comes before the first sleep: nothing can have happened yet.
    looked: Cell<bool>,
    /// Known after the first look at the interpreter.
    main: Cell<Option<bool>>,
    raised: RefCell<Option<PyErr>>,
}

impl<'t> Watch<'t> {
    fn new(token: Option<&'t CancelToken>) -> Self {
        Watch {
            token,
            over: Cell::new(false),
            looked: Cell::new(false),
            main: Cell::new(None),
            raised: RefCell::new(None),
        }
    }

    pub(super) fn token(&self) -> Option<&'t CancelToken> {
        self.token
    }

    /// The handlers run; true: one of them raised something, or the interpreter is going away.
    fn look(&self) -> bool {
        let seen = Python::try_attach(|py| {
            if self.main.get().is_none() {
                self.main.set(Some(is_main(py)?));
            }
            py.check_signals()
        });
        match seen {
            Some(Ok(())) => false,
            Some(Err(err)) => {
                self.raised.replace(Some(err));
                true
            }
            None => true,
        }
    }
}

/// This is the thread that runs signal handlers.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?;
    let me = threading.call_method0(intern!(py, "get_ident"))?;
    main.getattr(intern!(py, "ident"))?.eq(me)
}

impl GiveUp for Watch<'_> {
    fn now(&self) -> bool {
        if self.over.get() {
            return true;
        }
        let cancelled = self.token.is_some_and(CancelToken::is_cancelled);
        let first = !self.looked.replace(true);
        let over = cancelled || (!first && self.main.get() != Some(false) && self.look());
        self.over.set(over);
        over
    }

    fn every(&self) -> Option<Duration> {
        (self.main.get() != Some(false)).then_some(POLL)
    }
}

/// Runs `wait` detached from the interpreter. What a signal handler raised meanwhile wins over its result; `None`:
/// the token ended it.
pub(super) fn blocking<T: Send>(
    py: Python<'_>,
    token: Option<&CancelToken>,
    wait: impl FnOnce(&Watch<'_>) -> Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    if token.is_some_and(CancelToken::is_cancelled) {
        return Ok(None);
    }
    let (result, raised) = py.detach(|| {
        let watch = Watch::new(token);
        let result = wait(&watch);
        (result, watch.raised.take())
    });
    match raised {
        Some(err) => Err(err),
        None => result.or_raise(py),
    }
}
