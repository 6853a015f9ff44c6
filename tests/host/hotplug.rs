//! Virtual CPUs going offline: whom that waits for, and how it is given up.

use crate::{config, eventually, everywhere, open};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use treercu::host::{Engine, Options};

/// Half of what such a call waits at most.
const AT_ONCE: Duration = Duration::from_millis(2500);

#[test]
fn inside_a_section_of_its_own_it_is_refused_at_once() {
    everywhere(2, |which, engine| {
        let section = engine.read_lock().expect("open");
        let began = Instant::now();
        for cpu in 0..2 {
            let err = engine.cpu_offline(cpu).expect_err("inside a section").to_string();
            assert!(
                err.contains("cpu_offline") && err.contains("inside a read-side section"),
                "{which}: {err}"
            );
        }
        assert!(began.elapsed() < AT_ONCE, "{which}: {:?}", began.elapsed());
        drop(section);
        assert_eq!(engine.online_cpus(), [0, 1], "{which}");
    });
}

#[test]
fn the_calling_thread_is_not_waited_for() {
    everywhere(2, |which, engine| {
        // Attached, outside any section, and without a quiescent state since.
        drop(engine.read_lock().expect("open"));
        let began = Instant::now();
        for cpu in [0, 1] {
            engine.cpu_offline(cpu).expect("its own thread only");
            engine.cpu_online(cpu).expect("was offline");
        }
        engine.detach();
        let mut handle = engine.register_on(1).expect("a handle");
        drop(handle.read_lock());
        handle.cpu_offline(1).expect("its own thread only");
        assert_eq!(handle.cpu(), 0, "{which}");
        assert!(began.elapsed() < AT_ONCE, "{which}: {:?}", began.elapsed());
    });
}

/// Gives up a call that takes vCPU 1 offline, once it has begun, and waits until it has returned.
fn given_up(engine: &Engine) {
    let cancel = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| engine.cpu_offline_unless(1, &cancel).expect("no error"));
        eventually("it begins", || engine.online_cpus() == [0]);
        cancel.store(true, Ordering::SeqCst);
        assert_eq!(call.join().expect("no panic"), None);
    });
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(engine.online_cpus(), [0, 1]);
}

#[test]
fn waiting_for_a_thread_can_be_given_up_and_the_thread_stays() {
    let engine = open(2, "none", &Options::default());
    let (go, done) = (channel::<()>(), channel::<u32>());
    std::thread::scope(|scope| {
        let (engine, sent, receive) = (&engine, done.0, go.1);
        scope.spawn(move || {
            let mut reader = engine.register_on(1).expect("a handle");
            sent.send(reader.cpu()).expect("received");
            receive.recv().expect("sent");
            reader.quiescent();
            sent.send(reader.cpu()).expect("received");
        });
        assert_eq!(done.1.recv(), Ok(1));
        given_up(engine);
        go.0.send(()).expect("received");
        assert_eq!(done.1.recv(), Ok(1), "nobody wants it to move any more");
    });
    engine.cpu_offline(1).expect("nobody is there");
    engine.synchronize().expect("open");
}

#[test]
fn waiting_for_a_batch_of_callbacks_can_be_given_up_and_the_cpu_is_back() {
    for rcuc in [false, true] {
        let options = Options {
            rcuc,
            ..Options::default()
        };
        let engine = open(2, "full", &options);
        let (running, release) = (channel::<()>(), channel::<()>());
        let queues = engine.register_on(1).expect("a handle");
        let (started, wait) = (running.0, release.1);
        queues
            .call(move || {
                started.send(()).expect("received");
                let _ = wait.recv();
            })
            .expect("open");
        for _ in 0..10 {
            queues.call(|| ()).expect("open");
        }
        running.1.recv().expect("it runs");
        given_up(&engine);
        release.0.send(()).expect("received");
        engine.barrier().expect("open");
        eventually("none is lost", || {
            let counters = engine.counters();
            counters.callbacks_queued >= 11 && counters.callbacks_invoked == counters.callbacks_queued
        });
        engine.cpu_offline(1).expect("no batch any more");
        engine.synchronize().expect("open");
    }
}

/// A thread that was asked to move, and then was moved while it was outside, is not to move once more later: that CPU
/// may be offline by then, and nobody would wait for the thread there.
#[test]
fn a_thread_moves_once_for_one_cpu_that_goes() {
    let engine = Engine::new(&config(2, "none"), &Options::default()).expect("an engine");
    let (outside, back) = (channel::<()>(), channel::<()>());
    std::thread::scope(|scope| {
        let (engine, out, wait) = (&engine, outside.0, back.1);
        scope.spawn(move || {
            let mut reader = engine.register_on(1).expect("a handle");
            out.send(()).expect("received");
            eventually("it is asked", || engine.online_cpus() == [0]);
            std::thread::sleep(Duration::from_millis(20));
            reader.outside(|| {
                eventually("it was moved", || engine.counters().cpus_offlined == 1);
                out.send(()).expect("received");
                wait.recv().expect("sent");
            });
            reader.quiescent();
            assert_eq!(reader.cpu(), 1, "its CPU is the one that is online");
            out.send(()).expect("received");
            wait.recv().expect("sent");
        });
        let next = || outside.1.recv().expect("sent");
        next();
        engine.cpu_offline(1).expect("the thread steps aside");
        next();
        engine.cpu_online(1).expect("was offline");
        engine.cpu_offline(0).expect("the thread is outside");
        back.0.send(()).expect("received");
        next();
        assert_eq!(engine.online_cpus(), [1]);
        back.0.send(()).expect("received");
    });
    engine.synchronize().expect("open");
}
