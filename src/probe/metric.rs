//! Figures of a run that probes look at.

use crate::stats::Run;
use crate::trace::Event;
use serde::{Serialize, Serializer};

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Mean latency of the calls, ns.
    MeanNs,
    /// Median latency, ns.
    P50Ns,
    /// Longest latency, ns.
    MaxNs,
    /// Completed calls.
    Calls,
    /// Grace periods that ended.
    GracePeriods,
    /// Mean length of a grace period, ns.
    GpMeanNs,
    /// Scans of all grace periods together.
    Scans,
    /// CPUs looked at in one grace period, on average.
    CpusScannedPerGp,
    /// CPU time of the kthread in one grace period, ns on average.
    GpKthreadNsPerGp,
    /// Ticks in a second of virtual time.
    TicksPerS,
    /// Interprocessor interrupts.
    Ipis,
    /// Callbacks invoked.
    CallbacksInvoked,
    /// RCU softirqs, or rounds of rcuc.
    RcuSoftirqs,
    /// Callbacks invoked in one run of the RCU core, on average.
    CallbacksPerSoftirq,
    /// Calls woken by the kthread itself.
    DirectWakes,
    /// Stall reports.
    Stalls,
    /// Context switches.
    ContextSwitches,
    /// Task wake-ups.
    Wakeups,
    /// SRCU: calls that were expedited by themselves.
    SrcuAutoExpedited,
    /// SRCU: zero tests in one grace period, on average.
    SrcuZeroTestsPerGp,
    /// SRCU: work item runs in one grace period, on average.
    SrcuWorkRunsPerGp,
    /// CPUs that the first leaf waits for at the start of the first grace period, from the trace.
    FirstLeafCpus,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 22] = [
        Metric::MeanNs,
        Metric::P50Ns,
        Metric::MaxNs,
        Metric::Calls,
        Metric::GracePeriods,
        Metric::GpMeanNs,
        Metric::Scans,
        Metric::CpusScannedPerGp,
        Metric::GpKthreadNsPerGp,
        Metric::TicksPerS,
        Metric::Ipis,
        Metric::CallbacksInvoked,
        Metric::RcuSoftirqs,
        Metric::CallbacksPerSoftirq,
        Metric::DirectWakes,
        Metric::Stalls,
        Metric::ContextSwitches,
        Metric::Wakeups,
        Metric::SrcuAutoExpedited,
        Metric::SrcuZeroTestsPerGp,
        Metric::SrcuWorkRunsPerGp,
        Metric::FirstLeafCpus,
    ];

    /// Its name, which is its path in a run's figures where it has one there.
    pub fn name(self) -> &'static str {
        match self {
            Metric::MeanNs => "mean_ns",
            Metric::P50Ns => "p50_ns",
            Metric::MaxNs => "max_ns",
            Metric::Calls => "calls",
            Metric::GracePeriods => "grace_periods",
            Metric::GpMeanNs => "gp_mean_ns",
            Metric::Scans => "fqs_scans",
            Metric::CpusScannedPerGp => "fqs_cpus_scanned_per_gp",
            Metric::GpKthreadNsPerGp => "gp_kthread_ns_per_gp",
            Metric::TicksPerS => "ticks_per_s",
            Metric::Ipis => "ipis",
            Metric::CallbacksInvoked => "callbacks_invoked",
            Metric::RcuSoftirqs => "rcu_softirqs",
            Metric::CallbacksPerSoftirq => "callbacks_per_softirq",
            Metric::DirectWakes => "direct_wakes",
            Metric::Stalls => "stalls",
            Metric::ContextSwitches => "context_switches",
            Metric::Wakeups => "wakeups",
            Metric::SrcuAutoExpedited => "srcu_auto_expedited",
            Metric::SrcuZeroTestsPerGp => "srcu_zero_tests_per_gp",
            Metric::SrcuWorkRunsPerGp => "srcu_work_runs_per_gp",
            Metric::FirstLeafCpus => "first_leaf_cpus",
        }
    }

    /// Events that a run has to keep for it.
    pub(super) fn trace_limit(self) -> usize {
        if self == Metric::FirstLeafCpus { 1_000 } else { 0 }
    }

    /// Its value; NaN, which has moved nowhere, where the run has nothing to take it from.
    pub fn of(self, run: &Run) -> f64 {
        let c = &run.counters;
        let per = |sum: u64, count: u64| sum as f64 / count as f64;
        match self {
            Metric::MeanNs => run.summary().mean_ns.unwrap_or(f64::NAN),
            Metric::P50Ns => run.quantile(0.5).map_or(f64::NAN, |ns| ns as f64),
            Metric::MaxNs => run.quantile(1.0).map_or(f64::NAN, |ns| ns as f64),
            Metric::Calls => run.calls() as f64,
            Metric::GracePeriods => c.grace_periods as f64,
            Metric::GpMeanNs => {
                let gps = &run.grace_periods;
                let all: i64 = gps
                    .end_ns
                    .iter()
                    .zip(&gps.start_ns)
                    .map(|(end, start)| end - start)
                    .sum();
                all as f64 / gps.len() as f64
            }
            Metric::Scans => c.fqs_scans as f64,
            Metric::CpusScannedPerGp => per(c.fqs_cpus_scanned, c.grace_periods),
            Metric::GpKthreadNsPerGp => per(c.gp_kthread_cpu_ns, c.grace_periods),
            Metric::TicksPerS => {
                let virtual_ns = run.simulated().map_or(0, |simulated| simulated.virtual_ns);
                c.ticks as f64 / (virtual_ns as f64 / 1e9)
            }
            Metric::Ipis => c.ipis as f64,
            Metric::CallbacksInvoked => c.callbacks_invoked as f64,
            Metric::RcuSoftirqs => c.rcu_softirqs as f64,
            Metric::CallbacksPerSoftirq => per(c.callbacks_invoked, c.rcu_softirqs),
            Metric::DirectWakes => c.direct_wakes as f64,
            Metric::Stalls => c.stalls as f64,
            Metric::ContextSwitches => c.context_switches as f64,
            Metric::Wakeups => c.wakeups as f64,
            Metric::SrcuAutoExpedited => c.srcu_auto_expedited as f64,
            Metric::SrcuZeroTestsPerGp => per(c.srcu_zero_tests, c.srcu_grace_periods),
            Metric::SrcuWorkRunsPerGp => per(c.srcu_work_runs, c.srcu_grace_periods),
            Metric::FirstLeafCpus => run
                .trace
                .iter()
                .flat_map(|trace| &trace.records)
                .find_map(|record| match record.event {
                    Event::GracePeriodInit {
                        grplo: 0,
                        level,
                        qsmask,
                        ..
                    } if level > 0 => Some(f64::from(qsmask.count_ones())),
                    _ => None,
                })
                .unwrap_or(f64::NAN),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
