//! CPUs that are taken offline one after the other. The task is a caller of `synchronize_rcu()` that between two calls
//! does what they were for.

use super::draw;
use super::hotplug::TRANSITION_NS;
use crate::sim::kernel::Kernel;
use crate::sim::observe::Observer;
use crate::sim::random::{Purpose, Stream};
use crate::sim::task::{Next, RunMode, SyncPhase, TaskId};
use crate::workload::{HotplugSweep, Part, Placement, SyncCallKind, SyncFlood};
use std::collections::VecDeque;
use std::rc::Rc;

/// How the task calls: one call after the other, until there is nothing left to do.
pub(super) static WAITS: SyncFlood = SyncFlood {
    tasks: 1,
    calls: 0,
    duration_ns: 0,
    placement: Placement::Spread,
    think_ns: 0,
    start_skew_ns: 0,
    interval_ns: 0,
    kind: SyncCallKind::Sync,
};
/// While another task has a CPU on its way offline, ns.
const LOCK_RETRY_NS: u64 = 100_000;

/// A transition that is still to be made.
#[derive(Debug, Clone, Copy)]
struct Transition {
    cpu: u32,
    up: bool,
}

/// What is left of a sweep.
#[derive(Debug)]
pub(in crate::sim) struct Sweep {
    part: u32,
    plan: VecDeque<Transition>,
    /// The calls of the first transition are counted in `waits_left`.
    announced: bool,
    waits_left: u64,
    /// Hundredths of a call that the transitions so far have not used.
    spare_percent: u64,
    /// CPU that is on its way offline.
    waiting_for: Option<u32>,
    random: Stream,
}

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_sweep(&mut self, sweep: &HotplugSweep, part: u32, seed: u64, number: &mut u32) {
        let online = self.hw.tun.maxcpus;
        let swept = sweep.swept(online);
        let stays = (0..online)
            .find(|cpu| !swept.contains(cpu))
            .expect("one CPU stays online");
        let (_, due) = self
            .starts(1, Placement::Cpu(stays), 0, part, seed)
            .next()
            .expect("one task");
        let id = self.add_sync_caller(stays, due, part, number);
        let down = swept.iter().map(|&cpu| Transition { cpu, up: false });
        let up = swept.iter().map(|&cpu| Transition { cpu, up: true });
        let plan = if sweep.back {
            down.chain(up).collect()
        } else {
            down.collect()
        };
        let state = Sweep {
            part,
            plan,
            announced: false,
            waits_left: 0,
            spare_percent: 0,
            waiting_for: None,
            random: Stream::new(seed, Purpose::Hotplug, u64::from(part)),
        };
        self.sweeps.insert(id, state);
    }

    /// What a task does between two calls if it sweeps. `None`: it makes a call.
    pub(super) fn next_of_sweep(&mut self, id: TaskId, cpu: u32) -> Option<Next> {
        let mut sweep = self.sweeps.remove(&id)?;
        let next = self.sweep_step(id, cpu, &mut sweep);
        self.sweeps.insert(id, sweep);
        next
    }

    fn sweep_step(&mut self, id: TaskId, cpu: u32, sweep: &mut Sweep) -> Option<Next> {
        let parts = Rc::clone(&self.parts);
        let Part::HotplugSweep(part) = &parts[sweep.part as usize] else {
            unreachable!("a sweep belongs to its part")
        };
        if let Some(dead) = sweep.waiting_for {
            if self.hw.cpus[dead as usize].online {
                return Some(Next::Block);
            }
            sweep.waiting_for = None;
            self.hotplug_task = None;
            self.take_over(cpu, dead);
        }
        let Some(&next) = sweep.plan.front() else {
            if self.caller(id).phase != SyncPhase::Done {
                self.caller(id).phase = SyncPhase::Done;
                self.task_is_done(true);
            }
            return Some(Next::Block);
        };
        if !std::mem::replace(&mut sweep.announced, true) {
            let percent = match next.up {
                true => part.waits_up_percent,
                false => part.waits_down_percent,
            };
            let due = sweep.spare_percent + percent;
            (sweep.waits_left, sweep.spare_percent) = (due / 100, due % 100);
        }
        if sweep.waits_left > 0 {
            sweep.waits_left -= 1;
            return None;
        }
        if self.hotplug_task.is_some() {
            self.sleep_until(id, cpu, self.hw.now + LOCK_RETRY_NS);
            return Some(Next::Block);
        }
        sweep.plan.pop_front();
        sweep.announced = false;
        let here = self.hw.cpus[next.cpu as usize].online;
        match (next.up, here) {
            (true, false) => self.bring_up(next.cpu),
            (false, true) => {
                sweep.waiting_for = Some(next.cpu);
                self.hotplug_task = Some(id);
                self.hw.counters.cpus_offlined += 1;
                self.take_down(next.cpu);
            }
            // Another part of the workload was there first.
            _ => {}
        }
        let other = draw(part.other, &mut sweep.random);
        Some(Next::Burst(TRANSITION_NS + other, RunMode::Kernel))
    }
}
