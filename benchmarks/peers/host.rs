//! The machine: what it is, clocks, and where threads run.

use serde_json::{Value, json};

/// Nanoseconds of a clock.
fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a timespec of ours.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The monotonic clock, ns.
pub fn wall_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process, ns.
pub fn process_cpu_ns() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Cores that this process may run on, two at most: every row is a matter of one or two.
pub fn cores() -> Vec<usize> {
    // SAFETY: a set of ours; an all-zero one is valid.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&core| libc::CPU_ISSET(core, &set))
            .take(2)
            .collect()
    }
}

/// Pins the calling thread, and what it starts later, to these cores.
pub fn pin(cores: &[usize]) {
    // SAFETY: a set of ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cores {
            libc::CPU_SET(core, &mut set);
        }
        assert_eq!(
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set),
            0,
            "sched_setaffinity"
        );
    }
}

/// One private expedited membarrier; the process is registered by the first engine it opens, and here.
pub fn membarrier() -> bool {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0 }
}

/// Registers the process for [`membarrier`]; false where there is none.
pub fn register_membarrier() -> bool {
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 }
}

fn file(path: &str) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// What the figures were measured on.
pub fn facts() -> Value {
    let cpuinfo = file("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    json!({
        "cpu": model,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": file("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        "clock_source": file("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": file("/proc/loadavg"),
        "treercu": env!("CARGO_PKG_VERSION"),
    })
}
