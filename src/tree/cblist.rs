//! The segmented callback list of one CPU (invariant I8).
//!
//! Four segments in order: DONE (may be invoked), WAIT and NEXT_READY (each waits for the grace
//! period whose number it carries), NEXT (not numbered yet). Callbacks only move towards DONE.
//! `len` counts callbacks that are not yet *finished*: it drops only after a batch, so during a
//! batch it exceeds the sum of the segments, and `len == 0` proves that nothing is running.

use super::chunks::Chunks;
use super::seq;
use crate::sync::mutated;

/// Segment of callbacks that may be invoked.
pub const DONE: usize = 0;
/// Segment that waits for the older of the two numbers.
pub const WAIT: usize = 1;
/// Segment that waits for the newer number.
pub const NEXT_READY: usize = 2;
/// Segment of callbacks without a number.
pub const NEXT: usize = 3;
/// Number of segments.
pub const NSEGS: usize = 4;

/// Segmented callback list.
#[derive(Debug, Clone)]
pub struct SegCbList<T> {
    segments: [Chunks<T>; NSEGS],
    gp_seq: [u64; NSEGS],
    len: u64,
}

impl<T> Default for SegCbList<T> {
    fn default() -> Self {
        SegCbList {
            segments: Default::default(),
            gp_seq: [0; NSEGS],
            len: 0,
        }
    }
}

impl<T> SegCbList<T> {
    /// Callbacks queued and not yet finished.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No callback is queued or running.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Callbacks in one segment.
    pub fn seglen(&self, segment: usize) -> u64 {
        self.segments[segment].len() as u64
    }

    /// Callbacks in all segments, which is `len` except during a batch.
    pub fn queued(&self) -> u64 {
        (0..NSEGS).map(|segment| self.seglen(segment)).sum()
    }

    /// Number of a segment; meaningful for non-empty WAIT and NEXT_READY.
    pub fn segment_gp_seq(&self, segment: usize) -> u64 {
        self.gp_seq[segment]
    }

    /// Nothing after this segment.
    #[inline]
    pub fn restempty(&self, segment: usize) -> bool {
        self.segments[segment + 1..].iter().all(Chunks::is_empty)
    }

    /// Something may be invoked.
    pub fn ready(&self) -> bool {
        !self.segments[DONE].is_empty()
    }

    /// Something still waits.
    #[inline]
    pub fn pend(&self) -> bool {
        !self.restempty(DONE)
    }

    /// Number that the oldest waiting callbacks need, where they have one.
    pub fn next_seq(&self) -> Option<u64> {
        (!self.segments[WAIT].is_empty()).then(|| self.gp_seq[WAIT])
    }

    /// Exactly one callback waits (after an enqueue: it is the one just queued).
    pub fn only_one_pending(&self) -> bool {
        self.queued() - self.seglen(DONE) == 1
    }

    /// Adds a callback at the end.
    #[inline]
    pub fn enqueue(&mut self, callback: T) {
        self.len += 1;
        self.segments[NEXT].push_back(callback);
    }

    /// Counts a callback that is queued elsewhere, until [`SegCbList::insert_pend`] brings it.
    pub fn count_one(&mut self) {
        self.len += 1;
    }

    /// Adds a callback behind the last one that is queued, for a barrier: it needs no grace period
    /// of its own. Gives the callback back when the list is empty.
    pub fn entrain(&mut self, callback: T) -> Result<(), T> {
        match (0..NSEGS)
            .rev()
            .find(|&segment| !self.segments[segment].is_empty())
        {
            Some(segment) if self.len > 0 => {
                self.len += 1;
                self.segments[segment].push_back(callback);
                Ok(())
            }
            // A batch is running and took everything: ride behind it in DONE.
            None if self.len > 0 => {
                self.len += 1;
                self.segments[DONE].push_back(callback);
                Ok(())
            }
            _ => Err(callback),
        }
    }

    /// Takes what may be invoked; `len` stays.
    pub fn extract_done(&mut self) -> Chunks<T> {
        std::mem::take(&mut self.segments[DONE])
    }

    /// Puts callbacks back at the front of DONE; `len` stays.
    pub fn insert_done(&mut self, mut callbacks: Chunks<T>) {
        callbacks.append(&mut self.segments[DONE]);
        self.segments[DONE] = callbacks;
    }

    /// Takes everything that still waits, forgetting its numbers; `len` stays.
    pub fn extract_pend(&mut self) -> Chunks<T> {
        let mut out = Chunks::default();
        for segment in WAIT..NSEGS {
            out.append(&mut self.segments[segment]);
        }
        out
    }

    /// Adds callbacks behind NEXT; `len` stays.
    pub fn insert_pend(&mut self, mut callbacks: Chunks<T>) {
        self.segments[NEXT].append(&mut callbacks);
    }

    /// `count` callbacks have finished.
    pub fn finished(&mut self, count: u64) {
        debug_assert!(count <= self.len);
        self.len -= count;
    }

    /// Moves to DONE whatever waits for a grace period that is over at `gp_seq`.
    pub fn advance(&mut self, gp_seq: u64) {
        let mut moved = 0;
        for segment in [WAIT, NEXT_READY] {
            let over = seq::ge(gp_seq, self.gp_seq[segment]) || mutated("Z49a");
            if self.segments[segment].is_empty() || !over {
                break;
            }
            let mut done = std::mem::take(&mut self.segments[segment]);
            self.segments[DONE].append(&mut done);
            moved += 1;
        }
        // WAIT went and NEXT_READY stayed: it is now the older of the two.
        if moved == 1 && !self.segments[NEXT_READY].is_empty() {
            self.segments.swap(WAIT, NEXT_READY);
            self.gp_seq[WAIT] = self.gp_seq[NEXT_READY];
        }
    }

    /// Numbers what can be numbered with `gp_seq`. True: some callback waits for that grace period,
    /// so the caller makes sure that it is requested (even when the number was given before).
    #[inline]
    pub fn accelerate(&mut self, gp_seq: u64) -> bool {
        if !self.pend() {
            return false;
        }
        // The last segment that keeps an earlier number of its own; DONE when there is none.
        let keep = [NEXT_READY, WAIT]
            .into_iter()
            .find(|&segment| !self.segments[segment].is_empty() && seq::lt(self.gp_seq[segment], gp_seq))
            .unwrap_or(DONE);
        let target = keep + 1;
        if self.restempty(keep) || target >= NEXT {
            return false;
        }
        for segment in target + 1..NSEGS {
            let mut later = std::mem::take(&mut self.segments[segment]);
            self.segments[target].append(&mut later);
        }
        for segment in target..NEXT {
            self.gp_seq[segment] = gp_seq;
        }
        true
    }

    /// Takes over everything of a list whose CPU is gone.
    pub fn merge(&mut self, other: &mut SegCbList<T>) {
        let done = other.extract_done();
        let pend = other.extract_pend();
        self.len += std::mem::take(&mut other.len);
        self.insert_done(done);
        self.insert_pend(pend);
        *other = SegCbList::default();
    }
}
