//! Virtual CPUs that go offline and come back.

use super::rig::Rig;
use super::subject::Subject;
use crate::error::Result;
use crate::torture::random::Random;
use std::sync::Arc;

pub(super) fn onoff<S: Subject>(rig: &Arc<Rig<S>>, random: &mut Random) -> Result<()> {
    let jiffy = rig.plan.jiffy_ns();
    let cpus = rig.plan.config.tunables().maxcpus;
    let mut online = vec![true; cpus as usize];
    if !rig.nap(rig.plan.onoff_holdoff_ns) {
        return Ok(());
    }
    while rig.nap(rig.plan.onoff_every_ns + random.below(jiffy)) {
        let cpu = random.below(u64::from(cpus)) as u32;
        turn(rig, &mut online, cpu);
    }
    // Everybody is online at the end.
    for cpu in 0..cpus {
        if !online[cpu as usize] {
            turn(rig, &mut online, cpu);
        }
    }
    Ok(())
}

/// Offline if it is online and not the last, else online.
fn turn<S: Subject>(rig: &Rig<S>, online: &mut [bool], cpu: u32) {
    let is_online = online[cpu as usize];
    if is_online && online.iter().filter(|&&up| up).count() == 1 {
        return;
    }
    let began = rig.now_ns();
    if is_online {
        // Nobody registers there from now on.
        rig.set_online(cpu, false);
    }
    let outcome = if is_online {
        rig.subject.cpu_offline(cpu)
    } else {
        rig.subject.cpu_online(cpu)
    };
    let jiffies = (rig.now_ns() - began) / rig.plan.jiffy_ns();
    if outcome.is_ok() {
        online[cpu as usize] = !is_online;
    }
    rig.set_online(cpu, online[cpu as usize]);
    let mut counts = rig.ledger.onoff.lock();
    let counts = if is_online { &mut counts.1 } else { &mut counts.0 };
    counts.book(outcome.is_ok(), jiffies);
}
