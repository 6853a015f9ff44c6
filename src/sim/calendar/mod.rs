//! The event calendar: what happens next. Entries of one instant come out ticks first, then in the
//! order in which they were put in, so that a run never depends on how the calendar is built.
//!
//! [`Calendar`] is a hierarchical timing wheel. An entry's key is its time with the class as one more,
//! lowest bit. Read the key as digits of six bits: an entry lies on the level of the highest digit in
//! which its key differs from the cursor (the time popped last), in the slot which that digit names.
//! Hence
//!
//! 1. everything on a lower level comes before everything on a higher one, and lower slots of a level
//!    before higher slots, so two bit searches find the earliest slot;
//! 2. a slot of level 0 holds a single key, that is one instant and one class;
//! 3. equal keys are always in the same slot, so appending keeps them in order of arrival and no
//!    arrival number is stored. The two slots of level 0 at the cursor are the FIFOs for "now".
//!
//! When level 0 is empty, the earliest slot is taken apart. A full one is distributed over the levels
//! below with the cursor at its earliest key, so that levels on which nothing would be decided are
//! skipped; one with a single key (aligned ticks) is handed down whole. A slot with few entries becomes
//! the *front*: it is sorted, and what is pushed into its span of time goes in by insertion, until that
//! is too much and the front returns to the wheel.
//!
//! Slots are chains of blocks out of one pool: entries move in runs of neighbouring memory, nothing is
//! allocated in steady state, and memory is that of the most entries ever pending plus two partly
//! filled blocks per occupied slot.
//!
//! What is due 2^62 ns (146 years) or more after the start waits in a [`Heap`], the plain form of the
//! same order and the reference of the tests and of `benchmarks/calendar.rs`.
//!
//! The machine's event loop (`kernel.rs`) is the only user; the module is public for the benchmark.

mod heap;
#[cfg(test)]
mod tests;

pub use heap::Heap;

/// Order among entries of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Timer interrupts: all CPUs' tick handlers start before any thread goes on.
    Tick,
    /// Everything else.
    Other,
}

/// Bits of the key per level.
const DIGIT_BITS: u32 = 6;
/// Slots of a level.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Levels that it takes for all 64 bits of a key.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// First time that the wheel does not hold, ns: keys and the ends of slots stay below 2^64.
const FAR_NS: u64 = 1 << 62;
/// Entries of a block.
const BLOCK: usize = 32;
/// Slots with up to so many entries are sorted, fuller ones are distributed.
const SORTED: usize = 16;
/// No block.
const NONE: u32 = u32::MAX;

/// Some entries, their keys apart from their events.
#[derive(Debug, Clone, Copy)]
struct Block<E> {
    /// Time and class: `at << 1 | class`.
    keys: [u64; BLOCK],
    events: [E; BLOCK],
}

impl<E: Copy> Block<E> {
    #[inline(always)]
    fn set(&mut self, index: usize, key: u64, event: E) {
        self.keys[index % BLOCK] = key;
        self.events[index % BLOCK] = event;
    }

    #[inline(always)]
    fn get(&self, index: usize) -> (u64, E) {
        (self.keys[index % BLOCK], self.events[index % BLOCK])
    }

    #[inline(always)]
    fn key(&self, index: usize) -> u64 {
        self.keys[index % BLOCK]
    }

    /// Copies an entry over another.
    #[inline(always)]
    fn shift(&mut self, from: usize, to: usize) {
        self.keys[to % BLOCK] = self.keys[from % BLOCK];
        self.events[to % BLOCK] = self.events[from % BLOCK];
    }

    /// Sorts the first entries by key; equal keys keep their order.
    fn sort(&mut self, count: usize) {
        for n in 1..count {
            let (key, event) = self.get(n);
            let mut at = n;
            while at > 0 && self.key(at - 1) > key {
                self.shift(at - 1, at);
                at -= 1;
            }
            if at < n {
                self.set(at, key, event);
            }
        }
    }
}

/// The entries of a slot in order of arrival: a chain of blocks. Places are block × [`BLOCK`] + index.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Place of the first entry.
    begin: u32,
    /// Place after the last entry; 0: the chain is empty.
    end: u32,
}

const EMPTY: Chain = Chain { begin: 0, end: 0 };

impl Chain {
    fn first_block(self) -> u32 {
        self.begin / BLOCK as u32
    }

    /// How many entries a block of this chain holds, the chain beginning with its first block, and
    /// whether it is the last one.
    fn part(self, block: u32) -> (usize, bool) {
        let last = self.end - 1;
        if block == last / BLOCK as u32 {
            (last as usize % BLOCK + 1, true)
        } else {
            (BLOCK, false)
        }
    }
}

/// All blocks, those in use and those to be used again.
#[derive(Debug)]
struct Pool<E> {
    blocks: Vec<Block<E>>,
    /// The block after each in its chain, or in the list of free ones.
    next: Vec<u32>,
    free: u32,
}

impl<E: Copy> Pool<E> {
    /// A block whose first entry is this one.
    #[inline]
    fn take(&mut self, key: u64, event: E) -> u32 {
        let block = self.free;
        if block == NONE {
            return self.grow(key, event);
        }
        self.free = self.next[block as usize];
        self.blocks[block as usize].set(0, key, event);
        block
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, key: u64, event: E) -> u32 {
        let block = self.blocks.len();
        assert!(block < (u32::MAX as usize) / BLOCK, "too many pending events");
        self.blocks.push(Block {
            keys: [key; BLOCK],
            events: [event; BLOCK],
        });
        self.next.push(NONE);
        block as u32
    }

    #[inline]
    fn give(&mut self, block: u32) {
        self.next[block as usize] = self.free;
        self.free = block;
    }

    /// Least and greatest key of a chain that begins with its block.
    fn bounds(&self, chain: Chain) -> (u64, u64) {
        let (mut least, mut greatest) = (u64::MAX, 0);
        let mut block = chain.first_block();
        loop {
            let (count, last) = chain.part(block);
            for &key in &self.blocks[block as usize].keys[..count] {
                least = least.min(key);
                greatest = greatest.max(key);
            }
            if last {
                return (least, greatest);
            }
            block = self.next[block as usize];
        }
    }
}

/// The earliest entries of all, sorted, in one block: those from index `first` to before `last`. As long
/// as there is a front, all levels below that of the slot it came from are empty.
#[derive(Debug)]
struct Front {
    block: u32,
    first: u32,
    last: u32,
    /// Keys below this one belong here; 0: no front.
    end: u64,
}

/// Pending events by (time, class, arrival).
#[derive(Debug)]
pub struct Calendar<E> {
    /// Key, as of [`Class::Tick`], of the time popped last.
    cursor: u64,
    front: Front,
    /// Levels with an entry, a bit each.
    levels: u32,
    /// Slots with an entry, a bit each.
    occupied: [u64; LEVELS],
    slots: Box<[[Chain; SLOTS]; LEVELS]>,
    pool: Pool<E>,
    /// Entries at [`FAR_NS`] and later.
    far: Heap<E>,
}

impl<E: Copy> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> Calendar<E> {
    /// An empty calendar at time 0.
    pub fn new() -> Self {
        Calendar {
            cursor: 0,
            front: Front {
                block: NONE,
                first: 0,
                last: 0,
                end: 0,
            },
            levels: 0,
            occupied: [0; LEVELS],
            slots: Box::new([[EMPTY; SLOTS]; LEVELS]),
            pool: Pool {
                blocks: Vec::new(),
                next: Vec::new(),
                free: NONE,
            },
            far: Heap::new(),
        }
    }

    /// Puts an event in at time `at`, ns, which is not before the time popped last.
    #[inline]
    pub fn push(&mut self, at: u64, class: Class, event: E) {
        if at >= FAR_NS {
            return self.far.push(at, class, event);
        }
        let key = at << 1 | class as u64;
        assert!(key >= self.cursor, "an event cannot be put into the past");
        if key < self.front.end {
            self.insert(key, event);
        } else {
            self.place(key, event);
        }
    }

    /// Takes the next event out, with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let (key, event) = if self.front.first < self.front.last {
            let entry = self.pool.blocks[self.front.block as usize].get(self.front.first as usize);
            self.front.first += 1;
            entry
        } else if self.levels & 1 != 0 {
            self.pop_lowest()
        } else if self.levels != 0 {
            self.descend()
        } else {
            return self.far.pop();
        };
        self.cursor = key & !1;
        Some((key >> 1, event))
    }

    /// Puts an entry into the wheel.
    #[inline(always)]
    fn place(&mut self, key: u64, event: E) {
        self.place_from(self.cursor, key, event);
    }

    #[inline(always)]
    fn place_from(&mut self, cursor: u64, key: u64, event: E) {
        let highest = ((key ^ cursor) | 1).ilog2();
        let level = (highest / DIGIT_BITS) as usize;
        let slot = (key >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        let chain = &mut self.slots[level][slot];
        let end = chain.end;
        if !(end as usize).is_multiple_of(BLOCK) {
            self.pool.blocks[end as usize / BLOCK].set(end as usize, key, event);
            chain.end = end + 1;
            return;
        }
        let block = self.pool.take(key, event);
        chain.end = block * BLOCK as u32 + 1;
        if end == 0 {
            chain.begin = block * BLOCK as u32;
            self.occupied[level] |= 1 << slot;
            self.levels |= 1 << level;
        } else {
            self.pool.next[end as usize / BLOCK - 1] = block;
        }
    }

    /// Marks a slot as empty.
    #[inline]
    fn vacate(&mut self, level: usize, slot: usize) {
        self.slots[level][slot] = EMPTY;
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Takes the first entry out of level 0, which has one.
    #[inline]
    fn pop_lowest(&mut self) -> (u64, E) {
        let slot = self.occupied[0].trailing_zeros() as usize % SLOTS;
        let chain = &mut self.slots[0][slot];
        let Chain { begin, end } = *chain;
        let block = chain.first_block();
        let entry = self.pool.blocks[block as usize].get(begin as usize);
        if begin + 1 == end {
            self.vacate(0, slot);
            self.pool.give(block);
        } else if (begin as usize + 1).is_multiple_of(BLOCK) {
            chain.begin = self.pool.next[block as usize] * BLOCK as u32;
            self.pool.give(block);
        } else {
            chain.begin = begin + 1;
        }
        entry
    }

    /// Takes the first entry out when level 0 is empty, and brings those near it down.
    fn descend(&mut self) -> (u64, E) {
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].trailing_zeros() as usize % SLOTS;
        let chain = self.slots[level][slot];
        self.vacate(level, slot);
        let (count, single_block) = chain.part(chain.first_block());
        if single_block && count <= SORTED {
            return self.bring_front(level, chain.first_block(), count);
        }
        let (least, greatest) = self.pool.bounds(chain);
        self.cursor = least & !1;
        if least == greatest {
            let slot = least as usize % SLOTS;
            self.slots[0][slot] = chain;
            self.occupied[0] |= 1 << slot;
            self.levels |= 1;
        } else {
            self.distribute(chain);
        }
        self.pop_lowest()
    }

    /// Places all entries of a chain anew.
    fn distribute(&mut self, chain: Chain) {
        let cursor = self.cursor;
        let mut block = chain.first_block();
        loop {
            let (count, last) = chain.part(block);
            // A copy, so that the compiler need not fear that placing entries changes it.
            let entries = self.pool.blocks[block as usize];
            for index in 0..count {
                let (key, event) = entries.get(index);
                self.place_from(cursor, key, event);
            }
            let next = self.pool.next[block as usize];
            self.pool.give(block);
            if last {
                return;
            }
            block = next;
        }
    }

    /// Makes a slot's only block the front and takes the first entry out.
    fn bring_front(&mut self, level: usize, block: u32, count: usize) -> (u64, E) {
        if self.front.block != NONE {
            self.pool.give(self.front.block);
        }
        let entries = &mut self.pool.blocks[block as usize];
        entries.sort(count);
        let entry = entries.get(0);
        let shift = level as u32 * DIGIT_BITS;
        self.front = Front {
            block,
            first: 1,
            last: count as u32,
            end: ((entry.0 >> shift) + 1) << shift,
        };
        entry
    }

    /// Puts an entry into the front, after its equals.
    fn insert(&mut self, key: u64, event: E) {
        let Front {
            block, first, last, ..
        } = self.front;
        let (first, last) = (first as usize, last as usize);
        let block = &mut self.pool.blocks[block as usize];
        if first > 0 && (last == BLOCK || first < last && key < block.key(first)) {
            let mut at = first;
            while at < last && block.key(at) <= key {
                block.shift(at, at - 1);
                at += 1;
            }
            block.set(at - 1, key, event);
            self.front.first -= 1;
        } else if last < BLOCK {
            let mut at = last;
            while at > first && block.key(at - 1) > key {
                block.shift(at - 1, at);
                at -= 1;
            }
            block.set(at, key, event);
            self.front.last += 1;
        } else {
            self.spill(key, event);
        }
    }

    /// Gives a full front up: its entries and one more go into the wheel.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, key: u64, event: E) {
        self.front.end = 0;
        self.front.last = 0;
        let entries = self.pool.blocks[self.front.block as usize];
        for index in 0..BLOCK {
            let (key, event) = entries.get(index);
            self.place(key, event);
        }
        self.place(key, event);
    }
}
