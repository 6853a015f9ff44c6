//! The one place that names atomics, fences and locks. Model-checker builds swap them here.
//!
//! | build | atomics, fences, locks | threads |
//! |---|---|---|
//! | normal | the processor's, `parking_lot` | the system's |
//! | `--cfg treercu_loom` | loom's: every order that the memory model allows, within a bound on preemptions | loom's |
//! | `--cfg treercu_shuttle` | shuttle's: random schedules, sequentially consistent | shuttle's |
//!
//! `tests/README.md` says what is checked with them and what is not.

#[cfg(any(treercu_loom, treercu_shuttle))]
#[path = "sync/model.rs"]
pub mod model;

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
mod kind {
    pub use parking_lot::{Mutex, MutexGuard};
    pub use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    /// Reference counting without weak references: one word of overhead.
    pub use triomphe::Arc as ThinArc;
}
#[cfg(any(treercu_loom, treercu_shuttle))]
use model as kind;

pub use kind::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, ThinArc, fence,
};
/// Locks of measurements and tests, outside any protocol that is modelled.
pub use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use std::ops::{Deref, DerefMut};

/// A counter of what happened, read for reports only: part of no protocol, and never modelled.
pub type Tally = std::sync::atomic::AtomicU64;

#[cfg(all(debug_assertions, not(any(treercu_loom, treercu_shuttle))))]
mod held {
    thread_local! {
        pub static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    pub fn change(by: i32) {
        HELD.with(|held| held.set(held.get().wrapping_add_signed(by)));
    }
}
// The threads of a model share one thread of the system.
#[cfg(not(all(debug_assertions, not(any(treercu_loom, treercu_shuttle)))))]
mod held {
    #[inline(always)]
    pub fn change(_by: i32) {}
}

/// Asserts (debug builds) that this thread holds no engine lock: rule 1 of the seam, no lock is
/// held while the world is asked to do something.
pub fn assert_unlocked() {
    #[cfg(all(debug_assertions, not(any(treercu_loom, treercu_shuttle))))]
    held::HELD.with(|held| assert_eq!(held.get(), 0, "a world call was made with an engine lock held"));
}

/// Whether a model check or the bug zoo wants this step done wrongly, to see whether it notices. `false` in normal
/// builds.
#[cfg(not(any(treercu_loom, treercu_shuttle, feature = "bug-zoo")))]
#[inline(always)]
pub const fn mutated(_step: &'static str) -> bool {
    false
}
#[cfg(all(feature = "bug-zoo", not(any(treercu_loom, treercu_shuttle))))]
pub use crate::zoo::mutated;
#[cfg(any(treercu_loom, treercu_shuttle))]
pub use model::mutated;

/// The order of an access, under the name that the memory-ordering argument and its model checks give it.
/// A mutant of that name makes it relaxed.
#[inline(always)]
pub fn order(_step: &'static str, order: Ordering) -> Ordering {
    #[cfg(any(treercu_loom, treercu_shuttle))]
    if mutated(_step) {
        return Ordering::Relaxed;
    }
    order
}

/// `fence(SeqCst)` under the name that the memory-ordering argument gives it. A mutant of that name drops it.
#[inline(always)]
pub fn full_fence(step: &'static str) {
    if !mutated(step) {
        fence(Ordering::SeqCst);
    }
}

/// Keeps the compiler from moving accesses across; the processor may, and no fence is a partner. Nothing in a model.
#[inline(always)]
pub fn compiler_barrier() {
    #[cfg(not(any(treercu_loom, treercu_shuttle)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Keeps the compiler from moving accesses across; the processor may. Its partner is a heavy fence
/// that reaches this thread from outside (see `host::order`).
///
/// Model checkers know no fence that acts in other threads: [`model`] says what stands for the pair there. It is
/// stronger than the real thing between two readers, which real light fences do not order at all.
#[inline(always)]
pub fn light_fence(_step: &'static str) {
    #[cfg(not(any(treercu_loom, treercu_shuttle)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(any(treercu_loom, treercu_shuttle))]
    model::light_fence(_step);
}

/// A model's half of `membarrier`; the real one is a system call.
#[inline(always)]
pub fn heavy_fence(_step: &'static str) {
    #[cfg(any(treercu_loom, treercu_shuttle))]
    model::heavy_fence(_step);
}

/// A full barrier behind the release of a lock or a read-modify-write.
///
/// On x86-64 that locked instruction is a full barrier already; what is left is to keep the compiler from moving
/// anything across it.
#[inline(always)]
pub fn fence_after_rmw(step: &'static str) {
    if cfg!(all(
        target_arch = "x86_64",
        not(any(treercu_loom, treercu_shuttle))
    )) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        full_fence(step);
    }
}

#[cfg(any(treercu_loom, treercu_shuttle))]
pub use model::{yield_now, yield_now as spin_loop};
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub use std::hint::spin_loop;
/// Lets another thread run.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub use std::thread::yield_now;

/// Guard of a [`WorldLock`].
pub type WorldGuard<'a, T> = kind::MutexGuard<'a, T>;

/// A [`FullLock`] of a world rather than of the engine: it may be held while the engine calls the world.
#[derive(Debug, Default)]
pub struct WorldLock<T>(kind::Mutex<T>);

impl<T> WorldLock<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        WorldLock(kind::Mutex::new(value))
    }

    /// One that is tried rather than waited for: who finds it held may see what was true a moment ago.
    pub fn new_tried(value: T) -> Self {
        #[cfg(any(treercu_loom, treercu_shuttle))]
        return WorldLock(kind::Mutex::new_looked_at(value));
        #[cfg(not(any(treercu_loom, treercu_shuttle)))]
        WorldLock::new(value)
    }

    /// Locks, then a full barrier.
    #[inline]
    pub fn lock(&self) -> WorldGuard<'_, T> {
        let guard = self.0.lock();
        fence_after_rmw("lock");
        guard
    }

    /// Locks if nobody holds it, then a full barrier.
    #[inline]
    pub fn try_lock(&self) -> Option<WorldGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        fence_after_rmw("lock");
        Some(guard)
    }

    /// Somebody holds it, or did a moment ago.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// A lock whose acquisition is followed by a full memory barrier.
///
/// The grace-period guarantee travels through the tree by these barriers: unlocking one node and
/// then locking another orders everything before against everything after. Each fence's partner is
/// the fence of the next acquisition of any lock of the tree in that chain.
#[derive(Debug, Default)]
pub struct FullLock<T>(kind::Mutex<T>);

/// Guard of a [`FullLock`].
pub struct FullGuard<'a, T>(kind::MutexGuard<'a, T>);

impl<T> FullLock<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        FullLock(kind::Mutex::new(value))
    }

    /// Locks, then a full barrier.
    #[inline]
    pub fn lock(&self) -> FullGuard<'_, T> {
        let guard = self.0.lock();
        fence_after_rmw("lock");
        held::change(1);
        FullGuard(guard)
    }

    /// Locks if nobody holds it, then a full barrier.
    pub fn try_lock(&self) -> Option<FullGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        fence_after_rmw("lock");
        held::change(1);
        Some(FullGuard(guard))
    }
}

impl<T> Deref for FullGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for FullGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for FullGuard<'_, T> {
    fn drop(&mut self) {
        held::change(-1);
    }
}
