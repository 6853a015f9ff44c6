//! Engines as the rows configure them.

use treercu::config::{Config, Value};
use treercu::host::{Engine, Handle, Options};

/// An engine with these tunables.
pub fn engine(tunables: &[(&str, Value)]) -> Engine {
    let config = tunables.iter().fold(Config::new(), |config, (name, value)| {
        config.with(name, value.clone()).expect("a tunable")
    });
    Engine::new(&config, &Options::default()).expect("an engine")
}

/// Why rows of expedited grace periods are skipped.
pub const NO_EXPEDITED: &str = "this version of treercu has no Handle::synchronize_expedited()";

/// The expedited grace period, driven by the caller, where this version of the crate has it.
pub const EXPEDITED: Option<fn(&mut Handle)> = None;
