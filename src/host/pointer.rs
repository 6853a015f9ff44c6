//! RCU-protected pointers: readers load under a section, updaters replace, the old value goes after a grace
//! period.

use super::engine::Engine;
use super::handle::{Handle, ReadGuard, Section, section_of};
use crate::error::{Error, Result};
use crate::sync::{AtomicPtr, Ordering};
use std::ops::Deref;

/// A pointer to a value that readers may look at without locks while updaters replace it.
///
/// What a load gives cannot outlive the section it was loaded in:
///
/// ```compile_fail,E0505
/// # use treercu::{config::Config, host::{Engine, Options, RcuPtr}};
/// # let engine = Engine::new(&Config::new(), &Options::default()).unwrap();
/// let shared = RcuPtr::new(&engine, 1);
/// let section = engine.read_lock().unwrap();
/// let value = shared.load(&section);
/// drop(section);
/// assert_eq!(*value, 1); // might be freed by now
/// ```
///
/// Values that another thread could not own cannot be protected, since an engine thread frees them:
///
/// ```compile_fail,E0277
/// # use treercu::{config::Config, host::{Engine, Options, RcuPtr}};
/// # let engine = Engine::new(&Config::new(), &Options::default()).unwrap();
/// let shared = RcuPtr::new(&engine, std::rc::Rc::new(1));
/// ```
pub struct RcuPtr<T: Send + Sync + 'static> {
    /// From `Box::into_raw`; never null.
    ptr: AtomicPtr<T>,
    engine: Engine,
}

// SAFETY: it owns a `T` and hands out `&T` to any thread; freeing happens on whatever thread.
unsafe impl<T: Send + Sync> Send for RcuPtr<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for RcuPtr<T> {}

impl<T: Send + Sync + 'static> RcuPtr<T> {
    /// A pointer whose old values this engine frees.
    pub fn new(engine: &Engine, value: T) -> Self {
        RcuPtr {
            ptr: AtomicPtr::new(Box::into_raw(Box::new(value))),
            engine: engine.clone(),
        }
    }

    /// `rcu_dereference()`: the value now, for as long as the section lasts.
    ///
    /// # Panics
    ///
    /// If the section belongs to another engine, whose grace periods do not wait for this one's readers.
    #[inline]
    pub fn load<'s>(&'s self, section: &'s impl Section) -> &'s T {
        assert!(
            section_of(section) == self.engine.id(),
            "RcuPtr::load: the section belongs to another engine than the pointer"
        );
        // SAFETY: the section protects what it loads, see `PtrReader::lock`.
        unsafe { &*self.ptr.load(Ordering::Acquire) }
    }

    /// Reads with one check of the engine for many sections: see [`PtrReader`].
    pub fn reader<'r>(&'r self, handle: &'r Handle) -> Result<PtrReader<'r, T>> {
        if handle.engine_id() != self.engine.id() {
            return Err(Error::Misuse {
                call: "reader",
                reason: "the handle belongs to another engine than the pointer".to_owned(),
                allowed: "a handle of the pointer's engine",
            });
        }
        Ok(PtrReader { ptr: self, handle })
    }

    /// `rcu_assign_pointer()`, then `kfree_rcu()` of the old value. May be called inside a section.
    pub fn replace(&self, value: T) -> Result<()> {
        self.engine.shared().check("replace")?;
        let old = self.ptr.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        self.retire(old)
    }

    /// Replaces the value by what `f` makes of it; calls `f` again when somebody else was faster.
    pub fn update(&self, mut f: impl FnMut(&T) -> T) -> Result<()> {
        let section = self.engine.read_lock()?;
        let mut old = self.ptr.load(Ordering::Acquire);
        loop {
            // SAFETY: loaded inside the section, which is still open.
            let new = Box::into_raw(Box::new(f(unsafe { &*old })));
            match self
                .ptr
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(now) => {
                    // SAFETY: `new` was not published.
                    drop(unsafe { Box::from_raw(new) });
                    // Inside one section an address is not used again, so equal means unchanged.
                    old = now;
                }
            }
        }
        drop(section);
        self.retire(old)
    }

    /// Replaces the value, waits for a grace period, and gives the old one back.
    ///
    /// Error: as for [`Engine::synchronize`]; nothing was replaced then, or the old value is leaked when the engine
    /// was closed while this waited.
    pub fn swap(&self, value: T) -> Result<T> {
        self.swap_after(value, "swap", Engine::synchronize)
    }

    /// The same with an expedited grace period.
    pub fn swap_expedited(&self, value: T) -> Result<T> {
        self.swap_after(value, "swap_expedited", Engine::synchronize_expedited)
    }

    fn swap_after<W>(&self, value: T, call: &'static str, wait: impl Fn(&Engine) -> Result<W>) -> Result<T> {
        if self.engine.nesting() > 0 {
            return Err(Error::Misuse {
                call,
                reason: "called inside a read-side section, which it would wait for".to_owned(),
                allowed: "outside read-side sections",
            });
        }
        self.engine.shared().check(call)?;
        let old = self.ptr.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        wait(&self.engine)?;
        // SAFETY: unpublished, and every section that may have loaded it has ended.
        Ok(*unsafe { Box::from_raw(old) })
    }

    fn retire(&self, old: *mut T) -> Result<()> {
        // SAFETY: `old` was unpublished by this thread alone, so the box is owned once; it is opened only after
        // a grace period. Where the engine was closed meanwhile it is leaked rather than freed too early.
        let old = std::mem::ManuallyDrop::new(unsafe { Box::from_raw(old) });
        self.engine.shared().check("replace")?;
        self.engine.defer_drop(std::mem::ManuallyDrop::into_inner(old))
    }
}

impl<T: Send + Sync + 'static> Drop for RcuPtr<T> {
    fn drop(&mut self) {
        // SAFETY: what `load` gave borrows the pointer, so no reader is left.
        drop(unsafe { Box::from_raw(self.ptr.load(Ordering::Relaxed)) });
    }
}

impl<T: Send + Sync + std::fmt::Debug + 'static> std::fmt::Debug for RcuPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.engine.read_lock() {
            Ok(section) => write!(f, "RcuPtr({:?})", self.load(&section)),
            Err(_) => write!(f, "RcuPtr(engine closed)"),
        }
    }
}

/// A registered thread's view of one pointer.
pub struct PtrReader<'r, T: Send + Sync + 'static> {
    ptr: &'r RcuPtr<T>,
    handle: &'r Handle,
}

impl<T: Send + Sync + 'static> PtrReader<'_, T> {
    /// Opens a section and loads the pointer.
    #[inline(always)]
    pub fn lock(&self) -> ReadRef<'_, T> {
        let section = self.handle.read_lock();
        // SAFETY: published by a release, taken by an acquire; unpublished values are freed only after a grace
        // period of the same engine (checked when this reader was made), which waits for this section.
        let value = unsafe { &*self.ptr.ptr.load(Ordering::Acquire) };
        ReadRef {
            value,
            _section: section,
        }
    }
}

/// A value inside a section.
pub struct ReadRef<'r, T> {
    value: &'r T,
    _section: ReadGuard<'r>,
}

impl<T> Deref for ReadRef<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}
