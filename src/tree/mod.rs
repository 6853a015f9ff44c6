//! The Tree RCU algorithm as state machines that never block.

mod snapshot;

pub use snapshot::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
