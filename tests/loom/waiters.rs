//! The stack of `synchronize_rcu()` callers, alone and with its grace periods.

use crate::run::{Hits, Model};
use loom::thread;
use std::sync::Arc;
use treercu::tree::waiters::{Waiter, WaiterStack};

/// Two push while one takes: nobody is lost, nobody comes twice, and each comes with its token.
fn pushes_and_takes(hits: &Hits) {
    let stack = Arc::new(WaiterStack::default());
    let pushers: Vec<_> = [5u64, 9]
        .into_iter()
        .map(|token| {
            let stack = stack.clone();
            thread::spawn(move || stack.push(Waiter::new(token)))
        })
        .collect();
    let mut tokens = Vec::new();
    let mut take = || {
        if stack.is_empty() {
            return 0;
        }
        let mut chain = stack.take();
        let mut taken = 0;
        while let Some(waiter) = chain.pop() {
            tokens.push(waiter.token());
            taken += 1;
        }
        taken
    };
    // So that others may come first without being counted as a preemption.
    thread::yield_now();
    if take() > 0 {
        hits.hit();
    }
    for pusher in pushers {
        pusher.join().unwrap();
    }
    take();
    tokens.sort_unstable();
    assert_eq!(tokens, [5, 9], "a caller was lost, or came twice");
}

/// A caller takes its node back for its next wait as soon as it was completed.
fn reused(hits: &Hits) {
    let stack = Arc::new(WaiterStack::default());
    let other = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let pusher = thread::spawn({
        let (stack, other) = (stack.clone(), other.clone());
        move || {
            let mut mine = Waiter::new(1);
            stack.push(mine.clone());
            other.store(true, std::sync::atomic::Ordering::Release);
            // Where it still is on the stack it stays there under its old token.
            mine.renew(2);
            stack.push(mine);
        }
    });
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut chain = stack.take();
        while let Some(waiter) = chain.pop() {
            tokens.push(waiter.token());
        }
    }
    if tokens.len() == 2 {
        hits.hit();
    }
    pusher.join().unwrap();
    let mut chain = stack.take();
    while let Some(waiter) = chain.pop() {
        tokens.push(waiter.token());
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [1, 2], "a wait was lost, or came twice");
}

pub const MODELS: &[Model] = &[
    Model::new("waiters: push and take", 3, pushes_and_takes),
    Model::new("waiters: node reused", 3, reused),
];
