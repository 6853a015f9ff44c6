//! Stall reports: a grace period that takes too long is named, with whom it waits for.
//!
//! A normal grace period is looked at by the tick of every CPU and by the grace-period kthread before each
//! of its scans, so that an idle machine reports too; an expedited one by its own driver. Whoever finds
//! `jiffies_stall` passed first reports; the next report follows three timeouts and three jiffies later.

use super::blocked::ReaderId;
use super::rcu::Rcu;
use super::seq;
use super::world::{Ctx, World};
use crate::sync::{Ordering, assert_unlocked};
use crate::trace::Event;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The CPU that is itself waited for reports first; others so many jiffies later.
const OTHERS_LATER: u64 = 2;

/// A grace period that has lasted too long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallReport {
    /// An expedited grace period (else a normal one).
    pub expedited: bool,
    /// Its number while it runs: `expedited_sequence` or `rs.gp_seq`.
    pub gp_seq: u64,
    /// Jiffies since it started (expedited: since it began to wait).
    pub waited_jiffies: u64,
    /// CPUs that owe it a quiescent state.
    pub cpus: Vec<u32>,
    /// Readers that were preempted inside a section which it waits for.
    pub readers: Vec<ReaderId>,
}

/// One line: `rcu: stall: grace period -1195 has waited 5250 jiffies for CPUs 0-2, 7 and blocked reader 12`.
impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.expedited {
            "expedited grace"
        } else {
            "grace"
        };
        write!(
            f,
            "rcu: stall: {kind} period {} has waited {} jiffies for ",
            self.gp_seq as i64, self.waited_jiffies
        )?;
        match (self.cpus.len(), self.readers.len()) {
            (0, 0) => return write!(f, "nobody; its kthread has not been able to end it"),
            (0, _) => {}
            (1, _) => write!(f, "CPU ")?,
            _ => write!(f, "CPUs ")?,
        }
        for (index, run) in self.cpus.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        if self.readers.is_empty() {
            return Ok(());
        }
        let and = if self.cpus.is_empty() { "" } else { " and " };
        let s = if self.readers.len() == 1 { "" } else { "s" };
        write!(f, "{and}blocked reader{s} ")?;
        for (index, reader) in self.readers.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{reader}")?;
        }
        Ok(())
    }
}

impl<C> Rcu<C> {
    /// Timeout of a normal grace period, jiffies.
    pub(super) fn stall_timeout(&self) -> u64 {
        u64::from(self.tun.rcu_cpu_stall_timeout) * u64::from(self.tun.hz)
    }

    /// `check_cpu_stall()`, by a tick (`by_tick`) or by the kthread.
    pub(super) fn check_stall(&self, ctx: Ctx, by_tick: bool, world: &mut impl World) {
        let gp_seq = self.gp_seq();
        if seq::state(gp_seq) == 0 || self.tun.stall_suppress {
            return;
        }
        // Read in this order, and the number again: all three belong to one grace period.
        let stall_at = self.jiffies_stall.load(Ordering::SeqCst);
        let started = self.gp_start_jiffies.load(Ordering::SeqCst);
        let now = world.jiffies();
        if now < stall_at || stall_at < started || self.gp_seq() != gp_seq {
            return;
        }
        let rdp = &self.cpus[ctx.cpu as usize];
        let owes = self.nodes[rdp.leaf].qsmask.load(Ordering::Relaxed) & rdp.grpmask != 0;
        let own = by_tick && owes;
        if !own && now < stall_at + OTHERS_LATER {
            return;
        }
        // One reports; meanwhile the time is out of reach for the others.
        let (seqcst, never) = (Ordering::SeqCst, u64::MAX);
        let elected = self
            .jiffies_stall
            .compare_exchange(stall_at, never, seqcst, seqcst);
        if elected.is_err() {
            return;
        }
        assert_unlocked();
        world.emit(|| Event::StallWarning(if own { "SelfDetected" } else { "StallDetected" }));
        let report = StallReport {
            expedited: false,
            gp_seq,
            waited_jiffies: now - started,
            cpus: self.holdouts(),
            readers: self.blocking_readers(),
        };
        world.stall(&report);
        // The next grace period may have set its own time meanwhile.
        let again = now + 3 * self.stall_timeout() + 3;
        let _ = self.jiffies_stall.compare_exchange(never, again, seqcst, seqcst);
        if own {
            world.resched(ctx.cpu);
        }
    }

    /// The driver of an expedited grace period has waited too long.
    pub(super) fn exp_stall(&self, gp_seq: u64, waited_jiffies: u64, world: &mut impl World) {
        if self.tun.stall_suppress {
            return;
        }
        assert_unlocked();
        world.emit(|| Event::StallWarning("ExpeditedStall"));
        world.stall(&StallReport {
            expedited: true,
            gp_seq,
            waited_jiffies,
            cpus: self.exp_holdouts(),
            readers: self.exp_blocking_readers(),
        });
    }
}
