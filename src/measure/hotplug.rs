//! Virtual CPUs going offline and coming back, one transition at a time.

use super::subject::{Subject, SubjectThread};
use super::threads::Worker;
use crate::error::Result;
use crate::random::Purpose;
use crate::workload::Hotplug;
use std::sync::PoisonError;

pub(super) fn run<S: Subject>(worker: &mut Worker<'_, '_, S>, hotplug: &Hotplug, seed: u64) -> Result<()> {
    let run = worker.run;
    let mut random = worker.stream(Purpose::Hotplug, seed);
    let mut made = 0u64;
    loop {
        let at = worker.clock.now() + random.length(hotplug.interval).max(1);
        worker.sleep_until(at);
        let over = (hotplug.transitions > 0 && made == hotplug.transitions)
            || (hotplug.duration_ns > 0 && worker.clock.now() >= hotplug.duration_ns);
        if over || run.stopped() {
            return Ok(());
        }
        made += 1;
        let mut online = run.online.lock().unwrap_or_else(PoisonError::into_inner);
        let cpus = hotplug.cpus.resolve(run.maxcpus);
        let chosen = cpus[random.below(cpus.len() as u64) as usize];
        let was = online[chosen as usize];
        // The last online CPU stays.
        if was && online.iter().filter(|&&cpu| cpu).count() == 1 {
            continue;
        }
        // Out of sight, since a thread that goes on running would keep its own CPU from going offline.
        let turned = worker
            .thread
            .away(|| run.subject.set_online(chosen, !was, &run.stop))?;
        online[chosen as usize] = was != turned;
    }
}
