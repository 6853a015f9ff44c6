//! What each kind of task does next.
//!
//! | file | tasks |
//! |---|---|
//! | `kthreads.rs` | grace-period kthread, `sync_wq` worker, ksoftirqd, background noise |
//! | `sync.rs` | callers of `synchronize_rcu()`, pollers, callers of `rcu_barrier()` |
//! | `expedited.rs` | callers of `synchronize_rcu_expedited()` |
//! | `load.rs` | busy CPUs |
//! | `readers.rs` | read-side sections |
//! | `callbacks.rs` | callback floods, periodic interrupts |
//! | `nocb.rs` | the kthreads of offloaded CPUs |
//! | `hotplug.rs` | CPUs going offline and coming back |
//! | `sweep.rs` | CPUs taken offline one after the other |
//! | `srcu.rs` | updaters and readers of SRCU domains |

mod callbacks;
mod expedited;
mod hotplug;
mod kthreads;
mod load;
mod nocb;
mod readers;
mod srcu;
mod sweep;
mod sync;

pub(super) use expedited::ExpeditedCaller;
pub(super) use nocb::NocbState;
pub(super) use srcu::{SrcuCall, SrcuCaller, SrcuReader};
pub(super) use sweep::Sweep;

use super::kernel::Kernel;
use super::observe::Observer;
use super::random::{Purpose, Stream};
use super::task::{Next, Program, TaskId};
use crate::workload::{Length, Part, Placement};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

impl<O: Observer> Kernel<'_, '_, O> {
    /// Asks a running task what it does next.
    pub(super) fn next_of(&mut self, id: TaskId, cpu: u32) -> Next {
        match self.hw.tasks[id as usize].program {
            Program::GpKthread => self.next_of_gp_kthread(cpu),
            Program::Sync(_) => self.next_of_sync(id, cpu),
            Program::Load(_) => self.next_of_load(id, cpu),
            Program::Reader(_) => self.next_of_reader(id, cpu),
            Program::Flood(_) => self.next_of_flood(id, cpu),
            Program::Hotplug(_) => self.next_of_hotplug(id, cpu),
            Program::Guest { index, .. } => self.next_of_guest(id, index, cpu),
            Program::Worker => self.next_of_worker(cpu),
            Program::Kworker(index) => self.next_of_kworker(id, index, cpu),
            Program::SrcuCaller(index) => self.next_of_srcu_caller(id, index, cpu),
            Program::SrcuReader(_) => self.next_of_srcu_reader(id, cpu),
            // A noise burst is set when it begins; when it is over there is nothing left.
            Program::Noise => Next::Block,
            Program::Ksoftirqd => self.next_of_ksoftirqd(cpu),
            Program::NocbGp(group) => self.next_of_rcuog(id, group, cpu),
            Program::NocbCb(of) => self.next_of_rcuop(of, cpu),
        }
    }

    /// Creates the tasks of all parts; each begins by a wake-up at its time.
    pub(super) fn start_workload(&mut self, parts: &[Part], seed: u64, cancel: &AtomicBool) {
        self.parts = Rc::from(parts);
        let mut number = 0;
        for (index, part) in parts.iter().enumerate() {
            let index = index as u32;
            if cancel.load(Ordering::Relaxed) {
                return;
            }
            match part {
                Part::SyncFlood(flood) => self.start_sync_flood(flood, index, seed, &mut number, cancel),
                Part::CpuLoad(load) => self.start_loads(load, index),
                Part::Readers(readers) => self.start_readers(readers, index, seed),
                Part::CallRcuFlood(flood) => self.start_call_rcu_flood(flood, index, seed),
                Part::PeriodicInterrupt(interrupt) => self.start_interrupts(interrupt, index, seed),
                Part::Hotplug(hotplug) => self.start_hotplug(hotplug, index, seed),
                Part::HotplugSweep(sweep) => self.start_sweep(sweep, index, seed, &mut number),
                Part::SrcuFlood(flood) => self.start_srcu_flood(flood, index, seed, &mut number),
            }
        }
        self.schedule_starts();
    }

    /// Where the tasks of a part start, and when: at a random phase of the tick, plus their skew.
    fn starts(
        &self,
        tasks: u64,
        placement: Placement,
        skew_ns: u64,
        part: u32,
        seed: u64,
    ) -> impl Iterator<Item = (u32, u64)> + use<O> {
        let online = u64::from(self.hw.tun.maxcpus);
        let tick_ns = self.hw.tick_ns;
        let mut place = Stream::new(seed, Purpose::Placement, u64::from(part));
        let mut start = Stream::new(seed, Purpose::Start, u64::from(part));
        let first = place.below(online);
        (0..tasks).map(move |index| {
            let cpu = match placement {
                Placement::Spread => (first + index) % online,
                Placement::Random => place.below(online),
                Placement::Cpu(cpu) => u64::from(cpu),
            };
            (cpu as u32, start.below(tick_ns) + start.below(skew_ns))
        })
    }

    /// The part is over for its task; the run ends with the last task of a bounded part.
    fn task_is_done(&mut self, bounded: bool) {
        if bounded {
            self.live -= 1;
        }
    }
}

/// Draws a length.
fn draw(length: Length, random: &mut Stream) -> u64 {
    random.length(length)
}
