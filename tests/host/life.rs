//! Opening, closing, exhaustion, panics.

use crate::{config, eventually, everywhere, modes, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use treercu::host::{Engine, Options, Remaining, State};

fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn a_closed_engine_refuses_calls_and_says_so() {
    everywhere(2, |which, engine| {
        engine.synchronize().expect("open");
        engine
            .close(Remaining::Run, Duration::from_secs(10))
            .expect("no reader");
        assert_eq!(engine.state(), State::Closed);
        let err = engine.synchronize().expect_err("closed").to_string();
        assert!(err.contains("closed"), "{which}: {err}");
        assert!(engine.call(|| ()).is_err());
        assert!(engine.register().is_err());
        engine
            .close(Remaining::Run, Duration::ZERO)
            .expect("twice is once");
    });
}

#[test]
fn closing_runs_or_drops_what_waits() {
    for (which, options) in modes() {
        for remaining in [Remaining::Run, Remaining::Drop] {
            let engine = open(2, "full", &options);
            let token = Arc::new(());
            let ran = Arc::new(AtomicU64::new(0));
            for _ in 0..100 {
                let (token, ran) = (token.clone(), ran.clone());
                engine
                    .call(move || {
                        let _token = token;
                        ran.fetch_add(1, Ordering::SeqCst);
                    })
                    .expect("open");
            }
            engine
                .close(remaining, Duration::from_secs(10))
                .expect("no reader");
            let expected = if remaining == Remaining::Run { 100 } else { 0 };
            assert_eq!(ran.load(Ordering::SeqCst), expected, "{which}");
            assert_eq!(Arc::strong_count(&token), 1, "{which}: nothing leaks");
        }
    }
}

#[test]
fn closing_does_not_wait_for_a_reader_beyond_its_deadline() {
    let engine = open(2, "full", &Options::default());
    let section = engine.read_lock().expect("open");
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    engine
        .call(move || flag.store(true, Ordering::SeqCst))
        .expect("open");
    let closer = engine.clone();
    let began = Instant::now();
    let result = std::thread::spawn(move || closer.close(Remaining::Run, Duration::from_millis(100)))
        .join()
        .expect("no panic");
    assert!(result.is_err());
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(
        !ran.load(Ordering::SeqCst),
        "never early: its reader is still inside"
    );
    drop(section);
}

#[test]
fn a_second_close_returns_when_the_first_is_done() {
    for (which, options) in modes() {
        let engine = open(2, "full", &options);
        let (inside, go) = (AtomicBool::new(false), AtomicBool::new(false));
        let cancel = AtomicBool::new(false);
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let section = engine.read_lock().expect("open");
                inside.store(true, Ordering::SeqCst);
                eventually("go", || go.load(Ordering::SeqCst));
                drop(section);
            });
            eventually("inside", || inside.load(Ordering::SeqCst));
            let first = scope.spawn(|| engine.close(Remaining::Run, long));
            eventually("it closes", || engine.state() == State::Closing);
            let second = scope.spawn(|| {
                let result = engine.close(Remaining::Run, long);
                assert!(go.load(Ordering::SeqCst), "{which}: the reader is inside");
                assert_eq!(engine.state(), State::Closed, "{which}");
                result
            });
            let third = scope.spawn(|| engine.close_unless(Remaining::Run, long, &cancel));
            // These give up, and the first goes on.
            assert!(
                engine.close(Remaining::Run, Duration::from_millis(20)).is_err(),
                "{which}: its deadline came"
            );
            cancel.store(true, Ordering::SeqCst);
            assert!(
                third.join().expect("no panic").is_err(),
                "{which}: told to give up"
            );
            assert_eq!(engine.state(), State::Closing, "{which}");
            assert!(!first.is_finished() && !second.is_finished(), "{which}");
            go.store(true, Ordering::SeqCst);
            for close in [first, second] {
                close.join().expect("no panic").expect("the reader left");
            }
        });
    }
}

#[test]
fn closing_inside_a_section_of_its_own_is_refused_at_once() {
    let engine = open(2, "full", &Options::default());
    let section = engine.read_lock().expect("open");
    let err = engine
        .close(Remaining::Run, Duration::from_secs(60))
        .expect_err("it would wait for itself")
        .to_string();
    assert!(err.contains("close") && err.contains("section"), "{err}");
    assert_eq!(engine.state(), State::Open);
    drop(section);
    engine
        .close(Remaining::Run, Duration::from_secs(60))
        .expect("no reader");
}

#[test]
fn a_thousand_engines_leave_nothing_behind() {
    let before = threads_of_this_process();
    let files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let files_before = files();
    for round in 0..1000u64 {
        let engine = open(2, "full", &Options::default());
        if round % 10 == 0 {
            engine.synchronize().expect("open");
        }
        drop(engine);
    }
    eventually("threads are joined", || threads_of_this_process() <= before + 8);
    assert!(files() <= files_before + 4);
}

#[test]
fn the_last_handle_may_be_in_a_callback() {
    let before = threads_of_this_process();
    for _ in 0..20 {
        let engine = open(2, "full", &Options::default());
        let inner = engine.clone();
        engine.call(move || drop(inner)).expect("open");
        drop(engine);
    }
    eventually("threads are joined", || threads_of_this_process() <= before + 8);
}

#[test]
fn a_panic_in_a_callback_loses_no_other() {
    everywhere(2, |which, engine| {
        let ran = Arc::new(AtomicU64::new(0));
        for number in 0..30 {
            let ran = ran.clone();
            engine
                .call(move || {
                    assert!(number % 10 != 3, "callback {number} fails on purpose");
                    ran.fetch_add(1, Ordering::SeqCst);
                })
                .expect("open");
        }
        engine.barrier().expect("open");
        assert_eq!(ran.load(Ordering::SeqCst), 27, "{which}");
        let panics = engine.panics();
        assert_eq!(panics.count, 3);
        assert!(panics.messages[0].contains("on purpose"), "{:?}", panics.messages);
    });
}

#[test]
fn threads_that_exit_are_forgotten() {
    let engine = open(2, "none", &Options::default());
    for _ in 0..20 {
        let engine = engine.clone();
        std::thread::spawn(move || {
            drop(engine.read_lock().expect("open"));
        })
        .join()
        .expect("no panic");
    }
    assert_eq!(engine.attached(), 0);
    engine.synchronize().expect("nobody is left to wait for");
}

/// Voluntary context switches of the engine's threads: each sleep that ends is one.
fn switches() -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with("treercu-") {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            sum += status
                .lines()
                .filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .filter_map(|n| n.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    sum
}

#[test]
#[ignore = "other tests of this process have engines of their own; run alone by the test below"]
fn idle_alone() {
    let engine = open(8, "full", &Options::default());
    engine.synchronize().expect("open");
    let reader = engine.register().expect("a handle");
    drop(reader.read_lock());
    std::thread::sleep(Duration::from_millis(50));
    let before = switches();
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!(switches(), before, "an idle engine wakes nobody");
}

#[test]
fn an_idle_open_engine_makes_no_wakeups() {
    let status = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "life::idle_alone", "--ignored", "--quiet"])
        .status()
        .expect("it runs");
    assert!(status.success());
}

#[test]
fn bad_options_are_named() {
    let options = Options {
        gp_kthread_cpu: Some(7),
        ..Options::default()
    };
    let err = Engine::new(&config(2, "full"), &options)
        .err()
        .expect("refused")
        .to_string();
    assert!(
        err.contains("gp_kthread_cpu=7") && err.contains("0 to 1"),
        "{err}"
    );
    let engine = open(2, "full", &Options::default());
    let err = engine.register_on(9).expect_err("no such CPU").to_string();
    assert!(err.contains("cpu=9"), "{err}");
    assert!(engine.cpu_offline(5).is_err() && engine.cpu_online(0).is_err());
    engine.cpu_offline(1).expect("was online");
    let err = engine.cpu_offline(0).expect_err("the last one").to_string();
    assert!(err.contains("last"), "{err}");
}
