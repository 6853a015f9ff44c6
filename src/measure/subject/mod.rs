//! What is measured: an RCU, or another way to wait for readers, behind one small trait.
//!
//! The calls are monomorphised, so that a subject's own fast paths stay visible to the compiler. Where a
//! subject has no such thing as a call asks for, it says so in [`Abilities`] and the run is refused
//! before any thread starts.
//!
//! | file | subject | `synchronize` |
//! |---|---|---|
//! | `treercu.rs` | this crate's engine | its `synchronize_rcu()` |
//! | `crossbeam.rs` | crossbeam-epoch | a deferred function and flushes until it has run |
//! | `seize.rs` | seize | a retired batch, until it is reclaimed |
//! | `liburcu.rs` | liburcu, flavours memb and qsbr | its `synchronize_rcu()` |

mod crossbeam;
mod liburcu;
mod seize;
mod treercu;

pub(super) use crossbeam::CrossbeamEpoch;
pub(super) use liburcu::{Flavour, Liburcu};
pub(super) use seize::Seize;
pub(super) use treercu::Treercu;

use super::published::Element;
use crate::error::Result;
use crate::host::HostFacts;
use crate::stats::{Counters, GracePeriods, Stall};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::trace::Trace;
use crate::tree::FullCookie;
use std::sync::Arc;
use std::time::Instant;

/// What a subject can do besides protecting readers and waiting for them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Abilities {
    /// Polled grace periods (`start_poll`, `poll`); full cookies only with `full_cookies`.
    pub poll: bool,
    /// Full cookies.
    pub full_cookies: bool,
    /// A wait for all callbacks queued before.
    pub barrier: bool,
    /// CPUs that threads belong to and that go offline and come back.
    pub cpus: bool,
    /// `call_rcu_hurry()` beside `call_rcu()`.
    pub hurry: bool,
    /// Trace events.
    pub trace: bool,
}

/// An RCU under measurement. Shared by all threads of a run.
pub(super) trait Subject: Sync + Sized {
    /// What a registered thread holds.
    type Thread<'s>: SubjectThread
    where
        Self: 's;

    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// Registers the calling thread, on this CPU where there are CPUs.
    fn register(&self, cpu: u32) -> Result<Self::Thread<'_>>;

    /// Every blocked call looks at its stop flag again.
    fn kick(&self) {}

    /// Takes a CPU offline or brings it back. False: `stop` came first, and it stays as it is.
    fn set_online(&self, _cpu: u32, _online: bool, _stop: &AtomicBool) -> Result<bool> {
        unreachable!("asked only of subjects with CPUs")
    }

    /// The run, which began at `start`, is over and no thread is registered any more.
    fn close(self, start: Option<Instant>) -> Result<Remains>;
}

/// What a poller polls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cookie {
    Plain(u64),
    Full(FullCookie),
}

/// What a subject leaves to the run.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Its own counters; callbacks are counted by the run.
    pub counters: Counters,
    pub grace_periods: GracePeriods,
    pub stalls: Vec<Stall>,
    pub trace: Option<Trace>,
    /// CPU time of its own threads, ns.
    pub gp_kthread_cpu_ns: Option<u64>,
    pub tick_cpu_ns: Option<u64>,
}

/// A registered thread.
pub(super) trait SubjectThread {
    /// One read-side section: enters `nested + 1` levels, loads the pointer, runs the first half, leaves the
    /// inner levels, runs the second half on the same element, leaves.
    fn section(
        &mut self,
        nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    );

    /// Passes a quiescent state, where the subject wants to be told.
    fn quiescent(&mut self) {}

    /// Runs `f` out of the subject's sight, as in user mode or asleep.
    fn away<R>(&mut self, f: impl FnOnce() -> R) -> R {
        f()
    }

    /// Waits until every section that runs now is over. Gives the number of the grace period (0: not
    /// numbered); `None`: `stop` came first.
    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>>;

    /// The same in the fastest way there is, for those that have two ways.
    fn synchronize_expedited(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        self.synchronize(stop)
    }

    /// A cookie for [`SubjectThread::poll`].
    fn start_poll(&mut self, _full: bool) -> Result<Cookie> {
        unreachable!("asked only of subjects with polled grace periods")
    }

    /// Has a grace period passed since the cookie was taken? Gives its number.
    fn poll(&mut self, _cookie: Cookie) -> Option<u64> {
        unreachable!("asked only of subjects with polled grace periods")
    }

    /// Waits for all callbacks queued before. `false`: `stop` came first.
    fn barrier(&mut self, _stop: &AtomicBool) -> Result<bool> {
        unreachable!("asked only of subjects with a barrier")
    }

    /// Queues a callback.
    fn call(&mut self, callback: Callback, hurry: bool) -> Result<()>;
}

/// Callbacks queued and invoked, of one flooding task.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub queued: AtomicU64,
    pub invoked: AtomicU64,
    /// Set when the run ends: nothing is posted again.
    pub over: AtomicBool,
}

/// A callback of a workload.
#[derive(Debug)]
pub(super) struct Callback {
    tally: Arc<Tally>,
    reposts: u16,
}

impl Callback {
    pub fn new(tally: &Arc<Tally>, reposts: u16) -> Self {
        tally.queued.fetch_add(1, Ordering::Relaxed);
        Callback {
            tally: tally.clone(),
            reposts,
        }
    }

    /// It may post itself again.
    pub fn posts_again(&self) -> bool {
        self.reposts > 0
    }

    /// Counts, and gives the callback to post again, if any.
    pub fn invoke(self) -> Option<Callback> {
        self.tally.invoked.fetch_add(1, Ordering::Relaxed);
        (self.reposts > 0 && !self.tally.over.load(Ordering::Relaxed))
            .then(|| Callback::new(&self.tally, self.reposts - 1))
    }
}

/// What a subject says about itself in the facts and notes of a run.
pub(super) trait Describe {
    /// Adds what it knows to the facts.
    fn facts(&self, _facts: &mut HostFacts) {}
    /// What a reader of the figures has to know.
    fn notes(&self) -> Vec<String>;
}
