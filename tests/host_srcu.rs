//! SRCU on real threads: order and bounds, never exact times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use treercu::config::Config;
use treercu::host::{Engine, Options, Remaining, Srcu, SrcuPtr};
use treercu::srcu::{Flavour, Scan};

const ALIVE: u64 = 0x0a11_fe00;
const ALL: [Flavour; 4] = [
    Flavour::Normal,
    Flavour::Fast,
    Flavour::FastUpdown,
    Flavour::Light,
];

/// Says whether it is alive, until it is dropped. Its memory goes to quarantine instead of to the allocator, so that a
/// reader that is too late reads the mark and nothing else.
struct Canary(Arc<AtomicU64>);

/// Every word that a canary had, for as long as the test runs.
type Quarantine = std::sync::Mutex<Vec<Arc<AtomicU64>>>;

impl Canary {
    fn new(quarantine: &Quarantine) -> Canary {
        let word = Arc::new(AtomicU64::new(ALIVE));
        quarantine.lock().unwrap().push(word.clone());
        Canary(word)
    }
    fn check(&self) {
        assert_eq!(self.0.load(Ordering::Relaxed), ALIVE, "read after it was freed");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(0xdead, Ordering::Relaxed);
    }
}

fn engine_with(settings: &[(&str, i64)], preempt: &str) -> Engine {
    let config = Config::new()
        .with("nr_cpus", 4)
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.with("preempt", preempt))
        .and_then(|c| c.replace(settings.iter().copied()))
        .expect("a good configuration");
    Engine::new(&config, &Options::default()).expect("an engine")
}

fn engine() -> Engine {
    engine_with(&[], "full")
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Readers that sleep, that nest, that give their section to another thread; updaters of every kind.
fn stress(which: &str, domain: &Srcu, for_ms: u64) {
    // Words live as long as this, so that even a broken grace period reads no freed memory.
    let quarantine = Quarantine::default();
    let shared = SrcuPtr::new(domain, Canary::new(&quarantine));
    let stop = AtomicBool::new(false);
    let (reads, updates) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let (shared, stop, reads) = (&shared, &stop, &reads);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    let section = domain.read_lock().expect("open");
                    let value = shared.load(&section);
                    value.check();
                    if n % (40 + number) == 0 {
                        let inner = domain.down_read().expect("open");
                        std::thread::sleep(Duration::from_micros(700));
                        value.check();
                        drop(inner);
                    }
                    if n % (90 + number) == 1 {
                        // The section ends on another thread.
                        std::thread::scope(|scope| {
                            scope.spawn(|| {
                                shared.load(&section).check();
                                drop(section);
                            });
                        });
                    } else {
                        value.check();
                        drop(section);
                    }
                    n += 1;
                }
                reads.fetch_add(n, Ordering::Relaxed);
            });
        }
        for number in 0..4 {
            let (shared, stop, updates, quarantine) = (&shared, &stop, &updates, &quarantine);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    shared.replace(Canary::new(quarantine)).expect("open");
                    match number {
                        0 => drop(domain.synchronize().expect("open")),
                        1 => drop(domain.synchronize_expedited().expect("open")),
                        2 => domain.barrier().expect("open"),
                        _ => std::thread::sleep(Duration::from_micros(200)),
                    }
                    n += 1;
                }
                updates.fetch_add(n, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_millis(for_ms));
        stop.store(true, Ordering::Relaxed);
    });
    domain.barrier().expect("open");
    let alive = |word: &Arc<AtomicU64>| word.load(Ordering::Relaxed) == ALIVE;
    let left = quarantine
        .lock()
        .unwrap()
        .iter()
        .filter(|word| alive(word))
        .count();
    assert_eq!(left, 1, "{which}: all but the one that is published are freed");
    let c = domain.counters();
    println!(
        "{which}: {} reads, {} updates, {c:?}",
        reads.load(Ordering::Relaxed),
        updates.load(Ordering::Relaxed)
    );
    assert!(c.grace_periods > 0 && c.expedited > 0 && reads.load(Ordering::Relaxed) > 100);
    assert_eq!(c.callbacks, updates.load(Ordering::Relaxed));
}

#[test]
fn what_readers_see_stays_valid() {
    for (which, settings) in [
        ("small", vec![("convert_to_big", 0)]),
        ("big", vec![("convert_to_big", 1)]),
        (
            "growing",
            vec![("convert_to_big", 16), ("small_contention_lim", 0)],
        ),
    ] {
        let engine = engine_with(&settings, "full");
        for flavour in ALL {
            let domain = engine.srcu(flavour).expect("a domain");
            stress(&format!("{which} {flavour:?}"), &domain, 250);
            domain.close(Duration::from_secs(20)).expect("clean");
        }
    }
    // Nothing of a normal domain is the engine's business.
    let engine = engine_with(&[], "none");
    stress(
        "preempt=none",
        &engine.srcu(Flavour::Normal).expect("a domain"),
        200,
    );
    assert_eq!(engine.attached(), 0);
}

/// The tests above would notice: without its second scan a grace period does not wait, and the word dies under a reader.
#[test]
fn a_grace_period_without_its_second_scan_is_noticed() {
    let domain = engine().srcu(Flavour::Normal).unwrap();
    domain.skip_scan(Scan::Second);
    let quarantine = Quarantine::default();
    let shared = SrcuPtr::new(&domain, Canary::new(&quarantine));
    let section = domain.read_lock().unwrap();
    let word = shared.load(&section).0.clone();
    shared.replace(Canary::new(&quarantine)).unwrap();
    domain.barrier().unwrap();
    assert_ne!(
        word.load(Ordering::Relaxed),
        ALIVE,
        "freed, and the section is still open"
    );
    drop(section);
}

/// A wait ends only after the section that was open when it began, which may sleep as long as it likes; other domains'
/// sections are nobody's business.
#[test]
fn a_wait_outlasts_the_sections_of_its_domain_and_no_others() {
    let engine = engine();
    for flavour in ALL {
        let domain = engine.srcu(flavour).unwrap();
        let other = engine.srcu(Flavour::Normal).unwrap();
        for expedited in [false, true] {
            let foreign = other.read_lock().unwrap();
            let section = domain.down_read().unwrap();
            let left = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    if expedited {
                        domain.synchronize_expedited().unwrap();
                    } else {
                        domain.synchronize().unwrap();
                    }
                    assert!(
                        left.load(Ordering::SeqCst),
                        "{flavour:?}: ended before the section"
                    );
                });
                std::thread::sleep(Duration::from_millis(30));
                left.store(true, Ordering::SeqCst);
                drop(section);
            });
            drop(foreign);
        }
    }
}

#[test]
fn callbacks_run_once_and_behind_their_readers() {
    let engine = engine();
    for flavour in ALL {
        let domain = engine.srcu(flavour).unwrap();
        let (ran, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let section = domain.down_read().unwrap();
        for _ in 0..100 {
            let (ran, open) = (ran.clone(), open.clone());
            domain
                .call(move || {
                    assert!(!open.load(Ordering::SeqCst));
                    ran.fetch_add(1, Ordering::SeqCst);
                })
                .unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{flavour:?}: the section is open");
        open.store(false, Ordering::SeqCst);
        drop(section);
        domain.barrier().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 100);
        assert_eq!(domain.counters().panics, 0);
    }
}

#[test]
fn cookies_and_haste() {
    let engine = engine();
    let domain = engine.srcu(Flavour::Normal).unwrap();
    let cookie = domain.get_state();
    assert!(!domain.poll_state(cookie));
    let section = domain.read_lock().unwrap();
    assert_eq!(domain.start_poll().unwrap(), cookie);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!domain.poll_state(cookie), "the section is open");
    drop(section);
    eventually("the cookie's grace period", || domain.poll_state(cookie));
    domain.expedite_current().unwrap();
    domain.barrier().unwrap();
    assert!(domain.counters().expedited >= 1);
    // At rest for longer than the hold-off it expedites by itself.
    let before = domain.counters().auto_expedited;
    std::thread::sleep(Duration::from_millis(5));
    domain.synchronize().unwrap();
    assert_eq!(domain.counters().auto_expedited, before + 1);
    let never = engine_with(&[("exp_holdoff", 0)], "full");
    let domain = never.srcu(Flavour::Normal).unwrap();
    domain.synchronize().unwrap();
    assert_eq!(domain.counters().expedited, 0);
}

#[test]
fn a_callback_may_panic_and_must_not_wait() {
    let engine = engine();
    let domain = engine.srcu(Flavour::Normal).unwrap();
    let refused = Arc::new(AtomicU64::new(0));
    domain.call(|| panic!("on purpose, in a test")).unwrap();
    domain
        .call({
            let (domain, refused) = (domain.clone(), refused.clone());
            move || {
                let errors = [domain.synchronize().is_err(), domain.barrier().is_err()];
                refused.fetch_add(errors.into_iter().filter(|&e| e).count() as u64, Ordering::SeqCst);
                // A callback may ask for more.
                domain.call(|| ()).unwrap();
            }
        })
        .unwrap();
    eventually("both callbacks and the third", || {
        domain.counters().callbacks == 3
    });
    assert_eq!(refused.load(Ordering::SeqCst), 2);
    assert_eq!(domain.counters().panics, 1);
    domain.synchronize().unwrap();
}

#[test]
fn closing() {
    let engine = engine();
    // With a section open: it says so, and invokes nothing.
    let domain = engine.srcu(Flavour::Normal).unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let section = domain.down_read().unwrap();
    let count = ran.clone();
    domain
        .call(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let error = domain.close(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(error.contains("Readers"), "{error}");
    drop(section);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(domain.synchronize().is_err() && domain.call(|| ()).is_err() && domain.start_poll().is_err());
    // The last handle runs what waits.
    let domain = engine.srcu(Flavour::Normal).unwrap();
    let count = ran.clone();
    domain
        .call(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    drop(domain);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // A fast domain cannot outlive its engine's grace periods; a normal one does.
    let fast = engine.srcu(Flavour::Fast).unwrap();
    let normal = engine.srcu(Flavour::Normal).unwrap();
    engine.close(Remaining::Run, Duration::from_secs(20)).unwrap();
    assert!(fast.synchronize().is_err());
    normal.synchronize().unwrap();
    assert!(engine.srcu(Flavour::Normal).is_err());
    let none = engine_with(&[], "none");
    assert!(none.srcu(Flavour::Fast).is_err() && none.srcu(Flavour::Normal).is_ok());
}

#[test]
fn a_domain_at_rest_wakes_nobody() {
    let domain = engine().srcu(Flavour::Normal).unwrap();
    domain.synchronize().unwrap();
    // The callback's grace period may have left a look behind.
    std::thread::sleep(Duration::from_millis(50));
    let before = domain.counters().wakeups;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(domain.counters().wakeups, before);
}

#[test]
#[should_panic(expected = "another domain")]
fn sections_of_another_domain_protect_nothing() {
    let engine = engine();
    let (one, other) = (
        engine.srcu(Flavour::Normal).unwrap(),
        engine.srcu(Flavour::Normal).unwrap(),
    );
    let shared = SrcuPtr::new(&one, 1u32);
    let section = other.read_lock().unwrap();
    shared.load(&section);
}
