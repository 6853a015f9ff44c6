//! Ticks: their handler, when an idle CPU keeps its tick, and who expires its timers (NO_HZ).

use super::cpu::TIMER_SOFTIRQ;
use super::exec::{FAIR_PERIOD_NS, FAIR_RUNTIME_NS};
use super::kernel::{Event, Hw, Kernel};
use super::observe::{Observer, Sight};
use super::task::{SchedClass, TaskId, TimerId};
use super::workqueue::Item;
use crate::tree::world::{TickHit, World};
use crate::wheel::wheel_expiry;

impl Hw<'_> {
    /// Arms a timer on a CPU's wheel.
    pub(super) fn arm_timer(&mut self, cpu: u32, timer: TimerId, delta: u64) {
        let expiry = wheel_expiry(self.jiffies(), delta);
        self.cpus[cpu as usize].wheel.push((expiry, timer));
        if !self.cpus[cpu as usize].tick_stopped {
            return;
        }
        // From an interrupt of an idle CPU whose tick is off: somebody has to know of it.
        let first = self.cpus[cpu as usize].first_timer();
        if self.pull {
            self.hung.retain(|&(_, owner)| owner != cpu);
            self.hung.extend(first.map(|jiffy| (jiffy, cpu)));
        }
        if !self.pull || self.hierarchy.active_cpus() == 0 {
            let event = &mut self.cpus[cpu as usize].clock_event;
            *event = event.iter().copied().chain(first).min();
        }
    }

    /// Takes a timer off whatever wheel it is on.
    pub(super) fn cancel_timer(&mut self, armed_on: u32, timer: TimerId) {
        self.cpus[armed_on as usize]
            .wheel
            .retain(|&(_, other)| other != timer);
        if self.cpus[armed_on as usize].first_timer().is_none() {
            self.hung.retain(|&(_, owner)| owner != armed_on);
        }
    }
}

impl<O: Observer> Kernel<'_, '_, O> {
    /// Offset of this CPU's ticks against the boundary (`skew_tick`).
    fn skew(&self, cpu: u32) -> u64 {
        if self.hw.tun.skew_tick {
            self.hw.tick_ns / 2 * u64::from(cpu) / u64::from(self.hw.tun.nr_cpus)
        } else {
            0
        }
    }

    /// The tick handler: timers first, then RCU, then the scheduler.
    pub(super) fn handle_tick(&mut self, cpu: u32) {
        self.hw.counters.ticks += 1;
        self.hw.spent += self.hw.machine.tick_handler_ns;
        let jiffies = self.hw.jiffies();
        let c = &mut self.hw.cpus[cpu as usize];
        if c.clock_event.is_some_and(|jiffy| jiffy <= jiffies) {
            c.clock_event = None;
            c.watched_clock = true;
        }
        if c.first_timer().is_some_and(|jiffy| jiffy <= jiffies)
            || self.due_for_others(cpu, jiffies).next().is_some()
        {
            self.hw.cpus[cpu as usize].softirq |= TIMER_SOFTIRQ;
        }
        let hit = self.interrupted(cpu);
        let ctx = self.ctx(cpu, true);
        let rcu = self.rcu;
        let curr = self.hw.cpus[cpu as usize].curr;
        let mut reader = self.take_reader(curr);
        rcu.tick(ctx, hit, reader.as_deref_mut(), &mut self.hw);
        self.put_reader(curr, reader);
        self.see(Sight::Tick {
            cpu,
            user: hit == TickHit::User,
        });
        let slice_over = self.slice_used(cpu) >= self.hw.machine.slice_ns;
        let curr = self.hw.cpus[cpu as usize].curr;
        let fifo_runs = curr.is_some_and(|id| self.hw.tasks[id as usize].class == SchedClass::Fifo);
        let now = self.hw.now;
        let c = &mut self.hw.cpus[cpu as usize];
        c.need_resched |= if fifo_runs {
            !c.queue.is_empty() && now - c.fair_from >= FAIR_PERIOD_NS - FAIR_RUNTIME_NS
        } else {
            (curr.is_some() && !c.queue.is_empty() && (c.resched_lazy || slice_over))
                || (c.fifo.is_some() && now - c.slice_from >= FAIR_RUNTIME_NS)
        };
        self.program_tick(cpu);
    }

    /// Idle CPUs whose first timer is due and for this CPU to expire.
    fn due_for_others(&self, cpu: u32, jiffies: u64) -> impl Iterator<Item = u32> {
        let hierarchy = &self.hw.hierarchy;
        self.hw.hung.iter().filter_map(move |&(jiffy, owner)| {
            // Nobody active: this is the clock event of the last CPU that went idle. A timer that is a whole
            // jiffy late is anybody's: whoever is responsible becomes active after each tick and idle before
            // the next one.
            let ours = owner != cpu
                && (jiffy < jiffies
                    || hierarchy
                        .responsible_for(owner)
                        .is_none_or(|active| active == cpu));
            (jiffy <= jiffies && ours).then_some(owner)
        })
    }

    /// The timer softirq: this CPU's due timers, and those of idle CPUs that it is responsible for.
    pub(super) fn expire_timers(&mut self, cpu: u32) {
        let jiffies = self.hw.jiffies();
        let owners: Vec<u32> = std::iter::once(cpu)
            .chain(self.due_for_others(cpu, jiffies))
            .collect();
        for owner in owners {
            let wheel = &mut self.hw.cpus[owner as usize].wheel;
            let due: Vec<TimerId> = wheel
                .extract_if(.., |(jiffy, _)| *jiffy <= jiffies)
                .map(|(_, timer)| timer)
                .collect();
            if owner != cpu || self.hw.cpus[owner as usize].tick_stopped {
                self.hw.hung.retain(|&(_, hung)| hung != owner);
                if let Some(jiffy) = self.hw.cpus[owner as usize].first_timer() {
                    self.hw.hung.push((jiffy, owner));
                }
            }
            for timer in due {
                match timer {
                    TimerId::GpTimeout => {
                        self.gp_timed_out = true;
                        self.hw.wake_soon(self.hw.gp_task);
                    }
                    TimerId::ExpTimeout(task) => self.exp_timed_out(task),
                    TimerId::Nocb(group) => {
                        let rcu = self.rcu;
                        rcu.nocb_timer(group, &mut self.hw);
                    }
                    TimerId::NocbPoll(group) => {
                        let task = self.hw.nocb.as_ref().map(|nocb| nocb.rcuog(group));
                        task.into_iter().for_each(|task| self.hw.wake_soon(task));
                    }
                    TimerId::SrcuGp(domain) => self.hw.queue_item(cpu, Item::SrcuGp(domain)),
                    TimerId::SrcuCallbacks(domain, of) => {
                        let state = &mut self.domains[domain as usize];
                        state.cb_timed[of as usize] = false;
                        if !std::mem::replace(&mut state.cb_queued[of as usize], true) {
                            self.hw.queue_item(of, Item::SrcuCallbacks(domain, of));
                        }
                    }
                }
            }
        }
    }

    /// Arms a timer on a CPU's wheel.
    pub(super) fn arm_timer(&mut self, cpu: u32, timer: TimerId, delta: u64) {
        self.hw.arm_timer(cpu, timer, delta);
    }

    /// Takes a timer off whatever wheel it is on.
    pub(super) fn cancel_timer(&mut self, armed_on: u32, timer: TimerId) {
        self.hw.cancel_timer(armed_on, timer);
    }

    /// At every idle entry and after every interrupt of an idle CPU: does it keep its tick?
    pub(super) fn idle_tick(&mut self, cpu: u32) {
        if self.hw.tun.periodic_ticks {
            return self.program_tick(cpu);
        }
        let jiffies = self.hw.jiffies();
        let needed = self.rcu.needs_cpu(cpu) || self.hw.cpus[cpu as usize].softirq != 0;
        let stopped = self.hw.cpus[cpu as usize].tick_stopped;
        let keep = needed || (!stopped && (self.timer_is_near(cpu, jiffies) || self.governor_keeps(cpu)));
        if !keep && !stopped {
            self.stop_tick(cpu);
        }
        if std::mem::take(&mut self.hw.cpus[cpu as usize].watched_clock) && stopped {
            self.watch_clock(cpu);
        }
        // A CPU whose tick was stopped before a callback came ticks again, but stays idle for others.
        self.hw.cpus[cpu as usize].tick_on = keep;
        self.program_tick(cpu);
    }

    /// A timer is due within one tick, so that stopping the tick is not worth it.
    fn timer_is_near(&self, cpu: u32, jiffies: u64) -> bool {
        let near = |jiffy: u64| jiffy <= jiffies + 1;
        self.hw.cpus[cpu as usize].first_timer().is_some_and(near)
            || (self.hw.pull
                && self.hw.hierarchy.active_cpus() == 1
                && self.hw.hung.iter().any(|&(jiffy, _)| near(jiffy)))
    }

    fn governor_keeps(&mut self, cpu: u32) -> bool {
        let p = self.hw.machine.governor_keeps_tick;
        self.hw.cpus[cpu as usize]
            .governor
            .as_mut()
            .is_some_and(|stream| stream.chance(p))
    }

    fn stop_tick(&mut self, cpu: u32) {
        self.hw.cpus[cpu as usize].tick_stopped = true;
        if self.hw.pull {
            self.hw.hierarchy.deactivate(cpu);
            if let Some(jiffy) = self.hw.cpus[cpu as usize].first_timer() {
                self.hw.hung.push((jiffy, cpu));
            }
        }
        self.watch_clock(cpu);
    }

    /// The last CPU to go idle watches the clock for all. That event stays even when others become
    /// active later; it ends when this CPU leaves idle. Without migration each watches its own timers.
    fn watch_clock(&mut self, cpu: u32) {
        if !self.hw.pull {
            self.hw.cpus[cpu as usize].clock_event = self.hw.cpus[cpu as usize].first_timer();
        } else if self.hw.hierarchy.active_cpus() == 0 {
            self.hw.cpus[cpu as usize].clock_event = self.hw.hung.iter().map(|&(jiffy, _)| jiffy).min();
        }
    }

    /// The CPU leaves the idle loop: it gets its tick back at the next boundary.
    pub(super) fn leave_idle(&mut self, cpu: u32) {
        let pull = self.hw.pull;
        let c = &mut self.hw.cpus[cpu as usize];
        c.tick_on = true;
        c.clock_event = None;
        if std::mem::replace(&mut c.tick_stopped, false) && pull {
            self.hw.hierarchy.activate(cpu);
            self.hw.hung.retain(|&(_, owner)| owner != cpu);
        }
        self.program_tick(cpu);
    }

    /// Has the calendar hold the CPU's next tick or clock event, and only that.
    fn program_tick(&mut self, cpu: u32) {
        let (now, tick_ns, skew) = (self.hw.now, self.hw.tick_ns, self.skew(cpu));
        let c = &mut self.hw.cpus[cpu as usize];
        let next_tick = c
            .tick_on
            .then(|| (now.saturating_sub(skew) / tick_ns + 1) * tick_ns + skew);
        // Before the first skewed boundary of the run the next one is jiffy 0's.
        let next_tick = next_tick.map(|at| if now < skew { skew } else { at });
        let clock_event = c.clock_event.map(|jiffy| (jiffy * tick_ns + skew).max(now));
        let at = match (next_tick, clock_event) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if at == c.programmed {
            return;
        }
        c.programmed = at;
        c.gen_tick = c.gen_tick.wrapping_add(1);
        let generation = c.gen_tick;
        if let Some(at) = at {
            self.hw.push(at, Event::Tick { cpu, generation });
        }
    }

    /// Has the calendar hold the end of a task's sleep.
    pub(super) fn sleep_until(&mut self, task: TaskId, cpu: u32, at: u64) {
        self.hw.push(
            at,
            Event::Irq {
                cpu,
                irq: super::cpu::Irq::Sleep(task),
            },
        );
    }
}
