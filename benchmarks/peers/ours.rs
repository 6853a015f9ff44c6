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

/// The expedited grace period, driven by the caller.
pub fn expedited(handle: &mut Handle) {
    handle.synchronize_expedited().expect("an open engine");
}
