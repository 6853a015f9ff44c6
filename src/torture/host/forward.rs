//! The forward-progress test: grace periods must get on although a reader is always there (`nr`), and
//! although one CPU posts callbacks as fast as it can (`cr`).

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering::*};
use crate::torture::ledger::gps_between;
use crate::torture::random::Random;
use std::sync::Arc;

/// A section of the `nr` loop.
const SECTION_NS: u64 = 10_000;
/// A flood is long enough when so many callbacks …
const MIN_LAUNDERED: u64 = 100;
/// … went through so many grace periods.
const MIN_LAUNDER: u64 = 3;
/// Callbacks of a flood that may be pending at once: memory is finite.
const MAX_PENDING: u64 = 50_000;

pub(super) fn forward<S: Subject>(rig: &Arc<Rig<S>>, index: usize, random: &mut Random) -> Result<()> {
    let mut session = rig.register(random.bits())?;
    while rig.pause_point(&mut session) && rig.rest(&mut session, rig.plan.fwd_holdoff_ns) {
        need_resched_loop(rig, &mut session, random);
        // One flood at a time is enough.
        if index == 0 && rig.rest(&mut session, 1_000_000) {
            callback_flood(rig, &mut session);
        }
    }
    Ok(())
}

/// A callback that posts itself until its flag falls, so that a grace period is always wanted.
fn repost<S: Subject>(rig: &Arc<Rig<S>>, on: &Arc<AtomicBool>) {
    if !on.load(Relaxed) || rig.stopped() {
        return;
    }
    let (again, flag) = (rig.clone(), on.clone());
    // A refusal ends the chain; the writer reports refusals.
    let _ = rig.subject.call_again(Box::new(move || repost(&again, &flag)));
}

fn need_resched_loop<S: Subject>(rig: &Arc<Rig<S>>, session: &mut S::Session, random: &mut Random) {
    let on = Arc::new(AtomicBool::new(true));
    let (again, flag) = (rig.clone(), on.clone());
    if let Err(error) = session.call(Box::new(move || repost(&again, &flag))) {
        return rig.ledger.warn(|| format!("forward progress: {error}"));
    }
    let most = rig.plan.fwd_round_ns;
    let (version, gp_seq) = (rig.ledger.pipe.version(), rig.subject.gp_seq());
    let until = rig.now_ns() + most / 4 + random.below(most - most / 4);
    let got_on = || rig.ledger.pipe.version() != version || gps_between(gp_seq, rig.subject.gp_seq()) >= 2;
    let patience = until + rig.plan.fwd_patience_ns;
    while !rig.stopped() {
        let now = rig.now_ns();
        if now >= until && (now >= patience || got_on()) {
            break;
        }
        let section = session.read_lock();
        rig.spin(SECTION_NS);
        drop(section);
        session.quiescent();
    }
    on.store(false, Relaxed);
    if rig.stopped() {
        return;
    }
    let got_on = got_on();
    let mut test = rig.ledger.forward.lock();
    test.nr_rounds += 1;
    if !got_on {
        test.nr_failures += 1;
        drop(test);
        rig.ledger.warn(|| {
            format!(
                "no forward progress in {} ms beside a reader that is always there",
                rig.plan.fwd_patience_ns / 1_000_000
            )
        });
    }
}

/// Callbacks that came out of their grace period, ready to be posted again: how often each did.
#[derive(Debug, Default)]
struct Laundry {
    back: Mutex<Vec<u64>>,
    invoked: AtomicU64,
}

fn post<S: Session>(session: &S, laundry: &Arc<Laundry>, rounds: u64) -> Result<()> {
    let laundry = laundry.clone();
    session.call(Box::new(move || {
        laundry.invoked.fetch_add(1, Relaxed);
        laundry.back.lock().push(rounds + 1);
    }))
}

fn callback_flood<S: Subject>(rig: &Arc<Rig<S>>, session: &mut S::Session) {
    rig.flood.store(true, Relaxed);
    let laundry = Arc::new(Laundry::default());
    let gp_seq = rig.subject.gp_seq();
    let began = rig.now_ns();
    let (mut posted, mut max_queued, mut laundered) = (0u64, 0u64, 0u64);
    let mut failed = None;
    while rig.now_ns() - began < rig.plan.fwd_flood_ns && laundered < MIN_LAUNDERED && !rig.stopped() {
        let back = std::mem::take(&mut *laundry.back.lock());
        laundered += back.iter().filter(|&&rounds| rounds >= MIN_LAUNDER).count() as u64;
        let pending = posted - laundry.invoked.load(Relaxed);
        max_queued = max_queued.max(pending);
        let fresh = std::iter::repeat_n(0, if pending < MAX_PENDING { 32 } else { 0 });
        for rounds in back.into_iter().chain(fresh) {
            if let Err(error) = post(&*session, &laundry, rounds) {
                failed = Some(error);
                break;
            }
            posted += 1;
        }
        session.quiescent();
        if let Some(error) = &failed {
            rig.ledger.warn(|| format!("callback flood: {error}"));
            break;
        }
        if pending >= MAX_PENDING && !rig.rest(session, 1_000_000) {
            break;
        }
    }
    let took_ms = (rig.now_ns() - began) / 1_000_000;
    // What is still queued belongs to nobody and is waited for here, so that the next flood starts clean.
    let outcome = session.barrier(&rig.stop);
    rig.waited("callback flood's barrier", outcome);
    rig.flood.store(false, Relaxed);
    if rig.stopped() || failed.is_some() {
        return;
    }
    let mut test = rig.ledger.forward.lock();
    test.cr_rounds += 1;
    test.cr_invoked += laundry.invoked.load(Relaxed);
    test.cr_max_queued = test.cr_max_queued.max(max_queued);
    test.cr_gps += gps_between(gp_seq, rig.subject.gp_seq());
    if laundered < MIN_LAUNDERED {
        test.cr_failures += 1;
        drop(test);
        rig.ledger.warn(|| {
            format!(
                "callback flood: {laundered} of {MIN_LAUNDERED} callbacks went through {MIN_LAUNDER} grace \
                 periods in {took_ms} ms"
            )
        });
    }
}
