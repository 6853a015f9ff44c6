//! Readers that were preempted inside a section (I6).

use crate::rig::{Rig, irq, rcu, task, three_levels};
use treercu::stats::Resolution;
use treercu::tree::Reader;
use treercu::tree::world::TickHit;

/// A reader that is preempted inside its section on this CPU.
fn preempted(rig: &mut Rig<'_>, id: u64, cpu: u32) -> Reader {
    let mut reader = Reader::new(id);
    reader.lock();
    rig.switch(cpu, &mut reader);
    reader
}

fn unlock(rig: &mut Rig<'_>, reader: &mut Reader, cpu: u32) {
    rig.rcu.read_unlock(task(cpu), reader, false, &mut rig.w);
}

/// A grace period waits for every reader that was blocked when it started: `gp_tasks` is set to the
/// list's head. Their CPUs' quiescent states do not end it, the last unlock does, on whatever CPU, and
/// wakes the kthread. In a tree of one node the root itself has the list.
#[test]
fn a_grace_period_waits_for_readers_blocked_before_it() {
    for levels in [1, 3] {
        let rcu = rcu(|tun| {
            if levels == 3 {
                three_levels(tun);
            }
        });
        let mut rig = Rig::new(&rcu);
        let mut first = preempted(&mut rig, 11, 1);
        let mut second = preempted(&mut rig, 12, 0);
        assert!(rcu.blocking_readers().is_empty(), "no grace period yet");
        rig.begin();
        // Newest first.
        assert_eq!(rcu.blocking_readers(), [12, 11]);
        rig.finish();
        assert!(rcu.gp_in_progress());
        assert!(rcu.holdouts().is_empty());
        let wakes = rig.w.wakes;
        unlock(&mut rig, &mut first, 3);
        assert_eq!(rcu.blocking_readers(), [12]);
        assert_eq!(rig.w.wakes, wakes);
        rig.time_out();
        assert!(rcu.gp_in_progress());
        unlock(&mut rig, &mut second, 2);
        assert_eq!(rig.w.wakes, wakes + 1);
        assert_eq!(rig.snap().nodes[0].qsmask, 0);
        rig.run();
        assert!(rig.asleep_for_request());
        let record = rig.w.records[0];
        assert_eq!(
            (record.holdout_cpu, record.resolved_by),
            (Some(2), Resolution::BlockedReader)
        );
    }
}

/// The last blocker reports for its leaf only when no CPU of the leaf is owed; else whoever comes last
/// of the CPUs does.
#[test]
fn the_last_blocker_does_not_report_while_cpus_are_owed() {
    for levels in [1, 3] {
        let rcu = rcu(|tun| {
            if levels == 3 {
                three_levels(tun);
            }
        });
        let mut rig = Rig::new(&rcu);
        let mut reader = preempted(&mut rig, 11, 1);
        rig.begin();
        (1..rcu.geometry().nr_cpus).for_each(|cpu| rig.report(cpu));
        assert_eq!(rcu.holdouts(), [0], "of the same leaf");
        let wakes = rig.w.wakes;
        unlock(&mut rig, &mut reader, 1);
        assert!(rcu.blocking_readers().is_empty());
        assert_eq!(rig.w.wakes, wakes);
        assert_ne!(rig.snap().nodes[0].qsmask, 0);
        rig.time_out();
        assert!(rcu.gp_in_progress());
        rig.report(0);
        assert_eq!(rig.w.wakes, wakes + 1);
        rig.run();
        assert!(rig.asleep_for_request());
    }
}

/// Preempted during a grace period: the reader blocks it if its CPU is still owed (the switch itself
/// then records the CPU's quiescent state), and not if the CPU had reported before.
#[test]
fn a_reader_blocks_the_running_grace_period_if_its_cpu_is_owed() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.begin();
    rig.tick(1, TickHit::KernelSection);
    assert!(rig.core(1).is_none());
    rig.report(2);
    let mut late = preempted(&mut rig, 12, 2);
    assert!(rcu.blocking_readers().is_empty());
    let mut owed = preempted(&mut rig, 11, 1);
    assert_eq!(rcu.blocking_readers(), [11]);
    assert!(rig.core(1).is_none());
    assert_eq!(rcu.holdouts(), [0, 3], "CPU 1 reported its switch");
    [0, 3].into_iter().for_each(|cpu| rig.report(cpu));
    rig.time_out();
    assert!(rcu.gp_in_progress());
    unlock(&mut rig, &mut owed, 1);
    rig.run();
    assert!(
        rig.asleep_for_request(),
        "the other reader began after it, or so the rule says"
    );
    // That one blocks the next.
    rig.begin();
    assert_eq!(rcu.blocking_readers(), [12]);
    rig.finish();
    assert!(rcu.gp_in_progress());
    unlock(&mut rig, &mut late, 2);
    rig.run();
    assert!(rig.asleep_for_request());
}

/// An inner unlock does nothing, whatever happened to the reader.
#[test]
fn only_the_outermost_unlock_takes_a_reader_off_the_list() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    let mut reader = preempted(&mut rig, 11, 1);
    reader.lock();
    rig.begin();
    unlock(&mut rig, &mut reader, 1);
    assert_eq!(rcu.blocking_readers(), [11]);
    reader.lock();
    rcu.read_unlock(task(1), &mut reader, true, &mut rig.w);
    assert!(rig.w.reschedules.is_empty(), "nothing to defer either");
    // Preempted once more: it is queued once.
    rig.switch(1, &mut reader);
    assert_eq!(rcu.blocking_readers(), [11]);
    unlock(&mut rig, &mut reader, 1);
    assert!(rcu.blocking_readers().is_empty());
}

/// With preemption, softirqs or interrupts off the unlock defers: in an interrupt it raises the core
/// once, else it asks for a context switch. The next switch, core or tick outside any section does
/// what is left.
#[test]
fn a_deferred_unlock_is_done_at_the_next_opportunity() {
    type Opportunity = fn(&mut Rig<'_>, &mut Reader);
    let opportunities: [Opportunity; 3] = [
        |rig, reader| rig.switch(1, reader),
        |rig, reader| assert!(rig.rcu.core(irq(1), Some(reader), &mut rig.w).is_none()),
        |rig, reader| rig.rcu.tick(irq(1), TickHit::Kernel, Some(reader), &mut rig.w),
    ];
    for opportunity in opportunities {
        let rcu = rcu(|_| ());
        let mut rig = Rig::new(&rcu);
        let mut reader = preempted(&mut rig, 11, 1);
        rig.begin();
        rig.finish();
        assert!(rcu.holdouts().is_empty());
        rig.w.reschedules.clear();
        rig.w.cores.clear();
        let wakes = rig.w.wakes;
        rcu.read_unlock(task(1), &mut reader, true, &mut rig.w);
        assert_eq!(rig.w.reschedules, [1]);
        for _ in 0..2 {
            reader.lock();
            rcu.read_unlock(irq(1), &mut reader, true, &mut rig.w);
        }
        assert_eq!(rig.w.cores, [1], "pending is pending");
        // In a section again: not now.
        reader.lock();
        opportunity(&mut rig, &mut reader);
        assert_eq!(rcu.blocking_readers(), [11]);
        rcu.read_unlock(task(1), &mut reader, true, &mut rig.w);
        assert_eq!(rcu.blocking_readers(), [11]);
        assert_eq!(rig.w.wakes, wakes);
        opportunity(&mut rig, &mut reader);
        assert!(rcu.blocking_readers().is_empty());
        assert_eq!(rig.w.wakes, wakes + 1);
        rig.run();
        assert!(rig.asleep_for_request());
        rig.w.cores.clear();
        let mut other = preempted(&mut rig, 12, 1);
        rcu.read_unlock(irq(1), &mut other, true, &mut rig.w);
        assert_eq!(rig.w.cores, [1], "not pending any more");
    }
}

/// A leaf whose last CPU went offline while readers are blocked on it stays attached to its parent, and
/// new grace periods wait for them: whether its CPUs were in the tree before, or came and went between
/// two hotplug passes.
#[test]
fn readers_of_a_leaf_without_cpus_are_waited_for() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    rig.begin();
    rig.finish();
    for known in [true, false] {
        if !known {
            rcu.cpu_online(6);
        }
        let mut reader = preempted(&mut rig, 11, 6);
        rcu.cpu_dead(task(6), None, &mut rig.w);
        if known {
            rcu.cpu_dead(task(7), None, &mut rig.w);
        }
        rig.begin();
        let snap = rig.snap();
        assert!(snap.nodes[6].wait_blkd_tasks);
        assert_eq!((snap.nodes[6].qsmaskinit, snap.nodes[2].qsmaskinit), (0, 3));
        assert_eq!(rcu.holdouts(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rcu.blocking_readers(), [11]);
        (0..6).for_each(|cpu| rig.report(cpu));
        rig.time_out();
        assert!(rcu.gp_in_progress());
        unlock(&mut rig, &mut reader, 0);
        rig.run();
        assert!(rig.asleep_for_request());
        // With nobody left the next hotplug pass detaches the leaf.
        rig.begin();
        let snap = rig.snap();
        assert!(!snap.nodes[6].wait_blkd_tasks);
        assert_eq!(snap.nodes[2].qsmaskinit, 1);
        rig.finish();
        assert!(rig.asleep_for_request());
    }
}
