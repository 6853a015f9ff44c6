//! Expedited grace periods, driven by their callers; their waits block for real, so that a lost wake-up fails the
//! model.

use crate::rig::{Protected, config, section};
use crate::run::{Hits, Model};
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use treercu::host::model::Rig;
use treercu::tree::HandOff;
use treercu::tree::waiters::Waiter;

/// A reader, and a caller that may be in a scan set itself.
fn with_reader(hits: &Hits, preempt: &'static str, reader_scanned: bool, caller_scanned: bool) {
    let rig = Rig::new(&config(1, preempt));
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let mut caller = rig.register_on(0);
    if reader_scanned {
        drop(handle.read_lock());
    }
    if caller_scanned {
        drop(caller.read_lock());
    }
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
        }
    });
    shared.unpublish();
    caller.synchronize_expedited().expect("an open engine");
    shared.free();
    hits.hit();
    reader.join().unwrap();
}

fn idle(hits: &Hits) {
    with_reader(hits, "full", false, false);
}

fn scanned(hits: &Hits) {
    with_reader(hits, "full", true, false);
}

fn caller_scanned(hits: &Hits) {
    with_reader(hits, "full", false, true);
}

fn both_scanned(hits: &Hits) {
    with_reader(hits, "full", true, true);
}

fn non_preemptible(hits: &Hits) {
    with_reader(hits, "none", true, true);
}

/// Two callers: one drives, the other sleeps or drives after it.
fn two_callers(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let (one, two) = (Protected::new(), Protected::new());
    let (mut first, mut second) = (rig.register_on(0), rig.register_on(0));
    let other = thread::spawn({
        let (one, two) = (one.clone(), two.clone());
        move || {
            // A section of its own first: it reads what the other one frees.
            section(&second, &one);
            two.unpublish();
            second.synchronize_expedited().expect("an open engine");
            two.free();
        }
    });
    section(&first, &two);
    one.unpublish();
    first.synchronize_expedited().expect("an open engine");
    one.free();
    hits.hit();
    other.join().unwrap();
}

/// Three callers of which two sleep: on a node, and for the mutex.
fn three_callers(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let mut handle = rig.register_on(0);
            thread::spawn(move || {
                handle.synchronize_expedited().expect("an open engine");
            })
        })
        .collect();
    let mut handle = rig.register_on(0);
    handle.synchronize_expedited().expect("an open engine");
    hits.hit();
    for other in others {
        other.join().unwrap();
    }
}

/// Somebody polls: it finds that a grace period has ended by a look at its number, and nobody wakes it.
fn polled(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let poller = rig.register_on(0);
    let mut caller = rig.register_on(0);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
            handle
        }
    });
    let driver = thread::spawn(move || {
        caller.synchronize_expedited().expect("an open engine");
    });
    shared.unpublish();
    let cookie = poller.get_state_full();
    // So that the others may come first without being counted as a preemption.
    thread::yield_now();
    if poller.poll_state_full(cookie) {
        shared.free();
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    driver.join().unwrap();
}

/// `exp_mutex` by itself: what one owner does comes before what the next one does, and nobody in its queue is forgotten.
fn mutex(hits: &Hits) {
    struct Locked {
        mutex: HandOff,
        owned: UnsafeCell<u32>,
        completed: [AtomicBool; 2],
    }
    fn visit(locked: &Locked, me: u64) {
        if !locked.mutex.lock_or_queue(&Waiter::new(me)) {
            while !locked.completed[me as usize].load(Acquire) {
                thread::yield_now();
            }
        }
        // SAFETY: the model checker proves that nobody else is here, or fails.
        locked.owned.with_mut(|owned| unsafe { *owned += 1 });
        if let Some(next) = locked.mutex.unlock() {
            locked.completed[next.token() as usize].store(true, Release);
        }
    }
    let locked = Arc::new(Locked {
        mutex: HandOff::default(),
        owned: UnsafeCell::new(0),
        completed: [AtomicBool::new(false), AtomicBool::new(false)],
    });
    let other = thread::spawn({
        let locked = locked.clone();
        move || visit(&locked, 1)
    });
    if locked.mutex.try_lock() {
        // SAFETY: as in `visit`.
        locked.owned.with_mut(|owned| unsafe { *owned += 1 });
        if let Some(next) = locked.mutex.unlock() {
            locked.completed[next.token() as usize].store(true, Release);
            hits.hit();
        }
    }
    other.join().unwrap();
    assert!(locked.mutex.try_lock(), "nobody has it, and nobody can get it");
}

pub const MODELS: &[Model] = &[
    Model::new("expedited: idle reader", 3, idle),
    Model::new("expedited: scanned reader", 3, scanned),
    Model::new("expedited: scanned caller", 3, caller_scanned),
    Model::new("expedited: both scanned", 2, both_scanned),
    Model::new("expedited: non-preemptible", 2, non_preemptible),
    Model::new("expedited: polled", 2, polled),
    Model::new("expedited: mutex", 3, mutex),
    Model::new("expedited: 2 callers", 2, two_callers),
    Model::new("expedited: 3 callers", 2, three_callers),
    Model::new("expedited: idle, full fences", 3, idle).without_membarrier(),
    Model::new("expedited: scanned, full fences", 3, scanned).without_membarrier(),
];
