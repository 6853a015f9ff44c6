//! An interrupt that queues callbacks.

use super::{Cpus, check_duration, check_range};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// A periodic interrupt on each of some CPUs whose handler calls `call_rcu()`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodicInterrupt {
    /// Interrupts per second and CPU, 1 to 1,000,000.
    pub rate_hz: u64,
    /// Callbacks queued by each, 0 to 100,000.
    pub callbacks: u64,
    /// The CPUs.
    pub cpus: Cpus,
    /// End in virtual ns; 0: as long as any other part runs.
    pub duration_ns: u64,
}

impl Default for PeriodicInterrupt {
    fn default() -> Self {
        PeriodicInterrupt {
            rate_hz: 1_000,
            callbacks: 1,
            cpus: Cpus::List(vec![0]),
            duration_ns: 0,
        }
    }
}

impl PeriodicInterrupt {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        check_range("rate_hz", self.rate_hz, 1, 1_000_000)?;
        check_range("callbacks", self.callbacks, 0, 100_000)?;
        self.cpus.validate(nr_online)?;
        check_duration("duration_ms", self.duration_ns)
    }
}
