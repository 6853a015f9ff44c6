//! The grace-period kthread as a step function (invariants I3, I4, I9, I15).
//!
//! One call of [`Rcu::gp_step`] does the work between two reschedule points: a node of the
//! initialisation or clean-up pass, a leaf of a scan. What happens on other CPUs between two steps —
//! ticks, reports, wake-ups — falls between two nodes, as it does in the kernel.

use super::qs::Report;
use super::rcu::{FLAG_FQS, FLAG_INIT, Rcu};
use super::seq;
use super::world::{Ctx, Current, Fence, GpRecord, Kthread, Work, World};
use crate::stats::Resolution;
use crate::sync::{Ordering, mutated, order};
use crate::trace::Event;

/// `gp_state`, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum GpState {
    /// Between grace periods.
    Idle = 0,
    /// Waiting for a request.
    WaitGps = 1,
    /// A request was seen.
    DoneGps = 2,
    /// Applying hotplug changes.
    OnOff = 3,
    /// Writing masks and numbers to the nodes.
    Init = 4,
    /// Sleeping before a scan.
    WaitFqs = 5,
    /// Scanning.
    DoingFqs = 6,
    /// Ending.
    Cleanup = 7,
    /// Ended.
    Cleaned = 8,
}

/// Why the kthread runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpResume {
    /// It only yielded, or was woken.
    Run,
    /// The timeout it asked for has passed.
    TimedOut,
}

/// What the kthread wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpWait {
    /// A reschedule point: go on when the scheduler agrees.
    Yield,
    /// Sleep this many jiffies on the timer wheel, whatever happens (`gp_*_delay`).
    Delay {
        /// Jiffies, at least 1.
        jiffies: u64,
    },
    /// Sleep until woken; do not sleep if the ticket is old by then.
    Request {
        /// See [`Rcu::gp_ticket_is_old`].
        ticket: u64,
    },
    /// The same with a timeout of this many jiffies on the timer wheel.
    Timeout {
        /// Jiffies, at least 1.
        jiffies: u64,
        /// See [`Rcu::gp_ticket_is_old`].
        ticket: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WaitRequest,
    /// Hotplug pass, this leaf next.
    OnOff(usize),
    /// Before the initialisation pass.
    PreInit,
    /// Initialisation pass, this node next; `true`: its delay is over.
    Init(usize, bool),
    /// All nodes are initialised.
    InitDone,
    /// Before a wait for a scan.
    FqsWait,
    /// Sleeping until this jiffy.
    FqsSleep(u64),
    /// Scanning, this leaf next.
    Scan(usize),
    /// Clean-up pass, this node next.
    Cleanup(usize),
    /// After the delay that follows this node's clean-up.
    AfterCleanup(usize),
}

/// The kthread's own variables. Exactly one exists per [`Rcu`]; its world keeps it.
#[derive(Debug)]
pub struct GpKthread {
    phase: Phase,
    pub(super) jiffies_resched: u64,
    jiffies_force_qs: u64,
    /// Length of the current wait, jiffies.
    wait: u64,
    /// The kthread's copy of what it was woken for.
    flags: GpFlags,
    stray: bool,
    pub(super) first_scan: bool,
    /// Overload in force, and being collected by the running scan.
    pub(super) cbovld: bool,
    pub(super) cbovld_next: bool,
    need_gp: bool,
    /// `reqwait` was traced for this wait.
    announced: bool,
    /// This grace period's early report would not be true.
    early_declined: bool,
    start_ns: u64,
    pub(super) scans: u32,
    pub(super) cpus_scanned: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct GpFlags {
    fqs: bool,
    ovld: bool,
}

impl Default for GpKthread {
    fn default() -> Self {
        GpKthread {
            phase: Phase::WaitRequest,
            jiffies_resched: 0,
            jiffies_force_qs: 0,
            wait: 0,
            flags: GpFlags::default(),
            stray: false,
            first_scan: true,
            cbovld: false,
            cbovld_next: false,
            need_gp: false,
            announced: false,
            early_declined: false,
            start_ns: 0,
            scans: 0,
            cpus_scanned: 0,
        }
    }
}

impl<C> Rcu<C> {
    fn set_state(&self, state: GpState) {
        self.gp_state.store(state as u32, Ordering::Relaxed);
    }

    /// Runs the kthread to its next reschedule point. `ctx.cpu` is where it runs now; it may have
    /// moved since the last step.
    pub fn gp_step(&self, k: &mut GpKthread, ctx: Ctx, resume: GpResume, world: &mut impl World) -> GpWait {
        promise_eq!(ctx.current, Current::GpKthread);
        match k.phase {
            Phase::WaitRequest => {
                self.set_state(GpState::WaitGps);
                if !std::mem::replace(&mut k.announced, true) {
                    world.emit(|| Event::GracePeriod {
                        gp_seq: self.gp_seq(),
                        what: "reqwait",
                    });
                }
                let ticket = self.gp_ticket.load(Ordering::SeqCst);
                if self.gp_flags.load(Ordering::SeqCst) & FLAG_INIT == 0 {
                    return GpWait::Request { ticket };
                }
                self.set_state(GpState::DoneGps);
                k.announced = false;
                if self.gp_init_start(k, ctx, world) {
                    k.phase = Phase::OnOff(self.geometry.leaves().start);
                } else {
                    world.emit(|| Event::GracePeriod {
                        gp_seq: self.gp_seq(),
                        what: "reqwaitsig",
                    });
                }
                GpWait::Yield
            }
            Phase::OnOff(leaf) => {
                self.apply_hotplug(leaf);
                world.spend(Work::HotplugLeaf);
                k.phase = if leaf + 1 < self.nodes.len() {
                    Phase::OnOff(leaf + 1)
                } else {
                    Phase::PreInit
                };
                GpWait::Yield
            }
            Phase::PreInit => {
                k.phase = Phase::Init(0, false);
                self.delay_or_yield(self.tun.gp_preinit_delay)
            }
            Phase::Init(index, false) => {
                self.set_state(GpState::Init);
                k.phase = Phase::Init(index, true);
                self.delay_or_yield(self.tun.gp_init_delay)
            }
            Phase::Init(index, true) => {
                self.init_node(index, ctx, world);
                k.phase = if index + 1 < self.nodes.len() {
                    Phase::Init(index + 1, false)
                } else {
                    Phase::InitDone
                };
                GpWait::Yield
            }
            Phase::InitDone => {
                // The kthread may have moved since it initialised the last node.
                if self.tun.early_qs && !std::mem::take(&mut k.early_declined) {
                    self.early_report(ctx, world);
                }
                k.begin_fqs(if mutated("Z21") {
                    0
                } else {
                    self.tun.jiffies_till_first_fqs
                });
                k.phase = Phase::FqsWait;
                GpWait::Yield
            }
            Phase::FqsWait => self.fqs_wait(k, ctx, world),
            Phase::FqsSleep(until) => self.fqs_resume(k, until, ctx, resume, world),
            Phase::Scan(leaf) => self.scan_step(k, leaf, ctx, world),
            Phase::Cleanup(index) => self.cleanup_step(k, index, ctx, world),
            Phase::AfterCleanup(index) => self.after_cleanup(k, index, ctx, world),
        }
    }

    /// First part of `rcu_gp_init()`. False: there was nothing to do.
    fn gp_init_start(&self, k: &mut GpKthread, ctx: Ctx, world: &mut impl World) -> bool {
        let pool_empty = {
            let _root = self.lock_node(0);
            if self.change_gp_flags(|_| 0) == 0 || self.gp_in_progress() {
                return false;
            }
            let now = world.jiffies();
            self.gp_start_jiffies.store(now, Ordering::Relaxed);
            self.jiffies_stall
                .store(now + self.stall_timeout(), Ordering::Release);
            k.jiffies_resched = now + self.stall_timeout() / 2;
            k.start_ns = world.now();
            k.scans = 0;
            k.cpus_scanned = 0;
            self.last_holdout.store(u64::MAX, Ordering::Relaxed);
            // Requests are taken before the number starts: one that is pushed later names the next
            // grace period, and this one must not complete it.
            let started = seq::start(self.gp_seq.load(Ordering::Relaxed));
            let pool_empty = !mutated("callers taken late") && self.srs.gp_init(started);
            // The number starts before the hotplug scan: an update registered in between would be
            // numbered with this grace period, which a CPU coming online after the scan escapes.
            // The full barrier between it and the first sample of a reader is the heavy fence below.
            self.gp_seq.store(started, Ordering::Release);
            world.emit(|| Event::GracePeriod {
                gp_seq: self.gp_seq(),
                what: "start",
            });
            self.polled_gp_start();
            pool_empty
        };
        world.heavy_fence(Fence::GpStart);
        world.spend(Work::GpStart);
        if pool_empty {
            self.request_gp(ctx, world);
        }
        self.set_state(GpState::OnOff);
        true
    }

    /// A test aid: a sleep of `delay` jiffies, in so few grace periods that the average cost does not
    /// depend on its length.
    fn delay_or_yield(&self, delay: u64) -> GpWait {
        /// Spacing of the delayed grace periods (`PER_RCU_NODE_PERIOD`).
        const PERIOD: u64 = 3;
        let every = self.nodes.len() as u64 * PERIOD * delay;
        if delay > 0 && seq::ctr(self.gp_seq()).is_multiple_of(every) {
            GpWait::Delay { jiffies: delay }
        } else {
            GpWait::Yield
        }
    }

    /// Hotplug pass for one leaf: the tree changes only here (invariant I13).
    fn apply_hotplug(&self, leaf: usize) {
        // A CPU that raises the mark after this look comes after the pass, as if the look had been under the locks.
        // Partner of the barrier between the start of the number and here: the one of the lock that the CPU takes next.
        let changed = &self.nodes[leaf].hotplug;
        if !changed.load(Ordering::Acquire) {
            return;
        }
        let _ofl = self.ofl_lock.lock();
        changed.store(false, Ordering::Relaxed);
        let mut state = self.lock_node(leaf);
        let had_cpus = state.qsmaskinit != 0;
        if !had_cpus && state.qsmaskinitnext == 0 && !state.wait_blkd_tasks && !state.blocked.is_empty() {
            // Its last CPU came and went between two passes, and a reader was preempted there meanwhile. The
            // kernel never gets here, since a CPU on its way offline first waits for a grace period.
            state.wait_blkd_tasks = true;
            changed.store(true, Ordering::Relaxed);
            drop(state);
            return self.change_ancestors(leaf, true);
        }
        if state.qsmaskinit == state.qsmaskinitnext && !state.wait_blkd_tasks {
            return;
        }
        state.qsmaskinit = state.qsmaskinitnext;
        let has_cpus = state.qsmaskinit != 0;
        let (mut attach, mut detach) = (false, false);
        if had_cpus != has_cpus {
            if has_cpus {
                attach = !state.wait_blkd_tasks;
            } else if !state.blocked.is_empty() {
                state.wait_blkd_tasks = true;
            } else {
                detach = true;
            }
        }
        if state.wait_blkd_tasks && (state.blocked.is_empty() || has_cpus) {
            state.wait_blkd_tasks = false;
            detach |= !has_cpus;
        }
        if state.wait_blkd_tasks {
            // Until its last blocked reader is gone.
            changed.store(true, Ordering::Relaxed);
        }
        if attach || detach {
            drop(state);
            self.change_ancestors(leaf, attach);
        }
    }

    /// A node came to have CPUs, or lost its last: its bit in the parent, and so on while the
    /// emptiness of each ancestor changes.
    fn change_ancestors(&self, from: usize, attach: bool) {
        let mut index = from;
        while let Some(parent) = self.nodes[index].shape.parent {
            let mask = self.nodes[index].shape.grpmask;
            let mut state = self.lock_node(parent);
            let was_empty = state.qsmaskinit == 0;
            if attach {
                state.qsmaskinit |= mask;
            } else {
                state.qsmaskinit &= !mask;
            }
            if was_empty == (state.qsmaskinit == 0) {
                return;
            }
            index = parent;
        }
    }

    /// Initialisation of one node.
    fn init_node(&self, index: usize, ctx: Ctx, world: &mut impl World) {
        let node = &self.nodes[index];
        let rdp = &self.cpus[ctx.cpu as usize];
        // The CPU's own lock comes before its leaf's.
        let mut own = (rdp.leaf == index).then(|| rdp.own.lock());
        let mut state = self.lock_node(index);
        promise_eq!(
            node.qsmask.load(Ordering::Relaxed),
            0,
            "a grace period starts with a clean node"
        );
        if !state.blocked.is_empty() && (state.qsmaskinit != 0 || state.wait_blkd_tasks) {
            // Every reader that is blocked now may have begun before this grace period.
            if !mutated("Z48c") {
                state.blocked.all_block_gp();
            }
            if let Some(&first) = state.blocked.gp_blockers().first().filter(|_| world.tracing()) {
                let gp_seq = self.gp_seq();
                world.emit(|| Event::UnlockPreemptedTask {
                    gp_seq,
                    pid: first,
                    at_gp_start: true,
                });
            }
            node.gp_tasks.store(state.blocked.blocks_gp(), Ordering::Relaxed);
        }
        node.qsmask
            .store(self.to_wait_for(index, &state), Ordering::Relaxed);
        let gps = self.gp_seq.load(Ordering::Relaxed);
        if node.is_leaf || !mutated("Z27") {
            node.gp_seq.store(gps, Ordering::Release);
        }
        if let Some(own) = own.as_deref_mut() {
            // The kthread is awake, so a wanted wake-up is not needed.
            self.note_gp_changes_locked(&mut state, rdp, own, world);
        }
        drop(own);
        world.spend(Work::InitNode);
        world.emit(|| Event::GracePeriodInit {
            gp_seq: gps,
            level: node.shape.level,
            grplo: node.shape.grplo,
            grphi: node.shape.grphi,
            qsmask: state.qsmaskinit,
        });
        // CPUs that went offline since the hotplug pass owe nothing, nor does a leaf that waited for
        // blocked readers only and has none left.
        let gone = if node.is_leaf && !mutated("Z24") {
            state.qsmaskinit & !state.qsmaskinitnext
        } else {
            0
        };
        if gone != 0 || (state.wait_blkd_tasks && !mutated("Z23")) {
            let by = Report {
                cpu: node.shape.grplo,
                how: Resolution::Nobody,
            };
            if self.report_up(index, state, gone, gps, by, world) {
                self.wake_gp_kthread(ctx, world);
            }
        }
    }

    /// Whom a grace period waits for at this node.
    fn to_wait_for(&self, index: usize, state: &super::rcu::NodeState) -> u64 {
        let init = state.qsmaskinit;
        let last = (1 << 63) >> init.leading_zeros().min(63);
        match self.nodes[index].is_leaf {
            _ if mutated("Z03") => 0,
            true if mutated("Z45") => init & !last,
            false if mutated("Z45b") => init & !last,
            _ => init,
        }
    }

    /// The early quiescent-state report: the kthread's own CPU is running the kthread outside any
    /// reader, so it need not be waited for (invariant I18). On a CPU that the kthread moved to after
    /// that CPU's leaf was initialised the numbers differ and the report declines.
    fn early_report(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let mut own = rdp.own.lock();
        Self::record_qs(rdp, &mut own, Resolution::EarlyReport, world);
        self.report_qs_locked(ctx, own, Resolution::EarlyReport, world);
        world.spend(Work::EarlyReport);
    }

    /// Nobody is waited for any more.
    fn root_done(&self) -> bool {
        // In a tree of one node the root is a leaf and may have blocked readers of its own.
        let root = &self.nodes[0];
        if mutated("Z51") && seq::state(self.exp_seq()) != 0 {
            return true;
        }
        // Acquire: after every report.
        root.qsmask.load(order("root empty", Ordering::Acquire)) == 0
            && !root.gp_tasks.load(Ordering::Acquire)
    }

    /// Top of the loop of `rcu_gp_fqs_loop()`: decide how long to sleep.
    fn fqs_wait(&self, k: &mut GpKthread, ctx: Ctx, world: &mut impl World) -> GpWait {
        let now = world.jiffies();
        if k.cbovld {
            k.wait = k.wait.div_ceil(3).max(1);
        }
        if !k.stray || now + k.wait < k.jiffies_force_qs {
            k.jiffies_force_qs = now + k.wait;
        }
        world.emit(|| Event::GracePeriod {
            gp_seq: self.gp_seq(),
            what: "fqswait",
        });
        self.set_state(GpState::WaitFqs);
        let ticket = self.gp_ticket.load(Ordering::SeqCst);
        if k.wait == 0 || self.fqs_condition(k) {
            return self.fqs_decide(k, ctx, world);
        }
        k.phase = Phase::FqsSleep(now + k.wait);
        GpWait::Timeout {
            jiffies: k.wait,
            ticket,
        }
    }

    /// The sleep's condition; it also takes over the flags.
    fn fqs_condition(&self, k: &mut GpKthread) -> bool {
        if k.flags.ovld {
            return true;
        }
        k.flags.fqs = self.gp_flags.load(Ordering::SeqCst) & FLAG_FQS != 0;
        k.flags.fqs || self.root_done()
    }

    /// Awake again: go on, or sleep for the rest.
    fn fqs_resume(
        &self,
        k: &mut GpKthread,
        until: u64,
        ctx: Ctx,
        resume: GpResume,
        world: &mut impl World,
    ) -> GpWait {
        let ticket = self.gp_ticket.load(Ordering::SeqCst);
        let left = until.saturating_sub(world.jiffies());
        if self.fqs_condition(k) || resume == GpResume::TimedOut || left == 0 || mutated("Z43") {
            self.fqs_decide(k, ctx, world)
        } else {
            GpWait::Timeout {
                jiffies: left,
                ticket,
            }
        }
    }

    /// After the sleep: the grace period is over, or a scan is due, or the wake was a stray one.
    fn fqs_decide(&self, k: &mut GpKthread, ctx: Ctx, world: &mut impl World) -> GpWait {
        self.set_state(GpState::DoingFqs);
        let now = world.jiffies();
        if self.root_done() {
            self.set_state(GpState::Cleanup);
            k.need_gp = false;
            if mutated("Z42") {
                self.srs_gp_cleanup(world);
            }
            self.polled_gp_end();
            k.phase = Phase::Cleanup(0);
        } else if now >= k.jiffies_force_qs || k.flags.fqs || k.flags.ovld {
            self.check_stall(ctx, false, world);
            self.begin_scan(k, world);
            k.phase = Phase::Scan(self.geometry.leaves().start);
        } else {
            world.emit(|| Event::GracePeriod {
                gp_seq: self.gp_seq(),
                what: "fqswaitsig",
            });
            k.stray = true;
            k.wait = k.jiffies_force_qs.saturating_sub(now).max(1);
            k.flags = GpFlags::default();
            k.phase = Phase::FqsWait;
        }
        GpWait::Yield
    }

    /// One leaf of a scan; after the last one the loop starts over with the later waits.
    fn scan_step(&self, k: &mut GpKthread, leaf: usize, ctx: Ctx, world: &mut impl World) -> GpWait {
        self.scan_leaf(k, leaf, ctx, world);
        if leaf + 1 < self.nodes.len() {
            k.phase = Phase::Scan(leaf + 1);
            return GpWait::Yield;
        }
        self.end_scan(world);
        k.flags = GpFlags {
            fqs: false,
            ovld: k.first_scan && k.cbovld,
        };
        k.first_scan = false;
        k.stray = false;
        k.wait = self.tun.jiffies_till_next_fqs;
        k.phase = Phase::FqsWait;
        GpWait::Yield
    }

    /// `rcu_gp_cleanup()`: one node, and after the last one the end of the grace period.
    fn cleanup_step(&self, k: &mut GpKthread, index: usize, ctx: Ctx, world: &mut impl World) -> GpWait {
        let rdp = &self.cpus[ctx.cpu as usize];
        let node = &self.nodes[index];
        let rcuogs = {
            let mut own = (rdp.leaf == index).then(|| rdp.own.lock());
            let mut state = self.lock_node(index);
            promise_eq!(
                node.qsmask.load(Ordering::Relaxed),
                0,
                "a grace period ends with a clean node"
            );
            promise!(
                !node.gp_tasks.load(Ordering::Relaxed),
                "and without blocked readers"
            );
            let ended = seq::endval(self.gp_seq.load(Ordering::Relaxed));
            // The full barrier behind it comes with the next lock.
            node.gp_seq.store(ended, Ordering::Release);
            if let Some(own) = own.as_deref_mut() {
                k.need_gp |= self.note_gp_changes_locked(&mut state, rdp, own, world);
            }
            // `rcu_future_gp_cleanup()`: keep the request if it names a later grace period.
            let more = seq::lt(ended, state.gp_seq_needed) && !mutated("A02");
            if more {
                k.need_gp = true;
            } else {
                state.gp_seq_needed = ended;
            }
            world.emit(|| Event::FutureGracePeriod {
                gp_seq: ended,
                req: ended,
                level: node.shape.level,
                grplo: node.shape.grplo,
                grphi: node.shape.grphi,
                what: if more { "CleanupMore" } else { "Cleanup" },
            });
            for bit in super::rcu::bits(node.cbovldmask.load(Ordering::Relaxed)) {
                let cpu = &self.cpus[(node.shape.grplo + bit) as usize];
                let over = cpu.cblist_len.load(Ordering::Relaxed) as i64 >= self.tun.qovld;
                self.set_cb_ovld(cpu, over);
            }
            self.nocb_waiting(index, ended)
        };
        for group in rcuogs {
            world.wake(Kthread::NocbGp(group));
        }
        world.spend(Work::CleanupNode);
        k.phase = Phase::AfterCleanup(index);
        self.delay_or_yield(self.tun.gp_cleanup_delay)
    }

    fn after_cleanup(&self, k: &mut GpKthread, index: usize, ctx: Ctx, world: &mut impl World) -> GpWait {
        if index + 1 < self.nodes.len() {
            k.phase = Phase::Cleanup(index + 1);
        } else {
            self.gp_end(k, ctx, world);
            k.phase = Phase::WaitRequest;
        }
        GpWait::Yield
    }

    /// Last part of `rcu_gp_cleanup()`.
    fn gp_end(&self, k: &mut GpKthread, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let running = self.gp_seq();
        {
            // A callback that is queued after this look asks for what it needs itself.
            let mut own = (rdp.cblist_len.load(Ordering::Relaxed) != 0).then(|| rdp.own.lock());
            let mut root = self.lock_node(0);
            world.emit(|| Event::GracePeriod {
                gp_seq: running,
                what: "end",
            });
            self.gp_seq.store(seq::end(running), Ordering::Release);
            self.set_state(GpState::Idle);
            // Requests made since this pass went through the root.
            let root_seq = self.nodes[0].gp_seq.load(Ordering::Relaxed);
            if !k.need_gp && seq::lt(root_seq, root.gp_seq_needed) && !mutated("A02") {
                k.need_gp = true;
                world.emit(|| Event::FutureGracePeriod {
                    gp_seq: root_seq,
                    req: root.gp_seq_needed,
                    level: 0,
                    grplo: self.nodes[0].shape.grplo,
                    grphi: self.nodes[0].shape.grphi,
                    what: "CleanupMore",
                });
            }
            let asked = own
                .as_deref_mut()
                .filter(|own| own.bypass.is_none())
                .is_some_and(|own| self.accelerate_cbs(0, &mut root, rdp, &mut own.cblist, world));
            if !asked && k.need_gp {
                self.change_gp_flags(|_| FLAG_INIT);
                world.emit(|| Event::GracePeriod {
                    gp_seq: self.gp_seq(),
                    what: "newreq",
                });
            } else {
                self.change_gp_flags(|flags| flags & FLAG_INIT);
            }
        }
        let last = self.last_holdout.load(Ordering::Relaxed);
        let (holdout_cpu, resolved_by) = if last == u64::MAX {
            (None, Resolution::Nobody)
        } else {
            (Some((last >> 8) as u32), Resolution::ALL[(last & 0xff) as usize])
        };
        world.grace_period_ended(&GpRecord {
            gp_seq: running,
            start_ns: k.start_ns,
            end_ns: world.now(),
            scans: k.scans,
            cpus_scanned: k.cpus_scanned,
            holdout_cpu,
            resolved_by,
            kthread_cpu: ctx.cpu,
        });
        self.srs_gp_cleanup(world);
        self.set_state(GpState::Cleaned);
    }
}

/// A step that looks at other CPUs' readers, so that a world with real readers has to make sure of
/// them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upcoming {
    /// The kthread reports its own CPU.
    EarlyReport,
    /// A scan of this leaf (index among the tree's nodes).
    Scan(usize),
}

impl GpKthread {
    /// What the next step is going to look at, where that needs preparation.
    pub fn upcoming(&self) -> Option<Upcoming> {
        match self.phase {
            Phase::InitDone => Some(Upcoming::EarlyReport),
            Phase::Scan(leaf) => Some(Upcoming::Scan(leaf)),
            _ => None,
        }
    }

    /// Nothing is under way: the next step looks for a request.
    pub fn is_between(&self) -> bool {
        self.phase == Phase::WaitRequest
    }

    /// Before the step of an early report: another thread on the kthread's CPU may be inside a section, so
    /// the report would not be true.
    pub fn decline_early_report(&mut self) {
        self.early_declined = true;
    }

    fn begin_fqs(&mut self, wait: u64) {
        self.wait = wait;
        self.flags = GpFlags {
            fqs: false,
            ovld: self.cbovld,
        };
        self.stray = false;
        self.first_scan = true;
    }
}
