//! An engine without threads of its own, for model checks: the model's threads do what its threads would do.
//!
//! Everything here is the real code; only sleeping, the clock and the system calls of the heavy fence are a model's.

use super::calls::Patience;
use super::clock::monotonic_ns;
use super::crowd::{Crowd, mark_of};
use super::engine::{GpDriver, Options, Shared};
use super::handle::Handle;
use super::park::Parking;
use super::slot::Wait;
use super::softirq::SharedRef;
use super::vcpu::Kind;
use super::world::{Actor, Host};
use crate::config::Config;
use crate::sync::Ordering;
use crate::sync::model::{set_now_ns, set_spins};
use crate::tree::{GpResume, GpWait};

/// The parts of an engine. Clones are the same engine.
#[derive(Clone)]
pub struct Rig {
    shared: SharedRef,
}

impl Rig {
    /// Opens it; the models' clock starts at 0.
    pub fn new(config: &Config) -> Rig {
        Rig::open(config, GpDriver::Kthread)
    }

    /// The same, and callers carry out the grace-period kthread's steps, with so many looks at the role before they sleep.
    pub fn driven(config: &Config, spins: u32) -> Rig {
        set_spins(spins);
        Rig::open(config, GpDriver::Callers)
    }

    fn open(config: &Config, gp_driver: GpDriver) -> Rig {
        set_now_ns(0);
        let options = Options {
            gp_driver,
            ..Options::default()
        };
        Rig {
            shared: Shared::new(config, &options).expect("a good configuration"),
        }
    }

    /// Attaches the calling thread to a vCPU.
    pub fn register_on(&self, cpu: u32) -> Handle {
        Handle::attach(&self.shared, Some(cpu)).expect("an online virtual CPU")
    }

    /// Threads in scan sets.
    pub fn scanned(&self) -> u32 {
        self.shared.vcpus.readers()
    }

    /// Readers queued that hold the grace period in progress up.
    pub fn blocking(&self) -> usize {
        self.shared.rcu.blocking_readers().len()
    }

    /// A cookie, and a request for the grace period it needs.
    pub fn start_poll(&self, cpu: u32) -> u64 {
        let mut host = Host::new(&self.shared, Actor::Thread, cpu);
        self.shared.rcu.start_poll(host.ctx(), &mut host)
    }

    /// That grace period is over.
    pub fn poll(&self, cookie: u64) -> bool {
        self.shared.rcu.poll_state(cookie)
    }

    /// A grace period is requested.
    pub fn is_requested(&self) -> bool {
        self.shared.rcu.gp_is_requested()
    }

    /// One tick of a vCPU.
    pub fn tick(&self, cpu: u32) {
        self.shared.tick(cpu);
    }

    /// A pass over one vCPU as a tick makes it, without a report.
    pub fn pass(&self, cpu: u32) -> bool {
        let mut host = Host::new(&self.shared, Actor::Tick, cpu);
        self.shared
            .make_sure(cpu, Kind::Normal, self.shared.rcu.gp_seq(), &mut host)
    }

    /// What a non-preemptible thread does around a wait.
    pub fn block(&self, handle: &Handle) {
        self.shared.leave_scan_set(handle.slot());
        self.shared.run_again(handle.slot());
    }

    /// That vCPU wants a tick.
    pub fn want_tick(&self, cpu: u32) {
        self.shared.ticks.want(&self.shared, cpu);
    }

    /// The grace-period thread, until [`Rig::stop`].
    pub fn gp_thread(&self) {
        self.shared.gp_thread();
    }

    /// The callback thread, until [`Rig::stop`].
    pub fn softirq_thread(&self) {
        self.shared.softirq_thread();
    }

    /// Ends the engine's threads.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// One turn of the tick thread, which sleeps while no tick is needed.
    pub fn tick_turn(&self) {
        self.tick_sleep();
        self.shared.tick_all();
    }

    /// The tick thread sleeps if no tick is needed, until one is.
    pub fn tick_sleep(&self) {
        if !self.shared.needs_ticks() {
            self.shared.sleep_tickless();
        }
    }

    /// All vCPUs' ticks of one jiffy.
    pub fn tick_all(&self) {
        self.shared.tick_all();
    }

    /// Whether a vCPU with callbacks has its ticks.
    pub fn has_ticks(&self, cpu: u32) -> bool {
        !self.shared.rcu.needs_cpu(cpu) || self.shared.ticks.wanted.contains(cpu)
    }

    /// Raises the RCU core of a vCPU.
    pub fn raise_core(&self, cpu: u32) {
        self.shared.ticks.raise_core(&self.shared, cpu);
    }

    /// Whether the next tick will see to a raised core.
    pub fn core_is_seen_to(&self, cpu: u32) -> bool {
        !self.shared.ticks.raised.contains(cpu) || self.shared.ticks.wanted.contains(cpu)
    }

    /// Takes a vCPU offline, with all that belongs to it.
    pub fn offline(&self, cpu: u32) {
        self.shared
            .cpu_offline(None, cpu, Patience(None))
            .expect("two online virtual CPUs");
    }

    /// Brings it back.
    pub fn online(&self, cpu: u32) {
        self.shared.cpu_online(cpu).expect("an offline virtual CPU");
    }

    /// Everything that somebody may wait for, for a failure's message.
    pub fn describe(&self) -> String {
        let shared = &self.shared;
        let mut text = format!(
            "exp_seq {}, expedited holdouts {:?}, readers {:?}; {:?}\n",
            shared.rcu.exp_seq(),
            shared.rcu.exp_holdouts(),
            shared.rcu.exp_blocking_readers(),
            shared.rcu.snapshot(),
        );
        text += &format!(
            "kthread: {:?}, spinners {}, role {}\n",
            shared.gp.park,
            shared.gp.spinners.load(Ordering::Relaxed),
            match shared.gp.role.try_lock() {
                Some(role) => format!("{:?}", *role),
                None => "taken".into(),
            },
        );
        for cpu in 0..shared.tun.nr_cpus {
            text += &format!("vCPU {cpu}: {:?}\n", *shared.vcpus.get(cpu).run.lock());
        }
        for slot in shared.slots.made() {
            text += &format!(
                "slot {}: vCPU {}, {:?}, {:?}\n",
                slot.index,
                slot.cpu(),
                slot.words,
                slot.wait
            );
        }
        text
    }

    /// A jiffy passes.
    pub fn jiffy(&self) {
        set_now_ns(monotonic_ns() + self.shared.clock.tick_ns);
    }

    /// Takes a vCPU offline: one attempt to move each of its threads. True: all have moved.
    pub fn move_threads(&self, cpu: u32, to: u32) -> bool {
        let mut host = Host::new(&self.shared, Actor::Thread, cpu);
        self.shared
            .slots
            .made()
            .filter(|slot| slot.cpu() == cpu)
            .all(|slot| self.shared.move_thread(slot, cpu, to, &mut host))
    }
}

/// The grace-period kthread of a rig, carried out by whoever calls it.
pub struct Kthread(Rig);

impl Kthread {
    /// On that vCPU.
    pub fn new(rig: &Rig, cpu: u32) -> Kthread {
        rig.shared.gp.put_on(cpu);
        Kthread(rig.clone())
    }

    /// Runs until it has nothing to do, or has slept this many times for a scan. True: nothing to do.
    pub fn run(&mut self, sleeps: u32) -> bool {
        let shared = &self.0.shared;
        let mut left = sleeps;
        let mut resume = GpResume::Run;
        loop {
            let (wait, marks) = shared.gp_run(&mut shared.gp.role.lock(), resume, || false);
            shared.wake_crowd(marks);
            match wait {
                GpWait::Yield => resume = GpResume::Run,
                GpWait::Request { .. } => return true,
                GpWait::Delay { .. } => unreachable!("no delay is configured"),
                GpWait::Timeout { jiffies, .. } => {
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    set_now_ns(monotonic_ns() + jiffies * shared.clock.tick_ns);
                    resume = GpResume::TimedOut;
                }
            }
        }
    }
}

/// What a thread blocks on, and a crowd to block in.
#[derive(Debug, Default)]
pub struct Waiting {
    wait: Wait,
    crowd: Crowd,
}

impl Waiting {
    /// Begins a wait; gives its number.
    pub fn begin(&self) -> u64 {
        self.wait.begin()
    }

    /// Begins a wait in the crowd, for the grace period with this number.
    pub fn begin_in_crowd(&self, gp_seq: u64) -> u64 {
        self.wait.begin_marked(mark_of(gp_seq))
    }

    /// Completes a wait, and wakes whoever is in it.
    pub fn complete(&self, number: u64, gp_seq: u64) {
        if let Some(mark) = self.wait.complete(number, gp_seq, Parking::Model) {
            self.crowd.wake(Parking::Model, mark);
        }
    }

    /// The grace period that served it.
    pub fn served(&self, number: u64) -> Option<u64> {
        self.wait.served(number)
    }

    /// Blocks until the wait is over or `give_up` says so.
    pub fn block(&self, number: u64, give_up: impl Fn() -> bool) -> Option<u64> {
        self.wait.block(number, Parking::Model, None, give_up)
    }

    /// The same, in the crowd.
    pub fn block_in_crowd(&self, number: u64, give_up: impl Fn() -> bool) -> Option<u64> {
        self.wait.block_in(&self.crowd, number, Parking::Model, give_up)
    }

    /// Has the thread look at its reasons to give up.
    pub fn kick(&self) {
        self.wait.kick(Parking::Model);
        self.crowd.wake(Parking::Model, super::crowd::ALL);
    }
}
