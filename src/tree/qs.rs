//! Quiescent states: recording them locally, reporting them up the tree (invariants I5–I7).
//!
//! A quiescent state is *recorded* by its CPU (no lock of the tree) and *reported* later: by that
//! CPU's RCU core, by the force-quiescent-state scan on its behalf, or by the kthread's early report.

use super::preempt::Reader;
use super::rcu::{CpuData, FLAG_FQS, NodeState, Own, Rcu};
use super::seq;
use super::world::{Ctx, TickHit, World};
use crate::stats::Resolution;
use crate::sync::{FullGuard, Ordering, mutated, order};
use crate::trace::Event;

impl<C> Rcu<C> {
    /// `rcu_qs()`: this CPU passed a quiescent state.
    pub(super) fn record_qs(rdp: &CpuData<C>, own: &mut Own<C>, how: Resolution, world: &mut impl World) {
        if own.norm && !mutated("Z09") {
            world.emit(|| Event::GracePeriod {
                gp_seq: rdp.gp_seq.load(Ordering::Relaxed),
                what: "cpuqs",
            });
            own.norm = false;
            own.recorded_by = how;
        }
    }

    /// The grace period, as its number while it runs, to which this CPU still owes a quiescent state
    /// that it has not recorded.
    pub fn owed_gp(&self, cpu: u32) -> Option<u64> {
        let rdp = &self.cpus[cpu as usize];
        let own = rdp.own.lock();
        (own.core_needs_qs && own.norm).then(|| rdp.gp_seq.load(Ordering::Relaxed))
    }

    /// Records a quiescent state that was observed from outside the CPU, after [`Rcu::owed_gp`] gave
    /// `gp_seq`. It is dropped when the CPU has meanwhile taken notice of another grace period, since
    /// the observation may be older than that one's start (invariant I7). The CPU's core reports it.
    pub fn record_observed_qs(&self, cpu: u32, gp_seq: u64, how: Resolution, world: &mut impl World) {
        let rdp = &self.cpus[cpu as usize];
        let mut own = rdp.own.lock();
        if own.core_needs_qs && rdp.gp_seq.load(Ordering::Relaxed) == gp_seq {
            Self::record_qs(rdp, &mut own, how, world);
        }
    }

    /// Called at every context switch, with interrupts off. `reader`: the read-side state of the task
    /// that is switched away from.
    pub fn context_switch(&self, ctx: Ctx, reader: Option<&mut Reader>, world: &mut impl World) {
        world.emit(|| Event::Utilization("Start context switch"));
        let rdp = &self.cpus[ctx.cpu as usize];
        if self.preemptible {
            if let Some(reader) = reader {
                if reader.depth > 0 {
                    self.queue_blocked_reader(rdp, reader, world);
                } else {
                    self.report_deferred_qs(ctx, reader, world);
                }
            }
            Self::record_qs(rdp, &mut rdp.own.lock(), Resolution::ContextSwitch, world);
            self.exp_report_owed(ctx, world);
        } else {
            self.voluntary_qs(ctx, world);
        }
        world.emit(|| Event::Utilization("End context switch"));
    }

    /// `rcu_all_qs()`, called at reschedule points of long kernel code (`cond_resched()`) of
    /// non-preemptible kernels: costs nothing unless the scan asked for a quiescent state.
    pub fn cond_resched(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        if !self.preemptible && rdp.urgent_qs.load(Ordering::Acquire) {
            self.voluntary_qs(ctx, world);
        }
    }

    /// A quiescent state of the non-preemptible flavour, and what an urgent scan wants besides.
    fn voluntary_qs(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        Self::record_qs(rdp, &mut rdp.own.lock(), Resolution::ContextSwitch, world);
        self.exp_report_owed(ctx, world);
        if rdp.urgent_qs.swap(false, Ordering::Acquire) && rdp.need_heavy_qs.load(Ordering::Relaxed) {
            rdp.need_heavy_qs.store(false, Ordering::Relaxed);
            world.momentary_eqs(rdp.cpu);
        }
    }

    /// `rcu_sched_clock_irq()`: the RCU part of a timer tick. `reader`: the read-side state of the
    /// interrupted task, if there is one.
    pub fn tick(&self, ctx: Ctx, hit: TickHit, reader: Option<&mut Reader>, world: &mut impl World) {
        world.emit(|| Event::Utilization("Start scheduler-tick"));
        let rdp = &self.cpus[ctx.cpu as usize];
        // Acquire pairs with the release in the scan that set it.
        if rdp.urgent_qs.load(Ordering::Acquire) {
            if !matches!(hit, TickHit::Idle | TickHit::User) {
                world.resched(ctx.cpu);
            }
            rdp.urgent_qs.store(false, Ordering::Relaxed);
        }
        let in_reader = reader.as_ref().is_some_and(|reader| reader.depth > 0);
        let quiescent = match hit {
            TickHit::User => true,
            // A preemptible kernel's idle task runs with preemption disabled: a tick proves nothing.
            TickHit::Idle => !self.preemptible,
            TickHit::Kernel => self.preemptible && !in_reader,
            TickHit::KernelSection => false,
        } || mutated("Z05");
        if let Some(reader) = reader {
            if in_reader {
                self.ask_for_help(rdp, reader, world);
            } else if quiescent {
                self.report_deferred_qs(ctx, reader, world);
            }
        }
        if quiescent {
            self.exp_report_owed(ctx, world);
        }
        self.check_stall(ctx, true, world);
        let pending = {
            let mut own = rdp.own.lock();
            if quiescent {
                Self::record_qs(rdp, &mut own, Resolution::Tick, world);
            }
            self.pending(rdp, &own)
        };
        if pending && !mutated("A20") {
            world.raise_core(ctx.cpu);
        }
        world.emit(|| Event::Utilization("End scheduler-tick"));
    }

    /// `rcu_pending()`: is there anything for the RCU core to do here?
    fn pending(&self, rdp: &CpuData<C>, own: &Own<C>) -> bool {
        let in_progress = self.gp_in_progress();
        (own.core_needs_qs && !own.norm && in_progress)
            || (own.cblist.ready() && own.bypass.is_none())
            || (!in_progress && !own.cblist.restempty(super::cblist::NEXT_READY))
            || self.nodes[rdp.leaf].gp_seq.load(Ordering::Relaxed) != rdp.gp_seq.load(Ordering::Relaxed)
            || rdp.gpwrap.load(Ordering::Relaxed)
            || (own.bypass.is_some() && self.nocb_wake_is_due(rdp))
    }

    /// `rcu_check_quiescent_state()`: notice grace-period changes, report what was recorded.
    pub(super) fn check_quiescent_state(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let wake = self.note_gp_changes(rdp, &mut rdp.own.lock(), world);
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
        self.report_recorded_qs(ctx, world);
    }

    /// Notices that a grace period started or ended. A busy leaf lock means: at a later tick. True:
    /// wake the kthread.
    pub(super) fn note_gp_changes(&self, rdp: &CpuData<C>, own: &mut Own<C>, world: &mut impl World) -> bool {
        let node = &self.nodes[rdp.leaf];
        let same = node.gp_seq.load(Ordering::Relaxed) == rdp.gp_seq.load(Ordering::Relaxed);
        if same && !rdp.gpwrap.load(Ordering::Relaxed) {
            return false;
        }
        match node.state.try_lock() {
            Some(mut leaf) => self.note_gp_changes_locked(&mut leaf, rdp, own, world),
            None => false,
        }
    }

    /// `__note_gp_changes()` with the leaf locked.
    pub(super) fn note_gp_changes_locked(
        &self,
        leaf: &mut NodeState,
        rdp: &CpuData<C>,
        own: &mut Own<C>,
        world: &mut impl World,
    ) -> bool {
        let node = &self.nodes[rdp.leaf];
        let node_seq = node.gp_seq.load(Ordering::Relaxed);
        let cpu_seq = rdp.gp_seq.load(Ordering::Relaxed);
        let gpwrap = rdp.gpwrap.load(Ordering::Relaxed);
        if node_seq == cpu_seq && !gpwrap {
            return false;
        }
        let owed = node.qsmask.load(Ordering::Relaxed) & rdp.grpmask != 0;
        let wake = if seq::completed_gp(cpu_seq, node_seq) || gpwrap {
            let wake = own.bypass.is_none() && self.advance_cbs(leaf, rdp, &mut own.cblist, world);
            own.core_needs_qs = false;
            world.emit(|| Event::GracePeriod {
                gp_seq: cpu_seq,
                what: "cpuend",
            });
            wake
        } else {
            let wake =
                own.bypass.is_none() && self.accelerate_cbs(rdp.leaf, leaf, rdp, &mut own.cblist, world);
            own.core_needs_qs &= owed;
            wake
        };
        if seq::new_gp(cpu_seq, node_seq) || gpwrap {
            if mutated("Z04") {
                let others = node.qsmask.load(Ordering::Relaxed) & !rdp.grpmask;
                node.qsmask.store(others, Ordering::Relaxed);
            }
            own.core_needs_qs = owed && !mutated("Z08");
            own.norm = owed && !mutated("A18") && (own.norm || !mutated("Z46"));
            rdp.last_fqs_resched.store(world.jiffies(), Ordering::Relaxed);
            world.emit(|| Event::GracePeriod {
                gp_seq: node_seq,
                what: "cpustart",
            });
        }
        rdp.gp_seq.store(node_seq, Ordering::Relaxed);
        if gpwrap || seq::lt(rdp.gp_seq_needed.load(Ordering::Relaxed), leaf.gp_seq_needed) {
            rdp.gp_seq_needed.store(leaf.gp_seq_needed, Ordering::Relaxed);
        }
        rdp.gpwrap.store(false, Ordering::Relaxed);
        wake
    }

    /// `rcu_gpnum_ovf()`: a CPU left a quarter of the range behind (or `gpwrap_lag` grace periods, a
    /// test aid) must not trust its numbers.
    pub(super) fn check_gpwrap(&self, rdp: &CpuData<C>) {
        let node_seq = self.nodes[rdp.leaf].gp_seq.load(Ordering::Relaxed);
        let lag = match self.tun.gpwrap_lag {
            0 => u64::MAX / 4,
            grace_periods => grace_periods * seq::SEQ_GP,
        };
        if seq::lt(rdp.gp_seq.load(Ordering::Relaxed).wrapping_add(lag), node_seq) {
            rdp.gpwrap.store(true, Ordering::Relaxed);
        }
    }

    /// Reports this CPU's recorded quiescent state, if the tree waits for one.
    fn report_recorded_qs(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let how = {
            let own = rdp.own.lock();
            if !own.core_needs_qs || own.norm {
                return;
            }
            own.recorded_by
        };
        self.report_qs_cpu(ctx, how, world);
    }

    /// `rcu_report_qs_rdp()`: reports for the CPU that runs this, or gives the quiescent state up
    /// when it belongs to another grace period (invariant I7).
    pub(super) fn report_qs_cpu(&self, ctx: Ctx, how: Resolution, world: &mut impl World) {
        self.report_qs_locked(ctx, self.cpus[ctx.cpu as usize].own.lock(), how, world);
    }

    /// The same with the CPU's own lock held.
    pub(super) fn report_qs_locked(
        &self,
        ctx: Ctx,
        mut own: FullGuard<'_, Own<C>>,
        how: Resolution,
        world: &mut impl World,
    ) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let root_emptied = {
            let node = &self.nodes[rdp.leaf];
            let mut leaf = self.lock_node(rdp.leaf);
            let leaf_seq = node.gp_seq.load(Ordering::Relaxed);
            if own.norm
                || rdp.gp_seq.load(Ordering::Relaxed) != leaf_seq
                || rdp.gpwrap.load(Ordering::Relaxed)
            {
                own.norm = true;
                return;
            }
            own.core_needs_qs = false;
            if node.qsmask.load(Ordering::Relaxed) & rdp.grpmask == 0 {
                return;
            }
            let wake =
                own.bypass.is_none() && self.accelerate_cbs(rdp.leaf, &mut leaf, rdp, &mut own.cblist, world);
            promise!(
                !wake,
                "a grace period is in progress, so no wake-up is needed to start one"
            );
            Self::clear_urgency(rdp);
            drop(own);
            self.report_up(
                rdp.leaf,
                leaf,
                rdp.grpmask,
                leaf_seq,
                Report { cpu: ctx.cpu, how },
                world,
            )
        };
        if root_emptied {
            self.wake_gp_kthread(ctx, world);
        }
    }

    /// The scan's requests to this CPU are answered.
    pub(super) fn clear_urgency(rdp: &CpuData<C>) {
        rdp.urgent_qs.store(false, Ordering::Relaxed);
        rdp.need_heavy_qs.store(false, Ordering::Relaxed);
    }

    /// `rcu_report_qs_rnp()`: clears `mask` in a locked node of grace period `gps` and climbs while
    /// nodes are done. A child is unlocked before its parent is locked. A mask of zero is for a leaf
    /// that owes nothing but whose blocked readers may have left. True: the root is done, so the
    /// caller wakes the kthread.
    pub(super) fn report_up<'a>(
        &'a self,
        start: usize,
        start_guard: FullGuard<'a, NodeState>,
        start_mask: u64,
        gps: u64,
        by: Report,
        world: &mut impl World,
    ) -> bool {
        let (mut index, mut guard, mut mask) = (start, start_guard, start_mask);
        if mutated("Z10") {
            return false;
        }
        loop {
            let node = &self.nodes[index];
            let owed = node.qsmask.load(Ordering::Relaxed);
            if (mask != 0 && owed & mask == 0) || node.gp_seq.load(Ordering::Relaxed) != gps {
                return false;
            }
            // Release: who finds the root empty without its lock comes after every report.
            node.qsmask
                .store(owed & !mask, order("reported", Ordering::Release));
            let gp_tasks = node.gp_tasks.load(Ordering::Relaxed);
            world.emit(|| Event::QuiescentStateReport {
                gp_seq: gps,
                mask,
                qsmask: owed & !mask,
                level: node.shape.level,
                grplo: node.shape.grplo,
                grphi: node.shape.grphi,
                gp_tasks,
                by_reader: false,
            });
            let readers = gp_tasks && !mutated("Z07b");
            if (owed & !mask != 0 || readers) && !mutated("Z07") {
                return false;
            }
            guard.completedqs = gps;
            mask = node.shape.grpmask;
            match node.shape.parent {
                Some(parent) => {
                    drop(guard);
                    guard = self.lock_node(parent);
                    index = parent;
                }
                None => {
                    self.root_is_done(by);
                    return true;
                }
            }
        }
    }

    /// `rcu_report_qs_rsp()`; the root is locked.
    pub(super) fn root_is_done(&self, by: Report) {
        self.last_holdout
            .store(u64::from(by.cpu) << 8 | by.how as u64, Ordering::Relaxed);
        self.change_gp_flags(|flags| flags | FLAG_FQS);
    }
}

/// Who reports, for the record of the last hold-out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub cpu: u32,
    pub how: Resolution,
}
