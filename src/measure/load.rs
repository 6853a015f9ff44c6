//! Busy threads. User mode is spinning out of the engine's sight; kernel mode is spinning in its sight, with
//! read-side sections of `section_ns` every `gap_ns`, or without sections a quiescent state every `gap_ns`
//! (where the engine wants to be told: the `cond_resched()` of non-preemptible kernels).
//!
//! The threads are not pinned: a virtual CPU is a place in the tree, not a processor.

use super::published::{Element, Published};
use super::subject::{Subject, SubjectThread};
use super::threads::Worker;
use crate::error::Result;
use crate::workload::{CpuLoad, Mode};

pub(super) fn run<S: Subject>(worker: &mut Worker<'_, '_, S>, load: &CpuLoad) -> Result<()> {
    let run = worker.run;
    let end = if load.duration_ns > 0 {
        load.duration_ns
    } else {
        u64::MAX
    };
    // Sections of a load protect something too, whether or not there are readers.
    let own = Published::new(0);
    let published = run.published.as_ref().unwrap_or(&own);
    let mut now = worker.clock.now();
    while now < end && !run.stopped() {
        let stretch_end = if load.run_ns > 0 {
            end.min(now + load.run_ns)
        } else {
            end
        };
        while now < stretch_end && !run.stopped() {
            now = match load.mode {
                Mode::User => away(worker, stretch_end),
                Mode::Kernel => kernel(worker, load, published, now, stretch_end),
            };
        }
        if load.pause_ns > 0 && now < end {
            worker.sleep_until(end.min(now + load.pause_ns));
            now = worker.clock.now();
        }
    }
    Ok(())
}

fn away<S: Subject>(worker: &mut Worker<'_, '_, S>, until: u64) -> u64 {
    let (clock, run) = (worker.clock, worker.run);
    worker.thread.away(|| {
        loop {
            let now = clock.now();
            if now >= until || run.stopped() {
                return now;
            }
            std::hint::spin_loop();
        }
    })
}

/// One section and the gap after it, or one gap.
fn kernel<S: Subject>(
    worker: &mut Worker<'_, '_, S>,
    load: &CpuLoad,
    published: &Published,
    now: u64,
    until: u64,
) -> u64 {
    let (clock, run) = (worker.clock, worker.run);
    let spin = |until: u64| {
        while clock.now() < until && !run.stopped() {
            std::hint::spin_loop();
        }
    };
    if load.section_ns > 0 {
        let section_end = now + load.section_ns;
        worker.thread.section(
            0,
            published.pointer(),
            |element: &Element| {
                published.look(element);
                spin(section_end);
            },
            |element| published.look(element),
        );
    }
    worker.spin_until(until.min(clock.now() + load.gap_ns));
    worker.thread.quiescent();
    clock.now()
}
