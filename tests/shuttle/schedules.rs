//! What has to hold under every schedule.

use crate::machine::*;
use crate::run::{check, number};

fn everything(preempt: &str, direct: bool, early: bool) {
    let machine = Machine::open(&config(2, preempt, direct, early));
    let users = [
        machine.user(0, read(3)),
        machine.user(1, read(2)),
        machine.user(0, synchronize(2)),
        machine.user(1, callbacks(3)),
    ];
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

pub fn direct() {
    everything("full", true, true);
}

fn by_callback() {
    everything("full", false, false);
}

pub fn non_preemptible() {
    everything("none", true, true);
}

fn non_preemptible_by_callback() {
    everything("none", false, true);
}

fn with_expedited(preempt: &str) {
    let machine = Machine::open(&config(2, preempt, true, true));
    let users = [
        machine.user(0, read(3)),
        machine.user(1, expedited(2)),
        machine.user(0, expedited(1)),
        machine.user(1, synchronize(1)),
        machine.user(0, polls(1)),
    ];
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

pub fn expedited_preemptible() {
    with_expedited("full");
}

pub fn expedited_non_preemptible() {
    with_expedited("none");
}

/// A vCPU with readers and callbacks goes offline, and comes back.
fn with_hotplug(preempt: &str) {
    let machine = Machine::open(&config(2, preempt, true, true));
    let users = [
        machine.user(0, read(4)),
        machine.user(0, callbacks(2)),
        machine.user(1, synchronize(2)),
    ];
    machine.rig.offline(0);
    machine.rig.online(0);
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

pub fn hotplug() {
    with_hotplug("full");
}

/// Threads that rest between their sections, so that passes offer to leave them alone, and passes of every kind.
pub fn offers() {
    let machine = Machine::open(&config(2, "full", true, true));
    let users = [
        machine.user(0, rest_and_read(4)),
        machine.user(1, rest_and_read(3)),
        machine.user(0, expedited(3)),
        machine.user(1, expedited(2)),
        machine.user(0, synchronize(3)),
    ];
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

/// Callers carry the grace periods out.
fn driven(preempt: &str) {
    let machine = Machine::driven(&config(2, preempt, true, true));
    let users = [
        machine.user(0, read(3)),
        machine.user(1, synchronize(2)),
        machine.user(0, synchronize(2)),
        machine.user(1, synchronize(1)),
        machine.user(0, callbacks(2)),
    ];
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

pub fn driven_preemptible() {
    driven("full");
}

fn driven_non_preemptible() {
    driven("none");
}

/// A flood: more callers than the kthread wakes itself.
pub fn flood() {
    let machine = Machine::open(&config(2, "full", true, true));
    let mut users: Vec<_> = (0..8)
        .map(|task| machine.user(task % 2, synchronize(2)))
        .collect();
    users.push(machine.user(0, read(2)));
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

/// Callers that come in the middle of a grace period, and sections that this one does not wait for.
pub fn late_callers() {
    let machine = Machine::open(&config(2, "full", true, true));
    let users = [
        machine.user(0, read_long(3)),
        machine.user(1, read_long(3)),
        machine.user(0, synchronize(3)),
        machine.user(1, synchronize(3)),
    ];
    for user in users {
        user.join().unwrap();
    }
    machine.close();
}

#[test]
fn callers_that_come_late() {
    check(number(2000), late_callers);
}

#[test]
fn offers_to_threads_that_rest() {
    check(number(2000), offers);
}

#[test]
fn callers_that_drive() {
    check(number(2000), driven_preemptible);
}

#[test]
fn callers_that_drive_and_non_preemptible_readers() {
    check(number(2000), driven_non_preemptible);
}

#[test]
fn waits_callbacks_and_barriers_by_direct_wake() {
    check(number(2000), direct);
}

#[test]
fn waits_callbacks_and_barriers_by_callback() {
    check(number(2000), by_callback);
}

#[test]
fn non_preemptible_readers_answer() {
    check(number(2000), non_preemptible);
}

#[test]
fn non_preemptible_readers_answer_callers_by_callback() {
    check(number(2000), non_preemptible_by_callback);
}

#[test]
fn expedited_callers_among_others() {
    check(number(2000), expedited_preemptible);
}

#[test]
fn expedited_callers_and_non_preemptible_readers() {
    check(number(2000), expedited_non_preemptible);
}

#[test]
fn a_cpu_goes_offline_and_comes_back() {
    check(number(2000), hotplug);
}

#[test]
fn a_flood_of_callers() {
    check(number(2000), flood);
}
