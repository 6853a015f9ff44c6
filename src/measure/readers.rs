//! Read-side sections over a pointer that the floods of the same run keep replacing (see `published`).

use super::published::Element;
use super::subject::{Subject, SubjectThread};
use super::threads::Worker;
use crate::error::Result;
use crate::random::Purpose;
use crate::workload::Readers;

/// Gaps shorter than this are spent running.
const SHORTEST_SLEEP_NS: u64 = 1_000;

pub(super) fn run<S: Subject>(worker: &mut Worker<'_, '_, S>, readers: &Readers, seed: u64) -> Result<()> {
    let (run, clock) = (worker.run, worker.clock);
    let published = run.published.as_ref().expect("made where there are readers");
    let mut random = worker.stream(Purpose::Readers, seed);
    let mut made = 0u64;
    while !run.stopped() && (readers.sections == 0 || made < readers.sections) {
        let now = clock.now();
        if readers.duration_ns > 0 && now >= readers.duration_ns {
            break;
        }
        let length = random.length(readers.section);
        let half = |element: &Element, until: u64| {
            published.look(element);
            while clock.now() < until && !run.stopped() {
                std::hint::spin_loop();
            }
            published.look(element);
        };
        worker.thread.section(
            readers.nested,
            published.pointer(),
            |element| half(element, now + length / 2),
            |element| half(element, now + length),
        );
        made += 1;
        let gap = random.length(readers.gap);
        let until = clock.now() + gap;
        if gap < SHORTEST_SLEEP_NS {
            worker.spin_until(until);
        } else {
            worker.sleep_until(until);
        }
    }
    Ok(())
}
