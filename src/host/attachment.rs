//! A registered thread whose sections are opened and closed by calls instead of guards: for callers whose blocks
//! are not scopes of Rust.

use super::calls::{GiveUp, Kicker, Served};
use super::engine::{Engine, State};
use super::handle::Handle;
use crate::error::Result;
use crate::tree::FullCookie;

/// A [`Handle`] that counts its sections itself.
///
/// Nothing proves that a section is open, so it gives access to no [`RcuPtr`](super::RcuPtr); what the sections
/// protect is its owner's business. Calls that would wait for a section of its own are refused, and dropping it
/// ends the sections that are still open.
///
/// ```
/// use treercu::config::Config;
/// use treercu::host::{Attachment, Engine, Options};
///
/// let engine = Engine::new(&Config::new().with("nr_cpus", 2)?, &Options::default())?;
/// let mut thread = Attachment::new(&engine, None)?;
/// thread.enter();
/// assert!(thread.start_poll().is_ok() && thread.nesting() == 1);
/// assert!(thread.leave() && !thread.leave());
/// # Ok::<(), treercu::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Attachment {
    handle: Handle,
    open: u64,
}

impl Attachment {
    /// Attaches the calling thread to this virtual CPU, or to the next online one in turn.
    pub fn new(engine: &Engine, cpu: Option<u32>) -> Result<Self> {
        let handle = Handle::attach(engine.shared(), cpu)?;
        Ok(Attachment { handle, open: 0 })
    }

    /// Calls the thread by this name in reports.
    pub fn rename(&self, name: &str) {
        self.handle.slot().state.lock().name = name.to_owned();
    }

    /// The virtual CPU it is attached to; hotplug may change it.
    pub fn cpu(&self) -> u32 {
        self.handle.cpu()
    }

    /// Sections that are open, one inside the other.
    pub fn nesting(&self) -> u64 {
        self.open
    }

    /// Its engine is closed, and no section of it is open any more: it is of no use.
    pub fn is_stale(&self) -> bool {
        self.open == 0 && self.handle.shared().state() == State::Closed
    }

    /// Opens a section (`rcu_read_lock()`).
    pub fn enter(&mut self) {
        self.open += 1;
        // Counted with every preemption model: it is what tells a wait that it would wait for itself.
        if self.handle.slot().words.enter() {
            self.handle.shared().enter_marked(self.handle.slot());
        }
    }

    /// Ends the section opened last (`rcu_read_unlock()`); false: none is open.
    pub fn leave(&mut self) -> bool {
        let Some(open) = self.open.checked_sub(1) else {
            return false;
        };
        self.open = open;
        if self.handle.slot().words.leave() {
            self.handle.shared().left(self.handle.slot());
        }
        true
    }

    /// See [`Handle::quiescent`]; inside a section it does nothing.
    pub fn quiescent(&mut self) {
        if self.open == 0 {
            self.handle.quiescent();
        }
    }

    /// See [`Handle::synchronize_unless`].
    pub fn synchronize_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<Served>> {
        self.handle.synchronize_unless(reason)
    }

    /// See [`Handle::synchronize_expedited_unless`].
    pub fn synchronize_expedited_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<Served>> {
        self.handle.synchronize_expedited_unless(reason)
    }

    /// See [`Handle::barrier_unless`].
    pub fn barrier_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<()>> {
        self.handle.barrier_unless(reason)
    }

    /// See [`Handle::cpu_offline_unless`].
    pub fn cpu_offline_unless(&mut self, cpu: u32, reason: &dyn GiveUp) -> Result<Option<()>> {
        self.handle.cpu_offline_unless(cpu, reason)
    }

    /// See [`Handle::kicker`].
    pub fn kicker(&self) -> Kicker {
        self.handle.kicker()
    }

    /// See [`Handle::call`].
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.handle.call(f)
    }

    /// See [`Handle::call_hurry`].
    pub fn call_hurry(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.handle.call_hurry(f)
    }

    /// See [`Handle::start_poll`].
    pub fn start_poll(&self) -> Result<u64> {
        self.handle.start_poll()
    }

    /// See [`Handle::start_poll_full`].
    pub fn start_poll_full(&self) -> Result<FullCookie> {
        self.handle.start_poll_full()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        while self.leave() {}
    }
}
