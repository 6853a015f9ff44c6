//! Grace-period sequence numbers: a word whose low two bits are a state and whose rest counts.
//!
//! One grace period advances a number by 4 (state 0 idle → 1 in progress → next multiple of 4).
//! Every comparison is made on differences, so it stays right when the word wraps; two numbers may
//! be compared as long as they lie within half the range of each other.

use crate::sync::mutated;

/// Bits of the state.
pub const SEQ_SHIFT: u32 = 2;
/// Mask of the state.
pub const SEQ_MASK: u64 = (1 << SEQ_SHIFT) - 1;
/// Distance of two grace periods.
pub const SEQ_GP: u64 = SEQ_MASK + 1;
/// The number at boot, −1200 as a signed word: the counter of a 32-bit machine wraps soon after boot,
/// so that a wrap bug shows early.
pub const SEQ_BOOT: u64 = 0u64.wrapping_sub(300) << SEQ_SHIFT;

/// Largest distance at which one number still counts as "at or after" another.
const HALF: u64 = u64::MAX / 2;

/// `a` is at or after `b`.
pub fn ge(a: u64, b: u64) -> bool {
    if mutated("Z44") {
        return a >= b;
    }
    a.wrapping_sub(b) <= HALF
}

/// `a` is before `b`.
pub fn lt(a: u64, b: u64) -> bool {
    !ge(a, b)
}

/// The counter part.
pub fn ctr(s: u64) -> u64 {
    s >> SEQ_SHIFT
}

/// The state part: 0 idle, 1 in progress.
pub fn state(s: u64) -> u64 {
    s & SEQ_MASK
}

/// The number after a start. The caller supplies the full barrier after the store.
pub fn start(s: u64) -> u64 {
    let started = s.wrapping_add(1);
    promise_eq!(
        state(started),
        1,
        "start of a grace period while one is in progress"
    );
    started
}

/// The number after an end. The caller supplies the full barrier before the store.
pub fn end(s: u64) -> u64 {
    debug_assert_ne!(state(s), 0, "end of a grace period while none is in progress");
    endval(s)
}

/// The number that the grace period in progress will end with.
pub fn endval(s: u64) -> u64 {
    (s | SEQ_MASK).wrapping_add(1)
}

/// The number that a full grace period, starting after now, will have ended by.
pub fn snap(s: u64) -> u64 {
    s.wrapping_add(2 * SEQ_MASK + 1) & !SEQ_MASK
}

/// The grace period that ends with `target` has started, as seen by a copy `cur`.
pub fn started(cur: u64, target: u64) -> bool {
    lt(target.wrapping_sub(1) & !SEQ_MASK, cur)
}

/// The grace period that ends with `target` is over, as seen by a copy `cur`.
pub fn done(cur: u64, target: u64) -> bool {
    ge(cur, target)
}

/// Like [`done`], and also true for cookies so old that the word has wrapped past them: a live
/// cookie is never more than two grace periods ahead of the number it is tested on.
pub fn done_exact(cur: u64, target: u64) -> bool {
    ge(cur, target) || lt(cur, target.wrapping_sub(2 * SEQ_GP))
}

/// Between the two copies a grace period ended.
pub fn completed_gp(old: u64, new: u64) -> bool {
    lt(old, new & !SEQ_MASK)
}

/// Between the two copies a grace period started.
pub fn new_gp(old: u64, new: u64) -> bool {
    lt(old.wrapping_add(SEQ_MASK) & !SEQ_MASK, new)
}

/// Roughly how many grace periods lie between two copies. For statistics only.
pub fn diff(new: u64, old: u64) -> u64 {
    if new == old {
        return 0;
    }
    let rounded = (new & !SEQ_MASK)
        .wrapping_sub(old.wrapping_add(SEQ_MASK) & !SEQ_MASK)
        .wrapping_add(u64::from(state(new) != 0 || state(old) != 0));
    if rounded <= SEQ_MASK {
        1
    } else {
        ((rounded - SEQ_MASK - 1) >> SEQ_SHIFT) + 2
    }
}
