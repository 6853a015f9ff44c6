//! This crate's own engine, by registered handles.
//!
//! The engine is opened for the run and closed after it, so that its counters and records are the run's. The
//! records of grace periods carry the engine's time, which began earlier: they are moved to the run's.

use super::{Abilities, Callback, Cookie, Describe, Remains, Subject, SubjectThread};
use crate::config::Config;
use crate::error::Result;
use crate::host::{self, Engine, Handle, HostFacts, ReadGuard, Remaining};
use crate::measure::published::Element;
use crate::stats::Stall;
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use crate::tree::seq;
use std::time::{Duration, Instant};

/// Longest wait for what is under way when a run is over. Its readers are gone by then.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// An engine of its own for each run.
pub struct Treercu {
    engine: Engine,
    preemptible: bool,
    /// One instant on both clocks: the engine's, in ns, and the monotonic one.
    origin: (u64, Instant),
}

impl Treercu {
    pub fn open(config: &Config, options: &host::Options) -> Result<Self> {
        let engine = Engine::new(config, options)?;
        Ok(Treercu {
            preemptible: config.tunables().preempt.is_preemptible(),
            origin: (engine.now_ns(), Instant::now()),
            engine,
        })
    }
}

impl Describe for Treercu {
    fn facts(&self, facts: &mut HostFacts) {
        facts.fence = Some(self.engine.fence_name().to_owned());
        let late = self.engine.tick_lateness();
        facts.tick_lateness = (late.ticks > 0).then_some(late);
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let forgotten = self.engine.forgotten_grace_periods();
        if forgotten > 0 {
            notes.push(format!(
                "grace_periods lacks the records of the first {forgotten} grace periods; the counters have them"
            ));
        }
        notes.extend(self.engine.stalls().iter().map(ToString::to_string));
        let panics = self.engine.panics().count;
        if panics > 0 {
            notes.push(format!("{panics} callbacks panicked"));
        }
        notes
    }
}

impl Subject for Treercu {
    type Thread<'s> = Thread<'s>;

    fn abilities(&self) -> Abilities {
        Abilities {
            poll: true,
            full_cookies: true,
            barrier: true,
            cpus: true,
            hurry: true,
            trace: true,
        }
    }

    fn register(&self, cpu: u32) -> Result<Thread<'_>> {
        Ok(Thread {
            handle: self.engine.register_on(cpu)?,
            subject: self,
        })
    }

    fn kick(&self) {
        self.engine.kick_waiters();
    }

    fn set_online(&self, cpu: u32, online: bool, stop: &AtomicBool) -> Result<bool> {
        if online {
            self.engine.cpu_online(cpu).map(|()| true)
        } else {
            Ok(self.engine.cpu_offline_unless(cpu, stop)?.is_some())
        }
    }

    fn close(self, start: Option<Instant>) -> Result<Remains> {
        let counters = self.engine.counters();
        let mut grace_periods = self.engine.take_grace_periods();
        let cpu = self.engine.thread_cpu();
        let mut trace = self.engine.take_trace();
        self.engine.close(Remaining::Drop, CLOSE_DEADLINE)?;
        let (engine_ns, instant) = self.origin;
        let began = start.map_or(engine_ns, |start| {
            engine_ns + start.saturating_duration_since(instant).as_nanos() as u64
        });
        for column in [&mut grace_periods.start_ns, &mut grace_periods.end_ns] {
            column.iter_mut().for_each(|ns| *ns -= began as i64);
        }
        if let Some(trace) = &mut trace {
            trace.begin_at(began);
        }
        let stalls = self.engine.stalls().into_iter().map(|host| Stall {
            at_ns: host.stall.at_ns.saturating_sub(began),
            ..host.stall
        });
        Ok(Remains {
            counters,
            grace_periods,
            stalls: stalls.collect(),
            trace,
            gp_kthread_cpu_ns: Some(cpu.gp_ns),
            tick_cpu_ns: Some(cpu.tick_ns),
        })
    }
}

/// A registered thread.
pub struct Thread<'s> {
    handle: Handle,
    subject: &'s Treercu,
}

impl Thread<'_> {
    /// The last grace period that is over, numbered as while it ran.
    fn last_over(&self) -> u64 {
        (self.subject.engine.gp_seq() & !seq::SEQ_MASK).wrapping_sub(seq::SEQ_GP - 1)
    }
}

impl SubjectThread for Thread<'_> {
    fn section(
        &mut self,
        nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    ) {
        let outer = self.handle.read_lock();
        // SAFETY: inside a section; besides, elements stay until the run is over.
        let element = unsafe { &*pointer.load(Ordering::Acquire) };
        let inner: Vec<ReadGuard<'_>> = (0..nested).map(|_| self.handle.read_lock()).collect();
        first(element);
        drop(inner);
        second(element);
        drop(outer);
        self.quiescent();
    }

    fn quiescent(&mut self) {
        self.handle.quiescent();
    }

    fn away<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.handle.outside(f)
    }

    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        let served = self.handle.synchronize_cancellable(stop)?;
        Ok(served.map(|served| served.gp_seq))
    }

    fn synchronize_expedited(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        let served = self.handle.synchronize_expedited_cancellable(stop)?;
        Ok(served.map(|served| served.gp_seq))
    }

    fn start_poll(&mut self, full: bool) -> Result<Cookie> {
        Ok(if full {
            Cookie::Full(self.handle.start_poll_full()?)
        } else {
            Cookie::Plain(self.handle.start_poll()?)
        })
    }

    fn poll(&mut self, cookie: Cookie) -> Option<u64> {
        let over = match cookie {
            Cookie::Plain(cookie) => self.handle.poll_state(cookie),
            Cookie::Full(cookie) => self.handle.poll_state_full(cookie),
        };
        over.then(|| self.last_over())
    }

    fn barrier(&mut self, stop: &AtomicBool) -> Result<bool> {
        Ok(self.handle.barrier_cancellable(stop)?.is_some())
    }

    fn call(&mut self, callback: Callback, hurry: bool) -> Result<()> {
        let invoke = self.subject.invocation(callback, hurry);
        if hurry {
            self.handle.call_hurry(invoke)
        } else {
            self.handle.call(invoke)
        }
    }
}

impl Treercu {
    /// What is queued for a callback of a workload.
    fn invocation(&self, callback: Callback, hurry: bool) -> impl FnOnce() + Send + 'static + use<> {
        // Only who posts itself again keeps the engine.
        let engine = callback.posts_again().then(|| self.engine.clone());
        let preemptible = self.preemptible;
        move || {
            if let (Some(again), Some(engine)) = (callback.invoke(), engine) {
                post_again(&engine, again, hurry, preemptible);
            }
        }
    }
}

/// On an engine thread, from a callback. An engine that is closing refuses, and the callback is gone.
fn post_again(engine: &Engine, callback: Callback, hurry: bool, preemptible: bool) {
    let more = callback.posts_again().then(|| engine.clone());
    let invoke = move || {
        if let (Some(again), Some(engine)) = (callback.invoke(), more) {
            post_again(&engine, again, hurry, preemptible);
        }
    };
    let _ = if hurry {
        engine.call_hurry(invoke)
    } else {
        engine.call(invoke)
    };
    if !preemptible {
        // The engine's thread passes no quiescent state that the tree would wait for.
        engine.detach();
    }
}
