//! Runs a machine under random schedules.
//!
//! A failure prints its schedule; with `TREERCU_SCHEDULE`, the schedule or a file that holds it, and the name of the test
//! exactly that one runs again.

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::catch_unwind;
use treercu::sync::model::set_mutant;

/// Schedules per test; `TREERCU_NUM` asks for more.
pub fn number(default: usize) -> usize {
    std::env::var("TREERCU_NUM").map_or(default, |text| text.parse().expect("TREERCU_NUM: a number"))
}

fn config(print: bool) -> Config {
    let mut config = Config::new();
    config.stack_size = 0x2_0000;
    config.failure_persistence = match print {
        true => FailurePersistence::Print,
        false => FailurePersistence::None,
    };
    // Somebody sleeps for ever while the clock goes on.
    config.max_steps = MaxSteps::FailAfter(200_000);
    config
}

/// Half of the schedules random, half by priorities that change at few points.
fn explore(schedules: usize, body: fn(), print: bool) {
    let half = schedules / 2;
    Runner::new(PctScheduler::new_from_seed(SEED, 3, half), config(print)).run(body);
    Runner::new(RandomScheduler::new_from_seed(SEED, half), config(print)).run(body);
}

/// Fails with a schedule to replay.
pub fn check(schedules: usize, body: fn()) {
    set_mutant(std::env::var("TREERCU_MUTANT").unwrap_or_default().leak());
    match std::env::var("TREERCU_SCHEDULE") {
        Ok(given) => {
            let schedule = std::fs::read_to_string(&given).unwrap_or(given);
            let mut config = config(true);
            config.max_steps = MaxSteps::None;
            let scheduler = ReplayScheduler::new_from_encoded(schedule.trim());
            Runner::new(scheduler, config).run(body);
        }
        Err(_) => explore(schedules, body, true),
    }
}

/// Whether any of that many schedules fails.
pub fn fails(schedules: usize, body: fn()) -> bool {
    catch_unwind(|| explore(schedules, body, false)).is_err()
}

/// The same schedules each time.
const SEED: u64 = 20_251_130;
