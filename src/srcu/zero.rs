//! The zero test of one index: nobody who was there before uses it (see [`order`](super::order)).
//!
//! It is made in two halves, so that a world lets others run in between: readers come and go between the two sums, which
//! is what the order of the sums is about.

use super::domain::Srcu;
use super::world::{Work, World};
use crate::sync::{Ordering, full_fence, mutated};

/// One of the two scans of a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Of the index that new readers avoid anyway.
    First = 1,
    /// Of the other one, after the flip.
    Second = 2,
}

impl<C> Srcu<C> {
    /// The first sum.
    pub(super) fn sum_unlocks(&self, index: usize, world: &mut impl World) -> u64 {
        world.spend(Work::Sum(self.tun.nr_cpus));
        self.counters
            .iter()
            .fold(0, |sum: u64, cpu| sum.wrapping_add(cpu.unlocks(index)))
    }

    /// A, where it is a fence.
    pub(super) fn between_sums(&self, world: &mut impl World) {
        world.spend(Work::Barrier);
        // Partners: C of the readers whose unlocks were counted, B of those whose locks will not be.
        full_fence("A");
    }

    /// The second sum.
    pub(super) fn sum_locks(&self, index: usize, world: &mut impl World) -> u64 {
        world.spend(Work::Sum(self.tun.nr_cpus));
        self.counters
            .iter()
            .fold(0, |sum: u64, cpu| sum.wrapping_add(cpu.locks(index)))
    }

    /// For tests: leaves a scan out, to see whether somebody notices.
    #[doc(hidden)]
    pub fn skip_scan(&self, scan: Scan) {
        self.skipped.store(scan as u32, Ordering::Relaxed);
    }

    pub(super) fn skips(&self, scan: Scan) -> bool {
        let name = match scan {
            Scan::First => "scan 1",
            Scan::Second => "scan 2",
        };
        self.skipped.load(Ordering::Relaxed) == scan as u32 || mutated(name)
    }
}
