//! The hardware and scheduler around the engine: every cost of the simulated world in one place,
//! each with its unit, default and source.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which CPU expires the timer of an idle CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimerMigration {
    /// What the configured kernel does: `local` before 6.9, `pull` from 6.9 on.
    Era,
    /// An active CPU of its group expires it (kernels from 6.9 on): the idle CPU gets a wake-up and no tick.
    Pull,
    /// The CPU that armed it expires it (kernels before 6.9): its expiry is a full tick there.
    Local,
}

/// Costs and policies of the simulated machine. All times in nanoseconds of virtual time.
///
/// Sources: *assumed* means an order of magnitude for a current server core that no publication
/// states for the machines whose tables we reproduce; change it and see what moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Who expires the timers of idle CPUs. Default: as the configured kernel does.
    pub timer_migration: TimerMigration,
    /// CPU on which the grace-period kthread first runs; -1: drawn from the seed.
    pub gp_kthread_cpu: i64,
    /// CPUs per last-level cache, for wake-up placement; 0: all CPUs share one.
    pub cpus_per_llc: u64,
    /// Leaving a hardware idle state, ns. Assumed (1–50 µs on real machines).
    pub idle_exit_ns: u64,
    /// Flight time of an interprocessor interrupt, ns. Assumed.
    pub ipi_ns: u64,
    /// Handler of a reschedule interrupt, ns. Assumed.
    pub ipi_handler_ns: u64,
    /// Context switch between two tasks, ns. Assumed.
    pub switch_ns: u64,
    /// Extra cost of a switch into or out of idle, ns. Assumed.
    pub idle_switch_ns: u64,
    /// Waking a task (the waker's part), ns. Assumed.
    pub wake_ns: u64,
    /// Timer tick handler, ns. Assumed.
    pub tick_handler_ns: u64,
    /// Timer softirq, ns a run. Assumed.
    pub timer_softirq_ns: u64,
    /// RCU softirq, ns a run without callbacks. Assumed.
    pub rcu_softirq_ns: u64,
    /// Any other interrupt (high-resolution timer, noise), ns. Assumed.
    pub irq_ns: u64,
    /// Grace-period initialisation or cleanup of one rcu_node, hotplug pass of one leaf, ns. Assumed.
    pub node_ns: u64,
    /// Force-quiescent-state scan: looking at one CPU, ns. Assumed.
    pub scan_cpu_ns: u64,
    /// Once per grace period: the full memory barriers and bookkeeping at its start, ns. Assumed.
    pub gp_fixed_ns: u64,
    /// Queueing a callback, ns. Assumed.
    pub call_rcu_ns: u64,
    /// Invoking a callback, ns. Assumed.
    pub cb_invoke_ns: u64,
    /// `synchronize_rcu()` from entry to blocking, ns. Assumed.
    pub sync_entry_ns: u64,
    /// One atomic step on the list of direct-wake requests (push, count, latch), ns; a caller can be
    /// preempted between two of them. 0: they are one. Assumed.
    pub srs_step_ns: u64,
    /// The measuring task's own time between the return of one call and the next, ns.
    /// Source: published minima of 9.93 to 9.99 ms where the mechanism gives 10 ms.
    pub caller_gap_ns: u64,
    /// A work item of the `sync_wq` worker besides the wake-ups it does, ns. Assumed.
    pub work_item_ns: u64,
    /// Reading one CPU's SRCU counter from another CPU, ns: a cache line of somebody else. Source: 50–100 ns is usual
    /// between the cores of one package; assumed.
    pub srcu_counter_ns: u64,
    /// A full memory barrier, ns: of a normal SRCU reader, or between two sums. Assumed (a locked instruction).
    pub full_barrier_ns: u64,
    /// `call_srcu()` or a cookie, ns; a lock of the domain's update side is held about as long. Assumed.
    pub srcu_call_ns: u64,
    /// Time slice of ordinary tasks, ns. Source: 0.70 ms base slice scaled by 1 + log2(CPUs), at most 4.
    pub slice_ns: u64,
    /// Background noise: bursts per second and CPU (exponential gaps); 0: none. Assumed.
    pub noise: f64,
    /// Shortest noise burst, ns. Assumed.
    pub noise_min_ns: u64,
    /// Longest noise burst, ns. Assumed.
    pub noise_max_ns: u64,
    /// Probability that the cpuidle governor keeps the tick at an idle entry. Default 0.
    pub governor_keeps_tick: f64,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            timer_migration: TimerMigration::Era,
            gp_kthread_cpu: -1,
            cpus_per_llc: 0,
            idle_exit_ns: 2_000,
            ipi_ns: 1_200,
            ipi_handler_ns: 300,
            switch_ns: 1_200,
            idle_switch_ns: 800,
            wake_ns: 300,
            tick_handler_ns: 1_500,
            timer_softirq_ns: 300,
            rcu_softirq_ns: 700,
            irq_ns: 500,
            node_ns: 150,
            scan_cpu_ns: 40,
            gp_fixed_ns: 1_000,
            call_rcu_ns: 150,
            cb_invoke_ns: 200,
            sync_entry_ns: 500,
            srs_step_ns: 0,
            caller_gap_ns: 5_000,
            work_item_ns: 300,
            srcu_counter_ns: 70,
            full_barrier_ns: 20,
            srcu_call_ns: 200,
            slice_ns: 2_800_000,
            noise: 0.5,
            noise_min_ns: 50_000,
            noise_max_ns: 200_000,
            governor_keeps_tick: 0.0,
        }
    }
}

/// Upper limit of every cost, ns.
pub const MAX_COST_NS: u64 = 1_000_000_000;
/// Upper limit of [`Machine::noise`], bursts per second and CPU.
pub const MAX_NOISE: f64 = 10_000.0;

impl Machine {
    /// Checks every field; `nr_online` is the number of CPUs online at start.
    pub fn validate(&self, nr_online: u32) -> Result<()> {
        if self.gp_kthread_cpu < -1 || self.gp_kthread_cpu >= i64::from(nr_online) {
            return Err(Error::config(
                "gp_kthread_cpu",
                self.gp_kthread_cpu,
                "no such online CPU",
                format!("-1 (from the seed), or 0 to {}", nr_online - 1),
            ));
        }
        if self.cpus_per_llc > 1 << 20 {
            return Err(Error::config(
                "cpus_per_llc",
                self.cpus_per_llc,
                "out of range",
                format!("0 to {}", 1 << 20),
            ));
        }
        for (name, value) in [
            ("idle_exit_ns", self.idle_exit_ns),
            ("ipi_ns", self.ipi_ns),
            ("ipi_handler_ns", self.ipi_handler_ns),
            ("switch_ns", self.switch_ns),
            ("idle_switch_ns", self.idle_switch_ns),
            ("wake_ns", self.wake_ns),
            ("tick_handler_ns", self.tick_handler_ns),
            ("timer_softirq_ns", self.timer_softirq_ns),
            ("rcu_softirq_ns", self.rcu_softirq_ns),
            ("irq_ns", self.irq_ns),
            ("node_ns", self.node_ns),
            ("scan_cpu_ns", self.scan_cpu_ns),
            ("gp_fixed_ns", self.gp_fixed_ns),
            ("call_rcu_ns", self.call_rcu_ns),
            ("cb_invoke_ns", self.cb_invoke_ns),
            ("sync_entry_ns", self.sync_entry_ns),
            ("srs_step_ns", self.srs_step_ns),
            ("caller_gap_ns", self.caller_gap_ns),
            ("work_item_ns", self.work_item_ns),
            ("srcu_counter_ns", self.srcu_counter_ns),
            ("full_barrier_ns", self.full_barrier_ns),
            ("srcu_call_ns", self.srcu_call_ns),
            ("noise_min_ns", self.noise_min_ns),
            ("noise_max_ns", self.noise_max_ns),
        ] {
            if value > MAX_COST_NS {
                return Err(Error::config(
                    name,
                    value,
                    "too large",
                    format!("0 to {MAX_COST_NS} ns"),
                ));
            }
        }
        // With no time at all between calls a flood that is served at once would never let virtual time advance.
        if self.sync_entry_ns + self.caller_gap_ns < 100 {
            return Err(Error::config(
                "caller_gap_ns",
                self.caller_gap_ns,
                "sync_entry_ns + caller_gap_ns is too small",
                "a sum of at least 100 ns",
            ));
        }
        if self.switch_ns < 10 || self.tick_handler_ns < 10 {
            return Err(Error::config(
                if self.switch_ns < 10 {
                    "switch_ns"
                } else {
                    "tick_handler_ns"
                },
                self.switch_ns.min(self.tick_handler_ns),
                "too small",
                format!("10 to {MAX_COST_NS} ns"),
            ));
        }
        if self.slice_ns < 100_000 || self.slice_ns > 10 * MAX_COST_NS {
            return Err(Error::config(
                "slice_ns",
                self.slice_ns,
                "out of range",
                format!("100000 to {} ns", 10 * MAX_COST_NS),
            ));
        }
        if !(0.0..=MAX_NOISE).contains(&self.noise) {
            return Err(Error::config(
                "noise",
                self.noise,
                "out of range",
                format!("0 to {MAX_NOISE} bursts per second and CPU"),
            ));
        }
        if self.noise_min_ns > self.noise_max_ns {
            return Err(Error::config(
                "noise_min_ns",
                self.noise_min_ns,
                "above noise_max_ns",
                format!("0 to {}", self.noise_max_ns),
            ));
        }
        if !(0.0..=1.0).contains(&self.governor_keeps_tick) {
            return Err(Error::config(
                "governor_keeps_tick",
                self.governor_keeps_tick,
                "not a probability",
                "0 to 1",
            ));
        }
        Ok(())
    }
}
