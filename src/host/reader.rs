//! The three words of a thread that reads: what its fast path touches, and what others do to them.
//!
//! | word | written by | values |
//! |---|---|---|
//! | `nesting` | the thread, plain stores | sections open, one inside the other |
//! | `eqs` | read-modify-writes of anybody | is the thread in an extended quiescent state: `ACTIVE`, `PROPOSED` and the offer's number, `GRANTED` |
//! | `special` | read-modify-writes; only the thread clears | `MARK`: the outermost unlock has to take the slow path |
//!
//! Two words for `nesting` and `eqs`, never one: a plain store against a compare-exchange loses flags. The
//! argument for each order is in [`super::order`]; R1 … R6 and P1 … P3 are its names.

use super::order::FENCED;
use crate::sync::{AtomicU32, AtomicU64, Ordering, full_fence, light_fence, mutated, order};

/// In a scan set: passes look at the thread.
pub(super) const ACTIVE: u32 = 0;
/// A pass found it outside before and offers to leave it alone from now on.
pub(super) const PROPOSED: u32 = 1;
/// In an extended quiescent state: in no scan set, nobody looks.
pub(super) const GRANTED: u32 = 2;
/// These bits of `eqs` tell which; above them, below [`FENCED`], the number of the offer.
const STATE: u32 = 3;
const FIRST_OFFER: u32 = STATE + 1;

/// The outermost unlock has more to do than count down.
pub(super) const MARK: u32 = 1;

/// The words. One cache line: the thread's own, read by others during a pass only.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ReaderWords {
    nesting: AtomicU64,
    eqs: AtomicU32,
    special: AtomicU32,
    /// Counts offers, in steps of [`FIRST_OFFER`]; the thread itself does not look.
    offers: AtomicU32,
}

/// An offer that a pass made, or saw, before its heavy fence: `eqs` as it stood. No two offers to one slot are alike
/// (before 2^29 more were made), so that a pass cannot grant one that was made after it looked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer(u32);

/// What a pass saw of a reader after its heavy fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// Outside any section.
    Outside,
    /// Inside, and the mark is still there.
    Inside,
    /// It took the mark off itself, so it has been outside since.
    Passed,
}

impl ReaderWords {
    /// In an extended quiescent state. `bits`: 0, or [`FENCED`].
    pub fn new(bits: u32) -> Self {
        ReaderWords {
            nesting: AtomicU64::new(0),
            eqs: AtomicU32::new(GRANTED | bits),
            special: AtomicU32::new(bits),
            offers: AtomicU32::new(0),
        }
    }

    /// `rcu_read_lock()`. True: [`ReaderWords::enter_slow`] has to follow.
    #[inline(always)]
    pub fn enter(&self) -> bool {
        let nesting = self.nesting.load(Ordering::Relaxed);
        self.nesting.store(nesting + 1, Ordering::Relaxed); // R1
        light_fence("R2");
        self.eqs.load(Ordering::Relaxed) != ACTIVE && !mutated("R3")
    }

    /// True: the thread was in an extended quiescent state and has to join its scan set, with a full fence
    /// (F1) behind that, before it reads anything.
    #[cold]
    pub fn enter_slow(&self) -> bool {
        if self.eqs.load(Ordering::Relaxed) & FENCED != 0 {
            full_fence("R2 in full"); // where there is no membarrier
        }
        if self.nesting() > 1 || self.eqs.load(Ordering::Relaxed) & !FENCED == ACTIVE {
            return false;
        }
        // Relaxed: this word alone decides between the thread and a pass. A thread that was out of its scan set goes on
        // through the run queue's lock and F1, one that was not is looked at as before.
        self.eqs.fetch_and(FENCED, Ordering::Relaxed) & STATE == GRANTED
    }

    /// `rcu_read_unlock()`. True: [`ReaderWords::leave_slow`] has to follow.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        let nesting = self.nesting.load(Ordering::Relaxed) - 1;
        let flags = mutated("one word").then(|| self.special.load(Ordering::Relaxed));
        self.nesting.store(nesting, order("R4", Ordering::Release));
        if let Some(flags) = flags {
            // As if both were one word, written by a plain store.
            self.special.store(flags, Ordering::Relaxed);
        }
        light_fence("R5");
        self.special.load(Ordering::Relaxed) != 0 && !mutated("R6")
    }

    /// True: a pass marked the section that just ended; [`ReaderWords::clear_mark`] under the slot's lock
    /// has to follow.
    #[cold]
    pub fn leave_slow(&self) -> bool {
        if self.special.load(Ordering::Relaxed) & FENCED != 0 {
            full_fence("R5 in full"); // where there is no membarrier
        }
        self.nesting() == 0 && self.special.load(Ordering::Relaxed) & MARK != 0
    }

    /// The thread itself, outside any section, takes the mark off. Acquire: what follows sees what came
    /// before the mark. Release: the pass that misses the mark sees that the section is over.
    pub fn clear_mark(&self) {
        self.special.fetch_and(!MARK, order("clear", Ordering::AcqRel));
    }

    /// Sections open, as the thread itself knows it.
    #[inline]
    pub fn nesting(&self) -> u64 {
        self.nesting.load(Ordering::Relaxed)
    }

    /// The thread itself: in a scan set, or at least not granted yet.
    pub fn is_active(&self) -> bool {
        self.eqs.load(Ordering::Relaxed) & STATE != GRANTED
    }

    /// The thread itself, under its run queue's lock and outside any section: out of the scan set. An offer ends.
    pub fn set_granted(&self) {
        let bits = self.eqs.load(Ordering::Relaxed) & FENCED;
        self.eqs.swap(GRANTED | bits, Ordering::Relaxed);
    }

    /// The thread itself: back in the scan set, as soon as it has joined it under the run queue's lock.
    pub fn set_active(&self) {
        self.eqs.fetch_and(FENCED, Ordering::Relaxed);
    }

    /// P1: the next outermost unlock has to answer. Relaxed: behind F2 of the pass this is a release of all that came
    /// before F2, for the thread that takes the mark off.
    pub fn mark(&self) {
        if mutated("P1 skipped") {
            return;
        }
        self.special.fetch_or(MARK, Ordering::Relaxed);
    }

    /// Somebody asked the thread for something; what, it sees under the locks that it takes then.
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.special.load(Ordering::Relaxed) & MARK != 0
    }

    /// P1: offers an extended quiescent state, or sees an offer that stands. This pass may grant it after its heavy
    /// fence, which is what makes it known to the thread.
    pub fn propose(&self) -> Option<Offer> {
        let bits = self.eqs.load(Ordering::Relaxed) & FENCED;
        let number = self.offers.fetch_add(FIRST_OFFER, Ordering::Relaxed) & !FENCED;
        let offer = PROPOSED | number | bits;
        let relaxed = Ordering::Relaxed;
        match self.eqs.compare_exchange(ACTIVE | bits, offer, relaxed, relaxed) {
            Ok(_) => Some(Offer(offer)),
            Err(now) => (now & STATE == PROPOSED).then_some(Offer(now)),
        }
    }

    /// P3, under the slot's lock where the answer is to be acted upon.
    pub fn sample(&self) -> Sample {
        if self.nesting.load(order("P3", Ordering::Acquire)) == 0 {
            Sample::Outside
        } else if self.special.load(order("P3 mark", Ordering::Acquire)) & MARK != 0 {
            Sample::Inside
        } else {
            Sample::Passed
        }
    }

    /// After P3 found the thread outside, under its run queue's lock: it leaves the scan set. False: that offer does
    /// not stand any more.
    pub fn grant(&self, offer: Offer) -> bool {
        if mutated("grant unchecked") {
            return self.eqs.swap(GRANTED, Ordering::Relaxed) & STATE != GRANTED;
        }
        let mut expected = offer.0;
        if mutated("any offer granted") {
            expected = self.eqs.load(Ordering::Relaxed);
            if expected & STATE != PROPOSED {
                return false;
            }
        }
        self.settle(expected, GRANTED)
    }

    /// The offer does not stand.
    pub fn take_back(&self, offer: Offer) {
        self.settle(offer.0, ACTIVE);
    }

    fn settle(&self, offer: u32, to: u32) -> bool {
        let relaxed = Ordering::Relaxed;
        self.eqs
            .compare_exchange(offer, to | offer & FENCED, relaxed, relaxed)
            .is_ok()
    }
}
