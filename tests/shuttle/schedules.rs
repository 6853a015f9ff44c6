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

#[test]
fn waits_callbacks_and_barriers_by_direct_wake() {
    check(number(300), direct);
}

#[test]
fn waits_callbacks_and_barriers_by_callback() {
    check(number(300), by_callback);
}

#[test]
fn non_preemptible_readers_answer() {
    check(number(300), non_preemptible);
}

#[test]
fn non_preemptible_readers_answer_callers_by_callback() {
    check(number(200), non_preemptible_by_callback);
}

#[test]
fn expedited_callers_among_others() {
    check(number(300), expedited_preemptible);
}

#[test]
fn expedited_callers_and_non_preemptible_readers() {
    check(number(300), expedited_non_preemptible);
}

#[test]
fn a_cpu_goes_offline_and_comes_back() {
    check(number(200), hotplug);
}

#[test]
fn a_flood_of_callers() {
    check(number(200), flood);
}
