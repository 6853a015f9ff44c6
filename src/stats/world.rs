//! What only one of the two worlds knows about a run.

use crate::host::HostFacts;
use crate::sim::Machine;
use serde::{Deserialize, Serialize};

/// Where a run took place.
#[derive(Debug, Clone)]
pub enum World {
    /// In virtual time.
    Sim(Box<Simulated>),
    /// On real threads.
    Host(Box<Measured>),
}

impl World {
    /// The word used in output.
    pub fn name(&self) -> &'static str {
        match self {
            World::Sim(_) => "sim",
            World::Host(_) => "host",
        }
    }
}

/// What a simulated run knows besides its samples.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The machine.
    pub machine: Machine,
    /// Virtual time covered, ns.
    pub virtual_ns: u64,
    /// Calendar entries dispatched.
    pub events: u64,
}

/// What a measured run knows besides its samples.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the engine that was measured.
    pub engine: String,
    /// The machine and the kernel underneath.
    pub facts: HostFacts,
    /// CPU time of the grace-period thread, ns; `None`: the engine has none that it could be asked for.
    pub gp_kthread_cpu_ns: Option<u64>,
    /// CPU time of the tick thread, ns; `None` likewise.
    pub tick_cpu_ns: Option<u64>,
    /// What a reader of the figures has to know, a sentence each.
    pub notes: Vec<String>,
}
