//! The barrier test.

use super::rig::{Rig, Task, Token};
use crate::sim::guest::{Hands, Step};

/// How often it is looked whether everybody has posted, ns.
const LOOK_NS: u64 = 200_000;

/// Posts one callback a round.
#[derive(Default)]
pub(super) struct Poster {
    done: u64,
}

impl Task for Poster {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        if rig.rounds.round > self.done {
            self.done += 1;
            rig.call(hands, Token::Barrier);
            rig.rounds.posted += 1;
            return Step::Run(1);
        }
        if rig.is_over(hands.now()) {
            return Step::Exit;
        }
        Step::Sleep(LOOK_NS)
    }
}

enum Phase {
    Rest,
    Begin,
    Posting,
    Wait,
}

/// Calls the barrier and counts.
pub(super) struct Barrier {
    phase: Phase,
    expected: u64,
}

impl Barrier {
    pub(super) fn new() -> Self {
        Barrier {
            phase: Phase::Rest,
            expected: 0,
        }
    }
}

impl Task for Barrier {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        match self.phase {
            Phase::Rest => {
                if let Some(step) = rig.break_at(hands.now()) {
                    return step;
                }
                self.phase = Phase::Begin;
                Step::Sleep(rig.plan.barrier_every_ns)
            }
            Phase::Begin => {
                if rig.is_over(hands.now()) {
                    return Step::Exit;
                }
                rig.rounds.round += 1;
                self.expected += u64::from(rig.plan.barrier_cbs);
                self.phase = Phase::Posting;
                Step::Sleep(LOOK_NS)
            }
            Phase::Posting if rig.rounds.posted < self.expected => {
                if rig.is_over(hands.now()) {
                    return Step::Exit;
                }
                Step::Sleep(LOOK_NS)
            }
            Phase::Posting => {
                hands.barrier();
                self.phase = Phase::Wait;
                Step::Wait
            }
            Phase::Wait => {
                if !hands.take_released() {
                    return Step::Wait;
                }
                self.phase = Phase::Rest;
                let mut test = rig.ledger.barrier.lock();
                test.attempts += 1;
                if rig.rounds.invoked == self.expected {
                    test.successes += 1;
                } else {
                    test.errors += 1;
                }
                Step::Run(1)
            }
        }
    }
}
