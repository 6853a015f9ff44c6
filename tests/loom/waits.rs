//! Blocking: no wake-up is lost, and a late completion ends no later wait.

use crate::run::{Hits, Model};
use loom::sync::atomic::AtomicBool;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use treercu::host::model::Waiting;

fn completed(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let number = wait.begin();
    let completer = thread::spawn({
        let wait = wait.clone();
        move || wait.complete(number, 9)
    });
    assert_eq!(wait.block(number, || false), Some(9));
    hits.hit();
    completer.join().unwrap();
}

/// The first wait was given up; its completion and the second one's come in any order.
fn late_completion(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let first = wait.begin();
    let late = thread::spawn({
        let wait = wait.clone();
        move || wait.complete(first, 5)
    });
    let second = wait.begin();
    let over = Arc::new(AtomicBool::new(false));
    let completer = thread::spawn({
        let (wait, over) = (wait.clone(), over.clone());
        move || {
            over.store(true, SeqCst);
            wait.complete(second, 9);
        }
    });
    assert!(wait.block(second, || false).is_some());
    assert!(over.load(SeqCst), "a late completion ended a later wait");
    hits.hit();
    late.join().unwrap();
    completer.join().unwrap();
    assert!(
        wait.served(second).is_some(),
        "a late completion undid a later one"
    );
}

/// Somebody sets a flag and has the thread look at it.
fn kicked(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let cancel = Arc::new(AtomicBool::new(false));
    let number = wait.begin();
    let kicker = thread::spawn({
        let (wait, cancel) = (wait.clone(), cancel.clone());
        move || {
            cancel.store(true, SeqCst);
            wait.kick();
        }
    });
    assert_eq!(wait.block(number, || cancel.load(SeqCst)), None);
    hits.hit();
    kicker.join().unwrap();
}

/// The second reason to look comes while the thread is still busy with the first.
fn kicked_twice(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let reasons = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let number = wait.begin();
    let kicker = thread::spawn({
        let (wait, reasons) = (wait.clone(), reasons.clone());
        move || {
            for reason in reasons.iter() {
                reason.store(true, Relaxed);
                wait.kick();
            }
        }
    });
    for reason in reasons.iter() {
        assert_eq!(wait.block(number, || reason.load(Relaxed)), None);
    }
    hits.hit();
    kicker.join().unwrap();
}

/// In the crowd; the number of the grace period it waits for is the mark.
fn crowd_completed(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let number = wait.begin_in_crowd(9);
    let completer = thread::spawn({
        let wait = wait.clone();
        move || wait.complete(number, 9)
    });
    assert_eq!(wait.block_in_crowd(number, || false), Some(9));
    hits.hit();
    completer.join().unwrap();
}

fn crowd_kicked(hits: &Hits) {
    let wait = Arc::new(Waiting::default());
    let cancel = Arc::new(AtomicBool::new(false));
    let number = wait.begin_in_crowd(9);
    let kicker = thread::spawn({
        let (wait, cancel) = (wait.clone(), cancel.clone());
        move || {
            cancel.store(true, SeqCst);
            wait.kick();
        }
    });
    assert_eq!(wait.block_in_crowd(number, || cancel.load(SeqCst)), None);
    hits.hit();
    kicker.join().unwrap();
}

pub const MODELS: &[Model] = &[
    Model::new("wait: completed", 3, completed),
    Model::new("wait: late completion", 2, late_completion),
    Model::new("wait: kicked", 3, kicked),
    Model::new("wait: kicked twice", 3, kicked_twice),
    Model::new("wait: crowd", 3, crowd_completed),
    Model::new("wait: crowd, kicked", 3, crowd_kicked),
];
