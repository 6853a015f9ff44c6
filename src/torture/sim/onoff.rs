//! CPUs that go offline and come back.

use super::rig::{Rig, Task};
use crate::sim::guest::{Hands, Step};
use crate::torture::random::Random;

/// CPU time of a transition, ns. Assumed.
const TRANSITION_NS: u64 = 20_000;

enum Phase {
    Holdoff,
    Turn,
    /// This CPU is on its way offline since then.
    Leaving(u32, u64),
}

pub(super) struct OnOff {
    random: Random,
    phase: Phase,
}

impl OnOff {
    pub(super) fn new(random: Random) -> Self {
        OnOff {
            random,
            phase: Phase::Holdoff,
        }
    }

    fn sleep(&mut self, rig: &Rig) -> Step {
        self.phase = Phase::Turn;
        Step::Sleep(rig.plan.onoff_every_ns + self.random.below(rig.plan.jiffy_ns()))
    }

    fn bring_up(&self, cpu: u32, rig: &Rig, hands: &mut dyn Hands) {
        hands.bring_up(cpu);
        // The machine does it at once.
        rig.ledger.onoff.lock().0.book(true, 0);
    }
}

impl Task for OnOff {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        let now = hands.now();
        let cpus = rig.plan.config.tunables().maxcpus;
        let online = hands.online();
        match self.phase {
            Phase::Holdoff => {
                self.phase = Phase::Turn;
                Step::Sleep(rig.plan.onoff_holdoff_ns)
            }
            Phase::Turn if rig.is_over(now) => {
                // Everybody is online at the end.
                for cpu in (0..cpus).filter(|&cpu| !online[cpu as usize]) {
                    self.bring_up(cpu, rig, hands);
                }
                Step::Exit
            }
            Phase::Turn => {
                let cpu = self.random.below(u64::from(cpus)) as u32;
                if !online[cpu as usize] {
                    self.bring_up(cpu, rig, hands);
                } else if online.iter().filter(|&&up| up).count() > 1 {
                    if hands.take_down(cpu) {
                        self.phase = Phase::Leaving(cpu, now);
                        return Step::Run(TRANSITION_NS);
                    }
                    rig.ledger.onoff.lock().1.book(false, 0);
                }
                self.sleep(rig)
            }
            Phase::Leaving(cpu, _) if online[cpu as usize] => Step::Wait,
            Phase::Leaving(cpu, began) => {
                hands.take_over(cpu);
                rig.ledger
                    .onoff
                    .lock()
                    .1
                    .book(true, (now - began) / rig.plan.jiffy_ns());
                self.sleep(rig)
            }
        }
    }
}
