//! Blocking: one word that one thread sleeps on and anybody may wake.
//!
//! On Linux it is a private futex. Where futexes are missing, or on request, the word's address is a
//! key in `parking_lot_core`'s table of sleepers; everything else is the same.

use crate::sync::{AtomicU32, Ordering, mutated, order};

/// How threads block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parking {
    #[cfg(all(target_os = "linux", not(any(treercu_loom, treercu_shuttle))))]
    Futex,
    #[cfg(not(any(treercu_loom, treercu_shuttle)))]
    Portable,
    /// A model checker's.
    #[cfg(any(treercu_loom, treercu_shuttle))]
    Model,
}

impl Parking {
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(all(target_os = "linux", not(any(treercu_loom, treercu_shuttle))))]
            Parking::Futex => "futex",
            #[cfg(not(any(treercu_loom, treercu_shuttle)))]
            Parking::Portable => "portable",
            #[cfg(any(treercu_loom, treercu_shuttle))]
            Parking::Model => "model",
        }
    }
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The word.
#[derive(Debug, Default)]
pub(super) struct Park {
    word: AtomicU32,
    #[cfg(any(treercu_loom, treercu_shuttle))]
    sleeper: crate::sync::model::Sleeper,
}

impl Park {
    /// The owner announces that it is going to sleep; after this it looks once more at what it waits
    /// for. SeqCst: the announcement comes before that look, as in [`Park::wake`] the thing waited for
    /// comes before the look at the word. One of the two sees the other.
    pub fn announce(&self) {
        if !mutated("announce") {
            self.word.swap(ASLEEP, order("announce order", Ordering::SeqCst));
        }
    }

    /// The owner does not sleep after all. A swap, not a store: a wake-up that it swallows was for a reason that the
    /// owner has to see when it looks the next time.
    pub fn withdraw(&self) {
        if mutated("withdraw") {
            return self.word.store(AWAKE, Ordering::Relaxed);
        }
        self.word.swap(AWAKE, Ordering::SeqCst);
    }

    /// Wakes the owner if it sleeps or is about to. What it waits for was made true before.
    pub fn wake(&self, how: Parking) {
        if self.word.swap(AWAKE, order("wake order", Ordering::SeqCst)) != AWAKE {
            self.rouse(how);
        }
    }
}

#[cfg(any(treercu_loom, treercu_shuttle))]
const ALL: u32 = u32::MAX;

#[cfg(any(treercu_loom, treercu_shuttle))]
impl Park {
    pub fn sleep(&self, _how: Parking, deadline: Option<u64>) {
        self.sleeper
            .sleep_if(|| self.word.load(Ordering::SeqCst) == ASLEEP, ALL, deadline);
    }

    fn rouse(&self, _how: Parking) {
        self.sleeper.wake(ALL);
    }
}

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
impl Park {
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
                use std::time::{Duration, Instant};
                let left = |ns: u64| ns.saturating_sub(super::clock::monotonic_ns());
                let until = deadline.map(|ns| Instant::now() + Duration::from_nanos(left(ns)));
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

    fn rouse(&self, how: Parking) {
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
