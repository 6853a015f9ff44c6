//! Readers that were preempted inside a read-side section, queued on the leaf of the CPU where that
//! happened (invariant I6).
//!
//! One list per leaf serves normal and expedited grace periods and boosting. Each of the pointers
//! `gp_tasks` and `exp_tasks` names the first element that blocks its grace period: that element and
//! everything behind it block, elements in front do not. Where a new element goes follows from what
//! it blocks; when both orders cannot be exact a grace period may wait for a reader more than it has
//! to, never for one less.

use crate::sync::mutated;

/// A reader's name in its world.
pub type ReaderId = u64;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Slot {
    reader: ReaderId,
    prev: u32,
    next: u32,
}

/// The blocked readers of one leaf.
#[derive(Debug)]
pub(super) struct BlockedList {
    slots: Vec<Slot>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    gp_tasks: u32,
    exp_tasks: u32,
}

impl Default for BlockedList {
    fn default() -> Self {
        BlockedList {
            slots: Vec::new(),
            free: Vec::new(),
            head: NONE,
            tail: NONE,
            gp_tasks: NONE,
            exp_tasks: NONE,
        }
    }
}

/// Where a new element goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Tail,
    BehindExp,
    BehindGp,
}

/// The insertion table. Inputs: is there a normal or expedited pointer already, and does the new
/// element's CPU still owe a normal or expedited quiescent state (that is, does the element block)?
fn place(gp_tasks: bool, exp_tasks: bool, blocks_gp: bool, blocks_exp: bool) -> Place {
    match (gp_tasks, exp_tasks, blocks_gp, blocks_exp) {
        // It blocks nothing, or nothing is blocked yet that it must not get in front of.
        (_, _, false, false) | (false, true, true, false) => Place::Head,
        // It blocks a grace period that no element blocks yet: everything behind its pointer would
        // block too, so it goes last.
        (false, false, _, true) | (false, false, true, false) => Place::Tail,
        (true, false, _, true) | (true, true, true, true) => Place::Tail,
        (false, true, _, true) | (true, true, false, true) => Place::BehindExp,
        (true, _, true, false) => Place::BehindGp,
    }
}

/// What a reader's leaving meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// The normal grace period has no blocked reader left here, and had one.
    pub last_gp: bool,
    /// The same of the expedited one.
    pub last_exp: bool,
}

impl BlockedList {
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Some element blocks the normal grace period.
    pub(super) fn blocks_gp(&self) -> bool {
        self.gp_tasks != NONE
    }

    /// A normal grace period starts: every element blocks it.
    pub(super) fn all_block_gp(&mut self) {
        self.gp_tasks = self.head;
    }

    /// Some element blocks the expedited grace period.
    pub(super) fn blocks_exp(&self) -> bool {
        self.exp_tasks != NONE
    }

    /// An expedited grace period starts: every element blocks it.
    pub(super) fn all_block_exp(&mut self) {
        self.exp_tasks = self.head;
    }

    /// Readers from the normal pointer to the end, which the normal grace period waits for.
    pub(super) fn gp_blockers(&self) -> Vec<ReaderId> {
        self.from(self.gp_tasks)
    }

    /// Readers from the expedited pointer to the end, which the expedited grace period waits for.
    pub(super) fn exp_blockers(&self) -> Vec<ReaderId> {
        self.from(self.exp_tasks)
    }

    fn from(&self, first: u32) -> Vec<ReaderId> {
        let mut out = Vec::new();
        let mut at = first;
        while at != NONE {
            out.push(self.slots[at as usize].reader);
            at = self.slots[at as usize].next;
        }
        out
    }

    /// Queues a reader that blocks these grace periods; gives its key.
    pub(super) fn insert(&mut self, reader: ReaderId, blocks_gp: bool, blocks_exp: bool) -> u32 {
        let key = match self.free.pop() {
            Some(key) => key,
            None => {
                self.slots.push(Slot {
                    reader,
                    prev: NONE,
                    next: NONE,
                });
                self.slots.len() as u32 - 1
            }
        };
        self.slots[key as usize].reader = reader;
        let (gp, exp) = (self.gp_tasks, self.exp_tasks);
        match place(gp != NONE, exp != NONE, blocks_gp, blocks_exp) {
            Place::Head => self.link(key, NONE),
            Place::Tail => self.link(key, self.tail),
            Place::BehindExp => self.link(key, exp),
            Place::BehindGp => self.link(key, gp),
        }
        if blocks_gp && gp == NONE {
            self.gp_tasks = key;
        }
        if blocks_exp && exp == NONE {
            self.exp_tasks = key;
        }
        key
    }

    /// Links `key` behind `prev` (`NONE`: at the head).
    fn link(&mut self, key: u32, prev: u32) {
        let next = if prev == NONE {
            self.head
        } else {
            self.slots[prev as usize].next
        };
        self.slots[key as usize].prev = prev;
        self.slots[key as usize].next = next;
        match prev {
            NONE => self.head = key,
            prev => self.slots[prev as usize].next = key,
        }
        match next {
            NONE => self.tail = key,
            next => self.slots[next as usize].prev = key,
        }
    }

    /// Takes a reader off.
    pub(super) fn remove(&mut self, key: u32) -> Removed {
        let Slot { prev, next, .. } = self.slots[key as usize];
        match prev {
            NONE => self.head = next,
            prev => self.slots[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.slots[next as usize].prev = prev,
        }
        let was_gp = self.gp_tasks == key;
        if was_gp {
            self.gp_tasks = if mutated("Z48d") { NONE } else { next };
        }
        let was_exp = self.exp_tasks == key;
        if was_exp {
            self.exp_tasks = next;
        }
        self.free.push(key);
        Removed {
            last_gp: was_gp && self.gp_tasks == NONE,
            last_exp: was_exp && self.exp_tasks == NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as it is published: sums of N_T 8, E_T 4, N_B 2, E_B 1.
    #[test]
    fn the_insertion_table() {
        for sum in 0..16u32 {
            let bit = |b: u32| sum & b != 0;
            let expected = match sum {
                0 | 4 | 6 | 8 | 12 => Place::Head,
                1 | 2 | 3 | 9 | 11 | 15 => Place::Tail,
                5 | 7 | 13 => Place::BehindExp,
                10 | 14 => Place::BehindGp,
                _ => unreachable!(),
            };
            assert_eq!(place(bit(8), bit(4), bit(2), bit(1)), expected, "sum {sum}");
        }
    }

    /// Against the rule itself: an element that blocks a grace period lies at or behind its pointer.
    #[test]
    fn no_blocker_ends_up_in_front_of_its_pointer() {
        let mut state = 12345u64;
        let mut next = move |bound: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        for _ in 0..2000 {
            let mut list = BlockedList::default();
            let mut live: Vec<(u32, ReaderId, bool, bool)> = Vec::new();
            for reader in 0..12 {
                let before = (list.blocks_gp(), list.blocks_exp());
                if next(4) == 0 && !live.is_empty() {
                    let (key, ..) = live.swap_remove(next(live.len() as u64) as usize);
                    let removed = list.remove(key);
                    assert_eq!(removed.last_gp, before.0 && !list.blocks_gp());
                    assert_eq!(removed.last_exp, before.1 && !list.blocks_exp());
                } else if next(12) == 0 {
                    // A grace period starts once nobody blocks the one before: as for a clean list.
                    if !list.blocks_exp() {
                        list.all_block_exp();
                        live.iter_mut().for_each(|reader| reader.3 = true);
                    }
                } else {
                    let (gp, exp) = (next(2) == 0, next(2) == 0);
                    let key = list.insert(reader, gp, exp);
                    live.push((key, reader, gp, exp));
                }
                let (gp, exp) = (list.gp_blockers(), list.exp_blockers());
                for &(_, reader, blocks_gp, blocks_exp) in &live {
                    assert!(!blocks_gp || gp.contains(&reader));
                    assert!(!blocks_exp || exp.contains(&reader));
                }
                assert_eq!(list.blocks_gp(), !gp.is_empty());
                assert_eq!(list.blocks_exp(), !exp.is_empty());
                assert_eq!(list.is_empty(), live.is_empty());
            }
        }
    }
}
