//! Readers, and the one that stays too long.

use super::rig::{Rig, Task};
use crate::sim::guest::{Hands, Step};
use crate::torture::ledger::Visit;
use crate::torture::pass::{Delay, PREEMPT_OFF, Pass, RCU_1, RCU_2, SHORT_NS};
use crate::torture::random::Random;

/// Mean length of a segment per reader of the run, ns: a stand-in for the pass's own instructions, long
/// enough that the cost of a virtual second does not grow with the machine.
const SEGMENT_NS: u64 = 2_000;
/// A reader that runs this long sleeps for a moment, ns.
const RUN_NS: u64 = 10_000_000;

pub(super) struct Reader {
    index: usize,
    random: Random,
    /// The section in progress and the segment it is in.
    pass: Option<(Pass, usize, Option<Visit>)>,
    held: u8,
    /// How long it is kept off the CPU after its current burst.
    off_cpu: u64,
    slept: u64,
    /// The sleep of an idle scenario is over.
    rested: bool,
}

impl Reader {
    pub(super) fn new(index: usize, random: Random) -> Self {
        Reader {
            index,
            random,
            pass: None,
            held: 0,
            off_cpu: 0,
            slept: 0,
            rested: false,
        }
    }

    /// Into the next segment: enters what is new before it leaves what is old.
    fn hold(&mut self, held: u8, hands: &mut dyn Hands) {
        for lock in [RCU_1, RCU_2] {
            if held & !self.held & lock != 0 {
                hands.read_lock();
            }
        }
        for lock in [RCU_1, RCU_2] {
            if self.held & !held & lock != 0 {
                // Preemption is disabled if it was, or is from here on.
                hands.read_unlock((held | self.held) & PREEMPT_OFF != 0);
            }
        }
        self.held = held;
    }

    fn segment(&mut self, rig: &Rig, delay: Delay, hands: &mut dyn Hands) -> Step {
        let base = 200 + self.random.below(2 * SEGMENT_NS * rig.plan.odds.readers);
        let ns = match delay {
            Delay::None => base,
            Delay::Short => SHORT_NS,
            Delay::Long => rig.plan.long_ns / 8 + self.random.below(rig.plan.long_ns),
            Delay::Yield => {
                hands.resched();
                base
            }
        };
        // A kernel that is not preemptible cannot give way inside a section.
        if self.held & PREEMPT_OFF != 0 || !rig.plan.odds.preemptible {
            Step::RunDisabled(ns)
        } else if delay == Delay::Long && self.random.one_in(2) {
            // First nobody can take the CPU from it, then it is kept off the CPU, as by tasks that come first: a
            // grace period that began meanwhile has to wait for a reader that is not there.
            let runs = self.random.below(ns);
            self.off_cpu = ns - runs;
            Step::RunDisabled(runs)
        } else {
            Step::Run(ns)
        }
    }
}

impl Task for Reader {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        if self.off_cpu > 0 {
            return Step::Sleep(std::mem::take(&mut self.off_cpu));
        }
        let now = hands.now();
        if let Some((pass, number, visit)) = self.pass.take() {
            if let Some(segment) = pass.segments().get(number + 1) {
                self.pass = Some((pass, number + 1, visit));
                self.hold(segment.held, hands);
                return self.segment(rig, segment.delay, hands);
            }
            if let Some(visit) = visit {
                rig.ledger.leave(visit, hands.gp_seq(), &pass);
            }
            self.hold(0, hands);
            if !rig.plan.odds.preemptible {
                hands.cond_resched();
            }
            return Step::Run(200);
        }
        if let Some(step) = rig.break_at(now) {
            return step;
        }
        if rig.plan.idle_ns > 0 {
            if !std::mem::replace(&mut self.rested, true) {
                return Step::Sleep(1 + self.random.below(rig.plan.idle_ns));
            }
            self.rested = false;
        } else if now - self.slept > RUN_NS {
            let ns = 1_000 + self.random.below(1_000_000);
            self.slept = now + ns;
            return Step::Sleep(ns);
        }
        let long = rig.take_long(now);
        let pass = Pass::draw(&mut self.random, &rig.plan.odds, long);
        let first = pass.segments()[0];
        self.hold(first.held, hands);
        let visit = rig.ledger.enter(self.index, hands.gp_seq(), &mut self.random);
        self.pass = Some((pass, 0, visit));
        self.segment(rig, first.delay, hands)
    }
}

/// Stays in one section for longer than the stall timeout.
#[derive(Default)]
pub(super) struct Staller {
    state: u8,
    /// Stalls reported before.
    before: u64,
}

/// Reports that are on their way belong to the stall that was injected, ns.
const LATE_NS: u64 = 500_000_000;

impl Task for Staller {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        self.state += 1;
        match self.state {
            1 => Step::Sleep(rig.plan.stall_holdoff_ns),
            2 => {
                self.before = hands.stalls();
                rig.stalling = true;
                hands.read_lock();
                Step::RunDisabled(rig.plan.stall_ns)
            }
            3 => {
                hands.read_unlock(true);
                Step::Run(LATE_NS)
            }
            _ => {
                rig.stalling = false;
                if hands.stalls() == self.before {
                    rig.ledger.warn(|| {
                        format!(
                            "a section of {} s was not reported as a stall",
                            rig.plan.stall_ns / 1_000_000_000
                        )
                    });
                }
                Step::Exit
            }
        }
    }
}
