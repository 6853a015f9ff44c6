//! Tasks that queue callbacks, in bursts.

use super::subject::{Callback, Subject, SubjectThread};
use super::threads::Worker;
use crate::error::Result;
use crate::random::Purpose;
use crate::workload::CallRcuFlood;

/// Intervals shorter than this are spent running.
const SHORTEST_SLEEP_NS: u64 = 1_000;
/// Callbacks queued between two looks at the end of the run.
const PIECE: u64 = 32;

pub(super) fn run<S: Subject>(worker: &mut Worker<'_, '_, S>, flood: &CallRcuFlood, seed: u64) -> Result<()> {
    let (run, clock) = (worker.run, worker.clock);
    let tally = worker.job.tally.clone().expect("made for callback floods");
    let mut random = worker.stream(Purpose::Flood, seed);
    let mut left = if flood.callbacks > 0 {
        flood.callbacks
    } else {
        u64::MAX
    };
    while left > 0 && !run.stopped() {
        if flood.duration_ns > 0 && clock.now() >= flood.duration_ns {
            break;
        }
        let mut burst = flood.burst.min(left);
        left -= burst;
        while burst > 0 && !run.stopped() {
            let piece = burst.min(PIECE);
            for _ in 0..piece {
                worker
                    .thread
                    .call(Callback::new(&tally, flood.repost), flood.hurry)?;
            }
            burst -= piece;
        }
        let interval = random.length(flood.interval);
        let until = clock.now() + interval;
        if interval < SHORTEST_SLEEP_NS {
            worker.spin_until(until);
            worker.thread.quiescent();
        } else {
            worker.sleep_until(until);
        }
    }
    Ok(())
}
