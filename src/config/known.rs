//! Every kernel knob that bears on Tree RCU and SRCU, modelled or not: name, kind, what it takes and how much
//! it matters. A name in here that is not in the [`catalogue`](super::catalogue) is real and not modelled
//! yet, which a user must be able to tell from a misspelt one.
//!
//! Who reads it: the kernel command line (`cmdline.rs`), and refusals of unknown names. Parameters of the
//! test modules (`rcutorture.*`, `rcuscale.*`, `refscale.*`, `torture.*`) are not knobs of RCU.

use super::catalogue::{Kind, lookup};
use serde::Serialize;

/// What a knob takes, by the C type or the kernel's own reader of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// A boolean.
    Bool,
    /// A C `int`.
    Int,
    /// A C `long`, 64 bits.
    Long,
    /// A C `unsigned long`, 64 bits.
    Ulong,
    /// One word of several.
    Word,
    /// A list of CPUs such as `1,4-7`.
    CpuList,
    /// Nothing: being there is all.
    Flag,
    /// Built in, as a module, or not at all.
    Tristate,
}

/// One knob of the kernel, or of a patch to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// Full name: `rcutree.use_softirq`, `rcu_nocbs`, `CONFIG_RCU_BOOST`, `patch.early_qs`.
    pub name: &'static str,
    /// Where it comes from.
    pub kind: Kind,
    /// What it takes.
    pub takes: Takes,
    /// 1: decides latency and throughput; 2: one mechanism; 3: debugging and the periphery.
    pub tier: u8,
}

impl Knob {
    /// Whether it is a tunable of this crate: a mechanism reads it, or it is known to concern none here.
    pub fn is_modelled(&self) -> bool {
        lookup(self.name).is_some()
    }

    /// The last part of a dotted name, the whole of another.
    pub(crate) fn last_part(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether the kernel reads it from its command line.
    pub(super) fn is_on_command_line(&self) -> bool {
        matches!(self.kind, Kind::ModuleParam | Kind::BootArg)
    }
}

/// Every knob: parameters of modules, plain words of the command line, build options, patches.
pub fn known() -> &'static [Knob] {
    KNOWN
}

/// The knob of this full name, or of the name it has or would have as a tunable: `use_softirq`,
/// `config_rcu_fanout_leaf`, `rcu_boost`. A parameter goes before a build option.
pub fn knob(name: &str) -> Option<&'static Knob> {
    let full = KNOWN.iter().find(|knob| knob.name == name);
    let dotted = || {
        KNOWN
            .iter()
            .find(|knob| knob.kind != Kind::Kconfig && knob.last_part() == name)
    };
    let option = || {
        let option = name.strip_prefix("config_").unwrap_or(name);
        let lower = option.bytes().all(|b| !b.is_ascii_uppercase());
        KNOWN.iter().find(|knob| {
            let built = knob.name.strip_prefix("CONFIG_");
            lower && built.is_some_and(|built| built.eq_ignore_ascii_case(option))
        })
    };
    full.or_else(dotted).or_else(option)
}

const fn entry(name: &'static str, kind: Kind, takes: Takes, tier: u8) -> Knob {
    Knob {
        name,
        kind,
        takes,
        tier,
    }
}

#[rustfmt::skip]
static KNOWN: &[Knob] = &[
    entry("rcutree.jiffies_till_first_fqs", Kind::ModuleParam, Takes::Ulong, 1),
    entry("rcutree.jiffies_till_next_fqs", Kind::ModuleParam, Takes::Ulong, 1),
    entry("rcutree.jiffies_till_sched_qs", Kind::ModuleParam, Takes::Ulong, 1),
    entry("rcutree.jiffies_to_sched_qs", Kind::ModuleParam, Takes::Ulong, 1),
    entry("rcutree.rcu_kick_kthreads", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcutree.rcu_normal_wake_from_gp", Kind::ModuleParam, Takes::Int, 1),
    entry("rcutree.gp_preinit_delay", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.gp_init_delay", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.gp_cleanup_delay", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.nohz_full_patience_delay", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.rcu_unlock_delay", Kind::ModuleParam, Takes::Int, 3),
    entry("rcutree.use_softirq", Kind::ModuleParam, Takes::Bool, 1),
    entry("rcutree.kthread_prio", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.rcu_fanout_leaf", Kind::ModuleParam, Takes::Int, 1),
    entry("rcutree.rcu_fanout_exact", Kind::ModuleParam, Takes::Bool, 2),
    entry("rcutree.dump_tree", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcutree.blimit", Kind::ModuleParam, Takes::Long, 1),
    entry("rcutree.qhimark", Kind::ModuleParam, Takes::Long, 1),
    entry("rcutree.qlowmark", Kind::ModuleParam, Takes::Long, 1),
    entry("rcutree.qovld", Kind::ModuleParam, Takes::Long, 1),
    entry("rcutree.rcu_divisor", Kind::ModuleParam, Takes::Int, 1),
    entry("rcutree.rcu_resched_ns", Kind::ModuleParam, Takes::Long, 1),
    entry("rcutree.do_rcu_barrier", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcutree.sysrq_rcu", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcutree.csd_lock_suppress_rcu_stall", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcutree.enable_rcu_lazy", Kind::ModuleParam, Takes::Bool, 1),
    entry("rcutree.rcu_nocb_gp_stride", Kind::ModuleParam, Takes::Int, 1),
    entry("rcutree.nocb_nobypass_lim_per_jiffy", Kind::ModuleParam, Takes::Int, 1),
    entry("rcutree.rcu_min_cached_objs", Kind::ModuleParam, Takes::Int, 2),
    entry("rcutree.rcu_delay_page_cache_fill_msec", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_expedited", Kind::ModuleParam, Takes::Int, 1),
    entry("rcupdate.rcu_normal", Kind::ModuleParam, Takes::Int, 1),
    entry("rcupdate.rcu_normal_after_boot", Kind::ModuleParam, Takes::Int, 2),
    entry("rcupdate.rcu_cpu_stall_suppress", Kind::ModuleParam, Takes::Int, 2),
    entry("rcupdate.rcu_cpu_stall_suppress_at_boot", Kind::ModuleParam, Takes::Int, 2),
    entry("rcupdate.rcu_cpu_stall_timeout", Kind::ModuleParam, Takes::Int, 1),
    entry("rcupdate.rcu_exp_cpu_stall_timeout", Kind::ModuleParam, Takes::Int, 1),
    entry("rcupdate.rcu_cpu_stall_cputime", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_cpu_stall_ftrace_dump", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_cpu_stall_notifiers", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_exp_stall_task_details", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcupdate.rcu_self_test", Kind::ModuleParam, Takes::Bool, 3),
    entry("rcupdate.rcu_task_stall_timeout", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_stall_info", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_stall_info_mult", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_enqueue_lim", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_contend_lim", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_collapse_lim", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_lazy_lim", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_tasks_lazy_ms", Kind::ModuleParam, Takes::Int, 3),
    entry("rcupdate.rcu_task_ipi_delay", Kind::ModuleParam, Takes::Int, 3),
    entry("srcutree.exp_holdoff", Kind::ModuleParam, Takes::Ulong, 1),
    entry("srcutree.counter_wrap_check", Kind::ModuleParam, Takes::Ulong, 3),
    entry("srcutree.convert_to_big", Kind::ModuleParam, Takes::Int, 1),
    entry("srcutree.big_cpu_lim", Kind::ModuleParam, Takes::Int, 2),
    entry("srcutree.small_contention_lim", Kind::ModuleParam, Takes::Int, 2),
    entry("srcutree.srcu_retry_check_delay", Kind::ModuleParam, Takes::Ulong, 1),
    entry("srcutree.srcu_max_nodelay_phase", Kind::ModuleParam, Takes::Ulong, 1),
    entry("srcutree.srcu_max_nodelay", Kind::ModuleParam, Takes::Ulong, 1),
    entry("rcu_nocbs", Kind::BootArg, Takes::CpuList, 1),
    entry("rcu_nocb_poll", Kind::BootArg, Takes::Flag, 2),
    entry("nohz_full", Kind::BootArg, Takes::CpuList, 1),
    entry("isolcpus", Kind::BootArg, Takes::CpuList, 2),
    entry("nohz", Kind::BootArg, Takes::Bool, 2),
    entry("skew_tick", Kind::BootArg, Takes::Bool, 2),
    entry("nr_cpus", Kind::BootArg, Takes::Int, 1),
    entry("maxcpus", Kind::BootArg, Takes::Int, 2),
    entry("possible_cpus", Kind::BootArg, Takes::Int, 3),
    entry("preempt", Kind::BootArg, Takes::Word, 1),
    entry("threadirqs", Kind::BootArg, Takes::Flag, 3),
    entry("csdlock_debug", Kind::BootArg, Takes::Int, 3),
    entry("sysctl.kernel.panic_on_rcu_stall", Kind::BootArg, Takes::Int, 3),
    entry("sysctl.kernel.max_rcu_stall_to_panic", Kind::BootArg, Takes::Int, 3),
    entry("CONFIG_HZ", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_NR_CPUS", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_SMP", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_HOTPLUG_CPU", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_HZ_PERIODIC", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_NO_HZ_IDLE", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_NO_HZ_FULL", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_HIGH_RES_TIMERS", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_PREEMPT_NONE", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_VOLUNTARY", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_LAZY", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_RT", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_DYNAMIC", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPTION", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_COUNT", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_RT_NEEDS_BH_LOCK", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_TREE_RCU", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_PREEMPT_RCU", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_TINY_RCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_EXPERT", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_FANOUT", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_RCU_FANOUT_LEAF", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_RCU_BOOST", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_RCU_BOOST_DELAY", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_RCU_EXP_KTHREAD", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_RCU_NOCB_CPU", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_RCU_NOCB_CPU_DEFAULT_ALL", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_RCU_NOCB_CPU_CB_BOOST", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_RCU_LAZY", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_RCU_LAZY_DEFAULT_OFF", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_RCU_DOUBLE_CHECK_CB_TIME", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_TREE_SRCU", Kind::Kconfig, Takes::Bool, 1),
    entry("CONFIG_TINY_SRCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_NEED_SRCU_NMI_SAFE", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_FORCE_NEED_SRCU_NMI_SAFE", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_STALL_COMMON", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_CPU_STALL_TIMEOUT", Kind::Kconfig, Takes::Int, 1),
    entry("CONFIG_RCU_EXP_CPU_STALL_TIMEOUT", Kind::Kconfig, Takes::Int, 2),
    entry("CONFIG_RCU_CPU_STALL_CPUTIME", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_CPU_STALL_NOTIFIER", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_BOOTPARAM_RCU_STALL_PANIC", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_CSD_LOCK_WAIT_DEBUG", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_TRACE", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_RCU_EQS_DEBUG", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_STRICT_GRACE_PERIOD", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_PROVE_LOCKING", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_PROVE_RCU", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_PROVE_RCU_LIST", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_DEBUG_LOCK_ALLOC", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_DEBUG_OBJECTS_RCU_HEAD", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_KVFREE_RCU_BATCHED", Kind::Kconfig, Takes::Bool, 2),
    entry("CONFIG_TASKS_RCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_TASKS_RUDE_RCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_TASKS_TRACE_RCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_TASKS_TRACE_RCU_READ_MB", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_DYNTICKS_TORTURE", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_TORTURE_TEST", Kind::Kconfig, Takes::Tristate, 3),
    entry("CONFIG_RCU_TORTURE_TEST_CHK_RDR_STATE", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_TORTURE_TEST_LOG_CPU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_TORTURE_TEST_LOG_GP", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_SCALE_TEST", Kind::Kconfig, Takes::Tristate, 3),
    entry("CONFIG_RCU_REF_SCALE_TEST", Kind::Kconfig, Takes::Tristate, 3),
    entry("CONFIG_TRIVIAL_PREEMPT_RCU", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_RCU_FAST_NO_HZ", Kind::Kconfig, Takes::Bool, 3),
    entry("CONFIG_CPU_ISOLATION", Kind::Kconfig, Takes::Bool, 3),
    entry("patch.early_qs", Kind::Patch, Takes::Bool, 1),
    entry("patch.wake_from_gp_cpu_threshold", Kind::Patch, Takes::Int, 1),
    entry("patch.sr_normal_latch_threshold", Kind::Patch, Takes::Int, 1),
    entry("patch.sr_normal_latch", Kind::Patch, Takes::Word, 1),
    entry("patch.preempt_count_elision", Kind::Patch, Takes::Bool, 1),
];
