//! The writer and the fake writers.

use super::gp::Waiting;
use super::rig::{Rig, Task, Token};
use crate::sim::guest::{Hands, Step};
use crate::torture::cookies::{BeforeGp, MAX_FULL, MAX_PLAIN, Pending};
use crate::torture::kind::GpKind;
use crate::torture::mailbox::Letter;
use crate::torture::pipe::Id;
use crate::torture::random::Random;
use crate::tree::FullCookie;

/// Number of the writer among the updaters; fake writers follow.
const WRITER: usize = 0;

enum Phase {
    /// At the top of its loop.
    FixedDelay,
    /// The delay is over.
    Allocate,
    /// Has an element, and has spun for a while.
    Replace(Id),
    /// Waits for a grace period.
    Wait(Waiting, Letter, BeforeGp<u64, FullCookie>),
}

pub(super) struct Writer {
    random: Random,
    phase: Phase,
    plain: Pending<u64>,
    full: Pending<FullCookie>,
    last: Option<u64>,
}

impl Writer {
    pub(super) fn new(random: Random) -> Self {
        Writer {
            random,
            phase: Phase::FixedDelay,
            plain: Pending::default(),
            full: Pending::default(),
            last: None,
        }
    }

    fn wait(&mut self, kind: GpKind, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        rig.writer_state = kind.state();
        let before = BeforeGp::new(hands.get_state(), hands.get_state_full(), self.last.take());
        let letter = rig.ledger.before_gp(WRITER);
        let (waiting, step) = Waiting::begin(kind, hands, &mut self.random);
        self.phase = Phase::Wait(waiting, letter, before);
        step
    }

    fn replace(&mut self, id: Id, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        self.phase = Phase::FixedDelay;
        let Some(old) = rig.ledger.pipe.publish(id) else {
            return Step::Run(1);
        };
        self.check_cookies(rig, hands);
        let kind = self.random.pick(&rig.plan.kinds);
        if kind == GpKind::DefFree {
            rig.call(hands, Token::Age(old));
            rig.ledger.count_kind(kind);
            return Step::Run(1);
        }
        rig.ledger.pipe.remove(old);
        self.wait(kind, rig, hands)
    }

    fn check_cookies(&mut self, rig: &Rig, hands: &mut dyn Hands) {
        let (plain, full) = (hands.get_state(), hands.get_state_full());
        let pending = self.plain.add(plain, |&cookie| poll(hands, cookie));
        if pending > MAX_PLAIN {
            rig.ledger
                .warn(|| format!("{pending} distinct cookies are pending, more than {MAX_PLAIN}"));
        }
        let pending = self.full.add(full, |&cookie| poll_full(hands, cookie));
        if pending > MAX_FULL {
            rig.ledger
                .warn(|| format!("{pending} distinct full cookies are pending, more than {MAX_FULL}"));
        }
        hands.read_lock();
        let (plain, full) = (hands.get_state(), hands.get_state_full());
        if hands.poll_state(plain) || hands.poll_state_full(full) {
            rig.ledger
                .warn(|| "a cookie is done inside the section that took it".to_owned());
        }
        hands.read_unlock(false);
    }
}

// `Pending` looks through a plain function; nothing is changed by a poll.
fn poll(hands: &dyn Hands, cookie: u64) -> bool {
    hands.poll_state(cookie)
}

fn poll_full(hands: &dyn Hands, cookie: FullCookie) -> bool {
    hands.poll_state_full(cookie)
}

impl Task for Writer {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        match std::mem::replace(&mut self.phase, Phase::FixedDelay) {
            Phase::FixedDelay => {
                rig.writer_state = "RTWS_FIXED_DELAY";
                if let Some(step) = rig.break_at(hands.now()) {
                    if step == Step::Exit {
                        rig.writer_state = "RTWS_STOPPING";
                    }
                    return step;
                }
                self.phase = Phase::Allocate;
                Step::Sleep(500_000 + self.random.below(1_000))
            }
            Phase::Allocate => match rig.ledger.pipe.take() {
                Some(id) => {
                    rig.writer_state = "RTWS_DELAY";
                    self.phase = Phase::Replace(id);
                    Step::Run(self.random.below(1_024) * 1_000)
                }
                // The pool is empty: what was removed may get on by our own grace periods only.
                None => self.wait(GpKind::Sync, rig, hands),
            },
            Phase::Replace(id) => {
                rig.writer_state = "RTWS_REPLACE";
                self.replace(id, rig, hands)
            }
            Phase::Wait(mut waiting, letter, before) => {
                if let Some(step) = waiting.go_on(hands, &mut self.random) {
                    self.phase = Phase::Wait(waiting, letter, before);
                    return step;
                }
                rig.ledger.after_gp(letter, waiting.kind);
                rig.ledger.pipe.age_removed();
                let (late, plain) =
                    before.after(|cookie| poll(hands, cookie), |cookie| poll_full(hands, cookie));
                // Only a synchronous grace period is known to be a whole one.
                if matches!(waiting.kind, GpKind::Sync | GpKind::ExpSync) {
                    for late in late {
                        rig.ledger
                            .warn(|| format!("{} ({})", late.0, waiting.kind.name()));
                    }
                    self.last = Some(plain);
                }
                Step::Run(1)
            }
        }
    }
}

enum FakePhase {
    Idle,
    Act,
    Barrier,
    Wait(Waiting, Letter),
}

pub(super) struct FakeWriter {
    updater: usize,
    random: Random,
    kinds: Vec<GpKind>,
    phase: FakePhase,
}

impl FakeWriter {
    pub(super) fn new(index: usize, rig: &Rig, random: Random) -> Self {
        let mut kinds = rig.plan.kinds.clone();
        // A callback is nothing to wait for.
        kinds.retain(|&kind| kind != GpKind::DefFree);
        if kinds.is_empty() {
            kinds.push(GpKind::Sync);
        }
        FakeWriter {
            updater: WRITER + 1 + index,
            random,
            kinds,
            phase: FakePhase::Idle,
        }
    }
}

impl Task for FakeWriter {
    fn step(&mut self, rig: &mut Rig, hands: &mut dyn Hands) -> Step {
        match std::mem::replace(&mut self.phase, FakePhase::Idle) {
            FakePhase::Idle => {
                if let Some(step) = rig.break_at(hands.now()) {
                    return step;
                }
                self.phase = FakePhase::Act;
                Step::Sleep(1 + self.random.below(10 * rig.plan.jiffy_ns()))
            }
            FakePhase::Act if self.random.one_in(8 * u64::from(rig.plan.fakewriters)) => {
                hands.barrier();
                self.phase = FakePhase::Barrier;
                Step::Wait
            }
            FakePhase::Act => {
                let kind = self.random.pick(&self.kinds);
                let letter = rig.ledger.before_gp(self.updater);
                let (waiting, step) = Waiting::begin(kind, hands, &mut self.random);
                self.phase = FakePhase::Wait(waiting, letter);
                step
            }
            FakePhase::Barrier => {
                if hands.take_released() {
                    return Step::Run(1);
                }
                self.phase = FakePhase::Barrier;
                Step::Wait
            }
            FakePhase::Wait(mut waiting, letter) => {
                if let Some(step) = waiting.go_on(hands, &mut self.random) {
                    self.phase = FakePhase::Wait(waiting, letter);
                    return step;
                }
                rig.ledger.after_gp(letter, waiting.kind);
                Step::Run(1)
            }
        }
    }
}
