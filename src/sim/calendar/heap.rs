//! The calendar as a binary heap: the order in its plainest form. The wheel is tested and measured
//! against it, and leaves to it what lies beyond its own range.

use super::Class;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event under one packed number: time, class, arrival.
#[derive(Debug)]
struct Entry<E> {
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
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
        other.key.cmp(&self.key)
    }
}

/// Pending events by (time, class, arrival).
#[derive(Debug)]
pub struct Heap<E> {
    heap: BinaryHeap<Entry<E>>,
    arrivals: u64,
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Heap<E> {
    /// An empty heap.
    pub fn new() -> Self {
        Heap {
            heap: BinaryHeap::new(),
            arrivals: 0,
        }
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Puts an event in at time `at`, ns.
    pub fn push(&mut self, at: u64, class: Class, event: E) {
        let arrival = self.arrivals;
        debug_assert!(arrival < 1 << 63);
        self.arrivals += 1;
        self.heap.push(Entry {
            key: u128::from(at) << 64 | (class as u128) << 63 | u128::from(arrival),
            event,
        });
    }

    /// Takes the next event out, with its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        self.heap
            .pop()
            .map(|entry| ((entry.key >> 64) as u64, entry.event))
    }
}
