//! I6: readers that were preempted inside a section; the flavour in which they cannot be.

use crate::story::*;
use treercu::sim::Sight;
use treercu::stats::Resolution;

/// A reader on CPU 0 from before the call, and a grace period initialised with its CPU owed.
fn read_across_the_start(s: &mut Story) {
    s.reading(0, 1);
    s.call();
    s.start();
    s.onoff();
    s.init();
}

/// It was preempted, its CPU found idle; the leaf waits for the reader.
fn only_the_reader_left(s: &mut Story) {
    read_across_the_start(s);
    s.preempted(0, 1, true);
    s.wait();
    s.scan(&[0, 2, 3]);
}

#[test]
fn i6_a_grace_period_waits_for_a_preempted_reader() {
    let mut s = Story::new(true, true);
    only_the_reader_left(&mut s);
    s.leaves(LEAF0, 1);
    s.clean();
    s.end();
    s.wake(2);
    s.see(Sight::SyncEnd { task: 7 });
    s.silent();
    let c = &s.oracle.coverage;
    assert_eq!(c.resolved[Resolution::BlockedReader as usize], 1);
    assert_eq!((c.preempted, c.preempted_owing), (1, 1));
}

#[test]
fn i6_preempted_before_the_start_is_listed_at_the_start() {
    let mut s = Story::new(true, true);
    s.reading(0, 1);
    s.preempted(0, 1, false);
    s.call();
    s.start();
    s.onoff();
    s.init_quietly(ROOT);
    s.step();
    s.silent();
    s.init_quietly(LEAF0);
    s.tree.nodes[LEAF0].gp_blockers.push(1);
    s.step();
    s.silent();
    assert_eq!(s.oracle.coverage.preempted_spanned, 1);
}

#[test]
fn i6_not_queued_at_all() {
    breaks("I6.missing", true, true, read_across_the_start, |s| {
        s.preempted(0, 1, false)
    });
}

#[test]
fn i6_not_among_the_blockers_of_the_next_grace_period() {
    breaks(
        "I6.missing",
        true,
        true,
        |s| {
            s.reading(0, 1);
            s.preempted(0, 1, false);
            s.call();
            s.start();
            s.onoff();
        },
        |s| s.init(),
    );
}

#[test]
fn i6_off_the_list_before_its_section_is_over() {
    breaks("I6.missing", true, true, only_the_reader_left, |s| {
        s.unlisted(LEAF0, 1);
        s.wake(3);
        s.sleep(3);
    });
}

#[test]
fn i6_a_reader_that_holds_nothing() {
    // CPU 0 has been credited; a reader that begins and is preempted afterwards is nobody's business.
    let credited = |s: &mut Story| {
        s.call();
        s.start();
        s.onoff();
        s.init();
        s.wait();
        s.scan(&[0]);
        s.reading(0, 1);
    };
    breaks("I6.extra", true, true, credited, |s| s.preempted(0, 1, true));
    let mut s = Story::new(true, true);
    credited(&mut s);
    s.preempted(0, 1, false);
    s.silent();
}

#[test]
fn i6_a_leaf_without_cpus_forgets_its_reader() {
    let left_alone = |s: &mut Story| {
        s.call();
        s.reading(3, 1);
        s.preempted(3, 1, false);
        s.offline(3);
        s.offline(2);
        s.start();
    };
    breaks("I6.missed", true, true, left_alone, |s| {
        s.onoff();
        s.init();
    });
    // As it should be: the leaf waits for the reader, and takes part for that alone.
    let mut s = Story::new(true, true);
    left_alone(&mut s);
    s.tree.nodes[LEAF1].wait_blkd_tasks = true;
    s.tree.nodes[ROOT].qsmaskinit = 0b10;
    s.onoff();
    s.init_quietly(ROOT);
    s.step();
    s.init_quietly(LEAF0);
    s.step();
    s.init_quietly(LEAF1);
    s.tree.nodes[LEAF1].gp_blockers.push(1);
    s.step();
    s.silent();
}

#[test]
fn i6_a_grace_period_ends_over_a_blocked_reader() {
    breaks("I6.end-blocked", true, true, only_the_reader_left, |s| {
        s.oracle.enough = 100;
        s.clean();
    });
    breaks("I6.cleanup", true, true, only_the_reader_left, |s| {
        s.oracle.enough = 100;
        s.tree.nodes[ROOT].qsmask = 0;
        s.tree.nodes[ROOT].gp_blockers.push(1);
        s.clean();
    });
}

#[test]
fn i1_a_call_returns_over_a_preempted_reader() {
    breaks("I1.sync-section", true, true, only_the_reader_left, |s| {
        s.see(Sight::SyncEnd { task: 7 })
    });
}

#[test]
fn i5_a_leaf_is_gone_from_its_parent_while_a_reader_blocks_it() {
    breaks("I5.parent", true, true, only_the_reader_left, |s| {
        s.tree.nodes[ROOT].qsmask = 0;
        s.step();
    });
    breaks("I5.completedqs", true, true, only_the_reader_left, |s| {
        s.tree.nodes[LEAF0].completedqs = s.tree.gp_seq;
        s.step();
    });
}

#[test]
fn i5_the_last_reader_leaves_and_does_not_report() {
    breaks("I5.parent", true, true, only_the_reader_left, |s| {
        s.see(Sight::SectionEnd { id: 1 });
        s.tree.nodes[LEAF0].gp_blockers.clear();
        s.wake(3);
    });
}

#[test]
fn i6_inner_nodes_have_no_readers_and_idle_leaves_wait_for_none() {
    breaks("I6.inner", true, true, only_the_reader_left, |s| {
        s.tree.nodes[ROOT].gp_blockers.push(1);
        s.step();
    });
    breaks(
        "I6.blockers-outside",
        true,
        true,
        |s| {
            s.reading(0, 1);
            s.preempted(0, 1, false);
        },
        |s| {
            s.tree.nodes[LEAF0].gp_blockers.push(1);
            s.call();
            s.wake(G);
            s.step();
        },
    );
}

#[test]
fn i6_a_deferred_reader_stays_listed_for_a_while() {
    let mut s = Story::new(true, true);
    only_the_reader_left(&mut s);
    s.see(Sight::SectionEnd { id: 1 });
    s.wake(3);
    s.silent();
    // Its next context switch reports.
    s.unlisted(LEAF0, 1);
    s.sleep(3);
    s.silent();
    assert_eq!(s.oracle.coverage.deferred, 1);
    assert_eq!(s.oracle.coverage.resolved[Resolution::BlockedReader as usize], 1);
}

// Without preemption.

#[test]
fn s0_without_preemption_no_reader_is_preempted() {
    let mut s = Story::with(true, true, |f| f.preemptible = false);
    s.reading(0, 1);
    s.silent();
    s.preempted(0, 1, false);
    s.objects("S0.open-section");
}

/// CPU 0 busy with kernel code, its bit owed and noticed.
fn busy_kernel(preemptible: bool) -> Story {
    let mut s = Story::with(true, true, |f| f.preemptible = preemptible);
    s.wake(0);
    s.call();
    s.start();
    s.onoff();
    s.init();
    s.hard(0, |s| {
        s.see(Sight::Tick { cpu: 0, user: false });
        s.notice(0);
        s.see(Sight::Core { cpu: 0 });
    });
    s.silent();
    s
}

#[test]
fn i7_without_preemption_kernel_code_is_quiescent_at_its_reschedule_points() {
    let mut s = busy_kernel(false);
    s.tree.cpus[0].norm = false;
    s.see(Sight::ReschedPoint { cpu: 0 });
    s.silent();
    assert_eq!(s.oracle.coverage.resched_points, 1);

    let mut s = busy_kernel(false);
    s.tree.cpus[0].norm = false;
    s.hard(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
    s.objects("I7.record");

    let mut s = busy_kernel(true);
    s.see(Sight::ReschedPoint { cpu: 0 });
    s.objects("S0.point");
}

#[test]
fn i7_without_preemption_a_tick_out_of_idle_counts() {
    for (preemptible, expected) in [(false, 1), (true, 0)] {
        let mut s = Story::with(true, true, |f| f.preemptible = preemptible);
        s.call();
        s.start();
        s.onoff();
        s.init();
        s.interrupt(0, |s| {
            s.see(Sight::Tick { cpu: 0, user: false });
            s.notice(0);
            s.see(Sight::Core { cpu: 0 });
        });
        s.silent();
        s.interrupt(0, |s| {
            s.tree.cpus[0].norm = false;
            s.see(Sight::Tick { cpu: 0, user: false });
        });
        assert_eq!(s.oracle.coverage.idle_ticks, expected);
        if preemptible {
            s.objects("I7.record");
        } else {
            s.silent();
        }
    }
}
