//! rcutorture's model: what is broken fails, by the counter that is there for it, and nothing else does.
//!
//! Real threads and real time, so these assert verdicts and bounds, never figures; the simulated world's
//! tests assert that the same seed gives the same counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use treercu::error::{Error, Result};
use treercu::host::{Engine, FenceMode, Options, ParkMode};
use treercu::sim::Control;
use treercu::torture::host::trivial::{Trivial, TrivialSession};
use treercu::torture::host::{Callback, Session, Subject, torture};
use treercu::torture::{
    Flavour, GpKind, Plan, Report, SCENARIOS, Scenario, Verdict, World, run, torture_simulated,
};

/// No error, and enough of everything happened.
fn passes(scenario: &str, seconds: f64, world: World) -> Report {
    passes_when(scenario, seconds, world, |_| true)
}

fn passes_when(scenario: &str, seconds: f64, world: World, enough: impl Fn(&Report) -> bool) -> Report {
    let run = |seconds| run(scenario, seconds, world, 1, &Control::default()).unwrap();
    let report = until(seconds, world, run, |report| {
        report.counters.barrier.successes > 0 && enough(report)
    });
    assert!(report.text.contains("-torture: skipped: "));
    report
}

/// How much happens in so many seconds of real time is up to the machine and whatever else it does: where it was too
/// little, the run is made again, twice as long. An error ends it at once.
fn until(
    seconds: f64,
    world: World,
    run: impl Fn(f64) -> Report,
    enough: impl Fn(&Report) -> bool,
) -> Report {
    let longest = match world {
        World::Host => 32.0 * seconds,
        World::Sim => seconds,
    };
    let mut length = seconds;
    loop {
        let report = run(length);
        assert_eq!(report.verdict, Verdict::Success, "{}", report.text);
        assert_eq!(report.errors(), 0);
        let counters = &report.counters;
        let (writes, reads) = (
            counters.ver > 20 && counters.rtf > 0,
            counters.reader_pipe[0] > 100,
        );
        if writes && reads && enough(&report) {
            return report;
        }
        assert!(
            length < longest,
            "too little happened in {length} s: {}",
            report.text
        );
        length *= 2.0;
    }
}

// The simulated world.

#[test]
fn every_scenario_passes_in_the_simulated_world() {
    for scenario in SCENARIOS {
        if scenario.name == "TRIVIAL" || scenario.name == "BUSTED" {
            continue;
        }
        let report = passes(scenario.name, 5.0, World::Sim);
        let onoff = report.counters.online.successes + report.counters.offline.successes;
        assert_eq!(onoff > 0, scenario.onoff.is_some(), "{}", report.text);
        let rounds = report.counters.fwd_progress.nr_rounds * report.counters.fwd_progress.cr_rounds;
        assert_eq!(rounds > 0, scenario.fwd_progress > 0, "{}", report.text);
    }
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let text = |seed| {
        run("TREE03", 2.0, World::Sim, seed, &Control::default())
            .unwrap()
            .text
    };
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
    assert!(text(7).contains(" seed=7 "));
}

#[test]
fn a_stall_is_injected_where_there_is_time_for_it() {
    let mut plan = Plan::new(Scenario::named("TREE07").unwrap(), 10.0, World::Sim, 1, 2).unwrap();
    plan.stat_ns = 1_000_000_000;
    let report = torture_simulated(plan, &Control::default()).unwrap();
    assert_eq!(report.verdict, Verdict::Success, "{}", report.text);
    assert!(report.text.contains(" stall_cpu=4 "));
    assert!(report.counters.stalls > 0, "and it was reported");
    let stuck = report.text.matches("??? Writer stall state RTWS_").count();
    assert!(
        (2..=4).contains(&stuck),
        "four seconds without an element: {}",
        report.text
    );
    let report = passes("TREE07", 5.0, World::Sim);
    assert!(
        report
            .skipped
            .iter()
            .any(|skipped| skipped.name == "stall_cpu=14")
    );
}

// The engine on real threads.

#[test]
fn tree01() {
    on_host("TREE01");
}

#[test]
fn tree03() {
    on_host("TREE03");
}

#[test]
fn tree07() {
    on_host("TREE07");
}

#[test]
fn idle() {
    on_host("IDLE");
}

/// Without the system's help: readers pay for their own fences, threads block by locks.
#[test]
fn idle_and_busy_on_the_portable_fallbacks() {
    let _one = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["IDLE", "TREE05"] {
        let fallback = |seconds| {
            let plan = Plan::new(Scenario::named(name).unwrap(), seconds, World::Host, 1, 2).unwrap();
            let options = Options {
                fence: FenceMode::Fallback,
                park: ParkMode::Portable,
                rcuc: true,
                ..Options::default()
            };
            let engine = Engine::new(&plan.config, &options).unwrap();
            torture(engine, plan, &Control::default()).unwrap()
        };
        until(2.0, World::Host, fallback, |_| true);
    }
}

#[test]
fn without_preemption() {
    on_host_for("TREE06", 2.0);
}

#[test]
#[ignore = "the long form: a minute of every scenario"]
fn a_minute_of_every_scenario() {
    let _one = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name != "BUSTED") {
        println!("{}", passes(scenario.name, 60.0, World::Host).text);
    }
}

#[test]
#[ignore = "the long form: three times a virtual minute of every scenario"]
fn virtual_minutes_of_every_scenario() {
    for scenario in SCENARIOS
        .iter()
        .filter(|scenario| scenario.flavour == Flavour::Rcu)
    {
        for seed in 1..=3 {
            let report = run(scenario.name, 60.0, World::Sim, seed, &Control::default()).unwrap();
            assert_eq!(report.verdict, Verdict::Success, "{}", report.text);
        }
    }
}

/// One at a time: they are about the engine, not about how many threads two cores can run.
static HOST: Mutex<()> = Mutex::new(());

fn on_host(scenario: &str) {
    on_host_for(scenario, 5.0);
}

fn on_host_for(scenario: &str, seconds: f64) {
    let _one = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let named = Scenario::named(scenario).unwrap();
    let onoff = |report: &Report| report.counters.online.successes + report.counters.offline.successes;
    let rounds = |report: &Report| report.counters.fwd_progress.nr_rounds;
    let report = passes_when(scenario, seconds, World::Host, |report| {
        let counters = &report.counters;
        counters.read_exits > 0
            && counters.gp_kinds.len() >= 6
            && (onoff(report) > 0 || named.onoff.is_none())
            && (rounds(report) > 0 || named.fwd_progress == 0)
    });
    println!("{}", report.text);
    assert_eq!(onoff(&report) > 0, named.onoff.is_some());
    assert_eq!(rounds(&report) > 0, named.fwd_progress > 0);
}

// An RCU that must fail, in both worlds.

#[test]
fn the_busted_engine_fails_within_a_second() {
    for world in [World::Host, World::Sim] {
        let began = Instant::now();
        let report = run("busted", 1.0, world, 1, &Control::default()).unwrap();
        assert_eq!(report.verdict, Verdict::Failure, "{}", report.text);
        let counters = &report.counters;
        assert!(counters.too_short() > 0, "Reader Pipe: {}", report.text);
        assert!(
            counters.rtmbe > 0,
            "elements were freed under their readers: {}",
            report.text
        );
        assert!(counters.rtmbkf > 0, "the mailboxes: {}", report.text);
        assert!(report.text.contains("busted-torture: !!! Reader Pipe: "));
        assert!(report.text.contains("Failure/close-call rcutorture reader: "));
        assert!(
            report
                .text
                .contains("\nbusted-torture:--- End of test: FAILURE: ")
        );
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

// The harness itself: textbook RCU, whole and with faults.

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every so manieth grace period is none.
    ShortGp,
    /// Some callbacks never come.
    LostCallback,
    /// Every cookie is done.
    EagerCookies,
    /// No cookie ever is.
    LateCookies,
    /// CPUs refuse to go.
    NoOffline,
    /// Stalls are reported that are none.
    FalseStall,
    /// Real stalls are not reported.
    SilentStall,
    /// Grace periods never end while anybody reads.
    Starved,
    /// Callbacks are refused.
    Refuses,
}

#[derive(Clone)]
struct Faulty {
    inner: Trivial,
    fault: Fault,
    calls: Arc<AtomicU64>,
    stalls: Arc<AtomicU64>,
}

struct FaultySession {
    inner: TrivialSession,
    subject: Faulty,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Faulty {
            inner: Trivial::new().unwrap(),
            fault,
            calls: Arc::default(),
            stalls: Arc::default(),
        }
    }

    /// Once in `n` calls of anything.
    fn once_in(&self, n: u64) -> bool {
        self.calls.fetch_add(1, Relaxed) % n == n - 1
    }

    fn call(&self, callback: Callback) -> Option<Result<Callback>> {
        match self.fault {
            Fault::Refuses => Some(Err(Error::config("callback", 0, "refused", "nothing"))),
            Fault::LostCallback if self.once_in(3) => None,
            _ => Some(Ok(callback)),
        }
    }
}

impl Subject for Faulty {
    type Session = FaultySession;

    fn register(&self, cpu: u32) -> Result<FaultySession> {
        let inner = self.inner.register(cpu)?;
        Ok(FaultySession {
            inner,
            subject: self.clone(),
        })
    }

    fn call_again(&self, callback: Callback) -> Result<()> {
        match self.call(callback) {
            Some(callback) => self.inner.call_again(callback?),
            None => Ok(()),
        }
    }

    fn gp_seq(&self) -> u64 {
        self.inner.gp_seq()
    }

    fn get_state(&self) -> u64 {
        self.inner.get_state()
    }

    fn poll_state(&self, cookie: u64) -> bool {
        match self.fault {
            Fault::EagerCookies => true,
            Fault::LateCookies => false,
            _ => self.inner.poll_state(cookie),
        }
    }

    fn get_state_full(&self) -> u64 {
        self.get_state()
    }

    fn poll_state_full(&self, cookie: u64) -> bool {
        self.poll_state(cookie)
    }

    fn refuses(&self, kind: GpKind) -> Option<&'static str> {
        // A cookie that is never done would be polled for ever.
        (self.fault == Fault::LateCookies && kind != GpKind::Sync).then_some("not with this fault")
    }

    fn cpu_offline(&self, cpu: u32) -> Result<()> {
        match self.fault {
            Fault::NoOffline => Err(Error::config("cpu", cpu, "busy", "none")),
            _ => Ok(()),
        }
    }

    fn cpu_online(&self, _cpu: u32) -> Result<()> {
        Ok(())
    }

    fn stalls(&self) -> Option<u64> {
        let step = u64::from(self.fault == Fault::FalseStall);
        Some(self.stalls.fetch_add(step, Relaxed))
    }

    fn close(&self, run: bool, deadline: Duration) -> Result<()> {
        self.inner.close(run, deadline)
    }
}

impl Session for FaultySession {
    type Guard<'a> = <TrivialSession as Session>::Guard<'a>;
    type Full = u64;

    fn read_lock(&self) -> Self::Guard<'_> {
        self.inner.read_lock()
    }

    fn synchronize(&mut self, cancel: &AtomicBool) -> Result<bool> {
        match self.subject.fault {
            Fault::ShortGp if self.subject.once_in(3) => Ok(true),
            Fault::Starved => {
                while !cancel.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(false)
            }
            _ => self.inner.synchronize(cancel),
        }
    }

    fn synchronize_expedited(&mut self, cancel: &AtomicBool) -> Result<bool> {
        self.synchronize(cancel)
    }

    fn barrier(&mut self, cancel: &AtomicBool) -> Result<bool> {
        self.inner.barrier(cancel)
    }

    fn call(&self, callback: Callback) -> Result<()> {
        match self.subject.call(callback) {
            // The flood of the forward-progress test would otherwise let its grace periods pass.
            Some(_) if self.subject.fault == Fault::Starved => Ok(()),
            Some(callback) => self.inner.call(callback?),
            None => Ok(()),
        }
    }

    fn start_poll(&self) -> Result<u64> {
        self.inner.start_poll()
    }

    fn start_poll_full(&self) -> Result<u64> {
        self.inner.start_poll_full()
    }
}

fn plan(seconds: f64) -> Plan {
    Plan::new(Scenario::named("TRIVIAL").unwrap(), seconds, World::Host, 1, 2).unwrap()
}

fn with(fault: Fault, plan: Plan) -> Report {
    let report = torture(Faulty::new(fault), plan, &Control::default()).unwrap();
    println!("{}", report.text);
    report
}

#[test]
fn textbook_rcu_passes() {
    let report = passes_when("TRIVIAL", 2.0, World::Host, |report| {
        report.counters.read_exits > 0 && report.counters.gp_kinds.len() == GpKind::ALL.len()
    });
    assert!(
        report
            .text
            .contains("\ntrivial-torture:--- End of test: SUCCESS: nreaders=")
    );
    let report = with(Fault::None, plan(0.5));
    assert_eq!(report.verdict, Verdict::Success);
}

#[test]
fn a_grace_period_too_short_moves_the_reader_pipe() {
    let mut plan = plan(2.0);
    // Sections that outlive grace periods, and nothing but grace periods waited for.
    (plan.long_ns, plan.long_every_ns) = (20_000_000, 30_000_000);
    plan.kinds = vec![GpKind::Sync];
    let report = with(Fault::ShortGp, plan);
    assert!(report.counters.too_short() > 0);
    assert!(report.counters.rtmbkf > 0);
    assert!(report.text.contains("!!! Reader Pipe"));
}

#[test]
fn a_lost_callback_moves_rtbe() {
    let report = with(Fault::LostCallback, plan(2.0));
    assert!(report.counters.rtbe > 0);
    assert_eq!(report.counters.rtbe, report.counters.barrier.errors);
    assert_eq!(report.verdict, Verdict::Failure);
    // Elements that wait for such a callback never come back.
    assert!(report.counters.rtf < report.counters.rta - 10);
}

#[test]
fn cookies_that_are_done_too_early_or_never_are_found() {
    let report = with(Fault::EagerCookies, plan(1.0));
    assert!(report.counters.warnings > 0);
    assert!(
        report
            .text
            .contains("WARNING: a cookie is done inside the section that took it")
    );
    let report = with(Fault::LateCookies, plan(1.0));
    assert!(
        report
            .text
            .contains("WARNING: a full cookie from before a grace period is not done after it")
    );
    assert!(
        report
            .text
            .contains("WARNING: a cookie from before two grace periods is not done after them")
    );
    assert!(report.text.contains(" distinct cookies are pending, more than 2"));
}

#[test]
fn cpus_that_do_not_go_are_a_verdict_of_their_own() {
    let mut plan = plan(1.0);
    (plan.onoff_every_ns, plan.onoff_holdoff_ns) = (10_000_000, 1);
    let report = with(Fault::NoOffline, plan);
    assert_eq!((report.errors(), report.verdict), (0, Verdict::Hotplug));
    let offline = report.counters.offline;
    assert!(offline.attempts > 0 && offline.successes == 0 && offline.min_jiffies == -1);
    assert!(report.text.contains("--- End of test: RCU_HOTPLUG: "));
}

#[test]
fn stalls_have_to_be_reported_and_only_those() {
    let report = with(Fault::FalseStall, plan(0.5));
    assert!(report.text.contains(" stalls that nobody injected"));
    let mut plan = plan(1.0);
    (plan.stall_ns, plan.stall_holdoff_ns) = (200_000_000, 1);
    let report = with(Fault::SilentStall, plan);
    assert!(report.text.contains(" was not reported as a stall"));
    assert_eq!(report.errors(), 1);
}

#[test]
fn no_forward_progress_is_found() {
    let mut plan = plan(2.0);
    (plan.fwd_patience_ns, plan.fwd_flood_ns) = (200_000_000, 200_000_000);
    (plan.fwd_holdoff_ns, plan.fwd_round_ns, plan.stat_ns) = (1_000_000, 200_000_000, 200_000_000);
    plan.kinds = vec![GpKind::Sync];
    plan.barrier_cbs = 0;
    let report = with(Fault::Starved, plan);
    let forward = report.counters.fwd_progress;
    assert!(forward.nr_failures > 0 && forward.cr_failures > 0);
    assert!(report.text.contains("WARNING: no forward progress in "));
    assert!(report.text.contains("??? Writer stall state RTWS_SYNC g"));
}

#[test]
fn refused_calls_are_found() {
    let report = with(Fault::Refuses, plan(0.5));
    assert!(report.text.contains("WARNING: call_rcu: callback=0: refused"));
    assert_eq!(report.verdict, Verdict::Failure);
}

#[test]
fn a_cancelled_test_ends_soon_with_what_it_has() {
    let _one = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    for (scenario, world) in [
        ("TREE03", World::Host),
        ("TREE05", World::Host),
        ("TREE03", World::Sim),
        ("TRIVIAL", World::Host),
        ("busted", World::Host),
    ] {
        let control = Control::default();
        std::thread::scope(|scope| {
            let canceller = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                control.cancel.store(true, Relaxed);
                Instant::now()
            });
            let report = run(scenario, 600.0, world, 1, &control).unwrap();
            let took = canceller.join().unwrap().elapsed();
            println!(
                "{scenario}, {}: ended {took:?} after it was cancelled",
                world.name()
            );
            // Far less on a machine that does nothing else.
            assert!(took < Duration::from_secs(2), "{scenario} took {took:?}");
            assert!(report.interrupted && report.counters.ver > 0);
            assert!(report.text.contains(" (interrupted): "));
        });
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |scenario, seconds, world| {
        run(scenario, seconds, world, 1, &Control::default())
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused("TREE11", 1.0, World::Sim).starts_with("scenario=TREE11: no such scenario; allowed: TREE01")
    );
    assert!(refused("TREE01", 0.0, World::Sim).starts_with("seconds=0: out of range; allowed: 0.1 to "));
    assert!(refused("TRIVIAL", 1.0, World::Sim).contains("textbook RCU needs real threads"));
    assert!(
        "moon"
            .parse::<World>()
            .unwrap_err()
            .to_string()
            .ends_with("allowed: host or sim")
    );
}
