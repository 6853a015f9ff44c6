//! Busy CPUs.

use super::{Cpus, check_duration};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Whether a [`CpuLoad`] runs in user mode or in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// User mode: every tick that hits it is a quiescent state.
    User,
    /// Kernel code: quiescent at a tick only outside preemption-disabled sections.
    Kernel,
}

/// One pinned task per CPU that keeps it busy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLoad {
    /// The CPUs.
    pub cpus: Cpus,
    /// User mode or kernel code.
    pub mode: Mode,
    /// Length of one busy stretch in ns; 0: without end.
    pub run_ns: u64,
    /// Sleep between two stretches in ns (only with `run_ns > 0`).
    pub pause_ns: u64,
    /// Kernel mode: length of the preemption-disabled sections (each one is an RCU read-side
    /// section) in ns; 0: none.
    pub section_ns: u64,
    /// Kernel mode: time between two such sections, or between two reschedule points of a
    /// non-preemptible kernel, in ns.
    pub gap_ns: u64,
    /// End of this load in virtual ns; 0: as long as any other part runs.
    pub duration_ns: u64,
}

impl Default for CpuLoad {
    fn default() -> Self {
        CpuLoad {
            cpus: Cpus::All,
            mode: Mode::User,
            run_ns: 0,
            pause_ns: 0,
            section_ns: 0,
            gap_ns: 10_000,
            duration_ns: 0,
        }
    }
}

impl CpuLoad {
    pub(super) fn validate(&self, nr_online: u32) -> Result<()> {
        self.cpus.validate(nr_online)?;
        check_duration("run_us", self.run_ns)?;
        check_duration("pause_us", self.pause_ns)?;
        check_duration("section_us", self.section_ns)?;
        check_duration("gap_us", self.gap_ns)?;
        check_duration("duration_ms", self.duration_ns)?;
        if self.run_ns > 0 && self.run_ns < 1_000 {
            return Err(Error::config(
                "run_us",
                format!("{} ns", self.run_ns),
                "too short",
                "0, or at least 1 us",
            ));
        }
        if self.pause_ns > 0 && self.run_ns == 0 {
            return Err(Error::config(
                "pause_us",
                self.pause_ns / 1000,
                "a load without end has no pause",
                "0 with run_us = 0",
            ));
        }
        if self.section_ns > 0 && self.mode == Mode::User {
            return Err(Error::config(
                "section_us",
                self.section_ns / 1000,
                "user mode has no kernel sections",
                "0 with mode = user",
            ));
        }
        if self.mode == Mode::Kernel && self.gap_ns < 1_000 {
            return Err(Error::config(
                "gap_us",
                format!("{} ns", self.gap_ns),
                "too short between sections or reschedule points",
                "at least 1 us with mode = kernel",
            ));
        }
        Ok(())
    }
}
