//! The host world on real threads: order and bounds, never exact times.

mod hotplug;
mod life;
mod protection;
mod quarantine;
mod waits;

use std::time::{Duration, Instant};
use treercu::config::Config;
use treercu::host::{Engine, FenceMode, GpDriver, Options, ParkMode};

/// The ways to run: with what this system has, with the portable fallbacks, with callers as the kthread.
pub fn modes() -> Vec<(&'static str, Options)> {
    vec![
        ("native", Options::default()),
        (
            "portable",
            Options {
                fence: FenceMode::Fallback,
                park: ParkMode::Portable,
                ..Options::default()
            },
        ),
        (
            "callers drive",
            Options {
                gp_driver: GpDriver::Callers,
                ..Options::default()
            },
        ),
    ]
}

pub fn config(nr_cpus: u32, preempt: &str) -> Config {
    Config::new()
        .with("nr_cpus", nr_cpus)
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.with("preempt", preempt))
        .expect("a good configuration")
}

pub fn open(nr_cpus: u32, preempt: &str, options: &Options) -> Engine {
    Engine::new(&config(nr_cpus, preempt), options).expect("an engine")
}

/// Runs `body` for every preemption model and mode.
pub fn everywhere(nr_cpus: u32, body: impl Fn(&str, Engine)) {
    for preempt in ["full", "none"] {
        for (mode, options) in modes() {
            body(
                &format!("preempt={preempt}, {mode}"),
                open(nr_cpus, preempt, &options),
            );
        }
    }
}

/// Waits until `done`, for a generous time.
pub fn eventually(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
