//! Steps done wrongly that random schedules find soon. What takes weak memory, or a rare order of many steps, is left to
//! the loom models.

use crate::run::fails;
use crate::schedules::*;
use treercu::sync::model::{mutant_was_met, set_mutant};

const MUTANTS: &[(&str, fn())] = &[
    ("R6", direct),
    ("P1 skipped", direct),
    ("join skipped", direct),
    ("mark taken off by a pass", expedited_preemptible),
    ("queued unseen", expedited_preemptible),
    ("answer not awaited", non_preemptible),
    ("callers taken late", late_callers),
    ("hand-over", driven_preemptible),
    ("second look", direct),
    ("announce", flood),
];

#[test]
fn mutants_of_the_engine_are_killed() {
    if std::env::var_os("TREERCU_SCHEDULE").is_some() {
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let mut alive = Vec::new();
    for (mutant, body) in MUTANTS {
        let began = std::time::Instant::now();
        set_mutant(mutant);
        let killed = fails(10_000, *body);
        let met = mutant_was_met();
        set_mutant("");
        let how = if killed { "killed" } else { "SURVIVES" };
        println!("{mutant:32} {how}, {} ms", began.elapsed().as_millis());
        if !killed || !met {
            alive.push(*mutant);
        }
    }
    let _ = std::panic::take_hook();
    assert!(alive.is_empty(), "{alive:?} survive, or are met by no schedule");
}
