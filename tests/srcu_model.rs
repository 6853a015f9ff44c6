//! How long SRCU takes on a simulated machine, each figure derived by hand from the machine's costs.

use treercu::config::Config;
use treercu::sim::{Control, Machine, Observer, RunOptions, Sight, SrcuSight, simulate, simulate_observed};
use treercu::srcu::Flavour;
use treercu::stats::Run;
use treercu::tree::Snapshot;
use treercu::workload::{Length, Placement, SrcuCallKind, SrcuFlood, Workload};

const TICK: u64 = 1_000_000;

fn quiet() -> Machine {
    Machine {
        noise: 0.0,
        gp_kthread_cpu: 0,
        ..Machine::default()
    }
}

fn config(nr_cpus: u32, settings: &[(&str, i64)]) -> Config {
    Config::new()
        .with("nr_cpus", nr_cpus)
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.replace(settings.iter().copied()))
        .expect("valid")
}

fn run(config: &Config, workload: impl Into<Workload>, seed: u64) -> Run {
    simulate(
        config,
        &quiet(),
        &workload.into(),
        seed,
        &RunOptions::default(),
        &Control::default(),
    )
    .expect("runs")
}

/// One updater on CPU 1; the boot CPU, whose callbacks a small domain uses, is 0.
fn one(kind: SrcuCallKind, calls: u64) -> SrcuFlood {
    SrcuFlood {
        kind,
        calls,
        placement: Placement::Cpu(1),
        think_ns: 5_000_000,
        ..SrcuFlood::default()
    }
}

/// An interrupt that wakes a task on an idle CPU: flight, idle exit, handler, switch out of idle.
fn wake_idle(m: &Machine) -> u64 {
    m.ipi_ns + m.idle_exit_ns + m.ipi_handler_ns + m.switch_ns + m.idle_switch_ns
}

/// One zero test of a normal domain: two sums and the barrier between them.
fn zero_test(m: &Machine, cpus: u64) -> u64 {
    2 * cpus * m.srcu_counter_ns + m.full_barrier_ns
}

/// From the first test to the wake-up of whoever invokes the callbacks: two tests, the flip with its two barriers, the
/// end, the wake-up.
fn tests_and_end(m: &Machine, cpus: u64) -> u64 {
    2 * zero_test(m, cpus) + 2 * m.full_barrier_ns + m.node_ns + m.wake_ns
}

#[test]
fn at_rest_it_takes_two_dispatches_and_two_zero_tests() {
    let m = quiet();
    for cpus in [2u64, 4, 16, 64] {
        // The caller: the call, the barrier at the start, the way in; then it goes to sleep. The interrupt that queues
        // the work arrives meanwhile, and is served out of idle.
        let asleep = m.srcu_call_ns + m.full_barrier_ns + m.sync_entry_ns + m.switch_ns + m.idle_switch_ns;
        assert!(
            m.srcu_call_ns + m.full_barrier_ns + m.ipi_ns < asleep,
            "it comes before the CPU is idle"
        );
        let queued = asleep + m.idle_exit_ns + m.irq_ns + m.wake_ns;
        // First dispatch: to a worker on the same CPU.
        let worker = queued + m.switch_ns + m.idle_switch_ns;
        let callbacks = worker + tests_and_end(&m, cpus);
        // Second dispatch: to a worker on the boot CPU, which invokes the callback that wakes the caller on its own CPU.
        let invoked = callbacks + wake_idle(&m) + m.cb_invoke_ns + m.wake_ns;
        let expected = invoked + wake_idle(&m);
        for (kind, settings) in [
            (SrcuCallKind::Sync, &[][..]),
            (SrcuCallKind::Expedited, &[("exp_holdoff", 0)][..]),
        ] {
            let run = run(&config(cpus as u32, settings), one(kind, 20), 1);
            // A tick that gets in the way adds its handlers.
            let tick = m.tick_handler_ns + m.timer_softirq_ns + m.rcu_softirq_ns + m.idle_exit_ns;
            let latencies = &run.samples.latency_ns;
            let exact = latencies.iter().filter(|&&ns| ns as u64 == expected).count();
            assert!(
                exact >= 18,
                "{kind:?}, {cpus} CPUs: {expected} expected, {latencies:?}"
            );
            assert!(
                latencies
                    .iter()
                    .all(|&ns| (expected..=expected + tick).contains(&(ns as u64)))
            );
            assert_eq!(run.counters.srcu_expedited, 20);
            assert_eq!(run.counters.srcu_zero_tests, 40);
            assert_eq!(run.counters.srcu_work_runs, 20);
        }
        println!("{cpus} CPUs: {expected} ns");
    }
}

/// Not expedited: a timer of one jiffy armed in jiffy j fires in the tick of j + 2, since the wheel rounds past the
/// bucket. One such for the work, one for the callbacks: the call returns just behind the tick of j + 4.
#[test]
fn a_normal_one_takes_two_timers_of_a_jiffy() {
    let m = quiet();
    for cpus in [2u32, 4, 16] {
        let run = run(
            &config(cpus, &[("exp_holdoff", 0)]),
            one(SrcuCallKind::Sync, 50),
            3,
        );
        for (start, end) in run.samples.start_ns.iter().zip(&run.samples.end_ns) {
            let (start, end) = (*start as u64, *end as u64);
            assert_eq!(end / TICK, start / TICK + 4, "{start} to {end}");
            // Behind the second timer's tick: the handlers, a dispatch, a callback, two wake-ups.
            let handlers = m.idle_exit_ns + m.tick_handler_ns + m.timer_softirq_ns + m.wake_ns;
            let most = handlers + 3 * wake_idle(&m) + m.cb_invoke_ns + m.wake_ns;
            assert!(
                end % TICK <= most,
                "{} ns behind the tick, {most} at most",
                end % TICK
            );
        }
        assert_eq!(run.counters.srcu_expedited, 0);
        assert_eq!(run.counters.srcu_work_runs, 50);
    }
}

/// Within the hold-off behind a grace period `synchronize_srcu()` is a normal one, and after it an expedited one.
#[test]
fn the_holdoff_decides() {
    let calls = 40;
    // From the end of an expedited grace period to the next call: a dispatch, a callback, a wake-up, the caller's gap,
    // together 16.6 us, and the think time.
    for (holdoff_us, think_us, expedited) in
        [(25, 10, true), (25, 5, false), (100, 80, false), (100, 90, true)]
    {
        let flood = SrcuFlood {
            think_ns: think_us * 1000,
            ..one(SrcuCallKind::Sync, calls)
        };
        let run = run(&config(4, &[("exp_holdoff", holdoff_us * 1000)]), flood, 1);
        let auto = run.counters.srcu_auto_expedited;
        // A normal one returns long after its grace period ended, so the call behind it is expedited again.
        let expected = if expedited { calls } else { calls / 2 };
        assert_eq!(auto, expected, "{holdoff_us} {think_us}");
    }
}

/// When the domain's grace periods begin and end, and when its readers leave.
#[derive(Default)]
struct Times {
    gps: Vec<(u64, u64)>,
    enters: Vec<u64>,
    exits: Vec<u64>,
}

impl Observer for Times {
    fn see(&mut self, at_ns: u64, sight: Sight, _snapshot: &dyn Fn() -> Snapshot) {
        let Sight::Srcu { sight, .. } = sight else { return };
        match sight {
            SrcuSight::GpBegin { .. } => self.gps.push((at_ns, 0)),
            SrcuSight::GpEnd { .. } => self.gps.last_mut().expect("it began").1 = at_ns,
            SrcuSight::Enter { .. } => self.enters.push(at_ns),
            SrcuSight::Exit { .. } => self.exits.push(at_ns),
            _ => {}
        }
    }
}

fn timed(config: &Config, flood: SrcuFlood, seed: u64) -> (Times, Run) {
    let mut times = Times::default();
    let run = simulate_observed(
        config,
        &quiet(),
        &flood.into(),
        seed,
        &RunOptions::default(),
        &Control::default(),
        &mut times,
    )
    .expect("runs");
    (times, run)
}

/// One reader that stays for `section`, and calls of the updater, all on CPUs of their own.
fn with_reader(kind: SrcuCallKind, section: u64) -> SrcuFlood {
    SrcuFlood {
        readers: 1,
        section: Length::Fixed(section),
        gap: Length::Fixed(7_000_000),
        placement: Placement::Spread,
        ..one(kind, 30)
    }
}

/// Looks come at most so long behind their tick: handlers, a dispatch, a test.
const BEHIND_TICK: u64 = 30_000;

/// The jiffies in which a normal grace period looks, with the wheel's rounding: the delay is the age, 1 at least and 10 at
/// most, and a timer of d fires d + 1 ticks on. It ends in the first look behind the reader's end.
fn end_of_normal(begin: u64, left: u64) -> u64 {
    let start = begin / TICK;
    let mut look = start + 2;
    loop {
        if look * TICK > left {
            return look;
        }
        look += (look - start).clamp(1, 10) + 1;
    }
}

#[test]
fn a_normal_one_looks_after_as_long_as_it_is_old() {
    for section_ms in [1, 3, 9, 20, 60, 200] {
        let (times, run) = timed(
            &config(4, &[("exp_holdoff", 0)]),
            with_reader(SrcuCallKind::Sync, section_ms * TICK),
            section_ms,
        );
        let mut waited = 0;
        for &(begin, end) in &times.gps {
            // The reader that was there when it began.
            let index = times.enters.iter().rposition(|&enter| enter <= begin);
            let left = index.map_or(0, |i| times.exits.get(i).copied().unwrap_or(u64::MAX));
            // Whoever leaves while the look is on its way may be seen or not.
            if left <= begin || left % TICK < BEHIND_TICK {
                continue;
            }
            waited += 1;
            assert_eq!(
                end / TICK,
                end_of_normal(begin, left),
                "{section_ms} ms: began at {begin}, reader left at {left}, ended at {end}"
            );
        }
        println!(
            "{section_ms} ms: {waited} of {} grace periods waited, {} runs",
            times.gps.len(),
            run.counters.srcu_work_runs
        );
        assert!(waited >= 2);
    }
}

/// An expedited one with a reader of less than a jiffy looks again every few µs: the busy-wait and one test, or the end of
/// a run and the dispatch of the next. So it ends within one such round of the reader's end, and the test itself.
#[test]
fn an_expedited_one_follows_a_short_reader_closely() {
    let m = quiet();
    let cpus = 4;
    for section in [50_000, 200_000, 700_000] {
        let flood = SrcuFlood {
            gap: Length::Exponential(50_000),
            think_ns: 90_000,
            calls: 200,
            ..with_reader(SrcuCallKind::Expedited, section)
        };
        let (times, _) = timed(&config(cpus, &[]), flood, 1);
        let spin = 5_000;
        let round = spin.max(m.work_item_ns + m.wake_ns + m.switch_ns + 2 * m.idle_switch_ns)
            + zero_test(&m, u64::from(cpus));
        let tick = m.tick_handler_ns + m.timer_softirq_ns;
        let most = round + zero_test(&m, u64::from(cpus)) + tick;
        let mut waited = 0;
        for &(begin, end) in &times.gps {
            let index = times.enters.iter().rposition(|&enter| enter <= begin);
            // Behind the first look: the interrupt that queues the work, and a dispatch.
            let first = begin
                + m.ipi_ns
                + m.idle_exit_ns
                + m.irq_ns
                + m.wake_ns
                + 2 * (m.switch_ns + m.idle_switch_ns);
            let Some(left) = index
                .and_then(|i| times.exits.get(i).copied())
                .filter(|&left| left > first)
            else {
                continue;
            };
            waited += 1;
            assert!(
                end >= left && end - left <= most,
                "{section}: {} ns behind the reader, {most} at most",
                end - left
            );
        }
        assert!(waited >= 10, "{waited}");
    }
}

/// Two evaluations a run, so a budget of n evaluations allows about n / 2 runs without delay, and then jiffies.
#[test]
fn haste_is_limited_by_phase_and_by_jiffy() {
    let runs = |settings: &[(&str, i64)]| {
        let (times, run) = timed(
            &config(4, settings),
            with_reader(SrcuCallKind::Expedited, 900_000),
            2,
        );
        let slow = times
            .gps
            .iter()
            .filter(|(begin, end)| end / TICK > begin / TICK + 1)
            .count();
        (run.counters.srcu_work_runs, slow)
    };
    let (free, _) = runs(&[]);
    let (phase, slow) = runs(&[("srcu_max_nodelay_phase", 3)]);
    let (jiffy, slow_by_jiffy) = runs(&[("srcu_max_nodelay", 1)]);
    println!("runs: {free} free, {phase} by phase ({slow} slow), {jiffy} by jiffy ({slow_by_jiffy} slow)");
    assert!(free > 4 * phase && free > 4 * jiffy);
    assert!(slow > 0 && slow_by_jiffy > 0, "those went on in jiffies");
}

/// Fast and light domains: one RCU grace period a zero test, of the kind that matches.
#[test]
fn fast_domains_pay_two_rcu_grace_periods() {
    for flavour in [Flavour::Fast, Flavour::FastUpdown, Flavour::Light] {
        let flood = |kind| SrcuFlood {
            flavour,
            ..one(kind, 10)
        };
        let normal = run(&config(4, &[]), flood(SrcuCallKind::Sync), 1);
        assert_eq!(normal.counters.srcu_auto_expedited, 0);
        assert_eq!(normal.counters.srcu_grace_periods, 10);
        assert_eq!(normal.counters.grace_periods, 20);
        let hurried = run(&config(4, &[]), flood(SrcuCallKind::Expedited), 1);
        assert_eq!(hurried.counters.expedited_grace_periods, 20);
        assert_eq!(hurried.counters.grace_periods, 0);
        let (slow, quick) = (normal.quantile(0.5).unwrap(), hurried.quantile(0.5).unwrap());
        println!("{flavour:?}: {slow} ns, expedited {quick} ns");
        // A timer of a jiffy fires in the second tick, a grace period on an idle machine takes 3 + 1 ticks (direct wake):
        // 2 + 4 + 4 + 2.
        for (start, end) in normal.samples.start_ns.iter().zip(&normal.samples.end_ns) {
            assert_eq!(*end as u64 / TICK, *start as u64 / TICK + 12);
        }
        // What a normal domain takes, and two of RCU's, which cost little on four idle CPUs.
        assert!((quick as u64) < 40_000);
    }
}

/// Growing: with the same contention a domain that may grow spreads its callbacks over CPUs.
#[test]
fn contention_makes_a_domain_grow() {
    let flood = SrcuFlood {
        tasks: 64,
        calls: 200,
        kind: SrcuCallKind::Call,
        ..SrcuFlood::default()
    };
    let busy = |settings: &[(&str, i64)]| run(&config(16, settings), flood.clone(), 1);
    let never = busy(&[("convert_to_big", 0)]);
    let grows = busy(&[("small_contention_lim", 5)]);
    let at_once = busy(&[("convert_to_big", 1)]);
    assert_eq!(never.calls(), 12_800);
    let digests: std::collections::BTreeSet<_> = [&never, &grows, &at_once].map(Run::digest).into();
    assert_eq!(digests.len(), 3);
}
