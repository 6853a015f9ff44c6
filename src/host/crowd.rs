//! Blocking in a crowd: callers of `synchronize_rcu()` that one grace period releases sleep on one word and are
//! woken by one system call.
//!
//! Woken one by one, each of them runs briefly on a core that is idle again before the next one is woken, and the
//! waker pays for an interrupt each time; woken together they queue up on the cores there are.
//!
//! The word is an event count: it changes with each wake-up, and who sleeps names the value it saw before it looked
//! at what it waits for. Each sleeper also has one of 32 *marks*, by the grace period that is to release it, so that a
//! wake-up passes by those who wait for a later one.

use super::park::Parking;
use crate::sync::{AtomicU32, Ordering, fence_after_rmw};
use crate::tree::seq;
use std::num::NonZeroU32;

/// Where they sleep.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Crowd {
    word: AtomicU32,
    /// Threads that sleep or are about to.
    sleepers: AtomicU32,
    #[cfg(any(treercu_loom, treercu_shuttle))]
    sleeper: crate::sync::model::Sleeper,
}

/// Everybody.
pub(super) const ALL: NonZeroU32 = NonZeroU32::MAX;

/// The mark of those whom the grace period with this number is to release.
pub(super) fn mark_of(gp_seq: u64) -> u32 {
    1 << (seq::ctr(gp_seq) % 32)
}

impl Crowd {
    /// Sleeps until somebody wakes `mark`, unless `ready` says that there is no need. May return early.
    ///
    /// The sleeper counts itself, takes the word's value, looks; the waker makes `ready` true, looks for sleepers,
    /// changes the word, wakes. A full barrier behind the first step of each: either the sleeper's look sees what the
    /// waker did, or the waker sees it counted, and then the word that it names is old by the time it sleeps, or it
    /// sleeps already.
    pub fn sleep(&self, how: Parking, mark: NonZeroU32, ready: impl Fn() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence_after_rmw("crowd counted");
        let seen = self.word.load(Ordering::SeqCst);
        if !ready() {
            self.block(how, mark, seen);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes those with one of these marks. What they wait for was made true before.
    pub fn wake(&self, how: Parking, marks: NonZeroU32) {
        fence_after_rmw("crowd woken");
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.word.fetch_add(1, Ordering::SeqCst);
        self.rouse(how, marks);
    }
}

#[cfg(any(treercu_loom, treercu_shuttle))]
impl Crowd {
    fn block(&self, _how: Parking, mark: NonZeroU32, seen: u32) {
        self.sleeper
            .sleep_if(|| self.word.load(Ordering::SeqCst) == seen, mark.get(), None);
    }

    fn rouse(&self, _how: Parking, marks: NonZeroU32) {
        self.sleeper.wake(marks.get());
    }
}

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
impl Crowd {
    /// Sleeps unless the word has changed since it was `seen`.
    fn block(&self, how: Parking, mark: NonZeroU32, seen: u32) {
        match how {
            #[cfg(target_os = "linux")]
            Parking::Futex => {
                use rustix::thread::futex;
                // Returns at once when the word has changed; interrupted is all the same.
                let _ = futex::wait_bitset(&self.word, futex::Flags::PRIVATE, seen, None, mark);
            }
            Parking::Portable => {
                // SAFETY: the key is the address of this word, which outlives the call; the callbacks do
                // not panic and do not call back into parking_lot_core.
                unsafe {
                    parking_lot_core::park(
                        self.key(),
                        || self.word.load(Ordering::SeqCst) == seen,
                        || {},
                        |_, _| {},
                        parking_lot_core::ParkToken(mark.get() as usize),
                        None,
                    );
                }
            }
        }
    }

    fn rouse(&self, how: Parking, marks: NonZeroU32) {
        match how {
            #[cfg(target_os = "linux")]
            Parking::Futex => {
                use rustix::thread::futex;
                const EVERYONE: u32 = i32::MAX as u32;
                let _ = futex::wake_bitset(&self.word, futex::Flags::PRIVATE, EVERYONE, marks);
            }
            Parking::Portable => {
                use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkToken};
                // SAFETY: as in `sleep`.
                unsafe {
                    parking_lot_core::unpark_filter(
                        self.key(),
                        |ParkToken(mark)| {
                            if mark as u32 & marks.get() != 0 {
                                FilterOp::Unpark
                            } else {
                                FilterOp::Skip
                            }
                        },
                        |_| DEFAULT_UNPARK_TOKEN,
                    );
                }
            }
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.word).addr()
    }
}
