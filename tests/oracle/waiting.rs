//! I14: polled grace periods; I15: liveness; I16: barriers; I17: overload.

use crate::story::*;
use treercu::sim::Sight;
use treercu::workload::SyncCallKind;

/// Task 7 on CPU 2 asks for a grace period and polls, or waits for a barrier.
fn waits(kind: SyncCallKind) -> impl FnOnce(&mut Story) {
    move |s| {
        s.wake(2);
        s.see(Sight::SyncBegin {
            task: 7,
            cpu: 2,
            direct: false,
            kind,
        });
        s.ask(BOOT + 4);
        s.sleep(2);
    }
}

fn runs(s: &mut Story) {
    s.direct = false;
    s.start();
    s.onoff();
    s.init();
    s.wait();
    s.scan(&[0, 2, 3]);
}

fn returns(s: &mut Story) {
    s.wake(2);
    s.see(Sight::SyncEnd { task: 7 });
}

#[test]
fn i14_a_poll_is_true_once_the_number_has_ended() {
    let mut s = Story::new(true, true);
    waits(SyncCallKind::Poll)(&mut s);
    runs(&mut s);
    // The polled number ends before any node does.
    s.tree.gp_state = 7;
    s.tree.gp_seq_polled = s.tree.gp_seq + 3;
    s.step();
    returns(&mut s);
    s.silent();

    let mut s = Story::new(true, true);
    waits(SyncCallKind::PollFull)(&mut s);
    runs(&mut s);
    s.clean_node(ROOT);
    s.step();
    returns(&mut s);
    s.silent();
}

#[test]
fn i14_a_poll_is_true_too_early() {
    for kind in [SyncCallKind::Poll, SyncCallKind::PollFull] {
        breaks("I14.early", true, true, waits(kind), returns);
        let half = |s: &mut Story| {
            waits(kind)(s);
            runs(s);
        };
        breaks("I14.early", true, true, half, returns);
    }
    // A full cookie is tested on the root, which has not ended yet.
    breaks(
        "I14.early",
        true,
        true,
        |s| {
            waits(SyncCallKind::PollFull)(s);
            runs(s);
            s.tree.gp_state = 7;
            s.tree.gp_seq_polled = s.tree.gp_seq + 3;
            s.step();
        },
        returns,
    );
    // By the grace period that was running when the cookie was taken.
    breaks(
        "I14.early",
        true,
        true,
        |s| {
            s.call();
            s.start();
            s.wake(3);
            s.see(Sight::SyncBegin {
                task: 8,
                cpu: 3,
                direct: false,
                kind: SyncCallKind::PollFull,
            });
            s.sleep(3);
            s.onoff();
            s.init();
            s.wait();
            s.scan(&[0, 2, 3]);
            s.clean();
            s.end();
        },
        |s| s.see(Sight::SyncEnd { task: 8 }),
    );
}

#[test]
fn i14_the_polled_number() {
    // Not started with the grace period, not ended with it, ended before it is over.
    breaks(
        "I14.number",
        true,
        true,
        |s| s.call(),
        |s| {
            s.start();
            s.tree.gp_seq_polled = BOOT;
            s.step();
        },
    );
    breaks(
        "I14.number",
        true,
        true,
        |s| s.until_done(),
        |s| {
            s.clean_node(ROOT);
            s.tree.gp_seq_polled = s.tree.gp_seq;
            s.step();
        },
    );
    breaks(
        "I14.number",
        true,
        true,
        |s| {
            s.call();
            s.start();
        },
        |s| {
            s.tree.gp_seq_polled = s.tree.gp_seq + 3;
            s.step();
        },
    );
}

#[test]
fn i1_a_poll_is_true_over_an_older_section() {
    breaks(
        "I1.sync-section",
        true,
        true,
        |s| {
            s.reading(0, 1);
            waits(SyncCallKind::Poll)(s);
        },
        returns,
    );
}

/// A callback on CPU 3, then a barrier of task 7, then another callback.
fn barrier(s: &mut Story) {
    s.wake(3);
    let c = &mut s.tree.cpus[3];
    c.cblist_len = 1;
    c.seglen = [0, 0, 0, 1];
    s.see(Sight::CallbackQueued { cpu: 3, id: 0 });
    s.sleep(3);
    s.wake(2);
    s.see(Sight::SyncBegin {
        task: 7,
        cpu: 2,
        direct: false,
        kind: SyncCallKind::Barrier,
    });
    // The barrier's own callback behind it.
    let c = &mut s.tree.cpus[3];
    c.cblist_len = 2;
    c.seglen = [0, 0, 0, 2];
    s.sleep(2);
}

#[test]
fn i16_a_barrier_returns_with_a_callback_left() {
    breaks("I16.early", true, true, barrier, returns);
}

#[test]
fn i16_a_barrier_does_not_wait_for_what_comes_later() {
    let mut s = Story::new(true, true);
    waits(SyncCallKind::Barrier)(&mut s);
    s.wake(3);
    let c = &mut s.tree.cpus[3];
    c.cblist_len = 1;
    c.seglen = [0, 0, 0, 1];
    s.see(Sight::CallbackQueued { cpu: 3, id: 0 });
    s.sleep(3);
    returns(&mut s);
    s.silent();
}

#[test]
fn i8_a_barrier_explains_one_callback_more_and_not_two() {
    let mut s = Story::new(true, true);
    barrier(&mut s);
    s.silent();
    s.wake(3);
    let c = &mut s.tree.cpus[3];
    c.cblist_len = 3;
    c.seglen = [0, 0, 0, 3];
    s.hard(3, |s| s.see(Sight::Core { cpu: 3 }));
    s.objects("I8.list");
}

#[test]
fn i15_the_kthread_sleeps_on_a_request() {
    let mut s = Story::with(true, true, |f| f.deadline_ns = u64::MAX);
    s.call();
    s.at += 4_000_000_000;
    s.wake(0);
    s.silent();
    s.at += 2_000_000_000;
    s.sleep(0);
    s.objects("I15.kthread");
}

#[test]
fn i15_the_kthread_sleeps_though_nobody_is_waited_for() {
    breaks(
        "I15.kthread",
        true,
        true,
        |s| {
            s.call();
            s.start();
            s.onoff();
            s.init();
            s.wait();
            s.oracle.enough = 100;
        },
        |s| {
            s.scan(&[0, 2, 3]);
            s.tree.gp_state = 5;
            s.step();
            s.at += 6_000_000_000;
            s.wake(0);
        },
    );
}

/// A grace period with a scan, during which CPU 3 may be over the mark of one callback; then its second
/// scan and a third one, the last without any wait.
fn scans_in_a_row(overloaded: bool) -> Story {
    let mut s = Story::with(true, true, |f| f.qovld = 1);
    s.call();
    s.start();
    s.onoff();
    s.init();
    s.wait();
    if overloaded {
        s.wake(3);
        for id in 0..2 {
            let c = &mut s.tree.cpus[3];
            c.cblist_len += 1;
            c.seglen[3] += 1;
            s.see(Sight::CallbackQueued { cpu: 3, id });
        }
        s.sleep(3);
    }
    s.scan(&[]);
    s.wait();
    s.scan(&[]);
    s.wait();
    s.silent();
    s.scan_now(&[]);
    s
}

#[test]
fn i17_overload_shortens_waits_and_nothing_else_does() {
    let s = scans_in_a_row(true);
    s.silent();
    assert_eq!(s.oracle.coverage.overload_scans, 1);
    scans_in_a_row(false).objects("T1.early");
}
