//! What all threads of a run share and count in: the pipe, the mailboxes, the tallies, the list of
//! broken promises. The same in both worlds.

use super::counters::{BarrierTest, Counters, ForwardProgress, Transitions};
use super::kind::GpKind;
use super::mailbox::{Letter, Look, Mailboxes};
use super::pass::Pass;
use super::pipe::{PIPE_LEN, Pipe, Seen, Stages};
use super::random::Random;
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use crate::tree::seq;

/// Broken promises that are described; more are only counted.
const MAX_WARNINGS: usize = 50;

/// One reader's own counts, on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    pipe: [AtomicU64; PIPE_LEN + 1],
    batch: [AtomicU64; PIPE_LEN + 1],
    freed: AtomicU64,
}

/// A section in progress.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    reader: usize,
    seen: Seen,
    look: Look,
    gp_seq: u64,
}

/// The first section that failed, for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstFailure {
    /// One line.
    pub text: String,
}

/// Grace periods that ended between two readings of their number, which wraps soon after boot.
pub fn gps_between(from: u64, to: u64) -> u64 {
    seq::ctr(to.wrapping_sub(from & !seq::SEQ_MASK))
}

/// What the threads share.
#[derive(Debug)]
pub struct Ledger {
    /// The elements.
    pub pipe: Pipe,
    /// The memory-order test.
    pub mailboxes: Mailboxes,
    readers: Box<[Tally]>,
    kinds: [AtomicU64; GpKind::ALL.len()],
    /// CPUs brought online and taken offline.
    pub onoff: Mutex<(Transitions, Transitions)>,
    /// The barrier test.
    pub barrier: Mutex<BarrierTest>,
    /// The forward-progress test.
    pub forward: Mutex<ForwardProgress>,
    /// Readers that exited.
    pub read_exits: AtomicU64,
    /// Stalls reported.
    pub stalls: AtomicU64,
    warnings: AtomicU64,
    texts: Mutex<Vec<String>>,
    first_failure: Mutex<Option<FirstFailure>>,
}

impl Ledger {
    /// For so many readers and updaters.
    pub fn new(readers: usize, updaters: usize) -> Self {
        Ledger {
            pipe: Pipe::new(),
            mailboxes: Mailboxes::new(updaters, readers),
            readers: (0..readers).map(|_| Tally::default()).collect(),
            kinds: Default::default(),
            onoff: Mutex::default(),
            barrier: Mutex::default(),
            forward: Mutex::default(),
            read_exits: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            warnings: AtomicU64::new(0),
            texts: Mutex::default(),
            first_failure: Mutex::default(),
        }
    }

    /// At the start of a section. `None`: nothing is published yet, and the pass is skipped.
    pub fn enter(&self, reader: usize, gp_seq: u64, random: &mut Random) -> Option<Visit> {
        let look = self.mailboxes.enter(reader, random.bits());
        let Some(seen) = self.pipe.load() else {
            self.mailboxes.leave(look);
            return None;
        };
        Some(Visit {
            reader,
            seen,
            look,
            gp_seq,
        })
    }

    /// At the end of the same section, still inside.
    pub fn leave(&self, visit: Visit, gp_seq: u64, pass: &Pass) {
        let (stage, freed) = self.pipe.look_again(visit.seen);
        self.mailboxes.leave(visit.look);
        // A grace period that was in progress at the start may end inside; a second one may not.
        let gps = gps_between(visit.gp_seq, gp_seq) as usize;
        let tally = &self.readers[visit.reader];
        tally.pipe[stage].fetch_add(1, Relaxed);
        tally.batch[gps.min(PIPE_LEN)].fetch_add(1, Relaxed);
        tally.freed.fetch_add(u64::from(freed), Relaxed);
        if stage > 1 || freed {
            let mut first = self.first_failure.lock();
            if first.is_none() {
                *first = Some(FirstFailure {
                    text: format!(
                        "reader {} left a section with its element at stage {stage}{}; gp_seq {} at its \
                         start, {} at its end; segments {}",
                        visit.reader,
                        if freed { " and freed" } else { "" },
                        visit.gp_seq as i64,
                        gp_seq as i64,
                        pass.describe()
                    ),
                });
            }
        }
    }

    /// Before an updater's grace period.
    pub fn before_gp(&self, updater: usize) -> Letter {
        self.mailboxes.post(updater)
    }

    /// After it.
    pub fn after_gp(&self, letter: Letter, kind: GpKind) {
        self.mailboxes.collect(letter);
        self.count_kind(kind);
    }

    /// Books a grace period that was waited for.
    pub fn count_kind(&self, kind: GpKind) {
        self.kinds[kind.index()].fetch_add(1, Relaxed);
    }

    /// A promise was broken: an error with a line of its own.
    pub fn warn(&self, text: impl FnOnce() -> String) {
        if self.warnings.fetch_add(1, Relaxed) < MAX_WARNINGS as u64 {
            self.texts.lock().push(text());
        }
    }

    /// What `warn` was told.
    pub fn warnings(&self) -> Vec<String> {
        self.texts.lock().clone()
    }

    /// The first section that failed.
    pub fn first_failure(&self) -> Option<FirstFailure> {
        self.first_failure.lock().clone()
    }

    /// All counters as they are now.
    pub fn counters(&self) -> Counters {
        let (rta, rtaf, rtf) = self.pipe.totals();
        let (rtmbkf, rtmbkf_tries) = self.mailboxes.totals();
        let sum = |of: fn(&Tally) -> &[AtomicU64; PIPE_LEN + 1]| -> Stages {
            std::array::from_fn(|stage| {
                self.readers
                    .iter()
                    .map(|tally| of(tally)[stage].load(Relaxed))
                    .sum()
            })
        };
        let (online, offline) = *self.onoff.lock();
        let barrier = *self.barrier.lock();
        let mut counters = Counters {
            rtc: self.pipe.current(),
            ver: self.pipe.version(),
            tfle: u64::from(self.pipe.is_empty()),
            rta,
            rtaf,
            rtf,
            rtmbe: self.readers.iter().map(|tally| tally.freed.load(Relaxed)).sum(),
            rtmbkf,
            rtmbkf_tries,
            rtbe: barrier.errors,
            online,
            offline,
            barrier,
            read_exits: self.read_exits.load(Relaxed),
            reader_pipe: sum(|tally| &tally.pipe),
            reader_batch: sum(|tally| &tally.batch),
            free_block_circulation: self.pipe.circulation(),
            warnings: self.warnings.load(Relaxed),
            stalls: self.stalls.load(Relaxed),
            fwd_progress: *self.forward.lock(),
            ..Counters::default()
        };
        for kind in GpKind::ALL {
            counters.count_kind(kind, self.kinds[kind.index()].load(Relaxed));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::super::pass::{Odds, RCU_1};
    use super::*;

    #[test]
    fn grace_periods_are_counted_across_the_wrap() {
        let last = 0u64.wrapping_sub(4);
        assert_eq!(gps_between(last, last + 1), 0);
        assert_eq!(gps_between(last, 0), 1);
        assert_eq!(gps_between(last + 1, 0), 1);
        assert_eq!(gps_between(last + 1, 5), 2);
    }

    #[test]
    fn a_section_is_booked_by_stage_and_by_grace_periods() {
        let ledger = Ledger::new(2, 1);
        let mut random = Random::new(1, 0);
        let odds = Odds {
            mask: RCU_1,
            readers: 2,
            preemptible: true,
            extend_one_in: 0,
        };
        let pass = Pass::draw(&mut random, &odds, false);
        assert!(ledger.enter(0, 0, &mut random).is_none(), "nothing is published");
        let id = ledger.pipe.take().unwrap();
        ledger.pipe.publish(id);
        // In progress (1) at its start and over (4) at its end: one. Then a whole one more.
        let visit = ledger.enter(1, 1, &mut random).unwrap();
        ledger.leave(visit, 4, &pass);
        let visit = ledger.enter(1, 1, &mut random).unwrap();
        let old = ledger.pipe.publish(ledger.pipe.take().unwrap()).unwrap();
        for _ in 0..2 {
            ledger.pipe.age(old);
        }
        ledger.leave(visit, 9, &pass);
        let counters = ledger.counters();
        assert_eq!(counters.reader_pipe[..4], [1, 0, 0, 1]);
        assert_eq!(counters.reader_batch[..4], [0, 1, 1, 0]);
        assert_eq!((counters.rtmbe, counters.errors()), (0, 1));
        let first = ledger.first_failure().unwrap().text;
        assert!(
            first.starts_with("reader 1 left a section with its element at stage 3; gp_seq 1 at"),
            "{first}"
        );
        for n in 0..100 {
            ledger.warn(|| format!("{n}"));
        }
        assert_eq!(
            (ledger.warnings().len(), ledger.counters().warnings),
            (MAX_WARNINGS, 100)
        );
    }
}
