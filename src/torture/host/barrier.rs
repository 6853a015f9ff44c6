//! The barrier test: a few threads post one callback each, on their own CPUs; then a barrier has to
//! return after all of them.

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::error::Result;
use crate::sync::{AtomicU64, Ordering::*};
use crate::torture::random::Random;
use std::sync::Arc;

/// Between the thread that calls the barrier and those that post.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Number of the round in which everybody posts.
    round: AtomicU64,
    /// Callbacks posted in all.
    posted: AtomicU64,
    /// Callbacks invoked in all.
    invoked: AtomicU64,
}

/// How often it is looked whether everybody has posted.
const LOOK_NS: u64 = 200_000;

pub(super) fn poster<S: Subject>(rig: &Arc<Rig<S>>, rounds: &Arc<Rounds>, random: &mut Random) -> Result<()> {
    let mut session = rig.register(random.bits())?;
    let mut done = 0;
    while !rig.stopped() {
        if rounds.round.load(Acquire) == done {
            rig.rest(&mut session, LOOK_NS);
            continue;
        }
        done += 1;
        let invoked = rounds.clone();
        let outcome = session.call(Box::new(move || {
            invoked.invoked.fetch_add(1, Release);
        }));
        match outcome {
            Ok(()) => rounds.posted.fetch_add(1, Release),
            Err(error) => {
                rig.ledger.warn(|| format!("barrier test's call_rcu: {error}"));
                return Ok(());
            }
        };
    }
    Ok(())
}

pub(super) fn barrier<S: Subject>(
    rig: &Arc<Rig<S>>,
    rounds: &Arc<Rounds>,
    random: &mut Random,
) -> Result<()> {
    let mut session = rig.register(random.bits())?;
    let mut expected = 0;
    while rig.pause_point(&mut session) && rig.rest(&mut session, rig.plan.barrier_every_ns) {
        rounds.round.fetch_add(1, Release);
        expected += u64::from(rig.plan.barrier_cbs);
        while rounds.posted.load(Acquire) < expected {
            if !rig.rest(&mut session, LOOK_NS) {
                return Ok(());
            }
        }
        let outcome = session.barrier(&rig.stop);
        if !rig.waited("barrier test", outcome) {
            continue;
        }
        let complete = rounds.invoked.load(Acquire) == expected;
        let mut test = rig.ledger.barrier.lock();
        test.attempts += 1;
        if complete {
            test.successes += 1;
        } else {
            test.errors += 1;
        }
    }
    Ok(())
}
