//! rcutorture's model: writers, readers and everything that may disturb them, in both worlds.
//!
//! One writer publishes elements and takes them away again; a removed element moves on by one stage per
//! grace period and is freed after ten. Readers look at the current element for as long as their sections
//! last. A reader that finds its element two stages on when it leaves has outlived a grace period that
//! had to wait for it: that is an error, and the only proof that counts. Around this, fake writers, a
//! barrier test, callback floods, CPUs that come and go, readers that exit, and an injected stall keep
//! the engine busy.
//!
//! | file | what |
//! |---|---|
//! | `scenario.rs` | the named scenarios as data |
//! | `plan.rs` | a scenario on this machine, for a run of this length; what is left out |
//! | `pipe.rs` | elements and their stages |
//! | `mailbox.rs` | the memory-order test |
//! | `pass.rs` | one pass of a reader: extents and delays |
//! | `kind.rs` | the ways to wait for a grace period |
//! | `cookies.rs` | what polling cookies promise |
//! | `ledger.rs` | what all threads share and count in |
//! | `counters.rs` | the counters under their names, and the lines they are printed on |
//! | `report.rs` | the result and its text |
//! | [`host`] | the driver on real threads, for anything that implements [`host::Subject`] |
//! | `sim` | the driver as tasks of the simulated machine |

mod cookies;
mod counters;
pub mod host;
mod kind;
mod ledger;
mod mailbox;
mod pass;
mod pipe;
mod plan;
mod random;
mod report;
mod scenario;
mod sim;

pub use counters::{BarrierTest, Counters, ForwardProgress, Transitions, Verdict};
pub use kind::GpKind;
pub use pass::Odds;
pub use pipe::{PIPE_LEN, POOL, Stages};
pub use plan::{MAX_SECONDS, MIN_SECONDS, MIN_STALL_RUN_S, Plan, Skipped};
pub use report::Report;
pub use scenario::{Flavour, OnOff, SCENARIOS, Scenario, StallCpu};
pub use sim::torture as torture_simulated;

use crate::control::Control;
use crate::error::{Error, Result};
use serde::Serialize;
use std::str::FromStr;

/// Where a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Real threads, real time.
    Host,
    /// The simulated machine, virtual time.
    Sim,
}

impl World {
    /// `host` or `sim`.
    pub const fn name(self) -> &'static str {
        match self {
            World::Host => "host",
            World::Sim => "sim",
        }
    }
}

impl FromStr for World {
    type Err = Error;
    fn from_str(text: &str) -> Result<World> {
        match text {
            "host" => Ok(World::Host),
            "sim" => Ok(World::Sim),
            _ => Err(Error::config("world", text, "no such world", "host or sim")),
        }
    }
}

/// Tortures the engine by the scenario of this name for so many seconds (virtual ones in the simulated
/// world). The run ends early when `control` is cancelled, with the counters so far.
///
/// # Errors
///
/// [`Error::Config`] for a scenario, a length or a world that does not exist. What goes wrong during the
/// test is no error but in the report.
pub fn run(scenario: &str, seconds: f64, world: World, seed: u64, control: &Control) -> Result<Report> {
    let scenario = Scenario::named(scenario)?;
    let plan = Plan::new(scenario, seconds, world, seed, host::cores())?;
    match world {
        World::Host => host::run(plan, control),
        World::Sim => sim::torture(plan, control),
    }
}
