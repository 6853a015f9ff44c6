//! The writer: publishes new elements, takes the old ones away, and waits for grace periods by every
//! kind in turn. And the fake writers, which only wait.

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::sync::Ordering::Relaxed;
use crate::torture::cookies::{BeforeGp, MAX_FULL, MAX_PLAIN, Pending};
use crate::torture::kind::GpKind;
use crate::torture::pipe::Id;
use crate::torture::random::Random;
use std::sync::Arc;

/// States besides those of the kinds, before them.
const STATES: [&str; 4] = ["RTWS_FIXED_DELAY", "RTWS_DELAY", "RTWS_REPLACE", "RTWS_STOPPING"];
const FIXED_DELAY: u32 = 0;
const DELAY: u32 = 1;
const REPLACE: u32 = 2;
const STOPPING: u32 = 3;

/// The name of a state.
pub(super) fn state_name(state: u32) -> &'static str {
    match STATES.get(state as usize) {
        Some(name) => name,
        None => GpKind::ALL[state as usize - STATES.len()].state(),
    }
}

fn state_of(kind: GpKind) -> u32 {
    (STATES.len() + kind.index()) as u32
}

/// Number of the writer among the updaters; fake writers follow.
const WRITER: usize = 0;

pub(super) fn writer<S: Subject>(rig: &Arc<Rig<S>>, random: &mut Random) -> crate::error::Result<()> {
    let mut session = rig.register(random.bits())?;
    let mut plain = Pending::default();
    let mut full = Pending::default();
    let mut last = None;
    let enter = |state| rig.writer_state.store(state, Relaxed);
    loop {
        enter(FIXED_DELAY);
        if !rig.pause_point(&mut session) || !rig.rest(&mut session, 500_000 + random.below(1_000)) {
            break;
        }
        let Some(id) = rig.ledger.pipe.take() else {
            // The pool is empty: what was removed may get on by our own grace periods only.
            wait_and_age(rig, &mut session, GpKind::Sync, random, &mut last);
            continue;
        };
        enter(DELAY);
        rig.spin(random.below(1_024) * 1_000);
        enter(REPLACE);
        let Some(old) = rig.ledger.pipe.publish(id) else {
            continue;
        };
        check_pending(rig, &mut plain, &mut full);
        check_own_section(rig, &session);
        let kind = random.pick(&rig.plan.kinds);
        enter(state_of(kind));
        if kind == GpKind::DefFree {
            let again = rig.clone();
            if let Err(error) = session.call(Box::new(move || age_by_callback(&again, old))) {
                rig.ledger.warn(|| format!("call_rcu: {error}"));
            }
            rig.ledger.count_kind(kind);
        } else {
            rig.ledger.pipe.remove(old);
            wait_and_age(rig, &mut session, kind, random, &mut last);
        }
        session.quiescent();
    }
    enter(STOPPING);
    Ok(())
}

/// A callback of a removed element: on by one stage, and again until it is through.
fn age_by_callback<S: Subject>(rig: &Arc<Rig<S>>, id: Id) {
    // At the end of the test the elements stay where they are.
    if rig.stopped() || rig.ledger.pipe.age(id) {
        return;
    }
    let again = rig.clone();
    if let Err(error) = rig
        .subject
        .call_again(Box::new(move || age_by_callback(&again, id)))
        && !rig.stopped()
    {
        rig.ledger.warn(|| format!("call_rcu from a callback: {error}"));
    }
}

fn wait_and_age<S: Subject>(
    rig: &Rig<S>,
    session: &mut S::Session,
    kind: GpKind,
    random: &mut Random,
    last: &mut Option<u64>,
) {
    let subject = &rig.subject;
    let before = BeforeGp::new(subject.get_state(), subject.get_state_full(), last.take());
    let letter = rig.ledger.before_gp(WRITER);
    if !rig.grace_period("writer", session, kind, random) {
        return;
    }
    rig.ledger.after_gp(letter, kind);
    rig.ledger.pipe.age_removed();
    let (late, plain) = before.after(
        |cookie| subject.poll_state(cookie),
        |cookie| subject.poll_state_full(cookie),
    );
    // Only a synchronous grace period is known to be a whole one: polling may have been satisfied by one
    // that overlapped.
    if matches!(kind, GpKind::Sync | GpKind::ExpSync) {
        for late in late {
            rig.ledger.warn(|| format!("{} ({})", late.0, kind.name()));
        }
        *last = Some(plain);
    }
}

/// Few distinct cookies are pending at a time.
fn check_pending<S: Subject>(
    rig: &Rig<S>,
    plain: &mut Pending<u64>,
    full: &mut Pending<<S::Session as Session>::Full>,
) {
    let subject = &rig.subject;
    let pending = plain.add(subject.get_state(), |&cookie| subject.poll_state(cookie));
    if pending > MAX_PLAIN {
        rig.ledger
            .warn(|| format!("{pending} distinct cookies are pending, more than {MAX_PLAIN}"));
    }
    let pending = full.add(subject.get_state_full(), |&cookie| {
        subject.poll_state_full(cookie)
    });
    if pending > MAX_FULL {
        rig.ledger
            .warn(|| format!("{pending} distinct full cookies are pending, more than {MAX_FULL}"));
    }
}

/// A cookie taken inside a section of one's own is not done there.
fn check_own_section<S: Subject>(rig: &Rig<S>, session: &S::Session) {
    let _section = session.read_lock();
    let subject = &rig.subject;
    if subject.poll_state(subject.get_state()) {
        rig.ledger
            .warn(|| "a cookie is done inside the section that took it".to_owned());
    }
    if subject.poll_state_full(subject.get_state_full()) {
        rig.ledger
            .warn(|| "a full cookie is done inside the section that took it".to_owned());
    }
}

pub(super) fn fake_writer<S: Subject>(
    rig: &Arc<Rig<S>>,
    index: usize,
    random: &mut Random,
) -> crate::error::Result<()> {
    let mut session = rig.register(random.bits())?;
    // A callback is nothing to wait for.
    let kinds: Vec<GpKind> = rig
        .plan
        .kinds
        .iter()
        .copied()
        .filter(|&kind| kind != GpKind::DefFree)
        .collect();
    let kinds = if kinds.is_empty() {
        vec![GpKind::Sync]
    } else {
        kinds
    };
    while rig.pause_point(&mut session) && rig.rest(&mut session, 1 + random.below(10 * rig.plan.jiffy_ns()))
    {
        if random.one_in(8 * u64::from(rig.plan.fakewriters)) {
            let outcome = session.barrier(&rig.stop);
            rig.waited("fake writer's barrier", outcome);
            continue;
        }
        let kind = random.pick(&kinds);
        let letter = rig.ledger.before_gp(1 + index);
        if rig.grace_period("fake writer", &mut session, kind, random) {
            rig.ledger.after_gp(letter, kind);
        }
        session.quiescent();
    }
    Ok(())
}
