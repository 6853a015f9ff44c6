//! Switches of the bug zoo: steps of the engine that are done wrongly on request, to see whether the oracle notices.
//!
//! Only with the feature `bug-zoo`. A simulated run stays on its thread, so a thread-local switch is one per run, and
//! runs with different mutants go side by side. `tests/bug_zoo` has the table of them.

use std::cell::Cell;

thread_local! {
    static MUTANT: Cell<&'static str> = const { Cell::new("") };
    static MET: Cell<bool> = const { Cell::new(false) };
}

/// Chooses the mutant of the runs of this thread; "": none. Names joined by `+` are done wrongly together: where one
/// guard stands behind another, both have to go.
pub fn set_mutant(name: &'static str) {
    MUTANT.set(name);
    MET.set(false);
}

/// Whether its step was executed since it was chosen: one that no run reaches proves nothing.
pub fn mutant_was_met() -> bool {
    MET.get()
}

/// Whether this step is to be done wrongly.
#[inline]
pub fn mutated(step: &'static str) -> bool {
    let chosen = MUTANT.get();
    let it_is = !chosen.is_empty() && chosen.split('+').any(|name| name == step);
    if it_is {
        MET.set(true);
    }
    it_is
}
