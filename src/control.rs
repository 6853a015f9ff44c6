//! How a run is carried out, in either world: options, cancel flag, progress.

use crate::error::{Error, Result};
use crate::stats::Keep;
use crate::trace::MAX_TRACE_LIMIT;
use crate::workload::{Part, Workload};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Default limit on the estimated memory of a run (or of all replicas of one call), MiB.
pub const MEMORY_LIMIT_MB: u64 = 4096;
pub(crate) const MIB: u64 = 1 << 20;

/// How to carry a run out; nothing here changes a simulated result.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Limit on the estimated memory, MiB.
    pub memory_limit_mb: u64,
    /// How much of the calls is kept.
    pub keep: Keep,
    /// Keep this many trace events; 0: no trace.
    pub trace_limit: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            memory_limit_mb: MEMORY_LIMIT_MB,
            keep: Keep::default(),
            trace_limit: 0,
        }
    }
}

impl RunOptions {
    /// Checks every field.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.memory_limit_mb == 0 {
            return Err(Error::config("memory_limit_mb", 0, "out of range", "at least 1"));
        }
        self.keep.validate()?;
        if self.trace_limit > MAX_TRACE_LIMIT {
            return Err(Error::config(
                "trace_limit",
                self.trace_limit,
                "out of range",
                format!("0 to {MAX_TRACE_LIMIT}"),
            ));
        }
        Ok(())
    }
}

/// Shared between a run and whoever waits for it: cancel flag and progress.
#[derive(Debug, Default)]
pub struct Control {
    /// Set it and every run under this control ends within milliseconds, with what it has.
    pub cancel: AtomicBool,
    /// Work done so far, in the unit of `total`.
    pub done: AtomicU64,
    /// Work expected in all (calls, or ns where only a duration is given); 0: unknown.
    pub total: AtomicU64,
}

/// How far along a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub total: u64,
    pub by_calls: bool,
}

impl Progress {
    pub fn of(workload: &Workload) -> Self {
        let until = workload.parts.iter().map(Part::duration_ns).max().unwrap_or(0);
        if until > 0 {
            return Progress {
                total: until,
                by_calls: false,
            };
        }
        let calls = workload.parts.iter().fold(0u64, |sum, part| match part {
            Part::SyncFlood(flood) => sum.saturating_add(flood.tasks.saturating_mul(flood.calls)),
            Part::SrcuFlood(flood) => sum.saturating_add(flood.tasks.saturating_mul(flood.calls)),
            _ => sum,
        });
        Progress {
            total: calls,
            by_calls: true,
        }
    }
}

/// CPU time of this thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
