//! Stall reports on the host: who is waited for, by the names of the threads.

use super::engine::Shared;
use crate::stats::Stall;
use crate::sync::WorldLock;
use crate::tree::StallReport;
use std::fmt;

/// Reports that are kept; later ones are only counted.
const KEPT: usize = 1000;
/// Threads named in one report.
const NAMED: usize = 16;

/// A grace period that has lasted too long, and the threads that hold it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStall {
    /// When, since the engine was opened, and what.
    pub stall: Stall,
    /// Names of the threads that are inside a section or owe a quiescent state; at most 16.
    pub threads: Vec<String>,
}

impl fmt::Display for HostStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stall.report)?;
        if !self.threads.is_empty() {
            write!(f, "; threads: {}", self.threads.join(", "))?;
        }
        Ok(())
    }
}

/// The reports of one engine.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    inner: WorldLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    kept: Vec<HostStall>,
    count: u64,
}

impl Stalls {
    pub fn report(&self, shared: &Shared, report: &StallReport) {
        let stall = HostStall {
            stall: Stall {
                at_ns: shared.clock.now(),
                report: report.clone(),
            },
            threads: shared.culprits(report),
        };
        let mut inner = self.inner.lock();
        inner.count += 1;
        if inner.kept.len() < KEPT {
            inner.kept.push(stall);
        }
    }

    pub fn count(&self) -> u64 {
        self.inner.lock().count
    }

    pub fn all(&self) -> Vec<HostStall> {
        self.inner.lock().kept.clone()
    }
}

impl Shared {
    /// Blocked readers by their number, and on vCPUs that are waited for the threads that have not answered.
    fn culprits(&self, report: &StallReport) -> Vec<String> {
        let name = |slot: u32| self.slots.get(slot).state.lock().name.clone();
        let mut names: Vec<String> = report.readers.iter().map(|&reader| name(reader as u32)).collect();
        for &cpu in &report.cpus {
            let owing: Vec<u32> = {
                let run = self.vcpus.get(cpu).run.lock();
                let owes = |entry: &&super::vcpu::Entry| entry.owes[usize::from(report.expedited)];
                run.entries.iter().filter(owes).map(|entry| entry.slot).collect()
            };
            names.extend(owing.into_iter().map(name));
        }
        names.truncate(NAMED);
        names
    }
}
