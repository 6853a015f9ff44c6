//! Python callables: queued by engine threads when their grace period is over, run in order by one thread that is
//! attached to the interpreter. Engine threads only push; they never attach.

use crate::error::{Error, Result};
use crate::host::GiveUp;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// A callable and its arguments.
pub(super) struct Callable {
    pub(super) function: Py<PyAny>,
    pub(super) arguments: Py<PyTuple>,
}

/// The queue and its thread.
#[derive(Default)]
pub(super) struct Dispatch {
    inner: Mutex<Inner>,
    /// The thread sleeps on this.
    work: Condvar,
    /// Barriers and closing sleep on this.
    progress: Condvar,
    errors: AtomicU64,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Job>,
    /// Jobs ever queued, and those that are done with.
    pushed: u64,
    finished: u64,
    thread: Option<JoinHandle<()>>,
    thread_id: Option<ThreadId>,
    /// No more is to come: the thread exits when it has emptied the queue.
    stop: bool,
    /// What is still queued is dropped, not run.
    discard: bool,
    exited: bool,
    /// Counts [`Dispatch::kick`]: one that comes between a look and the sleep after it is not lost.
    kicks: u64,
}

struct Job {
    callable: Callable,
    run: bool,
}

/// What the engine's callback list holds: dropped without having been run it goes to the dispatcher too, since only
/// there Python objects may be dropped.
pub(super) struct Item {
    to: Arc<Dispatch>,
    callable: Option<Callable>,
}

impl Item {
    pub(super) fn new(to: &Arc<Dispatch>, callable: Callable) -> Self {
        Item {
            to: to.clone(),
            callable: Some(callable),
        }
    }

    /// Its grace period is over.
    pub(super) fn ready(mut self) {
        if let Some(callable) = self.callable.take() {
            self.to.push(Job { callable, run: true });
        }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        if let Some(callable) = self.callable.take() {
            self.to.push(Job { callable, run: false });
        }
    }
}

/// Why closing did not see the dispatcher's end.
pub(super) enum Left {
    /// It has exited, or there was none.
    Nobody,
    /// A callable is still running; the ones behind it are dropped when it returns.
    Running,
}

impl Dispatch {
    /// Starts the thread, the first time.
    pub(super) fn start(self: &Arc<Self>) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.thread_id.is_some() {
            return Ok(());
        }
        let me = self.clone();
        let thread = std::thread::Builder::new()
            .name("treercu-python".to_owned())
            .spawn(move || {
                // None: the interpreter is gone already.
                let _ = Python::try_attach(|py| me.run(py));
                me.inner.lock().exited = true;
                me.progress.notify_all();
            })
            .map_err(|err| {
                Error::Host(format!(
                    "cannot start the thread that runs callables: {err}; close other engines or raise the limit on \
                     threads"
                ))
            })?;
        inner.thread_id = Some(thread.thread().id());
        inner.thread = Some(thread);
        Ok(())
    }

    fn push(&self, job: Job) {
        let mut inner = self.inner.lock();
        if inner.exited {
            drop(inner);
            // Nobody is left to drop it; without an interpreter it stays.
            let mut job = Some(job);
            let _ = Python::try_attach(|_| drop(job.take()));
            std::mem::forget(job);
            return;
        }
        inner.queue.push_back(job);
        inner.pushed += 1;
        drop(inner);
        self.work.notify_one();
    }

    /// The thread: attached as long as it has something to run. The lock is never held while Python code may run,
    /// which dropping an object may do too.
    fn run(&self, py: Python<'_>) {
        loop {
            let next = py.detach(|| {
                let mut inner = self.inner.lock();
                while inner.queue.is_empty() && !inner.stop {
                    self.work.wait(&mut inner);
                }
                inner.queue.is_empty()
            });
            if next {
                return;
            }
            loop {
                let (job, discard) = {
                    let mut inner = self.inner.lock();
                    (inner.queue.pop_front(), inner.discard)
                };
                let Some(job) = job else { break };
                if job.run && !discard {
                    self.call(py, &job.callable);
                }
                drop(job);
                self.inner.lock().finished += 1;
                self.progress.notify_all();
            }
        }
    }

    fn call(&self, py: Python<'_>, callable: &Callable) {
        let function = callable.function.bind(py);
        if let Err(err) = function.call1(callable.arguments.bind(py)) {
            self.errors.fetch_add(1, Ordering::Relaxed);
            // `sys.unraisablehook` gets it, with the callable as the object.
            err.write_unraisable(py, Some(function));
        }
    }

    /// Callables that raised something.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Callables whose grace period is over and that have not returned yet.
    pub(super) fn waiting(&self) -> u64 {
        let inner = self.inner.lock();
        inner.pushed - inner.finished
    }

    /// This is the thread that runs callables.
    pub(super) fn is_me(&self) -> bool {
        self.inner.lock().thread_id == Some(std::thread::current().id())
    }

    /// Has those who sleep here look at their reasons to give up.
    pub(super) fn kick(&self) {
        self.inner.lock().kicks += 1;
        self.progress.notify_all();
    }

    /// Blocks until everything queued so far is done with; false: gave up.
    pub(super) fn drain(&self, reason: &dyn GiveUp) -> bool {
        let target = self.inner.lock().pushed;
        self.sleep_until(reason, None, |inner| inner.finished >= target || inner.exited)
    }

    /// What is queued is dropped instead of run.
    pub(super) fn discard(&self) {
        self.inner.lock().discard = true;
    }

    /// No more is to come. Waits until the thread has exited, for so long; then what it still has queued is dropped.
    pub(super) fn finish(&self, timeout: Duration, reason: &dyn GiveUp) -> Left {
        {
            let mut inner = self.inner.lock();
            inner.stop = true;
            if inner.thread_id.is_none() {
                inner.exited = true;
                return Left::Nobody;
            }
        }
        self.work.notify_all();
        if self.is_me() {
            return Left::Nobody; // Its loop ends by itself.
        }
        let until = Instant::now() + timeout;
        if !self.sleep_until(reason, Some(until), |inner| inner.exited) {
            self.discard();
            return Left::Running;
        }
        let thread = self.inner.lock().thread.take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        Left::Nobody
    }

    /// Detached from the interpreter. The condition may be looked at without the lock in between.
    fn sleep_until(
        &self,
        reason: &dyn GiveUp,
        until: Option<Instant>,
        mut done: impl FnMut(&Inner) -> bool,
    ) -> bool {
        loop {
            let seen = {
                let inner = self.inner.lock();
                if done(&inner) {
                    return true;
                }
                inner.kicks
            };
            // Without the lock: it may attach to the interpreter.
            if reason.now() {
                return false;
            }
            let mut inner = self.inner.lock();
            if done(&inner) {
                return true;
            }
            if inner.kicks != seen {
                continue;
            }
            let slice = reason.every().map(|every| Instant::now() + every);
            let deadline = match (until, slice) {
                (Some(until), Some(slice)) => Some(until.min(slice)),
                (until, slice) => until.or(slice),
            };
            match deadline {
                Some(deadline) => drop(self.progress.wait_until(&mut inner, deadline)),
                None => self.progress.wait(&mut inner),
            }
            drop(inner);
            if until.is_some_and(|until| Instant::now() >= until) {
                return done(&self.inner.lock());
            }
        }
    }
}
