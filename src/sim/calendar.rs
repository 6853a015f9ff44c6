//! The event calendar: what happens next. Entries with equal time come out ticks first, then in the
//! order in which they were put in, so that a run never depends on the heap's inner order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Order among entries of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Timer interrupts: all CPUs' tick handlers start before any thread goes on.
    Tick,
    /// Everything else.
    Other,
}

#[derive(Debug)]
struct Entry<E> {
    at: u64,
    class: Class,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, Class, u64) {
        (self.at, self.class, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    /// Reversed: the standard heap gives out its greatest entry.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Pending events by time.
#[derive(Debug)]
pub(super) struct Calendar<E> {
    heap: BinaryHeap<Entry<E>>,
    number: u64,
}

impl<E> Calendar<E> {
    pub(super) fn new() -> Self {
        Calendar {
            heap: BinaryHeap::new(),
            number: 0,
        }
    }

    pub(super) fn push(&mut self, at: u64, class: Class, event: E) {
        self.number += 1;
        self.heap.push(Entry {
            at,
            class,
            number: self.number,
            event,
        });
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_ticks_then_arrival() {
        let mut calendar = Calendar::new();
        calendar.push(5, Class::Other, "a");
        calendar.push(5, Class::Other, "b");
        calendar.push(5, Class::Tick, "tick");
        calendar.push(4, Class::Other, "first");
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(order, [(4, "first"), (5, "tick"), (5, "a"), (5, "b")]);
    }
}
