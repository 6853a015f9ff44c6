//! `synchronize_rcu()` from the caller to the kthread and back: the engine's own grace-period thread runs, and sleeps.

use crate::rig::{Protected, config, section};
use crate::run::{Hits, Model};
use loom::sync::atomic::fence;
use loom::thread;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use treercu::host::model::{Kthread, Rig};
use treercu::host::{GiveUp, Handle};

/// The caller blocks, the kthread sleeps until it is asked.
fn synchronize(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let kthread = thread::spawn({
        let rig = rig.clone();
        move || rig.gp_thread()
    });
    let mut caller = rig.register_on(0);
    caller.synchronize().expect("an open engine");
    hits.hit();
    rig.stop();
    kthread.join().unwrap();
}

/// With a reader, and with another grace period requested before: the one that the caller must not take for its own.
fn with_reader(hits: &Hits, requested_before: bool) {
    let rig = Rig::new(&config(1, "full"));
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let kthread = thread::spawn({
        let rig = rig.clone();
        move || rig.gp_thread()
    });
    if requested_before {
        rig.start_poll(0);
    }
    let reader = thread::spawn({
        let shared = shared.clone();
        move || section(&handle, &shared)
    });
    let mut caller = rig.register_on(0);
    shared.unpublish();
    caller.synchronize().expect("an open engine");
    shared.free();
    hits.hit();
    reader.join().unwrap();
    rig.stop();
    kthread.join().unwrap();
}

fn reader(hits: &Hits) {
    with_reader(hits, false);
}

fn reader_and_earlier_request(hits: &Hits) {
    with_reader(hits, true);
}

/// A grace period runs already when the caller pushes itself: that one is not the caller's.
fn pushed_late(hits: &Hits) {
    let rig = Rig::driven(&config(1, "full"), 0);
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let mut caller = rig.register_on(0);
    rig.start_poll(0);
    let reader = thread::spawn({
        let shared = shared.clone();
        move || {
            section(&handle, &shared);
            // Not dropped here: leaving the scan set would tell the kthread more than the section does.
            handle
        }
    });
    let caller = thread::spawn({
        let shared = shared.clone();
        move || {
            shared.unpublish();
            caller.synchronize().expect("an open engine");
            shared.free();
        }
    });
    let mut kthread = Kthread::new(&rig, 0);
    kthread.run(0);
    let _handle = reader.join().unwrap();
    // A caller that found the role taken leaves its request behind.
    loop {
        assert!(kthread.run(3), "nobody is in its way");
        fence(SeqCst);
        if !rig.is_requested() {
            break;
        }
    }
    caller.join().unwrap();
    hits.hit();
}

/// Callers carry out the kthread's steps themselves; its own thread is there for what takes time.
fn driven(hits: &Hits) {
    let rig = Rig::driven(&config(1, "full"), 1);
    let kthread = thread::spawn({
        let rig = rig.clone();
        move || rig.gp_thread()
    });
    let mut second = rig.register_on(0);
    let other = thread::spawn(move || {
        second.synchronize().expect("an open engine");
    });
    let mut first = rig.register_on(0);
    first.synchronize().expect("an open engine");
    hits.hit();
    other.join().unwrap();
    rig.stop();
    kthread.join().unwrap();
}

/// Without that thread: a request that nobody works on is one for ever.
fn driven_alone(hits: &Hits) {
    let rig = Rig::driven(&config(1, "full"), 1);
    let mut second = rig.register_on(0);
    let other = thread::spawn(move || {
        second.synchronize().expect("an open engine");
    });
    let mut first = rig.register_on(0);
    first.synchronize().expect("an open engine");
    hits.hit();
    other.join().unwrap();
}

/// Callers that look around now and then sleep by themselves: there is no crowd whose fences could order who gives the
/// role up before who goes to sleep. No time passes here, so that a request that nobody works on stays one.
fn driven_apart(hits: &Hits) {
    struct NowAndThen;
    impl GiveUp for NowAndThen {
        fn now(&self) -> bool {
            false
        }
        fn every(&self) -> Option<Duration> {
            Some(Duration::from_millis(10))
        }
    }
    fn call(mut handle: Handle) {
        let served = handle.synchronize_unless(&NowAndThen).expect("an open engine");
        assert!(served.is_some());
    }
    let rig = Rig::driven(&config(1, "full"), 0);
    let second = rig.register_on(0);
    let other = thread::spawn(move || call(second));
    call(rig.register_on(0));
    hits.hit();
    other.join().unwrap();
}

/// The same with a reader instead of the second caller.
fn driven_reader(hits: &Hits) {
    let rig = Rig::driven(&config(1, "full"), 1);
    let shared = Protected::new();
    let handle = rig.register_on(0);
    let kthread = thread::spawn({
        let rig = rig.clone();
        move || rig.gp_thread()
    });
    let reader = thread::spawn({
        let shared = shared.clone();
        move || section(&handle, &shared)
    });
    let mut caller = rig.register_on(0);
    shared.unpublish();
    caller.synchronize().expect("an open engine");
    shared.free();
    hits.hit();
    reader.join().unwrap();
    rig.stop();
    kthread.join().unwrap();
}

/// Ticks: whoever wants one while the tick thread is about to sleep without gets it.
fn ticks_wanted(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let ticks = thread::spawn({
        let rig = rig.clone();
        move || rig.tick_turn()
    });
    let handle = rig.register_on(0);
    handle.call(|| {}).expect("an open engine");
    // A lost want leaves the tick thread asleep for ever.
    ticks.join().unwrap();
    hits.hit();
    assert!(rig.has_ticks(0), "a CPU with callbacks has no tick");
}

/// A callback is queued while a tick finds that its CPU needs no more ticks.
fn ticks_given_up(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    rig.want_tick(0);
    let ticks = thread::spawn({
        let rig = rig.clone();
        move || rig.tick_turn()
    });
    let handle = rig.register_on(0);
    handle.call(|| {}).expect("an open engine");
    ticks.join().unwrap();
    hits.hit();
    assert!(rig.has_ticks(0), "a CPU with callbacks has no tick");
}

/// The kthread carries the ticks out, in the middle of which the tick thread finds none wanted.
fn ticks_by_kthread(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    let handle = rig.register_on(0);
    handle.call(|| {}).expect("an open engine");
    // Until the callback waits for a grace period, and a tick has nothing to do.
    rig.tick_all();
    rig.tick_all();
    let ticks = thread::spawn({
        let rig = rig.clone();
        move || rig.tick_sleep()
    });
    rig.tick_all();
    ticks.join().unwrap();
    hits.hit();
    assert!(rig.has_ticks(0), "a CPU with callbacks has no tick");
}

/// A core is raised while its CPU's tick is carried out.
fn core_raised(hits: &Hits) {
    let rig = Rig::new(&config(1, "full"));
    // The first tick of all finds something to do by itself.
    rig.tick(0);
    rig.want_tick(0);
    let ticks = thread::spawn({
        let rig = rig.clone();
        move || rig.tick_turn()
    });
    rig.raise_core(0);
    ticks.join().unwrap();
    hits.hit();
    assert!(rig.core_is_seen_to(0), "a core is raised and no tick comes");
}

pub const MODELS: &[Model] = &[
    Model::new("synchronize: alone", 2, synchronize),
    Model::new("synchronize: reader", 2, reader),
    Model::new(
        "synchronize: reader, earlier request",
        2,
        reader_and_earlier_request,
    ),
    Model::new("synchronize: pushed late", 2, pushed_late),
    Model::new("driven: 2 callers apart", 2, driven_apart),
    Model::new("driven: 2 callers alone", 2, driven_alone),
    Model::new("driven: 2 callers", 2, driven).long(),
    Model::new("driven: reader", 2, driven_reader),
    Model::new("ticks: wanted", 3, ticks_wanted),
    Model::new("ticks: given up", 3, ticks_given_up),
    Model::new("ticks: core raised", 3, core_raised),
    Model::new("ticks: by the kthread", 3, ticks_by_kthread),
];
