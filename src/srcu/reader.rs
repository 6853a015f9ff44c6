//! Readers: two pairs of counters a CPU, and who adds to them when.

use super::domain::Srcu;
use super::flavour::Flavour;
use crate::sync::{AtomicU64, Ordering, compiler_barrier, fence_after_rmw, mutated};
use crossbeam_utils::CachePadded;

/// Which pair a reader counted itself on: what `srcu_read_lock()` returns and `srcu_read_unlock()` wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the section stays open until it is given back"]
pub struct Index(pub(super) u8);

impl Index {
    /// 0 or 1.
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}

/// One pair. Both only grow, and wrap.
#[derive(Debug)]
struct Pair {
    locks: AtomicU64,
    unlocks: AtomicU64,
}

/// The counters of one CPU, on lines of their own.
#[derive(Debug)]
pub(super) struct Counters(CachePadded<[Pair; 2]>);

impl Counters {
    pub fn new() -> Self {
        let pair = || Pair {
            locks: AtomicU64::new(0),
            unlocks: AtomicU64::new(0),
        };
        Counters(CachePadded::new([pair(), pair()]))
    }

    /// Relaxed on purpose: the barriers around do the ordering.
    pub fn locks(&self, index: usize) -> u64 {
        self.0[index].locks.load(Ordering::Relaxed)
    }

    pub fn unlocks(&self, index: usize) -> u64 {
        self.0[index].unlocks.load(Ordering::Relaxed)
    }
}

/// B, or C: with fast and light readers the RCU grace period of a zero test takes its place.
#[inline(always)]
fn reader_barrier(flavour: Flavour, step: &'static str) {
    if flavour.is_slow_gp() {
        compiler_barrier();
    } else {
        // On x86-64 the counting instruction next to it is a full barrier itself.
        fence_after_rmw(step);
    }
}

impl<C> Srcu<C> {
    /// The index that new readers use.
    #[inline]
    pub(super) fn current_index(&self) -> usize {
        self.current.load(Ordering::Relaxed) as usize
    }

    /// The first half of `srcu_read_lock()`: which pair to use. A task may be delayed for any time before the second
    /// half; it is no reader until then.
    #[inline]
    pub fn read_index(&self) -> Index {
        Index(self.current_index() as u8)
    }

    /// The second half: from here on grace periods wait for this reader. On any CPU.
    ///
    /// With fast and light readers the caller is inside an RCU read-side section from before this call until after it.
    #[inline]
    pub fn read_enter(&self, cpu: u32, index: Index) {
        if mutated("B before the count") {
            reader_barrier(self.flavour, "B");
        }
        self.counters[cpu as usize].0[index.number()]
            .locks
            .fetch_add(1, Ordering::Relaxed);
        if !mutated("B before the count") {
            // B: what the section reads comes after the count. Partner: A.
            reader_barrier(self.flavour, "B");
        }
    }

    /// `srcu_read_lock()`.
    #[inline]
    pub fn read_lock(&self, cpu: u32) -> Index {
        let index = self.read_index();
        self.read_enter(cpu, index);
        index
    }

    /// `srcu_read_unlock()`, on any CPU, by anybody, once. Fast and light readers: in an RCU section as in
    /// [`Srcu::read_enter`].
    #[inline]
    pub fn read_unlock(&self, cpu: u32, index: Index) {
        // C: what the section did comes before the count. Partner: A.
        reader_barrier(self.flavour, "C");
        self.counters[cpu as usize].0[index.number()]
            .unlocks
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Readers inside, by index, summed over the CPUs without any order: exact when nobody comes or goes.
    pub fn readers(&self) -> [i64; 2] {
        [0, 1].map(|index| {
            self.counters
                .iter()
                .map(|cpu| cpu.locks(index).wrapping_sub(cpu.unlocks(index)) as i64)
                .sum()
        })
    }
}
