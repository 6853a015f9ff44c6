//! SRCU domains of a simulated machine, and what they ask of it.

use super::cpu::Irq;
use super::kernel::{Event, Hw, Kernel};
use super::machine::Machine;
use super::observe::{Observer, Sight, SrcuSight};
use super::task::{TaskId, TimerId};
use super::workqueue::Item;
use crate::config::Tunables;
use crate::error::Result;
use crate::srcu::{GpRecord, GpWork, Lock, SEQ_INITIAL, Scan, Srcu, Work, World};
use crate::tree::seq;
use crate::tree::waiters::Waiter;
use crate::tree::world::World as _;
use crate::workload::{Part, Workload};

/// The domains of a workload's parts, in their order.
pub(super) fn domains(tun: &Tunables, workload: &Workload, skipped: Option<Scan>) -> Result<Vec<Srcu<u64>>> {
    let mut all = Vec::new();
    for part in &workload.parts {
        if let Part::SrcuFlood(flood) = part {
            let domain = Srcu::new(tun, flood.flavour, &Boot)?;
            if let Some(scan) = skipped {
                domain.skip_scan(scan);
            }
            all.push(domain);
        }
    }
    Ok(all)
}

/// The machine before it runs: at time 0.
struct Boot;

impl World for Boot {
    fn now(&self) -> u64 {
        0
    }
    fn jiffies(&self) -> u64 {
        0
    }
    fn was_online(&self, _cpu: u32) -> bool {
        true
    }
    fn is_contended(&mut self, _lock: Lock) -> bool {
        false
    }
    fn queue_start(&mut self) {
        unreachable!("nothing is asked for at boot")
    }
    fn queue_gp(&mut self, _delay: u64) {
        unreachable!("nothing is asked for at boot")
    }
    fn queue_callbacks(&mut self, _cpu: u32, _delay: u64) {
        unreachable!("nothing is asked for at boot")
    }
    fn complete(&mut self, _waiter: Waiter, _gp_seq: u64) {
        unreachable!("nobody waits at boot")
    }
}

/// What the machine keeps of one domain.
#[derive(Debug)]
pub(super) struct DomainState {
    /// Workload part.
    pub part: u32,
    pub work: GpWork,
    /// The work item is queued or timed.
    pub gp_pending: bool,
    /// It is being carried out, from this CPU's queue.
    pub gp_running: Option<u32>,
    /// It was found queued while it was being carried out.
    pub gp_again: bool,
    /// The same of each CPU's callback work: queued, timed.
    pub cb_queued: Vec<bool>,
    pub cb_timed: Vec<bool>,
    /// Who held each metered lock last and until when, ns: the CPUs' and the domain's.
    held: Vec<(u32, u64)>,
    /// For the observer, who is told after the step's call.
    seen: Vec<SrcuSight>,
}

impl DomainState {
    pub fn new(part: u32, nr_cpus: u32) -> Self {
        let cpus = nr_cpus as usize;
        DomainState {
            part,
            work: GpWork::default(),
            gp_pending: false,
            gp_running: None,
            gp_again: false,
            cb_queued: vec![false; cpus],
            cb_timed: vec![false; cpus],
            held: vec![(0, 0); cpus + 1],
            seen: Vec::new(),
        }
    }
}

/// The number of a grace period, while it was in its first scan, from its place after boot and back: short enough for a
/// calendar entry.
pub(super) fn gp_place(ended: u64) -> u32 {
    (ended.wrapping_sub(SEQ_INITIAL) >> seq::SEQ_SHIFT) as u32
}

pub(super) fn gp_number(place: u32) -> u64 {
    SEQ_INITIAL
        .wrapping_add(u64::from(place) << seq::SEQ_SHIFT)
        .wrapping_sub(seq::SEQ_GP - 1)
}

/// One domain's view of the machine.
pub(super) struct Around<'a, 'r> {
    pub hw: &'a mut Hw<'r>,
    pub state: &'a mut DomainState,
    pub domain: u32,
}

fn cost(m: &Machine, work: Work) -> u64 {
    match work {
        Work::Sum(cpus) => u64::from(cpus) * m.srcu_counter_ns,
        Work::Barrier | Work::GpStart => m.full_barrier_ns,
        Work::Flip => 2 * m.full_barrier_ns,
        Work::GpEnd | Work::Node => m.node_ns,
        Work::Call => m.srcu_call_ns,
    }
}

impl World for Around<'_, '_> {
    fn now(&self) -> u64 {
        self.hw.now + self.hw.spent
    }

    fn jiffies(&self) -> u64 {
        self.hw.jiffies()
    }

    fn was_online(&self, cpu: u32) -> bool {
        // Hotplug brings nobody up who was not there at boot.
        cpu < self.hw.tun.maxcpus
    }

    /// An update-side lock is held as long as a call takes. Who comes meanwhile from another CPU waits for the rest.
    fn is_contended(&mut self, lock: Lock) -> bool {
        let index = match lock {
            Lock::Cpu(cpu) => cpu as usize,
            Lock::Domain => self.state.held.len() - 1,
        };
        let (holder, until) = self.state.held[index];
        let waits = if holder == self.hw.at_cpu {
            0
        } else {
            until.saturating_sub(self.now())
        };
        self.hw.spent += waits;
        self.state.held[index] = (self.hw.at_cpu, self.now() + self.hw.machine.srcu_call_ns);
        waits > 0
    }

    fn queue_start(&mut self) {
        self.hw.interrupt(self.hw.at_cpu, Irq::SrcuStart(self.domain));
    }

    fn queue_gp(&mut self, delay: u64) {
        if std::mem::replace(&mut self.state.gp_pending, true) {
            return;
        }
        if delay > 0 {
            return self
                .hw
                .arm_timer(self.hw.at_cpu, TimerId::SrcuGp(self.domain), delay);
        }
        // Never on two CPUs at once: behind itself, where it is being carried out.
        let cpu = self.state.gp_running.unwrap_or(self.hw.at_cpu);
        self.hw.queue_item(cpu, Item::SrcuGp(self.domain));
    }

    fn queue_callbacks(&mut self, cpu: u32, delay: u64) {
        if delay == 0 {
            if !std::mem::replace(&mut self.state.cb_queued[cpu as usize], true) {
                self.hw.queue_item(cpu, Item::SrcuCallbacks(self.domain, cpu));
            }
        } else if !std::mem::replace(&mut self.state.cb_timed[cpu as usize], true) {
            // All delays are one jiffy, so a timer that is armed already is the earlier one.
            let timer = TimerId::SrcuCallbacks(self.domain, cpu);
            self.hw.arm_timer(self.hw.at_cpu, timer, delay);
        }
    }

    fn complete(&mut self, waiter: Waiter, gp_seq: u64) {
        self.hw.spent += self.hw.machine.wake_ns;
        let event = Event::Complete {
            task: waiter.token() as TaskId,
            from: self.hw.at_cpu,
            gp: gp_place(gp_seq),
        };
        self.hw.push(self.hw.after_now(0), event);
    }

    fn spend(&mut self, work: Work) {
        self.hw.spent += cost(&self.hw.machine, work);
    }

    fn grace_period_began(&mut self, gp_seq: u64) {
        self.state.seen.push(SrcuSight::GpBegin { gp_seq });
    }

    fn grace_period_ended(&mut self, record: &GpRecord) {
        let c = &mut self.hw.counters;
        c.srcu_grace_periods += 1;
        c.srcu_expedited += u64::from(record.expedited);
        c.srcu_zero_tests += u64::from(record.tests);
        c.srcu_work_runs += u64::from(record.runs);
        self.state.seen.push(SrcuSight::GpEnd {
            gp_seq: record.gp_seq,
        });
    }
}

impl<'r, O: Observer> Kernel<'r, '_, O> {
    /// Calls into a domain, as part of the step under way.
    pub(super) fn with_domain<T>(
        &mut self,
        domain: u32,
        call: impl FnOnce(&'r Srcu<u64>, &mut Around<'_, 'r>) -> T,
    ) -> T {
        let srcu: &'r Srcu<u64> = &self.srcu[domain as usize];
        let state = &mut self.domains[domain as usize];
        let value = call(
            srcu,
            &mut Around {
                hw: &mut self.hw,
                state,
                domain,
            },
        );
        for sight in std::mem::take(&mut self.domains[domain as usize].seen) {
            self.see_srcu(domain, sight);
        }
        value
    }

    /// Steps a domain's work item.
    pub(super) fn step_gp_work(&mut self, domain: u32) -> crate::srcu::GpWait {
        let mut work = std::mem::take(&mut self.domains[domain as usize].work);
        let wait = self.with_domain(domain, |srcu, world| srcu.gp_step(&mut work, world));
        self.domains[domain as usize].work = work;
        wait
    }

    pub(super) fn see_srcu(&mut self, domain: u32, sight: SrcuSight) {
        let part = self.domains[domain as usize].part;
        self.see(Sight::Srcu { part, sight });
    }

    /// The interrupt of a domain whose grace period has begun.
    pub(super) fn srcu_start(&mut self, domain: u32) {
        self.with_domain(domain, |srcu, world| srcu.start_work(world));
    }
}
