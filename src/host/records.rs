//! Records of the grace periods that ended, until somebody takes them.
//!
//! With callers that drive a grace period takes well under a microsecond, and a record for each must not cost much of
//! that: rows, not columns, and the calls that the newest grace period releases are counted beside the lock.

use crate::stats::{Counters, GracePeriods};
use crate::sync::{Ordering, Tally, WorldLock};
use crate::tree::world::GpRecord;

#[derive(Debug, Default)]
pub(super) struct Records {
    inner: WorldLock<Inner>,
    /// `gp_seq` of the newest record; only the kthread writes it.
    newest: Tally,
    /// Calls that the kthread has released since for that grace period, not in its row yet.
    released: Tally,
}

#[derive(Debug, Default)]
struct Inner {
    rows: Vec<Row>,
    /// Calls released by a grace period that has no record yet.
    ahead: i64,
    forgotten: u64,
    grace_periods: u64,
    scans: u64,
    cpus_scanned: u64,
}

#[derive(Debug, Clone)]
struct Row {
    record: GpRecord,
    requests: i64,
}

/// Records kept when nobody takes them; the older half makes room for newer ones.
const MAX_RECORDS: usize = 1 << 20;

impl Inner {
    /// What was counted beside the lock, into the newest row.
    fn settle(&mut self, released: &Tally) {
        if released.load(Ordering::Relaxed) == 0 {
            return;
        }
        let released = released.swap(0, Ordering::Relaxed) as i64;
        match self.rows.last_mut() {
            Some(newest) => newest.requests += released,
            // The row was taken meanwhile.
            None => self.ahead += released,
        }
    }
}

fn columns(rows: &[Row]) -> GracePeriods {
    let mut columns = GracePeriods::default();
    for row in rows {
        row.record.append_to(&mut columns, row.requests);
    }
    columns
}

impl Records {
    /// The kthread: a grace period ended.
    pub fn push(&self, record: &GpRecord) {
        let mut inner = self.inner.lock();
        inner.settle(&self.released);
        self.newest.store(record.gp_seq, Ordering::Relaxed);
        if inner.rows.len() >= MAX_RECORDS {
            inner.rows.drain(..MAX_RECORDS / 2);
            inner.forgotten += MAX_RECORDS as u64 / 2;
        }
        inner.grace_periods += 1;
        inner.scans += u64::from(record.scans);
        inner.cpus_scanned += record.cpus_scanned;
        let requests = std::mem::take(&mut inner.ahead);
        inner.rows.push(Row {
            record: *record,
            requests,
        });
    }

    /// A call is about to be released.
    pub fn released(&self, gp_seq: u64, by_kthread: bool) {
        if by_kthread && self.newest.load(Ordering::Relaxed) == gp_seq {
            self.released.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut inner = self.inner.lock();
        let Some(last) = inner.rows.last() else {
            inner.ahead += 1;
            return;
        };
        // Numbers grow by 4 from one grace period to the next.
        let back = last.record.gp_seq.wrapping_sub(gp_seq) as i64 / crate::tree::seq::SEQ_GP as i64;
        if back < 0 {
            inner.ahead += 1;
        } else if let Some(at) = inner.rows.len().checked_sub(1 + back as usize) {
            inner.rows[at].requests += 1;
        }
    }

    /// What was recorded, which stays.
    pub fn look(&self) -> GracePeriods {
        let mut inner = self.inner.lock();
        inner.settle(&self.released);
        columns(&inner.rows)
    }

    /// Takes what was recorded.
    pub fn take(&self) -> GracePeriods {
        let rows = {
            let mut inner = self.inner.lock();
            inner.settle(&self.released);
            std::mem::take(&mut inner.rows)
        };
        columns(&rows)
    }

    /// What the records add up to, those that were taken or forgotten included.
    pub fn totals(&self) -> Counters {
        let inner = self.inner.lock();
        Counters {
            grace_periods: inner.grace_periods,
            fqs_scans: inner.scans,
            fqs_cpus_scanned: inner.cpus_scanned,
            ..Counters::default()
        }
    }

    /// Records that had to make room for newer ones.
    pub fn forgotten(&self) -> u64 {
        self.inner.lock().forgotten
    }
}
