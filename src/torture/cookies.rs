//! What polling cookies promise, checked by the writer.
//!
//! - A cookie taken inside a section of one's own is not done there.
//! - A cookie taken before a synchronous grace period is done after it: a full one after one, a plain one
//!   after two, since a plain one may miss a grace period that an expedited one overlapped.
//! - Few distinct cookies are pending at any time: at most two plain ones, four full ones.

/// Most distinct plain cookies that are pending at once.
pub const MAX_PLAIN: usize = 2;
/// Most distinct full cookies that are pending at once.
pub const MAX_FULL: usize = 4;

/// Distinct cookies that were not done when they were last looked at.
#[derive(Debug)]
pub struct Pending<T> {
    live: Vec<T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { live: Vec::new() }
    }
}

impl<T: PartialEq> Pending<T> {
    /// Adds one, forgets those that are done; gives how many remain.
    pub fn add(&mut self, cookie: T, done: impl Fn(&T) -> bool) -> usize {
        if !self.live.contains(&cookie) {
            self.live.push(cookie);
        }
        // Done or not can only change in one direction, so the order of the looks does not matter.
        self.live.retain(|cookie| !done(cookie));
        self.live.len()
    }
}

/// The last two cookies taken before synchronous grace periods.
#[derive(Debug)]
pub struct BeforeGp<P, F> {
    older: Option<P>,
    plain: P,
    full: F,
}

/// A cookie that ought to be done and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late(pub &'static str);

impl<P: Copy, F: Copy> BeforeGp<P, F> {
    /// Before a grace period. `last`: what `after` gave for the one before.
    pub fn new(plain: P, full: F, last: Option<P>) -> Self {
        BeforeGp {
            older: last,
            plain,
            full,
        }
    }

    /// After it: what is late, and the cookie to hand to the next [`BeforeGp::new`].
    pub fn after(self, plain_done: impl Fn(P) -> bool, full_done: impl Fn(F) -> bool) -> (Vec<Late>, P) {
        let mut late = Vec::new();
        if !full_done(self.full) {
            late.push(Late(
                "a full cookie from before a grace period is not done after it",
            ));
        }
        if self.older.is_some_and(|older| !plain_done(older)) {
            late.push(Late(
                "a cookie from before two grace periods is not done after them",
            ));
        }
        (late, self.plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_cookies_are_distinct_and_forgotten_when_done() {
        let mut pending = Pending::default();
        assert_eq!(pending.add(4, |_| false), 1);
        assert_eq!(pending.add(4, |_| false), 1);
        assert_eq!(pending.add(8, |_| false), 2);
        assert_eq!(pending.add(12, |&c| c < 12), 1);
    }

    #[test]
    fn late_cookies_are_told_apart() {
        let (late, plain) = BeforeGp::new(1, 1, None).after(|_| false, |_| true);
        assert!(late.is_empty(), "a plain cookie has two grace periods' time");
        let (late, _) = BeforeGp::new(2, 2, Some(plain)).after(|_| false, |_| false);
        assert_eq!(late.len(), 2);
    }
}
