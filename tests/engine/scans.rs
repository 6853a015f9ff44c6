//! Force-quiescent-state scans: whom they credit, whom they press, and when they come.

use crate::rig::{Called, Rig, drain, idle_irq, rcu, task};
use treercu::config::Preempt;
use treercu::trace::Event;
use treercu::tree::world::TickHit;
use treercu::tree::{GpResume, GpWait, Rcu, Reader};

const GP_START: u64 = 1000;

/// Scans as close together as the test likes.
fn patient() -> Rcu<Called> {
    rcu(|tun| tun.jiffies_till_next_fqs = 1)
}

/// A machine in whose grace period only CPU 1 is waited for, after the first scan.
fn only_cpu_1(rig: &mut Rig<'_>) {
    for cpu in [0, 2, 3] {
        rig.idle(cpu);
    }
    rig.begin();
    rig.time_out();
    assert_eq!(rig.rcu.holdouts(), [1]);
}

/// Does a tick inside a section of CPU 1 ask for a context switch, as it does only when the CPU is
/// urgent? (The tick takes the flag back.)
fn urgent(rig: &mut Rig<'_>) -> bool {
    rig.w.reschedules.clear();
    rig.tick(1, TickHit::KernelSection);
    rig.w.reschedules == [1]
}

/// A hold-out is urgent when now > gp_start + jtsq, and again at each later scan.
#[test]
fn a_hold_out_becomes_urgent_after_jtsq() {
    let rcu = patient();
    let mut rig = Rig::new(&rcu);
    only_cpu_1(&mut rig);
    for (age, expected) in [(100, false), (101, true), (102, true), (199, true)] {
        rig.time_out_at(GP_START + age);
        assert_eq!(urgent(&mut rig), expected, "age {age}");
        assert!(!urgent(&mut rig), "the tick took the flag back");
    }
}

/// A CPU that is reported, by itself or by a scan, is not urgent any more.
#[test]
fn a_report_ends_the_urgency() {
    for by_scan in [false, true] {
        let rcu = patient();
        let mut rig = Rig::new(&rcu);
        only_cpu_1(&mut rig);
        assert!(rig.core(1).is_none());
        rig.time_out_at(GP_START + 250);
        assert_eq!(rcu.holdouts(), [1]);
        if by_scan {
            rig.idle(1);
            rig.busy(1);
            rig.time_out();
        } else {
            rig.switch(1, &mut Reader::new(1));
            assert!(rig.core(1).is_none());
        }
        assert!(rcu.holdouts().is_empty());
        assert!(!urgent(&mut rig), "by scan: {by_scan}");
    }
}

/// Non-preemptible: `cond_resched()` answers an urgent flag by recording a quiescent state, and a heavy
/// one, set when now > gp_start + 2·jtsq, by a momentary extended quiescent state as well.
#[test]
fn a_hold_out_pays_for_a_momentary_eqs_only_after_twice_jtsq() {
    let rcu = rcu(|tun| {
        tun.preempt = Preempt::None;
        tun.jiffies_till_next_fqs = 1;
    });
    let mut rig = Rig::new(&rcu);
    only_cpu_1(&mut rig);
    rig.tick(1, TickHit::KernelSection);
    assert!(rig.core(1).is_none());
    let cond_resched = |rig: &mut Rig<'_>| {
        rig.rcu.cond_resched(task(1), &mut rig.w);
        (rig.snap().cpus[1].norm, rig.w.heavy.len())
    };
    rig.time_out_at(GP_START + 100);
    assert_eq!(cond_resched(&mut rig), (true, 0), "not asked for anything yet");
    rig.time_out_at(GP_START + 101);
    assert_eq!(cond_resched(&mut rig), (false, 0), "urgent: recorded");
    rig.time_out_at(GP_START + 200);
    assert_eq!(cond_resched(&mut rig), (false, 0), "urgent, not heavy");
    rig.time_out_at(GP_START + 201);
    assert_eq!(cond_resched(&mut rig), (false, 1), "heavy");
    assert_eq!(cond_resched(&mut rig), (false, 1), "once");
    // The momentary state shows as a changed counter.
    rig.time_out();
    assert!(rig.asleep_for_request());

    // A heavy flag that was not answered ends with the report, too: the next grace period is not
    // entitled to a momentary state before its own time.
    rig.begin();
    rig.time_out();
    let start = rig.w.jiffies;
    rig.time_out_at(start + 201);
    rig.report(1);
    rig.run();
    rig.begin();
    rig.time_out();
    rig.time_out_at(start + 201 + 111);
    assert_eq!(rig.rcu.holdouts(), [1]);
    assert_eq!(cond_resched(&mut rig), (false, 1));
}

/// now > jiffies_resched (gp_start + half of 21 s): the scan asks for a context switch itself, again
/// only when more than jtsq has passed since the last time; it is willing to pay by then.
#[test]
fn after_half_the_stall_timeout_the_scan_reschedules_the_hold_out() {
    let rcu = patient();
    let mut rig = Rig::new(&rcu);
    only_cpu_1(&mut rig);
    for (age, expected) in [
        (10_500, false),
        (10_501, true),
        (10_502, false),
        (10_601, false),
        (10_602, true),
        (10_702, false),
        (10_703, true),
    ] {
        rig.w.reschedules.clear();
        rig.time_out_at(GP_START + age);
        assert_eq!(rig.w.reschedules == [1], expected, "age {age}");
    }
}

/// `last_fqs_resched` is also stamped when the CPU notices a new grace period.
#[test]
fn a_cpu_that_just_noticed_the_grace_period_is_not_rescheduled() {
    let rcu = patient();
    let mut rig = Rig::new(&rcu);
    only_cpu_1(&mut rig);
    rig.w.jiffies = GP_START + 10_450;
    rig.tick(1, TickHit::KernelSection);
    assert!(rig.core(1).is_none());
    for (age, expected) in [(10_501, false), (10_550, false), (10_551, true)] {
        rig.w.reschedules.clear();
        rig.time_out_at(GP_START + age);
        assert_eq!(rig.w.reschedules == [1], expected, "age {age}");
    }
}

/// The save function runs once per grace period; later scans credit whoever's counter has changed since.
#[test]
fn scans_credit_idle_cpus_and_passages_through_idle() {
    let rcu = rcu(|tun| tun.nr_cpus = 6);
    let mut rig = Rig::new(&rcu);
    rig.idle(3);
    rig.begin();
    // A passage before the first scan is not seen: there is nothing to compare with.
    rig.idle(1);
    rig.busy(1);
    rig.time_out();
    assert_eq!(rig.rcu.holdouts(), [0, 1, 2, 4, 5], "only CPU 3 is idle");
    rig.idle(1);
    rig.busy(1);
    rig.idle(2);
    // An interrupt in the kernel is no passage, one on top of idle would be.
    assert!(!rig.w.contexts[4].irq_enter());
    assert!(!rig.w.contexts[4].irq_exit());
    rig.time_out();
    assert_eq!(
        rig.rcu.holdouts(),
        [0, 4, 5],
        "CPU 1 passed idle, CPU 2 is idle, CPUs 4 and 5 were in the kernel at both readings"
    );
    rig.idle(5);
    rig.busy(5);
    rig.time_out();
    assert_eq!(rig.rcu.holdouts(), [0, 4]);
    let credited: Vec<u32> = rig
        .w
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Fqs { cpu, .. } => Some(*cpu),
            _ => None,
        })
        .collect();
    assert_eq!(credited, [3, 1, 2, 5]);
}

/// A scan that is asked for (FQS set by a flood of `call_rcu()`) does not wait for the timeout; a plain
/// wake-up leaves the kthread to sleep for the rest.
#[test]
fn a_forced_scan_ends_the_sleep_and_a_plain_wake_up_does_not() {
    let rcu = rcu(|tun| tun.qhimark = 5);
    let mut rig = Rig::new(&rcu);
    rig.begin();
    assert_eq!(rig.sleep(), 10);
    rig.w.jiffies += 4;
    rig.run();
    assert_eq!(rig.sleep(), 6, "the rest");
    assert_eq!(rig.count("fqsstart"), 0);
    rig.call(1, 6);
    assert!(rig.forced());
    rig.w.jiffies += 1;
    rig.run();
    assert_eq!(rig.count("fqsstart"), 1, "5 jiffies early");
    assert!(!rig.forced(), "the scan took the flag back");
    assert_eq!(rig.sleep(), 10);
    assert_eq!(rig.count("fqswaitsig"), 0);
}

/// A sleep that ends early with nothing to do (`fqswaitsig`): the next wait is what is left until
/// `jiffies_force_qs`, or 1.
#[test]
fn after_a_stray_wake_the_wait_is_the_rest() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.begin();
    rig.time_out_at(GP_START + 4);
    assert_eq!(rig.count("fqswaitsig"), 1);
    assert_eq!(rig.sleep(), 6);
    rig.time_out_at(GP_START + 9);
    assert_eq!(rig.count("fqswaitsig"), 2);
    assert_eq!(rig.sleep(), 1);
    assert_eq!(rig.count("fqsstart"), 0);
    rig.time_out_at(GP_START + 10);
    assert_eq!(rig.count("fqsstart"), 1);
    assert_eq!(rig.sleep(), 10);
}

/// Overload (I17): a `cbovldmask` bit that scan i sees is in force from scan i + 1: its CPUs are pressed
/// whatever their age, waits after it are max(1, (j + 2) / 3), and the next grace period's first two
/// scans come without a wait. It goes with the same delay of one scan.
#[test]
fn callback_overload_hurries_the_scans() {
    let rcu = rcu(|tun| tun.qovld = 8);
    let mut rig = Rig::new(&rcu);
    // The mark is tested before the callback is queued: 8 callbacks are not seen yet, the 9th call is.
    rig.call(1, 8);
    rig.begin();
    assert_eq!(rig.sleep(), 10);
    rig.time_out();
    rig.time_out();
    assert_eq!(rig.sleep(), 10, "no overload so far");
    rig.call(1, 1);
    rig.time_out();
    assert_eq!(rig.sleep(), 10, "being collected");
    assert!(!urgent(&mut rig));
    rig.time_out();
    assert!(
        urgent(&mut rig),
        "in force: heavy and urgent at an age of 40 jiffies"
    );
    assert_eq!(rig.sleep(), 4, "(10 + 2) / 3");
    rig.time_out();
    assert_eq!(rig.sleep(), 4);

    // CPUs other than 0 and 1 are idle from now on: they do not matter here.
    [2, 3].into_iter().for_each(|cpu| rig.idle(cpu));
    rig.request(0);
    [0, 1].into_iter().for_each(|cpu| rig.report(cpu));
    rig.w.events.clear();
    let before = rig.w.jiffies;
    rig.time_out();
    // The first grace period is over and the next has scanned twice, all at one jiffy.
    assert_eq!(rig.w.records.len(), 1);
    assert!(rig.rcu.gp_in_progress());
    assert_eq!(rig.count("fqsstart"), 2 + 1, "one in the old, two in the new");
    assert_eq!(rig.w.jiffies, before + 4);
    assert_eq!(rig.sleep(), 4);
}

/// The other end of it: the bit goes when a call finds the queue short, the haste one scan later.
#[test]
fn the_haste_of_an_overload_ends_one_scan_after_it() {
    let rcu = rcu(|tun| tun.qovld = 8);
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 9);
    rig.begin();
    // In force since the grace period before? Its one scan only collected it: the first wait is whole.
    let mut batch = rig.core(1).expect("nine are ready");
    assert_eq!(drain(&mut batch, idle_irq(1), false, &mut rig.w).len(), 9);
    batch.finish(idle_irq(1), false, &mut rig.w);
    assert_eq!(rig.sleep(), 10);
    rig.time_out();
    assert_eq!(rig.sleep(), 4, "the bit is still set, and in force");
    rig.call(1, 1);
    rig.time_out();
    assert_eq!(rig.sleep(), 4, "this scan does not see it any more");
    rig.time_out();
    assert_eq!(rig.sleep(), 10);
}

/// Clean-up looks again at each CPU that is marked: one whose queue is short by now loses its bit, though
/// it calls nothing itself.
#[test]
fn cleanup_takes_back_the_mark_of_a_short_queue() {
    let rcu = rcu(|tun| tun.qovld = 8);
    let mut rig = Rig::new(&rcu);
    rig.ripen(1, 9);
    rig.begin();
    let mut batch = rig.core(1).expect("nine are ready");
    assert_eq!(drain(&mut batch, idle_irq(1), false, &mut rig.w).len(), 9);
    batch.finish(idle_irq(1), false, &mut rig.w);
    // This one's scan still sees the bit. It is in force at the next one's first scan, which sees none,
    // so that the second, also at once, ends the haste.
    rig.finish();
    rig.w.events.clear();
    rig.begin();
    assert_eq!(rig.count("fqsstart"), 2);
    assert_eq!(rig.sleep(), 10);
}

/// A sleep that is over by its clock and with the tree empty ends the grace period without a scan.
#[test]
fn an_empty_tree_ends_the_grace_period_without_a_scan() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.begin();
    let wakes = rig.w.wakes;
    [0, 1, 2].into_iter().for_each(|cpu| rig.report(cpu));
    assert_eq!(rig.w.wakes, wakes);
    rig.report(3);
    assert_eq!(
        rig.w.wakes,
        wakes + 1,
        "whoever empties the root wakes the kthread"
    );
    let wait = rig.step(GpResume::Run);
    assert_eq!(wait, GpWait::Yield);
    rig.run();
    assert!(rig.asleep_for_request());
    assert_eq!(rig.count("fqsstart"), 0);
    assert_eq!(rig.w.jiffies, GP_START);
}
