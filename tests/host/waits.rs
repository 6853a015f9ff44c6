//! Waiting: grace periods, barriers, cookies, callbacks.

use crate::{config, eventually, everywhere, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use treercu::host::{Engine, Options};

#[test]
fn a_call_returns_after_a_grace_period_that_began_after_it() {
    everywhere(4, |which, engine| {
        let before = engine.gp_seq();
        for _ in 0..3 {
            let served = engine.synchronize().expect("open");
            assert!(served.gp_seq & 3 == 1, "{which}: {served:?}");
        }
        assert!(engine.gp_seq() >= before + 3 * 4, "{which}");
    });
}

#[test]
fn both_routes_and_many_callers() {
    for wake in [0, 1] {
        let engine = Engine::new(
            &config(3, "full")
                .with("rcu_normal_wake_from_gp", wake)
                .expect("in range"),
            &Options::default(),
        )
        .expect("an engine");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut handle = engine.register().expect("a handle");
                    for _ in 0..5 {
                        assert_eq!(handle.synchronize().expect("open").direct, wake == 1);
                    }
                });
            }
        });
        let gps = engine.take_grace_periods();
        assert_eq!(gps.requests.iter().sum::<i64>(), 80);
        assert!(gps.len() >= 5);
    }
}

/// The thread that invokes callbacks must not be waited for afterwards, with readers that have no words either.
#[test]
fn a_callback_that_uses_the_engine_holds_nothing_up() {
    everywhere(2, |which, engine| {
        let done = Arc::new(AtomicU64::new(0));
        let (again, counted) = (engine.clone(), done.clone());
        let use_it = move || {
            drop(again.read_lock().expect("open"));
            let counted = counted.clone();
            let inner = move || {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            again.call(inner).expect("open");
        };
        engine.call(use_it).expect("open");
        engine.detach(); // This thread is about to sleep.
        eventually(&format!("{which}: both callbacks"), || {
            done.load(Ordering::SeqCst) == 1
        });
        engine.synchronize().expect("open");
    });
}

#[test]
fn a_reader_holds_a_grace_period_up_until_it_leaves() {
    everywhere(2, |which, engine| {
        let left = AtomicBool::new(false);
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut reader = engine.register().expect("a handle");
                let section = reader.read_lock();
                inside.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(40));
                left.store(true, Ordering::SeqCst);
                drop(section);
                reader.quiescent();
            });
            eventually("inside", || inside.load(Ordering::SeqCst));
            engine.synchronize().expect("open");
            assert!(left.load(Ordering::SeqCst), "{which}: the reader is still inside");
        });
    });
}

#[test]
fn an_expedited_call_waits_for_readers_and_for_nothing_else() {
    everywhere(2, |which, engine| {
        for _ in 0..100 {
            engine.synchronize_expedited().expect("open");
        }
        let gps = engine.counters().grace_periods;
        assert_eq!(gps, 0, "{which}: an expedited grace period starts no normal one");
        assert!(engine.counters().expedited_grace_periods >= 100);
        // This thread goes on through a handle; its own attachment would have to report too.
        engine.detach();
        for on_my_cpu in [false, true] {
            let left = AtomicBool::new(false);
            let inside = AtomicBool::new(false);
            let mut me = engine.register_on(0).expect("a handle");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut reader = engine.register_on(u32::from(!on_my_cpu)).expect("a handle");
                    let section = reader.read_lock();
                    inside.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(30));
                    left.store(true, Ordering::SeqCst);
                    drop(section);
                    reader.quiescent();
                });
                eventually("inside", || inside.load(Ordering::SeqCst));
                me.synchronize_expedited().expect("open");
                assert!(left.load(Ordering::SeqCst), "{which}, same vCPU: {on_my_cpu}");
            });
        }
    });
}

#[test]
fn many_expedited_callers_share_grace_periods() {
    everywhere(5, |which, engine| {
        let engine = &engine;
        std::thread::scope(|scope| {
            for number in 0..12u32 {
                scope.spawn(move || {
                    let mut handle = engine.register_on(number % 5).expect("a handle");
                    for round in 0..200 {
                        if number < 4 {
                            drop(handle.read_lock());
                            handle.quiescent();
                            if round % 50 == 0 {
                                std::thread::sleep(Duration::from_micros(200));
                            }
                        } else {
                            handle.synchronize_expedited().expect("open");
                        }
                    }
                });
            }
        });
        assert!(engine.counters().expedited_grace_periods > 0, "{which}");
    });
}

#[test]
fn a_stall_names_the_thread() {
    for preempt in ["full", "none"] {
        let config = config(2, preempt)
            .with("rcu_cpu_stall_timeout", 3)
            .expect("in range");
        let engine = Engine::new(&config, &Options::default()).expect("an engine");
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading = std::thread::Builder::new().name("dawdler".into());
            let spawned = reading.spawn_scoped(scope, || {
                let mut reader = engine.register().expect("a handle");
                let section = reader.read_lock();
                inside.store(true, Ordering::SeqCst);
                eventually("a stall", || !engine.stalls().is_empty());
                drop(section);
                reader.quiescent();
            });
            spawned.expect("a thread");
            eventually("inside", || inside.load(Ordering::SeqCst));
            engine.synchronize().expect("open");
        });
        let stall = engine.stalls()[0].clone();
        assert!(stall.threads.iter().any(|name| name == "dawdler"), "{stall}");
        println!("{stall}");
    }
}

#[test]
fn callbacks_run_once_and_a_barrier_waits_for_them() {
    everywhere(3, |which, engine| {
        let ran = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let ran = ran.clone();
                        engine
                            .call(move || {
                                ran.fetch_add(1, Ordering::SeqCst);
                            })
                            .expect("open");
                    }
                });
            }
        });
        engine.barrier().expect("open");
        assert_eq!(ran.load(Ordering::SeqCst), 2000, "{which}");
        eventually(which, || {
            let counters = engine.counters();
            counters.callbacks_invoked == counters.callbacks_queued
        });
    });
}

#[test]
fn rcuc_threads_run_callbacks_too() {
    let options = Options {
        rcuc: true,
        ..Options::default()
    };
    let engine = open(2, "full", &options);
    let name = Arc::new(std::sync::Mutex::new(String::new()));
    let seen = name.clone();
    engine
        .call(move || {
            *seen.lock().unwrap() = std::thread::current().name().unwrap_or("").to_owned();
        })
        .expect("open");
    engine.barrier().expect("open");
    assert!(name.lock().unwrap().starts_with("treercu-rcuc/"));
}

#[test]
fn cookies_come_true_without_a_caller() {
    everywhere(2, |which, engine| {
        let plain = engine.start_poll().expect("open");
        let full = engine.start_poll_full().expect("open");
        assert!(!engine.poll_state(plain), "{which}");
        engine.detach();
        eventually(which, || engine.poll_state(plain) && engine.poll_state_full(full));
    });
}

#[test]
fn a_cancelled_call_returns_and_the_next_one_works() {
    let engine = open(2, "full", &Options::default());
    let inside = AtomicBool::new(false);
    let go = AtomicBool::new(false);
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let section = engine.read_lock().expect("open");
            inside.store(true, Ordering::SeqCst);
            eventually("go", || go.load(Ordering::SeqCst));
            drop(section);
        });
        eventually("inside", || inside.load(Ordering::SeqCst));
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            cancel.store(true, Ordering::SeqCst);
            engine.kick_waiters();
        });
        let mut handle = engine.register().expect("a handle");
        let began = Instant::now();
        assert_eq!(handle.synchronize_cancellable(&cancel).expect("open"), None);
        assert!(began.elapsed() < Duration::from_secs(5));
        go.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            handle.synchronize().expect("open");
        }
    });
}

#[test]
fn waiting_where_it_could_never_return_is_refused() {
    everywhere(2, |which, engine| {
        let section = engine.read_lock().expect("open");
        let err = engine.synchronize().expect_err("inside a section").to_string();
        assert!(
            err.contains("synchronize") && err.contains("section"),
            "{which}: {err}"
        );
        assert!(engine.barrier().is_err());
        // The same thread through a handle, whose own sections are none of this: no call may hang.
        let mut handle = engine.register().expect("a handle");
        for result in [
            handle.synchronize().map(drop),
            handle.synchronize_expedited().map(drop),
            handle.barrier(),
        ] {
            let err = result.expect_err("inside a section of this thread").to_string();
            assert!(err.contains("inside a read-side section"), "{which}: {err}");
        }
        drop((handle, section));
        engine.synchronize().expect("outside");
        let (send, receive) = std::sync::mpsc::channel();
        let inner = engine.clone();
        engine
            .call(move || {
                send.send(inner.synchronize().map_err(|e| e.to_string()))
                    .expect("sent")
            })
            .expect("open");
        engine.detach();
        let err = receive
            .recv_timeout(Duration::from_secs(20))
            .expect("the callback ran")
            .expect_err("inside a callback");
        assert!(err.contains("callback"), "{which}: {err}");
    });
}

#[test]
fn an_expedited_driver_may_give_up_and_loses_nobody_who_relies_on_it() {
    everywhere(2, |which, engine| {
        let (inside, go) = (AtomicBool::new(false), AtomicBool::new(false));
        let cancels = [const { AtomicBool::new(false) }; 2];
        let served = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let section = engine.read_lock().expect("open");
                inside.store(true, Ordering::SeqCst);
                eventually("go", || go.load(Ordering::SeqCst));
                drop(section);
                engine.detach();
            });
            eventually("inside", || inside.load(Ordering::SeqCst));
            // The first drives, the second waits for the mutex or on a node, and others rely on both.
            let cancelled: Vec<_> = cancels
                .iter()
                .map(|cancel| {
                    let call =
                        scope.spawn(|| engine.synchronize_expedited_cancellable(cancel).expect("open"));
                    std::thread::sleep(Duration::from_millis(20));
                    call
                })
                .collect();
            for _ in 0..3 {
                scope.spawn(|| {
                    engine.synchronize_expedited().expect("open");
                    assert!(go.load(Ordering::SeqCst), "{which}: the reader is inside");
                    served.fetch_add(1, Ordering::SeqCst);
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            for cancel in &cancels {
                cancel.store(true, Ordering::SeqCst);
            }
            engine.kick_waiters();
            for call in cancelled {
                assert_eq!(call.join().expect("no panic"), None, "{which}");
            }
            assert_eq!(served.load(Ordering::SeqCst), 0, "{which}");
            go.store(true, Ordering::SeqCst);
        });
        assert_eq!(served.load(Ordering::SeqCst), 3, "{which}");
        engine.synchronize_expedited().expect("open");
    });
}

#[test]
fn closing_ends_what_a_driver_that_gave_up_has_left_behind() {
    let engine = open(2, "full", &Options::default());
    let section = engine.read_lock().expect("open");
    let other = engine.clone();
    let began = Instant::now();
    std::thread::spawn(move || {
        let cancel = Arc::new(AtomicBool::new(false));
        let (flag, kicks) = (cancel.clone(), other.clone());
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            flag.store(true, Ordering::SeqCst);
            kicks.kick_waiters();
        });
        assert_eq!(
            other.synchronize_expedited_cancellable(&cancel).expect("open"),
            None
        );
        canceller.join().expect("no panic");
        assert!(
            other
                .close(treercu::host::Remaining::Run, Duration::from_millis(50))
                .is_err()
        );
    })
    .join()
    .expect("no panic");
    assert!(began.elapsed() < Duration::from_secs(10));
    drop(section);
}

/// All vCPUs together, as ticks find them; nothing where nobody queued anything, in JSON too.
#[test]
fn the_peak_of_the_backlog_is_counted() {
    everywhere(2, |which, engine| {
        engine.synchronize_expedited().expect("open");
        let none = serde_json::to_value(engine.counters()).expect("serialises");
        assert!(none.get("callbacks_peak").is_none(), "{which}: {none}");

        let reading = engine.read_lock().expect("open");
        for cpu in 0..2 {
            let handle = engine.register_on(cpu).expect("a handle");
            for _ in 0..300 {
                handle.call(|| ()).expect("open");
            }
        }
        let peak = || engine.counters().callbacks_peak;
        eventually("a tick sees all", || peak() == 600);
        drop(reading);
        engine.barrier().expect("open");
        // The barrier queues one callback in each list.
        assert!((600..=602).contains(&peak()), "{which}: {}", peak());
        eventually("all run", || engine.counters().callbacks_invoked >= 600);
        let all = peak();
        engine.call(|| ()).expect("open");
        engine.barrier().expect("open");
        assert_eq!(peak(), all, "{which}: a peak stays");
    });
}

#[test]
fn settings_decide_which_kind_a_call_is() {
    // (rcu_expedited, rcu_normal): expedited grace periods of one `synchronize()`, of one expedited call.
    for (expedited, normal, by_sync, by_exp) in [(0, 0, 0, 1), (1, 0, 1, 1), (0, 1, 0, 0), (1, 1, 0, 0)] {
        let config = config(2, "full")
            .with("rcu_expedited", expedited)
            .and_then(|config| config.with("rcu_normal", normal))
            .expect("in range");
        let engine = Engine::new(&config, &Options::default()).expect("an engine");
        let count = || engine.counters().expedited_grace_periods;
        let before = count();
        engine.synchronize().expect("open");
        assert_eq!(count() - before, by_sync, "{config}");
        let before = count();
        engine.synchronize_expedited().expect("open");
        assert_eq!(count() - before, by_exp, "{config}");
    }
}
