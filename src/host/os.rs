//! What the host asks of the operating system besides blocking and clocks.

use super::park::Parking;
use crate::error::Result;
use std::sync::atomic::{AtomicU32, Ordering};

/// How threads block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkMode {
    /// Futexes where there are any, else the portable way.
    Auto,
    /// Futexes; an error where they are missing.
    Futex,
    /// `parking_lot_core`.
    Portable,
}

#[cfg(any(treercu_loom, treercu_shuttle))]
pub(super) fn choose_parking(_mode: ParkMode) -> Result<Parking> {
    Ok(Parking::Model)
}

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub(super) fn choose_parking(mode: ParkMode) -> Result<Parking> {
    match mode {
        ParkMode::Portable => Ok(Parking::Portable),
        #[cfg(target_os = "linux")]
        ParkMode::Auto | ParkMode::Futex => Ok(Parking::Futex),
        #[cfg(not(target_os = "linux"))]
        ParkMode::Auto => Ok(Parking::Portable),
        #[cfg(not(target_os = "linux"))]
        ParkMode::Futex => Err(crate::error::Error::config(
            "park",
            "futex",
            "this system has no futexes",
            "auto, portable",
        )),
    }
}

/// Timers of the calling thread expire when they are due, not up to 50 us later.
pub(super) fn precise_timers() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Changes in the child of a fork, where an engine's threads do not exist.
pub(super) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Makes [`forks`] count.
pub(super) fn watch_forks() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler is async-signal-safe: it increments an atomic.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
}
