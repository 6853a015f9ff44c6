//! Waiting for a grace period by each of the kinds, step by step.

use crate::sim::guest::{Hands, Step};
use crate::torture::kind::GpKind;
use crate::torture::random::Random;
use crate::tree::FullCookie;

/// Longest wait between a cookie and its use, ns: 16 jiffies of 1 ms, or 128 us where it is expedited.
fn most(kind: GpKind) -> u64 {
    if kind.is_expedited() { 128_000 } else { 16_000_000 }
}

fn wait(kind: GpKind, hands: &mut dyn Hands) {
    if kind.is_expedited() {
        hands.synchronize_expedited();
    } else {
        hands.synchronize();
    }
}

#[derive(Debug, Clone, Copy)]
enum Cookie {
    Plain(u64),
    Full(FullCookie),
}

impl Cookie {
    fn is_done(self, hands: &mut dyn Hands) -> bool {
        match self {
            Cookie::Plain(cookie) => hands.poll_state(cookie),
            Cookie::Full(cookie) => hands.poll_state_full(cookie),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Some time passes with the cookie in hand.
    Cond(Cookie),
    /// Looks again and again.
    Poll(Cookie),
    /// In `synchronize_rcu()`.
    Sync,
}

/// A wait in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub kind: GpKind,
    state: State,
}

impl Waiting {
    /// Begins to wait.
    pub(super) fn begin(kind: GpKind, hands: &mut dyn Hands, random: &mut Random) -> (Waiting, Step) {
        let state = match kind {
            GpKind::Sync | GpKind::ExpSync => {
                wait(kind, hands);
                State::Sync
            }
            GpKind::CondGet | GpKind::CondGetExp => State::Cond(Cookie::Plain(hands.get_state())),
            GpKind::CondGetFull | GpKind::CondGetExpFull => State::Cond(Cookie::Full(hands.get_state_full())),
            GpKind::PollGet => State::Poll(Cookie::Plain(hands.start_poll())),
            GpKind::PollGetFull => State::Poll(Cookie::Full(hands.start_poll_full())),
            GpKind::DefFree => unreachable!("a callback is not waited for"),
            GpKind::PollGetExp | GpKind::PollGetExpFull => unreachable!("left out by the plan"),
        };
        let step = match state {
            State::Sync => Step::Wait,
            _ => Step::Sleep(random.below(most(kind))),
        };
        (Waiting { kind, state }, step)
    }

    /// Asked again. `None`: the grace period is over.
    pub(super) fn go_on(&mut self, hands: &mut dyn Hands, random: &mut Random) -> Option<Step> {
        match self.state {
            State::Cond(cookie) if cookie.is_done(hands) => None,
            State::Cond(_) => {
                wait(self.kind, hands);
                self.state = State::Sync;
                Some(Step::Wait)
            }
            State::Poll(cookie) if cookie.is_done(hands) => None,
            State::Poll(_) => Some(Step::Sleep(random.below(most(self.kind)))),
            State::Sync if hands.take_released() => None,
            State::Sync => Some(Step::Wait),
        }
    }
}
