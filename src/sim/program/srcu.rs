//! SRCU: updaters of a domain, and its readers, who may sleep inside their sections.

use super::draw;
use crate::sim::kernel::Kernel;
use crate::sim::observe::{Observer, SrcuSight};
use crate::sim::random::{Purpose, Stream};
use crate::sim::srcu::{DomainState, gp_number, gp_place};
use crate::sim::task::{Next, Program, RunMode, SchedClass, TaskId};
use crate::srcu::Index;
use crate::stats::Call;
use crate::tree::seq;
use crate::tree::waiters::Waiter;
use crate::workload::{Part, SrcuCallKind, SrcuFlood};
use std::rc::Rc;

/// Shorter times are spent running.
const SHORTEST_SLEEP_NS: u64 = 1_000;

/// Where an updater is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Call,
    /// About to block, or to return.
    InCall,
    Polling,
    /// Has looked in vain, and sleeps until the next jiffy.
    Pausing,
    /// Its callback is queued.
    Called,
    /// In a barrier for the callbacks of all its calls.
    Draining,
    Done,
}

/// One updater.
#[derive(Debug)]
pub(in crate::sim) struct SrcuCaller {
    waiter: Waiter,
    phase: Phase,
    part: u32,
    domain: u32,
    number: u32,
    due: u64,
    calls_made: u64,
    call: SrcuCall,
    cookie: u64,
    /// Place of the grace period that released it.
    pub released: Option<u32>,
}

/// A call under way.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::sim) struct SrcuCall {
    id: u64,
    number: u32,
    cpu: u32,
    start_ns: u64,
}

/// Where a reader is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderPhase {
    Outside,
    /// Has fetched the index.
    Fetched(Index),
    Inside(Index),
}

/// A reader task.
#[derive(Debug)]
pub(in crate::sim) struct SrcuReader {
    part: u32,
    domain: u32,
    phase: ReaderPhase,
    section: u64,
    /// What it did takes CPU time first; then it sleeps so long, ns.
    sleep: u64,
    random: Stream,
}

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_srcu_flood(&mut self, flood: &SrcuFlood, part: u32, seed: u64, number: &mut u32) {
        let domain = self.domains.len() as u32;
        self.domains.push(DomainState::new(part, self.hw.tun.nr_cpus));
        let tasks = flood.tasks + flood.readers;
        for (index, (cpu, at)) in self.starts(tasks, flood.placement, 0, part, seed).enumerate() {
            let index = index as u64;
            let program = if index < flood.tasks {
                let caller = SrcuCaller {
                    waiter: Waiter::new(self.hw.tasks.len() as u64),
                    phase: Phase::Call,
                    part,
                    domain,
                    number: *number,
                    due: at,
                    calls_made: 0,
                    call: SrcuCall::default(),
                    cookie: 0,
                    released: None,
                };
                *number += 1;
                self.live += 1;
                self.srcu_callers.push(caller);
                Program::SrcuCaller(self.srcu_callers.len() as u32 - 1)
            } else {
                Program::SrcuReader(Box::new(SrcuReader {
                    part,
                    domain,
                    phase: ReaderPhase::Outside,
                    section: 0,
                    sleep: 0,
                    random: Stream::new(seed, Purpose::Srcu, u64::from(part) << 32 | index),
                }))
            };
            let id = self.add_task(program, cpu, SchedClass::Other, false);
            self.sleep_until(id, cpu, at);
        }
    }

    pub(super) fn next_of_srcu_caller(&mut self, id: TaskId, index: u32, cpu: u32) -> Next {
        let now = self.hw.now;
        let caller = &mut self.srcu_callers[index as usize];
        let domain = caller.domain;
        match caller.phase {
            Phase::Done => Next::Block,
            Phase::Call => self.srcu_begin(id, index, cpu),
            Phase::InCall => match caller.released.take() {
                Some(place) => self.srcu_return(id, index, place),
                None => Next::Block,
            },
            Phase::Draining => match caller.released.take() {
                Some(_) => {
                    caller.phase = Phase::Done;
                    self.task_is_done(true);
                    Next::Block
                }
                None => Next::Block,
            },
            Phase::Called => {
                let think = self.srcu_flood(self.srcu_callers[index as usize].part).think_ns;
                let caller = &mut self.srcu_callers[index as usize];
                caller.phase = Phase::Call;
                caller.due = now + think;
                Next::Burst(self.hw.machine.caller_gap_ns.max(1), RunMode::User)
            }
            Phase::Polling => {
                let cookie = caller.cookie;
                if self.srcu[domain as usize].poll_state(cookie) {
                    let ended = self.srcu[domain as usize].gp_seq() & !seq::SEQ_MASK;
                    return self.srcu_return(id, index, gp_place(ended));
                }
                self.srcu_callers[index as usize].phase = Phase::Pausing;
                Next::Burst(self.hw.machine.full_barrier_ns.max(1), RunMode::Kernel)
            }
            Phase::Pausing => {
                caller.phase = Phase::Polling;
                let tick_ns = self.hw.tick_ns;
                self.sleep_until(id, cpu, (now / tick_ns + 1) * tick_ns);
                Next::Block
            }
        }
    }

    fn srcu_flood(&self, part: u32) -> &SrcuFlood {
        match &self.parts[part as usize] {
            Part::SrcuFlood(flood) => flood,
            _ => unreachable!("an updater belongs to its domain's part"),
        }
    }

    fn srcu_begin(&mut self, id: TaskId, index: u32, cpu: u32) -> Next {
        let now = self.hw.now;
        let caller = &self.srcu_callers[index as usize];
        let (part, domain, due, made) = (caller.part, caller.domain, caller.due, caller.calls_made);
        let waiter = caller.waiter.clone();
        let flood = self.srcu_flood(part);
        let kind = flood.kind;
        let out_of_time = flood.duration_ns > 0 && now.max(due) >= flood.duration_ns;
        let over = out_of_time || (flood.calls > 0 && made == flood.calls);
        if over {
            if kind != SrcuCallKind::Call || made == 0 {
                self.srcu_callers[index as usize].phase = Phase::Done;
                self.task_is_done(true);
                return Next::Block;
            }
            self.srcu_callers[index as usize].phase = Phase::Draining;
            self.begin_step(cpu);
            self.with_domain(domain, |srcu, world| srcu.barrier(cpu, waiter, world));
            let cost = self.end_step() + self.hw.machine.sync_entry_ns;
            return Next::Burst(cost.max(1), RunMode::Kernel);
        }
        if now < due {
            self.sleep_until(id, cpu, due);
            return Next::Block;
        }
        if self.in_flight == 0 {
            self.hw.last_progress = now;
        }
        self.in_flight += 1;
        self.next_srcu_call += 1;
        let call = SrcuCall {
            id: self.next_srcu_call,
            number: self.srcu_callers[index as usize].number,
            cpu,
            start_ns: now,
        };
        self.see_srcu(domain, SrcuSight::Begin { id: call.id, kind });
        self.begin_step(cpu);
        let mut cookie = 0;
        let phase = match kind {
            SrcuCallKind::Sync => {
                let expedited = self.with_domain(domain, |srcu, world| srcu.synchronize(cpu, waiter, world));
                self.hw.counters.srcu_auto_expedited += u64::from(expedited);
                Phase::InCall
            }
            SrcuCallKind::Expedited => {
                self.with_domain(domain, |srcu, world| {
                    srcu.synchronize_expedited(cpu, waiter, world)
                });
                Phase::InCall
            }
            SrcuCallKind::Barrier => {
                self.with_domain(domain, |srcu, world| srcu.barrier(cpu, waiter, world));
                Phase::InCall
            }
            SrcuCallKind::Poll => {
                cookie = self.with_domain(domain, |srcu, world| srcu.start_poll(cpu, world));
                Phase::Polling
            }
            SrcuCallKind::Call => {
                self.srcu_calls.insert(call.id, call);
                self.with_domain(domain, |srcu, world| srcu.call(cpu, call.id, world));
                Phase::Called
            }
        };
        let cost = self.end_step() + self.hw.machine.sync_entry_ns;
        let caller = &mut self.srcu_callers[index as usize];
        (caller.call, caller.cookie, caller.phase) = (call, cookie, phase);
        caller.calls_made += 1;
        Next::Burst(cost.max(1), RunMode::Kernel)
    }

    /// A call that the updater waited for returns.
    fn srcu_return(&mut self, id: TaskId, index: u32, place: u32) -> Next {
        let now = self.hw.now;
        // It may have come before the task could go to sleep.
        self.hw.tasks[id as usize].wake_pending = false;
        let (part, domain, call) = {
            let caller = &self.srcu_callers[index as usize];
            (caller.part, caller.domain, caller.call)
        };
        self.srcu[domain as usize].sync_end();
        self.see_srcu(domain, SrcuSight::End { id: call.id });
        self.srcu_call_over(call, now, place);
        let think = self.srcu_flood(part).think_ns;
        let caller = &mut self.srcu_callers[index as usize];
        caller.phase = Phase::Call;
        caller.due = now + think;
        Next::Burst(self.hw.machine.caller_gap_ns.max(1), RunMode::User)
    }

    /// A call is over, after the grace period at this place.
    pub(in crate::sim) fn srcu_call_over(&mut self, call: SrcuCall, at: u64, place: u32) {
        self.in_flight -= 1;
        self.calls_done += 1;
        self.hw.last_progress = self.hw.now;
        let call = Call {
            task: call.number as i32,
            cpu: call.cpu as i32,
            start_ns: call.start_ns as i64,
            end_ns: at as i64,
            gp_seq: gp_number(place) as i64,
        };
        let stream = &mut self.hw.sample_stream;
        self.hw.recorder.record(call, |n| stream.below(n));
    }

    pub(super) fn next_of_srcu_reader(&mut self, id: TaskId, cpu: u32) -> Next {
        let program = std::mem::replace(&mut self.hw.tasks[id as usize].program, Program::Noise);
        let Program::SrcuReader(mut task) = program else {
            unreachable!("asked of a reader")
        };
        let parts = Rc::clone(&self.parts);
        let Part::SrcuFlood(flood) = &parts[task.part as usize] else {
            unreachable!("a reader belongs to its domain's part")
        };
        let next = self.srcu_reader_step(id, cpu, &mut task, flood);
        self.hw.tasks[id as usize].program = Program::SrcuReader(task);
        next
    }

    fn srcu_reader_step(&mut self, id: TaskId, cpu: u32, task: &mut SrcuReader, flood: &SrcuFlood) -> Next {
        if task.sleep > 0 {
            let sleep = std::mem::take(&mut task.sleep);
            self.sleep_until(id, cpu, self.hw.now + sleep);
            return Next::Block;
        }
        let srcu = &self.srcu[task.domain as usize];
        // A normal reader's barrier; the others have none to speak of.
        let barrier = if flood.flavour.is_slow_gp() {
            1
        } else {
            self.hw.machine.full_barrier_ns.max(1)
        };
        match task.phase {
            ReaderPhase::Outside => {
                task.phase = ReaderPhase::Fetched(srcu.read_index());
                let held_up = draw(flood.enter, &mut task.random);
                pass_time(task, held_up, true, 1)
            }
            ReaderPhase::Fetched(index) => {
                srcu.read_enter(cpu, index);
                self.next_section += 1;
                task.section = self.next_section;
                self.see_srcu(task.domain, SrcuSight::Enter { id: task.section });
                task.phase = ReaderPhase::Inside(index);
                let length = draw(flood.section, &mut task.random);
                let sleeps = task.random.below(100) < u64::from(flood.sleep_percent);
                pass_time(task, length, sleeps, barrier)
            }
            ReaderPhase::Inside(index) => {
                srcu.read_unlock(cpu, index);
                self.see_srcu(task.domain, SrcuSight::Exit { id: task.section });
                task.phase = ReaderPhase::Outside;
                let gap = draw(flood.gap, &mut task.random);
                pass_time(task, gap, true, barrier)
            }
        }
    }
}

/// `cost` of running, and so long, asleep or running.
fn pass_time(task: &mut SrcuReader, ns: u64, asleep: bool, cost: u64) -> Next {
    if !asleep || ns < SHORTEST_SLEEP_NS {
        return Next::Burst(ns + cost, RunMode::Kernel);
    }
    task.sleep = ns;
    Next::Burst(cost, RunMode::Kernel)
}
