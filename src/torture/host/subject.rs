//! What can be tortured on real threads: the interface that a driver needs of an RCU.

use crate::error::Result;
use crate::sync::AtomicBool;
use crate::torture::kind::GpKind;
use std::fmt::Debug;
use std::time::Duration;

/// A callback.
pub type Callback = Box<dyn FnOnce() + Send>;

/// An RCU under test. Clones of the driver's threads share it.
pub trait Subject: Send + Sync + 'static {
    /// A registered thread.
    type Session: Session;

    /// Registers the calling thread, on this virtual CPU where there are such.
    fn register(&self, cpu: u32) -> Result<Self::Session>;

    /// Queues a callback from inside a callback.
    fn call_again(&self, callback: Callback) -> Result<()>;

    /// The number of the current or last normal grace period, as [`crate::tree::Rcu::gp_seq`].
    fn gp_seq(&self) -> u64;

    /// `get_state_synchronize_rcu()`.
    fn get_state(&self) -> u64;

    /// `poll_state_synchronize_rcu()`.
    fn poll_state(&self, cookie: u64) -> bool;

    /// `get_state_synchronize_rcu_full()`.
    fn get_state_full(&self) -> <Self::Session as Session>::Full;

    /// `poll_state_synchronize_rcu_full()`.
    fn poll_state_full(&self, cookie: <Self::Session as Session>::Full) -> bool;

    /// Why this kind of grace period cannot be used, if so.
    fn refuses(&self, _kind: GpKind) -> Option<&'static str> {
        None
    }

    /// Takes a virtual CPU offline.
    fn cpu_offline(&self, cpu: u32) -> Result<()>;

    /// Brings it back.
    fn cpu_online(&self, cpu: u32) -> Result<()>;

    /// Stalls reported so far, if they are reported at all.
    fn stalls(&self) -> Option<u64> {
        None
    }

    /// Has every blocked call look at its cancel flag again.
    fn kick(&self) {}

    /// The end: no calls come any more. `run`: invoke what is still queued, else drop it.
    fn close(&self, run: bool, deadline: Duration) -> Result<()>;
}

/// A registered thread of a [`Subject`]. Calls that wait give `false` when they were cancelled first.
pub trait Session {
    /// Leaves the section when it is dropped.
    type Guard<'a>
    where
        Self: 'a;
    /// A full polling cookie.
    type Full: Copy + PartialEq + Debug + Send;

    /// `rcu_read_lock()`; sections nest and overlap.
    fn read_lock(&self) -> Self::Guard<'_>;

    /// `synchronize_rcu()`.
    fn synchronize(&mut self, cancel: &AtomicBool) -> Result<bool>;

    /// `synchronize_rcu_expedited()`.
    fn synchronize_expedited(&mut self, cancel: &AtomicBool) -> Result<bool>;

    /// `rcu_barrier()`.
    fn barrier(&mut self, cancel: &AtomicBool) -> Result<bool>;

    /// `call_rcu()`.
    fn call(&self, callback: Callback) -> Result<()>;

    /// `start_poll_synchronize_rcu()`.
    fn start_poll(&self) -> Result<u64>;

    /// `start_poll_synchronize_rcu_full()`.
    fn start_poll_full(&self) -> Result<Self::Full>;

    /// Outside any section: a quiescent state, where they have to be reported.
    fn quiescent(&mut self) {}

    /// Runs `f`, which sleeps, while no grace period waits for this thread.
    fn outside<R>(&mut self, f: impl FnOnce() -> R) -> R {
        f()
    }
}
