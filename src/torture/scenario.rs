//! The named scenarios as data: what rcutorture's `TREE01` … `TREE10` set, what each is for, and which
//! of its settings have no counterpart here yet.
//!
//! Source of the values: rcutorture's scenario files of 6.12, and of later releases where a scenario
//! changed (`TREE04`, `TREE07`, `TREE10` moved to lazy preemption, `TREE05` to the direct wake).

use crate::config::Preempt;
use crate::error::{Error, Result};

/// What is tortured (`torture_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// The engine.
    Rcu,
    /// Textbook RCU from plain locks: does the harness itself work?
    Trivial,
    /// Grace periods that wait for nobody: does the harness notice?
    Busted,
}

impl Flavour {
    /// The name that starts every line of the report.
    pub const fn name(self) -> &'static str {
        match self {
            Flavour::Rcu => "rcu",
            Flavour::Trivial => "trivial",
            Flavour::Busted => "busted",
        }
    }
}

/// CPUs that go offline and come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOff {
    /// `onoff_interval`: one transition every so many jiffies.
    pub interval_jiffies: u32,
    /// `onoff_holdoff`: the first one after so many seconds.
    pub holdoff_s: u32,
}

/// A reader that stays in its section for too long, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallCpu {
    /// `stall_cpu`: how long, s.
    pub stall_s: u32,
    /// `stall_cpu_holdoff`: after so many seconds.
    pub holdoff_s: u32,
}

/// One scenario, with rcutorture's values for a run of half an hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub intent: &'static str,
    /// What is tortured.
    pub flavour: Flavour,
    /// CPUs online at start.
    pub cpus: u32,
    /// Possible CPUs.
    pub nr_cpus: u32,
    /// Preemption model.
    pub preempt: Preempt,
    /// The tick never stops (`CONFIG_HZ_PERIODIC`).
    pub periodic_ticks: bool,
    /// `RCU_FANOUT` and `RCU_FANOUT_LEAF`; `None`: the defaults.
    pub fanout: Option<(u32, u32)>,
    /// `rcu_fanout_exact`.
    pub fanout_exact: bool,
    /// `gp_preinit_delay`, `gp_init_delay`, `gp_cleanup_delay`, jiffies.
    pub gp_delays: (u32, u32, u32),
    /// `kthread_prio`.
    pub kthread_prio: u32,
    /// `rcu_normal_wake_from_gp=1` is asked for.
    pub wake_from_gp: bool,
    /// `gp_sync=1` alone: the writers use nothing but `synchronize_rcu()`.
    pub gp_sync_only: bool,
    /// `nfakewriters`; negative n: CPUs − 2 − n.
    pub nfakewriters: i32,
    /// `fwd_progress`: threads of the forward-progress test.
    pub fwd_progress: u32,
    /// CPU hotplug.
    pub onoff: Option<OnOff>,
    /// Stall injection.
    pub stall_cpu: Option<StallCpu>,
    /// Readers sleep most of the time, so that almost every CPU is found idle.
    pub idle: bool,
    /// Settings without a counterpart here: (setting, why).
    pub missing: &'static [(&'static str, &'static str)],
}

/// Hotplug as rcutorture's scripts add it where the kernel is built for it.
const HOTPLUG: Option<OnOff> = Some(OnOff {
    interval_jiffies: 1000,
    holdoff_s: 30,
});

const NO_NOCB: &str = "offloaded callbacks are not tortured yet";
const NO_BOOST: &str = "priority boosting of readers is not there yet";
const NO_NOHZ_FULL: &str = "full dynticks are not there yet";
const NO_LAZY: &str = "lazy callbacks are not there yet";
const NO_RCUC: &str = "callbacks run in softirqs; rcuc kthreads are not there yet";
const NO_DEBUG: &str = "a debugging option of the kernel build; nothing here corresponds to it";

const BASE: Scenario = Scenario {
    name: "",
    intent: "",
    flavour: Flavour::Rcu,
    cpus: 8,
    nr_cpus: 8,
    preempt: Preempt::Full,
    periodic_ticks: false,
    fanout: None,
    fanout_exact: false,
    gp_delays: (0, 0, 0),
    kthread_prio: 0,
    wake_from_gp: false,
    gp_sync_only: false,
    nfakewriters: 4,
    fwd_progress: 1,
    onoff: None,
    stall_cpu: None,
    idle: false,
    missing: &[],
};

/// Every scenario.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "TREE01",
        intent: "few CPUs online of many possible ones, hotplug, slow grace-period steps",
        nr_cpus: 43,
        gp_delays: (3, 3, 3),
        fwd_progress: 0,
        onoff: HOTPLUG,
        missing: &[
            ("rcu_nocbs=0-1,3-7", NO_NOCB),
            ("nocbs_nthreads=8 nocbs_toggle=1000", NO_NOCB),
            ("CONFIG_CPUMASK_OFFSTACK", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE02",
        intent: "a tree of two levels, two forward-progress threads",
        fanout: Some((3, 3)),
        fwd_progress: 2,
        missing: &[
            ("CONFIG_DEBUG_LOCK_ALLOC", NO_DEBUG),
            ("CONFIG_DEBUG_OBJECTS_RCU_HEAD", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE03",
        intent: "a tree of four levels, periodic ticks, frequent hotplug, slow grace-period steps, \
                 SCHED_FIFO kthread",
        cpus: 16,
        nr_cpus: 16,
        periodic_ticks: true,
        fanout: Some((2, 2)),
        gp_delays: (12, 3, 3),
        kthread_prio: 2,
        onoff: Some(OnOff {
            interval_jiffies: 200,
            holdoff_s: 30,
        }),
        missing: &[("test_boost=1", NO_BOOST), ("threadirqs use_softirq=0", NO_RCUC)],
        ..BASE
    },
    Scenario {
        name: "TREE04",
        intent: "full dynticks and lazy callbacks, a leaf smaller than configured",
        preempt: Preempt::Lazy,
        fanout: Some((4, 3)),
        missing: &[
            ("nohz_full=1-7", NO_NOHZ_FULL),
            ("CONFIG_RCU_LAZY", NO_LAZY),
            ("CONFIG_RCU_EQS_DEBUG", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE05",
        intent: "the direct wake under synchronize_rcu() alone, without preemption",
        preempt: Preempt::None,
        fanout: Some((6, 6)),
        gp_delays: (3, 3, 3),
        wake_from_gp: true,
        gp_sync_only: true,
        nfakewriters: -1,
        onoff: HOTPLUG,
        missing: &[
            ("CONFIG_RCU_NOCB_CPU", NO_NOCB),
            ("CONFIG_PROVE_LOCKING CONFIG_PROVE_RCU_LIST", NO_DEBUG),
            ("rcu_self_test=1", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE06",
        intent: "exact fan-out, slow grace-period steps, without preemption",
        preempt: Preempt::None,
        fanout: Some((6, 6)),
        fanout_exact: true,
        gp_delays: (3, 3, 3),
        missing: &[
            ("CONFIG_PROVE_LOCKING", NO_DEBUG),
            ("CONFIG_DEBUG_OBJECTS_RCU_HEAD", NO_DEBUG),
            ("rcu_self_test=1", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE07",
        intent: "a tree of four levels, hotplug, an injected stall, some CPUs without a tick",
        cpus: 16,
        nr_cpus: 16,
        preempt: Preempt::Lazy,
        fanout: Some((2, 2)),
        fwd_progress: 0,
        onoff: HOTPLUG,
        stall_cpu: Some(StallCpu {
            stall_s: 14,
            holdoff_s: 90,
        }),
        missing: &[
            ("nohz_full=2-9", NO_NOHZ_FULL),
            ("nohz_full_patience_delay=1000", NO_NOHZ_FULL),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE08",
        intent: "every CPU's callbacks offloaded, exact fan-out",
        fanout: Some((3, 2)),
        fanout_exact: true,
        missing: &[
            ("rcu_nocbs=all", NO_NOCB),
            ("CONFIG_RCU_EQS_DEBUG", NO_DEBUG),
            ("rcu_self_test=1", NO_DEBUG),
        ],
        ..BASE
    },
    Scenario {
        name: "TREE09",
        intent: "one CPU, preemptible",
        cpus: 1,
        nr_cpus: 1,
        missing: &[("test_boost=1 CONFIG_RCU_BOOST_DELAY=100", NO_BOOST)],
        ..BASE
    },
    Scenario {
        name: "TREE10",
        intent: "a large machine with everything at its default, two forward-progress threads",
        cpus: 74,
        nr_cpus: 74,
        preempt: Preempt::Lazy,
        fwd_progress: 2,
        ..BASE
    },
    Scenario {
        name: "IDLE",
        intent: "readers that sleep most of the time: almost every CPU is found idle, and wakes up while it \
                 is looked at",
        cpus: 64,
        nr_cpus: 64,
        fwd_progress: 0,
        idle: true,
        ..BASE
    },
    Scenario {
        name: "TRIVIAL",
        intent: "textbook RCU from plain locks: the harness itself works",
        flavour: Flavour::Trivial,
        ..BASE
    },
    Scenario {
        name: "BUSTED",
        intent: "grace periods that wait for nobody: has to fail",
        flavour: Flavour::Busted,
        cpus: 4,
        nr_cpus: 4,
        // Its callbacks come at once, so one that posts itself would never return.
        fwd_progress: 0,
        ..BASE
    },
];

impl Scenario {
    /// The scenario of this name, in any case.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with the names there are.
    pub fn named(name: &str) -> Result<&'static Scenario> {
        SCENARIOS
            .iter()
            .find(|scenario| scenario.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
                Error::config("scenario", name, "no such scenario", names.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_are_unique() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            let lower = scenario.name.to_lowercase();
            assert!(std::ptr::eq(Scenario::named(&lower).unwrap(), &SCENARIOS[index]));
            assert!(scenario.cpus <= scenario.nr_cpus && scenario.cpus > 0);
            assert!(!scenario.intent.is_empty());
        }
        let error = Scenario::named("TREE99").unwrap_err().to_string();
        assert!(
            error.starts_with("scenario=TREE99: no such scenario; allowed: TREE01, "),
            "{error}"
        );
    }
}
