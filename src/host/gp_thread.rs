//! The grace-period kthread on a thread of its own.
//!
//! It runs *on* a vCPU like any task: during a step that vCPU is not idle, which makes it the hold-out of a
//! grace period without the early report.

use super::clock::{monotonic_ns, thread_cpu_ns};
use super::engine::{Shared, TimerMode};
use super::park::Park;
use super::vcpu::Kind;
use super::world::{Actor, Covered, Host};
use crate::stats::Resolution;
use crate::sync::{AtomicU32, Ordering, Tally, WorldLock, fence_after_rmw};
use crate::tree::{GpKthread, GpResume, GpWait, Upcoming};
use crate::wheel::wheel_expiry;

/// While an engine closes, waits for scans are this long, ns.
const HURRIED_NS: u64 = 200_000;

/// Shared with those who wake it.
pub(super) struct GpControl {
    pub park: Park,
    cpu: AtomicU32,
    pub cpu_ns: Tally,
    /// The kthread's variables: who holds this lock *is* the kthread.
    pub(super) role: WorldLock<Role>,
    /// Callers may be it, see [`super::drive`].
    pub(super) driven: bool,
    /// Callers that are about to look whether they can be it.
    pub(super) spinners: AtomicU32,
    /// Goes up whenever a caller leaves the role to the thread. The caller may have worked on the request of another
    /// one, who finds it served and calls nobody: no ticket tells the thread.
    pub(super) handed: AtomicU32,
}

/// What makes somebody the grace-period kthread.
#[derive(Debug)]
pub(super) struct Role {
    pub kthread: GpKthread,
    /// It sleeps until some time, which only the thread itself can do.
    pub timed: bool,
}

impl GpControl {
    pub fn new(cpu: u32, driven: bool) -> Self {
        GpControl {
            park: Park::default(),
            cpu: AtomicU32::new(cpu),
            cpu_ns: Tally::new(0),
            role: WorldLock::new_tried(Role {
                kthread: GpKthread::default(),
                timed: false,
            }),
            driven,
            spinners: AtomicU32::new(0),
            handed: AtomicU32::new(0),
        }
    }

    /// Puts it on a vCPU.
    #[cfg(any(treercu_loom, treercu_shuttle))]
    pub(super) fn put_on(&self, cpu: u32) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Where it runs, or last ran.
    pub fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(super) fn gp_thread(&self) {
        super::os::precise_timers();
        let mut resume = GpResume::Run;
        loop {
            let (wait, marks, handed) = {
                let mut role = self.gp.role.lock();
                // What was handed over before is seen by this run, whatever comes later ends the sleep after it.
                let handed = self.gp.handed.load(Ordering::SeqCst);
                self.place_kthread();
                let (wait, marks) =
                    self.gp_run(&mut role, std::mem::replace(&mut resume, GpResume::Run), || false);
                (wait, marks, handed)
            };
            self.wake_crowd(marks);
            match wait {
                GpWait::Yield => {}
                GpWait::Delay { jiffies } => {
                    let until = self.timeout_at(jiffies);
                    while monotonic_ns() < until && !self.stopping() && !self.hurried() {
                        self.gp_sleep(Some(until), || false);
                    }
                }
                GpWait::Request { ticket } => self.gp_sleep(None, || {
                    self.rcu.gp_ticket_is_old(ticket) || self.gp.handed.load(Ordering::SeqCst) != handed
                }),
                GpWait::Timeout { jiffies, ticket } => {
                    let until = self.timeout_at(jiffies);
                    self.gp_sleep(Some(until), || self.rcu.gp_ticket_is_old(ticket));
                    if monotonic_ns() >= until || self.hurried() {
                        resume = GpResume::TimedOut;
                        if self.timer == TimerMode::Wheel {
                            self.carry_out_ticks();
                        }
                    }
                }
            }
            if self.stopping() {
                break;
            }
        }
    }

    /// Runs the kthread on its vCPU until it has to wait, or between two grace periods until there are callers to be
    /// woken or `enough` says so. Gives their marks in the crowd too: they are woken once the role is free.
    pub(super) fn gp_run(
        &self,
        role: &mut Role,
        mut resume: GpResume,
        enough: impl Fn() -> bool,
    ) -> (GpWait, u32) {
        let cpu = self.gp.cpu();
        self.vcpus.get(cpu).kthread.idle_exit();
        let mut host = Host::new(self, Actor::GpKthread, cpu);
        // A caller keeps it for one grace period, which is short or left to the thread.
        host.keeps_jiffies = self.gp.driven;
        let ctx = host.ctx();
        let wait = loop {
            host.next_step();
            match role.kthread.upcoming() {
                None => {}
                Some(Upcoming::EarlyReport)
                    if self.tun.early_qs && !self.prepare_early_report(cpu, &mut host) =>
                {
                    // Non-preemptible threads were asked; the last of them reports this vCPU.
                    role.kthread.decline_early_report();
                }
                Some(Upcoming::EarlyReport) => {}
                Some(Upcoming::Scan(leaf)) => self.prepare_scan(leaf, &mut host),
            }
            let wait = self.rcu.gp_step(
                &mut role.kthread,
                ctx,
                std::mem::replace(&mut resume, GpResume::Run),
                &mut host,
            );
            host.deliver();
            let between = role.kthread.is_between();
            if between {
                host.jiffies.set(None);
            }
            if wait != GpWait::Yield || (between && (host.marks != 0 || enough())) {
                break wait;
            }
        };
        // Switching away from the kthread is a quiescent state of its vCPU, if nothing else is there.
        if self.rcu.gp_in_progress()
            && let Some(gp_seq) = self.rcu.owed_gp(cpu)
        {
            fence_after_rmw("F2 switch");
            if self.vcpus.get(cpu).active() == 0 {
                self.rcu
                    .record_observed_qs(cpu, gp_seq, Resolution::ContextSwitch, &mut host);
            }
        }
        self.vcpus.get(cpu).kthread.idle_enter();
        role.timed = matches!(wait, GpWait::Timeout { .. } | GpWait::Delay { .. });
        (wait, host.marks)
    }

    /// By the monotonic clock.
    fn timeout_at(&self, jiffies: u64) -> u64 {
        if self.hurried() {
            return monotonic_ns() + HURRIED_NS;
        }
        match self.timer {
            TimerMode::Wheel => self.clock.jiffy_at(wheel_expiry(self.clock.jiffies(), jiffies)),
            TimerMode::Hrtimer => monotonic_ns() + jiffies * self.clock.tick_ns,
        }
    }

    /// Sleeps until woken or the time has come; the kthread is off its vCPU.
    fn gp_sleep(&self, until: Option<u64>, woken: impl Fn() -> bool) {
        self.gp.cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        let until = if self.hurried() {
            Some(until.unwrap_or(u64::MAX).min(monotonic_ns() + HURRIED_NS))
        } else {
            until
        };
        loop {
            self.gp.park.announce();
            // Between giving up the role and the look at requests. Partner: the fence of a caller that stops driving
            // (`spinner gone`), and that nobody wakes this thread for.
            fence_after_rmw("kthread asleep");
            let late = until.is_some_and(|at| monotonic_ns() >= at);
            if woken() || late || self.stopping() {
                self.gp.park.withdraw();
                return;
            }
            self.gp.park.sleep(self.parking, until);
            if self.hurried() {
                self.gp.park.withdraw();
                return;
            }
        }
    }

    /// Stays on its vCPU unless that went offline. Only the thread itself moves.
    fn place_kthread(&self) {
        let cpu = self.gp.cpu();
        if self.vcpus.is_online(cpu) {
            return;
        }
        let to = self.vcpus.online().next_back().unwrap_or(cpu);
        self.gp.cpu.store(to, Ordering::Relaxed);
        self.counters.gp_migrations.fetch_add(1, Ordering::Relaxed);
    }

    /// The kthread is going to say that its own vCPU is quiescent. True of the kthread, and of the other threads
    /// there once a pass has made sure of them.
    fn prepare_early_report(&self, cpu: u32, host: &mut Host<'_>) -> bool {
        self.make_sure(cpu, Kind::Normal, self.rcu.gp_seq(), host)
    }

    /// A scan is going to look at the vCPUs of this leaf that are waited for.
    fn prepare_scan(&self, leaf: usize, host: &mut Host<'_>) {
        fence_after_rmw("F2 scan");
        let owed: Vec<u32> = self
            .rcu
            .owed_by_leaf(leaf)
            .filter(|&cpu| self.vcpus.get(cpu).active() > 0)
            .collect();
        if owed.is_empty() {
            return;
        }
        if self.rcu.is_preemptible() {
            self.block_readers(owed.iter().copied(), None, host);
            host.covered = Covered::Some(owed);
        } else {
            let gp_seq = self.rcu.gp_seq();
            for &cpu in &owed {
                self.ask(cpu, Kind::Normal, gp_seq, None);
            }
        }
    }
}
