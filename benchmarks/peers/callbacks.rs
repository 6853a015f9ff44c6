//! Callbacks: one thread queues them as fast as it can, and they are run where each implementation runs them.

use super::host::{pin, process_cpu_ns, wall_ns};
use super::ours::engine;
use super::report::{Better, Condition, Limit, Row, Sample, figure, median};
use super::rounds::{Slice, interleave};
use super::shim::Urcu;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

const SLICE_NS: u64 = 50_000_000;
/// Callbacks queued between two looks at clock and backlog.
const STEP: u64 = 64;
/// Heads that liburcu's callbacks lie in. More would only cost it cache misses; fewer would hold it up.
const RING: u64 = 1 << 18;

/// Callbacks that were run. Only the one thread that runs them writes.
static RAN: AtomicU64 = AtomicU64::new(0);

fn count() {
    RAN.store(RAN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A slice: queue `STEP` callbacks at a time until it is over, then wait until all have run. `throttle`: not more than
/// that many in flight.
fn slice(throttle: u64, mut queue: impl FnMut(u64, u64), barrier: impl FnOnce()) -> (Sample, u64) {
    let before = RAN.load(Ordering::Relaxed);
    let (began, cpu) = (wall_ns(), process_cpu_ns());
    let (mut queued, mut peak) = (0, 0);
    while wall_ns() - began < SLICE_NS {
        queue(queued, STEP);
        queued += STEP;
        let mut backlog = queued - (RAN.load(Ordering::Relaxed) - before);
        peak = backlog.max(peak);
        while backlog > throttle {
            std::thread::yield_now();
            backlog = queued - (RAN.load(Ordering::Relaxed) - before);
        }
    }
    let enqueue = wall_ns() - began;
    barrier();
    let wall = wall_ns() - began;
    while RAN.load(Ordering::Relaxed) - before < queued {
        std::thread::yield_now();
    }
    let sample = Sample {
        value: queued as f64 / wall as f64 * 1e3,
        beside: vec![
            ("enqueue ns", enqueue as f64 / queued as f64),
            ("cpu ns", (process_cpu_ns() - cpu) as f64 / queued as f64),
            ("peak backlog", peak as f64),
        ],
    };
    (sample, peak)
}

/// The calling thread's registration with liburcu-memb, which `call_rcu()` reads under.
struct Registered<'a>(&'a Urcu);

impl<'a> Registered<'a> {
    fn new(urcu: &'a Urcu) -> Self {
        // SAFETY: no other row leaves the thread registered.
        unsafe { (urcu.memb_register)() };
        Registered(urcu)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // SAFETY: registered, outside any section.
        unsafe { (self.0.memb_unregister)() };
    }
}

/// Callbacks that count, without allocation.
pub fn row(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> Row {
    pin(cores);
    let engine = engine(&[("nr_cpus", 1.into()), ("hz", 1000.into())]);
    let mut handle = engine.register().expect("open");
    // (peak backlog, allowed), a slice each.
    let backlogs = RefCell::new(Vec::new());
    let ours = || {
        // A grace period as a callback sees it: how long a lone one waits, from the call to being run.
        let (before, called) = (RAN.load(Ordering::Relaxed), wall_ns());
        handle.call(count).expect("open");
        while RAN.load(Ordering::Relaxed) == before {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
        let gp_ms = (wall_ns() - called) as f64 / 1e6;
        let handle = RefCell::new(&mut handle);
        let (mut sample, peak) = slice(
            u64::MAX,
            |_, n| {
                let handle = handle.borrow();
                for _ in 0..n {
                    handle.call(count).expect("open");
                }
            },
            || handle.borrow_mut().barrier().expect("open"),
        );
        let allowed = sample.value * 1e3 * gp_ms * 3.0;
        backlogs.borrow_mut().push((peak as f64, allowed));
        sample.beside.push(("lone callback ms", gp_ms));
        sample.beside.push(("rate x 3 of those", allowed));
        sample
    };
    let mut slices: Vec<(&'static str, Slice<'_>)> = vec![("treercu", Box::new(ours))];
    if let Ok(urcu) = &urcu {
        // SAFETY: no ring is in use.
        assert_eq!(unsafe { (urcu.ring)(RING) }, 1, "memory for the ring");
        let place = std::cell::Cell::new(0u64);
        slices.push((
            "liburcu-memb",
            Box::new(move || {
                let _registered = Registered::new(urcu);
                slice(
                    RING - 2 * STEP,
                    // SAFETY: registered; the heads' callbacks have run, see the throttle.
                    |_, n| unsafe {
                        (urcu.memb_call)(place.get(), n, RAN.as_ptr());
                        place.set(place.get() + n);
                    },
                    // SAFETY: registered, outside any section.
                    || unsafe { (urcu.memb_barrier)() },
                )
                .0
            }),
        ));
    }
    slices.push((
        "crossbeam-epoch, same thread",
        Box::new(|| crossbeam(|guard| guard.defer(count))),
    ));
    let competitors = interleave(rounds, slices);
    let backlogs = backlogs.into_inner();
    let within = backlogs.iter().filter(|(peak, allowed)| peak <= allowed).count();
    let conditions = vec![Condition {
        text: format!(
            "peak backlog {} <= rate x 3 grace periods as a lone callback sees them {} (medians; {within} of {} slices)",
            figure(median(&backlogs.iter().map(|one| one.0).collect::<Vec<_>>())),
            figure(median(&backlogs.iter().map(|one| one.1).collect::<Vec<_>>())),
            backlogs.len()
        ),
        met: within * 2 > backlogs.len(),
    }];
    Row {
        key: "callbacks",
        title: "callbacks queued by one thread, and run",
        configuration: "nr_cpus=1, hz=1000, default limits; slices of 50 ms and then a barrier; callbacks add to a counter; no \
                        allocation: a closure without captures, liburcu's heads in a ring of 2^18"
            .to_owned(),
        unit: "M/s",
        better: Better::Higher,
        competitors,
        must: if urcu.is_ok() { Limit::Ratio(1.5) } else { Limit::None },
        goal: Limit::Value(20.0),
        conditions,
        skipped: None,
        notes: urcu
            .err()
            .map(|why| format!("liburcu skipped: {why}"))
            .into_iter()
            .collect(),
    }
}

/// crossbeam-epoch has no thread of its own: what is deferred runs in the threads that pin.
fn crossbeam(defer: impl Fn(&crossbeam_epoch::Guard)) -> Sample {
    let collector = crossbeam_epoch::Collector::new();
    let handle = collector.register();
    slice(
        u64::MAX,
        |_, n| {
            for _ in 0..n {
                defer(&handle.pin());
            }
        },
        || {
            // What is left runs as epochs go by.
            for _ in 0..1000 {
                handle.pin().flush();
            }
        },
    )
    .0
}

/// Objects that are allocated, retired and freed.
pub fn free(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> Row {
    struct Object {
        _value: [u64; 2],
    }
    impl Drop for Object {
        fn drop(&mut self) {
            count();
        }
    }
    fn object() -> Box<Object> {
        Box::new(Object { _value: [0; 2] })
    }
    pin(cores);
    let engine = engine(&[("nr_cpus", 1.into()), ("hz", 1000.into())]);
    let mut handle = engine.register().expect("open");
    let ours = || {
        let handle = RefCell::new(&mut handle);
        slice(
            u64::MAX,
            |_, n| {
                let handle = handle.borrow();
                for _ in 0..n {
                    handle.defer_drop(object()).expect("open");
                }
            },
            || handle.borrow_mut().barrier().expect("open"),
        )
        .0
    };
    let mut slices: Vec<(&'static str, Slice<'_>)> = vec![("treercu", Box::new(ours))];
    if let Ok(urcu) = &urcu {
        slices.push((
            "liburcu-memb",
            Box::new(move || {
                let _registered = Registered::new(urcu);
                slice(
                    u64::MAX,
                    // SAFETY: `RAN` is only written by the callback thread meanwhile.
                    |_, n| unsafe { (urcu.memb_call_free)(n, RAN.as_ptr()) },
                    // SAFETY: outside any section.
                    || unsafe { (urcu.memb_barrier)() },
                )
                .0
            }),
        ));
    }
    slices.push((
        "crossbeam-epoch, same thread",
        Box::new(|| {
            crossbeam(|guard| {
                let owned = crossbeam_epoch::Owned::<Object>::from(object()).into_shared(guard);
                // SAFETY: nobody else has it.
                unsafe { guard.defer_destroy(owned) };
            })
        }),
    ));
    Row {
        key: "callbacks-free",
        title: "the same, each frees an object of its own",
        configuration: "nr_cpus=1, hz=1000, default limits; 16 bytes of payload, malloc and free as the system has them; \
                        liburcu: head and payload in one object"
            .to_owned(),
        unit: "M/s",
        better: Better::Higher,
        competitors: interleave(rounds, slices),
        must: Limit::None,
        goal: Limit::None,
        conditions: Vec::new(),
        skipped: None,
        notes: urcu
            .err()
            .map(|why| format!("liburcu skipped: {why}"))
            .into_iter()
            .collect(),
    }
}
