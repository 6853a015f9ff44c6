//! Waiters of `synchronize_rcu()` and the lock-free stack they are pushed on.
//!
//! A [`Waiter`] is reference-counted: one count for the caller, one for the list or callback that
//! completes it. A caller that gives up drops its count; the completion frees the node later.
//! Pushing is lock-free and newest-first; only the grace-period kthread takes the stack, whole.

use crate::sync::{AtomicPtr, AtomicU64, Ordering, ThinArc as Arc, order};
use std::ptr;

struct Node {
    next: AtomicPtr<Node>,
    /// Bit 0: on a stack or chain right now, since a waiter waits for one thing at a time. Above it the
    /// token. One word, and a reference count without weak references: a flood has one of these a task.
    word: AtomicU64,
}

const QUEUED: u64 = 1;

/// A handle on somebody who waits for a grace period.
#[derive(Clone)]
pub struct Waiter(Arc<Node>);

impl Waiter {
    /// A waiter that its world knows under `token`, below 2^63.
    pub fn new(token: u64) -> Self {
        Waiter(Arc::new(Node {
            next: AtomicPtr::new(ptr::null_mut()),
            word: AtomicU64::new(token << 1),
        }))
    }

    /// Gives the waiter another token for its next wait. Where an earlier wait was cancelled and its
    /// completion is still to come, that one keeps its node and this becomes a new one.
    pub fn renew(&mut self, token: u64) {
        match Arc::get_mut(&mut self.0) {
            Some(node) => node.word = AtomicU64::new(token << 1),
            None => *self = Waiter::new(token),
        }
    }

    /// The number that a trace prints for it (`rhp`).
    pub fn rhp(&self) -> u64 {
        const BASE: u64 = 0xffff_c900_0000_0000;
        BASE + self.token() * 64
    }

    /// The same waiter, not just one of the same name.
    pub(super) fn same(&self, other: &Waiter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The world's name for it.
    pub fn token(&self) -> u64 {
        self.0.word.load(Ordering::Relaxed) >> 1
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiter({})", self.token())
    }
}

/// Lock-free LIFO of waiters (`srs_next`).
#[derive(Debug, Default)]
pub struct WaiterStack {
    head: AtomicPtr<Node>,
}

impl WaiterStack {
    /// Puts a waiter on top.
    pub fn push(&self, waiter: Waiter) {
        // A load and a store: nobody but the owner of the wait changes the word, and then the list.
        let word = waiter.0.word.load(Ordering::Relaxed);
        assert!(word & QUEUED == 0, "a waiter was queued twice");
        waiter.0.word.store(word | QUEUED, Ordering::Relaxed);
        let node = Arc::into_raw(waiter.0).cast_mut();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` came from `Arc::into_raw` and its count is now owned by this stack;
            // nobody else touches `next` of a node that is not linked yet.
            unsafe { (*node).next.store(head, Ordering::Relaxed) };
            // Release: the node's contents are visible to whoever takes the stack (Acquire below).
            match self.head.compare_exchange_weak(
                head,
                node,
                order("push", Ordering::Release),
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Nothing is queued, as far as the caller can know: whoever pushed before in the order of locks is seen.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, newest first.
    pub fn take(&self) -> WaiterChain {
        WaiterChain {
            head: self.head.swap(ptr::null_mut(), order("take", Ordering::Acquire)),
        }
    }
}

impl Drop for WaiterStack {
    fn drop(&mut self) {
        #[cfg(any(treercu_loom, treercu_shuttle))]
        if std::thread::panicking() {
            return; // The model has failed, and its execution is gone.
        }
        drop(self.take());
    }
}

/// Waiters taken off the stack, owned by whoever holds the chain.
#[derive(Debug)]
pub struct WaiterChain {
    head: *mut Node,
}

// SAFETY: the chain owns one reference count of each of its nodes, and nodes are only shared
// through atomics, so it may move to another thread.
unsafe impl Send for WaiterChain {}

impl Default for WaiterChain {
    fn default() -> Self {
        WaiterChain {
            head: ptr::null_mut(),
        }
    }
}

impl WaiterChain {
    /// No waiter left.
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Takes the newest waiter. The link is read before the waiter is handed out, since whoever
    /// completes it may let it be queued again at once.
    pub fn pop(&mut self) -> Option<Waiter> {
        if self.head.is_null() {
            return None;
        }
        // SAFETY: the chain owns this node's count (pushed by `Arc::into_raw`), taken back here once.
        let node = unsafe { Arc::from_raw(self.head.cast_const()) };
        self.head = node.next.load(Ordering::Relaxed);
        let word = node.word.load(Ordering::Relaxed);
        node.word.store(word & !QUEUED, Ordering::Relaxed);
        Some(Waiter(node))
    }
}

impl Drop for WaiterChain {
    fn drop(&mut self) {
        #[cfg(any(treercu_loom, treercu_shuttle))]
        if std::thread::panicking() {
            return; // The model has failed, and its execution is gone.
        }
        while self.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first_and_reusable_after_a_pop() {
        let stack = WaiterStack::default();
        let waiters: Vec<Waiter> = (0..3).map(Waiter::new).collect();
        waiters.iter().for_each(|w| stack.push(w.clone()));
        let mut chain = stack.take();
        assert!(stack.is_empty());
        let first = chain.pop().expect("three were pushed");
        assert_eq!(first.token(), 2);
        stack.push(first);
        assert_eq!(chain.pop().map(|w| w.token()), Some(1));
        drop(chain);
        assert_eq!(
            Arc::strong_count(&waiters[0].0),
            1,
            "a dropped chain gives its counts back"
        );
        drop(stack);
        assert_eq!(Arc::strong_count(&waiters[2].0), 1, "so does a dropped stack");
    }

    #[test]
    fn pushes_from_many_threads_lose_nobody() {
        let stack = WaiterStack::default();
        std::thread::scope(|scope| {
            for t in 0..4u64 {
                let stack = &stack;
                scope.spawn(move || (0..1000).for_each(|i| stack.push(Waiter::new(t * 1000 + i))));
            }
        });
        let mut seen = std::collections::BTreeSet::new();
        let mut chain = stack.take();
        while let Some(waiter) = chain.pop() {
            assert!(seen.insert(waiter.token()));
        }
        assert_eq!(seen.len(), 4000);
    }
}
