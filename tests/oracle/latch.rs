//! I12: the latch that keeps a flood off the direct route.

use crate::story::*;
use treercu::config::Latch;
use treercu::sim::Sight;
use treercu::workload::SyncCallKind;

fn latched_machine() -> Story {
    Story::with(true, true, |f| f.latch = Latch::Merged)
}

/// Task `task` calls on CPU 2, on this route.
fn begins(s: &mut Story, task: u32, direct: bool) {
    s.wake(2);
    s.see(Sight::SyncBegin {
        task,
        cpu: 2,
        direct,
        kind: SyncCallKind::Sync,
    });
    if direct {
        s.tree.srs.count += 1;
        if s.tree.srs.count == 3 {
            s.tree.srs.latched = true;
        }
        s.ask(BOOT + 4);
    }
}

fn calls(s: &mut Story, task: u32, direct: bool) {
    begins(s, task, direct);
    s.sleep(2);
}

/// Three calls, which is the threshold.
fn closed() -> Story {
    let mut s = latched_machine();
    for task in [7, 8, 9] {
        calls(&mut s, task, true);
    }
    s.silent();
    assert_eq!(s.oracle.coverage.latch_closed, 1);
    s
}

#[test]
fn i12_closes_at_the_threshold_and_opens_at_zero() {
    let mut s = closed();
    s.start();
    s.onoff();
    s.init();
    s.wait();
    s.scan(&[0, 2, 3]);
    s.clean();
    // The end wakes all three; the latch opens with the last one.
    s.tree.srs.count = 0;
    s.tree.srs.latched = false;
    s.end();
    s.see(Sight::DirectComplete { task: 9 });
    s.see(Sight::DirectComplete { task: 8 });
    s.silent();
    assert_eq!(s.oracle.coverage.latch_opened, 1);
    assert_eq!(s.oracle.coverage.latched_calls, 0);
}

#[test]
fn i12_while_it_is_closed_calls_go_by_callback() {
    let mut s = closed();
    begins(&mut s, 10, false);
    s.silent();
    assert_eq!(s.oracle.coverage.latched_calls, 1);
    let mut s = closed();
    begins(&mut s, 10, true);
    s.objects("I11.route");
    let mut s = latched_machine();
    begins(&mut s, 10, false);
    s.objects("I11.route");
}

#[test]
fn i12_the_count_is_the_calls_in_flight() {
    for wrong in [-1, 0, 2, 4] {
        let mut s = latched_machine();
        begins(&mut s, 7, true);
        s.tree.srs.count = wrong;
        s.sleep(2);
        s.objects("I12.count");
    }
}

#[test]
fn i12_left_open_closed_too_early_opened_too_early_stuck() {
    let mut s = latched_machine();
    for task in [7, 8] {
        calls(&mut s, task, true);
    }
    begins(&mut s, 9, true);
    s.tree.srs.latched = false;
    s.sleep(2);
    s.objects("I12.open");

    let mut s = latched_machine();
    begins(&mut s, 7, true);
    s.tree.srs.latched = true;
    s.sleep(2);
    s.objects("I12.closed");

    let mut s = closed();
    s.tree.srs.latched = false;
    s.wake(G);
    s.step();
    s.objects("I12.opened");

    let mut s = latched_machine();
    s.tree.srs.latched = true;
    s.wake(G);
    s.step();
    s.objects("I12.stuck");
}

#[test]
fn i12_without_a_latch_nothing_is_counted() {
    let mut s = Story::new(true, true);
    begins(&mut s, 7, true);
    s.sleep(2);
    s.objects("I12.off");
}
