//! Latencies of expedited calls, each figure derived by hand from the machine's costs.
//!
//! The caller's part: entry E = `sync_entry_ns`, the start G = `gp_fixed_ns`; the reset of i inner nodes
//! i·N with N = `node_ns`; each leaf N + c·S with its c CPUs and S = `scan_cpu_ns`; the end N. Nobody else
//! is involved where everybody is idle, so with 32 CPUs below two leaves and a root an idle machine takes
//!
//! E + G + N + 2·(N + 16·S) + N = 500 + 1000 + 150 + 2·790 + 150 = 3380 ns.
//!
//! With somebody to wait for, the interrupts leave when their leaf has been looked at, fly for
//! `ipi_ns` and are handled at once by a busy CPU; the handler that empties the root wakes the caller
//! (`wake_ns`), whose CPU has gone idle meanwhile.

use treercu::config::{Config, Value};
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Run;
use treercu::workload::{CpuLoad, Cpus, Length, Mode, Placement, Readers, SyncCallKind, SyncFlood, Workload};

const ENTRY: i64 = 500;
const START: i64 = 1_000;
const NODE: i64 = 150;
const CPU: i64 = 40;

fn quiet() -> Machine {
    Machine {
        noise: 0.0,
        gp_kthread_cpu: 0,
        ..Machine::default()
    }
}

fn config(pairs: &[(&str, i64)]) -> Config {
    Config::from_pairs(pairs.iter().map(|&(name, value)| (name, Value::Int(value)))).expect("valid")
}

fn run(config: &Config, machine: &Machine, workload: impl Into<Workload>) -> Run {
    let (options, control) = (RunOptions::default(), Control::default());
    simulate(config, machine, &workload.into(), 1, &options, &control).expect("runs")
}

/// One caller on CPU 1, far enough between its calls for its CPU to be idle again.
fn expedited(calls: u64) -> SyncFlood {
    SyncFlood {
        calls,
        think_ns: 1_000_000,
        kind: SyncCallKind::Expedited,
        placement: Placement::Cpu(1),
        ..SyncFlood::default()
    }
}

/// CPUs below leaves of 16 and inner nodes that reach over them all.
fn idle_ns(cpus: i64, leaves: i64, inner: i64) -> i64 {
    ENTRY + START + inner * NODE + leaves * NODE + cpus * CPU + NODE
}

#[test]
fn an_idle_machine_takes_the_callers_own_time_and_no_interrupt() {
    assert_eq!(idle_ns(32, 2, 1), 3_380);
    // A single node is a leaf; 2048 CPUs have 128 leaves below two nodes and a root.
    for (cpus, leaves, inner) in [(1, 1, 0), (16, 1, 0), (32, 2, 1), (64, 4, 1), (2048, 128, 3)] {
        let placement = Placement::Cpu(if cpus == 1 { 0 } else { 1 });
        let flood = SyncFlood {
            placement,
            ..expedited(10)
        };
        let result = run(&config(&[("nr_cpus", cpus), ("hz", 1000)]), &quiet(), flood);
        let expected = idle_ns(cpus, leaves, inner);
        println!("{cpus:5} CPUs: {:?} ns", &result.samples.latency_ns[..3]);
        // A tick of the caller's own CPU may fall into a long one.
        let exact = result
            .samples
            .latency_ns
            .iter()
            .filter(|&&ns| ns == expected)
            .count();
        assert!(
            exact >= 8,
            "{cpus} CPUs: {:?}, not {expected}",
            result.samples.latency_ns
        );
        assert_eq!(result.quantile(0.0).expect("calls"), expected, "{cpus} CPUs");
        assert_eq!(
            (
                result.counters.expedited_grace_periods,
                result.counters.grace_periods
            ),
            (10, 0)
        );
        // A sleep ends by an interrupt of another kind; what is counted is what CPUs send each other.
        assert_eq!(result.counters.ipis, 0, "{cpus} CPUs");
        // Its own numbers: 1, 5, 9 …
        assert_eq!(
            result.samples.gp_seq,
            (0..10).map(|i| 4 * i + 1).collect::<Vec<i64>>()
        );
    }
}

/// One CPU is busy in preemptible code. 16 CPUs, one leaf: the interrupt leaves when the leaf has been looked
/// at, E + G + N + 16·S, and the caller blocks at the same moment. Flight, handler and wake-up take 1.2 + 0.3 +
/// 0.3 = 1.8 µs; by then the caller's CPU is still switching to idle (1.2 + 0.8 = 2 µs), so that the wake-up
/// finds the CPU idle for the scheduler and interrupts it too. It goes straight back, another 2 µs; behind that
/// the waker's interrupt is handled (0.3 µs); then the end, N. Two interrupts a call.
#[test]
fn one_busy_cpu_costs_one_interrupt() {
    let m = quiet();
    let away_and_back = 2 * (m.switch_ns + m.idle_switch_ns) as i64;
    let expected = ENTRY + START + NODE + 16 * CPU + away_and_back + m.ipi_handler_ns as i64 + NODE;
    assert_eq!(expected, 6_740);
    for mode in [Mode::User, Mode::Kernel] {
        let busy = CpuLoad {
            cpus: Cpus::List(vec![5]),
            mode,
            ..CpuLoad::default()
        };
        let cfg = config(&[("nr_cpus", 16), ("hz", 100)]);
        let result = run(&cfg, &m, Workload::from(expedited(10)).and(busy));
        assert_eq!(result.samples.latency_ns, [expected; 10], "{mode:?}");
        assert_eq!(result.counters.expedited_grace_periods, 10);
        // One more when the load was started.
        assert_eq!(result.counters.ipis, 2 * 10 + 1, "{mode:?}");
    }
}

/// Every CPU of the machine busy: the interrupts go out leaf by leaf, and the last leaf's come last. 63 of
/// them, no scan, no tick of waiting: tens of µs.
#[test]
fn a_busy_machine_takes_tens_of_microseconds() {
    let cfg = config(&[("nr_cpus", 64), ("hz", 1000)]);
    let result = run(
        &cfg,
        &quiet(),
        Workload::from(expedited(200)).and(CpuLoad::default()),
    );
    let p50 = result.quantile(0.5).expect("calls");
    println!(
        "64 busy CPUs: median {p50} ns, max {} ns",
        result.quantile(1.0).expect("calls")
    );
    assert!(idle_ns(64, 4, 1) + 1_500 < p50 && p50 < 50_000, "{p50}");
    assert!(result.counters.ipis >= 200 * 63);
    let normal = SyncFlood {
        kind: SyncCallKind::Sync,
        ..expedited(20)
    };
    let slow = run(&cfg, &quiet(), Workload::from(normal).and(CpuLoad::default()));
    assert!(slow.quantile(0.5).expect("calls") > 50 * p50);
}

/// A reader runs sections of T = 3 ms back to back (a gap of 2 ns). A call returns just behind the end of a
/// section; the next one comes think time and wake-up later (idle exit, timer interrupt, wake, switch: 2 + 0.5 +
/// 0.3 + 2 µs), inside the next section, and returns equally just behind that one's end: it has waited for the
/// rest, T + 2 ns − 1 ms − 4.8 µs, and for what interrupts added to the section: its own 0.3 µs, and a tick
/// (1.5 µs, 0.7 more with the RCU softirq). Without preemption the report comes with the switch that the
/// interrupt asked for, 2 µs behind the section.
#[test]
fn a_reader_in_progress_is_waited_for_to_its_end_and_no_longer() {
    let m = quiet();
    let section_ns = 3_000_000;
    let woken_ns = m.idle_exit_ns + m.irq_ns + m.wake_ns + m.switch_ns + m.idle_switch_ns;
    let rest = section_ns + 2 - 1_000_000 - woken_ns as i64;
    assert_eq!(rest, 1_995_202);
    for preempt in ["full", "none"] {
        let cfg = config(&[("nr_cpus", 4), ("hz", 250)])
            .with("preempt", preempt)
            .expect("valid");
        let reader = Readers {
            tasks: 1,
            section: Length::Fixed(section_ns as u64),
            gap: Length::Fixed(2),
            placement: Placement::Cpu(3),
            ..Readers::default()
        };
        let result = run(&cfg, &m, Workload::from(expedited(100)).and(reader));
        let rests = &result.samples.latency_ns[1..];
        let (min, max) = (
            *rests.iter().min().expect("calls"),
            *rests.iter().max().expect("calls"),
        );
        println!("{preempt}: {min} to {max} ns, the rest of the section is {rest}");
        assert!(
            rest <= min && max <= rest + 300 + 2_200 + 2_000,
            "{preempt}: {min} to {max}"
        );
    }
}

/// A CPU that stays in the kernel for 20 s stalls a normal and an expedited call alike. Both are reported, with
/// the CPU's name, and the reports are part of the run.
#[test]
fn stalls_are_counted_and_kept() {
    let cfg = config(&[
        ("nr_cpus", 2),
        ("hz", 100),
        ("rcu_cpu_stall_timeout", 3),
        ("rcu_exp_cpu_stall_timeout", 1000),
    ]);
    let held = CpuLoad {
        cpus: Cpus::List(vec![1]),
        mode: Mode::Kernel,
        section_ns: 20_000_000_000,
        gap_ns: 1_000_000,
        ..CpuLoad::default()
    };
    let caller = |kind| SyncFlood {
        calls: 1,
        kind,
        start_skew_ns: 50_000_000,
        placement: Placement::Cpu(0),
        ..SyncFlood::default()
    };
    let both = Workload::from(caller(SyncCallKind::Expedited))
        .and(caller(SyncCallKind::Sync))
        .and(held);
    let result = run(&cfg, &quiet(), both);
    let (mut normal, mut expedited) = (Vec::new(), Vec::new());
    for stall in &result.stalls {
        let report = &stall.report;
        println!("{:>14} {report}", stall.at_ns);
        let named = (report.cpus.as_slice(), report.readers.as_slice());
        assert_eq!(named, (&[1][..], &[][..]));
        if report.expedited {
            expedited.push(report.waited_jiffies);
        } else {
            normal.push(report.waited_jiffies);
        }
    }
    // The tick of the CPU itself: 3 s, then every 9 s and 3 jiffies.
    assert_eq!(normal, [300, 300 + 903]);
    // The driver's timer wheel: 1 s, then every 3 s and 3 jiffies, each rounded up past a bucket of 8 jiffies.
    assert_eq!(expedited.len(), 7, "{expedited:?}");
    let steps = expedited.windows(2).map(|pair| (303, pair[1] - pair[0]));
    for (asked, took) in std::iter::once((100, expedited[0])).chain(steps) {
        assert!(
            asked < took + 1 && took <= asked + 8,
            "{asked} jiffies took {took}"
        );
    }
    assert_eq!(result.counters.stalls, 2 + 7);
    // The section's end, at 20 s, ends both.
    let ends = &result.samples.end_ns;
    assert!(
        ends.iter()
            .all(|ns| (20_000_000_000..20_100_000_000).contains(ns)),
        "{ends:?}"
    );
}

/// Two readers share a CPU, in long slices: the one that is preempted inside its section holds an expedited
/// grace period that its CPU has answered long ago. Tasks are numbered from 2 (after the kthread and the worker)
/// in the order of the parts.
#[test]
fn a_blocked_reader_is_named() {
    let cfg = config(&[("nr_cpus", 2), ("hz", 1000), ("rcu_exp_cpu_stall_timeout", 20)]);
    let m = Machine {
        slice_ns: 500_000_000,
        ..quiet()
    };
    let readers = Readers {
        tasks: 2,
        section: Length::Fixed(700_000_000),
        gap: Length::Fixed(1),
        placement: Placement::Cpu(1),
        ..Readers::default()
    };
    let busy = CpuLoad {
        cpus: Cpus::List(vec![0]),
        ..CpuLoad::default()
    };
    let flood = SyncFlood {
        placement: Placement::Cpu(0),
        ..expedited(3)
    };
    let result = run(&cfg, &m, Workload::from(flood).and(readers).and(busy));
    let blocked: Vec<&[u64]> = result
        .stalls
        .iter()
        .filter(|stall| stall.report.cpus.is_empty())
        .map(|stall| stall.report.readers.as_slice())
        .collect();
    assert!(!blocked.is_empty());
    assert!(blocked[0].len() == 1 && blocked.iter().all(|ids| ids.iter().all(|id| [3, 4].contains(id))));
    let text = result.stalls[0].report.to_string();
    assert!(
        text.starts_with("rcu: stall: expedited grace period 1 has waited "),
        "{text}"
    );
}

/// The reason to have them: 3.38 µs on 32 idle CPUs, where a normal call waits for ticks, 3 jiffies and more of 1 ms.
#[test]
fn on_an_idle_machine_an_expedited_call_is_two_orders_faster_than_a_normal_one() {
    let config = config(&[("nr_cpus", 32), ("hz", 1000)]);
    let fast = run(&config, &quiet(), expedited(20))
        .quantile(0.5)
        .expect("calls");
    let normal = SyncFlood {
        kind: SyncCallKind::Sync,
        ..expedited(20)
    };
    let slow = run(&config, &quiet(), normal).quantile(0.5).expect("calls");
    assert!(fast < 100_000, "{fast} ns");
    assert!(slow > 3_000_000 && slow > 100 * fast, "{slow} ns to {fast} ns");
}
