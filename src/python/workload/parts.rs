//! The workload classes, one table each.

use super::kinds::{Count, CpuSet, Flag, Kind, LengthUs, MS, Place, US, Word};
use super::part::{self, Field, Part, part};
use crate::srcu::Flavour;
use crate::workload::{
    CallRcuFlood, CpuLoad, Hotplug, HotplugSweep, MAX_CALLS, MAX_TASKS, MAX_WAITS_PERCENT, Mode,
    PeriodicInterrupt, Readers, SrcuCallKind, SrcuFlood, SyncCallKind, SyncFlood, Workload,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

part! {
    /// Tasks that call `synchronize_rcu()`, or wait for grace periods in another way.
    ///
    /// Closed loop (`interval_us=0`): the next call follows the return of the previous one after
    /// `think_us`. Open loop: every task has a call due each `interval_us`; one that is due while the
    /// previous still waits is made late, and its latency counts from when it was due.
    SyncFlood as PySyncFlood, "SyncFlood", "sync-flood", repr(tasks, calls) {
        /// Number of tasks.
        tasks: Count(1, MAX_TASKS), "1" => tasks;
        /// Calls per task; 0 is as many as fit into `duration_ms`. Left out: 0 with a duration, else 100.
        calls: Count(0, MAX_CALLS), "None" => calls;
        /// Virtual time after which no new call is made; 0 for no limit.
        duration_ms: MS, "0" => duration_ns;
        /// Where the tasks start: "spread", "random" or a CPU number.
        placement: Place, "'spread'" => placement;
        /// Closed loop: pause between the return of a call and the next one.
        think_us: US, "0" => think_ns;
        /// Each task's first call comes at a time drawn from 0 to this.
        start_skew_us: US, "0" => start_skew_ns;
        /// Open loop: distance of the due times; 0 for a closed loop.
        interval_us: US, "0" => interval_ns;
        /// What a call is: "sync" (`synchronize_rcu()`), "poll" and "poll-full" (a cookie of a polled grace
        /// period, looked at once a jiffy), "barrier" (`rcu_barrier()`) or "expedited"
        /// (`synchronize_rcu_expedited()`).
        kind: Word(&SyncCallKind::ALL), "'sync'" => kind;
    }
    settle(flood, given) {
        if !given("calls") && flood.duration_ns > 0 {
            flood.calls = 0;
        }
    }
}

part! {
    /// One pinned task per CPU that keeps it busy.
    CpuLoad as PyCpuLoad, "CpuLoad", "cpu-load", repr(cpus, mode) {
        /// The CPUs: "all", a number or a list of them.
        cpus: CpuSet, "'all'" => cpus;
        /// "user" (every tick is a quiescent state) or "kernel" (only those outside sections are).
        mode: Word(&[("user", Mode::User), ("kernel", Mode::Kernel)]), "'user'" => mode;
        /// Length of one busy stretch; 0 for without end.
        run_us: US, "0" => run_ns;
        /// Sleep between two stretches.
        pause_us: US, "0" => pause_ns;
        /// Kernel mode: length of the preemption-disabled sections; 0 for none.
        section_us: US, "0" => section_ns;
        /// Kernel mode: time between two sections, or between two reschedule points of a
        /// non-preemptible kernel.
        gap_us: US, "10" => gap_ns;
        /// End of this load; 0 for as long as any other part runs.
        duration_ms: MS, "0" => duration_ns;
    }
}

part! {
    /// Tasks that enter and leave `rcu_read_lock()` sections.
    ///
    /// On a preemptible kernel they can be preempted inside one, and then block grace periods until they
    /// have left it.
    ///
    /// A length is a number of microseconds, or a distribution: "uniform:1:5", "exp:10" (mean 10).
    Readers as PyReaders, "Readers", "readers", repr(tasks) {
        /// Number of tasks.
        tasks: Count(1, MAX_TASKS), "1" => tasks;
        /// Sections per task; 0 for until `duration_ms`, or as long as any other part runs.
        sections: Count(0, MAX_CALLS), "0" => sections;
        /// Length of a section.
        section_us: LengthUs, "10" => section;
        /// Sleep between two sections; below 1 the task goes on without sleeping.
        gap_us: LengthUs, "'exp:100'" => gap;
        /// Levels of nesting inside the outermost section; the inner ones end at its middle.
        nested: Count(0, 64), "0" => nested;
        /// Of 100 sections, how many end with preemption disabled, so that the quiescent state has to be
        /// deferred.
        deferred_percent: Count(0, 100), "0" => deferred_percent;
        /// Where the tasks start: "spread", "random" or a CPU number.
        placement: Place, "'spread'" => placement;
        /// Virtual time after which no new section begins; 0 for no limit.
        duration_ms: MS, "0" => duration_ns;
    }
}

part! {
    /// Tasks that queue callbacks with `call_rcu()` or `call_rcu_hurry()`, in bursts.
    ///
    /// A length is a number of microseconds, or a distribution: "uniform:1:5", "exp:10" (mean 10).
    CallRcuFlood as PyCallRcuFlood, "CallRcuFlood", "call-rcu-flood", repr(tasks) {
        /// Number of tasks.
        tasks: Count(1, MAX_TASKS), "1" => tasks;
        /// Callbacks per task; 0 for until `duration_ms`, or as long as any other part runs.
        callbacks: Count(0, MAX_CALLS), "0" => callbacks;
        /// Callbacks per burst.
        burst: Count(1, 1_000_000), "1" => burst;
        /// Sleep between two bursts, a length; below 1 the task goes on without sleeping.
        interval_us: LengthUs, "100" => interval;
        /// How often each callback posts itself again when it is invoked.
        repost: Count(0, u16::MAX as u64), "0" => repost;
        /// `call_rcu_hurry()` instead of `call_rcu()`. They differ only with lazy callbacks.
        hurry: Flag, "False" => hurry;
        /// Where the tasks start: "spread", "random" or a CPU number.
        placement: Place, "'spread'" => placement;
        /// Virtual time after which no new burst begins; 0 for no limit.
        duration_ms: MS, "0" => duration_ns;
    }
}

part! {
    /// A periodic interrupt on each of some CPUs whose handler calls `call_rcu()`.
    PeriodicInterrupt as PyPeriodicInterrupt, "PeriodicInterrupt", "periodic-interrupt", repr(rate_hz) {
        /// Interrupts per second and CPU.
        rate_hz: Count(1, 1_000_000), "1000" => rate_hz;
        /// Callbacks queued by each.
        callbacks: Count(0, 100_000), "1" => callbacks;
        /// The CPUs: "all", a number or a list of them.
        cpus: CpuSet, "0" => cpus;
        /// End of the interrupts; 0 for as long as any other part runs.
        duration_ms: MS, "0" => duration_ns;
    }
}

part! {
    /// One task that takes CPUs offline and online again, one transition at a time.
    ///
    /// Each transition concerns one of the CPUs, drawn from the seed. The last online CPU stays. A length is
    /// a number of microseconds, or a distribution: "uniform:1:5", "exp:10" (mean 10).
    Hotplug as PyHotplug, "Hotplug", "hotplug", repr(cpus) {
        /// The CPUs that come and go: "all", a number or a list of them.
        cpus: CpuSet, "'all'" => cpus;
        /// Time between two transitions, a length.
        interval_us: LengthUs, "'exp:10000'" => interval;
        /// Transitions in all; 0 for until `duration_ms`, or as long as any other part runs.
        transitions: Count(0, MAX_CALLS), "0" => transitions;
        /// Virtual time after which no new transition begins; 0 for no limit.
        duration_ms: MS, "0" => duration_ns;
    }
}

part! {
    /// One task that takes CPUs offline one after the other, in the order given, as switching SMT off does with the
    /// siblings: `cpus=[cpu for cpu in range(400) if cpu % 8]`.
    ///
    /// Before each transition it calls `synchronize_rcu()` so and so often, one call after the other; these calls are the
    /// run's samples. CPU-offline itself makes one such call, and its lock at most one in each direction. What else a
    /// transition takes, but for 20 us of CPU time, is not modelled; `other_us` can stand for it. A length is a number of
    /// microseconds, or a distribution: "uniform:1:5", "exp:10" (mean 10).
    HotplugSweep as PyHotplugSweep, "HotplugSweep", "hotplug-sweep", repr(cpus) {
        /// The CPUs, in this order: a number, a list of them, or "all" for all but CPU 0.
        cpus: CpuSet, "'all'" => cpus;
        /// Brings them online again afterwards, in the same order.
        back: Flag, "False" => back;
        /// Calls per CPU going offline, in hundredths: 125 is five calls for four CPUs.
        waits_down_percent: Count(0, MAX_WAITS_PERCENT), "100" => waits_down_percent;
        /// The same per CPU coming online.
        waits_up_percent: Count(0, MAX_WAITS_PERCENT), "0" => waits_up_percent;
        /// CPU time that each transition takes besides, a length.
        other_us: LengthUs, "0" => other;
    }
}

part! {
    /// One SRCU domain: tasks that wait for its grace periods, and readers that may sleep inside their sections.
    ///
    /// Each task makes its next call `think_us` after the return of the previous one; the readers go on as long as any
    /// part of the workload runs. A length is a number of microseconds, or a distribution: "uniform:1:5", "exp:10"
    /// (mean 10).
    SrcuFlood as PySrcuFlood, "SrcuFlood", "srcu-flood", repr(tasks, calls) {
        /// Number of tasks that call.
        tasks: Count(1, MAX_TASKS), "1" => tasks;
        /// Calls per task; 0 is as many as fit into `duration_ms`. Left out: 0 with a duration, else 100.
        calls: Count(0, MAX_CALLS), "None" => calls;
        /// Virtual time after which no new call is made; 0 for no limit.
        duration_ms: MS, "0" => duration_ns;
        /// What a call is: "sync" (`synchronize_srcu()`), "expedited" (`synchronize_srcu_expedited()`), "call"
        /// (`call_srcu()`, over when the callback is invoked; the task does not wait for that), "poll" (a cookie,
        /// looked at once a jiffy) or "barrier" (`srcu_barrier()`).
        kind: Word(&SrcuCallKind::ALL), "'sync'" => kind;
        /// The domain's readers: "normal" (full barriers), "fast", "fast-updown" or "light" (none: grace periods of
        /// RCU stand in for them).
        flavour: Word(&Flavour::ALL), "'normal'" => flavour;
        /// Pause between the return of a call and the next one.
        think_us: US, "0" => think_ns;
        /// Number of reader tasks.
        readers: Count(0, MAX_TASKS), "0" => readers;
        /// Length of a section.
        section_us: LengthUs, "10" => section;
        /// Time between two sections; below 1 the reader goes on without sleeping.
        gap_us: LengthUs, "'exp:100'" => gap;
        /// Of 100 sections, how many are slept through; the others are spent running.
        sleep_percent: Count(0, 100), "100" => sleep_percent;
        /// How long a reader is held up between fetching the index and counting itself on it.
        enter_us: LengthUs, "0" => enter;
        /// Where tasks and readers start: "spread", "random" or a CPU number.
        placement: Place, "'spread'" => placement;
    }
    settle(flood, given) {
        if !given("calls") && flood.duration_ns > 0 {
            flood.calls = 0;
        }
    }
}

macro_rules! classes {
    ($($plain:ident as $class:ident),+) => {
        /// The names of the classes.
        pub(super) const CLASSES: &[&str] = &[$($plain::CLASS),+];

        /// Adds the classes to the module.
        pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_class::<$class>()?;)+
            Ok(())
        }

        /// The plain data of an object of one of the classes.
        pub(super) fn plain(object: &Bound<'_, PyAny>) -> Option<Workload> {
            $(if let Ok(part) = object.cast::<$class>() {
                return Some(part.get().inner.clone().into());
            })+
            None
        }

        /// The object for one part.
        pub(super) fn object<'py>(
            py: Python<'py>,
            part: &crate::workload::Part,
        ) -> PyResult<Bound<'py, PyAny>> {
            Ok(match part {
                $(crate::workload::Part::$plain(inner) => {
                    Bound::new(py, $class { inner: inner.clone() })?.into_any()
                })+
            })
        }
    };
}
classes!(
    SyncFlood as PySyncFlood,
    CpuLoad as PyCpuLoad,
    Readers as PyReaders,
    CallRcuFlood as PyCallRcuFlood,
    PeriodicInterrupt as PyPeriodicInterrupt,
    Hotplug as PyHotplug,
    HotplugSweep as PyHotplugSweep,
    SrcuFlood as PySrcuFlood
);
