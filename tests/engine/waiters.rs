//! `synchronize_rcu()` by direct wake, its latch, and `rcu_barrier()`.

use crate::rig::{Called, Rig, irq, rcu, task};
use treercu::config::Latch;
use treercu::tree::waiters::Waiter;
use treercu::tree::{Cb, Route, SyncCall, WAIT_HEADS};

/// Waiters completed since the last look, with the grace period that served each.
fn served(rig: &mut Rig<'_>) -> Vec<(u64, u64)> {
    std::mem::take(&mut rig.w.done)
}

/// One step of a call on CPU 1.
fn step(rig: &mut Rig<'_>, call: &mut SyncCall) -> bool {
    rig.rcu.sync_step(call, task(1), &mut rig.w)
}

fn begin(rig: &mut Rig<'_>, token: u64) -> SyncCall {
    rig.rcu.sync_begin(Waiter::new(token), &mut rig.w)
}

/// Callers are taken before the number starts: one that pushes itself right after the start has a
/// snapshot that names the next grace period, and this one must not complete it.
#[test]
fn a_caller_that_comes_after_the_start_waits_for_the_next_grace_period() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.synchronize(1, 100);
    let rcu = &rcu;
    rig.w.at_start = Some(Box::new(move || {
        let mut elsewhere = crate::rig::Fake::default();
        let mut call = rcu.sync_begin(Waiter::new(200), &mut elsewhere);
        // The push; its request comes later.
        assert!(!rcu.sync_step(&mut call, task(2), &mut elsewhere));
    }));
    rig.run();
    let first = rcu.gp_seq();
    assert!(rig.w.at_start.is_none());
    rig.request(2);
    rig.finish();
    assert_eq!(served(&mut rig), [(100, first)]);
    assert!(rcu.gp_in_progress());
    rig.finish();
    assert_eq!(served(&mut rig), [(200, first + 4)]);
}

/// The kthread wakes five callers, newest first, the worker the rest.
#[test]
fn the_kthread_wakes_five_and_the_worker_the_rest() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    (0..8).for_each(|token| rig.synchronize(1, token));
    rig.run();
    let seq = rcu.gp_seq();
    rig.finish();
    assert_eq!(served(&mut rig), [7, 6, 5, 4, 3].map(|token| (token, seq)));
    rig.work();
    assert_eq!(served(&mut rig), [2, 1, 0].map(|token| (token, seq)));
    assert_eq!(rig.snap().srs.heads_in_use, 1, "the done tail lingers");
}

/// Five wait heads: a grace period that finds all in use serves nobody and asks for one more itself, so
/// that the callers it left are served as soon as there is a head.
#[test]
fn callers_without_a_wait_head_are_served_by_one_more_grace_period() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    // Six callers each, so that one is left to the worker, which does not come to run.
    for round in 0..WAIT_HEADS as u64 {
        (0..6).for_each(|caller| rig.synchronize(1, 10 * round + caller));
        rig.run();
        rig.finish();
        assert!(rig.asleep_for_request());
    }
    assert_eq!(rig.snap().srs.heads_in_use, WAIT_HEADS as u32);
    assert_eq!(served(&mut rig).len(), 25);

    rig.synchronize(1, 100);
    rig.run();
    assert!(!rig.snap().srs.wait_tail, "nobody is served");
    rig.work();
    assert_eq!(served(&mut rig).len(), 5);
    assert_eq!(rig.snap().srs.heads_in_use, 1);
    let wakes = rig.w.wakes;
    rig.finish();
    assert_eq!(served(&mut rig), []);
    assert!(rcu.gp_in_progress(), "one more, which nobody else asked for");
    assert_eq!(rig.w.wakes, wakes);
    let seq = rcu.gp_seq();
    rig.finish();
    assert_eq!(served(&mut rig), [(100, seq)]);
    assert!(rig.asleep_for_request());
}

/// The merged latch counts first and closes at exactly 64; a call that counts 65 meanwhile does not
/// close it. It opens when none is in flight.
#[test]
fn the_merged_latch_closes_at_exactly_64_and_opens_at_zero() {
    let rcu = rcu(|tun| tun.sr_normal_latch = Latch::Merged);
    let mut rig = Rig::new(&rcu);
    (0..63).for_each(|token| rig.synchronize(1, token));
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (63, false));

    let mut closer = begin(&mut rig, 63);
    let mut late = begin(&mut rig, 64);
    assert_eq!((closer.route(), late.route()), (Route::Direct, Route::Direct));
    assert!(!step(&mut rig, &mut closer));
    assert_eq!(
        (rig.snap().srs.count, rig.snap().srs.latched),
        (64, false),
        "counted"
    );
    // 65: count, push, request — no step for the latch.
    assert!(!step(&mut rig, &mut late));
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (65, false));
    assert!(!step(&mut rig, &mut late));
    assert!(step(&mut rig, &mut late));
    assert!(!rig.snap().srs.latched);

    // All but the closer are served before it goes on: its own count keeps the latch sane.
    rig.run();
    rig.finish();
    rig.work();
    assert_eq!(served(&mut rig).len(), 64);
    assert_eq!(rig.snap().srs.count, 1);
    assert!(!step(&mut rig, &mut closer));
    assert_eq!(
        (rig.snap().srs.count, rig.snap().srs.latched),
        (1, true),
        "latched"
    );
    assert_eq!(begin(&mut rig, 70).route(), Route::Callback);
    assert!(!step(&mut rig, &mut closer));
    assert!(step(&mut rig, &mut closer), "pushed and requested");
    rig.run();
    rig.finish();
    assert_eq!(served(&mut rig).len(), 1);
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (0, false));
    assert_eq!(begin(&mut rig, 71).route(), Route::Direct);
}

/// It stays closed down to one in flight, and calls on the callback route are not counted.
#[test]
fn the_latch_stays_closed_until_the_last_is_served() {
    let rcu = rcu(|tun| {
        tun.sr_normal_latch = Latch::Merged;
        tun.sr_normal_latch_threshold = 7;
    });
    let mut rig = Rig::new(&rcu);
    (0..7).for_each(|token| rig.synchronize(1, token));
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (7, true));
    let route = rcu.synchronize(task(1), Waiter::new(7), &mut rig.w);
    assert_eq!(route, Route::Callback);
    assert_eq!(rig.snap().srs.count, 7);
    assert_eq!(rig.snap().cpus[1].cblist_len, 1);
    rig.run();
    rig.finish();
    assert_eq!(
        (rig.snap().srs.count, rig.snap().srs.latched),
        (2, true),
        "two for the worker"
    );
    rig.work();
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (0, false));
}

/// The first version pushes before it counts: a call can be served before it is counted. And it closes
/// at 64 or more in two steps, between which all can be served: closed for good with none in flight.
#[test]
fn the_first_latch_has_its_two_defects() {
    let rcu = rcu(|tun| tun.sr_normal_latch = Latch::V1);
    let mut rig = Rig::new(&rcu);
    let mut early = begin(&mut rig, 0);
    assert!(!step(&mut rig, &mut early));
    assert_eq!(rig.snap().srs.count, 0, "pushed, not counted");
    rig.begin();
    rig.finish();
    assert_eq!(served(&mut rig).len(), 1);
    assert_eq!(rig.snap().srs.count, -1);
    assert!(!step(&mut rig, &mut early));
    assert!(step(&mut rig, &mut early));
    assert_eq!(rig.snap().srs.count, 0);
    rig.run();
    rig.finish();

    (0..63).for_each(|token| rig.synchronize(1, token));
    let mut closers = [64, 65].map(|token| begin(&mut rig, token));
    for closer in &mut closers {
        assert!(!step(&mut rig, closer));
        assert!(!step(&mut rig, closer));
    }
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (65, false));
    rig.run();
    rig.finish();
    rig.work();
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (0, false));
    // 65 closes it too, not only 64.
    assert!(!step(&mut rig, &mut closers[1]));
    assert_eq!((rig.snap().srs.count, rig.snap().srs.latched), (0, true));
    assert!(step(&mut rig, &mut closers[1]));
    assert_eq!(begin(&mut rig, 70).route(), Route::Callback, "for good");
}

/// Without a latch any number goes the direct way, and without the direct wake nobody does.
#[test]
fn no_latch_and_no_direct_wake() {
    for (direct, route) in [(true, Route::Direct), (false, Route::Callback)] {
        let rcu = rcu(|tun| tun.wake_from_gp = direct);
        let mut rig = Rig::new(&rcu);
        for token in 0..70 {
            assert_eq!(rcu.synchronize(task(1), Waiter::new(token), &mut rig.w), route);
        }
        assert_eq!(rig.requested(), direct, "a callback asks at the next tick");
    }
}

/// Invokes what is ready on this CPU; how many were the barrier's.
fn invoke(rig: &mut Rig<'_>, cpu: u32) -> (Vec<u64>, usize) {
    let (mut names, mut barriers) = (Vec::new(), 0);
    let mut batch = rig.core(cpu).expect("callbacks are ready");
    while let Some(callback) = batch.next(irq(cpu), false, &mut rig.w) {
        match callback {
            Cb::User(Called(name)) => {
                assert_eq!(barriers, 0, "the barrier's comes last");
                names.push(name);
            }
            Cb::Barrier => {
                rig.rcu.barrier_callback(&mut rig.w);
                barriers += 1;
            }
            Cb::Wake(_) => panic!("nobody synchronizes"),
        }
    }
    batch.finish(irq(cpu), false, &mut rig.w);
    (names, barriers)
}

/// `rcu_barrier()` entrains on online CPUs by an interrupt, on offline ones itself, and nothing on CPUs
/// without callbacks; it is over when the last of its callbacks was invoked, wherever they went.
#[test]
fn a_barrier_counts_online_and_offline_cpus() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.call(1, 2);
    rig.call(2, 1);
    rcu.cpu_dead(task(1), None, &mut rig.w);
    rcu.barrier(Waiter::new(1), &mut rig.w);
    assert_eq!(rig.w.ipis, [2], "CPU 1 is offline, CPUs 0 and 3 have none");
    assert_eq!(rig.snap().cpus[1].cblist_len, 3, "entrained by the caller");
    assert_eq!(rig.snap().cpus[2].cblist_len, 1);
    rcu.barrier_ipi(2, &mut rig.w);
    assert_eq!(rig.snap().cpus[2].cblist_len, 2);
    // A second caller is served by the next barrier.
    rcu.barrier(Waiter::new(2), &mut rig.w);
    assert_eq!(rig.w.ipis, [2]);

    assert!(rcu.migrate_callbacks(task(0), 1, &mut rig.w));
    assert_eq!(rig.snap().cpus[0].cblist_len, 3, "no second one on the way");
    assert!(rig.core(2).is_none());
    rig.run();
    rig.finish();
    rig.call(3, 1);
    assert_eq!(invoke(&mut rig, 2), (vec![2], 1));
    assert!(rig.w.done.is_empty(), "one of two");
    assert_eq!(invoke(&mut rig, 0), (vec![0, 1], 1));
    assert_eq!(rig.w.done.iter().map(|done| done.0).collect::<Vec<_>>(), [1]);
    // The next barrier began at once: on CPU 3, and on CPU 0, whose batch was not over yet.
    assert_eq!(rig.w.ipis, [2, 0, 3]);
    [0, 3]
        .into_iter()
        .for_each(|cpu| rcu.barrier_ipi(cpu, &mut rig.w));
    assert_eq!(rig.snap().cpus[0].cblist_len, 0);
    assert!(rig.core(3).is_none());
    rig.run();
    rig.finish();
    assert_eq!(invoke(&mut rig, 3), (vec![3], 1));
    assert_eq!(rig.w.done.iter().map(|done| done.0).collect::<Vec<_>>(), [1, 2]);
}

/// The interrupt may find the list empty: then it only takes its count back. No callbacks at all: the
/// barrier is over at once.
#[test]
fn a_barrier_with_nothing_left_to_wait_for_ends() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rcu.barrier(Waiter::new(1), &mut rig.w);
    assert_eq!(rig.w.done.len(), 1);
    rig.ripen(1, 1);
    rcu.barrier(Waiter::new(2), &mut rig.w);
    assert_eq!(rig.w.ipis, [1]);
    assert_eq!(invoke(&mut rig, 1), (vec![0], 0));
    assert_eq!(rig.w.done.len(), 1, "the interrupt is still on its way");
    rcu.barrier_ipi(1, &mut rig.w);
    assert_eq!(rig.w.done.len(), 2);
}

/// A batch that took everything off the list still runs: the barrier's callback rides behind it.
#[test]
fn a_barrier_waits_for_a_running_batch() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 1);
    let mut batch = rig.core(1).expect("one is ready");
    assert!(batch.next(irq(1), false, &mut rig.w).is_some());
    rcu.barrier(Waiter::new(1), &mut rig.w);
    rcu.barrier_ipi(1, &mut rig.w);
    assert!(rig.w.done.is_empty());
    assert!(batch.next(irq(1), false, &mut rig.w).is_none());
    batch.finish(irq(1), false, &mut rig.w);
    assert!(rig.w.done.is_empty());
    assert_eq!(invoke(&mut rig, 1), (vec![], 1));
    assert_eq!(rig.w.done.len(), 1);
}
