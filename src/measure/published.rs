//! The RCU-protected pointer that readers follow, and the check that nobody pulls it away under them.
//!
//! Each task of a flood owns a spare element. Before a call it publishes the spare, and after the call it
//! owns what it replaced: no reader may still see that one. It marks it as retired until it publishes it
//! again, so a reader that finds the mark caught a grace period that ended too early. No memory is freed
//! or allocated for this: elements stay until the run is over.

use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use std::ptr;

const LIVE: u64 = 0x11fe;
const RETIRED: u64 = 0xdead;

/// What readers find behind the pointer.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Element {
    state: AtomicU64,
}

/// The pointer, its elements, and what readers found wrong.
#[derive(Debug)]
pub(super) struct Published {
    pointer: AtomicPtr<Element>,
    elements: Box<[Element]>,
    caught: AtomicU64,
}

impl Published {
    /// With a spare element for each of `tasks` updaters.
    pub fn new(tasks: usize) -> Self {
        let elements: Box<[Element]> = (0..=tasks)
            .map(|_| Element {
                state: AtomicU64::new(LIVE),
            })
            .collect();
        Published {
            pointer: AtomicPtr::new(ptr::from_ref(&elements[tasks]).cast_mut()),
            elements,
            caught: AtomicU64::new(0),
        }
    }

    /// What readers load.
    pub fn pointer(&self) -> &AtomicPtr<Element> {
        &self.pointer
    }

    /// The first spare of a task.
    pub fn spare(&self, task: usize) -> &Element {
        &self.elements[task]
    }

    /// Publishes `spare`; gives the element that it replaces, which readers may still see.
    pub fn replace(&self, spare: &Element) -> &Element {
        spare.state.store(LIVE, Ordering::Relaxed);
        // Release: the state is seen with the pointer. Acquire: so is that of the one that comes back.
        let old = self
            .pointer
            .swap(ptr::from_ref(spare).cast_mut(), Ordering::AcqRel);
        // SAFETY: the pointer only ever holds addresses of `elements`, which live as long as `self`.
        unsafe { &*old }
    }

    /// A grace period has passed since `element` was replaced.
    pub fn retire(&self, element: &Element) {
        element.state.store(RETIRED, Ordering::Relaxed);
    }

    /// A reader looks at what it found.
    pub fn look(&self, element: &Element) {
        if element.state.load(Ordering::Relaxed) != LIVE {
            self.caught.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often a reader saw an element whose grace period was over.
    pub fn caught(&self) -> u64 {
        self.caught.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_stays_too_long_is_caught() {
        let published = Published::new(1);
        let first = unsafe { &*published.pointer().load(Ordering::Acquire) };
        let old = published.replace(published.spare(0));
        published.look(first);
        assert_eq!(published.caught(), 0, "no grace period has passed yet");
        published.retire(old);
        published.look(first);
        assert_eq!(published.caught(), 1);
    }
}
