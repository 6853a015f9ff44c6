//! Tasks that queue callbacks.

use super::{Length, MAX_CALLS, MAX_TASKS, Placement, check_duration, check_placement, check_range};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Tasks that queue callbacks with `call_rcu()` or `call_rcu_hurry()`, in bursts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRcuFlood {
    /// Number of tasks, 1 ..= [`MAX_TASKS`].
    pub tasks: u64,
    /// Callbacks per task; 0: until `duration_ns`, or as long as any other part runs.
    pub callbacks: u64,
    /// Callbacks per burst, 1 to 1,000,000.
    pub burst: u64,
    /// Sleep between two bursts; below 1 µs the task goes on without sleeping.
    pub interval: Length,
    /// How often each callback posts itself again when it is invoked, 0 to 65,535.
    pub repost: u16,
    /// `call_rcu_hurry()` instead of `call_rcu()`. They differ only with lazy callbacks.
    pub hurry: bool,
    /// Where the tasks start.
    pub placement: Placement,
    /// Virtual time after which no new burst begins, in ns; 0: no limit.
    pub duration_ns: u64,
}

impl Default for CallRcuFlood {
    fn default() -> Self {
        CallRcuFlood {
            tasks: 1,
            callbacks: 0,
            burst: 1,
            interval: Length::Fixed(100_000),
            repost: 0,
            hurry: false,
            placement: Placement::Spread,
            duration_ns: 0,
        }
    }
}

impl CallRcuFlood {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        check_range("tasks", self.tasks, 1, MAX_TASKS)?;
        check_range("callbacks", self.callbacks, 0, MAX_CALLS)?;
        check_range("burst", self.burst, 1, 1_000_000)?;
        self.interval.validate("interval_us")?;
        if self.interval.mean() < 100 {
            return Err(Error::config(
                "interval_us",
                self.interval,
                "too short",
                "a mean of at least 0.1 us",
            ));
        }
        check_duration("duration_ms", self.duration_ns)?;
        check_placement(self.placement, nr_online)
    }
}
