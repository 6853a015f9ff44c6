//! What the tasks of a simulated run have in common.

use crate::sim::guest::{Hands, Step};
use crate::torture::ledger::Ledger;
use crate::torture::pipe::Id;
use crate::torture::plan::Plan;
use crate::torture::random::Random;
use std::collections::HashMap;

/// A task of the test.
pub(super) trait Task {
    /// What it does next.
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step;
}

/// What a callback is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Token {
    /// Ages this element, and comes again until it is through the pipe.
    Age(Id),
    /// Belongs to the barrier test.
    Barrier,
    /// Comes again while this forward-progress task wants grace periods.
    Repost(usize),
    /// Belongs to a flood; came out of so many grace periods before.
    Launder(u64),
}

/// The barrier test's rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub round: u64,
    pub posted: u64,
    pub invoked: u64,
}

/// A flood's callbacks.
#[derive(Debug, Default)]
pub(super) struct Laundry {
    pub back: Vec<u64>,
    pub invoked: u64,
}

/// Everything shared.
pub(super) struct Rig {
    pub plan: Plan,
    pub ledger: Ledger,
    callbacks: HashMap<u64, Token>,
    pub rounds: Rounds,
    pub laundry: Laundry,
    /// By forward-progress task: a grace period is wanted all the time.
    pub reposting: Vec<bool>,
    /// A callback flood is on: no long delays.
    pub flood: bool,
    pub next_long_ns: u64,
    pub writer_state: &'static str,
    /// The injected stall is on.
    pub stalling: bool,
}

impl Rig {
    pub(super) fn new(plan: Plan) -> Self {
        Rig {
            ledger: Ledger::new(plan.readers as usize, 1 + plan.fakewriters as usize),
            callbacks: HashMap::new(),
            rounds: Rounds::default(),
            laundry: Laundry::default(),
            reposting: vec![false; plan.fwd_progress as usize],
            flood: false,
            next_long_ns: plan.long_every_ns / 2,
            writer_state: "RTWS_FIXED_DELAY",
            stalling: false,
            plan,
        }
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.plan.run_ns
    }

    /// What everybody does before the next round: leaves when the test is over, pauses with the others.
    pub(super) fn break_at(&self, now: u64) -> Option<Step> {
        if self.is_over(now) {
            return Some(Step::Exit);
        }
        let cycle = self.plan.stutter_ns + self.plan.stutter_ns / 4;
        let phase = now % cycle;
        (phase >= self.plan.stutter_ns).then(|| Step::Sleep(cycle - phase))
    }

    /// `call_rcu()`.
    pub(super) fn call(&mut self, hands: &mut dyn Hands, token: Token) {
        let id = hands.call();
        self.callbacks.insert(id, token);
    }

    /// A callback is invoked.
    pub(super) fn callback(&mut self, id: u64, hands: &mut dyn Hands) {
        let Some(token) = self.callbacks.remove(&id) else {
            return self.ledger.warn(|| format!("callback {id} was invoked twice"));
        };
        let over = self.is_over(hands.now());
        match token {
            // At the end of the test the elements stay where they are.
            Token::Age(_) | Token::Repost(_) if over => {}
            Token::Age(element) => {
                if !self.ledger.pipe.age(element) {
                    self.call(hands, token);
                }
            }
            Token::Barrier => self.rounds.invoked += 1,
            Token::Repost(task) => {
                if self.reposting[task] {
                    self.call(hands, token);
                }
            }
            Token::Launder(rounds) => {
                self.laundry.invoked += 1;
                self.laundry.back.push(rounds + 1);
            }
        }
    }

    /// One reader at a time takes the long delay that is due.
    pub(super) fn take_long(&mut self, now: u64) -> bool {
        let due = self.plan.long_every_ns > 0 && !self.flood && now >= self.next_long_ns;
        if due {
            self.next_long_ns = now + self.plan.long_every_ns;
        }
        due
    }

    /// A stream of random numbers for task number `index`.
    pub(super) fn random(&self, index: usize) -> Random {
        Random::new(self.plan.seed, index as u64)
    }
}
