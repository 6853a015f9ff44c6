//! Read rows: lock, one dereference, unlock.

use super::host::{pin, thread_cpu_ns, wall_ns};
use super::ours::engine;
use super::report::{Better, Limit, Row, Sample};
use super::rounds::{Slice, interleave};
use super::shim::Reader;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use treercu::host::{Engine, Handle, RcuPtr};

/// Sections between two looks at the clock: about 0.1 ms.
const CHUNK: u64 = 100_000;
const SLICE_NS: u64 = 20_000_000;

#[inline(never)]
fn ours_handle(handle: &Handle, shared: &RcuPtr<u64>, n: u64) -> u64 {
    let reader = shared.reader(handle).expect("the same engine");
    let mut sum = 0u64;
    for _ in 0..n {
        sum = sum.wrapping_add(*reader.lock());
    }
    sum
}

#[inline(never)]
fn ours_thread(engine: &Engine, shared: &RcuPtr<u64>, n: u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..n {
        let section = engine.read_lock().expect("open");
        sum = sum.wrapping_add(*shared.load(&section));
    }
    sum
}

#[inline(never)]
fn crossbeam(handle: &crossbeam_epoch::LocalHandle, shared: &crossbeam_epoch::Atomic<u64>, n: u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..n {
        let guard = handle.pin();
        // SAFETY: never null, never replaced here.
        sum = sum.wrapping_add(*unsafe { shared.load(Ordering::Acquire, &guard).deref() });
    }
    sum
}

#[inline(never)]
fn seize(collector: &seize::Collector, shared: &std::sync::atomic::AtomicPtr<u64>, n: u64) -> u64 {
    use seize::Guard;
    let mut sum = 0u64;
    for _ in 0..n {
        let guard = collector.enter();
        // SAFETY: never null, never replaced here.
        sum = sum.wrapping_add(unsafe { *guard.protect(shared, Ordering::Acquire) });
    }
    sum
}

/// ns of CPU time for a section, with the wall time beside it: others may want the core.
fn timed(mut chunk: impl FnMut(u64) -> u64) -> Sample {
    let (cpu, wall) = (thread_cpu_ns(), wall_ns());
    let mut n = 0;
    while wall_ns() - wall < SLICE_NS {
        black_box(chunk(black_box(CHUNK)));
        n += CHUNK;
    }
    Sample {
        value: (thread_cpu_ns() - cpu) as f64 / n as f64,
        beside: vec![("wall", (wall_ns() - wall) as f64 / n as f64)],
    }
}

/// The rows for one preemption model; `first` is liburcu's flavour that ours is held against.
fn row(
    key: &'static str,
    preempt: &'static str,
    [first, second]: [&'static str; 2],
    [must, goal]: [f64; 2],
    rounds: usize,
    core: usize,
) -> Row {
    pin(&[core]);
    let engine = engine(&[
        ("nr_cpus", 2.into()),
        ("hz", 1000.into()),
        ("preempt", preempt.into()),
    ]);
    let shared = RcuPtr::new(&engine, 1u64);
    let handle = engine.register().expect("open");
    let other = crossbeam_epoch::Collector::new();
    let other_handle = other.register();
    let other_shared = crossbeam_epoch::Atomic::new(1u64);
    let collector = seize::Collector::new();
    let mut value = 1u64;
    let seize_shared = std::sync::atomic::AtomicPtr::new(&raw mut value);
    let mut notes = vec![
        "CPU time of the thread, pinned to one core; loops compiled as one with lock and unlock, liburcu's in a C program"
            .to_owned(),
    ];
    let reader = match Reader::start() {
        Ok(reader) => Some(RefCell::new(reader)),
        Err(why) => {
            notes.push(format!("liburcu skipped: {why}"));
            None
        }
    };
    let mut slices: Vec<(&'static str, Slice<'_>)> = vec![(
        "treercu, handle",
        Box::new(|| timed(|n| ours_handle(&handle, &shared, n))),
    )];
    if let Some(reader) = &reader {
        for flavour in [first, second] {
            let name = if flavour == "memb" {
                "liburcu-memb"
            } else {
                "liburcu-qsbr"
            };
            slices.push((
                name,
                Box::new(move || {
                    let slice = reader.borrow_mut().slice(flavour, CHUNK, SLICE_NS);
                    Sample {
                        value: slice.cpu_ns,
                        beside: vec![("wall", slice.wall_ns)],
                    }
                }),
            ));
        }
    }
    slices.push((
        "treercu, thread-local",
        Box::new(|| timed(|n| ours_thread(&engine, &shared, n))),
    ));
    slices.push((
        "crossbeam-epoch",
        Box::new(|| timed(|n| crossbeam(&other_handle, &other_shared, n))),
    ));
    slices.push((
        "seize",
        Box::new(|| timed(|n| seize(&collector, &seize_shared, n))),
    ));
    let competitors = interleave(rounds, slices);
    // SAFETY: nobody else has it.
    drop(unsafe { other_shared.into_owned() });
    let skipped = reader.is_none();
    Row {
        key,
        title: if preempt == "full" {
            "read lock+unlock, one dereference, preempt=full"
        } else {
            "read lock+unlock, one dereference, preempt=none"
        },
        configuration: format!(
            "preempt={preempt}, nr_cpus=2, hz=1000, no grace period in progress; crossbeam-epoch by LocalHandle, seize by \
             Collector::enter"
        ),
        unit: "ns",
        better: Better::Lower,
        competitors,
        must: if skipped { Limit::None } else { Limit::Ratio(must) },
        goal: if skipped { Limit::None } else { Limit::Ratio(goal) },
        conditions: Vec::new(),
        skipped: None,
        notes,
    }
}

pub fn full(rounds: usize, core: usize) -> Row {
    row("read-full", "full", ["memb", "qsbr"], [1.3, 0.8], rounds, core)
}

pub fn none(rounds: usize, core: usize) -> Row {
    row("read-none", "none", ["qsbr", "memb"], [1.2, 1.0], rounds, core)
}
