//! Every tunable that the mechanisms read: its names, its type and range, its default by formula and
//! by kernel era, and what is in force once the kernel's own limits have been applied.
//!
//! ```
//! use treercu::config::Config;
//!
//! let config = Config::new().with("hz", 1000)?.with("rcutree.jiffies_till_first_fqs", 5000)?;
//! assert_eq!(config.tunables().jiffies_till_first_fqs, 1000); // limited to HZ, as the kernel does
//! assert_eq!(config.warnings().len(), 1);                     // and said so
//! assert!(Config::new().with("hz", 999).is_err());            // the kernel offers no such tick rate
//! # Ok::<(), treercu::error::Error>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `catalogue.rs` | the table of tunables, and what each one accepts |
//! | `accepted.rs` | knobs that are accepted and have no effect here |
//! | `cmdline.rs` | a kernel command line, each word with what became of it |
//! | `cpulist.rs` | lists of CPUs |
//! | `elsewhere.rs` | knobs that are no tunables, and why |
//! | `era.rs` | the table of the kernel eras' defaults |
//! | `known.rs` | every kernel knob of RCU, modelled or not |
//! | `resolve.rs` | defaults by formula, the kernel's limits, checks across tunables |
//! | `suggest.rs` | the nearest known name |
//! | `text.rs` | from and to TOML |
//! | `value.rs` | values as users give them |
//!
//! A [`Config`] keeps what was given and resolves all of it again on every change: nothing depends on
//! the order of changes. The engine and the simulator read [`Tunables`] and nothing else.

mod accepted;
mod catalogue;
mod cmdline;
mod cpulist;
mod elsewhere;
mod era;
mod known;
mod resolve;
mod suggest;
mod text;
mod value;

pub use accepted::{accepted, settable};
pub use catalogue::{
    CONVERT_ON_CONTENTION, Class, DEFAULT_DIVISOR, Kind, MAX_CALLBACKS, MAX_CPUS, MAX_DIVISOR, MAX_FANOUT,
    MAX_GP_DELAY_JIFFIES, MAX_GPWRAP_LAG, MAX_JIFFIES, MAX_KTHREAD_PRIO, MAX_LATCH_THRESHOLD, MAX_LEVELS,
    MAX_RESCHED_NS, MAX_STALL_TIMEOUT_S, MIN_EXP_STALL_TIMEOUT_JIFFIES, MIN_FANOUT, MIN_RESCHED_NS,
    MIN_STALL_TIMEOUT_S, Spec, Type, catalogue, lookup,
};
pub use cmdline::{Verdict, Word};
pub use elsewhere::{Elsewhere, Standing, elsewhere};
pub use era::{DEFAULT_ERA, ERAS, Era, EraDefaults, table_for};
pub use known::{Knob, Takes, knob, known};
pub use suggest::{near_name, nearest_name};
pub use value::Value;

use crate::error::{Error, Result};
use resolve::{Resolved, Values, check, resolve};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Read-side flavour of the kernel build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    /// A woken kthread preempts an ordinary task at once.
    Full,
    /// At the next tick or return to user mode.
    Lazy,
    /// Kernel code is never preempted; readers cost nothing and each context switch is a quiescent
    /// state.
    None,
    /// As [`Preempt::None`], with more points at which kernel code offers the CPU.
    Voluntary,
}

impl Preempt {
    /// Whether a reader can be preempted inside its section (`CONFIG_PREEMPT_RCU`), and so can block
    /// a grace period while it does not run.
    pub const fn is_preemptible(self) -> bool {
        matches!(self, Preempt::Full | Preempt::Lazy)
    }

    /// The word for it, as after `preempt=`.
    pub const fn name(self) -> &'static str {
        match self {
            Preempt::Full => "full",
            Preempt::Lazy => "lazy",
            Preempt::None => "none",
            Preempt::Voluntary => "voluntary",
        }
    }
}

/// Form of the latch that guards the direct wake of `synchronize_rcu()` against floods: while it is
/// closed, new callers take the callback route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Latch {
    /// No latch.
    Off,
    /// As first posted: a request is counted after it is queued, and every count at or above the
    /// threshold closes the latch, so it can be left closed with nothing in flight.
    V1,
    /// As merged: counted before it is queued, and only the exact threshold closes the latch.
    Merged,
}

impl Latch {
    /// The word for it, as given to `sr_normal_latch`.
    pub const fn name(self) -> &'static str {
        match self {
            Latch::Off => "off",
            Latch::V1 => "v1",
            Latch::Merged => "merged",
        }
    }
}

/// When an SRCU domain grows its combining tree: `convert_to_big` resolved against the size of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SrcuSizing {
    /// At initialisation.
    pub at_init: bool,
    /// When torture statistics are printed.
    pub by_torture: bool,
    /// On contention.
    pub on_contention: bool,
}

/// The tunables of SRCU in force (`srcutree.*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SrcuTunables {
    /// Rest after which `synchronize_srcu()` expedites by itself, ns; 0: never.
    pub exp_holdoff_ns: u64,
    /// When a domain grows.
    pub sizing: SrcuSizing,
    /// Contended acquisitions within one jiffy beyond which it does.
    pub small_contention_lim: u64,
    /// Busy-wait between two zero tests, µs.
    pub retry_check_delay_us: u64,
    /// Evaluations without delay in one phase.
    pub max_nodelay_phase: u64,
    /// Runs without delay in one jiffy.
    pub max_nodelay: u64,
    /// Mask of the numbers at whose end stale numbers are refreshed.
    pub counter_wrap_check: u64,
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
    /// SRCU.
    pub srcu: SrcuTunables,
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
    /// Form of the flood latch.
    pub sr_normal_latch: Latch,
    /// Requests in flight at which the latch closes.
    pub sr_normal_latch_threshold: u32,
    /// Debugging sleep before initialisation, jiffies; 0: none.
    pub gp_preinit_delay: u64,
    /// Debugging sleep before each node of initialisation, jiffies; 0: none.
    pub gp_init_delay: u64,
    /// Debugging sleep after each node of cleanup, jiffies; 0: none.
    pub gp_cleanup_delay: u64,
    /// Grace periods that a CPU may lag before its numbers are distrusted; 0: a quarter of the range.
    pub gpwrap_lag: u64,
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
    /// Stall timeout in force, s.
    pub rcu_cpu_stall_timeout: u32,
    /// Stall timeout of expedited grace periods, jiffies.
    pub exp_stall_timeout_jiffies: u64,
    /// No stall is reported.
    pub stall_suppress: bool,
    /// `synchronize_rcu()` is expedited.
    pub sync_is_expedited: bool,
    /// `synchronize_rcu_expedited()` is normal.
    pub expedited_is_normal: bool,
    /// CPUs whose callbacks are offloaded, in order.
    pub offloaded: Vec<u32>,
    /// CPUs of one `rcuog`.
    pub rcu_nocb_gp_stride: u32,
    /// Callbacks a jiffy that do not go to an offloaded CPU's bypass list.
    pub nocb_nobypass_lim_per_jiffy: u64,
    /// `rcuog` looks once a jiffy and is never woken.
    pub rcu_nocb_poll: bool,
    /// Real-time priority of the grace-period kthread; 0: ordinary task.
    pub kthread_prio: u32,
}

/// A value that was accepted and is not used as given, because the kernel limits it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Adjusted {
    /// Python name of the tunable.
    pub name: &'static str,
    /// What was given.
    pub given: Value,
    /// What is in force.
    pub used: Value,
    /// Why.
    pub why: String,
}

impl fmt::Display for Adjusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}={}: {} is used ({})",
            self.name, self.given, self.used, self.why
        )
    }
}

/// Every tunable: what the user gave, and what is in force.
///
/// Serialises as the map of explicit values; [`Config::to_json`] gives the values in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    explicit: Values,
    resolved: Resolved,
}

impl Config {
    /// All defaults: the newest era, 8 CPUs, HZ=250.
    pub fn new() -> Self {
        Config {
            explicit: Values::new(),
            resolved: resolve(&Values::new()),
        }
    }

    /// A configuration with these values set, all at once: checks that involve several tunables are
    /// made when all are in. A name is a Python or a full catalogue name; of two values for one
    /// tunable the later one holds, as on the kernel's command line.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown name, a wrong type, or a value that is refused.
    pub fn from_pairs<I, N, V>(pairs: I) -> Result<Config>
    where
        I: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: Into<Value>,
    {
        Config::new().replace(pairs)
    }

    /// This configuration with these values set, all at once; otherwise as [`Config::from_pairs`].
    ///
    /// # Errors
    /// As [`Config::from_pairs`].
    pub fn replace<I, N, V>(&self, pairs: I) -> Result<Config>
    where
        I: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: Into<Value>,
    {
        let mut explicit = self.explicit.clone();
        for (name, value) in pairs {
            let (name, value) = (name.as_ref(), value.into());
            let spec = find(name, &value)?;
            explicit.insert(spec.python_name, spec.accept(name, &value)?);
        }
        Config::from_explicit(explicit)
    }

    /// This configuration with one more value set; resolves and checks everything again.
    ///
    /// # Errors
    /// As [`Config::from_pairs`].
    pub fn set(&self, name: &str, value: Value) -> Result<Config> {
        self.replace([(name, value)])
    }

    /// [`Config::set`] for literals: `Config::new().with("hz", 1000)?.with("early_qs", false)?`.
    ///
    /// # Errors
    /// As [`Config::from_pairs`].
    pub fn with(&self, name: &str, value: impl Into<Value>) -> Result<Config> {
        self.set(name, value.into())
    }

    /// This configuration with one tunable back at its default.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown name, or if what remains does not fit together.
    pub fn without(&self, name: &str) -> Result<Config> {
        let mut explicit = self.explicit.clone();
        explicit.remove(find(name, "?")?.python_name);
        Config::from_explicit(explicit)
    }

    fn from_explicit(explicit: Values) -> Result<Config> {
        let resolved = resolve(&explicit);
        check(&resolved.tunables)?;
        Ok(Config { explicit, resolved })
    }

    /// The values in force, as the engine and the simulator read them.
    pub fn tunables(&self) -> &Tunables {
        &self.resolved.tunables
    }

    /// What the user gave, by Python name; each value in its tunable's own type.
    pub fn explicit(&self) -> &BTreeMap<&'static str, Value> {
        &self.explicit
    }

    /// Every value in force, by Python name.
    ///
    /// Some of them are questions rather than settings: `jiffies_till_sched_qs`, if not given, shows the
    /// computed age; `rcu_normal_wake_from_gp` stays -1 where it is automatic, and
    /// [`Tunables::wake_from_gp`] says what that comes to; `convert_to_big` stays 3 where it is automatic, and
    /// [`SrcuTunables::sizing`] says what that comes to.
    pub fn effective(&self) -> &BTreeMap<&'static str, Value> {
        &self.resolved.effective
    }

    /// The value in force of one tunable, see [`Config::effective`].
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown name.
    pub fn get(&self, name: &str) -> Result<Value> {
        Ok(self.resolved.effective[find(name, "?")?.python_name].clone())
    }

    /// One entry for each given value that is not used as given.
    pub fn warnings(&self) -> &[Adjusted] {
        &self.resolved.warnings
    }

    /// An object of every value in force, by Python name.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.resolved.effective).expect("booleans, integers and words")
    }

    /// The explicit values as a Python call, in the catalogue's order: `Config(kernel="7.2", hz=1000)`.
    pub fn describe(&self) -> String {
        let words: Vec<String> = settable()
            .filter_map(|spec| {
                let value = self.explicit.get(spec.python_name)?;
                Some(format!("{}={}", spec.python_name, value.repr()))
            })
            .collect();
        format!("Config({})", words.join(", "))
    }

    /// The value in force if `python_name` were not set; checks across tunables do not matter here.
    fn default_of(&self, python_name: &'static str) -> Value {
        if !self.explicit.contains_key(python_name) {
            return self.resolved.effective[python_name].clone();
        }
        let mut explicit = self.explicit.clone();
        explicit.remove(python_name);
        resolve(&explicit).effective[python_name].clone()
    }
}

/// The tunable of this name, or an error that names one that is near.
fn find(name: &str, value: impl ToString) -> Result<&'static Spec> {
    lookup(name).ok_or_else(|| {
        let unmodelled = knob(name).filter(|knob| !knob.is_modelled());
        let reason = match unmodelled {
            Some(knob) => format!("{} is a knob of the kernel that is not modelled yet", knob.name),
            None => "no such tunable".into(),
        };
        let allowed = match near_name(name) {
            _ if unmodelled.is_some() => "what is modelled, as the table of tunables lists it".to_owned(),
            Some(near) => format!("a known name; the nearest is {near}"),
            None => "a known name, as the table of tunables lists them".to_owned(),
        };
        Error::config(value::shown(name), value, reason, allowed)
    })
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.explicit.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let given = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Config::from_pairs(given).map_err(serde::de::Error::custom)
    }
}
