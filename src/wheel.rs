//! The kernel's timer wheel: to which jiffy a timeout is rounded. Both worlds sleep by it.

/// Buckets per level.
const LEVEL_SIZE: u64 = 64;
/// Each level is this many bits coarser than the one below.
const LEVEL_SHIFT: u32 = 3;
/// Levels of the wheel (9; one less matters only beyond any timeout used here).
const LEVELS: u32 = 9;

/// The jiffy in whose tick a timer fires that is armed at `now` for `delta` jiffies.
///
/// Level *k* takes deltas from 63·8^(k−1) on and has a granularity of 8^k jiffies; the expiry is
/// rounded *up past* the bucket's start, so a level-0 timer fires `delta + 1` ticks after `now`.
pub(crate) fn wheel_expiry(now: u64, delta: u64) -> u64 {
    let mut level = 0;
    while level + 1 < LEVELS && delta >= (LEVEL_SIZE - 1) << (LEVEL_SHIFT * level) {
        level += 1;
    }
    let shift = LEVEL_SHIFT * level;
    (((now + delta) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_as_the_wheel_does() {
        // Level 0 (delta < 63): expiry + 1.
        assert_eq!(wheel_expiry(1000, 3), 1004);
        assert_eq!(wheel_expiry(7, 1), 9);
        assert_eq!(wheel_expiry(0, 62), 63);
        // Level 1 (63..503), granularity 8: (expiry + 8) rounded down to 8.
        assert_eq!(wheel_expiry(0, 63), (63 + 8) / 8 * 8);
        assert_eq!(wheel_expiry(5, 100), (105 + 8) / 8 * 8);
        assert_eq!(wheel_expiry(1, 503), (504 + 8) / 8 * 8);
        // Level 2 (504..4031), granularity 64.
        assert_eq!(wheel_expiry(10, 504), (514 + 64) / 64 * 64);
    }
}
