//! A domain of SRCU, its readers and those who wait for its grace periods.

use super::{Length, MAX_CALLS, MAX_TASKS, Placement, check_duration, check_placement, check_range};
use crate::error::{Error, Result};
use crate::srcu::Flavour;
use serde::{Deserialize, Serialize};

/// What an updater of an SRCU domain does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SrcuCallKind {
    /// `synchronize_srcu()`.
    Sync,
    /// `synchronize_srcu_expedited()`.
    Expedited,
    /// `call_srcu()`: a call is over when its callback is invoked, and the next one does not wait for that.
    Call,
    /// `start_poll_synchronize_srcu()`, then `poll_state_synchronize_srcu()` once a jiffy.
    Poll,
    /// `srcu_barrier()`.
    Barrier,
}

impl SrcuCallKind {
    /// Names and values.
    pub const ALL: [(&'static str, SrcuCallKind); 5] = [
        ("sync", SrcuCallKind::Sync),
        ("expedited", SrcuCallKind::Expedited),
        ("call", SrcuCallKind::Call),
        ("poll", SrcuCallKind::Poll),
        ("barrier", SrcuCallKind::Barrier),
    ];
}

/// One SRCU domain: updaters in a closed loop, and readers that go on as long as any part of the workload runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SrcuFlood {
    /// Updaters, 1 ..= [`MAX_TASKS`].
    pub tasks: u64,
    /// Calls of each; 0: as many as fit into `duration_ns`.
    pub calls: u64,
    /// Virtual time after which no new call is made, in ns; 0: no limit (then `calls` must be given).
    pub duration_ns: u64,
    /// What a call is.
    pub kind: SrcuCallKind,
    /// The domain's kind of readers.
    pub flavour: Flavour,
    /// Sleep between the return of a call and the next one, ns.
    pub think_ns: u64,
    /// Reader tasks, 0 ..= [`MAX_TASKS`].
    pub readers: u64,
    /// Length of a section.
    pub section: Length,
    /// Time between two sections of a reader; below 1 µs it goes on without sleeping.
    pub gap: Length,
    /// Of 100 sections, how many are slept through; the others are spent running.
    pub sleep_percent: u32,
    /// How long a reader is held up between fetching the index and counting itself on it.
    pub enter: Length,
    /// Where updaters and readers start.
    pub placement: Placement,
}

impl Default for SrcuFlood {
    fn default() -> Self {
        SrcuFlood {
            tasks: 1,
            calls: 100,
            duration_ns: 0,
            kind: SrcuCallKind::Sync,
            flavour: Flavour::Normal,
            think_ns: 0,
            readers: 0,
            section: Length::Fixed(10_000),
            gap: Length::Exponential(100_000),
            sleep_percent: 100,
            enter: Length::Fixed(0),
            placement: Placement::Spread,
        }
    }
}

impl SrcuFlood {
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
        check_range("readers", self.readers, 0, MAX_TASKS)?;
        self.section.validate("section_us")?;
        self.gap.validate("gap_us")?;
        self.enter.validate("enter_us")?;
        if self.readers > 0 && self.section.mean() + self.gap.mean() < 100 {
            return Err(Error::config(
                "gap_us",
                self.gap,
                "section_us + gap_us is too short",
                "a mean sum of at least 0.1 us",
            ));
        }
        check_range("sleep_percent", u64::from(self.sleep_percent), 0, 100)?;
        check_placement(self.placement, nr_online)
    }
}
