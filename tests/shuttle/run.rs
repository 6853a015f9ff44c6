//! Runs a machine under random schedules.
//!
//! A failure prints its schedule; `TREERCU_SCHEDULE='…'` with the name of the test runs exactly that one again.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Schedules per test; `TREERCU_NUM` asks for more.
pub fn number(default: usize) -> usize {
    std::env::var("TREERCU_NUM").map_or(default, |text| text.parse().expect("TREERCU_NUM: a number"))
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 0x2_0000;
    config.failure_persistence = FailurePersistence::Print;
    // Somebody sleeps for ever while the clock goes on.
    config.max_steps = MaxSteps::FailAfter(200_000);
    config
}

fn under(scheduler: impl Scheduler + 'static, body: fn()) {
    Runner::new(scheduler, config()).run(body);
}

/// Half of the schedules random, half by priorities that change at few points.
pub fn check(schedules: usize, body: fn()) {
    if let Ok(schedule) = std::env::var("TREERCU_SCHEDULE") {
        return shuttle::replay(body, &schedule);
    }
    under(RandomScheduler::new_from_seed(SEED, schedules / 2), body);
    under(PctScheduler::new_from_seed(SEED, 3, schedules / 2), body);
}

/// The same schedules each time.
const SEED: u64 = 20_251_130;
