//! Every tunable that the mechanisms read.

use crate::error::Result;
use serde::{Deserialize, Serialize};

/// A tunable's value as given by a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction (no tunable takes one; kept so that the message can show it).
    Float(f64),
    /// A word.
    Text(String),
}

/// Read-side flavour of the kernel build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    /// A woken kthread preempts an ordinary task at once.
    Full,
    /// At the next tick or return to user mode.
    Lazy,
}

/// Kernel era: picks defaults only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Era {
    /// 6.8: timers expire locally, callback route.
    #[serde(rename = "6.8")]
    V6_8,
    /// 6.12: timer migration pull, callback route.
    #[serde(rename = "6.12")]
    V6_12,
    /// 6.18: direct wake automatic up to 16 CPUs.
    #[serde(rename = "6.18")]
    V6_18,
    /// 7.2: early report, direct wake for all sizes.
    #[serde(rename = "7.2")]
    V7_2,
}

/// The values in force, after defaults by formula, clamps and eras.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunables {
    /// Kernel era.
    pub kernel: Era,
    /// `nr_cpu_ids`: possible CPUs.
    pub nr_cpus: u32,
    /// CPUs online at start (ids 0 .. maxcpus).
    pub maxcpus: u32,
    /// Ticks per second.
    pub hz: u32,
    /// Preemption model.
    pub preempt: Preempt,
    /// `CONFIG_HZ_PERIODIC`, or `nohz=off`: no CPU ever stops its tick.
    pub periodic_ticks: bool,
    /// Each CPU's tick is offset against the others'.
    pub skew_tick: bool,
    /// Children per non-leaf rcu_node.
    pub rcu_fanout: u32,
    /// CPUs per leaf rcu_node.
    pub rcu_fanout_leaf: u32,
    /// Exact instead of balanced tree.
    pub rcu_fanout_exact: bool,
    /// First wait of a grace period, jiffies.
    pub jiffies_till_first_fqs: u64,
    /// Later waits, jiffies.
    pub jiffies_till_next_fqs: u64,
    /// Age at which a hold-out CPU is asked for help, jiffies.
    pub jiffies_to_sched_qs: u64,
    /// Direct wake in force (the automatic value resolved against the CPU count).
    pub wake_from_gp: bool,
    /// Early quiescent-state report at the end of grace-period initialisation.
    pub early_qs: bool,
    /// Callbacks per batch.
    pub blimit: i64,
    /// Queue length that lifts the limit.
    pub qhimark: i64,
    /// Queue length that restores it.
    pub qlowmark: i64,
    /// Overload mark in force; <= 0: no overload handling.
    pub qovld: i64,
    /// Batch is at least DONE >> divisor.
    pub rcu_divisor: u32,
    /// Time limit of a batch, ns.
    pub rcu_resched_ns: u64,
    /// Also check the time limit by jiffies.
    pub rcu_double_check_cb_time: bool,
    /// Stall timeout, s.
    pub rcu_cpu_stall_timeout: u32,
    /// Real-time priority of the grace-period kthread; 0: ordinary task.
    pub kthread_prio: u32,
}

/// Every tunable: what the user gave, and what is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    explicit: std::collections::BTreeMap<&'static str, Value>,
    tunables: Tunables,
}

impl Config {
    /// All defaults.
    pub fn new() -> Self {
        todo!()
    }
    /// This configuration with one more value set; resolves and checks everything again.
    pub fn set(&self, _name: &str, _value: Value) -> Result<Config> {
        todo!()
    }
    /// The values in force.
    pub fn tunables(&self) -> &Tunables {
        &self.tunables
    }
    /// What the user gave.
    pub fn explicit(&self) -> &std::collections::BTreeMap<&'static str, Value> {
        &self.explicit
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}
