//! Expedited grace periods step by step: the funnel, the selection, the interrupt, readers, and what they do not do to
//! normal ones.

use crate::rig::{Called, Rig, irq, rcu, task, three_levels};
use treercu::config::Preempt;
use treercu::trace::Event;
use treercu::tree::waiters::Waiter;
use treercu::tree::world::TickHit;
use treercu::tree::{COMPLETED, ExpCall, ExpStep, FullCookie, Rcu, Reader};

/// A caller, with the CPU on which it runs.
struct Caller {
    call: ExpCall,
    waiter: Waiter,
    cpu: u32,
}

impl Caller {
    fn new(rcu: &Rcu<Called>, token: u64, cpu: u32) -> Self {
        Caller {
            call: rcu.exp_begin(),
            waiter: Waiter::new(token),
            cpu,
        }
    }

    fn step(&mut self, rig: &mut Rig<'_>) -> ExpStep {
        rig.rcu
            .exp_step(&mut self.call, task(self.cpu), &self.waiter, &mut rig.w)
    }

    /// Steps until it has to wait or is done.
    fn run(&mut self, rig: &mut Rig<'_>) -> ExpStep {
        for _ in 0..100 {
            match self.step(rig) {
                ExpStep::Again | ExpStep::Prepare => {}
                other => return other,
            }
        }
        panic!("it goes on for ever")
    }
}

const PATIENCE: ExpStep = ExpStep::WaitTimeout { jiffies: 21_000 };

fn ipi(rig: &mut Rig<'_>, cpu: u32, hit: TickHit, reader: Option<&mut Reader>) {
    rig.rcu.exp_ipi(irq(cpu), hit, reader, &mut rig.w);
}

/// Names of the expedited events since the records were last cleared.
fn events(rig: &Rig<'_>) -> Vec<(i64, &'static str)> {
    let named = |event: &Event| match *event {
        Event::ExpGracePeriod { gp_seq, what } => Some((gp_seq as i64, what)),
        Event::ExpFunnelLock { level, what, .. } => Some((i64::from(level), what)),
        _ => None,
    };
    rig.w.events.iter().filter_map(named).collect()
}

fn preempted(rig: &mut Rig<'_>, id: u64, cpu: u32) -> Reader {
    let mut reader = Reader::new(id);
    reader.lock();
    rig.switch(cpu, &mut reader);
    reader
}

fn unlock(rig: &mut Rig<'_>, reader: &mut Reader, cpu: u32) {
    rig.rcu.read_unlock(task(cpu), reader, false, &mut rig.w);
}

/// All idle: nobody is asked, nobody waits. The number goes 0, 1, 4; every event prints the 4.
#[test]
fn an_idle_machine_ends_it_at_once() {
    for levels in [1, 3] {
        let rcu = rcu(|tun| {
            if levels == 3 {
                three_levels(tun);
            }
        });
        let mut rig = Rig::new(&rcu);
        (1..rcu.geometry().nr_cpus).for_each(|cpu| rig.idle(cpu));
        let mut a = Caller::new(&rcu, 1, 0);
        assert_eq!((a.call.gp_seq(), rcu.exp_seq()), (1, 0));
        assert_eq!(a.step(&mut rig), ExpStep::Prepare);
        assert_eq!(rcu.exp_seq(), 1);
        assert_eq!(a.run(&mut rig), ExpStep::Done);
        assert_eq!(rcu.exp_seq(), 4);
        assert!(rig.w.ipis.is_empty() && rig.w.done.is_empty());
        let steps = ["snap", "start", "reset", "select", "end", "endwake", "done"];
        assert_eq!(events(&rig), steps.map(|what| (4, what)));
        for node in rig.snap().nodes {
            assert_eq!(node.expmask, 0);
            assert_ne!(node.expmaskinit, 0, "the first one makes the masks");
        }
        assert_eq!(a.step(&mut rig), ExpStep::Done, "done is done");
    }
}

/// Every busy CPU but the caller's gets one interrupt. User mode and preemptible kernel code report in the
/// handler; a preemption-disabled stretch reports at the context switch that the handler asks for.
#[test]
fn busy_cpus_are_interrupted_and_the_last_report_wakes_the_driver() {
    for levels in [1, 3] {
        let rcu = rcu(|tun| {
            if levels == 3 {
                three_levels(tun);
            }
        });
        let cpus = rcu.geometry().nr_cpus;
        let mut rig = Rig::new(&rcu);
        (4..cpus).for_each(|cpu| rig.idle(cpu));
        let mut a = Caller::new(&rcu, 1, 0);
        assert_eq!(a.run(&mut rig), PATIENCE);
        assert_eq!(rig.w.ipis, [1, 2, 3]);
        assert_eq!(rcu.exp_holdouts(), [1, 2, 3]);
        assert_eq!(a.step(&mut rig), PATIENCE, "a step too many");
        ipi(&mut rig, 1, TickHit::User, None);
        ipi(&mut rig, 2, TickHit::Kernel, None);
        assert!(rig.w.reschedules.is_empty());
        ipi(&mut rig, 3, TickHit::KernelSection, None);
        assert_eq!(rig.w.reschedules, [3]);
        assert_eq!(rcu.exp_holdouts(), [3]);
        assert!(rig.snap().cpus[3].exp_owed);
        // Not a moment to report either.
        rig.tick(3, TickHit::KernelSection);
        assert_eq!(rcu.exp_holdouts(), [3]);
        assert!(rig.w.done.is_empty());
        rcu.context_switch(task(3), None, &mut rig.w);
        assert!(!rig.snap().cpus[3].exp_owed);
        assert_eq!(
            rig.w.done,
            [(1, 1)],
            "the driver, by the grace period with the number 1"
        );
        assert_eq!(a.step(&mut rig), ExpStep::Done);
        let steps = [
            "snap",
            "start",
            "reset",
            "select",
            "startwait",
            "end",
            "endwake",
            "done",
        ];
        assert_eq!(events(&rig), steps.map(|what| (4, what)));
    }
}

/// Between the sample and the interrupt a CPU may go through idle: then it is not interrupted. One that is
/// idle when the interrupt comes reports whatever the flavour.
#[test]
fn a_cpu_that_was_or_is_idle_owes_nothing() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    let mut a = Caller::new(&rcu, 1, 0);
    [2, 3].into_iter().for_each(|cpu| rig.idle(cpu));
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert_eq!(rig.w.ipis, [1]);
    ipi(&mut rig, 1, TickHit::Idle, None);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
}

/// Without preemption the handler cannot tell kernel code from a section, nor does it look for user mode; it
/// asks for a switch. A second interrupt that finds the flag set does nothing.
#[test]
fn without_preemption_only_idle_reports_at_once() {
    let rcu = rcu(|tun| tun.preempt = Preempt::None);
    let mut rig = Rig::new(&rcu);
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    ipi(&mut rig, 1, TickHit::Idle, None);
    ipi(&mut rig, 2, TickHit::User, None);
    ipi(&mut rig, 2, TickHit::User, None);
    ipi(&mut rig, 3, TickHit::Kernel, None);
    assert_eq!(rcu.exp_holdouts(), [2, 3]);
    assert_eq!(rig.w.reschedules, [2, 3]);
    // The tick out of user mode is one of its quiescent states; long code has its reschedule points, where the
    // urgent flag is looked at.
    rig.tick(2, TickHit::User);
    assert_eq!(rcu.exp_holdouts(), [3]);
    rcu.cond_resched(task(3), &mut rig.w);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
}

/// The interrupt lands inside a reader: its CPU reports at the outermost unlock, not before.
#[test]
fn a_running_reader_reports_at_its_outermost_unlock() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    [2, 3].into_iter().for_each(|cpu| rig.idle(cpu));
    let mut reader = Reader::new(11);
    reader.lock();
    reader.lock();
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    ipi(&mut rig, 1, TickHit::Kernel, Some(&mut reader));
    assert_eq!(rcu.exp_holdouts(), [1]);
    unlock(&mut rig, &mut reader, 1);
    rig.rcu
        .tick(irq(1), TickHit::Kernel, Some(&mut reader), &mut rig.w);
    assert_eq!(rcu.exp_holdouts(), [1]);
    unlock(&mut rig, &mut reader, 1);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.w.done, [(1, 1)]);
    // Nothing is left of the hint.
    rig.w.reschedules.clear();
    reader.lock();
    rcu.read_unlock(task(1), &mut reader, true, &mut rig.w);
    assert!(rig.w.reschedules.is_empty());
}

/// With preemption off at the unlock it is deferred to the next switch, core or tick outside sections.
#[test]
fn a_deferred_unlock_reports_at_the_next_opportunity() {
    type Opportunity = fn(&mut Rig<'_>, &mut Reader);
    let opportunities: [Opportunity; 3] = [
        |rig, reader| rig.switch(1, reader),
        |rig, reader| assert!(rig.rcu.core(irq(1), Some(reader), &mut rig.w).is_none()),
        |rig, reader| rig.rcu.tick(irq(1), TickHit::Kernel, Some(reader), &mut rig.w),
    ];
    for opportunity in opportunities {
        let rcu = rcu(|_| ());
        let mut rig = Rig::new(&rcu);
        [2, 3].into_iter().for_each(|cpu| rig.idle(cpu));
        let mut reader = Reader::new(11);
        reader.lock();
        let mut a = Caller::new(&rcu, 1, 0);
        assert_eq!(a.run(&mut rig), PATIENCE);
        ipi(&mut rig, 1, TickHit::Kernel, Some(&mut reader));
        rcu.read_unlock(task(1), &mut reader, true, &mut rig.w);
        assert_eq!(rig.w.reschedules, [1]);
        assert_eq!(rcu.exp_holdouts(), [1]);
        opportunity(&mut rig, &mut reader);
        assert_eq!(a.run(&mut rig), ExpStep::Done);
    }
}

/// A reader that was preempted before the selection blocks its leaf, whoever is idle by then. A later one of
/// the same leaf, on a CPU that owes nothing, does not.
#[test]
fn readers_blocked_before_the_selection_are_waited_for() {
    for levels in [1, 3] {
        let rcu = rcu(|tun| {
            if levels == 3 {
                three_levels(tun);
            }
        });
        let mut rig = Rig::new(&rcu);
        let mut first = preempted(&mut rig, 11, 1);
        let mut second = preempted(&mut rig, 12, 0);
        (1..rcu.geometry().nr_cpus).for_each(|cpu| rig.idle(cpu));
        let mut a = Caller::new(&rcu, 1, 3);
        assert_eq!(a.run(&mut rig), PATIENCE);
        // CPU 0 is busy, the reader's own CPU 1 is not.
        assert_eq!(rig.w.ipis, [0]);
        ipi(&mut rig, 0, TickHit::Kernel, None);
        assert!(rcu.exp_holdouts().is_empty());
        assert_eq!(rcu.exp_blocking_readers(), [12, 11]);
        let mut late = preempted(&mut rig, 13, 0);
        assert_eq!(rcu.exp_blocking_readers(), [12, 11]);
        unlock(&mut rig, &mut second, 2);
        assert_eq!(a.step(&mut rig), PATIENCE);
        unlock(&mut rig, &mut first, 0);
        assert_eq!(rig.w.done, [(1, 1)]);
        assert_eq!(a.step(&mut rig), ExpStep::Done);
        unlock(&mut rig, &mut late, 0);
    }
}

/// Preempted after the selection while its CPU is owed, a reader blocks; the CPU itself reports by the
/// interrupt that then hits somebody else, or by the very switch if the interrupt came before.
#[test]
fn a_reader_preempted_after_the_selection_blocks_in_its_cpus_place() {
    for asked_inside in [false, true] {
        let rcu = rcu(three_levels);
        let mut rig = Rig::new(&rcu);
        (2..8).for_each(|cpu| rig.idle(cpu));
        let mut reader = Reader::new(11);
        reader.lock();
        let mut a = Caller::new(&rcu, 1, 0);
        assert_eq!(a.run(&mut rig), PATIENCE);
        if asked_inside {
            ipi(&mut rig, 1, TickHit::Kernel, Some(&mut reader));
        }
        rig.switch(1, &mut reader);
        assert_eq!(rcu.exp_blocking_readers(), [11]);
        if !asked_inside {
            assert_eq!(rcu.exp_holdouts(), [1], "the switch knows of no request");
            ipi(&mut rig, 1, TickHit::Kernel, None);
        }
        assert!(rcu.exp_holdouts().is_empty());
        assert_eq!(a.step(&mut rig), PATIENCE);
        // It goes on elsewhere.
        unlock(&mut rig, &mut reader, 6);
        assert_eq!(a.step(&mut rig), ExpStep::Done);
    }
}

/// Preempted between two leaves' selections, on a leaf whose turn has not come: no bit is set there yet, but
/// the reset of that leaf finds it on the list.
#[test]
fn a_reader_preempted_between_two_selections_is_not_missed() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    (1..6).for_each(|cpu| rig.idle(cpu));
    let mut reader = Reader::new(11);
    reader.lock();
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.step(&mut rig), ExpStep::Prepare);
    assert_eq!(a.step(&mut rig), ExpStep::Again);
    rig.switch(6, &mut reader);
    rig.idle(6);
    rig.idle(7);
    assert!(rcu.exp_blocking_readers().is_empty());
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert!(rig.w.ipis.is_empty());
    assert_eq!(rcu.exp_blocking_readers(), [11]);
    unlock(&mut rig, &mut reader, 0);
    assert_eq!(a.step(&mut rig), ExpStep::Done);
}

/// The tail of a list blocks: a reader that blocks the expedited grace period only, one that blocks the normal
/// one only, with both pointers live. The normal pointer's element comes to lie in front, so the normal grace
/// period also waits for the expedited's reader; never the other way round.
#[test]
fn one_list_serves_both_kinds() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    (2..4).for_each(|cpu| rig.idle(cpu));
    // The normal one waits for everybody who is not idle; CPU 1 reports, CPU 0 still owes it.
    rig.begin();
    rig.report(1);
    let mut a = Caller::new(&rcu, 1, 2);
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert_eq!(rcu.exp_holdouts(), [0, 1]);
    // CPU 1 owes the expedited one only: sum 1, tail; then 4 + 1: behind the expedited pointer.
    let mut exp_only = preempted(&mut rig, 21, 1);
    let mut exp_more = preempted(&mut rig, 22, 1);
    assert_eq!(rcu.exp_blocking_readers(), [21, 22]);
    assert!(rcu.blocking_readers().is_empty());
    // CPU 0 owes both: 4 + 2 + 1, behind the expedited pointer, and the normal pointer goes there.
    let mut both = preempted(&mut rig, 23, 0);
    assert_eq!(rcu.exp_blocking_readers(), [21, 23, 22]);
    assert_eq!(rcu.blocking_readers(), [23, 22]);
    // Blocks neither (the CPUs have reported): in front of all.
    ipi(&mut rig, 0, TickHit::Kernel, None);
    ipi(&mut rig, 1, TickHit::Kernel, None);
    drop(rig.core(0));
    let mut neither = preempted(&mut rig, 24, 1);
    assert_eq!(rcu.exp_blocking_readers(), [21, 23, 22]);
    // The expedited one's readers leave, the first element first: the pointer moves on.
    unlock(&mut rig, &mut exp_only, 1);
    assert_eq!(rcu.exp_blocking_readers(), [23, 22]);
    unlock(&mut rig, &mut both, 0);
    assert_eq!(
        (rcu.exp_blocking_readers(), rcu.blocking_readers()),
        (vec![22], vec![22])
    );
    assert_eq!(a.step(&mut rig), PATIENCE);
    unlock(&mut rig, &mut exp_more, 1);
    assert_eq!(a.step(&mut rig), ExpStep::Done);
    assert!(rcu.blocking_readers().is_empty());
    unlock(&mut rig, &mut neither, 1);
}

/// An expedited grace period inside a normal one leaves it as it is: same number, same hold-outs.
#[test]
fn it_never_ends_a_normal_one() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    let mut reader = preempted(&mut rig, 11, 1);
    rig.begin();
    let before = rig.snap();
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    (1..8).for_each(|cpu| ipi(&mut rig, cpu, TickHit::Kernel, None));
    unlock(&mut rig, &mut reader, 1);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    let after = rig.snap();
    assert_eq!(after.gp_seq, before.gp_seq);
    for (a, b) in after.nodes.iter().zip(&before.nodes) {
        assert_eq!(
            (a.qsmask, a.gp_seq, a.completedqs),
            (b.qsmask, b.gp_seq, b.completedqs)
        );
    }
    assert_eq!(rcu.holdouts(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(rig.w.wakes, 1, "the kthread was woken by the request alone");
    rig.finish();
    assert!(rig.asleep_for_request());
}

/// A CPU that is offline is not asked. One that leaves while it owes reports as it goes; the interrupt that
/// comes too late, to a CPU that is back, does nothing. Only what was once online is in the masks.
#[test]
fn cpus_that_come_and_go() {
    let rcu = rcu(|tun| tun.maxcpus = 3);
    let mut rig = Rig::new(&rcu);
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert_eq!(rig.w.ipis, [1, 2]);
    assert_eq!(rig.snap().nodes[0].expmaskinit, 0b111);
    ipi(&mut rig, 1, TickHit::KernelSection, None);
    rcu.cpu_dead(task(1), None, &mut rig.w);
    assert_eq!(rcu.exp_holdouts(), [2]);
    rcu.cpu_dead(task(2), None, &mut rig.w);
    assert_eq!(rig.w.done, [(1, 1)]);
    rcu.cpu_online(2);
    // A new one does not take part in what is running.
    rcu.cpu_online(3);
    rig.w.reschedules.clear();
    ipi(&mut rig, 2, TickHit::KernelSection, None);
    assert!(rig.w.reschedules.is_empty() && !rig.snap().cpus[2].exp_owed);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    rig.w.ipis.clear();
    let mut b = Caller::new(&rcu, 2, 0);
    assert_eq!(b.run(&mut rig), PATIENCE);
    assert_eq!(rig.w.ipis, [2, 3], "CPU 1 is gone, CPU 3 has come");
    assert_eq!(rig.snap().nodes[0].expmaskinit, 0b1111);
    [2, 3]
        .into_iter()
        .for_each(|cpu| ipi(&mut rig, cpu, TickHit::User, None));
    assert_eq!(b.run(&mut rig), ExpStep::Done);
}

/// A leaf of CPUs that were never online joins the tree up to the root when the first of them comes.
#[test]
fn a_new_leaf_is_attached_all_the_way_up() {
    let rcu = rcu(|tun| {
        three_levels(tun);
        tun.maxcpus = 2;
    });
    let mut rig = Rig::new(&rcu);
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    ipi(&mut rig, 1, TickHit::User, None);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    let inits = |rig: &Rig<'_>| rig.snap().nodes.iter().map(|n| n.expmaskinit).collect::<Vec<_>>();
    assert_eq!(inits(&rig), [1, 1, 0, 3, 0, 0, 0]);
    rcu.cpu_online(7);
    let mut b = Caller::new(&rcu, 2, 0);
    rig.w.ipis.clear();
    assert_eq!(b.run(&mut rig), PATIENCE);
    assert_eq!(inits(&rig), [3, 1, 2, 3, 0, 0, 2]);
    assert_eq!(rig.w.ipis, [1, 7]);
    [1, 7]
        .into_iter()
        .for_each(|cpu| ipi(&mut rig, cpu, TickHit::User, None));
    assert_eq!(b.run(&mut rig), ExpStep::Done);
}

/// While one grace period runs all newcomers need the next. The first climbs to the root and queues on the
/// mutex; the second of its leaf sleeps on the leaf; one from another branch climbs to the root and sleeps
/// there. Two grace periods serve all four.
#[test]
fn one_caller_per_target_reaches_the_mutex() {
    let rcu = rcu(three_levels);
    let mut rig = Rig::new(&rcu);
    (2..8).for_each(|cpu| rig.idle(cpu));
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    rig.w.events.clear();
    let mut b = Caller::new(&rcu, 2, 0);
    assert_eq!((b.call.gp_seq(), b.run(&mut rig)), (5, ExpStep::Wait));
    let climb = [(2, "nxtlvl"), (1, "nxtlvl"), (0, "nxtlvl")];
    assert_eq!(events(&rig)[1..], climb);
    rig.w.events.clear();
    let mut c = Caller::new(&rcu, 3, 1);
    assert_eq!(c.run(&mut rig), ExpStep::Wait);
    assert_eq!(events(&rig)[1..], [(2, "wait")]);
    rig.w.events.clear();
    let mut d = Caller::new(&rcu, 4, 7);
    assert_eq!(d.run(&mut rig), ExpStep::Wait);
    assert_eq!(events(&rig)[1..], [(2, "nxtlvl"), (1, "nxtlvl"), (0, "wait")]);
    // Steps too many.
    for caller in [&mut b, &mut c, &mut d] {
        assert_eq!(caller.run(&mut rig), ExpStep::Wait);
    }
    ipi(&mut rig, 1, TickHit::User, None);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    assert_eq!(
        rig.w.done,
        [(1, 1), (2, 4)],
        "the mutex goes to the second caller"
    );
    for caller in [&mut c, &mut d] {
        assert_eq!(caller.run(&mut rig), ExpStep::Wait);
    }
    rig.w.done.clear();
    assert_eq!(b.run(&mut rig), PATIENCE);
    ipi(&mut rig, 1, TickHit::User, None);
    assert_eq!(b.run(&mut rig), ExpStep::Done);
    // The driver itself; then breadth first: the root's sleeper, the leaf's.
    assert_eq!(rig.w.done, [(2, 5), (4, 5), (3, 5)]);
    for caller in [&mut c, &mut d] {
        assert_eq!(caller.run(&mut rig), ExpStep::Done);
    }
    assert_eq!(rcu.exp_seq(), 8);
}

/// A caller that began before the running grace period started, and came to the funnel behind its owner (who
/// records nothing on the fast path), queues on the mutex and then finds its work done; it hands the mutex on.
#[test]
fn a_queued_caller_may_find_its_work_done() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    (2..4).for_each(|cpu| rig.idle(cpu));
    let mut a = Caller::new(&rcu, 1, 0);
    let mut b = Caller::new(&rcu, 2, 1);
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert_eq!(b.run(&mut rig), ExpStep::Wait);
    let mut c = Caller::new(&rcu, 3, 0);
    assert_eq!(c.run(&mut rig), ExpStep::Wait, "the next target");
    ipi(&mut rig, 1, TickHit::User, None);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.w.done, [(1, 1), (2, 4)]);
    assert_eq!(b.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.w.done.last(), Some(&(3, 4)));
    rig.idle(1);
    assert_eq!(c.run(&mut rig), ExpStep::Done);
    assert_eq!(rcu.exp_seq(), 8);
    // The mutex is free again: the fast path takes it.
    rig.w.events.clear();
    let mut d = Caller::new(&rcu, 4, 0);
    assert_eq!(d.run(&mut rig), ExpStep::Done);
    assert!(!events(&rig).iter().any(|(_, what)| *what == "nxtlvl"));
}

/// A sleeper may give up; who queues on the mutex or owns it may not, since others count on it.
#[test]
fn who_may_give_up() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.run(&mut rig), PATIENCE);
    let mut b = Caller::new(&rcu, 2, 0);
    let mut c = Caller::new(&rcu, 3, 0);
    assert_eq!((b.run(&mut rig), c.run(&mut rig)), (ExpStep::Wait, ExpStep::Wait));
    assert!(!rcu.exp_cancel(&mut a.call, &a.waiter));
    assert!(!rcu.exp_cancel(&mut b.call, &b.waiter));
    assert!(rcu.exp_cancel(&mut c.call, &c.waiter));
    (1..4).for_each(|cpu| ipi(&mut rig, cpu, TickHit::User, None));
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    (1..4).for_each(|cpu| rig.idle(cpu));
    assert_eq!(b.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.w.done, [(1, 1), (2, 4)], "nobody completes who has given up");
}

/// The polled number is ended by whichever kind ends first; the other then leaves it alone. A full cookie is
/// done by either kind's own number.
#[test]
fn the_polled_number_ends_with_either_kind() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    (1..4).for_each(|cpu| rig.idle(cpu));
    let boot = rig.snap().gp_seq_polled;
    let (cookie, full) = (rcu.get_state(), rcu.get_state_full());
    assert_eq!((cookie, full.exp), (boot + 4, 4));
    rig.request(0);
    rig.run();
    assert_eq!(rig.snap().gp_seq_polled, boot + 1);
    // Taken inside: needs the next one too.
    let inside = rcu.get_state();
    assert_eq!(inside, boot + 8);
    let mut a = Caller::new(&rcu, 1, 0);
    assert_eq!(a.step(&mut rig), ExpStep::Prepare);
    assert_eq!(rig.snap().gp_seq_polled, boot + 1, "shared");
    assert!(!rcu.poll_state(cookie) && !rcu.poll_state_full(full));
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.snap().gp_seq_polled, boot + 4);
    assert!(rcu.poll_state(cookie) && rcu.poll_state_full(full));
    assert!(!rcu.poll_state(inside));
    assert!(rcu.gp_in_progress());
    let later = rcu.get_state_full();
    rig.finish();
    assert!(rig.asleep_for_request());
    assert_eq!(rig.snap().gp_seq_polled, boot + 4, "not ended twice");
    assert!(!rcu.poll_state(inside) && !rcu.poll_state_full(later));
    // An expedited one alone starts and ends it.
    let mut b = Caller::new(&rcu, 2, 0);
    assert_eq!(b.step(&mut rig), ExpStep::Prepare);
    assert_eq!(rig.snap().gp_seq_polled, boot + 5);
    assert_eq!(b.run(&mut rig), ExpStep::Done);
    assert!(rcu.poll_state(inside) && rcu.poll_state_full(later));
    let only_exp = FullCookie {
        norm: u64::MAX / 4 * 4,
        exp: COMPLETED,
    };
    assert!(rcu.poll_state_full(only_exp));
}

/// The other way round: a normal grace period ends inside an expedited one.
#[test]
fn a_normal_one_ends_the_polled_number_under_an_expedited_one() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    (1..4).for_each(|cpu| rig.idle(cpu));
    let boot = rig.snap().gp_seq_polled;
    let mut reader = Reader::new(11);
    let mut a = Caller::new(&rcu, 1, 0);
    rig.busy(1);
    assert_eq!(a.run(&mut rig), PATIENCE);
    assert_eq!(rig.snap().gp_seq_polled, boot + 1);
    rig.begin();
    assert_eq!(rig.snap().gp_seq_polled, boot + 1);
    rig.finish();
    assert!(rig.asleep_for_request());
    assert_eq!(rig.snap().gp_seq_polled, boot + 4);
    reader.lock();
    ipi(&mut rig, 1, TickHit::Kernel, Some(&mut reader));
    unlock(&mut rig, &mut reader, 1);
    assert_eq!(a.run(&mut rig), ExpStep::Done);
    assert_eq!(rig.snap().gp_seq_polled, boot + 4);
}

/// A quiescent state seen from outside counts for the grace period that asked, not for the next one.
#[test]
fn an_observed_quiescent_state_counts_for_its_own_grace_period() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    [2, 3].into_iter().for_each(|cpu| rig.idle(cpu));
    for token in 1..=2 {
        let mut a = Caller::new(&rcu, token, 0);
        assert_eq!(a.run(&mut rig), PATIENCE);
        let number = rcu.exp_seq();
        rcu.exp_report_observed(task(1), number.wrapping_sub(4), &mut rig.w);
        assert_eq!(rcu.exp_holdouts(), [1]);
        rcu.exp_report_observed(task(1), number, &mut rig.w);
        assert!(rcu.exp_holdouts().is_empty());
        assert_eq!(rig.w.done.last(), Some(&(token, number)));
        assert_eq!(a.run(&mut rig), ExpStep::Done);
    }
}
