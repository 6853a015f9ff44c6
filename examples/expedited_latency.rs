//! Latency of expedited and of normal grace periods against the number of CPUs, in virtual time: the table in the
//! documentation of `treercu::tree`'s expedited grace periods.
//!
//! `cargo run --release --example expedited_latency`

use treercu::config::Config;
use treercu::error::Result;
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::workload::{CpuLoad, Cpus, Mode, Placement, SyncCallKind, SyncFlood, Workload};

/// Median latency of lone calls, us. `busy`: all other CPUs are in kernel code, in sections of 2 us most of the time.
fn median_us(nr_cpus: u32, kind: SyncCallKind, busy: bool) -> Result<f64> {
    let config = Config::new().with("nr_cpus", nr_cpus)?.with("hz", 1000)?;
    let machine = Machine {
        noise: 0.0,
        ..Machine::default()
    };
    let flood = SyncFlood {
        calls: 20,
        think_ns: 2_000_000,
        placement: Placement::Cpu(0),
        kind,
        ..SyncFlood::default()
    };
    let mut workload = Workload::from(flood);
    if busy && nr_cpus > 1 {
        workload = workload.and(CpuLoad {
            cpus: Cpus::List((1..nr_cpus).collect()),
            mode: Mode::Kernel,
            section_ns: 2_000,
            gap_ns: 1_000,
            ..CpuLoad::default()
        });
    }
    let run = simulate(
        &config,
        &machine,
        &workload,
        1,
        &RunOptions::default(),
        &Control::default(),
    )?;
    Ok(run.quantile(0.5)? as f64 / 1e3)
}

fn main() -> Result<()> {
    println!(
        "| CPUs | expedited, idle, µs | expedited, busy, µs | normal, idle, µs | expedited, idle (o) and busy (x), 1 µs to 10 ms |"
    );
    println!("|---:|---:|---:|---:|---|");
    for nr_cpus in (0..12).map(|power| 1 << power) {
        let idle = median_us(nr_cpus, SyncCallKind::Expedited, false)?;
        let busy = median_us(nr_cpus, SyncCallKind::Expedited, true)?;
        let normal = median_us(nr_cpus, SyncCallKind::Sync, false)?;
        let mut bar = vec![b'.'; 41];
        for (us, mark) in [(busy, b'x'), (idle, b'o')] {
            bar[(us.log10() * 10.0).round().clamp(0.0, 40.0) as usize] = mark;
        }
        let bar = String::from_utf8(bar).expect("ASCII");
        println!("| {nr_cpus} | {idle:.1} | {busy:.1} | {normal:.0} | `{bar}` |");
    }
    Ok(())
}
