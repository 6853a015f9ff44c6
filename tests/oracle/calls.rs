//! I1 and I2: what callers and callbacks were promised.

use crate::story::{BOOT, Story, breaks};
use treercu::sim::Sight;

#[test]
fn i1_a_section_from_before_the_call_is_open_at_its_end() {
    breaks(
        "I1.sync-section",
        true,
        true,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_section_from_after_the_call_is_nobody_s_business() {
    let mut s = Story::new(true, true);
    s.call();
    s.wake(0);
    s.see(Sight::SectionBegin { id: 1, cpu: 0 });
    s.see(Sight::SyncEnd { task: 7 });
    assert!(s.oracle.violations().iter().all(|v| v.code != "I1.sync-section"));
}

#[test]
fn i1_a_busy_cpu_was_never_quiescent() {
    breaks(
        "I1.sync-cpu",
        true,
        true,
        |s| {
            s.wake(0);
            s.call();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_callback_runs_inside_an_older_section() {
    breaks(
        "I1.callback-section",
        true,
        false,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i1_a_scan_credits_a_cpu_inside_a_section() {
    breaks(
        "I1.credit-section",
        true,
        true,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
            s.start();
            s.onoff();
            s.init();
            s.wait();
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i1_a_call_returns_before_its_grace_period() {
    breaks(
        "I1.sync-early",
        true,
        true,
        |s| s.call(),
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_callback_runs_while_a_cpu_was_never_quiescent() {
    breaks(
        "I1.callback-cpu",
        true,
        false,
        |s| {
            s.wake(0);
            s.call();
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i2_invoked_twice() {
    breaks(
        "I2.once",
        true,
        false,
        |s| s.whole(),
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i2_invoked_before_the_grace_period_is_over() {
    breaks(
        "I2.early",
        true,
        false,
        |s| s.until_done(),
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i2_invoked_out_of_order() {
    breaks(
        "I2.order",
        true,
        false,
        |s| {
            s.wake(2);
            for id in [3, 4] {
                s.tree.cpus[2].cblist_len += 1;
                s.tree.cpus[2].seglen[3] += 1;
                s.see(Sight::CallbackQueued { cpu: 2, id });
            }
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 4 }),
    );
}

#[test]
fn i2_a_number_that_does_not_cover_the_callback() {
    // Queued while 4k+1 runs, it needs the grace period after that; numbered with the running one.
    breaks(
        "I2.number",
        true,
        false,
        |s| {
            s.call();
            s.start();
            s.wake(0);
            s.tree.cpus[0].cblist_len = 1;
            s.tree.cpus[0].seglen = [0, 0, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 0, id: 1 });
        },
        |s| {
            s.tree.cpus[0].seglen = [0, 1, 0, 0];
            s.tree.cpus[0].seg_gp_seq = [0, BOOT + 4, 0, 0];
            s.see(Sight::Core { cpu: 0 });
        },
    );
}
