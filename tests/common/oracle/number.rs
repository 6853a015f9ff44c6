//! The arithmetic of grace-period numbers, from its description: two low bits state, distance modulo
//! the word, later means at most half the range ahead.

/// `a - b` as a signed distance.
pub fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

pub fn at_or_after(a: u64, b: u64) -> bool {
    ahead(a, b) >= 0
}

pub fn running(s: u64) -> bool {
    !s.is_multiple_of(4)
}

/// The number with which the grace period after (or in) `s` ends.
pub fn end_of(s: u64) -> u64 {
    (s / 4).wrapping_mul(4).wrapping_add(4)
}

/// The number by which a grace period that starts after now will have ended.
pub fn full_gp_from(s: u64) -> u64 {
    if running(s) {
        end_of(s).wrapping_add(4)
    } else {
        end_of(s)
    }
}

pub fn show(s: u64) -> String {
    format!("{}", s as i64)
}

/// Positions of the set bits, lowest first.
pub fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            bit
        })
    })
}

pub const INIT_FLAG: u32 = 1;
pub const FQS_FLAG: u32 = 2;
// gp_state
pub const IDLE: u32 = 0;
pub const WAIT_GPS: u32 = 1;
pub const DONE_GPS: u32 = 2;
pub const ONOFF: u32 = 3;
pub const INIT: u32 = 4;
pub const WAIT_FQS: u32 = 5;
pub const DOING_FQS: u32 = 6;
pub const CLEANUP: u32 = 7;
pub const CLEANED: u32 = 8;
// segments of a callback list
pub const DONE: usize = 0;
pub const WAIT: usize = 1;
pub const NEXT_READY: usize = 2;
pub const NEXT: usize = 3;
