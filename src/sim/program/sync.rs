//! Callers of `synchronize_rcu()`, pollers of grace-period cookies, callers of `rcu_barrier()`.

use crate::sim::cpu::Irq;
use crate::sim::kernel::{Event, Kernel, gp_number};
use crate::sim::observe::{Observer, Sight};
use crate::sim::task::{Next, Program, RunMode, SchedClass, SyncCaller, SyncPhase, TaskId};
use crate::stats::Call;
use crate::tree::waiters::Waiter;
use crate::tree::world::World;
use crate::tree::{Route, SyncCall, seq};
use crate::workload::{Part, SyncCallKind, SyncFlood};
use std::sync::atomic::{AtomicBool, Ordering};

impl<O: Observer> Kernel<'_, '_, O> {
    pub(super) fn start_sync_flood(
        &mut self,
        flood: &SyncFlood,
        part: u32,
        seed: u64,
        number: &mut u32,
        cancel: &AtomicBool,
    ) {
        self.hw.tasks.reserve_exact(flood.tasks as usize);
        self.hw.callers.reserve_exact(flood.tasks as usize);
        for (cpu, due) in self.starts(flood.tasks, flood.placement, flood.start_skew_ns, part, seed) {
            if number.is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
                return;
            }
            self.add_sync_caller(cpu, due, part, number);
        }
    }

    /// A task that calls, from that time on.
    pub(super) fn add_sync_caller(&mut self, cpu: u32, due: u64, part: u32, number: &mut u32) -> TaskId {
        let caller = SyncCaller {
            waiter: Waiter::new(self.hw.tasks.len() as u64),
            phase: SyncPhase::Call,
            number: *number,
            part,
            first_due: due,
            calls_made: 0,
            start_ns: 0,
            start_cpu: cpu,
            released_by: None,
            ticket: 0,
            direct: false,
        };
        let index = self.hw.callers.len() as u32;
        self.hw.callers.push(caller);
        let id = self.add_task(Program::Sync(index), cpu, SchedClass::Other, false);
        *number += 1;
        self.live += 1;
        self.starts.push(id);
        id
    }

    /// All callers are there: have the calendar hold the start of the first.
    pub(super) fn schedule_starts(&mut self) {
        let mut starts = std::mem::take(&mut self.starts);
        starts.sort_by_key(|&id| std::cmp::Reverse((self.caller(id).first_due, id)));
        self.starts = starts;
        self.schedule_next_start();
    }

    fn schedule_next_start(&mut self) {
        if let Some(&next) = self.starts.last() {
            let at = self.caller(next).first_due;
            self.hw.push(at, Event::Start);
        }
    }

    /// The callers whose time has come begin, each by the end of a sleep on its CPU.
    pub(in crate::sim) fn start_callers(&mut self) {
        let now = self.hw.now;
        while let Some(&id) = self.starts.last()
            && self.caller(id).first_due <= now
        {
            self.starts.pop();
            let cpu = self.hw.tasks[id as usize].cpu;
            self.irq_arrives(cpu, Irq::Sleep(id));
        }
        self.schedule_next_start();
    }

    fn flood(&self, part: u32) -> &SyncFlood {
        match &self.parts[part as usize] {
            Part::SyncFlood(flood) => flood,
            Part::HotplugSweep(_) => &super::sweep::WAITS,
            _ => unreachable!("a sync caller belongs to a sync flood"),
        }
    }

    /// What its calls come to.
    fn kind_of(&self, part: u32) -> SyncCallKind {
        self.flood(part).kind.in_force(&self.hw.tun)
    }

    fn caller_index(&self, id: TaskId) -> usize {
        match self.hw.tasks[id as usize].program {
            Program::Sync(index) => index as usize,
            _ => unreachable!("asked of a sync caller"),
        }
    }

    pub(super) fn caller(&mut self, id: TaskId) -> &mut SyncCaller {
        let index = self.caller_index(id);
        &mut self.hw.callers[index]
    }

    pub(super) fn next_of_sync(&mut self, id: TaskId, cpu: u32) -> Next {
        let released = self.caller(id).released_by.is_some();
        match self.caller(id).phase {
            SyncPhase::Done => Next::Block,
            SyncPhase::Call => self.sync_call(id, cpu),
            SyncPhase::Entering => {
                let call = self.entering.remove(&id).expect("a call is being entered");
                self.sync_enter(id, cpu, call)
            }
            SyncPhase::Expedited => self.next_of_expedited(id, cpu),
            SyncPhase::InCall if released => {
                let released_by = self.caller(id).released_by.take().expect("released");
                self.sync_return(id, gp_number(released_by.get()))
            }
            SyncPhase::InCall => Next::Block,
            SyncPhase::Polling => {
                let done = self.rcu.poll_state(self.caller(id).ticket);
                self.poll(id, cpu, done)
            }
            SyncPhase::PollingFull => {
                let cookie = self.full_cookies[&id];
                let done = self.rcu.poll_state_full(cookie);
                self.poll(id, cpu, done)
            }
        }
    }

    fn sync_call(&mut self, id: TaskId, cpu: u32) -> Next {
        if let Some(next) = self.next_of_sweep(id, cpu) {
            return next;
        }
        let now = self.hw.now;
        let (part, first_due, made) = {
            let caller = self.caller(id);
            (caller.part, caller.first_due, u64::from(caller.calls_made))
        };
        let flood = self.flood(part);
        let (calls, until, kind) = (flood.calls, flood.duration_ns, flood.kind.in_force(&self.hw.tun));
        let open_due =
            (flood.interval_ns > 0).then(|| first_due.saturating_add(made.saturating_mul(flood.interval_ns)));
        let due = open_due.unwrap_or(first_due);
        let out_of_time = until > 0 && now.max(due) >= until;
        if out_of_time || (calls > 0 && made == calls) {
            self.caller(id).phase = SyncPhase::Done;
            self.task_is_done(true);
            return Next::Block;
        }
        if now < due {
            self.sleep_until(id, cpu, due);
            return Next::Block;
        }
        if self.in_flight == 0 {
            // Nobody was waiting until now: the clock of stalled calls starts here.
            self.hw.last_progress = now;
        }
        self.in_flight += 1;
        let rcu = self.rcu;
        self.begin_step(cpu);
        let waiter = self.caller(id).waiter.clone();
        let call = (kind == SyncCallKind::Sync).then(|| rcu.sync_begin(waiter, &mut self.hw));
        let caller = self.caller(id);
        caller.released_by = None;
        caller.start_ns = open_due.unwrap_or(now);
        caller.start_cpu = cpu;
        caller.calls_made += 1;
        let direct = call.as_ref().is_some_and(|call| call.route() == Route::Direct);
        caller.direct = direct;
        self.see(Sight::SyncBegin {
            task: id,
            cpu,
            direct,
            kind,
        });
        if kind == SyncCallKind::Expedited {
            return self.expedited_call(id, cpu);
        }
        if let Some(call) = call {
            return self.sync_enter(id, cpu, call);
        }
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let (phase, ticket) = match kind {
            SyncCallKind::Poll => (SyncPhase::Polling, rcu.start_poll(ctx, &mut self.hw)),
            SyncCallKind::PollFull => {
                let cookie = rcu.start_poll_full(ctx, &mut self.hw);
                self.full_cookies.insert(id, cookie);
                (SyncPhase::PollingFull, 0)
            }
            SyncCallKind::Barrier | SyncCallKind::Sync | SyncCallKind::Expedited => {
                let waiter = self.caller(id).waiter.clone();
                rcu.barrier(waiter, &mut self.hw);
                (SyncPhase::InCall, 0)
            }
        };
        self.caller(id).ticket = ticket;
        self.caller(id).phase = phase;
        let cost = self.end_step() + self.hw.machine.sync_entry_ns;
        Next::Burst(cost, RunMode::Kernel)
    }

    /// `synchronize_rcu()` up to where it blocks, in one go or step by step.
    fn sync_enter(&mut self, id: TaskId, cpu: u32, mut call: SyncCall) -> Next {
        let step_ns = self.hw.machine.srs_step_ns;
        let rcu = self.rcu;
        let direct = call.route() == Route::Direct;
        if !direct {
            // One step, in which the callback is queued.
            let callback = self.hw.next_callback;
            self.hw.next_callback += 1;
            self.caller(id).ticket = callback;
            self.hw.counters.callbacks_queued += 1;
        }
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let mut entered = rcu.sync_step(&mut call, ctx, &mut self.hw);
        while step_ns == 0 && !entered {
            entered = rcu.sync_step(&mut call, ctx, &mut self.hw);
        }
        let mut cost = self.end_step();
        if !direct {
            let callback = self.caller(id).ticket;
            self.see(Sight::CallbackQueued { cpu, id: callback });
        }
        if entered {
            cost += self.hw.machine.sync_entry_ns;
            self.hw.counters.direct_wakes += u64::from(direct);
            self.caller(id).phase = SyncPhase::InCall;
        } else {
            cost += step_ns;
            self.entering.insert(id, call);
            self.caller(id).phase = SyncPhase::Entering;
        }
        Next::Burst(cost, RunMode::Kernel)
    }

    /// A poller looks once a jiffy.
    fn poll(&mut self, id: TaskId, cpu: u32, done: bool) -> Next {
        if done {
            // The last normal grace period that is over, numbered as while it ran; a cookie is done while the
            // kthread still cleans up. (Expedited ones may have made it done before there is any: then the
            // number is that of a grace period just before boot.)
            let now = self.rcu.gp_seq();
            let over = if seq::state(now) != 0 && self.rcu.gp_is_ending() {
                now
            } else {
                (now & !seq::SEQ_MASK).wrapping_sub(seq::SEQ_GP - 1)
            };
            return self.sync_return(id, over);
        }
        // The grace period that was asked for may have shared its polled number with an expedited one that ended
        // it, and the cookie needs the next number. Nobody else may ever want another grace period.
        if self.rcu.exp_seq() != 0 && !self.rcu.gp_in_progress() {
            self.begin_step(cpu);
            let ctx = self.ctx(cpu, false);
            let rcu = self.rcu;
            rcu.start_poll(ctx, &mut self.hw);
            self.end_step();
        }
        let tick_ns = self.hw.tick_ns;
        let at = (self.hw.now / tick_ns + 1) * tick_ns;
        self.sleep_until(id, cpu, at);
        Next::Block
    }

    /// The call returns, after the grace period with this number (while it ran).
    pub(super) fn sync_return(&mut self, id: TaskId, gp_seq: u64) -> Next {
        let now = self.hw.now;
        if self.hw.tracing()
            && self.kind_of(self.hw.callers[self.caller_index(id)].part) == SyncCallKind::Sync
        {
            let waiter = self.caller(id).waiter.clone();
            let cpu = self.hw.tasks[id as usize].cpu;
            self.begin_step(cpu);
            let rcu = self.rcu;
            rcu.sync_end(&waiter, &mut self.hw);
            self.end_step();
        }
        self.see(Sight::SyncEnd { task: id });
        let gap = self.hw.machine.caller_gap_ns;
        let caller = self.caller(id);
        let (part, number, start, start_cpu) =
            (caller.part, caller.number, caller.start_ns, caller.start_cpu);
        caller.phase = SyncPhase::Call;
        self.hw.tasks[id as usize].wake_pending = false;
        let (think, closed, kind) = {
            let flood = self.flood(part);
            (flood.think_ns, flood.interval_ns == 0, self.kind_of(part))
        };
        if closed {
            self.caller(id).first_due = now + think;
        }
        self.in_flight -= 1;
        self.calls_done += 1;
        self.hw.last_progress = now;
        if kind != SyncCallKind::Expedited {
            self.count_request(gp_seq);
        }
        let call = Call {
            task: number as i32,
            cpu: start_cpu as i32,
            start_ns: start as i64,
            end_ns: now as i64,
            gp_seq: gp_seq as i64,
        };
        let stream = &mut self.hw.sample_stream;
        self.hw.recorder.record(call, |n| stream.below(n));
        Next::Burst(gap.max(1), RunMode::User)
    }

    /// One more call was released by that grace period. Numbers grow by 4 from one to the next. Callbacks
    /// run as soon as their leaf has recorded the end, which may be before the grace period has its record.
    fn count_request(&mut self, released_by: u64) {
        if released_by == self.rcu.gp_seq() && seq::state(released_by) != 0 {
            self.hw.requests_ahead += 1;
            return;
        }
        let g = &mut self.hw.grace_periods;
        let Some(&first) = g.gp_seq.first() else { return };
        let index = (released_by as i64)
            .wrapping_sub(first)
            .div_euclid(seq::SEQ_GP as i64);
        if let Some(requests) = usize::try_from(index).ok().and_then(|i| g.requests.get_mut(i)) {
            *requests += 1;
        }
    }
}
