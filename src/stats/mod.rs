//! What a run leaves behind: columns of samples, one record per grace period, counters.

mod deferred;
mod digest;
mod keep;
mod world;

pub use deferred::KeptCalls;
pub(crate) use keep::{Call, Recorder};
pub use keep::{HISTOGRAM_DIGITS, Keep, MAX_SAMPLE};
pub use world::{Measured, Simulated, World};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::trace::Trace;
use crate::tree::StallReport;
use crate::workload::Workload;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One row per completed `synchronize_rcu()` call, as columns. Times count from the start of the run,
/// in virtual time (simulated) or on the monotonic clock (measured).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// Task id, counted over the sync-flood parts.
    pub task: Vec<i32>,
    /// CPU on which the call began: a CPU of the tree, in measured runs a virtual one. -1: an engine
    /// without CPUs.
    pub cpu: Vec<i32>,
    /// When the call began (closed loop) or was due (open loop), in ns.
    pub start_ns: Vec<i64>,
    /// When the call returned, in ns.
    pub end_ns: Vec<i64>,
    /// `end_ns - start_ns`.
    pub latency_ns: Vec<i64>,
    /// Grace period that released the call, as its `gp_seq` while it ran (…01b), signed as the
    /// kernel prints it. Callback route: the last one that the CPU had noticed. Expedited calls: the
    /// expedited grace period that served it, as `expedited_sequence` while it ran (a count of its own).
    /// 0, which no running grace period has: an engine that numbers none.
    pub gp_seq: Vec<i64>,
}

impl Samples {
    /// Bytes of one row.
    pub const ROW_BYTES: u64 = 4 + 4 + 8 * 4;

    /// Number of completed calls.
    pub fn len(&self) -> usize {
        self.latency_ns.len()
    }

    /// True when no call completed.
    pub fn is_empty(&self) -> bool {
        self.latency_ns.is_empty()
    }
}

/// How the last CPU that a grace period waited for got out of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i32)]
pub enum Resolution {
    /// Its quiescent state was recorded and reported by a tick.
    Tick = 0,
    /// Recorded at a context switch, reported by that CPU's RCU core.
    ContextSwitch = 1,
    /// A force-quiescent-state scan found it idle (in an extended quiescent state).
    IdleScan = 2,
    /// The grace-period kthread's own early report at the end of grace-period initialisation.
    EarlyReport = 3,
    /// No CPU had to report (none online at the start of the grace period).
    Nobody = 4,
    /// A reader that was preempted inside a section left it; the CPU is the one it left it on.
    BlockedReader = 5,
    /// The CPU reported itself on its way offline.
    Offline = 6,
}

impl Resolution {
    /// All values in the order of their codes.
    pub const ALL: [Resolution; 7] = [
        Resolution::Tick,
        Resolution::ContextSwitch,
        Resolution::IdleScan,
        Resolution::EarlyReport,
        Resolution::Nobody,
        Resolution::BlockedReader,
        Resolution::Offline,
    ];

    /// The word used in output.
    pub fn name(self) -> &'static str {
        match self {
            Resolution::Tick => "tick",
            Resolution::ContextSwitch => "context_switch",
            Resolution::IdleScan => "idle_scan",
            Resolution::EarlyReport => "early_report",
            Resolution::Nobody => "nobody",
            Resolution::BlockedReader => "blocked_reader",
            Resolution::Offline => "offline",
        }
    }
}

/// One row per grace period that ended, as columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GracePeriods {
    /// `rs.gp_seq` while it ran, signed.
    pub gp_seq: Vec<i64>,
    /// Start (the number was advanced), ns.
    pub start_ns: Vec<i64>,
    /// End (the number was advanced again), ns.
    pub end_ns: Vec<i64>,
    /// `synchronize_rcu()` calls released by it.
    pub requests: Vec<i64>,
    /// Force-quiescent-state scans.
    pub scans: Vec<i32>,
    /// Last CPU it waited for; -1: none.
    pub holdout_cpu: Vec<i32>,
    /// How that CPU was resolved: a [`Resolution`] code.
    pub resolved_by: Vec<i32>,
    /// CPU on which the grace-period kthread ended it.
    pub kthread_cpu: Vec<i32>,
}

impl GracePeriods {
    /// Bytes of one row.
    pub const ROW_BYTES: u64 = 8 * 4 + 4 * 4;

    /// Number of grace periods.
    pub fn len(&self) -> usize {
        self.gp_seq.len()
    }

    /// True when none ended.
    pub fn is_empty(&self) -> bool {
        self.gp_seq.is_empty()
    }
}

/// Whole-run counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Timer ticks handled.
    pub ticks: u64,
    /// Timer softirqs run.
    pub timer_softirqs: u64,
    /// RCU softirqs run.
    pub rcu_softirqs: u64,
    /// Context switches, to and from idle included.
    pub context_switches: u64,
    /// Task wake-ups.
    pub wakeups: u64,
    /// Interprocessor interrupts sent.
    pub ipis: u64,
    /// Grace periods that ended.
    pub grace_periods: u64,
    /// Force-quiescent-state scans.
    pub fqs_scans: u64,
    /// CPUs looked at by those scans.
    pub fqs_cpus_scanned: u64,
    /// Callbacks queued by `call_rcu`.
    pub callbacks_queued: u64,
    /// Callbacks invoked.
    pub callbacks_invoked: u64,
    /// Calls that took the direct-wake route.
    pub direct_wakes: u64,
    /// CPU time of the grace-period kthread, ns.
    pub gp_kthread_cpu_ns: u64,
    /// CPU time of ticks, ns.
    pub tick_cpu_ns: u64,
    /// CPU time of softirqs, ns.
    pub softirq_cpu_ns: u64,
    /// CPU time of background noise, ns.
    pub noise_cpu_ns: u64,
    /// Times the grace-period kthread was put on another CPU than before.
    pub gp_kthread_migrations: u64,
    /// CPUs taken offline.
    pub cpus_offlined: u64,
    /// Expedited grace periods that ended.
    #[serde(default)]
    pub expedited_grace_periods: u64,
    /// Stall reports.
    #[serde(default)]
    pub stalls: u64,
    /// SRCU grace periods that ended, of all domains.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub srcu_grace_periods: u64,
    /// Those of them that were expedited when they ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub srcu_expedited: u64,
    /// `synchronize_srcu()` calls that were expedited by themselves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub srcu_auto_expedited: u64,
    /// Zero tests of those grace periods.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub srcu_zero_tests: u64,
    /// Runs of SRCU work items that those grace periods took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub srcu_work_runs: u64,
    /// Real threads: heavy fences (`membarrier`) executed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub heavy_fences: u64,
    /// Real threads: readers found inside a section and queued as blocked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub readers_blocked: u64,
    /// Real threads: threads put out of their scan set because they had stopped reading.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub eqs_grants: u64,
    /// Real threads: most callbacks, of all vCPUs together, that a tick found queued or in a batch that was
    /// running. Waits by callback and barriers queue callbacks too. A backlog that comes and goes between two
    /// ticks is not seen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub callbacks_peak: u64,
}

/// Counters of one world, or of one mechanism, only stay out of the other's output.
fn is_zero(counter: &u64) -> bool {
    *counter == 0
}

/// A stall report, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Virtual time, time since the start of a measured run, or of an engine by itself since it was opened, ns.
    pub at_ns: u64,
    /// What it says.
    #[serde(flatten)]
    pub report: StallReport,
}

/// The result of one run, simulated or measured.
#[derive(Debug, Clone)]
pub struct Run {
    /// One row per completed call, in order of completion.
    pub samples: KeptCalls,
    /// The distribution of all latencies, unless every call is kept (see [`Keep`]).
    pub histogram: Option<Histogram<u64>>,
    /// Exact mean latency where not every call is kept, ns.
    pub mean_ns: Option<f64>,
    /// What was kept.
    pub keep: Keep,
    /// Trace events, if they were asked for.
    pub trace: Option<Trace>,
    /// One row per grace period.
    pub grace_periods: GracePeriods,
    /// Whole-run counters.
    pub counters: Counters,
    /// Stall reports, the first thousand.
    pub stalls: Vec<Stall>,
    /// Wall-clock time of the run phase, ns.
    pub wall_ns: u64,
    /// CPU time of the run phase, ns. Measured runs: of the workload's threads and, with the engine
    /// `treercu`, of the engine's.
    pub cpu_ns: u64,
    /// The seed.
    pub seed: u64,
    /// The configuration.
    pub config: Config,
    /// The world it ran in, and what only that world knows.
    pub world: World,
    /// The workload.
    pub workload: Workload,
    /// True when a cancel request ended the run early.
    pub interrupted: bool,
}

/// Summary figures of a run's latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Completed calls.
    pub calls: u64,
    /// Mean latency, ns; `None` without calls.
    pub mean_ns: Option<f64>,
    /// Minimum, ns.
    pub min_ns: Option<i64>,
    /// Median (nearest rank), ns.
    pub p50_ns: Option<i64>,
    /// 90th percentile (nearest rank), ns; `None` when the sample is too small to carry it.
    pub p90_ns: Option<i64>,
    /// 99th percentile (nearest rank), ns; `None` below 100 calls.
    pub p99_ns: Option<i64>,
    /// Maximum, ns.
    pub max_ns: Option<i64>,
    /// Standard deviation of the sample (n - 1), ns; `None` below two calls.
    pub std_ns: Option<f64>,
    /// Grace periods that ended.
    pub grace_periods: u64,
    /// True when the run was cut short.
    pub interrupted: bool,
}

/// Equal-width histogram of latencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    /// Bin edges in ns, one more than counts; bin *i* is `edges[i] <= x < edges[i + 1]`, the last one closed.
    pub edges_ns: Vec<i64>,
    /// Calls per bin.
    pub counts: Vec<i64>,
}

impl Run {
    /// What only a simulated run knows.
    pub fn simulated(&self) -> Option<&Simulated> {
        match &self.world {
            World::Sim(simulated) => Some(simulated),
            World::Host(_) => None,
        }
    }

    /// What only a measured run knows.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.world {
            World::Sim(_) => None,
            World::Host(measured) => Some(measured),
        }
    }

    /// A digest over samples, grace-period records and counters (not seed, version or host), as hexadecimal text.
    pub fn digest(&self) -> String {
        digest::of(self)
    }

    /// Completed calls, kept or not.
    pub fn calls(&self) -> u64 {
        match &self.histogram {
            Some(histogram) => histogram.len(),
            None => self.samples.len() as u64,
        }
    }

    /// Quantile by nearest rank (the smallest latency with at least `q` of all at or below it), in ns.
    /// Exact where every call is kept, else within the histogram's 0.1 %.
    ///
    /// Refuses a run without calls, `q` outside 0..=1, and a quantile deeper than the sample carries
    /// (fewer than one call expected beyond it, that is `n * min(q, 1 - q) < 1` for 0 < q < 1).
    pub fn quantile(&self, q: f64) -> Result<i64> {
        Ok(self.quantiles(&[q])?[0])
    }

    /// [`Run::quantile`] for several values at once.
    pub fn quantiles(&self, qs: &[f64]) -> Result<Vec<i64>> {
        match &self.histogram {
            Some(histogram) => qs
                .iter()
                .map(|&q| {
                    check_quantile(q, histogram.len())?;
                    Ok(match q {
                        q if q <= 0.0 => histogram.min() as i64,
                        q => histogram.value_at_quantile(q) as i64,
                    })
                })
                .collect(),
            None => {
                let mut sorted = self.samples.latency_ns.clone();
                sorted.sort_unstable();
                qs.iter().map(|&q| quantile_of_sorted(&sorted, q)).collect()
            }
        }
    }

    /// Summary of the latencies.
    pub fn summary(&self) -> Summary {
        let one = |q: f64| self.quantile(q).ok();
        let (mean, std) = match &self.histogram {
            Some(histogram) => (self.mean_ns, (histogram.len() > 1).then(|| histogram.stdev())),
            None => mean_and_std(&self.samples.latency_ns),
        };
        let common = self.quantiles(&[0.0, 0.5, 1.0]).ok();
        Summary {
            calls: self.calls(),
            mean_ns: mean,
            min_ns: common.as_ref().map(|q| q[0]),
            p50_ns: common.as_ref().map(|q| q[1]),
            p90_ns: one(0.9),
            p99_ns: one(0.99),
            max_ns: common.as_ref().map(|q| q[2]),
            std_ns: std,
            grace_periods: self.counters.grace_periods,
            interrupted: self.interrupted,
        }
    }

    /// Equal-width histogram over the range of the latencies.
    pub fn histogram(&self, bins: usize) -> Result<Bins> {
        const MAX_BINS: usize = 1_000_000;
        if bins == 0 || bins > MAX_BINS {
            return Err(Error::config(
                "bins",
                bins,
                "out of range",
                format!("1 to {MAX_BINS}"),
            ));
        }
        let calls: Box<dyn Iterator<Item = (i64, i64)>> = match &self.histogram {
            Some(histogram) => Box::new(
                histogram
                    .iter_recorded()
                    .map(|v| (v.value_iterated_to() as i64, v.count_at_value() as i64)),
            ),
            None => Box::new(self.samples.latency_ns.iter().map(|&ns| (ns, 1))),
        };
        let calls: Vec<(i64, i64)> = calls.collect();
        let lo = calls.iter().map(|&(ns, _)| ns).min().unwrap_or(0);
        let hi = calls
            .iter()
            .map(|&(ns, _)| ns)
            .max()
            .unwrap_or(0)
            .max(lo + bins as i64);
        let width = ((hi - lo) as u64).div_ceil(bins as u64).max(1) as i64;
        let edges_ns: Vec<i64> = (0..=bins as i64).map(|i| lo + i * width).collect();
        let mut counts = vec![0i64; bins];
        for (ns, count) in calls {
            counts[(((ns - lo) / width) as usize).min(bins - 1)] += count;
        }
        Ok(Bins { edges_ns, counts })
    }
}

fn mean_and_std(values: &[i64]) -> (Option<f64>, Option<f64>) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (None, None);
    }
    let mean = values.iter().map(|&x| x as f64).sum::<f64>() / n;
    let squares = values.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>();
    (
        Some(mean),
        (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
    )
}

/// Is `q` a quantile that `n` calls carry?
fn check_quantile(q: f64, n: u64) -> Result<()> {
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::config("q", q, "not a quantile", "0 to 1"));
    }
    if n == 0 {
        return Err(Error::config(
            "q",
            q,
            "the run has no samples",
            "a run with at least one completed call",
        ));
    }
    let beyond = q.min(1.0 - q) * n as f64;
    if q > 0.0 && q < 1.0 && n > 1 && beyond < 1.0 - 1e-9 {
        let deepest = 1.0 / n as f64;
        return Err(Error::config(
            "q",
            q,
            format!("deeper than {n} samples carry"),
            format!(
                "{:.6} to {:.6}, or 0 and 1 for the extremes",
                deepest,
                1.0 - deepest
            ),
        ));
    }
    Ok(())
}

/// Nearest-rank quantile of sorted data; see [`Run::quantile`].
fn quantile_of_sorted(sorted: &[i64], q: f64) -> Result<i64> {
    check_quantile(q, sorted.len() as u64)?;
    let n = sorted.len();
    // The epsilon keeps 0.99 * 100 = 99.00000000000001 from rounding up to the 100th value.
    let rank = ((q * n as f64 - 1e-9).ceil().max(1.0) as usize).min(n);
    Ok(sorted[rank - 1])
}
