//! crossbeam-epoch: three epochs, garbage in bags, no grace period that anybody could wait for.
//!
//! A wait is made of what it has: the caller defers a function, pushes its bag onto the global queue
//! (`flush`), and keeps collecting until the function has run, which is two advances of the epoch later.
//! Every wait costs the allocation of a queue node inside the library. Between two attempts the caller
//! yields: with more threads than cores, spinning would only keep the readers from leaving.

use super::{Abilities, Callback, Describe, Remains, Subject, SubjectThread};
use crate::error::Result;
use crate::measure::published::Element;
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use crossbeam_epoch::{Collector, Guard, LocalHandle};
use std::sync::Arc;
use std::time::Instant;

/// A collector of its own for each run.
pub struct CrossbeamEpoch {
    collector: Collector,
}

impl CrossbeamEpoch {
    pub fn new() -> Self {
        CrossbeamEpoch {
            collector: Collector::new(),
        }
    }
}

impl Describe for CrossbeamEpoch {
    fn notes(&self) -> Vec<String> {
        vec![
            "crossbeam-epoch reads no tunable and knows no CPUs: the configuration does not act, the column \
             cpu is -1, and gp_seq is 0"
                .to_owned(),
            "a wait is a deferred function and flushes until it has run, with sched_yield between two attempts"
                .to_owned(),
        ]
    }
}

impl Subject for CrossbeamEpoch {
    type Thread<'s> = Thread;

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn register(&self, _cpu: u32) -> Result<Thread> {
        Ok(Thread {
            handle: self.collector.register(),
            collector: self.collector.clone(),
            passed: Arc::new(AtomicBool::new(false)),
        })
    }

    fn close(self, _start: Option<Instant>) -> Result<Remains> {
        // The last reference to the collector runs what is still deferred.
        Ok(Remains::default())
    }
}

/// A participant.
pub struct Thread {
    handle: LocalHandle,
    collector: Collector,
    /// Set by the deferred function of the wait under way; shared, because a wait can be given up.
    passed: Arc<AtomicBool>,
}

impl SubjectThread for Thread {
    fn section(
        &mut self,
        nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    ) {
        let _outer = self.handle.pin();
        // SAFETY: the thread is pinned, and elements stay until the run is over (see `published`).
        let element = unsafe { &*pointer.load(Ordering::Acquire) };
        nest(&self.handle, nested, || first(element));
        second(element);
    }

    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        self.passed.store(false, Ordering::Relaxed);
        let passed = self.passed.clone();
        let guard = self.handle.pin();
        guard.defer(move || passed.store(true, Ordering::Release));
        guard.flush();
        drop(guard);
        while !self.passed.load(Ordering::Acquire) {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.handle.pin().flush();
            if !self.passed.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        Ok(Some(0))
    }

    fn call(&mut self, callback: Callback, _hurry: bool) -> Result<()> {
        defer(&self.handle.pin(), &self.collector, callback);
        Ok(())
    }
}

/// Enters that many levels more around `f`.
fn nest(handle: &LocalHandle, levels: u32, f: impl FnOnce()) {
    // Recursion over a trait object: a generic one would instantiate itself without end.
    fn inner(handle: &LocalHandle, levels: u32, f: &mut dyn FnMut()) {
        if levels == 0 {
            return f();
        }
        let _guard = handle.pin();
        inner(handle, levels - 1, f);
    }
    let mut f = Some(f);
    inner(handle, levels, &mut || {
        if let Some(f) = f.take() {
            f();
        }
    });
}

fn defer(guard: &Guard, collector: &Collector, callback: Callback) {
    let again = collector.clone();
    guard.defer(move || {
        if let Some(callback) = callback.invoke() {
            // Deferred functions run on any thread, perhaps one that is leaving: a participant of its own.
            defer(&again.register().pin(), &again, callback);
        }
    });
}
