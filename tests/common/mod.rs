//! Shared by the integration tests: the oracle and the generator of random machines.
//!
//! Nothing here uses the engine's own arithmetic, geometry or lists: what the engine is measured
//! against is written a second time, from the rules in words.

// Each test file compiles this module for itself and uses its own part of it.
#![allow(dead_code)]

pub mod generate;
pub mod oracle;
pub mod parts;
pub mod shape;
pub mod shrink;
