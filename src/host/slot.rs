//! The record of an attached thread, and the table of all of them.
//!
//! Slots live as long as their engine and are handed from thread to thread, so that whoever completes a
//! wait or looks at a reader never touches freed memory.

use super::crowd::Crowd;
use super::park::{Park, Parking};
use super::reader::ReaderWords;
use crate::sync::{AtomicU32, AtomicU64, Ordering, WorldLock, mutated, order};
use crate::tree::Reader;
use crate::tree::waiters::Waiter;
use std::num::NonZeroU32;
use std::sync::OnceLock;

/// One attached thread.
#[derive(Debug)]
pub(super) struct Slot {
    pub words: ReaderWords,
    /// Its number in the table, which is also its reader id.
    pub index: u32,
    /// The vCPU it is attached to. Changes only under the run queues' locks of both.
    cpu: AtomicU32,
    /// Place in its vCPU's scan set; meaningful under the run queue's lock.
    pub place: AtomicU32,
    /// Passes in a row that found it outside any section.
    pub quiet: AtomicU32,
    pub wait: Wait,
    /// The thread's own handle on the tree's lists, kept from wait to wait.
    pub waiter: WorldLock<Waiter>,
    pub state: WorldLock<SlotState>,
}

/// What the slot's lock protects.
#[derive(Debug)]
pub(super) struct SlotState {
    /// Where the tree has queued it, if it was found inside a section.
    pub reader: Reader,
    /// Non-preemptible: move to this vCPU at the next quiescent state.
    pub move_to: Option<u32>,
    /// Name of the thread, for stall reports.
    pub name: String,
}

/// What a thread blocks on. Waits of one slot are numbered; a completion that comes late, after its
/// wait was cancelled, names a number that is over.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Wait {
    park: Park,
    /// Number of the latest wait that began.
    number: AtomicU64,
    /// Highest number that was completed.
    done: AtomicU64,
    /// `gp_seq` of the grace period that completed it.
    served_by: AtomicU64,
    /// Its mark in the crowd; 0: the thread sleeps on a word of its own.
    mark: AtomicU32,
}

impl Wait {
    /// Begins a wait; gives its number.
    pub fn begin(&self) -> u64 {
        self.begin_marked(0)
    }

    /// Begins a wait that sleeps in the crowd under this mark; gives its number.
    pub fn begin_marked(&self, mark: u32) -> u64 {
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.number.store(number, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
        number
    }

    /// Somebody completes wait `number`. The maximum, so that a late completion of an earlier wait does
    /// not undo it. A mark: who sleeps under it is to be woken in the crowd.
    ///
    /// The mark is that of wait `number`, seen by way of the list or callback that led here, or, after a
    /// cancelled wait, that of a later one, whose wake-up is one too many.
    pub fn complete(&self, number: u64, gp_seq: u64, how: Parking) -> Option<NonZeroU32> {
        if self.number.load(Ordering::Relaxed) == number {
            self.served_by.store(gp_seq, Ordering::Relaxed);
        }
        let mark = NonZeroU32::new(self.mark.load(Ordering::Relaxed));
        if mutated("done stored") {
            self.done.store(number, Ordering::SeqCst);
        }
        self.done.fetch_max(number, order("done", Ordering::SeqCst));
        if mark.is_none() {
            self.park.wake(how);
        }
        mark
    }

    /// Blocks in the crowd until wait `number` is over or `give_up` says so; `None` then.
    pub fn block_in(
        &self,
        crowd: &Crowd,
        number: u64,
        how: Parking,
        give_up: impl Fn() -> bool,
    ) -> Option<u64> {
        let mark = NonZeroU32::new(self.mark.load(Ordering::Relaxed)).expect("a marked wait");
        loop {
            if let Some(gp_seq) = self.served(number) {
                return Some(gp_seq);
            }
            if give_up() {
                return None;
            }
            crowd.sleep(how, mark, || self.served(number).is_some() || give_up());
        }
    }

    /// The grace period that served wait `number`, if it is over.
    pub fn served(&self, number: u64) -> Option<u64> {
        (self.done.load(order("done look", Ordering::SeqCst)) >= number)
            .then(|| self.served_by.load(Ordering::Relaxed))
    }

    /// Blocks until wait `number` is over or `give_up` says so; `None` then, or at the deadline.
    pub fn block(
        &self,
        number: u64,
        how: Parking,
        deadline: Option<u64>,
        give_up: impl Fn() -> bool,
    ) -> Option<u64> {
        loop {
            self.park.announce();
            let served = self.served(number).filter(|_| !mutated("second look"));
            let late = || deadline.is_some_and(|at| super::clock::monotonic_ns() >= at);
            if served.is_some() || give_up() || late() {
                self.park.withdraw();
                return served;
            }
            self.park.sleep(how, deadline);
        }
    }

    /// The thread itself: wait `number` goes on, and the next completion ends it. One that is on its way for an
    /// earlier reason ends it early.
    pub fn rearm(&self, number: u64) {
        self.done.store(number - 1, Ordering::SeqCst);
    }

    /// Has the thread look at its reasons to give up.
    pub fn kick(&self, how: Parking) {
        self.park.wake(how);
    }
}

/// Bits of a waiter's token that hold the slot's index; the wait's number is above them.
const INDEX_BITS: u32 = 24;
/// Hard limit on the threads attached to one engine at the same time.
pub const MAX_THREADS: u32 = 1 << 20;

/// Splits a token into slot index and wait number.
pub(super) fn split(token: u64) -> (u32, u64) {
    ((token & ((1 << INDEX_BITS) - 1)) as u32, token >> INDEX_BITS)
}

impl Slot {
    fn new(index: u32, bits: u32) -> Self {
        Slot {
            words: ReaderWords::new(bits),
            index,
            cpu: AtomicU32::new(0),
            place: AtomicU32::new(0),
            quiet: AtomicU32::new(0),
            wait: Wait::default(),
            waiter: WorldLock::new(Waiter::new(u64::from(index))),
            state: WorldLock::new(SlotState {
                reader: Reader::new(u64::from(index)),
                move_to: None,
                name: String::new(),
            }),
        }
    }

    pub fn cpu(&self) -> u32 {
        self.cpu.load(order("cpu look", Ordering::Acquire))
    }

    pub fn set_cpu(&self, cpu: u32) {
        self.cpu.store(cpu, order("cpu", Ordering::Release));
    }

    /// Begins a wait, in the crowd if it has a mark, and gives the tree's handle on it.
    pub fn begin_wait(&self, mark: u32) -> (u64, Waiter) {
        let number = self.wait.begin_marked(mark);
        let mut waiter = self.waiter.lock();
        waiter.renew(self.token(number));
        (number, waiter.clone())
    }

    /// What the tree's lists call wait `number` of this slot.
    pub fn token(&self, number: u64) -> u64 {
        number << INDEX_BITS | u64::from(self.index)
    }
}

/// Few for model checkers, which build an engine for each execution.
const FIRST_CHUNK: u32 = if cfg!(any(treercu_loom, treercu_shuttle)) {
    4
} else {
    32
};
const CHUNKS: usize = 16;

/// All slots ever made, in chunks that double, so that a slot never moves; and those that are free.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: WorldLock<Free>,
    bits: u32,
}

#[derive(Debug, Default)]
struct Free {
    made: u32,
    list: Vec<u32>,
    in_use: u32,
}

/// Chunk and place in it.
fn locate(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2();
    let start = FIRST_CHUNK * ((1 << chunk) - 1);
    (chunk as usize, (index - start) as usize)
}

impl Slots {
    pub fn new(bits: u32) -> Self {
        Slots {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: WorldLock::default(),
            bits,
        }
    }

    /// A free slot, or `None` at the limit.
    pub fn take(&self) -> Option<&Slot> {
        let mut free = self.free.lock();
        let index = match free.list.pop() {
            Some(index) => index,
            None if free.made < MAX_THREADS => {
                free.made += 1;
                free.made - 1
            }
            None => return None,
        };
        free.in_use += 1;
        let (chunk, place) = locate(index);
        let slots = self.chunks[chunk].get_or_init(|| {
            let start = FIRST_CHUNK * ((1 << chunk) - 1);
            (start..start + (FIRST_CHUNK << chunk))
                .map(|index| Slot::new(index, self.bits))
                .collect()
        });
        Some(&slots[place])
    }

    /// The thread is gone.
    pub fn put_back(&self, slot: &Slot) {
        let mut free = self.free.lock();
        free.list.push(slot.index);
        free.in_use -= 1;
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Slot {
        let (chunk, place) = locate(index);
        &self.chunks[chunk].get().expect("a slot that was handed out")[place]
    }

    /// Every slot ever handed out.
    pub fn made(&self) -> impl Iterator<Item = &Slot> {
        let made = self.free.lock().made;
        (0..made).map(|index| self.get(index))
    }

    /// Threads attached now.
    pub fn in_use(&self) -> u32 {
        self.free.lock().in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_fall_into_chunks_without_gaps() {
        let mut expected = (0usize, 0usize);
        for index in 0..5000 {
            assert_eq!(locate(index), expected, "index {index}");
            expected.1 += 1;
            if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(locate(MAX_THREADS - 1).0 < CHUNKS);
    }

    #[test]
    fn a_late_completion_does_not_end_a_later_wait() {
        let wait = Wait::default();
        let first = wait.begin();
        let second = wait.begin();
        wait.complete(first, 5, Parking::Portable);
        assert_eq!(wait.served(second), None);
        wait.complete(second, 9, Parking::Portable);
        wait.complete(first, 5, Parking::Portable);
        assert_eq!(wait.served(second), Some(9));
    }
}
