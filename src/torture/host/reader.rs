//! Readers, and readers that exit.

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::error::Result;
use crate::sync::Ordering::Relaxed;
use crate::torture::pass::{Delay, Pass, RCU_1, RCU_2, SHORT_NS};
use crate::torture::random::Random;
use std::sync::Arc;

/// A reader that runs this long sleeps for a moment, ns: about every 10 jiffies.
const RUN_NS: u64 = 10_000_000;
/// Passes between two looks at the clock and the flags.
const PASSES: u32 = 16;

pub(super) fn reader<S: Subject>(rig: &Arc<Rig<S>>, index: usize, random: &mut Random) -> Result<()> {
    let mut session = rig.register(random.bits())?;
    let mut shuffled = rig.now_ns();
    let mut slept = shuffled;
    while rig.pause_point(&mut session) {
        let now = rig.now_ns();
        if rig.plan.shuffle_ns > 0 && now - shuffled > rig.plan.shuffle_ns {
            // To another CPU: leave here, register there.
            shuffled = now;
            drop(session);
            session = rig.register(random.bits())?;
        }
        if rig.plan.idle_ns > 0 {
            rig.rest(&mut session, random.below(rig.plan.idle_ns));
        } else if now - slept > RUN_NS {
            rig.rest(&mut session, 1_000 + random.below(1_000_000));
            slept = rig.now_ns();
        }
        let passes = if rig.plan.idle_ns > 0 { 1 } else { PASSES };
        for _ in 0..passes {
            let long = is_long_due(rig);
            let pass = Pass::draw(random, &rig.plan.odds, long);
            one_pass(rig, &session, index, &pass, random);
            session.quiescent();
        }
    }
    Ok(())
}

/// One reader at a time takes the long delay that is due.
fn is_long_due<S: Subject>(rig: &Rig<S>) -> bool {
    let due = rig.next_long_ns.load(Relaxed);
    if rig.plan.long_every_ns == 0 || rig.flood.load(Relaxed) {
        return false;
    }
    let now = rig.now_ns();
    now >= due
        && rig
            .next_long_ns
            .compare_exchange(due, now + rig.plan.long_every_ns, Relaxed, Relaxed)
            .is_ok()
}

/// One section: the extents of its segments overlap, so that it is never open to the outside.
fn one_pass<S: Subject>(rig: &Rig<S>, session: &S::Session, index: usize, pass: &Pass, random: &mut Random) {
    let (mut first, mut second) = (None, None);
    let mut visit = None;
    for (number, segment) in pass.segments().iter().enumerate() {
        // Enter what is new before leaving what is old.
        if segment.held & RCU_1 != 0 && first.is_none() {
            first = Some(session.read_lock());
        }
        if segment.held & RCU_2 != 0 && second.is_none() {
            second = Some(session.read_lock());
        }
        if segment.held & RCU_1 == 0 {
            first = None;
        }
        if segment.held & RCU_2 == 0 {
            second = None;
        }
        if number == 0 {
            visit = rig.ledger.enter(index, rig.subject.gp_seq(), random);
        }
        match segment.delay {
            Delay::None => {}
            Delay::Short => rig.spin(SHORT_NS),
            Delay::Yield => std::thread::yield_now(),
            // Asleep half of the time: preempted for long, as far as the engine can tell.
            Delay::Long if random.one_in(2) => {
                rig.nap(rig.plan.long_ns);
            }
            Delay::Long => rig.spin(rig.plan.long_ns),
        }
    }
    if let Some(visit) = visit {
        rig.ledger.leave(visit, rig.subject.gp_seq(), pass);
    }
    drop((first, second));
}

/// Bursts of threads that register, read once, and exit.
pub(super) fn read_exit<S: Subject>(rig: &Arc<Rig<S>>, random: &mut Random) -> Result<()> {
    while rig.stutter() && rig.nap(rig.plan.read_exit_ns) {
        for _ in 0..rig.plan.read_exit_burst {
            if rig.stopped() {
                break;
            }
            let mut own = Random::new(random.bits(), 0);
            let child = rig.clone();
            let done = std::thread::Builder::new()
                .name("rcu_torture_read_exit_child".chars().take(15).collect())
                .spawn(move || -> Result<()> {
                    let session = child.register(own.bits())?;
                    let section = session.read_lock();
                    child.spin(own.below(SHORT_NS));
                    drop(section);
                    // Straight out: the registration ends with the thread.
                    Ok(())
                })
                .map(std::thread::JoinHandle::join);
            match done {
                Ok(Ok(Ok(()))) => {
                    rig.ledger.read_exits.fetch_add(1, Relaxed);
                }
                Ok(Ok(Err(error))) => rig.ledger.warn(|| format!("read-exit: {error}")),
                Ok(Err(_)) => rig.ledger.warn(|| "read-exit: a reader panicked".to_owned()),
                Err(error) => rig.ledger.warn(|| format!("read-exit: no thread: {error}")),
            }
        }
    }
    Ok(())
}
