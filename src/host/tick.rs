//! The tick thread: one for all vCPUs that need a tick, none at all while none does.

use super::clock::monotonic_ns;
use super::engine::Shared;
use super::park::Park;
use super::vcpu::{Bitmap, Kind};
use super::world::{Actor, Host};
use crate::stats::Resolution;
use crate::sync::{AtomicBool, Ordering, Tally, WorldLock, fence_after_rmw, mutated};
use crate::tree::world::TickHit;
use hdrhistogram::Histogram;

/// While an engine closes, its ticks come this often whatever HZ is, ns.
const HURRIED_NS: u64 = 100_000;

/// Shared with those who need ticks.
pub(super) struct Ticks {
    pub park: Park,
    /// vCPUs that have callbacks, or a raised core.
    pub(super) wanted: Bitmap,
    /// vCPUs whose RCU core is to run.
    pub(super) raised: Bitmap,
    /// The thread sleeps without a tick.
    tickless: AtomicBool,
    /// The latest jiffy whose ticks were carried out; whoever carries them out holds the lock.
    done: WorldLock<u64>,
    pub cpu_ns: Tally,
    pub count: Tally,
    /// Most callbacks that were queued in all lists together when a tick came.
    pub callbacks_peak: Tally,
    /// How late ticks came, ns.
    lateness: WorldLock<Histogram<u64>>,
}

impl Ticks {
    pub fn new(nr_cpus: u32) -> Self {
        Ticks {
            park: Park::default(),
            wanted: Bitmap::new(nr_cpus),
            raised: Bitmap::new(nr_cpus),
            tickless: AtomicBool::new(false),
            done: WorldLock::new(0),
            cpu_ns: Tally::new(0),
            count: Tally::new(0),
            callbacks_peak: Tally::new(0),
            lateness: WorldLock::new(Histogram::new(2).expect("2 digits are allowed")),
        }
    }

    /// This vCPU needs ticks: it has callbacks.
    #[inline]
    pub fn want(&self, shared: &Shared, cpu: u32) {
        // Between the reason (a core raised; callbacks, queued under a lock that was just released) and the look at the
        // bit. Partner: the one in `tick_all`, between clearing the bit and looking for reasons.
        fence_after_rmw("tick wanted");
        if self.wanted.set(cpu) {
            // Between the bit and the look at `tickless`. Partner: the one in `sleep_tickless`.
            fence_after_rmw("tick asked for");
            self.unfreeze(shared);
        }
    }

    /// A grace period started: vCPUs with running threads need ticks.
    pub fn gp_started(&self, shared: &Shared) {
        if shared.vcpus.readers() > 0 {
            self.unfreeze(shared);
        }
    }

    pub fn raise_core(&self, shared: &Shared, cpu: u32) {
        self.raised.set(cpu);
        self.want(shared, cpu);
    }

    fn unfreeze(&self, shared: &Shared) {
        if self.tickless.load(Ordering::SeqCst) {
            self.park.wake(shared.parking);
        }
    }

    /// Lateness of the ticks so far: (count, p50, p99, maximum), ns.
    pub fn lateness(&self) -> (u64, u64, u64, u64) {
        let h = self.lateness.lock();
        (
            h.len(),
            h.value_at_quantile(0.5),
            h.value_at_quantile(0.99),
            h.max(),
        )
    }
}

impl Shared {
    pub(super) fn needs_ticks(&self) -> bool {
        !self.ticks.wanted.is_empty()
            || self.tun.periodic_ticks
            || (self.rcu.gp_in_progress() && self.vcpus.readers() > 0)
    }

    pub(super) fn tick_thread(&self) {
        super::os::precise_timers();
        loop {
            if self.stopping() {
                return;
            }
            if !self.needs_ticks() {
                self.sleep_tickless();
                continue;
            }
            let due = if self.hurried() {
                monotonic_ns() + HURRIED_NS
            } else {
                self.clock.jiffy_at(self.clock.jiffies() + 1)
            };
            while monotonic_ns() < due && !self.stopping() {
                self.ticks.park.announce();
                self.ticks.park.sleep(self.parking, Some(due));
                self.ticks.park.withdraw();
                if self.hurried() {
                    break;
                }
            }
            if !self.hurried() {
                let late = monotonic_ns().saturating_sub(due);
                // The histogram resizes itself; a value it cannot take would be centuries.
                let _ = self.ticks.lateness.lock().record(late);
            }
            self.carry_out_ticks();
            self.ticks
                .cpu_ns
                .store(super::clock::thread_cpu_ns(), Ordering::Relaxed);
        }
    }

    pub(super) fn sleep_tickless(&self) {
        self.ticks
            .cpu_ns
            .store(super::clock::thread_cpu_ns(), Ordering::Relaxed);
        self.ticks.tickless.store(true, Ordering::SeqCst);
        self.ticks.park.announce();
        // Between saying so and the look at what is wanted. Partners: the fence in `want`, and F2 of a grace period
        // that starts.
        fence_after_rmw("tickless");
        if self.needs_ticks() || self.stopping() {
            self.ticks.park.withdraw();
        } else {
            self.ticks.park.sleep(self.parking, None);
        }
        self.ticks.tickless.store(false, Ordering::SeqCst);
    }

    /// This jiffy's ticks, unless somebody was faster. A late jiffy runs once.
    ///
    /// A timer expires after the ticks of its jiffy, as the softirq that expires timers runs at the end of a tick's
    /// interrupt: so who was woken by a timer calls this before it goes on.
    pub(super) fn carry_out_ticks(&self) {
        let mut done = self.ticks.done.lock();
        let jiffy = self.clock.jiffies();
        if *done >= jiffy && !self.hurried() {
            return;
        }
        *done = jiffy;
        if self.needs_ticks() {
            self.tick_all();
        }
    }

    /// All vCPUs' ticks, by number.
    pub(super) fn tick_all(&self) {
        // Before the ticks, which may let callbacks go. Whoever has callbacks wants ticks.
        let queued = self
            .ticks
            .wanted
            .iter()
            .map(|cpu| self.rcu.callbacks_of(cpu))
            .sum();
        self.ticks.callbacks_peak.fetch_max(queued, Ordering::Relaxed);
        if self.tun.periodic_ticks {
            for cpu in self.vcpus.online() {
                self.tick(cpu);
            }
            return;
        }
        for cpu in self.ticks.wanted.iter() {
            // Taken out first, so that a core raised during or after its tick stays wanted.
            self.ticks.wanted.clear(cpu);
            // Between clearing the bit and the looks at what is to be done. Partner: the fence in `want`.
            fence_after_rmw("tick given up");
            self.tick(cpu);
            if self.rcu.needs_cpu(cpu) {
                // Not just the bit: the tick thread may have found none meanwhile, where it is not the one that is here.
                if mutated("ticks go on unsaid") {
                    self.ticks.wanted.set(cpu);
                }
                self.ticks.want(self, cpu);
            }
        }
        if self.rcu.gp_in_progress() {
            for cpu in self.vcpus.busy() {
                self.tick(cpu);
            }
        }
    }

    pub(super) fn tick(&self, cpu: u32) {
        self.ticks.count.fetch_add(1, Ordering::Relaxed);
        let mut host = Host::new(self, Actor::Tick, cpu);
        // An idle vCPU of a preemptible system proves nothing by a tick: a scan finds it idle. Else this is what
        // an interrupt's look at what it interrupted is elsewhere.
        let idle = self.vcpus.get(cpu).active() == 0;
        if !(idle && self.rcu.is_preemptible())
            && let Some(gp_seq) = self.rcu.owed_gp(cpu)
            && self.make_sure(cpu, Kind::Normal, gp_seq, &mut host)
        {
            self.rcu
                .record_observed_qs(cpu, gp_seq, Resolution::Tick, &mut host);
        }
        self.rcu.tick(host.ctx(), TickHit::KernelSection, None, &mut host);
        host.deliver();
        if !self.ticks.raised_here(cpu) {
            return;
        }
        if self.rcuc {
            self.soft.raise(self, cpu);
            return;
        }
        self.counters.cores.fetch_add(1, Ordering::Relaxed);
        self.rcu.core_check(host.ctx(), None, &mut host);
        host.deliver();
        if self.rcu.has_ready_callbacks(cpu) {
            self.soft.raise(self, cpu);
        }
    }
}

impl Ticks {
    fn raised_here(&self, cpu: u32) -> bool {
        self.raised.take(cpu)
    }
}
