//! The engine under test.

use super::subject::{Callback, Session, Subject};
use crate::error::Result;
use crate::host::{Engine, Handle, ReadGuard, Remaining};
use crate::sync::AtomicBool;
use crate::tree::FullCookie;
use std::time::Duration;

impl Subject for Engine {
    type Session = Handle;

    fn register(&self, cpu: u32) -> Result<Handle> {
        // The CPU may have gone since it was chosen; then it is the next one in turn.
        self.register_on(cpu).or_else(|_| Engine::register(self))
    }

    fn call_again(&self, callback: Callback) -> Result<()> {
        self.call(callback)
    }

    fn gp_seq(&self) -> u64 {
        Engine::gp_seq(self)
    }

    fn get_state(&self) -> u64 {
        Engine::get_state(self)
    }

    fn poll_state(&self, cookie: u64) -> bool {
        Engine::poll_state(self, cookie)
    }

    fn get_state_full(&self) -> FullCookie {
        Engine::get_state_full(self)
    }

    fn poll_state_full(&self, cookie: FullCookie) -> bool {
        Engine::poll_state_full(self, cookie)
    }

    fn cpu_offline(&self, cpu: u32) -> Result<()> {
        Engine::cpu_offline(self, cpu)
    }

    fn cpu_online(&self, cpu: u32) -> Result<()> {
        Engine::cpu_online(self, cpu)
    }

    fn stalls(&self) -> Option<u64> {
        Some(Engine::stalls(self).len() as u64)
    }

    fn kick(&self) {
        self.kick_waiters();
    }

    fn close(&self, run: bool, deadline: Duration) -> Result<()> {
        let remaining = if run { Remaining::Run } else { Remaining::Drop };
        Engine::close(self, remaining, deadline)
    }
}

impl Session for Handle {
    type Guard<'a> = ReadGuard<'a>;
    type Full = FullCookie;

    fn read_lock(&self) -> ReadGuard<'_> {
        Handle::read_lock(self)
    }

    fn synchronize(&mut self, cancel: &AtomicBool) -> Result<bool> {
        Ok(self.synchronize_cancellable(cancel)?.is_some())
    }

    fn synchronize_expedited(&mut self, cancel: &AtomicBool) -> Result<bool> {
        Ok(self.synchronize_expedited_cancellable(cancel)?.is_some())
    }

    fn barrier(&mut self, cancel: &AtomicBool) -> Result<bool> {
        Ok(self.barrier_cancellable(cancel)?.is_some())
    }

    fn call(&self, callback: Callback) -> Result<()> {
        Handle::call(self, callback)
    }

    fn start_poll(&self) -> Result<u64> {
        Handle::start_poll(self)
    }

    fn start_poll_full(&self) -> Result<FullCookie> {
        Handle::start_poll_full(self)
    }

    fn quiescent(&mut self) {
        Handle::quiescent(self);
    }

    fn outside<R>(&mut self, f: impl FnOnce() -> R) -> R {
        Handle::outside(self, f)
    }
}
