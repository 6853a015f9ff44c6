//! What is so far, or for good, no tunable of this crate: each such knob with what it does, and why it is none.

use serde::Serialize;

/// Why a knob of the kernel is no tunable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// A matter of the kernel's build. What stands for it here, by Python name; empty where nothing does.
    BuildTime(&'static str),
    /// The mechanism of this name is not modelled yet.
    Planned(&'static str),
}

/// A knob that is no tunable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// Full name.
    pub name: &'static str,
    /// Why.
    pub standing: Standing,
    /// What it does in the kernel.
    pub effect: &'static str,
}

/// What is said of the knob of this full name, if it is no tunable.
pub fn elsewhere(name: &str) -> Option<&'static Elsewhere> {
    ELSEWHERE.iter().find(|knob| knob.name == name)
}

const fn built(name: &'static str, stand_in: &'static str, effect: &'static str) -> Elsewhere {
    Elsewhere {
        name,
        standing: Standing::BuildTime(stand_in),
        effect,
    }
}

const fn planned(name: &'static str, mechanism: &'static str, effect: &'static str) -> Elsewhere {
    Elsewhere {
        name,
        standing: Standing::Planned(mechanism),
        effect,
    }
}

#[rustfmt::skip]
static ELSEWHERE: &[Elsewhere] = &[
    planned("rcutree.nohz_full_patience_delay", "adaptive ticks", "How old a grace period has to be before ticks on a nohz_full CPU care about it, ms."),
    planned("rcutree.rcu_unlock_delay", "strict grace periods", "Busy-wait after each strict report of an outermost unlock, us."),
    planned("rcutree.use_softirq", "rcuc kthreads", "Whether the RCU core runs in a softirq or in a kthread per CPU."),
    planned("rcutree.enable_rcu_lazy", "lazy callbacks", "Lets call_rcu() on offloaded CPUs wait for up to 10 s, to save wake-ups."),
    planned("rcutree.rcu_min_cached_objs", "kvfree_rcu batching", "Spare pages that each CPU keeps for blocks of pointers to free."),
    planned("rcutree.rcu_delay_page_cache_fill_msec", "kvfree_rcu batching", "How long after memory pressure the spare pages are not refilled, ms."),
    built("rcupdate.rcu_cpu_stall_suppress_at_boot", "rcu_cpu_stall_suppress", "No stall is reported while the kernel boots, which a run does not show."),
    planned("rcupdate.rcu_cpu_stall_cputime", "stall reports in full", "Adds interrupt and CPU time figures to a stall report."),
    planned("rcupdate.rcu_exp_stall_task_details", "stall reports in full", "Adds the blocked tasks to an expedited stall report."),
    planned("nohz_full", "adaptive ticks", "CPUs that stop their tick while they run one task; their callbacks are offloaded."),
    planned("isolcpus", "adaptive ticks", "CPUs that the scheduler leaves alone; with the flag nohz as nohz_full=."),
    planned("CONFIG_RCU_BOOST", "priority boosting", "Kthreads that lend their priority to preempted readers which block a grace period."),
    planned("CONFIG_RCU_BOOST_DELAY", "priority boosting", "Age of a grace period at which that begins, ms."),
    planned("CONFIG_RCU_EXP_KTHREAD", "expedited workers", "Expedited grace periods run in real-time kthreads instead of workqueues."),
    planned("CONFIG_RCU_NOCB_CPU_DEFAULT_ALL", "callback offloading", "All CPUs are offloaded unless the boot line names some."),
    planned("CONFIG_RCU_NOCB_CPU_CB_BOOST", "callback offloading", "The kthreads that invoke callbacks have kthread_prio too."),
    planned("CONFIG_RCU_LAZY_DEFAULT_OFF", "lazy callbacks", "Default of rcutree.enable_rcu_lazy."),
    planned("CONFIG_NEED_SRCU_NMI_SAFE", "SRCU", "Readers in NMIs count with atomic operations."),
    planned("CONFIG_RCU_STRICT_GRACE_PERIOD", "strict grace periods", "Grace periods as short as can be, so that leaked pointers show."),
    planned("CONFIG_KVFREE_RCU_BATCHED", "kvfree_rcu batching", "kvfree_rcu() collects pointers in pages instead of queueing a callback for each."),
    planned("patch.preempt_count_elision", "costs of the preemption models", "preempt_disable() costs nothing although the kernel could preempt."),
    planned("CONFIG_PREEMPT_RT", "costs of the preemption models", "Real-time kernel: locks sleep, RCU's work is done by kthreads."),
    planned("CONFIG_PREEMPT_DYNAMIC", "costs of the preemption models", "The preemption model is chosen at boot; readers are always preemptible and counted."),
    built("CONFIG_RCU_NOCB_CPU", "rcu_nocbs", "Builds callback offloading."),
    built("CONFIG_RCU_LAZY", "enable_rcu_lazy", "Builds lazy callbacks."),
    built("CONFIG_NR_CPUS", "nr_cpus", "Most CPUs that the build supports; sizes the array of rcu_nodes."),
    built("CONFIG_SMP", "nr_cpus", "More than one CPU; without it and without preemption the kernel has Tiny RCU."),
    built("CONFIG_HOTPLUG_CPU", "maxcpus", "CPUs may come and go, which the model always allows."),
    built("CONFIG_NO_HZ_IDLE", "nohz", "Idle CPUs stop their ticks."),
    built("CONFIG_NO_HZ_FULL", "nohz_full", "Builds adaptive ticks."),
    built("CONFIG_HIGH_RES_TIMERS", "", "Fine-grained timers, which the model always has."),
    built("CONFIG_PREEMPT_NONE", "preempt", "The model preempt=none."),
    built("CONFIG_PREEMPT_VOLUNTARY", "preempt", "The model preempt=voluntary."),
    built("CONFIG_PREEMPT", "preempt", "The model preempt=full."),
    built("CONFIG_PREEMPT_LAZY", "preempt", "The model preempt=lazy."),
    built("CONFIG_PREEMPTION", "preempt", "Follows from the model: kernel code can be preempted."),
    built("CONFIG_PREEMPT_COUNT", "preempt", "Follows from the model: preempt_disable() counts."),
    built("CONFIG_PREEMPT_RT_NEEDS_BH_LOCK", "", "Real-time kernels: a lock per CPU serialises regions without softirqs."),
    built("CONFIG_TREE_RCU", "nr_cpus", "Tree RCU, which is what this is."),
    built("CONFIG_PREEMPT_RCU", "preempt", "Follows from the model: readers can be preempted."),
    built("CONFIG_TINY_RCU", "", "RCU for one CPU, which is not modelled."),
    built("CONFIG_RCU_EXPERT", "", "Shows the build's other questions on RCU."),
    built("CONFIG_TREE_SRCU", "convert_to_big", "SRCU that grows a tree where it needs one."),
    built("CONFIG_TINY_SRCU", "", "SRCU for one CPU, which is not modelled."),
    built("CONFIG_FORCE_NEED_SRCU_NMI_SAFE", "", "A test build: atomic SRCU readers where they are not needed."),
    built("CONFIG_RCU_STALL_COMMON", "rcu_cpu_stall_suppress", "Builds stall reports, which the model always has."),
    built("CONFIG_RCU_CPU_STALL_CPUTIME", "rcu_cpu_stall_cputime", "Default of the parameter of that name."),
    built("CONFIG_RCU_CPU_STALL_NOTIFIER", "rcu_cpu_stall_notifiers", "Builds the calls that a stall report makes."),
    built("CONFIG_BOOTPARAM_RCU_STALL_PANIC", "panic_on_rcu_stall", "Default of the sysctl of that name."),
    built("CONFIG_CSD_LOCK_WAIT_DEBUG", "", "Diagnoses calls to other CPUs that hang."),
    built("CONFIG_RCU_TRACE", "", "Builds RCU's trace events, which the model always has."),
    built("CONFIG_RCU_EQS_DEBUG", "", "Checks of idle entry and exit; the model's own checks are always on in test builds."),
    built("CONFIG_PROVE_LOCKING", "", "The lock checker, which slows everything down."),
    built("CONFIG_PROVE_RCU_LIST", "", "Checks of list traversals."),
    built("CONFIG_DEBUG_LOCK_ALLOC", "", "The lock checker's view of read sides."),
    built("CONFIG_DEBUG_OBJECTS_RCU_HEAD", "", "Finds callbacks that are queued twice."),
    built("CONFIG_TASKS_RCU", "", "Tasks RCU, another flavour."),
    built("CONFIG_TASKS_RUDE_RCU", "", "Tasks Rude RCU, another flavour."),
    built("CONFIG_TASKS_TRACE_RCU", "", "Tasks Trace RCU, another flavour."),
    built("CONFIG_TASKS_TRACE_RCU_READ_MB", "", "Read-side barriers of Tasks Trace RCU."),
    built("CONFIG_RCU_DYNTICKS_TORTURE", "", "A test build: the counter of extended quiescent states wraps within minutes."),
    built("CONFIG_RCU_TORTURE_TEST", "", "Builds rcutorture; `treercu torture` is its counterpart."),
    built("CONFIG_RCU_TORTURE_TEST_CHK_RDR_STATE", "", "rcutorture checks its readers' context."),
    built("CONFIG_RCU_TORTURE_TEST_LOG_CPU", "", "rcutorture logs its readers' CPUs."),
    built("CONFIG_RCU_TORTURE_TEST_LOG_GP", "", "rcutorture logs its readers' grace periods."),
    built("CONFIG_RCU_SCALE_TEST", "", "Builds rcuscale; `treercu simulate` and `measure` ask its questions."),
    built("CONFIG_RCU_REF_SCALE_TEST", "", "Builds refscale."),
    built("CONFIG_TRIVIAL_PREEMPT_RCU", "", "A textbook RCU for rcutorture to test."),
    built("CONFIG_RCU_FAST_NO_HZ", "", "Of old kernels: idle CPUs with callbacks stopped their ticks for a while."),
    built("CONFIG_CPU_ISOLATION", "isolcpus", "Builds the isolation of CPUs."),
];
