//! What a flood costs the simulator: CPU time per virtual second and memory, against machine size.
//!
//! `cargo bench --bench flood` prints
//!   1. the reference flood: 2048 CPUs, 60,000 tasks in a loop, HZ=250, newest era; what was done per
//!      virtual second is printed beside the time, so that a cheaper run is seen to be the same run;
//!   2. how CPU time grows with CPUs and with tasks;
//!   3. how peak memory grows with CPUs and with tasks when only the distribution is kept.
//!
//! Each line is a process of its own (memory is the operating system's peak for that process). Times
//! are CPU times; on a noisy machine compare medians, which are what is shown.

use std::process::Command;
use treercu::config::Config;
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Keep;
use treercu::workload::{SyncFlood, Workload};

/// One flood in this process; prints its figures as one line.
fn one(cpus: i64, tasks: u64, virtual_ms: u64) {
    let config = Config::new()
        .with("nr_cpus", cpus)
        .and_then(|c| c.with("hz", 250))
        .expect("valid");
    let flood = SyncFlood {
        tasks,
        calls: 0,
        duration_ns: virtual_ms * 1_000_000,
        ..SyncFlood::default()
    };
    let options = RunOptions {
        keep: Keep::Histogram,
        ..RunOptions::default()
    };
    let work: Workload = flood.into();
    let run = simulate(
        &config,
        &Machine::default(),
        &work,
        1,
        &options,
        &Control::default(),
    )
    .expect("runs");
    let simulated = run.simulated().expect("simulated");
    let seconds = simulated.virtual_ns as f64 / 1e9;
    let rate = |count: u64| count as f64 / seconds;
    println!(
        "{} {} {} {} {} {} {} {}",
        run.cpu_ns as f64 / 1e9 / seconds,
        rate(run.calls()),
        rate(run.counters.grace_periods),
        rate(run.counters.wakeups),
        rate(run.counters.ticks),
        rate(simulated.events),
        peak_kb(),
        run.digest()
    );
}

/// Peak resident memory of this process, KiB (Linux; 0 elsewhere).
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

struct Figures {
    /// cpu s, calls, grace periods, wake-ups, ticks, events (all per virtual second), peak KiB.
    values: Vec<f64>,
    digest: String,
}

/// `repeats` processes; the one with the median CPU time.
fn measure(cpus: i64, tasks: u64, virtual_ms: u64, repeats: usize) -> Figures {
    let me = std::env::current_exe().expect("own path");
    let mut all: Vec<Figures> = (0..repeats)
        .map(|_| {
            let args = [
                "one".to_string(),
                cpus.to_string(),
                tasks.to_string(),
                virtual_ms.to_string(),
            ];
            let output = Command::new(&me).args(args).output().expect("starts");
            let text = String::from_utf8(output.stdout).expect("text");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(
                output.status.success() && words.len() == 8,
                "{text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Figures {
                values: words[..7]
                    .iter()
                    .map(|word| word.parse().expect("a number"))
                    .collect(),
                digest: words[7].to_string(),
            }
        })
        .collect();
    assert!(
        all.windows(2).all(|pair| pair[0].digest == pair[1].digest),
        "equal seeds, equal bytes"
    );
    all.sort_by(|a, b| a.values[0].total_cmp(&b.values[0]));
    all.swap_remove(repeats / 2)
}

fn row(cpus: i64, tasks: u64, f: &Figures) {
    let v = &f.values;
    println!(
        "{cpus:6} {tasks:7} {:10.4} {:11.0} {:7.1} {:10.0} {:9.0} {:10.0} {:9.1}",
        v[0],
        v[1],
        v[2],
        v[3],
        v[4],
        v[5],
        v[6] / 1024.0
    );
}

fn head() {
    println!("  CPUs   tasks  CPU s/v-s     calls/s    GP/s  wakeups/s   ticks/s   events/s  peak MiB");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [mode, cpus, tasks, ms] = &args[..]
        && mode == "one"
    {
        return one(
            cpus.parse().expect("CPUs"),
            tasks.parse().expect("tasks"),
            ms.parse().expect("ms"),
        );
    }
    println!("Reference flood (median of 5): at most 3 CPU seconds per virtual second, goal 1.5");
    head();
    let reference = measure(2048, 60_000, 1000, 5);
    row(2048, 60_000, &reference);
    println!("digest {}", reference.digest);

    println!("\nHow cost grows with CPUs (1,000 tasks, median of 3)");
    head();
    for cpus in [1, 4, 16, 64, 256, 1024, 2048, 4096] {
        row(cpus, 1000, &measure(cpus, 1000, 1000, 3));
    }
    println!("\nHow cost grows with tasks (2048 CPUs, median of 3)");
    head();
    for tasks in [1, 10, 100, 1000, 10_000, 60_000] {
        row(2048, tasks, &measure(2048, tasks, 1000, 3));
    }

    let peak = |cpus, tasks| measure(cpus, tasks, 1000, 3).values[6] * 1024.0;
    let per_cpu = (peak(2048, 1000) - peak(64, 1000)) / (2048.0 - 64.0);
    let per_task = (peak(2048, 60_000) - peak(2048, 1000)) / 59_000.0;
    println!(
        "\nPeak memory, only the distribution kept: {per_cpu:.0} bytes per CPU (64 to 2048; limit 1024),"
    );
    println!("{per_task:.0} bytes per task (1,000 to 60,000 on 2048 CPUs; limit 200)");
}
