//! RCU whose grace periods wait for nobody, on the simulated machine.

use crate::sim::guest::Hands;
use crate::tree::{FullCookie, seq};
use std::collections::HashSet;

/// State of the broken RCU.
#[derive(Debug, Default)]
pub(super) struct Busted {
    gp_seq: u64,
    next: u64,
    /// Callbacks to be invoked at once.
    pub due: Vec<u64>,
    /// Tasks whose wait was over before it began.
    pub released: HashSet<u32>,
}

/// The machine, with this RCU in place of the engine.
pub(super) struct BustedHands<'a> {
    pub inner: &'a mut dyn Hands,
    pub busted: &'a mut Busted,
    /// The task that is asked.
    pub index: u32,
}

impl BustedHands<'_> {
    fn grace_period(&mut self) {
        self.busted.gp_seq += seq::SEQ_GP;
    }
}

impl Hands for BustedHands<'_> {
    fn now(&self) -> u64 {
        self.inner.now()
    }

    fn gp_seq(&self) -> u64 {
        self.busted.gp_seq
    }

    fn read_lock(&mut self) {
        self.inner.read_lock();
    }

    fn read_unlock(&mut self, disabled: bool) {
        self.inner.read_unlock(disabled);
    }

    fn resched(&mut self) {
        self.inner.resched();
    }

    fn cond_resched(&mut self) {
        self.inner.cond_resched();
    }

    fn synchronize(&mut self) {
        self.grace_period();
        self.busted.released.insert(self.index);
    }

    fn synchronize_expedited(&mut self) {
        self.synchronize();
    }

    fn barrier(&mut self) {
        self.busted.released.insert(self.index);
    }

    fn take_released(&mut self) -> bool {
        self.busted.released.remove(&self.index)
    }

    fn get_state(&self) -> u64 {
        seq::snap(self.busted.gp_seq)
    }

    fn start_poll(&mut self) -> u64 {
        let cookie = self.get_state();
        self.grace_period();
        cookie
    }

    fn poll_state(&self, cookie: u64) -> bool {
        seq::done(self.busted.gp_seq, cookie)
    }

    fn get_state_full(&self) -> FullCookie {
        FullCookie {
            norm: self.get_state(),
            exp: self.get_state(),
        }
    }

    fn start_poll_full(&mut self) -> FullCookie {
        let cookie = self.get_state_full();
        self.grace_period();
        cookie
    }

    fn poll_state_full(&self, cookie: FullCookie) -> bool {
        self.poll_state(cookie.norm)
    }

    fn call(&mut self) -> u64 {
        self.grace_period();
        self.busted.next += 1;
        self.busted.due.push(self.busted.next);
        self.busted.next
    }

    fn online(&self) -> Vec<bool> {
        self.inner.online()
    }

    fn take_down(&mut self, cpu: u32) -> bool {
        self.inner.take_down(cpu)
    }

    fn take_over(&mut self, dead: u32) {
        self.inner.take_over(dead);
    }

    fn bring_up(&mut self, cpu: u32) {
        self.inner.bring_up(cpu);
    }

    fn stalls(&self) -> u64 {
        self.inner.stalls()
    }
}
