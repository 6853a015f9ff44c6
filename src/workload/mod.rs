//! What to run, as plain data: no behaviour here, only fields, their checks and their defaults.
//!
//! A [`Workload`] is a list of parts that run side by side on one machine. The field names are the
//! names of the command-line flags (`--tasks 64`) and of the Python keywords (`tasks=64`).

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Hard limit on the tasks of one workload part.
pub const MAX_TASKS: u64 = 1_000_000;
/// Hard limit on calls per task.
pub const MAX_CALLS: u64 = 1_000_000_000;
/// Hard limit on any duration: one week of virtual time.
pub const MAX_DURATION_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Where the tasks of a [`SyncFlood`] start. The scheduler may move them afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Task *i* on CPU *(first + i) mod online CPUs*; `first` is drawn from the seed.
    Spread,
    /// Each task on a CPU drawn from the seed.
    Random,
    /// All tasks on one CPU.
    Cpu(u32),
}

/// Tasks that call `synchronize_rcu()`.
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
        }
    }
}

/// Whether a [`CpuLoad`] runs in user mode or in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// User mode: every tick that hits it is a quiescent state.
    User,
    /// Kernel code: quiescent at a tick only outside preemption-disabled sections.
    Kernel,
}

/// Which CPUs a [`CpuLoad`] occupies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cpus {
    /// Every CPU that is online at start.
    All,
    /// These CPUs.
    List(Vec<u32>),
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
    /// Kernel mode: preemptible time between two such sections in ns.
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

/// One part of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Part {
    /// `synchronize_rcu()` callers.
    SyncFlood(SyncFlood),
    /// Busy CPUs.
    CpuLoad(CpuLoad),
}

/// Parts that run side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Workload {
    /// The parts, in the order given.
    pub parts: Vec<Part>,
}

impl From<SyncFlood> for Workload {
    fn from(part: SyncFlood) -> Self {
        Workload {
            parts: vec![Part::SyncFlood(part)],
        }
    }
}

impl From<CpuLoad> for Workload {
    fn from(part: CpuLoad) -> Self {
        Workload {
            parts: vec![Part::CpuLoad(part)],
        }
    }
}

impl Workload {
    /// Adds a part.
    pub fn and(mut self, other: impl Into<Workload>) -> Self {
        self.parts.extend(other.into().parts);
        self
    }

    /// Checks every field against `nr_online` CPUs.
    pub fn validate(&self, nr_online: u32) -> Result<()> {
        if self.parts.is_empty() {
            return Err(Error::config(
                "workload",
                "[]",
                "no parts",
                "at least one SyncFlood or CpuLoad",
            ));
        }
        for part in &self.parts {
            match part {
                Part::SyncFlood(flood) => flood.validate(nr_online)?,
                Part::CpuLoad(load) => load.validate(nr_online)?,
            }
        }
        let bounded = self.parts.iter().any(|part| match part {
            Part::SyncFlood(_) => true,
            Part::CpuLoad(load) => load.duration_ns > 0,
        });
        if !bounded {
            return Err(Error::config(
                "duration_ms",
                0,
                "nothing in this workload ends",
                "a SyncFlood part, or a CpuLoad with duration_ms > 0",
            ));
        }
        Ok(())
    }
}

fn check_duration(name: &str, ns: u64) -> Result<()> {
    if ns > MAX_DURATION_NS {
        return Err(Error::config(
            name,
            format!("{ns} ns"),
            "too long",
            "0 to one week of virtual time",
        ));
    }
    Ok(())
}

fn check_cpu(name: &str, cpu: u32, nr_online: u32) -> Result<()> {
    if cpu >= nr_online {
        return Err(Error::config(
            name,
            cpu,
            "no such online CPU",
            format!("0 to {}", nr_online - 1),
        ));
    }
    Ok(())
}

impl SyncFlood {
    fn validate(&self, nr_online: u32) -> Result<()> {
        if self.tasks == 0 || self.tasks > MAX_TASKS {
            return Err(Error::config(
                "tasks",
                self.tasks,
                "out of range",
                format!("1 to {MAX_TASKS}"),
            ));
        }
        if self.calls > MAX_CALLS {
            return Err(Error::config(
                "calls",
                self.calls,
                "out of range",
                format!("0 to {MAX_CALLS}"),
            ));
        }
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
        if let Placement::Cpu(cpu) = self.placement {
            check_cpu("placement", cpu, nr_online)?;
        }
        Ok(())
    }
}

impl CpuLoad {
    fn validate(&self, nr_online: u32) -> Result<()> {
        if let Cpus::List(list) = &self.cpus {
            if list.is_empty() {
                return Err(Error::config(
                    "cpus",
                    "[]",
                    "no CPU named",
                    "all, or a list of online CPUs",
                ));
            }
            let mut seen = std::collections::BTreeSet::new();
            for &cpu in list {
                check_cpu("cpus", cpu, nr_online)?;
                if !seen.insert(cpu) {
                    return Err(Error::config("cpus", cpu, "named twice", "each CPU once"));
                }
            }
        }
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
        if self.section_ns > 0 {
            if self.mode == Mode::User {
                return Err(Error::config(
                    "section_us",
                    self.section_ns / 1000,
                    "user mode has no kernel sections",
                    "0 with mode = user",
                ));
            }
            if self.gap_ns < 1_000 {
                return Err(Error::config(
                    "gap_us",
                    format!("{} ns", self.gap_ns),
                    "too short between sections",
                    "at least 1 us with section_us > 0",
                ));
            }
        }
        Ok(())
    }
}
