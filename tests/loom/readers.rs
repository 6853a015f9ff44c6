//! Preemptible readers against passes: enter and leave, marks, the two-word idle protocol, hotplug.

use crate::rig::{Protected, Updater, config, section};
use crate::run::{Hits, Model};
use loom::thread;
use std::sync::Arc;
use treercu::host::Handle;
use treercu::host::model::Rig;

/// What a pass knows of the reader before the model starts.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// In an extended quiescent state: in no scan set.
    Idle,
    /// In its scan set.
    Scanned,
    /// In its scan set, and found outside by a pass: the next one offers to leave it alone.
    Quiet,
}

fn reader_on(rig: &Rig, cpu: u32, before: Before) -> Handle {
    let handle = rig.register_on(cpu);
    if before != Before::Idle {
        drop(handle.read_lock());
    }
    if before == Before::Quiet {
        rig.pass(cpu);
    }
    handle
}

fn read(handle: Handle, shared: &Arc<Protected>, sections: u32) -> thread::JoinHandle<Handle> {
    let shared = shared.clone();
    thread::spawn(move || {
        for _ in 0..sections {
            section(&handle, &shared);
        }
        // Not dropped here: its slot is looked at after the last section as well.
        handle
    })
}

/// One reader and one grace period; `kthread` is the kthread's vCPU, 0 the reader's.
fn against_grace_period(hits: &Hits, before: Before, sections: u32, kthread: u32) {
    let rig = Rig::new(&config(kthread + 1, "full"));
    let shared = Protected::new();
    let reader = read(reader_on(&rig, 0, before), &shared, sections);
    let mut updater = Updater::new(&rig, kthread);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    updater.finish();
}

fn idle(hits: &Hits) {
    against_grace_period(hits, Before::Idle, 1, 0);
}

fn scanned(hits: &Hits) {
    against_grace_period(hits, Before::Scanned, 1, 0);
}

fn scanned_twice(hits: &Hits) {
    against_grace_period(hits, Before::Scanned, 2, 0);
}

fn quiet(hits: &Hits) {
    against_grace_period(hits, Before::Quiet, 1, 0);
}

fn quiet_twice(hits: &Hits) {
    against_grace_period(hits, Before::Quiet, 2, 0);
}

fn by_scan(hits: &Hits) {
    against_grace_period(hits, Before::Scanned, 1, 1);
}

fn by_scan_idle(hits: &Hits) {
    against_grace_period(hits, Before::Idle, 1, 1);
}

fn by_scan_quiet(hits: &Hits) {
    against_grace_period(hits, Before::Quiet, 2, 1);
}

/// Sections that nest: only the outermost counts.
fn nested(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let shared = Protected::new();
    let handle = reader_on(&rig, 0, Before::Scanned);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            let outer = handle.read_lock();
            drop(handle.read_lock());
            shared.read();
            drop(outer);
            handle
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 0) {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    updater.finish();
}

/// Two passes at the same time: the kthread's and another one's.
fn two_passes(hits: &Hits, before: Before, sections: u32) {
    let rig = Rig::new(&config(1, "full"));
    let shared = Protected::new();
    let reader = read(reader_on(&rig, 0, before), &shared, sections);
    let other = thread::spawn({
        let rig = rig.clone();
        move || {
            rig.pass(0);
        }
    });
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 0) {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    other.join().unwrap();
    updater.finish();
}

fn two_passes_scanned(hits: &Hits) {
    two_passes(hits, Before::Scanned, 2);
}

fn two_passes_quiet(hits: &Hits) {
    two_passes(hits, Before::Quiet, 2);
}

/// An offer that is taken up late: the thread has turned it down meanwhile and reads again, and another pass has just
/// made a new one. That one is not the first pass's to grant, or the next grace period looks at nobody.
fn late_grant(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let shared = Protected::new();
    let reader = read(reader_on(&rig, 0, Before::Quiet), &shared, 2);
    let other = thread::spawn({
        let rig = rig.clone();
        move || {
            rig.pass(0);
        }
    });
    rig.pass(0);
    let mut updater = Updater::new(&rig, 0);
    if updater.update(&shared, 0) {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    other.join().unwrap();
    updater.finish();
}

/// The reader's vCPU goes offline: the thread moves to vCPU 1, where the grace period looks next.
fn moved(hits: &Hits, before: Before, sections: u32) {
    let rig = Rig::new(&config(2, "full"));
    let shared = Protected::new();
    let reader = read(reader_on(&rig, 0, before), &shared, sections);
    let moved = rig.move_threads(0, 1);
    let mut updater = Updater::new(&rig, 1);
    if updater.update(&shared, 1) && moved {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    updater.finish();
}

fn moved_scanned(hits: &Hits) {
    moved(hits, Before::Scanned, 2);
}

fn moved_idle(hits: &Hits) {
    moved(hits, Before::Idle, 2);
}

/// The same, while the grace period runs.
fn moved_meanwhile(hits: &Hits, before: Before) {
    let rig = Rig::new(&config(2, "full"));
    let shared = Protected::new();
    let reader = read(reader_on(&rig, 0, before), &shared, 1);
    let mover = thread::spawn({
        let rig = rig.clone();
        move || {
            rig.move_threads(0, 1);
        }
    });
    let mut updater = Updater::new(&rig, 1);
    if updater.update(&shared, 1) {
        hits.hit();
    }
    let _handle = reader.join().unwrap();
    mover.join().unwrap();
    updater.finish();
}

fn moved_scanned_meanwhile(hits: &Hits) {
    moved_meanwhile(hits, Before::Scanned);
}

/// The thread is inside, and is being moved, when a pass of its old vCPU makes an offer; it leaves, and that pass takes it
/// for one of its old vCPU's.
fn moved_while_offered(hits: &Hits) {
    let rig = Rig::new(&config(2, "full"));
    let handle = reader_on(&rig, 0, Before::Quiet);
    let reader = thread::spawn(move || {
        let section = handle.read_lock();
        thread::yield_now();
        drop(section);
        handle
    });
    let mover = thread::spawn({
        let rig = rig.clone();
        move || rig.move_threads(0, 1)
    });
    rig.pass(0);
    if mover.join().unwrap() {
        hits.hit();
    }
    let handle = reader.join().unwrap();
    drop(handle);
    assert_eq!(rig.scanned(), 0, "a thread that is gone is still in a scan set");
}

fn moved_offered_meanwhile(hits: &Hits) {
    moved_meanwhile(hits, Before::Quiet);
}

pub const MODELS: &[Model] = &[
    Model::new("reader: idle", 3, idle),
    Model::new("reader: scanned", 3, scanned),
    Model::new("reader: scanned, 2 sections", 3, scanned_twice),
    Model::new("reader: offered", 3, quiet),
    Model::new("reader: offered, 2 sections", 3, quiet_twice),
    Model::new("reader: nested", 3, nested),
    Model::new("reader: by a scan", 3, by_scan),
    Model::new("reader: by a scan, idle", 3, by_scan_idle),
    Model::new("reader: by a scan, offered", 3, by_scan_quiet),
    Model::new("reader: 2 passes", 2, two_passes_scanned),
    Model::new("reader: 2 passes, offered", 2, two_passes_quiet),
    Model::new("reader: late grant", 2, late_grant),
    Model::new("hotplug: thread inside", 2, moved_scanned),
    Model::new("hotplug: thread inside, 3 preemptions", 3, moved_scanned).long(),
    Model::new("hotplug: idle thread", 3, moved_idle),
    Model::new("hotplug: meanwhile", 2, moved_scanned_meanwhile),
    Model::new("hotplug: offered, meanwhile", 2, moved_offered_meanwhile),
    Model::new("hotplug: while offered", 3, moved_while_offered).long(),
    Model::new("reader: idle, full fences", 3, idle).without_membarrier(),
    Model::new("reader: scanned, full fences", 3, scanned).without_membarrier(),
    Model::new("reader: offered, full fences", 3, quiet_twice).without_membarrier(),
];
