//! The flood: many threads, each in a loop around `synchronize_rcu()`.

use super::host::{pin, process_cpu_ns, wall_ns};
use super::ours::engine_with;
use super::report::{Better, Competitor, Condition, Limit, Row, Sample, figure};
use super::rounds::{Slice, interleave};
use super::shim::Urcu;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use treercu::host::{Engine, GpDriver, Handle};

const THREADS: usize = 64;
const SLICE_NS: u64 = 300_000_000;

/// What the workers are told to flood.
const STOP: usize = usize::MAX;

/// One slice's figures.
#[derive(Clone)]
struct Flood {
    /// Calls that ended in the slice, by thread.
    calls: Vec<u64>,
    latency: Histogram<u64>,
}

/// What all threads share.
struct Crew {
    which: AtomicUsize,
    deadline: AtomicU64,
    start: Barrier,
    end: Barrier,
    results: Mutex<Flood>,
}

/// Ways for a thread to be in the flood: enter, one call, leave.
struct Ways {
    /// By [`OURS`].
    ours: Vec<Handle>,
    urcu: Option<Urcu>,
}

/// Our engines: name, latch, driver.
const OURS: [(&str, &str, GpDriver); 3] = [
    ("treercu, callers drive", "off", GpDriver::Callers),
    ("treercu, kthread drives", "off", GpDriver::Kthread),
    ("treercu, latch merged", "merged", GpDriver::Callers),
];
const QSBR: usize = OURS.len();
const MEMB: usize = OURS.len() + 1;

impl Crew {
    fn worker(&self, index: usize, mut ways: Ways) {
        if let Some(urcu) = &ways.urcu {
            // SAFETY: plain calls on this thread; each flavour's rules are kept below.
            unsafe {
                (urcu.memb_register)();
                (urcu.qsbr_register)();
                (urcu.qsbr_offline)();
            }
        }
        loop {
            self.start.wait();
            let which = self.which.load(Ordering::SeqCst);
            if which == STOP {
                break;
            }
            let deadline = self.deadline.load(Ordering::SeqCst);
            let (calls, latency) = match (which, ways.urcu) {
                (ours, _) if ours < OURS.len() => closed_loop(deadline, || {
                    ways.ours[ours].synchronize().expect("open");
                }),
                // SAFETY: registered; online while it takes part, as a thread that reads between its calls is.
                (QSBR, Some(urcu)) => unsafe {
                    (urcu.qsbr_online)();
                    let result = closed_loop(deadline, || (urcu.qsbr_synchronize)());
                    (urcu.qsbr_offline)();
                    result
                },
                // SAFETY: registered.
                (MEMB, Some(urcu)) => closed_loop(deadline, || unsafe { (urcu.memb_synchronize)() }),
                _ => unreachable!("only what was compiled is flooded"),
            };
            {
                let mut results = self.results.lock().expect("no panics");
                results.calls[index] = calls;
                results.latency.add(&latency).expect("the same bounds");
            }
            self.end.wait();
        }
        if let Some(urcu) = &ways.urcu {
            // SAFETY: as above.
            unsafe {
                (urcu.memb_unregister)();
                (urcu.qsbr_unregister)();
            }
        }
    }

    fn slice(&self, which: usize) -> (Flood, f64, f64) {
        *self.results.lock().expect("no panics") = empty();
        let (began, cpu) = (wall_ns(), process_cpu_ns());
        self.deadline.store(began + SLICE_NS, Ordering::SeqCst);
        self.which.store(which, Ordering::SeqCst);
        self.start.wait();
        self.end.wait();
        let cpu = (process_cpu_ns() - cpu) as f64;
        (
            self.results.lock().expect("no panics").clone(),
            SLICE_NS as f64,
            cpu,
        )
    }
}

fn empty() -> Flood {
    Flood {
        calls: vec![0; THREADS],
        latency: histogram(),
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 2).expect("bounds")
}

/// Calls until the deadline; the one that ends after it does not count.
fn closed_loop(deadline: u64, mut call: impl FnMut()) -> (u64, Histogram<u64>) {
    let mut latency = histogram();
    let mut calls = 0;
    let mut before = wall_ns();
    while before < deadline {
        call();
        let now = wall_ns();
        latency.saturating_record(now - before);
        calls += u64::from(now < deadline);
        before = now;
    }
    (calls, latency)
}

fn open(latch: &str, driver: GpDriver) -> Engine {
    let tunables = [
        ("nr_cpus", 2.into()),
        ("hz", 1000.into()),
        ("jiffies_till_first_fqs", 0.into()),
        ("early_qs", true.into()),
        ("rcu_normal_wake_from_gp", 1.into()),
        ("sr_normal_latch", latch.into()),
    ];
    engine_with(&tunables, driver)
}

/// Both flood rows.
pub fn rows(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> [Row; 2] {
    pin(cores);
    let engines = OURS.map(|(_, latch, driver)| open(latch, driver));
    let crew = Crew {
        which: AtomicUsize::new(STOP),
        deadline: AtomicU64::new(0),
        start: Barrier::new(THREADS + 1),
        end: Barrier::new(THREADS + 1),
        results: Mutex::new(empty()),
    };
    let mut names: Vec<(usize, &'static str)> = OURS
        .iter()
        .enumerate()
        .map(|(which, ours)| (which, ours.0))
        .collect();
    let urcu_ready = urcu.as_ref().ok().copied();
    if urcu_ready.is_some() {
        names.extend([(QSBR, "liburcu-qsbr"), (MEMB, "liburcu-memb")]);
    }
    let totals: Vec<RefCell<Flood>> = names.iter().map(|_| RefCell::new(empty())).collect();
    let fewest: Vec<RefCell<u64>> = names.iter().map(|_| RefCell::new(u64::MAX)).collect();
    let mut competitors = std::thread::scope(|scope| {
        for index in 0..THREADS {
            let (crew, engines) = (&crew, &engines);
            std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn_scoped(scope, move || {
                    let ways = Ways {
                        ours: engines.iter().map(|one| one.register().expect("open")).collect(),
                        urcu: urcu_ready,
                    };
                    crew.worker(index, ways);
                })
                .expect("a thread");
        }
        let slices = names
            .iter()
            .enumerate()
            .map(|(at, &(which, name))| {
                let (crew, total, fewest) = (&crew, &totals[at], &fewest[at]);
                let slice: Slice<'_> = Box::new(move || {
                    let (flood, wall, cpu) = crew.slice(which);
                    let calls: u64 = flood.calls.iter().sum();
                    let mut total = total.borrow_mut();
                    for (sum, calls) in total.calls.iter_mut().zip(&flood.calls) {
                        *sum += calls;
                    }
                    total.latency.add(&flood.latency).expect("the same bounds");
                    let least = flood.calls.iter().min().copied().unwrap_or(0);
                    let mut fewest = fewest.borrow_mut();
                    *fewest = least.min(*fewest);
                    Sample {
                        value: calls as f64 / wall * 1e6,
                        beside: vec![
                            ("p50 us", flood.latency.value_at_quantile(0.5) as f64 / 1e3),
                            ("p99 us", flood.latency.value_at_quantile(0.99) as f64 / 1e3),
                            ("fewest by a thread", least as f64),
                            ("cpu us/call", cpu / calls.max(1) as f64 / 1e3),
                        ],
                    }
                });
                (name, slice)
            })
            .collect();
        let competitors = interleave(rounds, slices);
        crew.which.store(STOP, Ordering::SeqCst);
        crew.start.wait();
        competitors
    });
    for (at, one) in competitors.iter_mut().enumerate() {
        let total = totals[at].borrow();
        one.facts = vec![
            (
                "p99 us over all",
                total.latency.value_at_quantile(0.99) as f64 / 1e3,
            ),
            ("max us", total.latency.max() as f64 / 1e3),
            ("fewest in a slice", *fewest[at].borrow() as f64),
            (
                "fewest/mean over all",
                *total.calls.iter().min().unwrap_or(&0) as f64
                    / (total.calls.iter().sum::<u64>() as f64 / THREADS as f64),
            ),
        ];
    }
    let p99 = |name: &str| {
        competitors
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.facts[0].1)
    };
    let fewest_of = |name: &str| {
        competitors
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.facts[2].1)
    };
    let mut conditions = vec![Condition {
        text: "none of ours starved: every thread got through in every slice".to_owned(),
        met: fewest_of(OURS[0].0).is_some_and(|fewest| fewest >= 1.0),
    }];
    if let (Some(ours), Some(qsbr)) = (p99(OURS[0].0), p99("liburcu-qsbr")) {
        conditions.push(Condition {
            text: format!(
                "p99 over all {} us <= 2 x qsbr's {} us",
                figure(ours),
                figure(qsbr)
            ),
            met: ours <= 2.0 * qsbr,
        });
    }
    let configuration = |latch: &str| {
        format!(
            "64 threads on {} cores, closed loop, slices of 300 ms; nr_cpus=2, hz=1000, jiffies_till_first_fqs=0, early_qs, \
             rcu_normal_wake_from_gp=1, sr_normal_latch={latch}, preempt=full; qsbr threads online; host option gp_driver: \
             callers carry out the kthread's steps (beside it: the kthread's own thread does)",
            cores.len()
        )
    };
    let skipped = urcu.err();
    let pick = |order: &[&str]| -> Vec<Competitor> {
        order
            .iter()
            .filter_map(|name| competitors.iter().find(|one| one.name == *name).cloned())
            .collect()
    };
    let missing: Vec<String> = skipped
        .iter()
        .map(|why| format!("liburcu skipped: {why}"))
        .collect();
    let limit = |limit| if skipped.is_some() { Limit::None } else { limit };
    [
        Row {
            key: "flood",
            title: "flood of synchronize_rcu(), 64 threads",
            configuration: configuration("off"),
            unit: "k calls/s",
            better: Better::Higher,
            competitors: pick(&[OURS[0].0, "liburcu-qsbr", "liburcu-memb", OURS[1].0]),
            must: limit(Limit::Ratio(1.0)),
            goal: limit(Limit::Ratio(2.0)),
            conditions,
            skipped: None,
            notes: missing.clone(),
        },
        Row {
            key: "flood-latch",
            title: "the same with the merged latch",
            configuration: configuration("merged"),
            unit: "k calls/s",
            better: Better::Higher,
            competitors: pick(&[OURS[2].0, "liburcu-qsbr", OURS[0].0]),
            must: Limit::None,
            goal: Limit::None,
            conditions: Vec::new(),
            skipped: None,
            notes: [
                missing,
                vec![
                    "with 64 callers in flight the latch closes; calls then wait by callback, for a tick, a grace period \
                     and a tick: one call a thread in about two jiffies, until none of the counted ones is left"
                        .to_owned(),
                ],
            ]
            .concat(),
        },
    ]
}
