//! The memory-order test (`rtmbkf`): stores on either side of a grace period, or of a section, that
//! nothing but the grace period orders.
//!
//! - *Across a grace period*: an updater stores to `before`, waits, stores to `after`. No section may see
//!   the second store and miss the first, in whichever order it looks: it would have been there both
//!   before the grace period began and after it ended.
//! - *Across a section*: a reader stores to `entered` at the start of its section and to `left` at its end.
//!   An updater that saw the first store before a grace period must see the second after it.
//!
//! All of it is relaxed.

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// What one updater stores.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Box2 {
    before: AtomicU64,
    after: AtomicU64,
}

/// What one reader stores.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Footprint {
    entered: AtomicU64,
    left: AtomicU64,
}

/// A section's look at an updater's stores.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    updater: usize,
    /// `after` was read first.
    after_first: bool,
    first: u64,
    reader: usize,
    visit: u64,
}

/// What an updater stored and saw before its grace period.
#[derive(Debug)]
pub struct Letter {
    updater: usize,
    number: u64,
    /// By reader.
    entered: Box<[u64]>,
}

/// All mailboxes of a run.
#[derive(Debug)]
pub struct Mailboxes {
    updaters: Box<[Box2]>,
    readers: Box<[Footprint]>,
    failures: AtomicU64,
    tries: AtomicU64,
}

impl Mailboxes {
    /// For so many updaters (grace periods of one of them do not overlap) and readers.
    pub fn new(updaters: usize, readers: usize) -> Self {
        Mailboxes {
            updaters: (0..updaters).map(|_| Box2::default()).collect(),
            readers: (0..readers).map(|_| Footprint::default()).collect(),
            failures: AtomicU64::new(0),
            tries: AtomicU64::new(0),
        }
    }

    /// At the start of a section. `draw` decides whom it looks at, and in which order.
    pub fn enter(&self, reader: usize, draw: u64) -> Look {
        let footprint = &self.readers[reader];
        let visit = footprint.entered.load(Relaxed) + 1;
        footprint.entered.store(visit, Relaxed);
        let updater = (draw >> 1) as usize % self.updaters.len();
        let after_first = draw & 1 == 0;
        let mailbox = &self.updaters[updater];
        let first = if after_first {
            &mailbox.after
        } else {
            &mailbox.before
        };
        Look {
            updater,
            after_first,
            first: first.load(Relaxed),
            reader,
            visit,
        }
    }

    /// At its end.
    pub fn leave(&self, look: Look) {
        let mailbox = &self.updaters[look.updater];
        let (before, after) = if look.after_first {
            (mailbox.before.load(Relaxed), look.first)
        } else {
            (look.first, mailbox.after.load(Relaxed))
        };
        self.count(before >= after);
        self.readers[look.reader].left.store(look.visit, Relaxed);
    }

    /// Before an updater's grace period.
    pub fn post(&self, updater: usize) -> Letter {
        let mailbox = &self.updaters[updater];
        let number = mailbox.after.load(Relaxed) + 1;
        mailbox.before.store(number, Relaxed);
        Letter {
            updater,
            number,
            entered: self
                .readers
                .iter()
                .map(|reader| reader.entered.load(Relaxed))
                .collect(),
        }
    }

    /// After it.
    pub fn collect(&self, letter: Letter) {
        for (reader, entered) in self.readers.iter().zip(letter.entered) {
            self.count(reader.left.load(Relaxed) >= entered);
        }
        self.updaters[letter.updater].after.store(letter.number, Relaxed);
    }

    fn count(&self, holds: bool) {
        self.tries.fetch_add(1, Relaxed);
        self.failures.fetch_add(u64::from(!holds), Relaxed);
    }

    /// Failures and tries (`rtmbkf`).
    pub fn totals(&self) -> (u64, u64) {
        (self.failures.load(Relaxed), self.tries.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_that_waits_for_nobody_is_noticed_from_either_side() {
        let boxes = Mailboxes::new(2, 2);
        // One that waits: the section is over before its end.
        let letter = boxes.post(0);
        let look = boxes.enter(0, 0);
        boxes.leave(look);
        boxes.collect(letter);
        assert_eq!(boxes.totals(), (0, 3));
        // The section was there before the grace period and still is after it.
        let look = boxes.enter(0, 1);
        let letter = boxes.post(0);
        boxes.collect(letter);
        assert_eq!(boxes.totals(), (1, 5));
        // And it sees the store from after the grace period without the one from before.
        boxes.leave(look);
        assert_eq!(boxes.totals(), (2, 6));
    }
}
