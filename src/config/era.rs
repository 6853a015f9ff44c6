//! Kernel eras: one table of what each of them sets by default. An era sets defaults only; a value
//! that the user gives wins, also where that kernel had no such knob.

use super::Latch;
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// The era whose defaults hold when none is named.
pub const DEFAULT_ERA: Era = Era::V7_2;

/// One row of the table: what a kernel of this era does when nothing is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EraDefaults {
    /// The era.
    pub era: Era,
    /// Default of `rcu_normal_wake_from_gp` (-1: automatic by CPU count).
    pub rcu_normal_wake_from_gp: i64,
    /// Default of `early_qs`.
    pub early_qs: bool,
    /// Default of `sr_normal_latch`.
    pub sr_normal_latch: Latch,
    /// Whether an active CPU expires the timers of an idle CPU (read by the simulated machine, unless
    /// its `timer_migration` says otherwise).
    pub pulls_timers: bool,
    /// What is characteristic of this era, in one sentence.
    pub note: &'static str,
    /// Where the row comes from.
    pub source: &'static str,
}

/// The eras, oldest first. Everything that is not in this table has the same default in each era.
pub const ERAS: [EraDefaults; 4] = [
    EraDefaults {
        era: Era::V6_8,
        rcu_normal_wake_from_gp: 0,
        early_qs: false,
        sr_normal_latch: Latch::Off,
        pulls_timers: false,
        note: "A timer expires on the CPU that armed it, so an idle CPU takes a full tick for it; \
               synchronize_rcu() always waits for a callback of its own (the direct wake came in 6.10).",
        source: "kernel parameter documentation; the timer migration rework is in 6.9",
    },
    EraDefaults {
        era: Era::V6_12,
        rcu_normal_wake_from_gp: 0,
        early_qs: false,
        sr_normal_latch: Latch::Off,
        pulls_timers: true,
        note: "An active CPU expires the timers of idle ones, so the grace-period kthread's CPU gets a \
               wake-up and no tick; the direct wake exists and is off.",
        source: "kernel parameter documentation (rcu_normal_wake_from_gp 0 from 6.10 to 6.16)",
    },
    EraDefaults {
        era: Era::V6_18,
        rcu_normal_wake_from_gp: -1,
        early_qs: false,
        sr_normal_latch: Latch::Off,
        pulls_timers: true,
        note: "As 6.12, with the direct wake on by itself up to wake_from_gp_cpu_threshold (16) possible CPUs.",
        source: "kernel parameter documentation (rcu_normal_wake_from_gp -1 from 6.17)",
    },
    EraDefaults {
        era: Era::V7_2,
        rcu_normal_wake_from_gp: 1,
        early_qs: true,
        sr_normal_latch: Latch::Merged,
        pulls_timers: true,
        note: "The direct wake is on for every size of machine, with a latch against floods, and the \
               grace-period kthread reports its own CPU's quiescent state at the end of initialisation.",
        source: "mailing-list patches: early report posted 2025-12-22; direct wake for all sizes with flood latch",
    },
];

/// The row of this era.
pub fn table_for(era: Era) -> &'static EraDefaults {
    match era {
        Era::V6_8 => &ERAS[0],
        Era::V6_12 => &ERAS[1],
        Era::V6_18 => &ERAS[2],
        Era::V7_2 => &ERAS[3],
    }
}

impl Era {
    /// All eras, oldest first.
    pub const ALL: [Era; 4] = [Era::V6_8, Era::V6_12, Era::V6_18, Era::V7_2];

    /// The kernel release that names the era, as given to the tunable `kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Era::V6_8 => "6.8",
            Era::V6_12 => "6.12",
            Era::V6_18 => "6.18",
            Era::V7_2 => "7.2",
        }
    }

    /// The era of this name.
    pub fn from_name(name: &str) -> Option<Era> {
        Era::ALL.into_iter().find(|era| era.name() == name)
    }

    /// Whether an active CPU expires the timers of an idle one (6.9 and later) or the CPU that armed
    /// a timer takes a tick for it (before).
    pub fn pulls_timers(self) -> bool {
        table_for(self).pulls_timers
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The row as text: the values on the first line, then note and source.
impl fmt::Display for EraDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel {}: rcu_normal_wake_from_gp={} early_qs={} sr_normal_latch={} timer_migration={}\n  {}\n  source: {}",
            self.era,
            self.rcu_normal_wake_from_gp,
            self.early_qs,
            self.sr_normal_latch.name(),
            if self.pulls_timers { "pull" } else { "local" },
            self.note,
            self.source,
        )
    }
}
