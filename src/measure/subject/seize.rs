//! seize (hyaline): batches of retired objects, each freed by the last reader that could see it.
//!
//! A wait is made of what it has: the caller retires as many entries as threads are registered (a batch
//! is handed over only when it has an entry for every active thread) and waits until the batch is
//! reclaimed, which the last reader does on its way out. Nobody is woken: the caller yields until then.

use super::{Abilities, Callback, Describe, Remains, Subject, SubjectThread};
use crate::error::Result;
use crate::measure::published::Element;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use ::seize::{Collector, Guard, LocalGuard};
use std::sync::Arc;
use std::time::Instant;

/// A collector of its own for each run.
pub struct Seize {
    collector: Collector,
    registered: AtomicU64,
}

impl Seize {
    /// For that many threads. A batch fills up only beyond what one wait needs, so that each wait hands its
    /// batch over once.
    pub fn new(threads: usize) -> Self {
        Seize {
            collector: Collector::new().batch_size((threads + 2).max(32)),
            registered: AtomicU64::new(0),
        }
    }
}

impl Describe for Seize {
    fn notes(&self) -> Vec<String> {
        vec![
            "seize reads no tunable and knows no CPUs: the configuration does not act, the column cpu is -1, \
             and gp_seq is 0"
                .to_owned(),
            "a wait is a retired batch with an entry for each thread, and sched_yield until it is reclaimed"
                .to_owned(),
        ]
    }
}

impl Subject for Seize {
    type Thread<'s> = Thread<'s>;

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn register(&self, _cpu: u32) -> Result<Thread<'_>> {
        self.registered.fetch_add(1, Ordering::Relaxed);
        Ok(Thread {
            subject: self,
            waits: Arc::default(),
            begun: 0,
        })
    }

    fn close(self, _start: Option<Instant>) -> Result<Remains> {
        // Dropping the collector reclaims what is still retired.
        Ok(Remains::default())
    }
}

/// A thread; seize itself registers it on first use.
pub struct Thread<'s> {
    subject: &'s Seize,
    waits: Arc<Waits>,
    /// Waits begun by this thread.
    begun: u64,
}

/// Number of the last wait of one thread whose batch was reclaimed; shared, because a wait can be given up.
#[derive(Default)]
struct Waits {
    over: AtomicU64,
}

/// What is retired for a callback.
struct Posted(Callback);

impl SubjectThread for Thread<'_> {
    fn section(
        &mut self,
        nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    ) {
        let guard = self.subject.collector.enter();
        // SAFETY: the pointer was read under a guard, and elements stay until the run is over.
        let element = unsafe { &*guard.protect(pointer, Ordering::Acquire) };
        let inner: NestedGuards<'_> = NestedGuards::enter(&self.subject.collector, nested);
        first(element);
        drop(inner);
        second(element);
    }

    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        self.begun += 1;
        let entries = self.subject.registered.load(Ordering::Relaxed) + 1;
        let guard = self.subject.collector.enter();
        for _ in 0..entries {
            let waits = Arc::into_raw(self.waits.clone()).cast_mut();
            // SAFETY: each entry owns one count of the `Arc` and gives it back exactly once; nobody can
            // read it through a protected pointer.
            unsafe { guard.defer_retire(waits, passed) };
        }
        guard.flush();
        drop(guard);
        // Entries of one wait may lie in several batches: all of them count. The number of threads, and with it
        // of entries, is the same for all waits of a run, since all threads register before the start.
        let wanted = self.begun * entries;
        while self.waits.over.load(Ordering::Acquire) < wanted {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::yield_now();
        }
        Ok(Some(0))
    }

    fn call(&mut self, callback: Callback, _hurry: bool) -> Result<()> {
        post(&self.subject.collector.enter(), callback);
        Ok(())
    }
}

/// Reclaims one entry of a wait.
unsafe fn passed(waits: *mut Waits, _collector: &Collector) {
    // SAFETY: made by `Arc::into_raw` in `synchronize`, one call for each count given away.
    let waits = unsafe { Arc::from_raw(waits.cast_const()) };
    waits.over.fetch_add(1, Ordering::Release);
}

fn post(guard: &LocalGuard<'_>, callback: Callback) {
    let posted = Box::into_raw(Box::new(Posted(callback)));
    // SAFETY: the box was made here, nobody else has its address, and `invoke` takes it once.
    unsafe { guard.defer_retire(posted, invoke) };
}

/// Invokes a callback of a workload and frees it.
unsafe fn invoke(posted: *mut Posted, collector: &Collector) {
    // SAFETY: made by `Box::into_raw` in `post`, and retired once.
    let Posted(callback) = *unsafe { Box::from_raw(posted) };
    if let Some(again) = callback.invoke() {
        post(&collector.enter(), again);
    }
}

/// Levels of guards inside a section.
struct NestedGuards<'c> {
    _guards: Vec<LocalGuard<'c>>,
}

impl<'c> NestedGuards<'c> {
    fn enter(collector: &'c Collector, levels: u32) -> Self {
        // An empty vector does not allocate.
        NestedGuards {
            _guards: (0..levels).map(|_| collector.enter()).collect(),
        }
    }
}
