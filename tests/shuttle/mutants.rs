//! Steps done wrongly that schedules alone can show; what takes weak memory is left to the loom models.

use crate::run::check;
use crate::schedules::*;
use std::panic::catch_unwind;
use treercu::sync::model::{mutant_was_met, set_mutant};

const MUTANTS: &[(&str, fn())] = &[
    ("R6", direct),
    ("P1 skipped", direct),
    ("join skipped", direct),
    ("second look", direct),
    ("announce", flood),
    ("answer not awaited", non_preemptible),
    ("queued unseen", expedited_preemptible),
];

#[test]
fn mutants_of_the_engine_are_killed() {
    if std::env::var_os("TREERCU_SCHEDULE").is_some() {
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let mut alive = Vec::new();
    for (mutant, body) in MUTANTS {
        set_mutant(mutant);
        let killed = catch_unwind(|| check(1000, *body)).is_err();
        println!("{mutant:32} {}", if killed { "killed" } else { "SURVIVES" });
        if !killed || !mutant_was_met() {
            alive.push(*mutant);
        }
        set_mutant("");
    }
    let _ = std::panic::take_hook();
    assert!(alive.is_empty(), "{alive:?} survive");
}
