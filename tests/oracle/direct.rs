//! I11: direct wake; I18: the early report; T1: scans.

use crate::nodes::mid_gp;
use crate::story::*;
use treercu::sim::Sight;
use treercu::tree::SrsSnapshot;
use treercu::workload::SyncCallKind;

#[test]
fn i11_completed_too_early() {
    breaks(
        "I11.early",
        true,
        true,
        |s| s.until_done(),
        |s| s.see(Sight::DirectComplete { task: 7 }),
    );
}

#[test]
fn i11_completed_by_a_grace_period_that_had_started_before() {
    // Task 8 calls while the grace period for task 7 runs and is completed with it.
    breaks(
        "I11.early",
        true,
        true,
        |s| {
            mid_gp(s);
            s.wake(0);
            s.see(Sight::SyncBegin {
                task: 8,
                cpu: 0,
                direct: true,
                kind: SyncCallKind::Sync,
            });
            s.tree.nodes[LEAF0].gp_seq_needed = BOOT + 8;
            s.sleep(0);
            s.scan(&[0, 2, 3]);
            s.clean();
            s.tree.gp_flags = 1;
            s.tree.gp_seq += 3;
            s.tree.gp_state = 8;
            s.tree.srs.wait_tail = false;
            s.tree.srs.done_tail = true;
            s.step();
        },
        |s| s.see(Sight::DirectComplete { task: 8 }),
    );
}

#[test]
fn i11_completed_twice_or_never() {
    breaks(
        "I11.once",
        true,
        true,
        |s| s.whole(),
        |s| s.see(Sight::DirectComplete { task: 7 }),
    );
    breaks(
        "I11.once",
        true,
        true,
        |s| {
            s.until_done();
            s.clean();
            s.tree.gp_seq += 3;
            s.tree.gp_state = 8;
            s.tree.srs.wait_tail = false;
            s.tree.srs.done_tail = true;
            s.step();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i11_wait_heads() {
    type Break = fn(&mut SrsSnapshot);
    let cases: [(&str, Break); 5] = [
        ("I11.heads", |n| n.heads_in_use = 6),
        ("I11.heads", |n| n.heads_in_use = 2),
        ("I11.heads", |n| n.heads_in_use = 0),
        ("I11.wait-tail", |n| {
            n.wait_tail = true;
            n.heads_in_use = 2;
        }),
        ("I11.done-tail", |n| {
            n.done_tail = false;
            n.heads_in_use = 0;
        }),
    ];
    for (code, change) in cases {
        breaks(
            code,
            true,
            true,
            |s| s.whole(),
            |s| {
                change(&mut s.tree.srs);
                s.wake(0);
                s.see(Sight::Core { cpu: 0 });
            },
        );
    }
}

#[test]
fn i11_the_wrong_route() {
    breaks(
        "I11.route",
        true,
        true,
        |s| s.wake(2),
        |s| {
            s.see(Sight::SyncBegin {
                task: 7,
                cpu: 2,
                direct: false,
                kind: SyncCallKind::Sync,
            })
        },
    );
}

fn before_the_report(s: &mut Story) {
    s.call();
    s.start();
    s.onoff();
    for index in [ROOT, LEAF0, LEAF1] {
        s.init_quietly(index);
        s.step();
    }
}

#[test]
fn i18_the_report_clears_another_cpu() {
    breaks("I18.other", true, true, before_the_report, |s| {
        s.clear(3);
        s.report();
    });
}

#[test]
fn i18_a_report_although_it_is_off() {
    breaks("I18.off", false, true, before_the_report, |s| {
        s.clear(G);
        s.report();
    });
}

/// The kthread has moved to a CPU that does not know the number yet.
fn moved(s: &mut Story) {
    before_the_report(s);
    s.sleep(G);
    s.wake(0);
}

#[test]
fn i18_a_report_from_a_cpu_that_does_not_know_the_number() {
    breaks("I18.mismatch", true, true, moved, |s| {
        s.clear(0);
        s.see(Sight::GpStep { cpu: 0 });
    });
}

#[test]
fn i18_a_kthread_that_moved_declines() {
    let mut s = Story::new(true, true);
    moved(&mut s);
    s.tree.cpus[0].norm = true;
    s.see(Sight::GpStep { cpu: 0 });
    s.silent();
    assert_eq!(s.oracle.coverage.early_declined, 1);
}

#[test]
fn i18_the_report_does_not_come() {
    breaks("I18.missing", true, true, before_the_report, |s| {
        s.early = false;
        s.report();
    });
}

#[test]
fn i18_initialisation_ends_without_a_step_for_the_report() {
    breaks("I18.missing", true, true, before_the_report, |s| s.wait());
}

#[test]
fn t1_a_scan_before_its_time() {
    // The wait is one jiffy, and no jiffy passes.
    breaks("T1.early", true, true, mid_gp, |s| s.scan_now(&[0]));
    // Unless somebody asked.
    let mut s = Story::new(true, true);
    mid_gp(&mut s);
    s.tree.gp_flags |= 2;
    s.wake(0);
    s.see(Sight::Core { cpu: 0 });
    s.sleep(0);
    s.scan_now(&[0]);
    s.silent();
    assert_eq!(s.oracle.coverage.forced_scans, 1);
}
