//! Runs that would never end, or eat the machine, end with an error that says why; long quiet ones do not.

use treercu::config::Config;
use treercu::error::{Error, Result};
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Run;
use treercu::workload::{CallRcuFlood, CpuLoad, Length, PeriodicInterrupt, Readers, SyncFlood, Workload};

const S: u64 = 1_000_000_000;

fn run(cpus: i64, work: impl Into<Workload>, memory_limit_mb: u64) -> Result<Run> {
    let config = Config::new().with("nr_cpus", cpus)?.with("hz", 1000)?;
    let machine = Machine {
        noise: 0.0,
        ..Machine::default()
    };
    let options = RunOptions {
        memory_limit_mb,
        ..RunOptions::default()
    };
    simulate(&config, &machine, &work.into(), 1, &options, &Control::default())
}

/// A call is stalled when it waits for ten stall timeouts (210 s), not when nobody called for that long.
#[test]
fn a_long_pause_between_calls_is_no_stall() {
    let calm = SyncFlood {
        calls: 3,
        think_ns: 250 * S,
        ..SyncFlood::default()
    };
    assert_eq!(run(4, calm, 64).expect("no stall").samples.len(), 3);
    let open = SyncFlood {
        calls: 3,
        interval_ns: 250 * S,
        ..SyncFlood::default()
    };
    assert_eq!(run(4, open, 64).expect("no stall").samples.len(), 3);
    let late = SyncFlood {
        calls: 1,
        tasks: 3,
        start_skew_ns: 1000 * S,
        ..SyncFlood::default()
    };
    assert_eq!(run(4, late, 64).expect("no stall").samples.len(), 3);
}

/// A reader that stays in its section for 300 s does stall the callers.
#[test]
fn a_reader_that_never_leaves_is_a_stall() {
    let reader = Readers {
        section: Length::Fixed(1000 * S),
        gap: Length::Fixed(1),
        ..Readers::default()
    };
    let error = run(2, Workload::from(SyncFlood::default()).and(reader), 64).expect_err("stalled");
    assert!(matches!(error, Error::Stall { .. }), "{error}");
}

/// An endless load interrupted by a tick each ms must not pile calendar entries up: 100 s on 8 CPUs
/// are 800,000 interruptions of a burst, which would be 25 MB of stale entries at 32 bytes.
#[test]
fn interrupted_bursts_leave_nothing_behind() {
    let load = CpuLoad {
        duration_ns: 100 * S,
        ..CpuLoad::default()
    };
    run(8, load, 1).expect("fits into 1 MiB of records and entries");
}

/// Callbacks that pile up behind a reader count against the memory limit.
#[test]
fn pending_callbacks_are_part_of_the_limit() {
    let flood = CallRcuFlood {
        burst: 1000,
        interval: Length::Fixed(100_000),
        duration_ns: 60 * S,
        ..CallRcuFlood::default()
    };
    let reader = Readers {
        section: Length::Fixed(100 * S),
        ..Readers::default()
    };
    let error = run(2, Workload::from(flood).and(reader), 16).expect_err("too much");
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    assert!(error.to_string().contains("callbacks pending"), "{error}");
}

#[test]
fn an_interrupt_that_leaves_no_time_is_refused() {
    let storm = PeriodicInterrupt {
        rate_hz: 1_000_000,
        callbacks: 100,
        duration_ns: S,
        ..PeriodicInterrupt::default()
    };
    let error = run(1, storm, 64).expect_err("refused");
    assert!(error.to_string().starts_with("rate_hz=1000000"), "{error}");
}

#[test]
fn virtual_time_has_an_end() {
    let week = 7 * 24 * 3600 * S;
    let readers = Readers {
        sections: 40_000,
        gap: Length::Fixed(week),
        ..Readers::default()
    };
    let error = run(1, readers, 64).expect_err("beyond the end");
    assert!(error.to_string().contains("end of virtual time"), "{error}");
}
