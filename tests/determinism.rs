//! Equal inputs, equal bytes: over builds too. The digest of one fixed run is written down; this test
//! computes it in whatever profile it is built with, `test_digest.py` with the installed release build.
//! A change of the mechanism, of a cost or of a counter changes it on purpose: then write the new one
//! down, with the reason in the commit.

use treercu::config::Config;
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::workload::SyncFlood;

#[test]
fn the_digest_of_a_fixed_run_is_the_one_written_down() {
    // treercu simulate --set kernel=6.18 --set nr_cpus=32 --set hz=1000 --workload sync-flood
    //                  --tasks 1 --calls 100 --seed 1 --json
    let config = Config::new()
        .with("kernel", "6.18")
        .and_then(|c| c.with("nr_cpus", 32))
        .and_then(|c| c.with("hz", 1000))
        .expect("valid");
    let flood = SyncFlood {
        tasks: 1,
        calls: 100,
        ..SyncFlood::default()
    };
    let digest = || {
        simulate(
            &config,
            &Machine::default(),
            &flood.clone().into(),
            1,
            &RunOptions::default(),
            &Control::default(),
        )
        .expect("runs")
        .digest()
    };
    let expected = include_str!("data/digest.txt").trim();
    assert_eq!(
        digest(),
        expected,
        "profile: {}",
        if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
    );
    assert_eq!(digest(), expected, "a second run in the same process");
}
