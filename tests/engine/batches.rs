//! Callbacks: floods, batches and their limits.

use crate::rig::{Called, Rig, drain, idle_irq, irq, rcu};
use std::panic::{AssertUnwindSafe, catch_unwind};
use treercu::trace::Event;
use treercu::tree::world::Ctx;
use treercu::tree::{Cb, DEFAULT_MAX_RCU_BLIMIT};

/// One batch on CPU 1; returns how many callbacks it invoked.
fn batch(rig: &mut Rig<'_>, ctx: Ctx, need_resched: bool) -> usize {
    let mut batch = rig.core(1).expect("callbacks are ready");
    let invoked = drain(&mut batch, ctx, need_resched, &mut rig.w).len();
    assert_eq!(batch.invoked(), invoked as u64);
    batch.finish(ctx, need_resched, &mut rig.w);
    invoked
}

/// The latest batch's limit.
fn limit(rig: &Rig<'_>) -> u64 {
    let starts = rig.w.events.iter().rev();
    let mut limits = starts.filter_map(|event| match event {
        Event::BatchStart { blimit, .. } => Some(*blimit),
        _ => None,
    });
    limits.next().expect("a batch began")
}

/// A batch stops at count >= limit if the CPU is wanted: by a reschedule request, or by a task that the
/// softirq interrupted. What is left makes the core run again.
#[test]
fn a_batch_stops_at_its_limit_when_the_cpu_is_wanted() {
    for (ctx, need_resched, expected) in [
        (irq(1), false, 10),
        (irq(1), true, 10),
        (idle_irq(1), true, 10),
        (idle_irq(1), false, 25),
    ] {
        let rcu = rcu(|_| ());
        let mut rig = Rig::new(&rcu);
        rig.ripen(1, 25);
        rig.w.cores.clear();
        assert_eq!(
            batch(&mut rig, ctx, need_resched),
            expected,
            "{ctx:?} {need_resched}"
        );
        assert_eq!(limit(&rig), 10);
        assert_eq!(rig.snap().cpus[1].cblist_len, 25 - expected as u64);
        assert_eq!(!rig.w.cores.is_empty(), expected < 25);
    }
}

/// limit = max(blimit, DONE >> divisor).
#[test]
fn a_long_queue_raises_the_limit_by_the_divisor() {
    for (divisor, expected) in [(0, 25), (1, 12), (2, 10), (7, 10)] {
        let rcu = rcu(|tun| tun.rcu_divisor = divisor);
        let mut rig = Rig::new(&rcu);
        rig.ripen(1, 25);
        assert_eq!(batch(&mut rig, irq(1), true), expected, "divisor {divisor}");
        assert_eq!(limit(&rig), expected as u64);
    }
}

/// The time limit of `rcu_resched_ns` holds for limits above 100, or with the double check, and is
/// looked at once in 32 callbacks; by the tick counter, with the double check, at each.
#[test]
fn a_batch_ends_when_its_time_is_used_up() {
    for (blimit, double_check, jiffies, expected) in [
        (200, false, 0, 64),
        (101, false, 0, 64),
        (100, false, 0, 90),
        (100, true, 0, 64),
        (100, true, 4, 40),
        (200, false, 4, 64),
    ] {
        let rcu = rcu(|tun| {
            tun.blimit = blimit;
            tun.rcu_double_check_cb_time = double_check;
        });
        let mut rig = Rig::new(&rcu);
        rig.ripen(1, 90);
        rig.w.now = 5_000;
        let mut batch = rig.core(1).expect("callbacks are ready");
        for _ in 0..40 {
            batch.next(irq(1), false, &mut rig.w).expect("within its time");
        }
        rig.w.now += 3_000_001;
        rig.w.jiffies += jiffies;
        let rest = drain(&mut batch, irq(1), false, &mut rig.w).len();
        assert_eq!(
            40 + rest,
            expected,
            "blimit {blimit}, double check {double_check}, {jiffies}"
        );
    }
}

/// The time of a batch may be used up to its end.
#[test]
fn a_batch_within_its_time_goes_on() {
    let rcu = rcu(|tun| tun.blimit = 200);
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 90);
    let mut batch = rig.core(1).expect("callbacks are ready");
    batch.next(irq(1), false, &mut rig.w);
    rig.w.now += 2_999_999;
    assert_eq!(drain(&mut batch, irq(1), false, &mut rig.w).len(), 89);
}

/// An ordinary call requests nothing. Above qhimark more than at the last look, with no grace period
/// running, the call itself requests one; the marks stay, so the next one tests true again, and finds
/// the request made.
#[test]
fn a_flood_on_an_idle_machine_requests_at_once() {
    let rcu = rcu(|tun| tun.qhimark = 10);
    let mut rig = Rig::new(&rcu);
    rig.call(1, 10);
    assert!(!rig.requested());
    rig.call(1, 1);
    assert!(rig.requested());
    assert_eq!(rig.w.wakes, 1);
    rig.w.events.clear();
    rig.call(1, 1);
    assert_eq!(rig.w.wakes, 1);
    assert_eq!(
        rig.snap().cpus[1].seglen,
        [0, 12, 0, 0],
        "the 12th was numbered at once too"
    );
    assert!(!rig.forced(), "there is nothing to force");
    rig.run();
    rig.finish();
    assert_eq!(batch(&mut rig, irq(1), true), 10, "the limit was not lifted");
}

/// With a grace period running the limit is lifted to 10000 and a scan is forced, if none was made
/// since the last look; the look is repeated after qhimark more callbacks.
#[test]
fn a_flood_in_a_grace_period_forces_a_scan_once_per_scan() {
    let rcu = rcu(|tun| {
        tun.qhimark = 10;
        tun.qlowmark = 3;
    });
    let mut rig = Rig::new(&rcu);
    rig.begin();
    let wakes = rig.w.wakes;
    rig.call(1, 10);
    assert!(!rig.forced());
    rig.call(1, 1);
    assert!(rig.forced());
    assert_eq!(rig.w.wakes, wakes + 1);
    rig.run();
    assert_eq!(rig.count("fqsstart"), 1);
    // 22nd: a scan was made since, so this look only notes that. 33rd: none since, force again.
    rig.call(1, 11);
    assert!(!rig.forced());
    rig.call(1, 10);
    assert!(!rig.forced());
    rig.call(1, 1);
    assert!(rig.forced());
    assert_eq!(rig.w.wakes, wakes + 2);
    // A second CPU's flood (11th: notes the scan; 22nd: forces one) finds FQS set and wakes nobody.
    rig.call(2, 22);
    assert_eq!(rig.w.wakes, wakes + 2);
}

/// The lifted limit: a batch takes all; it falls back when a batch leaves no more than qlowmark.
#[test]
fn a_flood_lifts_the_batch_limit_until_the_queue_is_low() {
    let rcu = rcu(|tun| {
        tun.qhimark = 10;
        tun.qlowmark = 3;
        tun.blimit = 5;
    });
    let mut rig = Rig::new(&rcu);
    rig.begin();
    rig.call(1, 15);
    rig.report(1);
    rig.finish();
    assert!(
        !rig.asleep_for_request(),
        "CPU 1's report asked for the one that its callbacks need"
    );
    rig.finish();
    let mut first = rig.core(1).expect("fifteen are ready");
    assert_eq!(limit(&rig), DEFAULT_MAX_RCU_BLIMIT as u64);
    for _ in 0..11 {
        first.next(irq(1), true, &mut rig.w).expect("the limit is lifted");
    }
    first.finish(irq(1), true, &mut rig.w);
    let mut second = rig.core(1).expect("four are ready");
    assert_eq!(limit(&rig), DEFAULT_MAX_RCU_BLIMIT as u64, "4 > qlowmark");
    second
        .next(irq(1), true, &mut rig.w)
        .expect("the limit is lifted");
    second.finish(irq(1), true, &mut rig.w);
    assert_eq!(batch(&mut rig, irq(1), true), 3);
    assert_eq!(limit(&rig), 5, "3 <= qlowmark");
}

/// No scan is forced for a callback that is the only one waiting: those in front of it are done.
#[test]
fn a_flood_does_not_force_a_scan_for_the_only_waiting_callback() {
    let rcu = rcu(|tun| tun.qhimark = 10);
    let mut rig = Rig::new(&rcu);
    rig.call(1, 10);
    assert!(rig.core(1).is_none());
    rig.run();
    // Everybody reports before the first scan, so `n_force_qs` does not move.
    (0..4).for_each(|cpu| rig.report(cpu));
    rig.run();
    assert!(rig.asleep_for_request());
    assert_eq!(rig.count("fqsstart"), 0);
    rig.begin();
    // This call notices the end: the ten are done, the 11th is the first that waits.
    rig.call(1, 1);
    assert_eq!(rig.snap().cpus[1].seglen, [10, 1, 0, 0]);
    assert!(!rig.forced());
}

/// After a batch the last look's length follows the queue down: to 0 with an empty queue, to the length
/// itself when that is more than qhimark below. So the next flood is as many callbacks away again. With
/// an empty queue the count of scans is noted as well, so that it may force one.
#[test]
fn a_drained_queue_is_flooded_anew() {
    for (invoke, left, running) in [(33, 0, false), (30, 3, false), (33, 0, true), (30, 3, true)] {
        let rcu = rcu(|tun| tun.qhimark = 10);
        let mut rig = Rig::new(&rcu);
        rig.begin();
        rig.call(1, 33);
        assert!(rig.forced(), "marks at 11, 22 and 33");
        rig.report(1);
        rig.run();
        rig.finish();
        rig.finish();
        assert!(rig.asleep_for_request());
        let mut some = rig.core(1).expect("all are ready");
        for _ in 0..invoke {
            some.next(irq(1), true, &mut rig.w).expect("the limit is lifted");
        }
        some.finish(irq(1), true, &mut rig.w);
        assert_eq!(rig.snap().cpus[1].cblist_len, left);
        if running {
            rig.begin();
            rig.call(1, 11);
            assert_eq!(rig.forced(), left == 0, "no scan since the queue was empty");
        } else {
            rig.call(1, 10);
            assert!(!rig.requested());
            rig.call(1, 1);
            assert!(rig.requested(), "flooded at {left} + 11");
        }
    }
}

/// A panic in a callback drops the batch: what it had not invoked goes back to the front of DONE, ahead
/// of callbacks that became ready meanwhile (I2: per CPU in enqueue order).
#[test]
fn a_panic_in_a_callback_keeps_the_rest_in_order() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 4);
    let mut first = rig.core(1).expect("four are ready");
    // Two more ripen while the batch runs.
    rig.call(1, 2);
    assert!(rig.core(1).is_none(), "one batch at a time");
    rig.run();
    rig.finish();
    assert!(rig.core(1).is_none());
    let snap = rig.snap();
    assert!(snap.cpus[1].in_batch);
    assert_eq!((snap.cpus[1].cblist_len, snap.cpus[1].seglen), (6, [2, 0, 0, 0]));

    let result = catch_unwind(AssertUnwindSafe(|| {
        let callback = first.next(irq(1), false, &mut rig.w);
        assert!(matches!(callback, Some(Cb::User(Called(0)))));
        let _batch = first;
        panic!("the callback");
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"the callback"));
    let snap = rig.snap();
    assert!(!snap.cpus[1].in_batch);
    assert_eq!((snap.cpus[1].cblist_len, snap.cpus[1].seglen), (5, [5, 0, 0, 0]));
    let mut second = rig.core(1).expect("five are ready");
    assert_eq!(drain(&mut second, irq(1), false, &mut rig.w), [1, 2, 3, 4, 5]);
}

/// A dead CPU's callbacks stay where they are while a batch of theirs is being invoked: taken over in the middle
/// of it they would be counted on one CPU and finished on the other.
#[test]
fn callbacks_are_not_taken_over_in_the_middle_of_a_batch() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 25);
    let mut running = rig.core(1).expect("callbacks are ready");
    running.next(irq(1), true, &mut rig.w).expect("25 are ready");
    rcu.cpu_dead(irq(1), None, &mut rig.w);
    assert!(!rcu.migrate_callbacks(irq(0), 1, &mut rig.w));
    running.finish(irq(1), true, &mut rig.w);
    assert!(rcu.migrate_callbacks(irq(0), 1, &mut rig.w));
    let cpus = &rig.snap().cpus;
    assert_eq!((cpus[1].cblist_len, cpus[0].cblist_len), (0, 24));
}
