//! The order of trace events of one grace period on an idle machine, callback route, without and with
//! the early report. C is the caller's CPU, G the kthread's. Derived from the steps themselves:
//!
//! C  request, callback queued
//! C  tick: the core numbers the callback, the funnel climbs leaf → root, a grace period is asked for
//! G  start; per node, root first: initialised (its own leaf: noticed just before); sleep
//! C  tick: noticed; the accelerate that goes with it prints the *next* number although the callback
//!    keeps its own (its segment is occupied by an earlier number and nothing is behind it)
//! G  scan: per leaf the idle CPUs, then the leaf's report, and the root's when the leaf is done
//! G  per node: cleaned up (its own leaf: end noticed just before); end; waiting for a request
//! C  tick: end noticed, the batch
//! C  complete

use treercu::config::Config;
use treercu::sim::{Control, Machine, RunOptions, simulate};
use treercu::stats::Run;
use treercu::trace::{Event, Record};
use treercu::workload::{Placement, SyncFlood};

const C: u32 = 20;
const G: u32 = 3;

fn run(early: bool, trace_limit: usize) -> Run {
    let config = Config::new()
        .with("kernel", "6.18")
        .and_then(|c| c.with("nr_cpus", 32))
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.with("early_qs", early))
        .expect("valid");
    let machine = Machine {
        noise: 0.0,
        gp_kthread_cpu: i64::from(G),
        ..Machine::default()
    };
    let flood = SyncFlood {
        calls: 3,
        placement: Placement::Cpu(C),
        ..SyncFlood::default()
    };
    let options = RunOptions {
        trace_limit,
        ..RunOptions::default()
    };
    simulate(&config, &machine, &flood.into(), 1, &options, &Control::default()).expect("runs")
}

/// One word per event: who did what, without the noise of every tick and switch.
fn words(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .filter_map(|r| {
            let word = match r.event {
                Event::Utilization("Start RCU core") => "core{".into(),
                Event::Utilization("End RCU core") => "}core".into(),
                Event::Utilization(_) => return None,
                Event::GracePeriod { gp_seq, what } => format!("{what}({})", gp_seq as i64),
                Event::FutureGracePeriod { level, what, .. } => format!("{what}.{level}"),
                Event::GracePeriodInit { level, grplo, .. } => format!("init.{level}.{grplo}"),
                Event::QuiescentStateReport {
                    level, grplo, qsmask, ..
                } => {
                    format!("report.{level}.{grplo}>{qsmask:x}")
                }
                Event::Fqs { .. } => "dti".into(),
                Event::SrNormal { what, .. } => what.into(),
                Event::Callback { .. } => "callback".into(),
                Event::SegCbStats { what, .. } => what.into(),
                Event::BatchStart { .. } => "batch_start".into(),
                Event::InvokeCallback { func, .. } => func.into(),
                Event::BatchEnd { .. } => "batch_end".into(),
                other => panic!("unexpected {other:?}"),
            };
            let who = match r.cpu {
                C => 'C',
                G => 'G',
                cpu => panic!("CPU {cpu} has nothing to say"),
            };
            Some(format!("{who} {word}"))
        })
        .collect()
}

/// The second call of a run: the tree's masks are set up and every CPU's numbers are good.
fn second_call(run: &Run) -> Vec<String> {
    let trace = run.trace.as_ref().expect("traced");
    assert_eq!(trace.dropped, 0);
    let mut records = trace.records.clone();
    records.sort_by_key(|r| r.at_ns);
    let all = words(&records);
    let begin = all
        .iter()
        .enumerate()
        .filter(|(_, w)| *w == "C request")
        .nth(1)
        .expect("a second call")
        .0;
    let end = all
        .iter()
        .enumerate()
        .filter(|(_, w)| *w == "C complete")
        .nth(1)
        .expect("its end")
        .0;
    all[begin..=end].to_vec()
}

/// Collapses runs of "dti".
fn collapsed(words: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        match out.last_mut() {
            Some(last) if word == "G dti" && last.starts_with("G dti") => {
                let n: u32 = last[5..].trim_start_matches('*').parse().expect("counted");
                *last = format!("G dti*{}", n + 1);
            }
            _ if word == "G dti" => out.push("G dti*1".into()),
            _ => out.push(word),
        }
    }
    out
}

/// Numbers: boot −1200, first grace period −1199 … −1196, the second −1195 … −1192; the snapshot taken
/// while it runs is −1188. Leaves 0–15 (G) and 16–31 (C).
#[test]
fn baseline() {
    let expected = [
        "C request",
        "C callback",
        "C SegCBQueued",
        "C cpuqs(-1196)",
        "C core{",
        "C SegCbPreAcc",
        "C Startleaf.1",
        "C Startedroot.0",
        "C newreq(-1196)",
        "C AccWaitCB(-1192)",
        "C SegCbPostAcc",
        "C }core",
        "G cpuqs(-1196)",
        "G start(-1195)",
        "G init.0.0",
        "G cpustart(-1195)",
        "G init.1.0",
        "G init.1.16",
        "G fqswait(-1195)",
        "G cpuqs(-1195)",
        "C core{",
        "C SegCbPreAcc",
        "C AccWaitCB(-1188)",
        "C SegCbPostAcc",
        "C cpustart(-1195)",
        "C }core",
        "G fqsstart(-1195)",
        "G dti*15",
        "G report.1.0>8",
        "G dti*16",
        "G report.1.16>0",
        "G report.0.0>1",
        "G fqsend(-1195)",
        "G fqswait(-1195)",
        "G fqsstart(-1195)",
        "G dti*1",
        "G report.1.0>0",
        "G report.0.0>0",
        "G fqsend(-1195)",
        "G fqswait(-1195)",
        "G Cleanup.0",
        "G cpuend(-1195)",
        "G Cleanup.1",
        "G Cleanup.1",
        "G end(-1195)",
        "G reqwait(-1192)",
        "C core{",
        "C cpuend(-1195)",
        "C batch_start",
        "C SegCbDequeued",
        "C wakeme_after_rcu",
        "C batch_end",
        "C }core",
        "C cpuqs(-1192)",
        "C complete",
    ];
    // Context switches record quiescent states ("cpuqs") only where one is still needed; which of them
    // that is for is the business of other tests.
    let strip =
        |words: Vec<String>| -> Vec<String> { words.into_iter().filter(|w| !w.contains("cpuqs")).collect() };
    let got = collapsed(second_call(&run(false, 100_000)));
    let expected: Vec<String> = expected.iter().map(|w| w.to_string()).collect();
    assert_eq!(strip(got), strip(expected));
}

/// With the report: recorded and reported at the end of initialisation, one scan, no second wait.
#[test]
fn early_report() {
    let got = collapsed(second_call(&run(true, 100_000)));
    let at = |word: &str| {
        got.iter()
            .position(|w| w == word)
            .unwrap_or_else(|| panic!("{word} in {got:#?}"))
    };
    let order = [
        "G start(-1195)",
        "G init.0.0",
        "G cpustart(-1195)",
        "G init.1.0",
        "G init.1.16",
        "G cpuqs(-1195)",
        "G report.1.0>fff7",
        "G fqswait(-1195)",
        "G fqsstart(-1195)",
        "G report.1.0>0",
        "G report.0.0>2",
        "G report.1.16>0",
        "G report.0.0>0",
        "G Cleanup.0",
        "G end(-1195)",
        "C cpuend(-1195)",
        "C complete",
    ];
    let places: Vec<usize> = order.iter().map(|word| at(word)).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{got:#?}");
    assert_eq!(
        got.iter().filter(|w| w.as_str() == "G fqsstart(-1195)").count(),
        1,
        "one scan"
    );
}

#[test]
fn a_trace_changes_nothing_and_keeps_its_limit() {
    let quiet = run(false, 0);
    assert!(quiet.trace.is_none());
    let traced = run(false, 100_000);
    assert_eq!(quiet.digest(), traced.digest());
    let short = run(false, 10);
    assert_eq!(short.digest(), quiet.digest());
    let (full, cut) = (traced.trace.expect("traced"), short.trace.expect("traced"));
    assert_eq!(cut.records.len(), 10);
    assert_eq!(cut.records.len() as u64 + cut.dropped, full.records.len() as u64);
    // The text form: every line names its event, with the flavour where the tracepoint prints it.
    for line in full.to_ftrace().lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains(": rcu_"), "{line}");
    }
}
