//! A lock that is never waited for here but handed from owner to owner, first come first served: `exp_mutex`.

use super::waiters::Waiter;
use crate::sync::{AtomicU32, FullLock, Ordering, order};
use std::collections::VecDeque;

/// The lock. What the owner does is ordered before what the next one does.
#[derive(Debug, Default)]
pub struct HandOff {
    word: AtomicU32,
    queue: FullLock<VecDeque<Waiter>>,
}

/// States of [`HandOff::word`]. FREE and HELD change into each other by whoever takes or gives it;
/// WANTED (held, and the queue is not empty) comes and goes under the queue's lock only.
const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

impl HandOff {
    /// Takes it if it is free.
    pub fn try_lock(&self) -> bool {
        let (acquire, relaxed) = (order("exp_mutex taken", Ordering::Acquire), Ordering::Relaxed);
        self.word.compare_exchange(FREE, HELD, acquire, relaxed).is_ok()
    }

    /// Takes it, or queues the waiter: it will be the owner when it is completed.
    pub fn lock_or_queue(&self, waiter: &Waiter) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if self.try_lock() {
                return true;
            }
            // Relaxed: who gives it sees the mark and takes the queue's lock.
            let marked = self
                .word
                .compare_exchange(HELD, WANTED, Ordering::Relaxed, Ordering::Relaxed);
            if marked != Err(FREE) {
                queue.push_back(waiter.clone());
                return false;
            }
        }
    }

    /// Whoever waits under the name of `old` does so under that of `new` from now on.
    pub fn rename(&self, old: &Waiter, new: &Waiter) {
        let mut queue = self.queue.lock();
        if let Some(place) = queue.iter_mut().find(|other| other.same(old)) {
            *place = new.clone();
        }
    }

    /// That waiter is in the queue.
    pub fn is_queued(&self, waiter: &Waiter) -> bool {
        self.queue.lock().iter().any(|other| other.same(waiter))
    }

    /// Gives it back, or over to the first in the queue, whom the caller completes.
    pub fn unlock(&self) -> Option<Waiter> {
        let (release, relaxed) = (order("exp_mutex given", Ordering::Release), Ordering::Relaxed);
        if self.word.compare_exchange(HELD, FREE, release, relaxed).is_ok() {
            return None;
        }
        let mut queue = self.queue.lock();
        let next = queue.pop_front();
        if queue.is_empty() {
            // Relaxed: the completion orders this owner before the next.
            self.word.store(HELD, Ordering::Relaxed);
        }
        next
    }
}
