//! Quiescent states for expedited grace periods: the interrupt's handler, reports up the tree.
//!
//! A CPU that is asked in a bad moment remembers it (`cpu_no_qs.exp`) and reports at its next context
//! switch, tick or outermost unlock. These reports touch `expmask` only: an expedited grace period never
//! ends a normal one.

use super::preempt::Reader;
use super::rcu::{CpuData, NodeState, Rcu};
use super::world::{Ctx, TickHit, World};
use crate::sync::{FullGuard, Ordering, mutated};

impl<C> Rcu<C> {
    /// `rcu_exp_handler()`: the interrupt of an expedited grace period on the CPU that was asked. `hit`: what
    /// it interrupted (softirq processing counts as a section); `reader`: the read-side state of the
    /// interrupted task, if there is one.
    pub fn exp_ipi(&self, ctx: Ctx, hit: TickHit, reader: Option<&mut Reader>, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let owes = |rdp: &CpuData<C>| {
            let mask = self.nodes[rdp.leaf].exp.mask.load(Ordering::Relaxed);
            mask & rdp.grpmask != 0
        };
        if let Some(reader) = reader.filter(|reader| self.preemptible && reader.depth > 0 && !mutated("A05"))
        {
            let _leaf = self.lock_node(rdp.leaf);
            if owes(rdp) {
                rdp.exp_owed.store(true, Ordering::Relaxed);
                reader.exp_hint = true;
            }
            return;
        }
        // It may have gone offline and come back since it was asked, and has reported on its way out.
        if !owes(rdp) || rdp.exp_owed.load(Ordering::Relaxed) {
            return;
        }
        let quiescent = match hit {
            TickHit::Idle => true,
            // Without preemption counts nothing proves that kernel code is not inside a section, and the
            // kernel does not look whether it was user mode.
            TickHit::User | TickHit::Kernel => self.preemptible,
            TickHit::KernelSection => false,
        };
        if quiescent {
            return self.exp_report_cpu(ctx, world);
        }
        rdp.exp_owed.store(true, Ordering::Relaxed);
        rdp.urgent_qs.store(true, Ordering::Release);
        world.resched(ctx.cpu);
    }

    /// `rcu_report_exp_rdp()`: this CPU passes a quiescent state now, which answers whatever expedited grace
    /// period asked it.
    pub fn exp_report_cpu(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let root_done = {
            let leaf = self.lock_node(rdp.leaf);
            rdp.exp_owed.store(false, Ordering::Relaxed);
            self.exp_report_up(rdp.leaf, leaf, rdp.grpmask)
        };
        if root_done {
            self.exp_wake_driver(world);
        }
    }

    /// The same for a quiescent state that was observed from outside the CPU, after the expedited grace period
    /// with the number `gp_seq` (while it runs) had asked it. It is dropped when another one runs by now, which
    /// the observation may be too old for.
    pub fn exp_report_observed(&self, ctx: Ctx, gp_seq: u64, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let root_done = {
            let leaf = self.lock_node(rdp.leaf);
            // While the bit stands, and this lock is held, the one that set it cannot end.
            if self.exp_seq() != gp_seq {
                return;
            }
            rdp.exp_owed.store(false, Ordering::Relaxed);
            self.exp_report_up(rdp.leaf, leaf, rdp.grpmask)
        };
        if root_done {
            self.exp_wake_driver(world);
        }
    }

    /// The CPU passed a quiescent state; if it owes an expedited one it reports.
    #[inline]
    pub(super) fn exp_report_owed(&self, ctx: Ctx, world: &mut impl World) {
        if self.cpus[ctx.cpu as usize].exp_owed.load(Ordering::Relaxed) && !mutated("A06") {
            self.exp_report_cpu(ctx, world);
        }
    }

    /// `__rcu_report_exp_rnp()`: clears `mask` in a locked node and climbs while nodes are done. True: the
    /// root is clear, and the caller, once no lock is held, wakes the driver.
    pub(super) fn exp_report_up<'a>(
        &'a self,
        start: usize,
        start_guard: FullGuard<'a, NodeState>,
        start_mask: u64,
    ) -> bool {
        let (mut index, mut guard, mut mask) = (start, start_guard, start_mask);
        loop {
            let node = &self.nodes[index];
            let owed = node.exp.mask.load(Ordering::Relaxed);
            if owed & mask == 0 {
                return false;
            }
            node.exp.mask.store(owed & !mask, Ordering::SeqCst);
            let readers = node.exp.tasks.load(Ordering::Relaxed) && !mutated("A08");
            if owed & !mask != 0 || readers {
                return false;
            }
            let Some(parent) = node.shape.parent else {
                drop(guard);
                return true;
            };
            drop(guard);
            guard = self.lock_node(parent);
            mask = node.shape.grpmask;
            index = parent;
        }
    }

    /// The last blocked reader that an expedited grace period waited for at this leaf has left, and no CPU
    /// of it is owed: nothing can make it owe again before the next one's reset, so its lock is not needed.
    pub(super) fn exp_leaf_done(&self, leaf: usize, world: &mut impl World) {
        let node = &self.nodes[leaf];
        let root_done = match node.shape.parent {
            Some(parent) => self.exp_report_up(parent, self.lock_node(parent), node.shape.grpmask),
            None => true,
        };
        if root_done {
            self.exp_wake_driver(world);
        }
    }
}
