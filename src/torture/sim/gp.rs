//! Waiting for a grace period by each of the kinds, step by step.

use crate::sim::guest::{Hands, Step};
use crate::torture::kind::GpKind;
use crate::torture::random::Random;
use crate::tree::FullCookie;

/// Longest wait between a cookie and its use, ns: 16 jiffies of 1 ms.
const MOST_NS: u64 = 16_000_000;

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
            GpKind::Sync => {
                hands.synchronize();
                State::Sync
            }
            GpKind::CondGet => State::Cond(Cookie::Plain(hands.get_state())),
            GpKind::CondGetFull => State::Cond(Cookie::Full(hands.get_state_full())),
            GpKind::PollGet => State::Poll(Cookie::Plain(hands.start_poll())),
            GpKind::PollGetFull => State::Poll(Cookie::Full(hands.start_poll_full())),
            GpKind::DefFree => unreachable!("a callback is not waited for"),
            GpKind::ExpSync
            | GpKind::CondGetExp
            | GpKind::CondGetExpFull
            | GpKind::PollGetExp
            | GpKind::PollGetExpFull => unreachable!("left out by the plan"),
        };
        let step = match state {
            State::Sync => Step::Wait,
            _ => Step::Sleep(random.below(MOST_NS)),
        };
        (Waiting { kind, state }, step)
    }

    /// Asked again. `None`: the grace period is over.
    pub(super) fn go_on(&mut self, hands: &mut dyn Hands, random: &mut Random) -> Option<Step> {
        match self.state {
            State::Cond(cookie) if cookie.is_done(hands) => None,
            State::Cond(_) => {
                hands.synchronize();
                self.state = State::Sync;
                Some(Step::Wait)
            }
            State::Poll(cookie) if cookie.is_done(hands) => None,
            State::Poll(_) => Some(Step::Sleep(random.below(MOST_NS))),
            State::Sync if hands.take_released() => None,
            State::Sync => Some(Step::Wait),
        }
    }
}
