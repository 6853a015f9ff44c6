//! The grace-period work item, step by step.
//!
//! One run looks where the grace period stands and goes as far as it can: IDLE with demand → SCAN1 → flip → SCAN2 → end.
//! A scan that fails ends the run, and the item is queued again after a delay. Without readers one run does it all.
//!
//! A step ends where others may run: between the two sums of a zero test, between two tests, between two nodes of the
//! launch.

use super::domain::{Srcu, Sup};
use super::world::{GpRecord, Work, World};
use super::zero::Scan;
use crate::sync::{Ordering, full_fence};
use crate::tree::seq;

/// State of the number: no grace period.
pub const IDLE: u64 = 0;
/// The index that new readers avoid is tested.
pub const SCAN1: u64 = 1;
/// The index has been flipped, and the old one is tested.
pub const SCAN2: u64 = 2;

/// What the work item wants behind a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpWait {
    /// The next step, at once.
    Again,
    /// The next step, after so many µs of busy-waiting.
    Spin {
        /// `srcu_retry_check_delay`.
        us: u64,
    },
    /// The next step, after a grace period of RCU.
    Rcu {
        /// `synchronize_rcu_expedited()` rather than `synchronize_rcu()`.
        expedited: bool,
    },
    /// Nothing: the run is over, and whatever is to run later has been queued.
    Done,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    /// Before it.
    #[default]
    Entry,
    /// Before the first sum; tries left.
    Unlocks { tries: u32 },
    /// Before the second sum.
    Locks { tries: u32, unlocks: u64 },
    /// The scan has succeeded.
    ScanDone,
    /// Before this node's part of the launch.
    Launch { node: usize },
    /// Everything is launched.
    Launched,
    /// Before its end.
    Tail,
}

/// The work item of one domain: the world owns it, and steps it from one place at a time (invariant S3).
#[derive(Debug, Default)]
pub struct GpWork {
    at: At,
    /// The number of the grace period that has just ended, and the delay of its callbacks.
    pub(super) ended: u64,
    pub(super) cb_delay: u64,
    tests: u32,
    runs: u32,
}

impl GpWork {
    /// No run is under way.
    pub fn is_between_runs(&self) -> bool {
        self.at == At::Entry
    }
}

impl<C> Srcu<C> {
    /// Begins a grace period, under the domain's lock.
    pub(super) fn gp_start(&self, sup: &mut Sup, now: u64, jiffies: u64) {
        sup.gp_start = jiffies;
        sup.gp_start_ns = now;
        sup.n_exp_nodelay = 0;
        // Full barrier: what was asked for comes before the number. Partners: the requests' barriers.
        full_fence("gp start");
        self.gp_seq.store(seq::start(self.gp_seq()), Ordering::SeqCst);
        debug_assert!(seq::lt(self.gp_seq(), self.gp_seq_needed()));
    }

    /// Tells the world, outside the lock.
    pub(super) fn began(&self, world: &mut impl World) {
        world.spend(Work::GpStart);
        world.grace_period_began(self.gp_seq());
    }

    /// The `irq_work` of a funnel that began a grace period: queues the work item.
    pub fn start_work(&self, world: &mut impl World) {
        let delay = self.evaluate_delay(&mut self.sup.lock(), world.jiffies());
        world.queue_gp(u64::from(delay != 0));
    }

    /// One step of the work item.
    pub fn gp_step(&self, work: &mut GpWork, world: &mut impl World) -> GpWait {
        match work.at {
            At::Entry => self.entry(work, world),
            At::Unlocks { tries } => {
                let unlocks = self.sum_unlocks(self.current_index() ^ 1, world);
                work.at = At::Locks { tries, unlocks };
                if self.flavour.is_slow_gp() {
                    return GpWait::Rcu {
                        expedited: self.is_expedited(&self.sup.lock()),
                    };
                }
                GpWait::Again
            }
            At::Locks { tries, unlocks } => {
                if !self.flavour.is_slow_gp() {
                    self.between_sums(world);
                }
                work.tests += 1;
                let locks = self.sum_locks(self.current_index() ^ 1, world);
                if locks == unlocks {
                    work.at = At::ScanDone;
                    return GpWait::Again;
                }
                if tries <= 1 {
                    work.at = At::Tail;
                    return GpWait::Again;
                }
                work.at = At::Unlocks { tries: tries - 1 };
                GpWait::Spin {
                    us: self.tun.srcu.retry_check_delay_us,
                }
            }
            At::ScanDone => self.scan_done(work, world),
            At::Launch { node } => {
                work.at = match self.launch_node(node, work, world) {
                    Some(node) => At::Launch { node },
                    None => At::Launched,
                };
                GpWait::Again
            }
            At::Launched => {
                self.refresh_numbers(work.ended);
                self.go_on(world);
                self.grow();
                work.at = At::Tail;
                GpWait::Again
            }
            At::Tail => {
                work.at = At::Entry;
                let (delay, began, more) = {
                    let mut sup = self.sup.lock();
                    let delay = self.delay_after_run(&mut sup, world);
                    let idle = seq::state(self.gp_seq()) == IDLE;
                    let wanted = !seq::done(self.gp_seq(), self.gp_seq_needed());
                    let began = idle && wanted;
                    if began {
                        self.gp_start(&mut sup, world.now(), world.jiffies());
                    }
                    (delay, began, !idle || wanted)
                };
                if began {
                    self.began(world);
                }
                if more {
                    world.queue_gp(delay);
                }
                GpWait::Done
            }
        }
    }

    fn entry(&self, work: &mut GpWork, world: &mut impl World) -> GpWait {
        work.runs += 1;
        if seq::state(self.gp_seq()) == IDLE {
            let began = {
                let mut sup = self.sup.lock();
                let idle = seq::state(self.gp_seq()) == IDLE;
                let wanted = !seq::done(self.gp_seq(), self.gp_seq_needed());
                if idle && wanted {
                    self.gp_start(&mut sup, world.now(), world.jiffies());
                }
                idle && wanted
            };
            if !began {
                // Nothing to do, or somebody else has begun one and queues this item for it.
                work.at = At::Tail;
                return GpWait::Again;
            }
            self.began(world);
            (work.tests, work.runs) = (0, 1);
        }
        self.begin_scan(work, world)
    }

    /// Enters the scan that the number says.
    fn begin_scan(&self, work: &mut GpWork, world: &mut impl World) -> GpWait {
        let scan = self.scan();
        if self.skips(scan) {
            work.at = At::ScanDone;
            return GpWait::Again;
        }
        let delay = self.evaluate_delay(&mut self.sup.lock(), world.jiffies());
        work.at = At::Unlocks {
            tries: scan as u32 + u32::from(delay == 0),
        };
        GpWait::Again
    }

    fn scan(&self) -> Scan {
        match seq::state(self.gp_seq()) {
            SCAN1 => Scan::First,
            state => {
                debug_assert_eq!(state, SCAN2);
                Scan::Second
            }
        }
    }

    fn scan_done(&self, work: &mut GpWork, world: &mut impl World) -> GpWait {
        if self.scan() == Scan::First {
            self.flip(world);
            {
                let mut sup = self.sup.lock();
                self.gp_seq
                    .store(self.gp_seq() + (SCAN2 - SCAN1), Ordering::SeqCst);
                sup.n_exp_nodelay = 0;
            }
            return self.begin_scan(work, world);
        }
        self.gp_end(work, world);
        work.at = At::Launch { node: 0 };
        GpWait::Again
    }

    /// New readers use the other index from here on.
    fn flip(&self, world: &mut impl World) {
        world.spend(Work::Flip);
        // E: the first scan comes before. What lets the flip happen is that it succeeded, so this is belt and braces.
        full_fence("E");
        self.current
            .store(self.current_index() as u32 ^ 1, Ordering::Relaxed);
        // D: a reader that leaves after the second scan began comes back on the new index. Saves scans, no more.
        full_fence("D");
    }

    fn gp_end(&self, work: &mut GpWork, world: &mut impl World) {
        let now = world.now();
        let (ended, delay, start_ns) = {
            let mut sup = self.sup.lock();
            sup.n_exp_nodelay = 0;
            let expedited = self.is_expedited(&sup);
            sup.last_gp_end = now;
            let ended = seq::end(self.gp_seq());
            // SeqCst: the scans come before, as the full barrier of the lock says as well.
            self.gp_seq.store(ended, Ordering::SeqCst);
            if seq::lt(sup.gp_seq_needed_exp, ended) {
                sup.gp_seq_needed_exp = ended;
            }
            (ended, u64::from(!expedited), sup.gp_start_ns)
        };
        (work.ended, work.cb_delay) = (ended, delay);
        world.grace_period_ended(&GpRecord {
            gp_seq: ended.wrapping_sub(seq::SEQ_GP - SCAN1),
            start_ns,
            end_ns: now,
            tests: std::mem::take(&mut work.tests),
            runs: std::mem::take(&mut work.runs),
            expedited: delay == 0,
        });
        world.spend(Work::GpEnd);
    }

    /// More is wanted: the next grace period begins before this one's run is over.
    fn go_on(&self, world: &mut impl World) {
        let began = {
            let mut sup = self.sup.lock();
            let wanted = seq::state(self.gp_seq()) == IDLE && seq::lt(self.gp_seq(), self.gp_seq_needed());
            if wanted {
                self.gp_start(&mut sup, world.now(), world.jiffies());
            }
            wanted
        };
        if began {
            self.began(world);
            world.queue_gp(0);
        }
    }
}
