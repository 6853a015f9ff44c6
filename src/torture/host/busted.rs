//! RCU whose grace periods wait for nobody. A driver that does not fail it is worth nothing.

use super::subject::{Callback, Session, Subject};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::tree::seq;
use std::sync::Arc;
use std::time::Duration;

/// A deliberately broken RCU.
#[derive(Debug, Clone, Default)]
pub struct Busted {
    gp_seq: Arc<AtomicU64>,
}

impl Busted {
    fn grace_period(&self) -> bool {
        self.gp_seq.fetch_add(seq::SEQ_GP, Relaxed);
        true
    }
}

impl Subject for Busted {
    type Session = Busted;

    fn register(&self, _cpu: u32) -> Result<Busted> {
        Ok(self.clone())
    }

    fn call_again(&self, callback: Callback) -> Result<()> {
        self.grace_period();
        callback();
        Ok(())
    }

    fn gp_seq(&self) -> u64 {
        self.gp_seq.load(Relaxed)
    }

    fn get_state(&self) -> u64 {
        seq::snap(self.gp_seq())
    }

    // Polling tells the truth about grace periods that mean nothing.
    fn poll_state(&self, cookie: u64) -> bool {
        seq::done(self.gp_seq(), cookie)
    }

    fn get_state_full(&self) -> u64 {
        self.get_state()
    }

    fn poll_state_full(&self, cookie: u64) -> bool {
        self.poll_state(cookie)
    }

    fn cpu_offline(&self, _cpu: u32) -> Result<()> {
        Ok(())
    }

    fn cpu_online(&self, _cpu: u32) -> Result<()> {
        Ok(())
    }

    fn close(&self, _run: bool, _deadline: Duration) -> Result<()> {
        Ok(())
    }
}

impl Session for Busted {
    type Guard<'a> = ();
    type Full = u64;

    fn read_lock(&self) {}

    fn synchronize(&mut self, _cancel: &AtomicBool) -> Result<bool> {
        Ok(self.grace_period())
    }

    fn synchronize_expedited(&mut self, _cancel: &AtomicBool) -> Result<bool> {
        Ok(self.grace_period())
    }

    fn barrier(&mut self, _cancel: &AtomicBool) -> Result<bool> {
        Ok(true)
    }

    fn call(&self, callback: Callback) -> Result<()> {
        self.call_again(callback)
    }

    fn start_poll(&self) -> Result<u64> {
        let cookie = self.get_state();
        self.grace_period();
        Ok(cookie)
    }

    fn start_poll_full(&self) -> Result<u64> {
        self.start_poll()
    }
}
