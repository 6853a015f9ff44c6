//! What to run, as plain data: no behaviour here, only fields, their checks and their defaults.
//!
//! A [`Workload`] is a list of parts that run side by side on one machine. The field names are the
//! names of the command-line flags (`--tasks 64`) and of the Python keywords (`tasks=64`), with
//! durations in µs or ms there and in ns here.
//!
//! | file | part |
//! |---|---|
//! | `sync_flood.rs` | tasks that wait for grace periods |
//! | `cpu_load.rs` | busy CPUs |
//! | `readers.rs` | read-side sections |
//! | `call_rcu_flood.rs` | tasks that queue callbacks |
//! | `periodic_interrupt.rs` | an interrupt that queues callbacks |
//! | `hotplug.rs` | CPUs going offline and coming back |
//! | `srcu_flood.rs` | an SRCU domain: its updaters and its readers |
//! | `length.rs` | lengths that are drawn from a distribution |

mod call_rcu_flood;
mod cpu_load;
mod hotplug;
mod hotplug_sweep;
mod length;
mod periodic_interrupt;
mod readers;
mod srcu_flood;
mod sync_flood;

pub use call_rcu_flood::CallRcuFlood;
pub use cpu_load::{CpuLoad, Mode};
pub use hotplug::Hotplug;
pub use hotplug_sweep::{HotplugSweep, MAX_WAITS_PERCENT};
pub use length::Length;
pub use periodic_interrupt::PeriodicInterrupt;
pub use readers::Readers;
pub use srcu_flood::{SrcuCallKind, SrcuFlood};
pub use sync_flood::{SyncCallKind, SyncFlood};

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Hard limit on the tasks of one workload part.
pub const MAX_TASKS: u64 = 1_000_000;
/// Hard limit on calls per task.
pub const MAX_CALLS: u64 = 1_000_000_000;
/// Hard limit on any duration: one week of virtual time.
pub const MAX_DURATION_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Where the tasks of a part start. The scheduler may move them afterwards.
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

/// Which CPUs a part concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cpus {
    /// Every CPU that is online at start.
    All,
    /// These CPUs.
    List(Vec<u32>),
}

impl Cpus {
    /// The CPUs' numbers, given how many are online.
    pub fn resolve(&self, nr_online: u32) -> Vec<u32> {
        match self {
            Cpus::All => (0..nr_online).collect(),
            Cpus::List(list) => list.clone(),
        }
    }

    fn validate(&self, nr_online: u32) -> Result<()> {
        let Cpus::List(list) = self else { return Ok(()) };
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
        Ok(())
    }
}

/// One part of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Part {
    /// Tasks that wait for grace periods.
    SyncFlood(SyncFlood),
    /// Busy CPUs.
    CpuLoad(CpuLoad),
    /// Read-side sections.
    Readers(Readers),
    /// Tasks that queue callbacks.
    CallRcuFlood(CallRcuFlood),
    /// An interrupt that queues callbacks.
    PeriodicInterrupt(PeriodicInterrupt),
    /// CPUs going offline and coming back.
    Hotplug(Hotplug),
    /// CPUs taken offline one after the other.
    HotplugSweep(HotplugSweep),
    /// An SRCU domain.
    SrcuFlood(SrcuFlood),
}

impl Part {
    fn validate(&self, nr_online: u32) -> Result<()> {
        match self {
            Part::SyncFlood(part) => part.validate(nr_online),
            Part::CpuLoad(part) => part.validate(nr_online),
            Part::Readers(part) => part.validate(nr_online),
            Part::CallRcuFlood(part) => part.validate(nr_online),
            Part::PeriodicInterrupt(part) => part.validate(nr_online),
            Part::Hotplug(part) => part.validate(nr_online),
            Part::HotplugSweep(part) => part.validate(nr_online),
            Part::SrcuFlood(part) => part.validate(nr_online),
        }
    }

    /// The part comes to an end by itself; the others go on as long as one of those.
    pub(crate) fn is_bounded(&self) -> bool {
        match self {
            Part::SyncFlood(_) | Part::SrcuFlood(_) | Part::HotplugSweep(_) => true,
            Part::CpuLoad(part) => part.duration_ns > 0,
            Part::Readers(part) => part.sections > 0 || part.duration_ns > 0,
            Part::CallRcuFlood(part) => part.callbacks > 0 || part.duration_ns > 0,
            Part::PeriodicInterrupt(part) => part.duration_ns > 0,
            Part::Hotplug(part) => part.transitions > 0 || part.duration_ns > 0,
        }
    }

    /// When the part ends at the latest, ns; 0: not by time.
    pub fn duration_ns(&self) -> u64 {
        match self {
            Part::SyncFlood(part) => part.duration_ns,
            Part::CpuLoad(part) => part.duration_ns,
            Part::Readers(part) => part.duration_ns,
            Part::CallRcuFlood(part) => part.duration_ns,
            Part::PeriodicInterrupt(part) => part.duration_ns,
            Part::Hotplug(part) => part.duration_ns,
            Part::HotplugSweep(_) => 0,
            Part::SrcuFlood(part) => part.duration_ns,
        }
    }
}

macro_rules! part_into_workload {
    ($($part:ident),*) => {$(
        impl From<$part> for Workload {
            fn from(part: $part) -> Self {
                Workload { parts: vec![Part::$part(part)] }
            }
        }
    )*};
}
part_into_workload!(
    SyncFlood,
    CpuLoad,
    Readers,
    CallRcuFlood,
    PeriodicInterrupt,
    Hotplug,
    HotplugSweep,
    SrcuFlood
);

/// Parts that run side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Workload {
    /// The parts, in the order given.
    pub parts: Vec<Part>,
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
            return Err(Error::config("workload", "[]", "no parts", "at least one part"));
        }
        for part in &self.parts {
            part.validate(nr_online)?;
        }
        if !self.parts.iter().any(Part::is_bounded) {
            return Err(Error::config(
                "duration_ms",
                0,
                "nothing in this workload ends",
                "a part with duration_ms > 0, or with a number of calls, sections, callbacks or transitions",
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

fn check_range(name: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if value < low || value > high {
        return Err(Error::config(
            name,
            value,
            "out of range",
            format!("{low} to {high}"),
        ));
    }
    Ok(())
}

fn check_placement(placement: Placement, nr_online: u32) -> Result<()> {
    match placement {
        Placement::Cpu(cpu) => check_cpu("placement", cpu, nr_online),
        Placement::Spread | Placement::Random => Ok(()),
    }
}
