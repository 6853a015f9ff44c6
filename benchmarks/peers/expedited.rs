//! Expedited grace periods, driven by the caller: with nobody in the way, with one reader, with two.

use super::floor::while_running;
use super::host::{membarrier, pin};
use super::ours::{engine, expedited};
use super::report::{Better, Limit, Row, Sample};
use super::rounds::{Slice, interleave, per_call, per_call_beside};
use super::shim::Urcu;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use treercu::config::Value;
use treercu::host::{Engine, Handle, RcuPtr};

const SLICE_NS: u64 = 20_000_000;

fn open(preempt: &str) -> Engine {
    let tunables: [(&str, Value); 3] = [
        ("nr_cpus", 2.into()),
        ("hz", 1000.into()),
        ("preempt", preempt.into()),
    ];
    engine(&tunables)
}

fn skipped(key: &'static str, title: &'static str, configuration: &str, why: &str) -> Row {
    Row {
        key,
        title,
        configuration: configuration.to_owned(),
        unit: "ns",
        better: Better::Lower,
        competitors: Vec::new(),
        must: Limit::None,
        goal: Limit::None,
        conditions: Vec::new(),
        skipped: Some(why.to_owned()),
        notes: Vec::new(),
    }
}

fn missing(urcu: &Result<Urcu, String>) -> Vec<String> {
    urcu.as_ref()
        .err()
        .map(|why| format!("liburcu skipped: {why}"))
        .into_iter()
        .collect()
}

/// liburcu's `synchronize_rcu()` of that flavour, on the calling thread, which registers for the time.
fn urcu_slice<'a>(urcu: Urcu, flavour: &str, batch: u32) -> Slice<'a> {
    match flavour {
        // SAFETY: registered and outside any section.
        "memb" => Box::new(move || unsafe {
            (urcu.memb_register)();
            let sample = per_call(SLICE_NS, batch, || (urcu.memb_synchronize)());
            (urcu.memb_unregister)();
            sample
        }),
        // SAFETY: the same.
        _ => Box::new(move || unsafe {
            (urcu.qsbr_register)();
            let sample = per_call(SLICE_NS, batch, || (urcu.qsbr_synchronize)());
            (urcu.qsbr_unregister)();
            sample
        }),
    }
}

/// Nobody in the way: one other registered thread, in an extended quiescent state.
pub fn idle(rounds: usize, core: usize, urcu: Result<Urcu, String>) -> Row {
    let (key, title) = ("exp-idle", "expedited, no other reader");
    let configuration = "preempt=full, nr_cpus=2; one other registered thread, in an extended quiescent state (liburcu: \
                         registered and outside any section; qsbr: offline); 32 calls between two looks at the clock";
    pin(&[core]);
    let engine = open("full");
    let ready = urcu.as_ref().ok().copied();
    let gate = Barrier::new(2);
    let competitors = std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = engine.register().expect("open");
            drop(handle.read_lock());
            // SAFETY: plain calls on this thread.
            ready.inspect(|urcu| unsafe {
                (urcu.memb_register)();
                (urcu.qsbr_register)();
                (urcu.qsbr_offline)();
            });
            gate.wait();
            gate.wait();
            // SAFETY: as above.
            ready.inspect(|urcu| unsafe {
                (urcu.memb_unregister)();
                (urcu.qsbr_unregister)();
            });
        });
        gate.wait();
        let mut handle = engine.register().expect("open");
        let mut slices: Vec<(&'static str, Slice<'_>)> = vec![(
            "treercu",
            Box::new(move || per_call(SLICE_NS, 32, || expedited(&mut handle))),
        )];
        if let Some(urcu) = ready {
            slices.push(("liburcu-memb", urcu_slice(urcu, "memb", 32)));
            slices.push(("liburcu-qsbr", urcu_slice(urcu, "qsbr", 32)));
        }
        let competitors = interleave(rounds, slices);
        gate.wait();
        competitors
    });
    Row {
        key,
        title,
        configuration: configuration.to_owned(),
        unit: "ns",
        better: Better::Lower,
        competitors,
        must: if ready.is_some() {
            Limit::Ratio(1.0)
        } else {
            Limit::None
        },
        goal: Limit::Value(150.0),
        conditions: Vec::new(),
        skipped: None,
        notes: missing(&urcu),
    }
}

/// What background readers are told to read by.
const NOBODY: usize = 0;
const OURS: usize = 1;
const PEER: usize = 2;
const STOP: usize = usize::MAX;

/// Threads that read without a pause, by turns through each competitor.
struct Readers {
    which: AtomicUsize,
    doing: Vec<AtomicUsize>,
    /// Chunks that the last reader has read: the one that has a core to itself.
    progress: AtomicU64,
}

impl Readers {
    fn new(len: usize) -> Self {
        Readers {
            which: AtomicUsize::new(NOBODY),
            doing: (0..len).map(|_| AtomicUsize::new(NOBODY)).collect(),
            progress: AtomicU64::new(0),
        }
    }

    /// Has all of them read by `which` while `body` runs, which gets the progress of the one on the other core.
    fn during<T>(&self, which: usize, body: impl FnOnce(&AtomicU64) -> T) -> T {
        self.switch(which);
        let result = body(&self.progress);
        self.switch(NOBODY);
        result
    }

    fn switch(&self, which: usize) {
        self.which.store(which, Ordering::SeqCst);
        while self
            .doing
            .iter()
            .any(|doing| doing.load(Ordering::SeqCst) != which)
        {
            std::thread::yield_now();
        }
    }

    /// The body of reader `index`: `chunk(which)` reads for a while and is called again until told otherwise.
    fn run(
        &self,
        index: usize,
        mut enter: impl FnMut(usize),
        mut chunk: impl FnMut(usize),
        mut leave: impl FnMut(usize),
    ) {
        loop {
            let which = self.which.load(Ordering::SeqCst);
            if which == NOBODY {
                self.doing[index].store(NOBODY, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(50));
                continue;
            }
            if which == STOP {
                self.doing[index].store(STOP, Ordering::SeqCst);
                return;
            }
            enter(which);
            self.doing[index].store(which, Ordering::SeqCst);
            while self.which.load(Ordering::Relaxed) == which {
                chunk(which);
                if index + 1 == self.doing.len() {
                    self.progress.fetch_add(1, Ordering::Relaxed);
                }
            }
            leave(which);
        }
    }
}

/// Sections between two looks at what to do: some 0.1 us.
const CHUNK: u64 = 64;

/// One reader that runs on the other core.
pub fn one_reader(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> Row {
    let (key, title) = ("exp-one", "expedited, one running reader");
    let configuration = "preempt=full, nr_cpus=2; caller pinned to one core, the reader to the other, in short sections without a \
                         pause; median time of the calls during which the reader \
                         on the other core ran";
    let &[near, far] = cores else {
        return skipped(key, title, configuration, "it takes two cores");
    };
    pin(cores);
    let engine = open("full");
    let shared = RcuPtr::new(&engine, 1u64);
    let ready = urcu.as_ref().ok().copied();
    let readers = Readers::new(1);
    let competitors = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(&[far]);
            let handle = engine.register_on(1).expect("open");
            // SAFETY: plain calls on this thread.
            ready.inspect(|urcu| unsafe { (urcu.memb_register)() });
            let reader = shared.reader(&handle).expect("the same engine");
            readers.run(
                0,
                |_| {},
                |which| {
                    if which == OURS {
                        for _ in 0..CHUNK {
                            black_box(*reader.lock());
                        }
                    } else if let Some(urcu) = ready {
                        // SAFETY: registered.
                        black_box(unsafe { (urcu.memb_read)(CHUNK) });
                    }
                },
                |_| {},
            );
            // SAFETY: as above.
            ready.inspect(|urcu| unsafe { (urcu.memb_unregister)() });
        });
        pin(&[near]);
        let mut handle = engine.register_on(0).expect("open");
        let readers = &readers;
        let mut slices: Vec<(&'static str, Slice<'_>)> = vec![(
            "treercu",
            Box::new(move || {
                readers.during(OURS, |far| {
                    per_call_beside(SLICE_NS, far, || expedited(&mut handle))
                })
            }),
        )];
        if let Some(urcu) = ready {
            // SAFETY: registered and outside any section.
            slices.push((
                "liburcu-memb",
                Box::new(move || unsafe {
                    (urcu.memb_register)();
                    let sample = readers.during(PEER, |far| {
                        per_call_beside(SLICE_NS, far, || (urcu.memb_synchronize)())
                    });
                    (urcu.memb_unregister)();
                    sample
                }),
            ));
        }
        slices.push((
            "one membarrier",
            Box::new(move || {
                while_running(far, |far| {
                    per_call_beside(SLICE_NS, far, || assert!(membarrier()))
                })
            }),
        ));
        let competitors = interleave(rounds, slices);
        readers.switch(STOP);
        competitors
    });
    Row {
        key,
        title,
        configuration: configuration.to_owned(),
        unit: "ns",
        better: Better::Lower,
        competitors,
        must: if ready.is_some() {
            Limit::Ratio(0.8)
        } else {
            Limit::None
        },
        goal: Limit::RatioTo("one membarrier", 1.2),
        conditions: Vec::new(),
        skipped: None,
        notes: missing(&urcu),
    }
}

/// Two readers on two cores that report quiescent states; the caller shares a core with one of them.
pub fn two_readers(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> Row {
    let (key, title) = ("exp-two", "expedited, 2 readers on 2 cores, preempt=none");
    let configuration = "preempt=none, nr_cpus=2; two readers, one pinned to each core, a quiescent state after each section; the \
                         caller on the first core; median time of the calls during which the reader \
                         on the other core ran";
    let &[near, far] = cores else {
        return skipped(key, title, configuration, "it takes two cores");
    };
    pin(cores);
    let engine = open("none");
    let shared = RcuPtr::new(&engine, 1u64);
    let ready = urcu.as_ref().ok().copied();
    let readers = Readers::new(2);
    let competitors = std::thread::scope(|scope| {
        for (index, core) in [near, far].into_iter().enumerate() {
            let (engine, shared, readers) = (&engine, &shared, &readers);
            scope.spawn(move || {
                pin(&[core]);
                // SAFETY: plain calls on this thread.
                ready.inspect(|urcu| unsafe {
                    (urcu.qsbr_register)();
                    (urcu.qsbr_offline)();
                });
                // Attached only while it reads: an attached thread of preempt=none is one to wait for.
                let handle: Mutex<Option<Handle>> = Mutex::new(None);
                readers.run(
                    index,
                    |which| match (which, ready) {
                        (OURS, _) => {
                            let attached = engine.register_on(index as u32).expect("open");
                            *handle.lock().expect("no panics") = Some(attached);
                        }
                        // SAFETY: registered.
                        (_, Some(urcu)) => unsafe { (urcu.qsbr_online)() },
                        _ => {}
                    },
                    |which| {
                        if which == OURS {
                            let mut handle = handle.lock().expect("no panics");
                            let handle = handle.as_mut().expect("attached");
                            for _ in 0..CHUNK {
                                black_box(*shared.reader(handle).expect("the same engine").lock());
                                handle.quiescent();
                            }
                        } else if let Some(urcu) = ready {
                            // SAFETY: registered and online.
                            black_box(unsafe { (urcu.qsbr_read_report)(CHUNK) });
                        }
                    },
                    |which| match (which, ready) {
                        (OURS, _) => drop(handle.lock().expect("no panics").take()),
                        // SAFETY: registered, outside any section.
                        (_, Some(urcu)) => unsafe { (urcu.qsbr_offline)() },
                        _ => {}
                    },
                );
                // SAFETY: as above.
                ready.inspect(|urcu| unsafe { (urcu.qsbr_unregister)() });
            });
        }
        pin(&[near]);
        let readers = &readers;
        let mut slices: Vec<(&'static str, Slice<'_>)> = Vec::new();
        let ours = || -> Sample {
            // Attached for the slice only, as the readers are.
            let mut handle = engine.register_on(0).expect("open");
            readers.during(OURS, |far| {
                per_call_beside(SLICE_NS, far, || expedited(&mut handle))
            })
        };
        slices.push(("treercu", Box::new(ours)));
        if let Some(urcu) = ready {
            // SAFETY: registered and outside any section.
            slices.push((
                "liburcu-qsbr",
                Box::new(move || unsafe {
                    (urcu.qsbr_register)();
                    let sample = readers.during(PEER, |far| {
                        per_call_beside(SLICE_NS, far, || (urcu.qsbr_synchronize)())
                    });
                    (urcu.qsbr_unregister)();
                    sample
                }),
            ));
        }
        let competitors = interleave(rounds, slices);
        readers.switch(STOP);
        competitors
    });
    Row {
        key,
        title,
        configuration: configuration.to_owned(),
        unit: "ns",
        better: Better::Lower,
        competitors,
        must: if ready.is_some() {
            Limit::Ratio(1.5)
        } else {
            Limit::None
        },
        goal: if ready.is_some() {
            Limit::Ratio(1.0)
        } else {
            Limit::None
        },
        conditions: Vec::new(),
        skipped: None,
        notes: missing(&urcu),
    }
}

/// How a grace period's time grows with registered threads that do nothing.
pub fn growth(rounds: usize, cores: &[usize], urcu: Result<Urcu, String>) -> Row {
    let (key, title) = ("growth", "growth per idle registered thread, 512 to 4096");
    let configuration = "nr_cpus=64, preempt=full, threads spread evenly, each has read once, all found idle before; expedited grace \
                         periods; (time with 4096 - time with 512) / 3584";
    const FEW: usize = 512;
    const MANY: usize = 4096;
    pin(&cores[..1]);
    let engine = engine(&[
        ("nr_cpus", 64.into()),
        ("hz", 1000.into()),
        ("preempt", "full".into()),
    ]);
    let ready = urcu.as_ref().ok().copied();
    let collector = crossbeam_epoch::Collector::new();
    let arrived = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let mut measured = Vec::new();
    let mut failed = None;
    // A body of a thread that is registered with everything and then does nothing.
    let sleeper = |cpu: u32| {
        let handle = engine.register_on(cpu).expect("open");
        drop(handle.read_lock());
        let local = collector.register();
        drop(local.pin());
        // SAFETY: plain calls on this thread.
        ready.inspect(|urcu| unsafe {
            (urcu.memb_register)();
            (urcu.qsbr_register)();
            (urcu.qsbr_offline)();
        });
        arrived.fetch_add(1, Ordering::SeqCst);
        while !stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        // SAFETY: as above.
        ready.inspect(|urcu| unsafe {
            (urcu.memb_unregister)();
            (urcu.qsbr_unregister)();
        });
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for upto in [FEW, MANY] {
            while threads.len() < upto && failed.is_none() {
                let (sleeper, cpu) = (&sleeper, (threads.len() % 64) as u32);
                let started = std::thread::Builder::new()
                    .stack_size(64 * 1024)
                    .spawn_scoped(scope, move || sleeper(cpu));
                match started {
                    Ok(thread) => threads.push(thread.thread().clone()),
                    Err(err) => failed = Some(format!("cannot start {upto} threads: {err}")),
                }
            }
            while arrived.load(Ordering::SeqCst) < threads.len() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            if failed.is_none() {
                measured.push(measure(rounds, &engine, &collector, ready));
            }
        }
        stop.store(true, Ordering::SeqCst);
        threads.iter().for_each(std::thread::Thread::unpark);
    });
    if let Some(why) = failed {
        return skipped(key, title, configuration, &why);
    }
    let (Some(many), Some(few)) = (measured.pop(), measured.pop()) else {
        unreachable!("both sizes were measured");
    };
    let competitors = few
        .into_iter()
        .zip(many)
        .map(|(few, many)| {
            let mut grown = many.clone();
            grown.samples = many
                .samples
                .iter()
                .zip(&few.samples)
                .map(|(many, few)| (many - few) / (MANY - FEW) as f64)
                .collect();
            grown.beside = vec![("ns with 512", few.samples), ("with 4096", many.samples)];
            grown
        })
        .collect();
    Row {
        key,
        title,
        configuration: configuration.to_owned(),
        unit: "ns/thread",
        better: Better::Lower,
        competitors,
        must: Limit::Value(0.5),
        goal: Limit::Value(0.2),
        conditions: Vec::new(),
        skipped: None,
        notes: [
            missing(&urcu),
            vec![
                "crossbeam-epoch: a deferred function until it has run; differences of medians, so a small one may come out \
                 below zero"
                    .to_owned(),
            ],
        ]
        .concat(),
    }
}

fn measure(
    rounds: usize,
    engine: &Engine,
    collector: &crossbeam_epoch::Collector,
    urcu: Option<Urcu>,
) -> Vec<super::report::Competitor> {
    let mut handle = engine.register_on(0).expect("open");
    // Two passes find each of them outside; more do not matter.
    for _ in 0..8 {
        expedited(&mut handle);
    }
    let mut slices: Vec<(&'static str, Slice<'_>)> = vec![(
        "treercu",
        Box::new(move || per_call(SLICE_NS, 8, || expedited(&mut handle))),
    )];
    if let Some(urcu) = urcu {
        slices.push(("liburcu-memb", urcu_slice(urcu, "memb", 1)));
        slices.push(("liburcu-qsbr", urcu_slice(urcu, "qsbr", 1)));
    }
    let local = collector.register();
    slices.push((
        "crossbeam-epoch",
        Box::new(move || {
            per_call(SLICE_NS, 1, || {
                static RAN: AtomicUsize = AtomicUsize::new(0);
                let before = RAN.load(Ordering::Relaxed);
                local.pin().defer(|| RAN.fetch_add(1, Ordering::Relaxed));
                while RAN.load(Ordering::Relaxed) == before {
                    local.pin().flush();
                }
            })
        }),
    ));
    interleave(rounds, slices)
}
