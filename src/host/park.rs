//! Blocking: one word that one thread sleeps on and anybody may wake.
//!
//! On Linux it is a private futex. Where futexes are missing, or on request, the word's address is a
//! key in `parking_lot_core`'s table of sleepers; everything else is the same.

use super::clock::monotonic_ns;
use crate::sync::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How threads block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parking {
    #[cfg(target_os = "linux")]
    Futex,
    Portable,
}

impl Parking {
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Parking::Futex => "futex",
            Parking::Portable => "portable",
        }
    }
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The word.
#[derive(Debug, Default)]
pub(super) struct Park {
    word: AtomicU32,
}

impl Park {
    /// The owner announces that it is going to sleep; after this it looks once more at what it waits
    /// for. SeqCst: the announcement comes before that look, as in [`Park::wake`] the thing waited for
    /// comes before the look at the word. One of the two sees the other.
    pub fn announce(&self) {
        self.word.swap(ASLEEP, Ordering::SeqCst);
    }

    /// The owner does not sleep after all.
    pub fn withdraw(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// The owner sleeps until [`Park::wake`], or until `deadline` (ns of the monotonic clock). May
    /// return early; the owner looks again and announces anew.
    pub fn sleep(&self, how: Parking, deadline: Option<u64>) {
        match how {
            #[cfg(target_os = "linux")]
            Parking::Futex => {
                use rustix::thread::futex;
                let until = deadline.map(|ns| futex::Timespec {
                    tv_sec: (ns / 1_000_000_000) as _,
                    tv_nsec: (ns % 1_000_000_000) as _,
                });
                // Returns at once when the word has changed; interrupted or timed out is all the same.
                let _ = futex::wait_bitset(
                    &self.word,
                    futex::Flags::PRIVATE,
                    ASLEEP,
                    until.as_ref(),
                    std::num::NonZeroU32::MAX,
                );
            }
            Parking::Portable => {
                let until = deadline
                    .map(|ns| Instant::now() + Duration::from_nanos(ns.saturating_sub(monotonic_ns())));
                // SAFETY: the key is the address of this word, which outlives the call; the callbacks do
                // not panic and do not call back into parking_lot_core.
                unsafe {
                    parking_lot_core::park(
                        self.key(),
                        || self.word.load(Ordering::SeqCst) == ASLEEP,
                        || {},
                        |_, _| {},
                        parking_lot_core::DEFAULT_PARK_TOKEN,
                        until,
                    );
                }
            }
        }
    }

    /// Wakes the owner if it sleeps or is about to. What it waits for was made true before.
    pub fn wake(&self, how: Parking) {
        if self.word.swap(AWAKE, Ordering::SeqCst) == AWAKE {
            return;
        }
        match how {
            #[cfg(target_os = "linux")]
            Parking::Futex => {
                let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, 1);
            }
            Parking::Portable => {
                // SAFETY: as in `sleep`.
                unsafe {
                    parking_lot_core::unpark_one(self.key(), |_| parking_lot_core::DEFAULT_UNPARK_TOKEN);
                }
            }
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.word).addr()
    }
}
