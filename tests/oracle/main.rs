//! Does the oracle object? Hand-made stories on a machine of four CPUs and two leaves: each is legal up
//! to a point (the oracle must be silent), then breaks one promise (the oracle must name it).
//!
//! The stories are written from the rules in words, event by event; no engine takes part.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod direct;
mod expedited;
mod hotplug;
mod latch;
mod nodes;
mod numbers;
mod readers;
mod records;
mod story;
mod waiting;

use story::Story;
use treercu::sim::Sight;

#[test]
fn a_legal_story_is_met_with_silence() {
    for early in [false, true] {
        for direct in [false, true] {
            let mut s = Story::new(early, direct);
            s.whole();
            s.see(Sight::End { interrupted: false });
            s.silent();
            let c = &s.oracle.coverage;
            assert_eq!(c.grace_periods, 1);
            assert_eq!(c.early_reports, u64::from(early));
            // The last bit: CPUs 2 and 3 found idle by the first scan, or G by the second.
            assert_eq!(c.resolved, [0, 0, 1, 0, 0, 0, 0]);
        }
    }
}
