//! CPUs coming online and going offline (invariants I13, I16).
//!
//! A CPU's bit in `qsmaskinitnext` says that RCU regards it as online; the tree itself changes only
//! at the next grace period's hotplug pass. A CPU that goes offline while a grace period still waits
//! for it reports itself; the one lock that covers "reported" and "bit cleared" lets grace-period
//! initialisation see either both or neither, so exactly one of the two parties reports.

use super::preempt::Reader;
use super::qs::Report;
use super::rcu::Rcu;
use super::world::{Ctx, World};
use crate::stats::Resolution;
use crate::sync::{Ordering, mutated};

impl<C> Rcu<C> {
    /// Before the CPU runs (on the controlling CPU) and then on it, interrupts off: from here on new
    /// grace periods wait for it. One that is in progress does not.
    pub fn cpu_online(&self, cpu: u32) {
        let rdp = &self.cpus[cpu as usize];
        {
            let mut own = rdp.own.lock();
            own.qlen_last_fqs_check = 0;
            own.n_force_qs_snap = self.n_force_qs.load(Ordering::Relaxed);
            own.blimit = self.tun.blimit;
            own.enabled = true;
            own.norm = true;
            own.core_needs_qs = false;
            let _leaf = self.lock_node(rdp.leaf);
            let leaf_seq = self.nodes[rdp.leaf].gp_seq.load(Ordering::Relaxed);
            rdp.gp_seq.store(leaf_seq, Ordering::Relaxed);
            rdp.gp_seq_needed.store(leaf_seq, Ordering::Relaxed);
            rdp.gpwrap.store(false, Ordering::Relaxed);
        }
        let _ofl = self.ofl_lock.lock();
        self.nodes[rdp.leaf].hotplug.store(true, Ordering::Release);
        let _barrier = self.barrier.lock();
        let mut leaf = self.lock_node(rdp.leaf);
        promise_eq!(
            self.nodes[rdp.leaf].qsmask.load(Ordering::Relaxed) & rdp.grpmask,
            0,
            "nobody waits for a CPU that was offline"
        );
        if !mutated("A14") {
            leaf.qsmaskinitnext |= rdp.grpmask;
        }
        if leaf.expmaskinitnext & rdp.grpmask == 0 {
            // Online for the first time.
            leaf.expmaskinitnext |= rdp.grpmask;
            self.exp.ncpus.fetch_add(1, Ordering::Release);
        }
    }

    /// The CPU's last act, interrupts off. `reader`: the read-side state of what ran there last.
    pub fn cpu_dead(&self, ctx: Ctx, reader: Option<&mut Reader>, world: &mut impl World) {
        if let Some(reader) = reader {
            self.report_deferred_qs(ctx, reader, world);
        }
        let rdp = &self.cpus[ctx.cpu as usize];
        let node = &self.nodes[rdp.leaf];
        let (root_done, exp_done) = {
            let _ofl = self.ofl_lock.lock();
            // Before the report below, which may end a grace period: the next one has to stop at the lock.
            node.hotplug.store(true, Ordering::Release);
            let leaf = self.lock_node(rdp.leaf);
            let gps = node.gp_seq.load(Ordering::Relaxed);
            let owes = node.qsmask.load(Ordering::Relaxed) & rdp.grpmask != 0 && !mutated("A13");
            let (root_done, mut leaf) = if owes {
                let by = Report {
                    cpu: ctx.cpu,
                    how: Resolution::Offline,
                };
                // The lock is let go on the way up. A grace period that starts meanwhile stops at its hotplug
                // pass, which wants `ofl_lock`.
                let done = self.report_up(rdp.leaf, leaf, rdp.grpmask, gps, by, world);
                (done, self.lock_node(rdp.leaf))
            } else {
                // Not let go: a grace period past its hotplug pass would wait for this CPU from here on.
                (false, leaf)
            };
            leaf.qsmaskinitnext &= !rdp.grpmask;
            // In one critical section with the bit: the selection of an expedited grace period finds the CPU
            // offline, or has asked it before this report. The interrupt may still be on its way.
            rdp.exp_owed.store(false, Ordering::Relaxed);
            (root_done, self.exp_report_up(rdp.leaf, leaf, rdp.grpmask))
        };
        if root_done {
            self.wake_gp_kthread(ctx, world);
        }
        if exp_done {
            self.exp_wake_driver(world);
        }
    }

    /// A surviving CPU takes over the callbacks of a dead one. They lose their numbers, so they may
    /// need up to one grace period more.
    ///
    /// False: a batch of the dead CPU is still being invoked, which can be only where a CPU's callbacks
    /// run on a thread of their own; try again when it is over.
    #[must_use]
    pub fn migrate_callbacks(&self, ctx: Ctx, dead: u32, world: &mut impl World) -> bool {
        let from = &self.cpus[dead as usize];
        let to = &self.cpus[ctx.cpu as usize];
        if self.is_offloaded(dead) {
            // They stay: rcuog and rcuop go on with them.
            return true;
        }
        if from.cblist_len.load(Ordering::SeqCst) == 0 {
            from.own.lock().enabled = false;
            return true;
        }
        let wake = {
            let mut barrier = self.barrier.lock();
            // Two CPU locks at once happen only here, in the order of their numbers.
            let (mut first, mut second) = if dead < ctx.cpu {
                (from.own.lock(), to.own.lock())
            } else {
                (to.own.lock(), from.own.lock())
            };
            let (dead_own, own) = if dead < ctx.cpu {
                (&mut *first, &mut *second)
            } else {
                (&mut *second, &mut *first)
            };
            if dead_own.in_batch {
                return false;
            }
            self.barrier_entrain(&mut barrier, from, dead_own, world);
            Self::nocb_flush(own, world.jiffies());
            let mut leaf = self.lock_node(to.leaf);
            let leaf_seq = self.nodes[to.leaf].gp_seq.load(Ordering::Relaxed);
            dead_own.cblist.advance(leaf_seq);
            let mut wake = self.advance_cbs(&mut leaf, to, &mut own.cblist, world);
            if !mutated("A15") {
                own.cblist.merge(&mut dead_own.cblist);
            }
            wake |= self.advance_cbs(&mut leaf, to, &mut own.cblist, world);
            dead_own.enabled = false;
            from.cblist_len.store(0, Ordering::SeqCst);
            to.cblist_len.store(own.cblist.len(), Ordering::SeqCst);
            self.nodes[from.leaf]
                .cbovldmask
                .fetch_and(!from.grpmask, Ordering::Relaxed);
            wake
        };
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
        self.nocb_wake(ctx.cpu, world);
        true
    }
}
