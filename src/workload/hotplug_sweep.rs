//! CPUs taken offline one after the other, each with the grace periods that this waits for.

use super::{Cpus, Length, check_range};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most waits of a CPU, hundredths.
pub const MAX_WAITS_PERCENT: u64 = 10_000;

/// One task that takes CPUs offline one after the other, in the order given, as switching SMT off does with the siblings;
/// with `back` it then brings them online again, in the same order.
///
/// Before each transition it calls `synchronize_rcu()` so and so often, one call after the other. What else a transition
/// takes, but for a little CPU time, is not modelled; `other` can stand for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotplugSweep {
    /// The CPUs, in this order; [`Cpus::All`]: all but CPU 0.
    pub cpus: Cpus,
    /// Brings them online again.
    pub back: bool,
    /// Calls per CPU going offline, in hundredths: 125 is five calls for four CPUs.
    pub waits_down_percent: u64,
    /// The same per CPU coming online.
    pub waits_up_percent: u64,
    /// Time that each transition takes besides.
    pub other: Length,
}

impl Default for HotplugSweep {
    fn default() -> Self {
        HotplugSweep {
            cpus: Cpus::All,
            back: false,
            waits_down_percent: 100,
            waits_up_percent: 0,
            other: Length::Fixed(0),
        }
    }
}

impl HotplugSweep {
    /// The CPUs that come and go, given how many are online.
    pub fn swept(&self, nr_online: u32) -> Vec<u32> {
        match &self.cpus {
            Cpus::All => (1..nr_online).collect(),
            Cpus::List(list) => list.clone(),
        }
    }

    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        self.cpus.validate(nr_online)?;
        // Counted, not listed: before the machine is known any number may be online.
        let swept = match &self.cpus {
            Cpus::All => nr_online - 1,
            Cpus::List(list) => list.len() as u32,
        };
        if swept == 0 || swept == nr_online {
            return Err(Error::config(
                "cpus",
                format!("{swept} of {nr_online}"),
                "one CPU has to stay online, and one to go",
                format!("1 to {} of the online CPUs", nr_online.max(2) - 1),
            ));
        }
        check_range(
            "waits_down_percent",
            self.waits_down_percent,
            0,
            MAX_WAITS_PERCENT,
        )?;
        check_range("waits_up_percent", self.waits_up_percent, 0, MAX_WAITS_PERCENT)?;
        self.other.validate("other_us")
    }
}
