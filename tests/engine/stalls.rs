//! Stall reports: who makes them, when, and whom they name. HZ=1000, timeout 21 s.

use crate::rig::{Rig, irq, rcu, task};
use treercu::trace::Event;
use treercu::tree::waiters::Waiter;
use treercu::tree::world::TickHit;
use treercu::tree::{ExpStep, Reader, StallReport};

fn warnings(rig: &Rig<'_>) -> Vec<&'static str> {
    let warning = |event: &Event| match event {
        Event::StallWarning(what) => Some(*what),
        _ => None,
    };
    rig.w.events.iter().filter_map(warning).collect()
}

/// A CPU that owes reports itself at the timeout; another one two jiffies later. Reports repeat every three
/// timeouts and three jiffies, whoever ticks, once.
#[test]
fn a_busy_cpu_is_named_by_its_own_tick_or_later_by_another() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.begin();
    (1..3).for_each(|cpu| rig.report(cpu));
    let started = rig.w.jiffies;
    for (after, cpu, reports) in [
        (20_999, 3, 0),
        // CPU 1 has reported: it is one of the others.
        (21_000, 1, 0),
        (21_001, 1, 0),
        (21_002, 1, 1),
        (21_002, 3, 1),
        (21_002 + 63_002, 3, 1),
        (21_002 + 63_003, 3, 2),
        (21_002 + 63_003, 0, 2),
        (21_002 + 2 * 63_003 + 1, 1, 2),
        (21_002 + 2 * 63_003 + 2, 1, 3),
    ] {
        rig.w.jiffies = started + after;
        rig.tick(cpu, TickHit::KernelSection);
        assert_eq!(rig.w.stalls.len(), reports, "CPU {cpu} at {after}");
    }
    assert_eq!(
        rig.w.stalls[1],
        StallReport {
            expedited: false,
            gp_seq: rcu.gp_seq(),
            waited_jiffies: 21_002 + 63_003,
            cpus: vec![0, 3],
            readers: vec![],
        }
    );
    assert_eq!(warnings(&rig), ["StallDetected", "SelfDetected", "StallDetected"]);
    assert!(
        rig.w.reschedules.contains(&3),
        "who finds itself guilty is asked to give way"
    );
    // The next grace period has its own clock.
    rig.finish();
    assert!(rig.asleep_for_request());
    rig.tick(0, TickHit::KernelSection);
    rig.begin();
    rig.w.jiffies += 20_000;
    rig.tick(0, TickHit::KernelSection);
    assert_eq!(rig.w.stalls.len(), 3);
}

/// On an idle machine nobody ticks: the kthread reports a reader that was preempted and does not run.
#[test]
fn a_blocked_reader_is_named_by_the_kthread() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    let mut reader = Reader::new(42);
    reader.lock();
    rig.switch(1, &mut reader);
    (0..4).for_each(|cpu| rig.idle(cpu));
    rig.begin();
    let started = rig.w.jiffies;
    rig.time_out();
    assert!(rcu.gp_in_progress() && rcu.holdouts().is_empty());
    rig.time_out_at(started + 21_001);
    assert!(rig.w.stalls.is_empty());
    // The kthread looks before a scan, every ten jiffies here.
    rig.time_out_at(started + 21_011);
    rig.time_out_at(started + 21_021);
    assert_eq!(rig.w.stalls.len(), 1);
    let report = &rig.w.stalls[0];
    assert_eq!(
        (report.cpus.as_slice(), report.readers.as_slice()),
        (&[][..], &[42][..])
    );
    assert_eq!(report.waited_jiffies, 21_011);
    rcu.read_unlock(task(1), &mut reader, false, &mut rig.w);
    rig.run();
    assert!(rig.asleep_for_request());
}

/// The driver of an expedited grace period reports when its wait times out, then every three timeouts and
/// three jiffies. A wake-up in between changes nothing.
#[test]
fn an_expedited_wait_is_reported_by_its_driver() {
    let rcu = rcu(|_| ());
    let mut rig = Rig::new(&rcu);
    rig.idle(3);
    let mut blocked = Reader::new(7);
    blocked.lock();
    rig.switch(2, &mut blocked);
    let mut running = Reader::new(8);
    running.lock();
    let mut call = rcu.exp_begin();
    let waiter = Waiter::new(1);
    let mut step = |rig: &mut Rig<'_>, at: u64| {
        rig.w.jiffies = at;
        loop {
            match rcu.exp_step(&mut call, task(0), &waiter, &mut rig.w) {
                ExpStep::Again | ExpStep::Prepare => {}
                other => return other,
            }
        }
    };
    let wait = |jiffies| ExpStep::WaitTimeout { jiffies };
    assert_eq!(step(&mut rig, 5_000), wait(21_000));
    rcu.exp_ipi(irq(1), TickHit::Kernel, Some(&mut running), &mut rig.w);
    assert_eq!(step(&mut rig, 25_999), wait(1));
    assert!(rig.w.stalls.is_empty());
    assert_eq!(step(&mut rig, 26_000), wait(63_003));
    rcu.exp_ipi(irq(2), TickHit::Kernel, None, &mut rig.w);
    assert_eq!(step(&mut rig, 89_002), wait(1));
    assert_eq!(step(&mut rig, 89_003), wait(63_003));
    let report = |waited_jiffies, cpus: &[u32]| StallReport {
        expedited: true,
        gp_seq: 1,
        waited_jiffies,
        cpus: cpus.to_vec(),
        readers: vec![7],
    };
    assert_eq!(rig.w.stalls, [report(21_000, &[1, 2]), report(84_003, &[1])]);
    assert_eq!(warnings(&rig), ["ExpeditedStall"; 2]);
    rcu.read_unlock(task(1), &mut running, false, &mut rig.w);
    rcu.read_unlock(task(2), &mut blocked, false, &mut rig.w);
    assert_eq!(step(&mut rig, 90_000), ExpStep::Done);
}

#[test]
fn a_report_is_one_line() {
    let report = |expedited, cpus: &[u32], readers: &[u64]| {
        StallReport {
            expedited,
            gp_seq: 1u64.wrapping_sub(1200),
            waited_jiffies: 5250,
            cpus: cpus.to_vec(),
            readers: readers.to_vec(),
        }
        .to_string()
    };
    assert_eq!(
        report(false, &[0, 1, 2, 7], &[12]),
        "rcu: stall: grace period -1199 has waited 5250 jiffies for CPUs 0-2, 7 and blocked reader 12"
    );
    assert_eq!(
        report(true, &[], &[3, 4]),
        "rcu: stall: expedited grace period -1199 has waited 5250 jiffies for blocked readers 3, 4"
    );
    assert_eq!(
        report(false, &[5], &[]),
        "rcu: stall: grace period -1199 has waited 5250 jiffies for CPU 5"
    );
    assert_eq!(
        report(false, &[], &[]),
        "rcu: stall: grace period -1199 has waited 5250 jiffies for nobody; its kthread has not been able to end it"
    );
}
