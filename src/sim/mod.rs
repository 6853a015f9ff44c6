//! The world of virtual time: a deterministic discrete-event kernel around the engine.

#[doc(hidden)]
pub mod calendar;
mod cpu;
mod exec;
pub(crate) mod guest;
mod idle;
mod kernel;
mod machine;
mod observe;
mod program;
mod runner;
mod sched;
pub(crate) mod srcu;
mod task;
mod timer;
mod workqueue;

use crate::random;

pub use crate::control::{Control, MEMORY_LIMIT_MB, RunOptions};
pub use machine::{MAX_COST_NS, MAX_NOISE, Machine, TimerMigration};
pub use observe::{NoObserver, Observer, Sight, SrcuSight};
pub use runner::{simulate, simulate_many, simulate_observed};
