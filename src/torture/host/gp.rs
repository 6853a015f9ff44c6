//! Waiting for a grace period by each of the kinds.

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::torture::kind::GpKind;
use crate::torture::random::Random;

/// Longest wait between a cookie and its use: 16 jiffies of 1 ms, or 128 us where it is expedited.
const NORMAL_NS: u64 = 16_000_000;
const EXPEDITED_NS: u64 = 128_000;

impl<S: Subject> Rig<S> {
    /// Waits for one grace period of this kind (not [`GpKind::DefFree`]). False: it was not waited for.
    pub(super) fn grace_period(
        &self,
        who: &str,
        session: &mut S::Session,
        kind: GpKind,
        random: &mut Random,
    ) -> bool {
        let expedited = kind.is_expedited();
        let most = if expedited { EXPEDITED_NS } else { NORMAL_NS };
        match kind {
            GpKind::DefFree => unreachable!("a callback is not waited for"),
            GpKind::ExpSync | GpKind::Sync => self.wait(who, session, expedited),
            GpKind::CondGet | GpKind::CondGetExp => {
                let cookie = self.subject.get_state();
                self.rest(session, random.below(most))
                    && (self.subject.poll_state(cookie) || self.wait(who, session, expedited))
            }
            GpKind::CondGetFull | GpKind::CondGetExpFull => {
                let cookie = self.subject.get_state_full();
                self.rest(session, random.below(most))
                    && (self.subject.poll_state_full(cookie) || self.wait(who, session, expedited))
            }
            GpKind::PollGet | GpKind::PollGetExp => {
                let cookie = session.start_poll();
                self.poll(who, session, cookie, most, random, |cookie| {
                    self.subject.poll_state(cookie)
                })
            }
            GpKind::PollGetFull | GpKind::PollGetExpFull => {
                let cookie = session.start_poll_full();
                self.poll(who, session, cookie, most, random, |cookie| {
                    self.subject.poll_state_full(cookie)
                })
            }
        }
    }

    fn poll<T: Copy>(
        &self,
        who: &str,
        session: &mut S::Session,
        cookie: crate::error::Result<T>,
        most: u64,
        random: &mut Random,
        done: impl Fn(T) -> bool,
    ) -> bool {
        let cookie = match cookie {
            Ok(cookie) => cookie,
            Err(error) => return self.waited(who, Err(error)),
        };
        while !done(cookie) {
            if !self.rest(session, random.below(most)) {
                return false;
            }
        }
        true
    }
}
