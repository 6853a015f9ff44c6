//! What machine a measurement ran on. Whatever cannot be read is `None`, never an error.

use super::engine::Lateness;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Instant;

/// Clock reads that are timed together.
const READS_PER_BATCH: u32 = 1_000;
/// Batches; the fastest one counts.
const BATCHES: u32 = 20;

/// Facts about the machine, the kernel and what the engine made of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The processor as it names itself (`/proc/cpuinfo`).
    pub cpu_model: Option<String>,
    /// CPUs that this process may run on.
    pub cores: Option<u32>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Frequency governor of CPU 0; `None` also where the kernel does not govern frequencies, as in most
    /// virtual machines.
    pub governor: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Cost of one read of the monotonic clock, ns: the mean of 1,000 reads in a row, the fastest of 20 such
    /// rows. Every sample contains about one of them.
    pub clock_read_ns: f64,
    /// The kernel offers private expedited `membarrier`.
    pub membarrier: Option<bool>,
    /// What orders readers against a grace period: `membarrier`, or `fallback` (each reader pays a full
    /// fence). `None`: the engine does not say.
    pub fence: Option<String>,
    /// How late the tick thread was; `None`: the engine has no tick, or did not need one.
    pub tick_lateness: Option<Lateness>,
}

impl HostFacts {
    /// Reads what this machine tells about itself; about 1 ms, most of it for the clock.
    pub fn collect() -> Self {
        HostFacts {
            cpu_model: cpu_model(),
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
            kernel: kernel(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_read_ns: clock_read_ns(),
            membarrier: membarrier(),
            fence: None,
            tick_lateness: None,
        }
    }
}

/// The first line of a file, without white space around it.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let first = text.lines().next()?.trim();
    (!first.is_empty()).then(|| first.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    // x86 says "model name", some others "cpu model", "Processor" or only "cpu".
    ["model name", "cpu model", "Processor", "cpu"]
        .iter()
        .find_map(|&wanted| {
            text.lines().find_map(|entry| {
                let (name, value) = entry.split_once(':')?;
                let value = value.trim();
                (name.trim() == wanted && !value.is_empty()).then(|| value.to_owned())
            })
        })
}

fn kernel() -> Option<String> {
    let name = rustix::system::uname();
    Some(format!(
        "{} {}",
        name.sysname().to_str().ok()?,
        name.release().to_str().ok()?
    ))
}

fn clock_read_ns() -> f64 {
    (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..READS_PER_BATCH {
                std::hint::black_box(Instant::now());
            }
            begun.elapsed().as_nanos() as f64 / f64::from(READS_PER_BATCH)
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(target_os = "linux")]
fn membarrier() -> Option<bool> {
    use rustix::thread::MembarrierCommand;
    let offered = rustix::thread::membarrier_query();
    Some(offered.contains_command(MembarrierCommand::PrivateExpedited))
}

#[cfg(not(target_os = "linux"))]
fn membarrier() -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_facts() {
        let facts = HostFacts::collect();
        assert!(facts.cores.is_some_and(|n| n >= 1));
        assert!(
            facts.clock_read_ns > 0.0 && facts.clock_read_ns < 100_000.0,
            "{facts:?}"
        );
        if cfg!(target_os = "linux") {
            assert!(facts.kernel.is_some_and(|text| text.starts_with("Linux ")));
            assert!(facts.membarrier.is_some());
        }
        assert_eq!(line("/no/such/file"), None);
    }
}
