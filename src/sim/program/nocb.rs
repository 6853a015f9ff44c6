//! The kthreads of offloaded CPUs: `rcuog`, one a group, and `rcuop`, one a CPU. Both are ordinary tasks that may
//! run on any CPU.

use crate::sim::cpu::UserCb;
use crate::sim::kernel::Kernel;
use crate::sim::observe::Observer;
use crate::sim::task::{Next, Program, RunMode, SchedClass, TaskId, TimerId};
use crate::tree::{Batch, NocbGpKthread, NocbGpWait, seq};
use std::collections::HashMap;

/// Callbacks invoked between two looks at the rest of the machine.
const CALLBACKS_PER_BURST: usize = 16;

#[derive(Debug)]
struct Rcuog {
    task: TaskId,
    state: NocbGpKthread,
    wait: Option<NocbGpWait>,
    /// CPU on whose wheel the deferred wake-up is.
    armed_on: Option<u32>,
}

#[derive(Debug)]
struct Rcuop<'r> {
    task: TaskId,
    batch: Option<Batch<'r, UserCb>>,
}

/// What the machine keeps of these kthreads.
#[derive(Debug, Default)]
pub(in crate::sim) struct NocbState<'r> {
    rcuogs: Vec<Rcuog>,
    rcuops: HashMap<u32, Rcuop<'r>>,
}

impl NocbState<'_> {
    pub(in crate::sim) fn rcuog(&self, group: u32) -> TaskId {
        self.rcuogs[group as usize].task
    }

    pub(in crate::sim) fn rcuop(&self, cpu: u32) -> TaskId {
        self.rcuops[&cpu].task
    }

    pub(in crate::sim) fn armed_on(&mut self, group: u32, cpu: u32) {
        self.rcuogs[group as usize].armed_on = Some(cpu);
    }

    pub(in crate::sim) fn take_armed(&mut self, group: u32) -> Option<u32> {
        self.rcuogs[group as usize].armed_on.take()
    }
}

impl<O: Observer> Kernel<'_, '_, O> {
    /// Creates the kthreads, if any CPU is offloaded; each `rcuog` goes to its first sleep.
    pub(in crate::sim) fn boot_nocb(&mut self) {
        let groups: Vec<Vec<u32>> = self.rcu.nocb_groups().map(<[u32]>::to_vec).collect();
        if groups.is_empty() {
            return;
        }
        // Kthreads of CPUs that are not there begin on the first one.
        let online = self.hw.tun.maxcpus;
        let home = |cpu: u32| if cpu < online { cpu } else { 0 };
        let mut nocb = NocbState::default();
        for (index, members) in (0u32..).zip(&groups) {
            let task = self.add_task(Program::NocbGp(index), home(members[0]), SchedClass::Other, false);
            nocb.rcuogs.push(Rcuog {
                task,
                state: NocbGpKthread::default(),
                wait: None,
                armed_on: None,
            });
            for &cpu in members {
                let task = self.add_task(Program::NocbCb(cpu), home(cpu), SchedClass::Other, false);
                nocb.rcuops.insert(cpu, Rcuop { task, batch: None });
            }
        }
        self.hw.nocb = Some(Box::new(nocb));
        for (index, members) in (0u32..).zip(&groups) {
            let task = self.hw.nocb.as_ref().map(|nocb| nocb.rcuog(index));
            task.into_iter().for_each(|task| {
                self.hw.at_cpu = home(members[0]);
                self.hw.wake_soon(task);
            });
        }
        self.hw.spent = 0;
    }

    pub(super) fn next_of_rcuog(&mut self, _id: TaskId, group: u32, cpu: u32) -> Next {
        let Some(nocb) = &mut self.hw.nocb else {
            return Next::Block;
        };
        let rcuog = &mut nocb.rcuogs[group as usize];
        match rcuog.wait {
            // Nothing has happened since: asleep for good.
            Some(NocbGpWait::Sleep { ticket }) if !self.rcu.nocb_gp_ticket_is_old(group, ticket) => {
                return Next::Block;
            }
            Some(NocbGpWait::Poll) => {
                rcuog.wait = None;
                self.arm_timer(cpu, TimerId::NocbPoll(group), 1);
                return Next::Block;
            }
            _ => {}
        }
        let mut state = std::mem::take(&mut rcuog.state);
        self.begin_step(cpu);
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        let wait = rcu.nocb_gp_step(group, &mut state, ctx, &mut self.hw);
        let members = rcu.nocb_groups().nth(group as usize).map_or(0, <[u32]>::len);
        self.hw.spent += self.hw.machine.node_ns + members as u64 * self.hw.machine.scan_cpu_ns;
        let cost = self.end_step();
        if let Some(nocb) = &mut self.hw.nocb {
            let rcuog = &mut nocb.rcuogs[group as usize];
            rcuog.state = state;
            rcuog.wait = Some(wait);
        }
        Next::Burst(cost.max(1), RunMode::Kernel)
    }

    pub(super) fn next_of_rcuop(&mut self, of: u32, cpu: u32) -> Next {
        let ctx = self.ctx(cpu, false);
        let rcu = self.rcu;
        self.begin_step(cpu);
        let kept = self
            .hw
            .nocb
            .as_mut()
            .and_then(|nocb| nocb.rcuops.get_mut(&of)?.batch.take());
        let Some(mut batch) = kept.or_else(|| rcu.nocb_cb_batch(of, ctx, &mut self.hw)) else {
            self.end_step();
            return Next::Block;
        };
        // The grace period that the CPU's leaf saw end last is what made these callbacks ready.
        let gp_seq = (rcu.leaf_gp_seq(of) & !seq::SEQ_MASK).wrapping_sub(seq::SEQ_GP - 1);
        let mut over = false;
        for _ in 0..CALLBACKS_PER_BURST {
            let Some(callback) = batch.next(ctx, false, &mut self.hw) else {
                over = true;
                break;
            };
            self.invoke_callback(callback, ctx, of, gp_seq);
        }
        if over {
            batch.finish(ctx, false, &mut self.hw);
            rcu.nocb_cb_done(of, ctx, &mut self.hw);
        } else if let Some(rcuop) = self.hw.nocb.as_mut().and_then(|nocb| nocb.rcuops.get_mut(&of)) {
            rcuop.batch = Some(batch);
        }
        let cost = self.end_step();
        // Softirqs are disabled while callbacks run.
        Next::Burst(cost.max(1), RunMode::Section)
    }
}
