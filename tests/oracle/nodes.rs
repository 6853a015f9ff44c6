//! I5, I6, I7, I8: owed bits, quiescent states, callback lists.

use crate::story::*;
use treercu::sim::Sight;
use treercu::tree::CpuSnapshot;

pub fn mid_gp(s: &mut Story) {
    s.call();
    s.start();
    s.onoff();
    s.init();
    s.wait();
}

#[test]
fn i5_a_bit_is_set_outside_initialisation() {
    breaks(
        "I5.set",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[0, 2]);
        },
        |s| {
            s.tree.nodes[LEAF0].qsmask |= 1;
            s.step();
        },
    );
}

#[test]
fn i5_the_last_cpu_is_not_in_the_mask() {
    breaks(
        "I13.missed",
        true,
        true,
        |s| {
            s.call();
            s.start();
        },
        |s| {
            s.onoff();
            s.tree.nodes[LEAF1].qsmaskinit = 0b01;
            s.init();
        },
    );
}

#[test]
fn i5_a_leaf_that_still_owes_is_gone_from_its_parent() {
    breaks("I5.parent", true, true, mid_gp, |s| {
        s.tree.nodes[ROOT].qsmask = 0b01;
        s.wake(G);
        s.step();
    });
}

#[test]
fn i5_a_leaf_that_owes_nothing_still_stands_in_its_parent() {
    breaks("I5.parent", true, true, mid_gp, |s| {
        s.wake(G);
        s.tree.gp_state = 6;
        s.tree.nodes[LEAF1].qsmask = 0;
        s.tree.nodes[LEAF1].completedqs = s.tree.gp_seq;
        s.step();
    });
}

#[test]
fn i5_completedqs_is_written_too_early() {
    breaks("I5.completedqs", true, true, mid_gp, |s| {
        s.tree.nodes[LEAF0].completedqs = s.tree.gp_seq;
        s.wake(G);
        s.step();
    });
}

#[test]
fn i5_a_core_reports_for_another_cpu() {
    breaks("I5.who", true, true, mid_gp, |s| {
        s.clear(3);
        s.interrupt(0, |s| s.see(Sight::Core { cpu: 0 }));
    });
}

#[test]
fn i5_a_scan_credits_a_cpu_that_only_switched() {
    breaks(
        "I5.scan",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
            s.see(Sight::ContextSwitch { cpu: 0 });
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i5_a_scan_credits_a_busy_cpu() {
    breaks(
        "I1.credit-cpu",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i6_a_grace_period_ends_with_bits_owed() {
    breaks(
        "I6.end",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[2, 3]);
        },
        |s| {
            s.clean_node(ROOT);
            s.step();
            s.clean_node(LEAF0);
            s.step();
        },
    );
}

#[test]
fn i6_clean_up_begins_with_the_root_owed() {
    breaks(
        "I6.cleanup",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[2, 3]);
        },
        |s| {
            s.tree.gp_state = 7;
            s.step();
        },
    );
}

#[test]
fn i6_a_grace_period_that_waits_for_nobody() {
    // Initialisation clears the masks instead of setting them.
    let mut s = Story::new(false, true);
    s.oracle.enough = 100;
    s.call();
    s.start();
    s.silent();
    s.tree.gp_state = 4;
    s.step();
    s.init();
    s.objects("I13.missed");
}

#[test]
fn i6_the_end_comes_and_nobody_emptied_the_root() {
    let mut s = Story::new(false, true);
    s.oracle.enough = 100;
    mid_gp(&mut s);
    s.silent();
    s.wake(G);
    s.clean();
    s.end();
    s.objects("I6.reason");
}

#[test]
fn i6_a_bit_is_left_over_from_the_last_grace_period() {
    breaks(
        "I6.idle",
        true,
        true,
        |s| s.whole(),
        |s| {
            s.tree.nodes[LEAF1].qsmask = 1;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
    let mut s = Story::new(true, true);
    s.call();
    s.start();
    s.onoff();
    s.tree.nodes[LEAF0].qsmask = 1;
    s.step();
    s.init();
    s.objects("I6.start");
}

/// CPU 0 is busy; it has noticed the grace period.
fn busy_noticed(s: &mut Story) {
    s.wake(0);
    mid_gp(s);
    s.notice(0);
    s.see(Sight::Core { cpu: 0 });
}

#[test]
fn i7_the_usual_way_is_fine() {
    let mut s = Story::new(true, true);
    busy_noticed(&mut s);
    s.tree.cpus[0].norm = false;
    s.see(Sight::Tick { cpu: 0, user: true });
    s.tree.cpus[0].core_needs_qs = false;
    s.clear(0);
    s.see(Sight::Core { cpu: 0 });
    s.silent();
}

#[test]
fn i7_recorded_without_a_quiescent_state() {
    breaks(
        "I7.record",
        true,
        true,
        |s| {
            busy_noticed(s);
            s.see(Sight::SectionBegin { id: 9, cpu: 0 });
        },
        |s| {
            s.tree.cpus[0].norm = false;
            s.hard(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
        },
    );
}

#[test]
fn i7_a_tick_in_kernel_code_counts_outside_sections_and_not_in_softirq() {
    let mut s = Story::new(true, true);
    busy_noticed(&mut s);
    s.tree.cpus[0].norm = false;
    s.hard(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
    s.silent();
    breaks("I7.record", true, true, busy_noticed, |s| {
        s.hard(0, |s| {
            // The RCU softirq runs; a second tick interrupts it.
            s.see(Sight::Tick { cpu: 0, user: false });
            s.see(Sight::Core { cpu: 0 });
            s.tree.cpus[0].norm = false;
            s.see(Sight::Tick { cpu: 0, user: false });
        });
    });
}

#[test]
fn i7_a_tick_out_of_idle_records() {
    breaks(
        "I7.record",
        true,
        true,
        |s| {
            mid_gp(s);
            s.interrupt(0, |s| {
                s.see(Sight::Tick { cpu: 0, user: false });
                s.notice(0);
                s.see(Sight::Core { cpu: 0 });
            });
        },
        |s| {
            s.tree.cpus[0].norm = false;
            s.interrupt(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
        },
    );
}

#[test]
fn i7_reported_without_being_recorded() {
    breaks("I7.report", true, true, busy_noticed, |s| {
        s.tree.cpus[0].core_needs_qs = false;
        s.clear(0);
        s.see(Sight::Core { cpu: 0 });
    });
}

#[test]
fn i7_an_old_quiescent_state_counts_for_the_new_grace_period() {
    // The CPU switched before the grace period; it takes the number over without asking anew.
    breaks(
        "I7.notice",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
        },
        |s| {
            s.notice(0);
            s.tree.cpus[0].norm = false;
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i8_lists() {
    type Break = fn(&mut CpuSnapshot);
    let cases: [(&str, Break); 5] = [
        ("I8.list", |c| c.seglen = [0, 0, 1, 0]),
        ("I8.list", |c| c.seglen = [0, 1, 0, 1]),
        ("I8.list", |c| c.seglen = [0, 0, 0, 0]),
        ("I8.list", |c| c.cblist_len = 0),
        ("I8.future", |c| {
            c.seglen = [0, 1, 0, 0];
            c.seg_gp_seq = [0, BOOT + 8, 0, 0];
        }),
    ];
    for (code, change) in cases {
        breaks(
            code,
            true,
            false,
            |s| {
                s.wake(2);
                s.tree.cpus[2].cblist_len = 1;
                s.tree.cpus[2].seglen = [0, 0, 0, 1];
                s.see(Sight::CallbackQueued { cpu: 2, id: 0 });
            },
            |s| {
                change(&mut s.tree.cpus[2]);
                s.see(Sight::Core { cpu: 2 });
            },
        );
    }
}

#[test]
fn i8_numbers_that_decrease() {
    breaks(
        "I8.list",
        true,
        false,
        |s| {
            s.call();
            s.start();
            s.wake(2);
            s.tree.cpus[2].cblist_len = 2;
            s.tree.cpus[2].seglen = [0, 1, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 2, id: 1 });
        },
        |s| {
            s.tree.nodes[LEAF1].gp_seq_needed = BOOT + 8;
            s.tree.cpus[2].seglen = [0, 1, 1, 0];
            s.tree.cpus[2].seg_gp_seq = [0, BOOT + 8, BOOT + 4, 0];
            s.see(Sight::Core { cpu: 2 });
        },
    );
}
