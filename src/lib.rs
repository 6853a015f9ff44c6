//! treercu: the Linux kernel's Tree RCU as an engine.
#![warn(missing_docs)]

pub mod config;
pub mod error;
#[cfg(feature = "python")]
mod python;
pub mod sim;
pub mod stats;
mod sync;
pub mod tree;
pub mod workload;
