//! The correctness core: elements that readers look at while the writer takes them away, ages them by
//! one stage per grace period, and frees them after ten.
//!
//! A reader that loads an element and leaves its section may find it at stage 0 (current) or 1 (just
//! removed). At stage 2 a grace period has ended that had to wait for this reader: it was too short.
//!
//! The memory of an element is never given back while a run lasts; freeing *poisons* it. Everything is
//! an atomic, so whatever a broken engine lets happen is counted, and nothing is undefined.
//!
//! Orders: publishing is a release store and reading the pointer an acquire load, as
//! `rcu_assign_pointer()` and `rcu_dereference()` promise at least. All else is relaxed on purpose: it is
//! the grace period that has to order it.

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering::*};
use std::collections::VecDeque;

/// Elements in all.
pub const POOL: usize = 100;
/// Grace periods that an element passes between its removal and its reuse.
pub const PIPE_LEN: usize = 10;
/// A count for each stage.
pub type Stages = [u64; PIPE_LEN + 1];

/// Words of an element that the writer fills and freeing poisons.
const PAYLOAD: usize = 4;
/// What a freed word holds.
const POISON: u64 = 0x6b6b_6b6b_6b6b_6b6b;

/// Number of an element.
pub type Id = u32;

/// One cache line, so that a reader's walk over it takes as long as over a real object.
#[derive(Debug)]
#[repr(align(64))]
struct Element {
    /// `rtort_pipe_count`: its stage.
    stage: AtomicU32,
    /// `rtort_mbtest`: 1 from before it is published until it is freed.
    mbtest: AtomicU32,
    version: AtomicU64,
    payload: [AtomicU64; PAYLOAD],
}

/// What a reader got hold of.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The element.
    pub id: Id,
    version: u64,
    /// It was already freed.
    pub poisoned: bool,
}

/// The pool, the current element and the removed ones.
#[derive(Debug)]
pub struct Pipe {
    elements: Box<[Element]>,
    /// The published element plus one; 0: none.
    current: AtomicU32,
    /// Oldest first, so that memory rests as long as possible.
    free: Mutex<VecDeque<Id>>,
    /// On their way through the pipe by the writer's own grace periods.
    removed: Mutex<Vec<Id>>,
    /// `rcu_torture_current_version`.
    version: AtomicU64,
    /// `rta`, `rtaf`, `rtf`.
    allocated: AtomicU64,
    alloc_failed: AtomicU64,
    freed: AtomicU64,
    /// Elements that left each stage.
    circulation: [AtomicU64; PIPE_LEN + 1],
}

impl Default for Pipe {
    fn default() -> Self {
        Pipe::new()
    }
}

impl Pipe {
    /// A full pool; nothing is published.
    pub fn new() -> Self {
        let element = |_| Element {
            stage: AtomicU32::new(0),
            mbtest: AtomicU32::new(0),
            version: AtomicU64::new(0),
            payload: std::array::from_fn(|_| AtomicU64::new(POISON)),
        };
        Pipe {
            elements: (0..POOL).map(element).collect(),
            current: AtomicU32::new(0),
            free: Mutex::new((0..POOL as Id).collect()),
            removed: Mutex::new(Vec::with_capacity(POOL)),
            version: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            alloc_failed: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            circulation: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// A free element, if there is one.
    pub fn take(&self) -> Option<Id> {
        let id = self.free.lock().pop_front();
        let counter = if id.is_some() {
            &self.allocated
        } else {
            &self.alloc_failed
        };
        counter.fetch_add(1, Relaxed);
        id
    }

    /// Fills the element and publishes it; gives the one that was current, already at stage 1.
    pub fn publish(&self, id: Id) -> Option<Id> {
        let version = self.version.load(Relaxed) + 1;
        let element = &self.elements[id as usize];
        element.stage.store(0, Relaxed);
        element.version.store(version, Relaxed);
        for (index, word) in element.payload.iter().enumerate() {
            word.store(Self::word(version, index), Relaxed);
        }
        element.mbtest.store(1, Relaxed);
        // Release: whoever loads the pointer sees the element filled. Partner: the acquire in `load`.
        let old = self.current.swap(id + 1, AcqRel);
        self.version.store(version, Relaxed);
        let old = old.checked_sub(1)?;
        self.pass_stage(old);
        Some(old)
    }

    /// Takes the current element away for good: the test is over.
    pub fn retract(&self) {
        self.current.store(0, Release);
    }

    /// A full grace period has passed since this removed element's last stage. True: it is freed.
    pub fn age(&self, id: Id) -> bool {
        if (self.pass_stage(id) as usize) < PIPE_LEN {
            return false;
        }
        let element = &self.elements[id as usize];
        element.mbtest.store(0, Relaxed);
        for word in &element.payload {
            word.store(POISON, Relaxed);
        }
        self.freed.fetch_add(1, Relaxed);
        self.free.lock().push_back(id);
        true
    }

    /// Leaves this removed element to the writer's own grace periods.
    pub fn remove(&self, id: Id) {
        self.removed.lock().push(id);
    }

    /// One of the writer's own grace periods is over: all that were removed before it move on.
    pub fn age_removed(&self) {
        let mut removed = self.removed.lock();
        removed.retain(|&id| !self.age(id));
    }

    /// On to the next stage; gives it.
    fn pass_stage(&self, id: Id) -> u32 {
        let stage = &self.elements[id as usize].stage;
        let left = stage.load(Relaxed).min(PIPE_LEN as u32);
        self.circulation[left as usize].fetch_add(1, Relaxed);
        stage.store(left + 1, Relaxed);
        left + 1
    }

    fn word(version: u64, index: usize) -> u64 {
        version.wrapping_mul(2 * index as u64 + 1)
    }

    /// Inside a section: loads the pointer and looks at what it points to. `None` before the first element.
    pub fn load(&self) -> Option<Seen> {
        let id = self.current.load(Acquire).checked_sub(1)?;
        let element = &self.elements[id as usize];
        let version = element.version.load(Relaxed);
        Some(Seen {
            id,
            version,
            poisoned: !self.is_whole(id, version),
        })
    }

    /// At the end of the same section: the element's stage, and whether it was freed meanwhile.
    pub fn look_again(&self, seen: Seen) -> (usize, bool) {
        let stage = self.elements[seen.id as usize].stage.load(Relaxed);
        let poisoned = seen.poisoned || !self.is_whole(seen.id, seen.version);
        ((stage as usize).min(PIPE_LEN), poisoned)
    }

    /// The element is what was published as this version.
    fn is_whole(&self, id: Id, version: u64) -> bool {
        let element = &self.elements[id as usize];
        element.mbtest.load(Relaxed) == 1
            && element.version.load(Relaxed) == version
            && element
                .payload
                .iter()
                .enumerate()
                .all(|(index, word)| word.load(Relaxed) == Self::word(version, index))
    }

    /// The number of the current element; `None` before the first and after the last.
    pub fn current(&self) -> Option<Id> {
        self.current.load(Relaxed).checked_sub(1)
    }

    /// Elements published so far (`ver`).
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// No element is free right now (`tfle`).
    pub fn is_empty(&self) -> bool {
        self.free.lock().is_empty()
    }

    /// Allocations, failed allocations, freed elements (`rta`, `rtaf`, `rtf`).
    pub fn totals(&self) -> (u64, u64, u64) {
        (
            self.allocated.load(Relaxed),
            self.alloc_failed.load(Relaxed),
            self.freed.load(Relaxed),
        )
    }

    /// Elements that left each stage so far.
    pub fn circulation(&self) -> Stages {
        std::array::from_fn(|stage| self.circulation[stage].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_goes_through_ten_stages_and_is_poisoned() {
        let pipe = Pipe::new();
        let first = pipe.take().unwrap();
        assert_eq!(pipe.publish(first), None);
        let seen = pipe.load().unwrap();
        assert!(!seen.poisoned);
        assert_eq!(pipe.look_again(seen), (0, false));
        let second = pipe.take().unwrap();
        assert_eq!(pipe.publish(second), Some(first));
        assert_eq!(pipe.look_again(seen), (1, false));
        pipe.remove(first);
        for stage in 2..PIPE_LEN {
            pipe.age_removed();
            assert_eq!(pipe.look_again(seen), (stage, false));
        }
        pipe.age_removed();
        assert_eq!(pipe.look_again(seen), (PIPE_LEN, true));
        pipe.age_removed();
        assert_eq!(pipe.totals(), (2, 0, 1));
        let mut each = [1; PIPE_LEN + 1];
        each[PIPE_LEN] = 0;
        assert_eq!(pipe.circulation(), each);
        // The other 98 go first; then it comes back under another version, which is no longer what was seen.
        let order: Vec<Id> = std::iter::from_fn(|| pipe.take()).collect();
        assert_eq!((order.len(), order.last()), (POOL - 1, Some(&first)));
        assert!(pipe.is_empty() && pipe.take().is_none());
        assert_eq!(pipe.totals().1, 2);
        pipe.publish(first);
        assert_eq!(pipe.look_again(seen), (0, true));
    }
}
