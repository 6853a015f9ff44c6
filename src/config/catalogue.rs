//! The table of tunables: names, types, ranges, what each one does and which mechanism reads it.
//!
//! Sources: names, types, ranges and defaults are those of the kernel's `kernel-parameters.txt`,
//! `kernel/rcu/Kconfig*` and `kernel/Kconfig.hz`; rows of kind [`Kind::Patch`] come from patches on the
//! kernel's mailing lists. Where a limit is this crate's own, its constant says so.

use super::{Config, Value, value::shown};
use crate::error::{Error, Result};
use serde::Serialize;

/// Most possible CPUs of a simulated machine (this crate's limit).
pub const MAX_CPUS: u32 = 4 * 4096;
/// Most levels of the rcu_node tree (the kernel refuses to build with more).
pub const MAX_LEVELS: u32 = 4;
/// Smallest fan-out of a tree node.
pub const MIN_FANOUT: u32 = 2;
/// Largest fan-out of a tree node: bits of a 64-bit word.
pub const MAX_FANOUT: u32 = 64;
/// Largest `jiffies_till_sched_qs` (this crate's limit; the kernel takes any unsigned long).
pub const MAX_JIFFIES: i64 = i32::MAX as i64;
/// Largest `blimit`, `qhimark` and `qlowmark`; `qovld` may be twice that (this crate's limit; the kernel
/// takes any long).
pub const MAX_CALLBACKS: i64 = i32::MAX as i64;
/// Shift that stands in for a negative `rcu_divisor`.
pub const DEFAULT_DIVISOR: i64 = 7;
/// Largest shift in force, bits of a 64-bit word less 2.
pub const MAX_DIVISOR: i64 = 62;
/// Shortest time limit of a callback batch in force, ns.
pub const MIN_RESCHED_NS: i64 = 1_000_000;
/// Longest time limit of a callback batch in force, ns.
pub const MAX_RESCHED_NS: i64 = 1_000_000_000;
/// Shortest stall timeout in force, s.
pub const MIN_STALL_TIMEOUT_S: i64 = 3;
/// Shortest expedited stall timeout in force, jiffies.
pub const MIN_EXP_STALL_TIMEOUT_JIFFIES: i64 = 2;
/// Longest stall timeout in force, s.
pub const MAX_STALL_TIMEOUT_S: i64 = 300;
/// Highest real-time priority of a kthread.
pub const MAX_KTHREAD_PRIO: i64 = 99;
/// Longest of the debugging delays of a grace period, jiffies: 10 s at HZ=1000, 100 s at HZ=100 (this
/// crate's limit; the kernel takes any int).
pub const MAX_GP_DELAY_JIFFIES: i64 = 10_000;
/// Largest threshold of the flood latch, requests (this crate's limit).
pub const MAX_LATCH_THRESHOLD: i64 = 1_000_000;
/// Longest `srcu_retry_check_delay`, µs: 1 s (this crate's limit; the kernel takes any unsigned long).
pub const MAX_RETRY_CHECK_DELAY_US: i64 = 1_000_000;
/// Least and most `srcu_max_nodelay_phase`.
pub const NODELAY_PHASE: (i64, i64) = (3, 1000);
/// Bit of `convert_to_big`: convert on contention as well.
pub const CONVERT_ON_CONTENTION: i64 = 0x10;
/// Largest `gpwrap_lag`, grace periods (this crate's limit).
pub const MAX_GPWRAP_LAG: i64 = 1 << 40;

/// Tick rates that the kernel's build offers, ticks per second.
const HZ_CHOICES: &[i64] = &[100, 250, 300, 1000];
/// Names of the eras, see [`ERAS`](super::ERAS).
const KERNEL_CHOICES: &[&str] = &["6.8", "6.12", "6.18", "7.2"];
/// THE SWITCH for `preempt = none | voluntary`. While it is false both words are refused with "not
/// modelled yet", in configurations and on kernel command lines; set it to true once the engine has the
/// non-preemptible flavour. Choices, range text, messages and tests follow.
const NON_PREEMPTIBLE_IS_MODELLED: bool = true;
/// Preemption models that are accepted.
const PREEMPT_CHOICES: &[&str] = if NON_PREEMPTIBLE_IS_MODELLED {
    &["full", "lazy", "none", "voluntary"]
} else {
    &["full", "lazy"]
};
/// Range text of `preempt`.
const PREEMPT_RANGE: &str = if NON_PREEMPTIBLE_IS_MODELLED {
    "full, lazy, none or voluntary"
} else {
    "full or lazy"
};
/// Forms of the flood latch, see [`Latch`](super::Latch).
const LATCH_CHOICES: &[&str] = &["off", "v1", "merged"];
/// Policies of `convert_to_big`, each alone and with [`CONVERT_ON_CONTENTION`].
const CONVERT_CHOICES: &[i64] = &[0, 1, 2, 3, 0x10, 0x11, 0x12, 0x13];
/// Range text of every boolean.
pub(super) const BOOL_RANGE: &str = "0 1 false true off on n y";
/// Range of the kernel's `int`.
pub(super) const INT: Type = Type::Int {
    min: i32::MIN as i64,
    max: i32::MAX as i64,
};

/// Where a tunable comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Parameter of a kernel module, `rcutree.blimit=10` on the kernel's command line.
    ModuleParam,
    /// Decided when the kernel is built.
    Kconfig,
    /// Plain word of the kernel's command line.
    BootArg,
    /// A behaviour or constant of a patch that has no parameter of its own.
    Patch,
    /// This crate's own.
    Model,
}

/// What happens to a value of the right type that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Accepted and limited as the kernel does, with one warning; only what the type itself cannot hold
    /// or the kernel's parser rejects is refused.
    Clamped,
    /// [`Error::Config`] with name, value and range.
    Refused,
}

/// What a tunable accepts. A value inside can still be limited when it is put into force
/// (see [`Class::Clamped`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A boolean, 0, 1, or one of the words for them.
    Bool,
    /// An integer, or its decimal digits as text.
    Int {
        /// Smallest accepted value.
        min: i64,
        /// Largest accepted value.
        max: i64,
    },
    /// One of these integers, or its decimal digits as text.
    IntOneOf(&'static [i64]),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of CPUs as text.
    CpuList,
}

/// One tunable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Full catalogue name: `rcutree.jiffies_till_first_fqs`, `CONFIG_HZ`, `patch.early_qs`.
    pub name: &'static str,
    /// Name as Python keyword: `jiffies_till_first_fqs`, `hz`, `early_qs`.
    pub python_name: &'static str,
    /// What the kernel's source calls it.
    pub kernel_name: &'static str,
    /// Where it comes from.
    pub kind: Kind,
    /// What it accepts.
    #[serde(rename = "type")]
    pub value_type: Type,
    /// Unit of the value; empty where there is none.
    pub unit: &'static str,
    /// The allowed values in words, and what becomes of others.
    pub range: &'static str,
    /// What happens to a value out of range.
    pub class: Class,
    /// 1: decides latency and throughput; 2: one mechanism; 3: debugging and the periphery.
    pub tier: u8,
    /// The default in words or as a formula; for the number see [`Spec::default_for`].
    pub default_formula: &'static str,
    /// What it does.
    pub effect: &'static str,
    /// Which mechanism of this crate reads it.
    pub why: &'static str,
}

/// Every tunable that the mechanisms read, in the order in which they are shown.
pub fn catalogue() -> &'static [Spec] {
    CATALOGUE
}

/// The tunable of this Python or full catalogue name; also one that is accepted without an effect.
pub fn lookup(name: &str) -> Option<&'static Spec> {
    CATALOGUE
        .iter()
        .chain(super::accepted())
        .find(|spec| spec.python_name == name || spec.name == name)
}

impl Spec {
    /// The value in force in `config` if this tunable were not set there.
    pub fn default_for(&self, config: &Config) -> Value {
        config.default_of(self.python_name)
    }

    /// `given` as this tunable's type, or why it is refused. `name` is how the user wrote the name.
    pub(super) fn accept(&self, name: &str, given: &Value) -> Result<Value> {
        let refuse = |reason: String| Err(Error::config(shown(name), given, reason, self.range));
        let wrong_type = |wanted: &str| refuse(format!("{} where {wanted} is needed", article(given)));
        match self.value_type {
            Type::Bool => match given {
                Value::Bool(b) => Ok(Value::Bool(*b)),
                Value::Int(0) => Ok(Value::Bool(false)),
                Value::Int(1) => Ok(Value::Bool(true)),
                Value::Int(_) => refuse("no boolean".into()),
                Value::Text(t) => match t.to_ascii_lowercase().as_str() {
                    "0" | "false" | "off" | "n" => Ok(Value::Bool(false)),
                    "1" | "true" | "on" | "y" => Ok(Value::Bool(true)),
                    _ => refuse("no boolean".into()),
                },
                Value::Float(_) => wrong_type("a boolean"),
            },
            Type::Int { .. } | Type::IntOneOf(_) => {
                let number = match given {
                    Value::Int(i) => *i,
                    Value::Text(t) if is_decimal(t) => match t.parse::<i64>() {
                        Ok(i) => i,
                        Err(_) => return refuse("does not fit in 64 bits".into()),
                    },
                    Value::Text(_) => return refuse("no decimal number".into()),
                    _ => return wrong_type("an integer"),
                };
                match self.value_type {
                    Type::Int { min, max } if (min..=max).contains(&number) => Ok(Value::Int(number)),
                    Type::Int { .. } if self.python_name == "maxcpus" && number == 0 => {
                        refuse("a kernel booted without SMP is not modelled".into())
                    }
                    Type::IntOneOf(choices) if choices.contains(&number) => Ok(Value::Int(number)),
                    Type::IntOneOf(_) => refuse("no such choice".into()),
                    _ => refuse("out of range".into()),
                }
            }
            Type::CpuList => match given {
                Value::Text(list) => match super::cpulist::parse(list) {
                    Ok(_) => Ok(given.clone()),
                    Err(reason) => refuse(reason),
                },
                Value::Int(cpu) if u32::try_from(*cpu).is_ok() => Ok(Value::Text(cpu.to_string())),
                _ => wrong_type("text"),
            },
            Type::OneOf(choices) => match given {
                Value::Text(t) if choices.contains(&t.as_str()) => Ok(given.clone()),
                // Reached only while NON_PREEMPTIBLE_IS_MODELLED is false.
                Value::Text(t) if self.python_name == "preempt" && (t == "none" || t == "voluntary") => {
                    refuse("the non-preemptible flavour of RCU is not modelled yet".into())
                }
                Value::Text(_) => refuse("no such choice".into()),
                Value::Float(_) if self.python_name == "kernel" => {
                    wrong_type("a release as text, in quotes,")
                }
                _ => wrong_type("text"),
            },
        }
    }
}

fn article(value: &Value) -> String {
    match value {
        Value::Int(_) => "an integer".into(),
        Value::Text(_) => "text".into(),
        other => format!("a {}", other.type_name()),
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

static CATALOGUE: &[Spec] = &[
    Spec {
        name: "kernel",
        python_name: "kernel",
        kernel_name: "(none)",
        kind: Kind::Model,
        value_type: Type::OneOf(KERNEL_CHOICES),
        unit: "kernel release",
        range: "\"6.8\", \"6.12\", \"6.18\" or \"7.2\"",
        class: Class::Refused,
        tier: 1,
        default_formula: "7.2",
        effect: "The era whose defaults hold for whatever is not set. It sets defaults only: every behaviour \
                 can be had in every era by setting its own tunable.",
        why: "the defaults of rcu_normal_wake_from_gp, early_qs and sr_normal_latch, and who expires an idle \
              CPU's timers",
    },
    Spec {
        name: "nr_cpus",
        python_name: "nr_cpus",
        kernel_name: "nr_cpus=",
        kind: Kind::BootArg,
        value_type: Type::Int {
            min: 1,
            max: MAX_CPUS as i64,
        },
        unit: "CPUs",
        range: "1 to 16384, and no more than a tree of 4 levels holds with the fan-outs in force",
        class: Class::Refused,
        tier: 1,
        default_formula: "8",
        effect: "Number of possible CPUs (nr_cpu_ids). It shapes the rcu_node tree and enters every default \
                 that grows with the machine.",
        why: "tree geometry; default waits of the grace-period kthread; automatic direct wake",
    },
    Spec {
        name: "maxcpus",
        python_name: "maxcpus",
        kernel_name: "maxcpus=",
        kind: Kind::BootArg,
        value_type: Type::Int {
            min: 1,
            max: i32::MAX as i64,
        },
        unit: "CPUs",
        range: "1 to nr_cpus; above: nr_cpus is used",
        class: Class::Clamped,
        tier: 2,
        default_formula: "nr_cpus",
        effect: "CPUs brought online at boot, ids 0 to maxcpus - 1. The others keep their place in the tree \
                 and are never waited for.",
        why: "online masks of the leaves; the CPUs on which tasks run",
    },
    Spec {
        name: "CONFIG_HZ",
        python_name: "hz",
        kernel_name: "HZ",
        kind: Kind::Kconfig,
        value_type: Type::IntOneOf(HZ_CHOICES),
        unit: "ticks/s",
        range: "100, 250, 300 or 1000",
        class: Class::Refused,
        tier: 1,
        default_formula: "250",
        effect: "Tick rate, and so the length of a jiffy. All waits of the grace-period kthread are counted \
                 in jiffies, most defaults depend on it.",
        why: "tick and timer wheel; default waits of the grace-period kthread",
    },
    Spec {
        name: "preempt",
        python_name: "preempt",
        kernel_name: "preempt=",
        kind: Kind::BootArg,
        value_type: Type::OneOf(PREEMPT_CHOICES),
        unit: "",
        range: PREEMPT_RANGE,
        class: Class::Refused,
        tier: 1,
        default_formula: "full",
        effect: "When a woken task takes the CPU from an ordinary one: at once (full), or at the next tick or \
                 return to user mode (lazy). Both keep readers preemptible; a kernel built as none or \
                 voluntary does not, and there each context switch is a quiescent state.",
        why: "run queue of the simulated CPU; read-side flavour",
    },
    Spec {
        name: "CONFIG_HZ_PERIODIC",
        python_name: "hz_periodic",
        kernel_name: "HZ_PERIODIC",
        kind: Kind::Kconfig,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 1,
        default_formula: "false",
        effect: "The tick never stops: an idle CPU notices a grace period and reports its quiescent state from \
                 its own tick.",
        why: "tick of an idle CPU",
    },
    Spec {
        name: "nohz",
        python_name: "nohz",
        kernel_name: "nohz=",
        kind: Kind::BootArg,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "true",
        effect: "Off: the tick goes on in idle, as with CONFIG_HZ_PERIODIC.",
        why: "tick of an idle CPU",
    },
    Spec {
        name: "skew_tick",
        python_name: "skew_tick",
        kernel_name: "skew_tick=",
        kind: Kind::BootArg,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "false",
        effect: "Spreads the ticks of the CPUs over the jiffy, so that their reports do not meet at the same \
                 node locks.",
        why: "phase of each simulated CPU's tick",
    },
    Spec {
        name: "CONFIG_RCU_FANOUT",
        python_name: "rcu_fanout",
        kernel_name: "RCU_FANOUT",
        kind: Kind::Kconfig,
        value_type: Type::Int {
            min: MIN_FANOUT as i64,
            max: MAX_FANOUT as i64,
        },
        unit: "children per node",
        range: "2 to 64",
        class: Class::Refused,
        tier: 1,
        default_formula: "64",
        effect: "Most children of an rcu_node that is not a leaf.",
        why: "tree geometry",
    },
    Spec {
        name: "CONFIG_RCU_FANOUT_LEAF",
        python_name: "config_rcu_fanout_leaf",
        kernel_name: "RCU_FANOUT_LEAF",
        kind: Kind::Kconfig,
        value_type: Type::Int {
            min: MIN_FANOUT as i64,
            max: MAX_FANOUT as i64,
        },
        unit: "CPUs per leaf",
        range: "2 to 64",
        class: Class::Refused,
        tier: 1,
        default_formula: "16",
        effect: "The built-in leaf size: default of rcu_fanout_leaf, and nothing else.",
        why: "default of rcu_fanout_leaf",
    },
    Spec {
        name: "rcutree.rcu_fanout_leaf",
        python_name: "rcu_fanout_leaf",
        kernel_name: "rcu_fanout_leaf",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: MIN_FANOUT as i64,
            max: MAX_FANOUT as i64,
        },
        unit: "CPUs per leaf",
        range: "2 to 64 (the kernel warns and ignores others)",
        class: Class::Refused,
        tier: 1,
        default_formula: "config_rcu_fanout_leaf",
        effect: "CPUs under one leaf rcu_node. Small leaves have less lock contention, but the grace-period \
                 kthread visits more nodes.",
        why: "tree geometry",
    },
    Spec {
        name: "rcutree.rcu_fanout_exact",
        python_name: "rcu_fanout_exact",
        kernel_name: "rcu_fanout_exact",
        kind: Kind::ModuleParam,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "false",
        effect: "Fills nodes to their full fan-out from the left instead of spreading children evenly.",
        why: "tree geometry",
    },
    Spec {
        name: "rcutree.jiffies_till_first_fqs",
        python_name: "jiffies_till_first_fqs",
        kernel_name: "jiffies_till_first_fqs",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i64::MAX,
        },
        unit: "jiffies",
        range: "0 to HZ jiffies; above: HZ is used",
        class: Class::Clamped,
        tier: 1,
        default_formula: "1 + (hz > 250) + (hz > 500) + nr_cpus / 256",
        effect: "How long the grace-period kthread sleeps between initialising a grace period and its first \
                 scan for quiescent states. On an idle machine most of synchronize_rcu()'s latency.",
        why: "force-quiescent-state loop",
    },
    Spec {
        name: "rcutree.jiffies_till_next_fqs",
        python_name: "jiffies_till_next_fqs",
        kernel_name: "jiffies_till_next_fqs",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i64::MAX,
        },
        unit: "jiffies",
        range: "1 to HZ jiffies; 0: 1 is used; above: HZ is used",
        class: Class::Clamped,
        tier: 1,
        default_formula: "1 + (hz > 250) + (hz > 500) + nr_cpus / 256",
        effect: "Sleep between later scans. A CPU that only the second scan can clear costs one of these.",
        why: "force-quiescent-state loop",
    },
    Spec {
        name: "rcutree.jiffies_till_sched_qs",
        python_name: "jiffies_till_sched_qs",
        kernel_name: "jiffies_till_sched_qs",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_JIFFIES,
        },
        unit: "jiffies",
        range: "0 to 2147483647 jiffies",
        class: Class::Refused,
        tier: 1,
        default_formula: "computed, see jiffies_to_sched_qs",
        effect: "Sets the age at which a grace period begins to ask hold-out CPUs for a quiescent state, in \
                 place of the computed one.",
        why: "urgency of the force-quiescent-state scan",
    },
    Spec {
        name: "rcutree.jiffies_to_sched_qs",
        python_name: "jiffies_to_sched_qs",
        kernel_name: "jiffies_to_sched_qs",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i64::MAX,
        },
        unit: "jiffies",
        range: "0 or more jiffies, without effect: the computed age is used (set jiffies_till_sched_qs)",
        class: Class::Clamped,
        tier: 1,
        default_formula: "jiffies_till_sched_qs if set, else max(jiffies_till_first_fqs + \
                          2 * jiffies_till_next_fqs, hz / 10 + nr_cpus / 256)",
        effect: "Shows the age in force: past it a hold-out CPU is marked urgent, past twice it the scheduler \
                 is asked for a quiescent state. Boot code overwrites whatever is set.",
        why: "urgency of the force-quiescent-state scan",
    },
    Spec {
        name: "rcutree.rcu_normal_wake_from_gp",
        python_name: "rcu_normal_wake_from_gp",
        kernel_name: "rcu_normal_wake_from_gp",
        kind: Kind::ModuleParam,
        value_type: Type::Int { min: -1, max: 1 },
        unit: "",
        range: "-1 (automatic), 0 or 1",
        class: Class::Refused,
        tier: 1,
        default_formula: "by kernel: 6.8 and 6.12: 0, 6.18: -1, 7.2: 1",
        effect: "1: the end of the grace period wakes synchronize_rcu() callers directly. 0: each of them waits \
                 for a callback of its own. -1: 1 if nr_cpus <= wake_from_gp_cpu_threshold, else 0.",
        why: "route of synchronize_rcu()",
    },
    Spec {
        name: "patch.wake_from_gp_cpu_threshold",
        python_name: "wake_from_gp_cpu_threshold",
        kernel_name: "WAKE_FROM_GP_CPU_THRESHOLD",
        kind: Kind::Patch,
        value_type: Type::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        unit: "CPUs",
        range: "0 to 2147483647 CPUs",
        class: Class::Refused,
        tier: 1,
        default_formula: "16",
        effect: "Largest number of possible CPUs for which rcu_normal_wake_from_gp=-1 means 1.",
        why: "route of synchronize_rcu()",
    },
    Spec {
        name: "patch.early_qs",
        python_name: "early_qs",
        kernel_name: "(none: always on where the patch is)",
        kind: Kind::Patch,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 1,
        default_formula: "by kernel: 7.2: true, else false",
        effect: "Having initialised a grace period, the kthread reports a quiescent state for the CPU it runs \
                 on. Otherwise that CPU is often the only one that the first scan cannot clear.",
        why: "end of grace-period initialisation",
    },
    Spec {
        name: "patch.sr_normal_latch",
        python_name: "sr_normal_latch",
        kernel_name: "(form of the flood latch; its state is rcu_sr_normal_latched)",
        kind: Kind::Patch,
        value_type: Type::OneOf(LATCH_CHOICES),
        unit: "",
        range: "off, v1 or merged",
        class: Class::Refused,
        tier: 1,
        default_formula: "by kernel: 7.2: merged, else off",
        effect: "Form of the latch that sends synchronize_rcu() callers to the callback route while too many \
                 wait for a direct wake: none (off), as first posted (v1, which can stick), or as merged.",
        why: "route of synchronize_rcu()",
    },
    Spec {
        name: "patch.sr_normal_latch_threshold",
        python_name: "sr_normal_latch_threshold",
        kernel_name: "RCU_SR_NORMAL_LATCH_THR",
        kind: Kind::Patch,
        value_type: Type::Int {
            min: 1,
            max: MAX_LATCH_THRESHOLD,
        },
        unit: "requests in flight",
        range: "1 to 1000000 requests in flight",
        class: Class::Refused,
        tier: 1,
        default_formula: "64",
        effect: "Number of direct-wake requests in flight at which the latch closes. It opens again when none \
                 is left.",
        why: "route of synchronize_rcu()",
    },
    Spec {
        name: "srcutree.exp_holdoff",
        python_name: "exp_holdoff",
        kernel_name: "exp_holdoff",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i64::MAX,
        },
        unit: "ns",
        range: "0 (never expedite by itself) or more ns",
        class: Class::Refused,
        tier: 1,
        default_formula: "25000",
        effect: "synchronize_srcu() on a domain at rest whose latest grace period ended at least this long ago \
                 uses an expedited grace period.",
        why: "auto-expedite test of SRCU",
    },
    Spec {
        name: "srcutree.convert_to_big",
        python_name: "convert_to_big",
        kernel_name: "convert_to_big",
        kind: Kind::ModuleParam,
        value_type: Type::IntOneOf(CONVERT_CHOICES),
        unit: "policy code",
        range: "0 never, 1 at initialisation, 2 when torture statistics are printed, 3 automatic; plus 16 on contention",
        class: Class::Refused,
        tier: 1,
        default_formula: "3, which comes to 1 if nr_cpus >= big_cpu_lim, else to 16",
        effect: "When an SRCU domain grows its combining tree, after which callbacks are queued on every CPU \
                 instead of on the boot CPU.",
        why: "size state of an SRCU domain",
    },
    Spec {
        name: "srcutree.big_cpu_lim",
        python_name: "big_cpu_lim",
        kernel_name: "big_cpu_lim",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "CPUs",
        range: "any int; negative or 0: always big",
        class: Class::Refused,
        tier: 2,
        default_formula: "128",
        effect: "With convert_to_big=3, a machine with at least this many possible CPUs gives each SRCU domain its \
                 tree at initialisation.",
        why: "size state of an SRCU domain",
    },
    Spec {
        name: "srcutree.small_contention_lim",
        python_name: "small_contention_lim",
        kernel_name: "small_contention_lim",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        unit: "contended acquisitions per jiffy",
        range: "0 to 2147483647",
        class: Class::Refused,
        tier: 2,
        default_formula: "100",
        effect: "More contended acquisitions of a small SRCU domain's update-side locks within one jiffy make it \
                 grow, where convert_to_big has the bit 16.",
        why: "contention meter of an SRCU domain",
    },
    Spec {
        name: "srcutree.srcu_retry_check_delay",
        python_name: "srcu_retry_check_delay",
        kernel_name: "srcu_retry_check_delay",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_RETRY_CHECK_DELAY_US,
        },
        unit: "us",
        range: "0 to 1000000 us",
        class: Class::Refused,
        tier: 1,
        default_formula: "5",
        effect: "Busy-wait between two looks at the reader counters within one run of an SRCU domain's work item.",
        why: "zero test of SRCU",
    },
    Spec {
        name: "srcutree.srcu_max_nodelay_phase",
        python_name: "srcu_max_nodelay_phase",
        kernel_name: "srcu_max_nodelay_phase",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: NODELAY_PHASE.0,
            max: NODELAY_PHASE.1,
        },
        unit: "evaluations",
        range: "3 to 1000",
        class: Class::Refused,
        tier: 1,
        default_formula: "clamp(2 * 1000000 / hz / 5, 3, 1000)",
        effect: "How many evaluations of the delay may come to none in one phase of an expedited SRCU grace period \
                 before a delay of one jiffy is forced.",
        why: "delays of SRCU",
    },
    Spec {
        name: "srcutree.srcu_max_nodelay",
        python_name: "srcu_max_nodelay",
        kernel_name: "srcu_max_nodelay",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        unit: "runs per jiffy",
        range: "0 to 2147483647 runs per jiffy",
        class: Class::Refused,
        tier: 1,
        default_formula: "max(srcu_max_nodelay_phase, 100)",
        effect: "How often an SRCU domain's work item may be queued again without delay in one jiffy.",
        why: "delays of SRCU",
    },
    Spec {
        name: "srcutree.counter_wrap_check",
        python_name: "counter_wrap_check",
        kernel_name: "counter_wrap_check",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i64::MAX,
        },
        unit: "bit mask on the SRCU grace-period number",
        range: "0 to 9223372036854775807",
        class: Class::Refused,
        tier: 3,
        default_formula: "ULONG_MAX >> 2",
        effect: "An SRCU grace period whose number has none of these bits refreshes the numbers of CPUs that have \
                 needed none for long, so that they never seem to lie ahead when the number wraps.",
        why: "end of an SRCU grace period",
    },
    Spec {
        name: "rcutree.gp_preinit_delay",
        python_name: "gp_preinit_delay",
        kernel_name: "gp_preinit_delay",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_GP_DELAY_JIFFIES,
        },
        unit: "jiffies",
        range: "0 (none) to 10000 jiffies",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "Lets the grace-period kthread sleep this long between the pass that applies hotplug changes and \
                 initialisation, in one grace period of every (rcu_nodes x 3 x delay). \
                 A debugging aid that widens races.",
        why: "reschedule points of the grace-period kthread",
    },
    Spec {
        name: "rcutree.gp_init_delay",
        python_name: "gp_init_delay",
        kernel_name: "gp_init_delay",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_GP_DELAY_JIFFIES,
        },
        unit: "jiffies",
        range: "0 (none) to 10000 jiffies",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "Lets the grace-period kthread sleep this long before it initialises each rcu_node, in one grace period of every (rcu_nodes x 3 x delay). \
                 A debugging aid that widens races.",
        why: "reschedule points of the grace-period kthread",
    },
    Spec {
        name: "rcutree.gp_cleanup_delay",
        python_name: "gp_cleanup_delay",
        kernel_name: "gp_cleanup_delay",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_GP_DELAY_JIFFIES,
        },
        unit: "jiffies",
        range: "0 (none) to 10000 jiffies",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "Lets the grace-period kthread sleep this long after it cleans up each rcu_node, in one grace period of every (rcu_nodes x 3 x delay). \
                 A debugging aid that widens races.",
        why: "reschedule points of the grace-period kthread",
    },
    Spec {
        name: "gpwrap_lag",
        python_name: "gpwrap_lag",
        kernel_name: "(none)",
        kind: Kind::Model,
        value_type: Type::Int {
            min: 0,
            max: MAX_GPWRAP_LAG,
        },
        unit: "grace periods",
        range: "0 (as the kernel: a quarter of the range of gp_seq) to 1099511627776 grace periods",
        class: Class::Refused,
        tier: 3,
        default_formula: "0",
        effect: "How many grace periods a CPU may lag behind its leaf before its own numbers are distrusted. \
                 The kernel's quarter of the range is out of a test's reach; a small value is not.",
        why: "grace-period numbers of a CPU that was idle for long",
    },
    Spec {
        name: "rcutree.blimit",
        python_name: "blimit",
        kernel_name: "blimit",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 1,
            max: MAX_CALLBACKS,
        },
        unit: "callbacks",
        range: "1 to 2147483647 callbacks (below 1 no callback would ever be invoked)",
        class: Class::Refused,
        tier: 1,
        default_formula: "10",
        effect: "Callbacks invoked in one pass of the RCU core, while the CPU has other work and its queue is \
                 not flooded.",
        why: "callback batches",
    },
    Spec {
        name: "rcutree.qhimark",
        python_name: "qhimark",
        kernel_name: "qhimark",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_CALLBACKS,
        },
        unit: "callbacks",
        range: "0 to 2147483647 callbacks",
        class: Class::Refused,
        tier: 1,
        default_formula: "10000",
        effect: "Growth of one CPU's queue since its last check that lifts the batch limit and starts a grace \
                 period or forces a scan.",
        why: "flood handling of call_rcu()",
    },
    Spec {
        name: "rcutree.qlowmark",
        python_name: "qlowmark",
        kernel_name: "qlowmark",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: MAX_CALLBACKS,
        },
        unit: "callbacks",
        range: "0 to 2147483647 callbacks",
        class: Class::Refused,
        tier: 1,
        default_formula: "100",
        effect: "Queue length at which a lifted batch limit goes back to blimit.",
        why: "callback batches",
    },
    Spec {
        name: "rcutree.qovld",
        python_name: "qovld",
        kernel_name: "qovld",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: i64::MIN,
            max: 2 * MAX_CALLBACKS,
        },
        unit: "callbacks",
        range: "0 (off) to 4294967294 callbacks; negative: 2 x qhimark is used",
        class: Class::Clamped,
        tier: 1,
        default_formula: "20000",
        effect: "Queue length at which a CPU counts as overloaded: scans then come three times as often and \
                 hold-out CPUs are pressed at first sight.",
        why: "overload marks of the leaves; force-quiescent-state loop",
    },
    Spec {
        name: "rcutree.rcu_divisor",
        python_name: "rcu_divisor",
        kernel_name: "rcu_divisor",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "right shift",
        range: "0 to 62; negative: 7 is used; above: 62 is used",
        class: Class::Clamped,
        tier: 1,
        default_formula: "7",
        effect: "A batch may invoke the number of ready callbacks shifted right by this, even if that is more \
                 than blimit.",
        why: "callback batches",
    },
    Spec {
        name: "rcutree.rcu_resched_ns",
        python_name: "rcu_resched_ns",
        kernel_name: "rcu_resched_ns",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: i64::MIN,
            max: i64::MAX,
        },
        unit: "ns",
        range: "1000000 to 1000000000 ns; the nearer end is used for others",
        class: Class::Clamped,
        tier: 1,
        default_formula: "3000000",
        effect: "Time after which a large callback batch stops and lets others run.",
        why: "callback batches",
    },
    Spec {
        name: "CONFIG_RCU_DOUBLE_CHECK_CB_TIME",
        python_name: "rcu_double_check_cb_time",
        kernel_name: "RCU_DOUBLE_CHECK_CB_TIME",
        kind: Kind::Kconfig,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "false",
        effect: "Applies the time limit to small batches too, by a jiffy check on every callback.",
        why: "callback batches",
    },
    Spec {
        name: "CONFIG_RCU_CPU_STALL_TIMEOUT",
        python_name: "config_rcu_cpu_stall_timeout",
        kernel_name: "RCU_CPU_STALL_TIMEOUT",
        kind: Kind::Kconfig,
        value_type: Type::Int {
            min: MIN_STALL_TIMEOUT_S,
            max: MAX_STALL_TIMEOUT_S,
        },
        unit: "s",
        range: "3 to 300 s",
        class: Class::Refused,
        tier: 1,
        default_formula: "21",
        effect: "The built-in stall timeout: default of rcu_cpu_stall_timeout, and nothing else.",
        why: "default of rcu_cpu_stall_timeout",
    },
    Spec {
        name: "rcupdate.rcu_cpu_stall_timeout",
        python_name: "rcu_cpu_stall_timeout",
        kernel_name: "rcu_cpu_stall_timeout",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "s",
        range: "3 to 300 s; the nearer end is used for others",
        class: Class::Clamped,
        tier: 1,
        default_formula: "config_rcu_cpu_stall_timeout",
        effect: "Age of a grace period at which it counts as stalled. From half of it on, hold-out CPUs are \
                 sent reschedule interrupts.",
        why: "stall detection; urgency of the force-quiescent-state scan",
    },
    Spec {
        name: "CONFIG_RCU_EXP_CPU_STALL_TIMEOUT",
        python_name: "config_rcu_exp_cpu_stall_timeout",
        kernel_name: "RCU_EXP_CPU_STALL_TIMEOUT",
        kind: Kind::Kconfig,
        value_type: Type::Int {
            min: 0,
            max: MAX_STALL_TIMEOUT_S * 1000,
        },
        unit: "ms",
        range: "0 (follow rcu_cpu_stall_timeout) to 300000 ms",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "The built-in expedited stall timeout: default of rcu_exp_cpu_stall_timeout, and nothing else.",
        why: "default of rcu_exp_cpu_stall_timeout",
    },
    Spec {
        name: "rcupdate.rcu_exp_cpu_stall_timeout",
        python_name: "rcu_exp_cpu_stall_timeout",
        kernel_name: "rcu_exp_cpu_stall_timeout",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "ms",
        range: "2 jiffies to 300000 ms; 0 stands for rcu_cpu_stall_timeout; the nearer end is used for others",
        class: Class::Clamped,
        tier: 1,
        default_formula: "config_rcu_exp_cpu_stall_timeout, or rcu_cpu_stall_timeout * 1000 where that is 0",
        effect: "Wait of an expedited grace period from which on it counts as stalled and is reported.",
        why: "stall detection of expedited grace periods",
    },
    Spec {
        name: "rcupdate.rcu_cpu_stall_suppress",
        python_name: "rcu_cpu_stall_suppress",
        kernel_name: "rcu_cpu_stall_suppress",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "",
        range: "0, or any other integer for on",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "No stall is reported, of normal and of expedited grace periods.",
        why: "stall reports",
    },
    Spec {
        name: "CONFIG_PROVE_RCU",
        python_name: "prove_rcu",
        kernel_name: "PROVE_RCU",
        kind: Kind::Kconfig,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "off",
        effect: "A kernel that checks the use of RCU is slow: its stall timeouts are longer, by 5 s, and by a quarter and a jiffy for expedited grace periods. The checks themselves are not modelled.",
        why: "stall timeouts in force",
    },
    Spec {
        name: "rcupdate.rcu_expedited",
        python_name: "rcu_expedited",
        kernel_name: "rcu_expedited",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "",
        range: "0, or any other integer for on",
        class: Class::Refused,
        tier: 1,
        default_formula: "0",
        effect: "Every synchronize_rcu() is an expedited call, unless rcu_normal is on.",
        why: "which kind a call is",
    },
    Spec {
        name: "rcupdate.rcu_normal",
        python_name: "rcu_normal",
        kernel_name: "rcu_normal",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "",
        range: "0, or any other integer for on",
        class: Class::Refused,
        tier: 1,
        default_formula: "0",
        effect: "Every expedited call is a normal one. It goes before rcu_expedited.",
        why: "which kind a call is",
    },
    Spec {
        name: "rcupdate.rcu_normal_after_boot",
        python_name: "rcu_normal_after_boot",
        kernel_name: "rcu_normal_after_boot",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "",
        range: "0, or any other integer for on",
        class: Class::Refused,
        tier: 2,
        default_formula: "0",
        effect: "Turns rcu_normal on when the kernel has booted, which a run's has.",
        why: "which kind a call is",
    },
    Spec {
        name: "rcutree.kthread_prio",
        python_name: "kthread_prio",
        kernel_name: "kthread_prio",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "SCHED_FIFO priority",
        range: "0 (ordinary task) to 99; the nearer end is used for others",
        class: Class::Clamped,
        tier: 2,
        default_formula: "0",
        effect: "Real-time priority of the grace-period kthread; 0 leaves it an ordinary task, which waits its \
                 turn on a busy CPU.",
        why: "run queue of the simulated CPU",
    },
    Spec {
        name: "rcu_nocbs",
        python_name: "rcu_nocbs",
        kernel_name: "rcu_nocbs",
        kind: Kind::BootArg,
        value_type: Type::CpuList,
        unit: "CPU list",
        range: "a list such as 0-3,8, or all; empty: none",
        class: Class::Refused,
        tier: 1,
        default_formula: "empty",
        effect: "CPUs whose callbacks are waited for and invoked by kthreads that may run elsewhere. Simulated \
                 worlds only so far: real threads refuse it.",
        why: "callback offloading",
    },
    Spec {
        name: "rcu_nocb_poll",
        python_name: "rcu_nocb_poll",
        kernel_name: "rcu_nocb_poll",
        kind: Kind::BootArg,
        value_type: Type::Bool,
        unit: "",
        range: BOOL_RANGE,
        class: Class::Refused,
        tier: 2,
        default_formula: "false",
        effect: "rcuog kthreads look once a jiffy and are never woken by call_rcu().",
        why: "wake-ups of rcuog",
    },
    Spec {
        name: "rcutree.rcu_nocb_gp_stride",
        python_name: "rcu_nocb_gp_stride",
        kernel_name: "rcu_nocb_gp_stride",
        kind: Kind::ModuleParam,
        value_type: INT,
        unit: "CPUs",
        range: "1 to 2147483647; 0 and below: nr_cpus / isqrt(nr_cpus) is used",
        class: Class::Clamped,
        tier: 1,
        default_formula: "nr_cpus / isqrt(nr_cpus)",
        effect: "CPUs that share one rcuog kthread.",
        why: "groups of offloaded CPUs",
    },
    Spec {
        name: "rcutree.nocb_nobypass_lim_per_jiffy",
        python_name: "nocb_nobypass_lim_per_jiffy",
        kernel_name: "nocb_nobypass_lim_per_jiffy",
        kind: Kind::ModuleParam,
        value_type: Type::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        unit: "callbacks per jiffy",
        range: "0 to 2147483647",
        class: Class::Refused,
        tier: 1,
        default_formula: "16 * 1000 / hz",
        effect: "Callbacks a jiffy that go to an offloaded CPU's list directly; more go to its bypass list.",
        why: "bypass list",
    },
];
