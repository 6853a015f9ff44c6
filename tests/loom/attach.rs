//! Threads that come and go while a grace period looks.

use crate::rig::{Protected, Updater, config, section};
use crate::run::{Hits, Model};
use loom::thread;
use treercu::host::model::Rig;

/// A thread attaches, reads and detaches.
fn comes_and_goes(hits: &Hits, preempt: &'static str) {
    let rig = Rig::new(&config(1, preempt));
    let shared = Protected::new();
    let thread = thread::spawn({
        let (rig, shared) = (rig.clone(), shared.clone());
        move || {
            let handle = rig.register_on(0);
            section(&handle, &shared);
            drop(handle);
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    thread.join().unwrap();
    assert_eq!(rig.scanned(), 0, "a thread that is gone is still in a scan set");
    updater.finish();
}

/// A slot changes hands: one thread leaves it, the next one reads through it.
fn slot_reused(hits: &Hits, preempt: &'static str) {
    let rig = Rig::new(&config(1, preempt));
    let shared = Protected::new();
    let first = rig.register_on(0);
    drop(first.read_lock());
    let thread = thread::spawn({
        let (rig, shared) = (rig.clone(), shared.clone());
        move || {
            section(&first, &shared);
            drop(first);
            let second = rig.register_on(0);
            section(&second, &shared);
            drop(second);
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    thread.join().unwrap();
    assert_eq!(rig.scanned(), 0, "a thread that is gone is still in a scan set");
    updater.finish();
}

fn preemptible(hits: &Hits) {
    comes_and_goes(hits, "full");
}

fn non_preemptible(hits: &Hits) {
    comes_and_goes(hits, "none");
}

fn preemptible_reused(hits: &Hits) {
    slot_reused(hits, "full");
}

fn non_preemptible_reused(hits: &Hits) {
    slot_reused(hits, "none");
}

pub const MODELS: &[Model] = &[
    Model::new("attach: preemptible", 3, preemptible),
    Model::new("attach: non-preemptible", 3, non_preemptible),
    Model::new("attach: slot reused", 2, preemptible_reused),
    Model::new("attach: slot reused, non-preemptible", 2, non_preemptible_reused),
];
