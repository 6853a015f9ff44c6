//! Non-preemptible readers: asked, they answer; and the context tracking of a CPU.

use crate::rig::{Protected, Updater, config, section};
use crate::run::{Hits, Model};
use loom::sync::atomic::fence;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use treercu::host::model::{Kthread, Rig};
use treercu::tree::watching::ContextTracking;

/// Sections with quiescent states between them.
fn answers(hits: &Hits) {
    let rig = Rig::new(&config(1, "none"));
    let shared = Protected::new();
    let mut handle = rig.register_on(0);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
            handle.quiescent();
            section(&handle, &shared);
            handle.quiescent();
            drop(handle);
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    reader.join().unwrap();
    updater.finish();
}

/// A tick looks at threads that have been asked already.
fn ticked(hits: &Hits) {
    let rig = Rig::new(&config(1, "none"));
    let shared = Protected::new();
    let mut handle = rig.register_on(0);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
            handle.quiescent();
            handle
        }
    });
    let mut updater = Updater::new(&rig, 0);
    let mut over = updater.update(&shared, 0);
    if !over {
        rig.tick(0);
        over = updater.go_on(&shared, 1);
    }
    if over {
        hits.hit();
    }
    drop(reader.join().unwrap());
    updater.finish();
}

/// Somebody else than the kthread finds the grace period over. The kthread may not have taken a lock since the last
/// report.
fn polled(hits: &Hits) {
    let rig = Rig::new(&config(1, "none"));
    let shared = Protected::new();
    let mut handle = rig.register_on(0);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
            handle.quiescent();
            handle
        }
    });
    shared.unpublish();
    let cookie = rig.start_poll(0);
    let mut kthread = Kthread::new(&rig, 0);
    let kthread = thread::spawn(move || {
        kthread.run(1);
        kthread
    });
    // A thread of its own, which may run first whenever another one has to wait.
    let poller = thread::spawn({
        let (rig, shared, hits) = (rig.clone(), shared.clone(), hits.clone());
        move || {
            if rig.poll(cookie) {
                shared.free();
                hits.hit();
            }
        }
    });
    drop(reader.join().unwrap());
    poller.join().unwrap();
    let mut kthread = kthread.join().unwrap();
    kthread.run(3);
    assert!(rig.poll(cookie), "the grace period never ends");
}

/// A thread that blocks, which is a quiescent state, and goes on.
fn blocks(hits: &Hits) {
    let rig = Rig::new(&config(1, "none"));
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let reader = thread::spawn({
        let (rig, shared) = (rig.clone(), shared.clone());
        move || {
            section(&handle, &shared);
            rig.block(&handle);
            section(&handle, &shared);
            drop(handle);
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    reader.join().unwrap();
    updater.finish();
}

/// A CPU that passes through idle between two sections, as a simulated one does.
fn watching(hits: &Hits) {
    let shared = Protected::new();
    let tracking = Arc::new(ContextTracking::default());
    let cpu = thread::spawn({
        let (shared, tracking) = (shared.clone(), tracking.clone());
        move || {
            shared.read();
            tracking.idle_enter();
            tracking.idle_exit();
            shared.read();
        }
    });
    shared.unpublish();
    // In place of the lock of the CPU's leaf.
    fence(SeqCst);
    let first = tracking.snap();
    if first.in_eqs() || tracking.snap().passed_eqs_since(first) {
        shared.free();
        hits.hit();
    }
    cpu.join().unwrap();
}

/// An interrupt out of idle reads.
fn watching_interrupt(hits: &Hits) {
    let shared = Protected::new();
    let tracking = Arc::new(ContextTracking::default());
    tracking.idle_enter();
    let cpu = thread::spawn({
        let (shared, tracking) = (shared.clone(), tracking.clone());
        move || {
            tracking.irq_enter();
            shared.read();
            tracking.irq_exit();
        }
    });
    shared.unpublish();
    fence(SeqCst);
    let first = tracking.snap();
    if first.in_eqs() || tracking.snap().passed_eqs_since(first) {
        shared.free();
        hits.hit();
    }
    cpu.join().unwrap();
}

pub const MODELS: &[Model] = &[
    Model::new("quiescent: asked", 2, answers),
    Model::new("quiescent: blocks", 2, blocks),
    Model::new("quiescent: ticked", 2, ticked),
    Model::new("quiescent: polled", 2, polled),
    Model::new("watching: through idle", 3, watching),
    Model::new("watching: interrupt", 3, watching_interrupt),
];
