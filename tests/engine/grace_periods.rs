//! The kthread's passes, requests on their way through the funnel, reports and wake-ups.

use crate::rig::{Rig, rcu, three_levels};
use treercu::stats::Resolution;
use treercu::trace::Event;
use treercu::tree::world::{Ctx, Current, Fence, TickHit, Work};
use treercu::tree::{GpResume, GpWait, Reader, seq};

const GP_CTX: Ctx = Ctx {
    cpu: 0,
    in_irq: false,
    current: Current::GpKthread,
};

/// An idle machine: a request marks every node on its way to the root; a later one climbs no further
/// than the first node that knows of it, and only the first wakes the kthread.
#[test]
fn a_covered_request_climbs_no_further() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    let mut funnel = |cpu| {
        rig.w.events.clear();
        rig.request(cpu);
        (rig.funnel(), rig.w.wakes)
    };
    assert_eq!(funnel(0), (vec![("Startleaf", 2, 0), ("Startedroot", 0, 0)], 1));
    assert_eq!(funnel(1), (vec![("Startleaf", 2, 0), ("Prestarted", 2, 0)], 1));
    assert_eq!(funnel(2), (vec![("Startleaf", 2, 2), ("Prestarted", 1, 0)], 1));
    assert_eq!(funnel(5), (vec![("Startleaf", 2, 4), ("Prestarted", 0, 0)], 1));
    let needed: Vec<bool> = rig
        .snap()
        .nodes
        .iter()
        .map(|node| node.gp_seq_needed == seq::SEQ_BOOT + seq::SEQ_GP)
        .collect();
    assert_eq!(needed, [true, true, true, true, true, true, false]);
}

/// A request during a grace period stays at its leaf, where clean-up finds it; the next grace period
/// then follows with no wake-up in between.
#[test]
fn a_request_during_a_grace_period_starts_the_next_at_once() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    rig.begin();
    let wakes = rig.w.wakes;
    rig.w.events.clear();
    rig.request(5);
    assert_eq!(rig.funnel(), [("Startleaf", 2, 4), ("Startedleaf", 2, 4)]);
    rig.request(4);
    assert_eq!(rig.funnel()[2..], [("Startleaf", 2, 4), ("Prestarted", 2, 4)]);
    assert!(!rig.requested(), "cleanup will see to it");
    rig.finish();
    assert_eq!(rig.count("CleanupMore"), 1);
    assert_eq!(rig.count("newreq"), 1);
    assert!(rcu.gp_in_progress(), "the next one");
    assert_eq!(rig.w.records.len(), 1);
    assert_eq!(rig.w.wakes, wakes);
    rig.finish();
    assert!(rig.asleep_for_request(), "and no third");
}

/// A request that comes when clean-up has passed its leaf and the root, but the number has not ended
/// yet, climbs to the root and is found there by the last look.
#[test]
fn a_request_behind_the_cleanup_pass_is_not_lost() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    rig.begin();
    (0..8).for_each(|cpu| rig.report(cpu));
    rig.step_until(|rig| rig.snap().nodes.iter().all(|node| seq::state(node.gp_seq) == 0));
    assert!(rcu.gp_in_progress());
    rig.w.events.clear();
    let wakes = rig.w.wakes;
    rig.request(6);
    assert_eq!(rig.funnel(), [("Startleaf", 2, 6), ("Startedleafroot", 0, 0)]);
    assert!(!rig.requested());
    assert_eq!(rig.w.wakes, wakes);
    rig.run();
    assert!(rcu.gp_in_progress(), "the next one");
    assert_eq!(rig.w.records.len(), 1);
    assert_eq!(rig.count("CleanupMore"), 1, "the final look at the root");
}

/// A request at a leaf that initialisation has not reached yet stops at the first ancestor that it has,
/// and the leaf remembers.
#[test]
fn a_request_ahead_of_the_initialisation_pass_is_not_lost() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    rig.request(0);
    rig.step_until(|rig| seq::state(rig.snap().nodes[2].gp_seq) != 0);
    assert_eq!(seq::state(rig.snap().nodes[5].gp_seq), 0);
    rig.w.events.clear();
    rig.request(4);
    assert_eq!(rig.funnel(), [("Startleaf", 2, 4), ("Prestarted", 1, 4)]);
    rig.run();
    rig.finish();
    assert!(rcu.gp_in_progress(), "the next one");
    assert_eq!(rig.w.records.len(), 1);
    rig.finish();
    assert!(rig.asleep_for_request());
}

/// `rcu_gp_kthread_wake()`: nothing when the kthread itself asks outside an interrupt; but an interrupt
/// on top of it may fall between its last look and its sleep, so that one wakes it.
#[test]
fn the_kthread_does_not_wake_itself_but_an_interrupt_on_it_does() {
    for (in_irq, wakes) in [(false, 0), (true, 1)] {
        let rcu = rcu(|_| ());
        let mut rig = Rig::new(&rcu);
        let GpWait::Request { ticket } = rig.run() else {
            panic!("nothing is requested");
        };
        rcu.start_poll(Ctx { in_irq, ..GP_CTX }, &mut rig.w);
        assert!(rig.requested());
        assert_eq!(rig.w.wakes, wakes);
        assert_eq!(
            rcu.gp_ticket_is_old(ticket),
            in_irq,
            "a sleep begun now would miss it"
        );
    }
}

/// A wake-up between the kthread's look at the tree and its sleep shows in the ticket.
#[test]
fn a_wake_up_before_the_sleep_is_seen_by_the_ticket() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.request(0);
    let GpWait::Timeout { ticket, .. } = rig.run() else {
        panic!("a sleep before the first scan");
    };
    (0..3).for_each(|cpu| rig.report(cpu));
    assert!(!rcu.gp_ticket_is_old(ticket));
    rig.report(3);
    assert!(rcu.gp_ticket_is_old(ticket));
}

/// I7: a quiescent state that was recorded in grace period k and not reported is worth nothing in k + 1:
/// the CPU's core notices k + 1 first, which sets `norm` again.
#[test]
fn a_quiescent_state_of_the_last_grace_period_is_not_reported() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    let mut reader = Reader::new(7);
    rig.begin();
    rig.tick(1, TickHit::KernelSection);
    assert!(rig.core(1).is_none());
    rig.switch(1, &mut reader);
    assert!(!rig.snap().cpus[1].norm && rig.snap().cpus[1].core_needs_qs);
    rig.finish();
    rig.begin();
    assert!(rig.core(1).is_none());
    assert!(rig.snap().cpus[1].norm, "needed again");
    assert_eq!(rig.rcu.holdouts(), [0, 1, 2, 3]);
    // One of this grace period is.
    rig.switch(1, &mut reader);
    assert!(rig.core(1).is_none());
    assert_eq!(rig.rcu.holdouts(), [0, 2, 3]);
}

/// The early report is for the CPU on which the kthread runs at the end of initialisation. One that it
/// moved to after that CPU's leaf was initialised has another number: the report declines and sets
/// `norm`, and the CPU is waited for like any other.
#[test]
fn the_early_report_declines_on_a_cpu_that_has_not_noticed_the_grace_period() {
    for (moves_to, holdouts) in [(0, vec![1, 2, 3]), (1, vec![0, 1, 2, 3]), (2, vec![0, 1, 3])] {
        let rcu = rcu(|tun| tun.early_qs = true);
        let mut rig = Rig::new(&rcu);
        // All CPUs' numbers are good ones from here on.
        rig.begin();
        (0..4).for_each(|cpu| rig.report(cpu));
        rig.run();
        (0..4).for_each(|cpu| rig.report(cpu));
        rig.request(0);
        rig.w.events.clear();
        rig.step_until(|rig| matches!(rig.w.events.last(), Some(Event::GracePeriodInit { .. })));
        // CPU 2 notices the grace period by itself before the report.
        rig.tick(2, TickHit::KernelSection);
        assert!(rig.core(2).is_none());
        rig.gp_cpu = moves_to;
        rig.run();
        assert_eq!(rcu.holdouts(), holdouts, "moved to CPU {moves_to}");
        if moves_to == 1 {
            assert!(rig.snap().cpus[1].norm);
        }
    }
}

/// A machine of one CPU: the early report empties the root, and no wait and no scan follow.
#[test]
fn the_early_report_ends_the_grace_period_of_a_machine_of_one_cpu() {
    let rcu = rcu(|tun| {
        tun.nr_cpus = 1;
        tun.early_qs = true;
    });
    let mut rig = Rig::new(&rcu);
    rig.request(0);
    rig.run();
    assert!(rig.asleep_for_request());
    assert_eq!(rig.w.records.len(), 1);
    assert_eq!(rig.w.records[0].scans, 0);
    assert_eq!(rig.w.records[0].resolved_by, Resolution::EarlyReport);
    assert_eq!(rig.w.wakes, 1, "the request's; the report's own is suppressed");
}

/// `gp_*_delay`: a sleep of so many jiffies — before initialisation once, after the whole hotplug pass;
/// in it before each node; in clean-up after each node — in every (nodes · 3 · delay)-th grace period.
#[test]
fn debugging_delays_come_in_few_grace_periods_and_at_each_node() {
    const NODES: usize = 3;
    const PERIOD: usize = NODES * 3 * 2;
    for (which, sleeps) in [("preinit", 1), ("init", NODES), ("cleanup", NODES)] {
        let rcu = rcu(|tun| {
            tun.rcu_fanout_leaf = 2;
            match which {
                "preinit" => tun.gp_preinit_delay = 2,
                "init" => tun.gp_init_delay = 2,
                _ => tun.gp_cleanup_delay = 2,
            }
        });
        let mut rig = Rig::new(&rcu);
        (0..4).for_each(|cpu| rig.idle(cpu));
        let mut delayed = Vec::new();
        for gp in 0..2 * PERIOD {
            rig.request(1);
            rig.w.works.clear();
            let mut delays = 0;
            let mut resume = GpResume::Run;
            for step in 0.. {
                assert!(step < 1000, "a grace period without an end");
                match rig.step(std::mem::replace(&mut resume, GpResume::Run)) {
                    GpWait::Delay { jiffies } => {
                        assert_eq!(jiffies, 2);
                        let done = |work| rig.w.works.iter().filter(|&&done| done == work).count();
                        let at = (
                            done(Work::HotplugLeaf),
                            done(Work::InitNode),
                            done(Work::CleanupNode),
                        );
                        let expected = match which {
                            "preinit" => (2, 0, 0),
                            "init" => (2, delays, 0),
                            _ => (2, NODES, delays + 1),
                        };
                        assert_eq!(at, expected, "{which}");
                        delays += 1;
                        rig.w.jiffies += jiffies;
                        resume = GpResume::TimedOut;
                    }
                    GpWait::Timeout { jiffies, .. } => {
                        rig.w.jiffies += jiffies;
                        resume = GpResume::TimedOut;
                    }
                    GpWait::Yield => (),
                    GpWait::Request { .. } => break,
                }
            }
            if delays > 0 {
                assert_eq!(delays, sleeps, "{which}");
                delayed.push(gp);
            }
        }
        assert_eq!(delayed.len(), 2, "{which}: {delayed:?}");
        assert_eq!(delayed[1] - delayed[0], PERIOD, "{which}");
    }
}

/// Clean-up looks at the callbacks of the kthread's own CPU, so the grace period that they need follows
/// without a tick: those queued before its leaf's turn are numbered then, later ones against the root at
/// the end. Callbacks of other CPUs are not looked at.
#[test]
fn the_end_of_a_grace_period_numbers_the_kthreads_own_callbacks() {
    for (cpu, late, next_follows) in [
        (0, false, true),
        (0, true, true),
        (1, false, false),
        (1, true, false),
    ] {
        let rcu = rcu(three_levels);
        let mut rig = Rig::new(&rcu);
        rig.begin();
        (0..8).for_each(|cpu| rig.report(cpu));
        if late {
            rig.step_until(|rig| rig.snap().nodes.iter().all(|node| seq::state(node.gp_seq) == 0));
            assert!(rcu.gp_in_progress());
        }
        rig.call(cpu, 1);
        rig.run();
        assert_eq!(rig.w.records.len(), 1);
        assert_eq!(rcu.gp_in_progress(), next_follows, "CPU {cpu}, late: {late}");
    }
}

/// The barrier against all readers comes once per grace period, between the start of its number and the
/// first node that says who owes a quiescent state.
#[test]
fn the_heavy_fence_lies_between_the_start_and_the_first_mask() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    rig.begin();
    let [(Fence::GpStart, at)] = rig.w.fences[..] else {
        panic!("one fence: {:?}", rig.w.fences);
    };
    let (before, after) = rig.w.events.split_at(at);
    let start = |event: &Event| matches!(event, Event::GracePeriod { what: "start", .. });
    let mask = |event: &Event| matches!(event, Event::GracePeriodInit { .. });
    assert!(before.iter().any(start) && !before.iter().any(mask));
    assert!(after.iter().any(mask) && !after.iter().any(start));
}

/// A callback queued on an idle machine asks for nothing; the core that the next tick raises does.
#[test]
fn a_tick_requests_for_new_callbacks() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.report(1);
    rig.call(1, 1);
    rig.w.cores.clear();
    assert!(!rig.requested());
    rig.tick(1, TickHit::KernelSection);
    assert_eq!(rig.w.cores, [1]);
    assert!(rig.core(1).is_none());
    assert!(rig.requested());
    assert_eq!(rig.w.wakes, 1);
}
