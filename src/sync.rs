//! The one place that names atomics, fences and locks, so that a model checker's can take their place.

pub use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
};
/// Reference counting without weak references: one word of overhead.
pub use triomphe::Arc as ThinArc;

use std::ops::{Deref, DerefMut};

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn taken() {
    #[cfg(debug_assertions)]
    HELD.with(|held| held.set(held.get() + 1));
}

fn released() {
    #[cfg(debug_assertions)]
    HELD.with(|held| held.set(held.get() - 1));
}

/// Asserts (debug builds) that this thread holds no engine lock: rule 1 of the seam, no lock is
/// held while the world is asked to do something.
pub fn assert_unlocked() {
    #[cfg(debug_assertions)]
    HELD.with(|held| assert_eq!(held.get(), 0, "a world call was made with an engine lock held"));
}

/// Keeps the compiler from moving accesses across; the processor may. Its partner is a heavy fence
/// that reaches this thread from outside (see `host::order`).
#[inline(always)]
pub fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// A [`FullLock`] of a world rather than of the engine: it may be held while the engine calls the world.
#[derive(Debug, Default)]
pub struct WorldLock<T>(parking_lot::Mutex<T>);

impl<T> WorldLock<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        WorldLock(parking_lot::Mutex::new(value))
    }

    /// Locks, then a full barrier.
    #[inline]
    pub fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        let guard = self.0.lock();
        after_lock();
        guard
    }

    /// Locks if nobody holds it, then a full barrier.
    #[inline]
    pub fn try_lock(&self) -> Option<parking_lot::MutexGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        after_lock();
        Some(guard)
    }

    /// Somebody holds it, or did a moment ago.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// The full barrier that follows the acquisition of a lock.
///
/// On x86-64 the locked instruction that took the lock is a full barrier already; what is left is to
/// keep the compiler from moving anything across it.
#[inline(always)]
fn after_lock() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// A lock whose acquisition is followed by a full memory barrier.
///
/// The grace-period guarantee travels through the tree by these barriers: unlocking one node and
/// then locking another orders everything before against everything after. Each fence's partner is
/// the fence of the next acquisition of any lock of the tree in that chain.
#[derive(Debug, Default)]
pub struct FullLock<T>(parking_lot::Mutex<T>);

/// Guard of a [`FullLock`].
pub struct FullGuard<'a, T>(parking_lot::MutexGuard<'a, T>);

impl<T> FullLock<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        FullLock(parking_lot::Mutex::new(value))
    }

    /// Locks, then a full barrier.
    #[inline]
    pub fn lock(&self) -> FullGuard<'_, T> {
        let guard = self.0.lock();
        after_lock();
        taken();
        FullGuard(guard)
    }

    /// Locks if nobody holds it, then a full barrier.
    pub fn try_lock(&self) -> Option<FullGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        after_lock();
        taken();
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
        released();
    }
}
