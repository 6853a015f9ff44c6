//! A pointer whose readers are sections of an SRCU domain.

use super::srcu::{Srcu, SrcuSection, domain_of};
use crate::error::Result;
use crate::sync::{AtomicPtr, Ordering};

/// A pointer that a domain protects: what [`SrcuPtr::load`] gives stays valid until the section ends, whatever becomes of
/// the pointer meanwhile.
///
/// ```compile_fail,E0597
/// # use treercu::{config::Config, host::{Engine, Options, SrcuPtr}, srcu::Flavour};
/// # let engine = Engine::new(&Config::new(), &Options::default()).unwrap();
/// let domain = engine.srcu(Flavour::Normal).unwrap();
/// let shared = SrcuPtr::new(&domain, 1u32);
/// let outlives = {
///     let section = domain.read_lock().unwrap();
///     shared.load(&section) // `section` does not live long enough
/// };
/// assert_eq!(*outlives, 1);
/// ```
pub struct SrcuPtr<T: Send + Sync + 'static> {
    srcu: Srcu,
    pointer: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> SrcuPtr<T> {
    /// Publishes a value in this domain.
    pub fn new(srcu: &Srcu, value: T) -> Self {
        SrcuPtr {
            srcu: srcu.clone(),
            pointer: AtomicPtr::new(Box::into_raw(Box::new(value))),
        }
    }

    /// What it points to now, for as long as the section and the pointer last.
    ///
    /// # Panics
    /// With a section of another domain.
    pub fn load<'s>(&'s self, section: &'s impl SrcuSection) -> &'s T {
        assert_eq!(
            domain_of(section),
            self.srcu.id(),
            "the section is one of another domain"
        );
        // Acquire: the value was written before it was published (the release in `replace`).
        let value = self.pointer.load(Ordering::Acquire);
        // SAFETY: it came from a box, and is freed after a grace period of the domain that begins after it was taken out
        // of here, so not before the section ends; or with the pointer itself, which is borrowed.
        unsafe { &*value }
    }

    /// Publishes another value; the old one is dropped after a grace period, on the domain's thread.
    ///
    /// # Errors
    /// A closed domain: the old value is leaked then, since readers may be inside.
    pub fn replace(&self, value: T) -> Result<()> {
        let new = Box::into_raw(Box::new(value));
        // AcqRel: what is written before is seen by whoever loads it; what the old one's owner wrote is seen here.
        let old = self.pointer.swap(new, Ordering::AcqRel);
        // SAFETY: it came from a box, and whoever swaps it out owns it.
        self.srcu.defer_drop(unsafe { Box::from_raw(old) })
    }
}

impl<T: Send + Sync + 'static> Drop for SrcuPtr<T> {
    fn drop(&mut self) {
        // SAFETY: readers borrow `self`, so there are none left; the pointer came from a box.
        drop(unsafe { Box::from_raw(self.pointer.load(Ordering::Acquire)) });
    }
}
