//! Engines as the rows configure them.

use treercu::config::{Config, Value};
use treercu::host::{Engine, GpDriver, Handle, Options};

/// An engine with these tunables.
pub fn engine(tunables: &[(&str, Value)]) -> Engine {
    engine_with(tunables, GpDriver::Kthread)
}

/// The same, with a say in who carries out the grace-period kthread's steps.
pub fn engine_with(tunables: &[(&str, Value)], gp_driver: GpDriver) -> Engine {
    let config = tunables.iter().fold(Config::new(), |config, (name, value)| {
        config.with(name, value.clone()).expect("a tunable")
    });
    let options = Options {
        gp_driver,
        ..Options::default()
    };
    Engine::new(&config, &options).expect("an engine")
}

/// The expedited grace period, driven by the caller.
pub fn expedited(handle: &mut Handle) {
    handle.synchronize_expedited().expect("an open engine");
}
