//! An exact oracle: what a wait promises, checked at its end against the sections that were open at its beginning.
//!
//! All threads of a model run on one thread of the system and change only where the checker lets them, so plain
//! bookkeeping is exact.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Books {
    next: u64,
    open: BTreeSet<u64>,
    /// Callbacks queued, and those that were invoked.
    queued: BTreeSet<u64>,
    invoked: BTreeSet<u64>,
}

/// Clones are the same oracle.
#[derive(Clone, Default)]
pub struct Oracle(Arc<Mutex<Books>>);

/// Sections that were open when a wait began.
pub struct Before(BTreeSet<u64>);

impl Oracle {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().expect("no schedule point inside")
    }

    /// A section began; gives its number.
    pub fn entered(&self) -> u64 {
        let mut books = self.books();
        books.next += 1;
        let number = books.next;
        books.open.insert(number);
        number
    }

    /// It is about to end.
    pub fn leaving(&self, section: u64) {
        self.books().open.remove(&section);
    }

    /// A wait begins.
    pub fn before(&self) -> Before {
        Before(self.books().open.clone())
    }

    /// It is over.
    pub fn waited(&self, before: &Before, what: &str) {
        let books = self.books();
        let still: Vec<_> = before.0.intersection(&books.open).collect();
        assert!(still.is_empty(), "{what} did not wait for sections {still:?}");
    }

    /// A callback is going to be queued; gives its number.
    pub fn queueing(&self) -> u64 {
        let mut books = self.books();
        books.next += 1;
        let number = books.next;
        books.queued.insert(number);
        number
    }

    /// It is invoked.
    pub fn invoked(&self, callback: u64, before: &Before) {
        self.waited(before, "a callback");
        assert!(
            self.books().invoked.insert(callback),
            "a callback was invoked twice"
        );
    }

    /// A barrier ended: these were queued before it.
    pub fn barrier_over(&self, callbacks: &[u64]) {
        let books = self.books();
        for callback in callbacks {
            assert!(
                books.invoked.contains(callback),
                "a barrier did not wait for a callback"
            );
        }
    }

    /// Everything is over.
    pub fn finish(&self) {
        let books = self.books();
        assert!(books.open.is_empty());
        assert_eq!(books.queued, books.invoked, "callbacks were lost");
    }
}
