//! Knobs that are accepted and do nothing here: a boot line or a configuration may hold them, their values are checked
//! as the kernel checks them, and each says why it has no effect in this model.

use super::catalogue::{BOOL_RANGE, Class, INT, Kind, Spec, Type};
use super::{Tunables, Value};

/// They, in the order in which they are shown.
pub fn accepted() -> &'static [Spec] {
    ACCEPTED
}

/// Everything that a configuration takes: the tunables, then these.
pub fn settable() -> impl Iterator<Item = &'static Spec> {
    super::catalogue().iter().chain(ACCEPTED)
}

impl Spec {
    /// Accepted without an effect.
    pub fn is_inert(&self) -> bool {
        ACCEPTED.iter().any(|spec| spec.python_name == self.python_name)
    }

    /// The value where none is given, of a knob without an effect.
    pub(super) fn inert_default(&self, t: &Tunables) -> Value {
        let hz = i64::from(t.hz);
        match (self.value_type, self.python_name) {
            (Type::Bool, _) => Value::Bool(false),
            (_, "rcu_task_stall_timeout") => Value::Int(600 * hz),
            (_, "rcu_task_stall_info") => Value::Int(10 * hz),
            (_, "rcu_task_ipi_delay") => Value::Int(hz / 2),
            (_, "possible_cpus") => Value::Int(i64::from(t.nr_cpus)),
            (_, _) => Value::Int(self.default_formula.parse().unwrap_or(0)),
        }
    }
}

/// What the kernel's `int` holds.
const INT_RANGE: &str = "-2147483648 to 2147483647";
/// CPUs, of which there is at least one.
const CPUS: Type = Type::Int {
    min: 1,
    max: i32::MAX as i64,
};
/// Factor between reports.
const FACTOR: Type = Type::Int { min: 1, max: 10 };

struct Row {
    name: &'static str,
    kind: Kind,
    value_type: Type,
    range: &'static str,
    unit: &'static str,
    default: &'static str,
    effect: &'static str,
    why: &'static str,
}

const fn spec(python_name: &'static str, row: Row) -> Spec {
    Spec {
        name: row.name,
        python_name,
        kernel_name: python_name,
        kind: row.kind,
        value_type: row.value_type,
        unit: row.unit,
        range: row.range,
        class: Class::Refused,
        tier: 3,
        default_formula: row.default,
        effect: row.effect,
        why: row.why,
    }
}

#[rustfmt::skip]
static ACCEPTED: &[Spec] = &[
    spec("rcu_kick_kthreads", Row { name: "rcutree.rcu_kick_kthreads", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A tick wakes the grace-period kthread when its sleep lasts far too long.", why: "timers of the model never fail to expire" }),
    spec("dump_tree", Row { name: "rcutree.dump_tree", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "Prints the tree's shape at boot.", why: "a snapshot or the trace shows it" }),
    spec("do_rcu_barrier", Row { name: "rcutree.do_rcu_barrier", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "Runs rcu_barrier() when it is written.", why: "rcu_barrier() is a workload here (kind=barrier)" }),
    spec("sysrq_rcu", Row { name: "rcutree.sysrq_rcu", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A key that prints the state of RCU.", why: "a snapshot shows it" }),
    spec("csd_lock_suppress_rcu_stall", Row { name: "rcutree.csd_lock_suppress_rcu_stall", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "Shortens stall reports while a call to another CPU hangs.", why: "calls to other CPUs never hang in the model" }),
    spec("rcu_cpu_stall_ftrace_dump", Row { name: "rcupdate.rcu_cpu_stall_ftrace_dump", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A stall report dumps the trace buffer.", why: "a run's trace is at hand anyway" }),
    spec("rcu_cpu_stall_notifiers", Row { name: "rcupdate.rcu_cpu_stall_notifiers", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A stall report calls registered functions.", why: "there is nobody to call" }),
    spec("rcu_self_test", Row { name: "rcupdate.rcu_self_test", kind: Kind::ModuleParam, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A few tests of call_rcu() at boot.", why: "the model does not boot" }),
    spec("rcu_task_stall_timeout", Row { name: "rcupdate.rcu_task_stall_timeout", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "jiffies", default: "600 * HZ", effect: "Distance of stall reports of Tasks RCU.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_stall_info", Row { name: "rcupdate.rcu_task_stall_info", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "jiffies", default: "10 * HZ", effect: "Age at which a grace period of Tasks RCU is mentioned.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_stall_info_mult", Row { name: "rcupdate.rcu_task_stall_info_mult", kind: Kind::ModuleParam, value_type: FACTOR, range: "1 to 10", unit: "factor", default: "3", effect: "Factor between two such mentions.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_enqueue_lim", Row { name: "rcupdate.rcu_task_enqueue_lim", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "queues", default: "-1", effect: "Queues of callbacks of Tasks RCU; -1: as many as contention asks for.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_contend_lim", Row { name: "rcupdate.rcu_task_contend_lim", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "contentions/jiffy", default: "100", effect: "Contention at which Tasks RCU takes a queue per CPU.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_collapse_lim", Row { name: "rcupdate.rcu_task_collapse_lim", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "callbacks", default: "10", effect: "Backlog at which it goes back to one queue.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_lazy_lim", Row { name: "rcupdate.rcu_task_lazy_lim", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "callbacks", default: "32", effect: "Backlog at which its callbacks are not lazy.", why: "Tasks RCU is another flavour" }),
    spec("rcu_tasks_lazy_ms", Row { name: "rcupdate.rcu_tasks_lazy_ms", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "ms", default: "-1", effect: "How long its callbacks may wait; -1: as built.", why: "Tasks RCU is another flavour" }),
    spec("rcu_task_ipi_delay", Row { name: "rcupdate.rcu_task_ipi_delay", kind: Kind::ModuleParam, value_type: INT, range: INT_RANGE, unit: "jiffies", default: "HZ / 2", effect: "Delay before hold-outs of Tasks Trace RCU are interrupted.", why: "Tasks Trace RCU is another flavour" }),
    spec("possible_cpus", Row { name: "possible_cpus", kind: Kind::BootArg, value_type: CPUS, range: "1 to 2147483647", unit: "CPUs", default: "nr_cpus", effect: "x86: number of possible CPUs.", why: "nr_cpus says it here" }),
    spec("threadirqs", Row { name: "threadirqs", kind: Kind::BootArg, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "Interrupt handlers run in kthreads.", why: "the model's interrupts are not threads" }),
    spec("csdlock_debug", Row { name: "csdlock_debug", kind: Kind::BootArg, value_type: INT, range: INT_RANGE, unit: "", default: "0", effect: "Diagnoses calls to other CPUs that hang.", why: "calls to other CPUs never hang in the model" }),
    spec("panic_on_rcu_stall", Row { name: "sysctl.kernel.panic_on_rcu_stall", kind: Kind::BootArg, value_type: Type::Bool, range: BOOL_RANGE, unit: "", default: "off", effect: "A stall report is the end.", why: "a simulated kernel goes on, and counts its stalls" }),
    spec("max_rcu_stall_to_panic", Row { name: "sysctl.kernel.max_rcu_stall_to_panic", kind: Kind::BootArg, value_type: INT, range: INT_RANGE, unit: "reports", default: "0", effect: "Stall reports before that.", why: "a simulated kernel goes on, and counts its stalls" }),
];
