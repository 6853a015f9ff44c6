//! Tasks that wait for grace periods.

use super::{MAX_CALLS, MAX_TASKS, Placement, check_duration, check_placement, check_range};
use crate::config::Tunables;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How a task waits for a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncCallKind {
    /// `synchronize_rcu()`.
    Sync,
    /// `start_poll_synchronize_rcu()`, then `poll_state_synchronize_rcu()` once a jiffy.
    Poll,
    /// The same with full cookies.
    PollFull,
    /// `rcu_barrier()`.
    Barrier,
    /// `synchronize_rcu_expedited()`.
    Expedited,
}

impl SyncCallKind {
    /// Names and values.
    pub const ALL: [(&'static str, SyncCallKind); 5] = [
        ("sync", SyncCallKind::Sync),
        ("poll", SyncCallKind::Poll),
        ("poll-full", SyncCallKind::PollFull),
        ("barrier", SyncCallKind::Barrier),
        ("expedited", SyncCallKind::Expedited),
    ];

    /// What the call comes to under `rcu_expedited` and `rcu_normal`.
    pub fn in_force(self, t: &Tunables) -> SyncCallKind {
        match self {
            SyncCallKind::Sync if t.sync_is_expedited => SyncCallKind::Expedited,
            SyncCallKind::Expedited if t.expedited_is_normal => SyncCallKind::Sync,
            kind => kind,
        }
    }
}

/// Tasks that call `synchronize_rcu()`, or wait for a grace period in another way.
///
/// Closed loop (`interval_ns == 0`): the next call follows the return of the previous one after
/// `think_ns`. Open loop: each task has calls due every `interval_ns`; a call that is due while
/// the previous one still waits is made late, and its latency counts from when it was due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFlood {
    /// Number of tasks, 1 ..= [`MAX_TASKS`].
    pub tasks: u64,
    /// Calls per task; 0: as many as fit into `duration_ns`.
    pub calls: u64,
    /// Virtual time after which no new call is made, in ns; 0: no limit (then `calls` must be given).
    pub duration_ns: u64,
    /// Where the tasks start.
    pub placement: Placement,
    /// Closed loop: sleep between the return of a call and the next one, in ns.
    pub think_ns: u64,
    /// Each task makes its first call at a time drawn uniformly from 0 .. `start_skew_ns`.
    pub start_skew_ns: u64,
    /// Open loop: distance of the due times of one task's calls, in ns; 0: closed loop.
    pub interval_ns: u64,
    /// What each call is.
    pub kind: SyncCallKind,
}

impl Default for SyncFlood {
    fn default() -> Self {
        SyncFlood {
            tasks: 1,
            calls: 100,
            duration_ns: 0,
            placement: Placement::Spread,
            think_ns: 0,
            start_skew_ns: 0,
            interval_ns: 0,
            kind: SyncCallKind::Sync,
        }
    }
}

impl SyncFlood {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        check_range("tasks", self.tasks, 1, MAX_TASKS)?;
        check_range("calls", self.calls, 0, MAX_CALLS)?;
        if self.calls == 0 && self.duration_ns == 0 {
            return Err(Error::config(
                "calls",
                0,
                "neither calls nor a duration is given",
                format!("1 to {MAX_CALLS}, or 0 with duration_ms > 0"),
            ));
        }
        check_duration("duration_ms", self.duration_ns)?;
        check_duration("think_us", self.think_ns)?;
        check_duration("start_skew_us", self.start_skew_ns)?;
        check_duration("interval_us", self.interval_ns)?;
        if self.interval_ns > 0 && self.think_ns > 0 {
            return Err(Error::config(
                "think_us",
                self.think_ns / 1000,
                "an open loop (interval_us > 0) has no think time",
                "0 with interval_us > 0",
            ));
        }
        check_placement(self.placement, nr_online)
    }
}
