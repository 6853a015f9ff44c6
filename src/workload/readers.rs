//! Read-side sections.

use super::{Length, MAX_CALLS, MAX_TASKS, Placement, check_duration, check_placement, check_range};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Tasks that enter and leave `rcu_read_lock()` sections. On preemptible kernels they can be preempted
/// inside one and then block grace periods from the leaf's list; on others they run through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readers {
    /// Number of tasks, 1 ..= [`MAX_TASKS`].
    pub tasks: u64,
    /// Sections per task; 0: until `duration_ns`, or as long as any other part runs.
    pub sections: u64,
    /// Length of a section.
    pub section: Length,
    /// Sleep between two sections; below 1 µs the task goes on without sleeping.
    pub gap: Length,
    /// Levels of nesting inside the outermost section; the inner ones end at its middle.
    pub nested: u32,
    /// Of 100 sections, how many end their outermost level with preemption disabled, so that the
    /// quiescent state has to be deferred.
    pub deferred_percent: u32,
    /// Where the tasks start.
    pub placement: Placement,
    /// Virtual time after which no new section begins, in ns; 0: no limit.
    pub duration_ns: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Readers {
            tasks: 1,
            sections: 0,
            section: Length::Fixed(10_000),
            gap: Length::Exponential(100_000),
            nested: 0,
            deferred_percent: 0,
            placement: Placement::Spread,
            duration_ns: 0,
        }
    }
}

impl Readers {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        check_range("tasks", self.tasks, 1, MAX_TASKS)?;
        check_range("sections", self.sections, 0, MAX_CALLS)?;
        self.section.validate("section_us")?;
        self.gap.validate("gap_us")?;
        if self.section.mean() + self.gap.mean() < 100 {
            return Err(Error::config(
                "gap_us",
                self.gap,
                "section_us + gap_us is too short",
                "a mean sum of at least 0.1 us",
            ));
        }
        check_range("nested", u64::from(self.nested), 0, 64)?;
        check_range("deferred_percent", u64::from(self.deferred_percent), 0, 100)?;
        check_duration("duration_ms", self.duration_ns)?;
        check_placement(self.placement, nr_online)
    }
}
