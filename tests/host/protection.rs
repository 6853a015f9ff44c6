//! What readers see stays valid: readers, updaters and hotplug at once, with memory that shows when it was freed.

use crate::quarantine::Canary;
use crate::{everywhere, modes, open};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use treercu::host::{Engine, RcuPtr};

fn stress(which: &str, engine: &Engine, for_ms: u64, hotplug: bool) {
    let shared = RcuPtr::new(engine, Canary::new());
    let stop = AtomicBool::new(false);
    let (reads, updates) = ([const { AtomicU64::new(0) }; 4], AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let (shared, stop, reads) = (&shared, &stop, &reads[number as usize]);
            scope.spawn(move || {
                let mut handle = engine.register().expect("a handle");
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    {
                        let section = handle.read_lock();
                        let value = shared.load(&section);
                        value.check(n);
                        if n % (50 + number) == 0 {
                            let inner = handle.read_lock();
                            std::thread::sleep(Duration::from_micros(300));
                            drop(inner);
                        }
                        value.check(n + 1);
                    }
                    handle.quiescent();
                    n += 1;
                    reads.store(n, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let section = engine.read_lock().expect("open");
                let n = reads[3].fetch_add(1, Ordering::Relaxed);
                shared.load(&section).check(n);
                drop(section);
                engine.quiescent().expect("open");
            }
        });
        for number in 0..3 {
            let (shared, stop, updates) = (&shared, &stop, &updates);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if number == 0 {
                        drop(shared.swap(Canary::new()).expect("open"));
                    } else if number == 2 {
                        drop(shared.swap_expedited(Canary::new()).expect("open"));
                        std::thread::sleep(Duration::from_micros(50));
                    } else {
                        shared.replace(Canary::new()).expect("open");
                        std::thread::sleep(Duration::from_micros(100));
                        engine.quiescent().expect("open");
                    }
                    updates.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        if hotplug {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for cpu in [1, 2] {
                        engine.cpu_offline(cpu).expect("was online");
                    }
                    for cpu in [1, 2] {
                        engine.cpu_online(cpu).expect("was offline");
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let began = Instant::now();
        // On a busy machine it takes a while until each thread has had its turn.
        let worked = || {
            reads.iter().all(|reads| reads.load(Ordering::Relaxed) > 1)
                && updates.load(Ordering::Relaxed) > 1
                && engine.counters().grace_periods > 0
        };
        let most = Duration::from_secs(60);
        while began.elapsed() < Duration::from_millis(for_ms) || (!worked() && began.elapsed() < most) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let reads: Vec<u64> = reads.iter().map(|reads| reads.load(Ordering::Relaxed)).collect();
    engine.barrier().expect("open");
    let c = engine.counters();
    println!(
        "{which}: {} reads, {} updates, {} grace periods, {} blocked, {} grants, {} fences, {} offlined",
        reads.iter().sum::<u64>(),
        updates.load(Ordering::Relaxed),
        c.grace_periods,
        c.readers_blocked,
        c.eqs_grants,
        c.heavy_fences,
        c.cpus_offlined,
    );
    assert!(
        reads.iter().all(|&reads| reads > 1),
        "{which}: every reader read: {reads:?}"
    );
    assert!(c.grace_periods >= 1, "{which}");
    assert!(updates.load(Ordering::Relaxed) > 1, "{which}");
}

#[test]
fn readers_never_see_freed_memory() {
    everywhere(3, |which, engine| stress(which, &engine, 400, false));
}

#[test]
fn nor_while_virtual_cpus_come_and_go() {
    everywhere(3, |which, engine| stress(which, &engine, 400, true));
}

#[test]
fn a_reader_on_the_kthreads_own_cpu_is_waited_for() {
    for (which, options) in modes() {
        let engine = open(2, "full", &options);
        let gp_cpu = 1;
        let left = AtomicBool::new(false);
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let idle = engine.register_on(gp_cpu).expect("a handle");
                let reader = engine.register_on(gp_cpu).expect("a handle");
                let section = reader.read_lock();
                inside.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(30));
                left.store(true, Ordering::SeqCst);
                drop(section);
                drop(idle);
            });
            while !inside.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            engine.synchronize().expect("open");
            assert!(left.load(Ordering::SeqCst), "{which}");
        });
    }
}

#[test]
fn a_thread_that_stopped_reading_is_left_alone_and_protected_when_it_reads_again() {
    let engine = open(2, "full", &treercu::host::Options::default());
    let shared = RcuPtr::new(&engine, Canary::new());
    let reader = engine.register_on(0).expect("a handle");
    let mut updater = engine.register_on(1).expect("a handle");
    for look in 0..50 {
        shared.load(&reader.read_lock()).check(look);
        for _ in 0..4 {
            updater.synchronize().expect("open");
        }
        let fences = engine.counters().heavy_fences;
        for _ in 0..3 {
            updater.synchronize().expect("open");
        }
        assert_eq!(
            engine.counters().heavy_fences,
            fences,
            "nobody reads, so nobody is fenced"
        );
        let section = reader.read_lock();
        let value = shared.load(&section);
        shared.replace(Canary::new()).expect("open");
        std::thread::sleep(Duration::from_micros(200));
        value.check(look);
    }
    assert!(engine.counters().eqs_grants >= 50);
}
