//! Tasks that wait for grace periods, on real threads: the calls that are measured.
//!
//! Each call takes one pair of clock reads. Closed loop without think time: the end of a call decides
//! whether the next one is still made, so that nothing else is read in between.

use super::log::Log;
use super::published::Element;
use super::subject::{Subject, SubjectThread};
use super::threads::Worker;
use crate::error::Result;
use crate::sync::Ordering;
use crate::workload::{SyncCallKind, SyncFlood};

pub(super) fn run<S: Subject>(
    worker: &mut Worker<'_, '_, S>,
    flood: &SyncFlood,
    log: &mut Log<'_>,
) -> Result<()> {
    let run = worker.run;
    let published = run.published.as_ref();
    let mut spare = published.map(|p| p.spare(worker.job.task as usize));
    let first_due = worker.job.begin_ns;
    let mut due = first_due;
    let mut now = worker.clock.now();
    let mut made = 0u64;
    while !run.stopped() && (flood.calls == 0 || made < flood.calls) {
        if flood.interval_ns > 0 {
            due = first_due.saturating_add(made.saturating_mul(flood.interval_ns));
        }
        if flood.duration_ns > 0 && now.max(due) >= flood.duration_ns {
            break;
        }
        if now < due {
            worker.sleep_until(due);
            if run.stopped() {
                break;
            }
        }
        let old: Option<&Element> = published.zip(spare).map(|(p, spare)| p.replace(spare));
        let start = worker.clock.now();
        if flood.duration_ns > 0 && start >= flood.duration_ns {
            break;
        }
        let Some(gp_seq) = call(worker, flood.kind)? else {
            break;
        };
        now = worker.clock.now();
        if let (Some(published), Some(old), true) = (published, old, waits_for_readers(flood.kind)) {
            published.retire(old);
        }
        spare = old;
        // Open loop: the time that a late call waited to be made counts.
        let from = if flood.interval_ns > 0 { due } else { start };
        log.record(from, now, gp_seq)?;
        made += 1;
        worker.done.store(made, Ordering::Relaxed);
        due = now + flood.think_ns;
    }
    Ok(())
}

/// A barrier waits for callbacks only: where none is queued it returns at once.
fn waits_for_readers(kind: SyncCallKind) -> bool {
    kind != SyncCallKind::Barrier
}

/// One call; gives the number of the grace period, `None` where the run ended first.
fn call<S: Subject>(worker: &mut Worker<'_, '_, S>, kind: SyncCallKind) -> Result<Option<u64>> {
    let stop = &worker.run.stop;
    match kind {
        SyncCallKind::Sync => worker.thread.synchronize(stop),
        SyncCallKind::Expedited => worker.thread.synchronize_expedited(stop),
        SyncCallKind::Barrier => Ok(worker.thread.barrier(stop)?.then_some(0)),
        SyncCallKind::Poll => poll(worker, false),
        SyncCallKind::PollFull => poll(worker, true),
    }
}

/// Looks once a jiffy, as simulated pollers do.
fn poll<S: Subject>(worker: &mut Worker<'_, '_, S>, full: bool) -> Result<Option<u64>> {
    let cookie = worker.thread.start_poll(full)?;
    let tick_ns = worker.run.tick_ns;
    while !worker.run.stopped() {
        if let Some(gp_seq) = worker.thread.poll(cookie) {
            return Ok(Some(gp_seq));
        }
        worker.sleep_until((worker.clock.now() / tick_ns + 1) * tick_ns);
    }
    Ok(None)
}
