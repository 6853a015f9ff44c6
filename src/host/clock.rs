//! Time on real threads.

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
use rustix::time::{ClockId, clock_gettime};

/// The clock of a model stands still unless the model moves it.
#[cfg(any(treercu_loom, treercu_shuttle))]
pub(super) use crate::sync::model::{now_ns as monotonic_ns, now_ns as thread_cpu_ns};

/// The monotonic clock, ns.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
#[inline]
pub(super) fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of the calling thread, ns.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub(super) fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Jiffies since an engine was opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    epoch_ns: u64,
    pub tick_ns: u64,
}

impl Clock {
    pub fn start(hz: u32) -> Self {
        Clock {
            epoch_ns: monotonic_ns(),
            tick_ns: 1_000_000_000 / u64::from(hz),
        }
    }

    /// Since the engine was opened, ns.
    pub fn now(&self) -> u64 {
        monotonic_ns() - self.epoch_ns
    }

    pub fn jiffies(&self) -> u64 {
        self.now() / self.tick_ns
    }

    /// When a jiffy begins, by the monotonic clock.
    pub fn jiffy_at(&self, jiffy: u64) -> u64 {
        self.epoch_ns.saturating_add(jiffy.saturating_mul(self.tick_ns))
    }
}
