//! CPUs going offline and coming back.

use super::{Cpus, Length, MAX_CALLS, check_duration, check_range};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// One task that takes CPUs offline and online again, one transition at a time, each time one of the
/// listed CPUs drawn from the seed. The last online CPU stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hotplug {
    /// The CPUs that come and go.
    pub cpus: Cpus,
    /// Time between two transitions.
    pub interval: Length,
    /// Transitions in all; 0: until `duration_ns`, or as long as any other part runs.
    pub transitions: u64,
    /// Virtual time after which no new transition begins, in ns; 0: no limit.
    pub duration_ns: u64,
}

impl Default for Hotplug {
    fn default() -> Self {
        Hotplug {
            cpus: Cpus::All,
            interval: Length::Exponential(10_000_000),
            transitions: 0,
            duration_ns: 0,
        }
    }
}

impl Hotplug {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        self.cpus.validate(nr_online)?;
        self.interval.validate("interval_us")?;
        if self.interval.mean() < 1_000 {
            return Err(Error::config(
                "interval_us",
                self.interval,
                "too short",
                "a mean of at least 1 us",
            ));
        }
        check_range("transitions", self.transitions, 0, MAX_CALLS)?;
        check_duration("duration_ms", self.duration_ns)
    }
}
