//! The forward-progress test.

use super::rig::{Laundry, Rig, Task, Token};
use crate::sim::guest::{Hands, Step};
use crate::torture::ledger::gps_between;
use crate::torture::random::Random;

/// A section of the `nr` loop, ns.
const SECTION_NS: u64 = 10_000;
/// A flood is long enough when so many callbacks …
const MIN_LAUNDERED: u64 = 100;
/// … went through so many grace periods.
const MIN_LAUNDER: u64 = 3;
/// Callbacks of a flood that may be pending at once.
const MAX_PENDING: u64 = 50_000;
/// Callbacks posted between two looks at the rest of the machine.
const BURST: u64 = 32;

#[derive(Clone, Copy)]
enum Phase {
    Holdoff,
    Begin,
    /// Until when; version and grace period at the start; inside a section.
    Loop(u64, u64, u64, bool),
    Flood(Flood),
    Barrier(Flood),
}

#[derive(Clone, Copy, Default)]
struct Flood {
    began: u64,
    gp_seq: u64,
    posted: u64,
    max_queued: u64,
    laundered: u64,
}

pub(super) struct Forward {
    index: usize,
    random: Random,
    phase: Phase,
}

impl Forward {
    pub(super) fn new(index: usize, random: Random) -> Self {
        Forward {
            index,
            random,
            phase: Phase::Holdoff,
        }
    }

    fn go_round(&mut self, state: (u64, u64, u64, bool), rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        let (until, version, gp_seq, inside) = state;
        if inside {
            hands.read_unlock(false);
            if !rig.plan.odds.preemptible {
                hands.cond_resched();
            }
            self.phase = Phase::Loop(until, version, gp_seq, false);
            return Step::Run(100);
        }
        let gps = gps_between(gp_seq, hands.gp_seq());
        let got_on = rig.ledger.pipe.version() != version || gps >= 2;
        let patience = if got_on { 0 } else { rig.plan.fwd_patience_ns };
        if hands.now() < until + patience && !rig.is_over(hands.now()) {
            hands.read_lock();
            self.phase = Phase::Loop(until, version, gp_seq, true);
            return if rig.plan.odds.preemptible {
                Step::Run(SECTION_NS)
            } else {
                Step::RunDisabled(SECTION_NS)
            };
        }
        rig.reposting[self.index] = false;
        if rig.is_over(hands.now()) {
            return Step::Exit;
        }
        {
            let mut test = rig.ledger.forward.lock();
            test.nr_rounds += 1;
            test.nr_failures += u64::from(!got_on);
        }
        if !got_on {
            rig.ledger
                .warn(|| "no forward progress beside a reader that is always there".to_owned());
        }
        // One flood at a time is enough.
        self.phase = Phase::Holdoff;
        if self.index == 0 {
            rig.flood = true;
            rig.laundry = Laundry::default();
            self.phase = Phase::Flood(Flood {
                began: hands.now(),
                gp_seq: hands.gp_seq(),
                ..Flood::default()
            });
        }
        Step::Run(1)
    }

    fn flood(&mut self, mut flood: Flood, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        let now = hands.now();
        let back = std::mem::take(&mut rig.laundry.back);
        flood.laundered += back.iter().filter(|&&rounds| rounds >= MIN_LAUNDER).count() as u64;
        let pending = flood.posted - rig.laundry.invoked;
        flood.max_queued = flood.max_queued.max(pending);
        let over = now - flood.began >= rig.plan.fwd_flood_ns || flood.laundered >= MIN_LAUNDERED;
        if over || rig.is_over(now) {
            hands.barrier();
            self.phase = Phase::Barrier(flood);
            return Step::Wait;
        }
        let fresh = if pending < MAX_PENDING { BURST } else { 0 };
        for rounds in back.into_iter().chain(std::iter::repeat_n(0, fresh as usize)) {
            rig.call(hands, Token::Launder(rounds));
            flood.posted += 1;
        }
        self.phase = Phase::Flood(flood);
        if fresh == 0 {
            Step::Sleep(1_000_000)
        } else {
            Step::Run(1_000)
        }
    }

    fn end_flood(&mut self, flood: Flood, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        rig.flood = false;
        self.phase = Phase::Holdoff;
        if rig.is_over(hands.now()) {
            return Step::Exit;
        }
        {
            let mut test = rig.ledger.forward.lock();
            test.cr_rounds += 1;
            test.cr_invoked += rig.laundry.invoked;
            test.cr_max_queued = test.cr_max_queued.max(flood.max_queued);
            test.cr_gps += gps_between(flood.gp_seq, hands.gp_seq());
            test.cr_failures += u64::from(flood.laundered < MIN_LAUNDERED);
        }
        if flood.laundered < MIN_LAUNDERED {
            rig.ledger.warn(|| {
                format!(
                    "callback flood: {} of {MIN_LAUNDERED} callbacks went through {MIN_LAUNDER} grace periods",
                    flood.laundered
                )
            });
        }
        Step::Run(1)
    }
}

impl Task for Forward {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        match self.phase {
            Phase::Holdoff => {
                if let Some(step) = rig.break_at(hands.now()) {
                    return step;
                }
                self.phase = Phase::Begin;
                Step::Sleep(rig.plan.fwd_holdoff_ns)
            }
            Phase::Begin => {
                if let Some(step) = rig.break_at(hands.now()) {
                    return step;
                }
                rig.reposting[self.index] = true;
                rig.call(hands, Token::Repost(self.index));
                let most = rig.plan.fwd_round_ns;
                let until = hands.now() + most / 4 + self.random.below(most - most / 4);
                self.phase = Phase::Loop(until, rig.ledger.pipe.version(), hands.gp_seq(), false);
                Step::Run(1)
            }
            Phase::Loop(until, version, gp_seq, inside) => {
                self.go_round((until, version, gp_seq, inside), rig, hands)
            }
            Phase::Flood(flood) => self.flood(flood, rig, hands),
            Phase::Barrier(flood) if hands.take_released() => self.end_flood(flood, rig, hands),
            Phase::Barrier(_) => Step::Wait,
        }
    }
}
