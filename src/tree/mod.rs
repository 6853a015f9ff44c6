//! The Tree RCU algorithm as state machines that never block.

pub mod cblist;
pub mod geometry;
pub mod seq;
mod snapshot;

pub use snapshot::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
