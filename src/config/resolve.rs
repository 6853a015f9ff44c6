//! From what the user gave to what is in force: defaults by formula, the kernel's limits, and the
//! checks that involve more than one tunable.
//!
//! Everything is resolved again from the whole set of explicit values, so the order in which they were
//! given cannot matter.

use super::accepted;
use super::catalogue::{
    CONVERT_ON_CONTENTION, DEFAULT_DIVISOR, MAX_DIVISOR, MAX_KTHREAD_PRIO, MAX_LEVELS, MAX_RESCHED_NS,
    MAX_STALL_TIMEOUT_S, MIN_EXP_STALL_TIMEOUT_JIFFIES, MIN_RESCHED_NS, MIN_STALL_TIMEOUT_S, NODELAY_PHASE,
};
use super::era::{DEFAULT_ERA, Era, table_for};
use super::{Adjusted, Latch, Preempt, SrcuSizing, SrcuTunables, Tunables, Value};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// Values by Python name.
pub(super) type Values = BTreeMap<&'static str, Value>;

/// What follows from a set of explicit values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resolved {
    pub(super) tunables: Tunables,
    pub(super) effective: Values,
    pub(super) warnings: Vec<Adjusted>,
}

/// CPUs per additional jiffy in the default waits.
const CPUS_PER_JIFFY: i64 = 256;
/// Default number of possible CPUs.
const DEFAULT_NR_CPUS: i64 = 8;
/// What a kernel with `CONFIG_PROVE_RCU` adds to the stall timeout, s.
const PROVE_RCU_STALL_S: i64 = 5;
/// Policies of `convert_to_big` (0: never).
const CONVERT_AT_INIT: i64 = 1;
const CONVERT_BY_TORTURE: i64 = 2;
const CONVERT_AUTO: i64 = 3;
/// Default of `srcu_retry_check_delay`, µs.
const DEFAULT_RETRY_CHECK_DELAY_US: i64 = 5;
/// Default tick rate in every era.
const DEFAULT_HZ: i64 = 250;

/// Collects values in force; each tunable passes through exactly one of its methods.
struct Resolver<'a> {
    explicit: &'a Values,
    effective: Values,
    warnings: Vec<Adjusted>,
}

impl Resolver<'_> {
    /// Integer that is used as given.
    fn int(&mut self, name: &'static str, default: i64) -> i64 {
        let used = self.explicit.get(name).and_then(Value::as_int).unwrap_or(default);
        self.effective.insert(name, Value::Int(used));
        used
    }

    /// Integer that the kernel limits: `limit` says what is used, `why` says so in the warning.
    fn limited(
        &mut self,
        name: &'static str,
        default: i64,
        limit: impl Fn(i64) -> i64,
        why: impl Fn(i64) -> String,
    ) -> i64 {
        let given = self.explicit.get(name).and_then(Value::as_int);
        let used = limit(given.unwrap_or(default));
        if let Some(given) = given.filter(|given| *given != used) {
            self.warnings.push(Adjusted {
                name,
                given: Value::Int(given),
                used: Value::Int(used),
                why: why(given),
            });
        }
        self.effective.insert(name, Value::Int(used));
        used
    }

    fn bool(&mut self, name: &'static str, default: bool) -> bool {
        let used = self
            .explicit
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(default);
        self.effective.insert(name, Value::Bool(used));
        used
    }

    fn word(&mut self, name: &'static str, default: &'static str) -> &str {
        let used = self
            .explicit
            .get(name)
            .and_then(Value::as_text)
            .unwrap_or(default);
        self.effective.insert(name, Value::from(used));
        used
    }
}

/// The values in force. The explicit ones have passed [`Spec::accept`](super::Spec), each for itself;
/// [`check`] looks at them together.
pub(super) fn resolve(explicit: &Values) -> Resolved {
    let mut r = Resolver {
        explicit,
        effective: Values::new(),
        warnings: Vec::new(),
    };

    let kernel = Era::from_name(r.word("kernel", DEFAULT_ERA.name())).expect("accepted by the catalogue");
    let era = table_for(kernel);

    let nr_cpus = r.int("nr_cpus", DEFAULT_NR_CPUS);
    let maxcpus = r.limited(
        "maxcpus",
        nr_cpus,
        |n| n.min(nr_cpus),
        |_| format!("only {nr_cpus} CPUs are possible (nr_cpus)"),
    );
    let hz = r.int("hz", DEFAULT_HZ);
    let preempt = match r.word("preempt", "full") {
        "lazy" => Preempt::Lazy,
        "none" => Preempt::None,
        "voluntary" => Preempt::Voluntary,
        _ => Preempt::Full,
    };
    let hz_periodic = r.bool("hz_periodic", false);
    let nohz = r.bool("nohz", true);
    let skew_tick = r.bool("skew_tick", false);

    let rcu_fanout = r.int("rcu_fanout", 64);
    let config_rcu_fanout_leaf = r.int("config_rcu_fanout_leaf", 16);
    let rcu_fanout_leaf = r.int("rcu_fanout_leaf", config_rcu_fanout_leaf);
    let rcu_fanout_exact = r.bool("rcu_fanout_exact", false);

    let default_wait = 1 + i64::from(hz > 250) + i64::from(hz > 500) + nr_cpus / CPUS_PER_JIFFY;
    let above_hz = format!("the kernel limits it to one second, HZ={hz} jiffies");
    let first = r.limited(
        "jiffies_till_first_fqs",
        default_wait,
        |n| n.min(hz),
        |_| above_hz.clone(),
    );
    let next = r.limited(
        "jiffies_till_next_fqs",
        default_wait,
        |n| n.clamp(1, hz),
        |n| {
            if n < 1 {
                "the kernel waits at least one jiffy".into()
            } else {
                above_hz.clone()
            }
        },
    );
    let computed_age = (first + 2 * next).max(hz / 10 + nr_cpus / CPUS_PER_JIFFY);
    let age = r.int("jiffies_till_sched_qs", computed_age);
    r.limited(
        "jiffies_to_sched_qs",
        age,
        |_| age,
        |_| "a read-only view that boot code recomputes; set jiffies_till_sched_qs instead".into(),
    );

    let wake = r.int("rcu_normal_wake_from_gp", era.rcu_normal_wake_from_gp);
    let threshold = r.int("wake_from_gp_cpu_threshold", 16);
    let early_qs = r.bool("early_qs", era.early_qs);
    let latch = match r.word("sr_normal_latch", era.sr_normal_latch.name()) {
        "v1" => Latch::V1,
        "merged" => Latch::Merged,
        _ => Latch::Off,
    };
    let latch_threshold = r.int("sr_normal_latch_threshold", 64);
    let srcu = srcu(&mut r, nr_cpus, hz);
    let gp_preinit_delay = r.int("gp_preinit_delay", 0);
    let gp_init_delay = r.int("gp_init_delay", 0);
    let gp_cleanup_delay = r.int("gp_cleanup_delay", 0);
    let gpwrap_lag = r.int("gpwrap_lag", 0);

    let blimit = r.int("blimit", 10);
    let qhimark = r.int("qhimark", 10_000);
    let qlowmark = r.int("qlowmark", 100);
    let qovld = r.limited(
        "qovld",
        20_000,
        |n| if n < 0 { 2 * qhimark } else { n },
        |_| format!("negative stands for 2 x qhimark ({qhimark})"),
    );
    let rcu_divisor = r.limited(
        "rcu_divisor",
        DEFAULT_DIVISOR,
        |n| {
            if n < 0 {
                DEFAULT_DIVISOR
            } else {
                n.min(MAX_DIVISOR)
            }
        },
        |n| {
            if n < 0 {
                format!("negative stands for the default, {DEFAULT_DIVISOR}")
            } else {
                format!("the kernel limits it to {MAX_DIVISOR}, the bits of a word less 2")
            }
        },
    );
    let rcu_resched_ns = r.limited(
        "rcu_resched_ns",
        3_000_000,
        |n| n.clamp(MIN_RESCHED_NS, MAX_RESCHED_NS),
        |_| "the kernel limits it to 1 ms .. 1 s".into(),
    );
    let rcu_double_check_cb_time = r.bool("rcu_double_check_cb_time", false);

    let config_stall_timeout = r.int("config_rcu_cpu_stall_timeout", 21);
    let rcu_cpu_stall_timeout = r.limited(
        "rcu_cpu_stall_timeout",
        config_stall_timeout,
        |n| n.clamp(MIN_STALL_TIMEOUT_S, MAX_STALL_TIMEOUT_S),
        |_| format!("the kernel limits it to {MIN_STALL_TIMEOUT_S} .. {MAX_STALL_TIMEOUT_S} s"),
    );
    let prove_rcu = r.bool("prove_rcu", false);
    let stall_timeout = rcu_cpu_stall_timeout + if prove_rcu { PROVE_RCU_STALL_S } else { 0 };
    let stall_suppress = r.int("rcu_cpu_stall_suppress", 0) != 0;
    let rcu_expedited = r.int("rcu_expedited", 0) != 0;
    let rcu_normal = r.int("rcu_normal", 0) != 0;
    let rcu_normal = r.int("rcu_normal_after_boot", 0) != 0 || rcu_normal;
    let config_exp_stall_timeout = r.int("config_rcu_exp_cpu_stall_timeout", 0);
    // In jiffies it is limited, and what is in force is written back in ms.
    let exp_jiffies = |ms: i64| {
        let ms = if ms == 0 {
            rcu_cpu_stall_timeout * 1000
        } else {
            ms.max(1)
        };
        let jiffies = (ms * hz + 999) / 1000;
        jiffies.clamp(MIN_EXP_STALL_TIMEOUT_JIFFIES, MAX_STALL_TIMEOUT_S * hz)
    };
    let exp_stall_timeout_ms = r.limited(
        "rcu_exp_cpu_stall_timeout",
        config_exp_stall_timeout,
        |n| exp_jiffies(n) * 1000 / hz,
        |n| {
            if n == 0 {
                format!("0 stands for rcu_cpu_stall_timeout ({rcu_cpu_stall_timeout} s)")
            } else {
                format!(
                    "the kernel counts it in jiffies (HZ={hz}) and limits it to {MIN_EXP_STALL_TIMEOUT_JIFFIES} jiffies .. {MAX_STALL_TIMEOUT_S} s"
                )
            }
        },
    );
    let kthread_prio = r.limited(
        "kthread_prio",
        0,
        |n| n.clamp(0, MAX_KTHREAD_PRIO),
        |_| format!("the kernel limits it to 0 .. {MAX_KTHREAD_PRIO}"),
    );

    let stride = r.limited(
        "rcu_nocb_gp_stride",
        -1,
        |n| if n <= 0 { nr_cpus / nr_cpus.isqrt() } else { n },
        |_| "0 and below stand for nr_cpus / isqrt(nr_cpus)".into(),
    );
    let nobypass_lim = r.int("nocb_nobypass_lim_per_jiffy", 16 * 1000 / hz);
    let rcu_nocb_poll = r.bool("rcu_nocb_poll", false);
    let rcu_nocbs = r.word("rcu_nocbs", "").to_owned();

    let small = |n: i64| u32::try_from(n).expect("limited by the catalogue");
    let unsigned = |n: i64| u64::try_from(n).expect("limited by the catalogue");
    let tunables = Tunables {
        kernel,
        nr_cpus: small(nr_cpus),
        maxcpus: small(maxcpus),
        hz: small(hz),
        preempt,
        periodic_ticks: hz_periodic || !nohz,
        skew_tick,
        srcu,
        rcu_fanout: small(rcu_fanout),
        rcu_fanout_leaf: small(rcu_fanout_leaf),
        rcu_fanout_exact,
        jiffies_till_first_fqs: unsigned(first),
        jiffies_till_next_fqs: unsigned(next),
        jiffies_to_sched_qs: unsigned(age),
        wake_from_gp: wake == 1 || (wake == -1 && nr_cpus <= threshold),
        early_qs,
        sr_normal_latch: latch,
        sr_normal_latch_threshold: small(latch_threshold),
        gp_preinit_delay: unsigned(gp_preinit_delay),
        gp_init_delay: unsigned(gp_init_delay),
        gp_cleanup_delay: unsigned(gp_cleanup_delay),
        gpwrap_lag: unsigned(gpwrap_lag),
        blimit,
        qhimark,
        qlowmark,
        qovld,
        rcu_divisor: small(rcu_divisor),
        rcu_resched_ns: unsigned(rcu_resched_ns),
        rcu_double_check_cb_time,
        rcu_cpu_stall_timeout: small(stall_timeout),
        exp_stall_timeout_jiffies: unsigned(if prove_rcu {
            let jiffies = exp_jiffies(exp_stall_timeout_ms);
            jiffies + jiffies / 4 + 1
        } else {
            exp_jiffies(exp_stall_timeout_ms)
        }),
        stall_suppress,
        sync_is_expedited: rcu_expedited && !rcu_normal,
        expedited_is_normal: rcu_normal,
        kthread_prio: small(kthread_prio),
        offloaded: offloaded(&rcu_nocbs, small(nr_cpus)),
        rcu_nocb_gp_stride: small(stride),
        nocb_nobypass_lim_per_jiffy: unsigned(nobypass_lim),
        rcu_nocb_poll,
    };
    for spec in accepted() {
        let used = explicit.get(spec.python_name).cloned();
        let used = used.unwrap_or_else(|| spec.inert_default(&tunables));
        r.effective.insert(spec.python_name, used);
    }
    Resolved {
        tunables,
        effective: r.effective,
        warnings: r.warnings,
    }
}

/// The offloaded CPUs: those of the list that are possible.
fn offloaded(list: &str, nr_cpus: u32) -> Vec<u32> {
    let named = super::cpulist::parse(list).expect("accepted by the catalogue");
    (0..nr_cpus)
        .filter(|cpu| named.iter().any(|range| range.contains(cpu)))
        .collect()
}

/// The tunables of SRCU.
fn srcu(r: &mut Resolver<'_>, nr_cpus: i64, hz: i64) -> SrcuTunables {
    let exp_holdoff = r.int("exp_holdoff", 25_000);
    let policy = r.int("convert_to_big", CONVERT_AUTO);
    let big_cpu_lim = r.int("big_cpu_lim", 128);
    // Automatic replaces the whole code, the bit for contention included.
    let policy = match policy & !CONVERT_ON_CONTENTION {
        CONVERT_AUTO if nr_cpus >= big_cpu_lim => CONVERT_AT_INIT,
        CONVERT_AUTO => CONVERT_ON_CONTENTION,
        _ => policy,
    };
    let small_contention_lim = r.int("small_contention_lim", 100);
    let retry_check_delay = r.int("srcu_retry_check_delay", DEFAULT_RETRY_CHECK_DELAY_US);
    // The default delay enters, whatever the one in force is.
    let (least, most) = NODELAY_PHASE;
    let in_two_jiffies = 2 * 1_000_000 / hz / DEFAULT_RETRY_CHECK_DELAY_US;
    let max_nodelay_phase = r.int("srcu_max_nodelay_phase", in_two_jiffies.clamp(least, most));
    let max_nodelay = r.int("srcu_max_nodelay", max_nodelay_phase.max(100));
    let counter_wrap_check = r.int("counter_wrap_check", (u64::MAX >> 2) as i64);
    let unsigned = |n: i64| u64::try_from(n).expect("limited by the catalogue");
    SrcuTunables {
        exp_holdoff_ns: unsigned(exp_holdoff),
        sizing: SrcuSizing {
            at_init: policy & !CONVERT_ON_CONTENTION == CONVERT_AT_INIT,
            by_torture: policy & !CONVERT_ON_CONTENTION == CONVERT_BY_TORTURE,
            on_contention: policy & CONVERT_ON_CONTENTION != 0,
        },
        small_contention_lim: unsigned(small_contention_lim),
        retry_check_delay_us: unsigned(retry_check_delay),
        max_nodelay_phase: unsigned(max_nodelay_phase),
        max_nodelay: unsigned(max_nodelay),
        counter_wrap_check: unsigned(counter_wrap_check),
    }
}

/// What no single value can violate: the CPUs must fit in the tree.
pub(super) fn check(t: &Tunables) -> Result<()> {
    let capacity = u64::from(t.rcu_fanout_leaf) * u64::from(t.rcu_fanout).pow(MAX_LEVELS - 1);
    if u64::from(t.nr_cpus) > capacity {
        return Err(Error::config(
            "nr_cpus",
            t.nr_cpus,
            format!(
                "does not fit in an rcu_node tree of {MAX_LEVELS} levels with rcu_fanout_leaf={} and rcu_fanout={}",
                t.rcu_fanout_leaf, t.rcu_fanout
            ),
            format!("1 to {capacity} with these fan-outs, or larger fan-outs"),
        ));
    }
    Ok(())
}
