use treercu::{config::Config, sim::*, workload::*};
fn main() {
    let cpus: i64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let tasks: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let ms: u64 = std::env::args().nth(3).unwrap().parse().unwrap();
    let cfg = Config::new()
        .with("nr_cpus", cpus)
        .unwrap()
        .with("hz", 250)
        .unwrap();
    let w: Workload = SyncFlood {
        tasks,
        calls: 0,
        duration_ns: ms * 1_000_000,
        ..SyncFlood::default()
    }
    .into();
    let run = simulate(
        &cfg,
        &Machine::default(),
        &w,
        1,
        &RunOptions::default(),
        &Control::default(),
    )
    .unwrap();
    let simulated = run.simulated().expect("simulated");
    let v = simulated.virtual_ns as f64 / 1e9;
    println!(
        "cpus {cpus} tasks {tasks}: {:.3} s cpu / virtual s ; per virtual s: calls {:.0} gps {:.1} wakeups {:.0} ticks {:.0} switches {:.0} events {:.0}; p50 {:.1} ms",
        run.cpu_ns as f64 / 1e9 / v,
        run.samples.len() as f64 / v,
        run.counters.grace_periods as f64 / v,
        run.counters.wakeups as f64 / v,
        run.counters.ticks as f64 / v,
        run.counters.context_switches as f64 / v,
        simulated.events as f64 / v,
        run.quantile(0.5).map(|x| x as f64 / 1e6).unwrap_or(0.0)
    );
}
