//! Read-side sections of preemptible kernels: entering, leaving, being preempted inside one.
//!
//! The fast path is a counter. A reader that is preempted inside its section is queued on the leaf of
//! the CPU where that happened, and stays on that leaf however it migrates; then its CPU may report a
//! quiescent state while the leaf goes on waiting for the reader. The outermost unlock of such a
//! reader takes the slow path and, when it was the last blocker of its leaf, reports for the leaf.

use super::qs::Report;
use super::rcu::{CpuData, Rcu};
use super::seq;
use super::world::{Ctx, World};
use crate::stats::Resolution;
use crate::sync::{Ordering, mutated};
use crate::trace::Event;

/// The read-side state of one task. Its world keeps it.
#[derive(Debug)]
pub struct Reader {
    id: super::blocked::ReaderId,
    pub(super) depth: u32,
    /// Queued on this leaf under this key.
    blocked: Option<(u32, u32)>,
    /// Asked to come by the slow path at its outermost unlock.
    need_qs: bool,
    /// An expedited grace period asks for the same.
    pub(super) exp_hint: bool,
}

impl Reader {
    /// Outside any section.
    pub fn new(id: super::blocked::ReaderId) -> Self {
        Reader {
            id,
            depth: 0,
            blocked: None,
            need_qs: false,
            exp_hint: false,
        }
    }

    /// `rcu_read_lock()`.
    pub fn lock(&mut self) {
        self.depth += 1;
    }

    /// Sections open, one inside the other.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Queued on a leaf.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// The outermost unlock has more to do than count down.
    fn is_special(&self) -> bool {
        self.blocked.is_some() || self.need_qs || self.exp_hint
    }
}

impl<C> Rcu<C> {
    /// `rcu_read_unlock()`. `disabled`: preemption, softirqs or interrupts are off here, so that a
    /// quiescent state has to wait for a better moment.
    pub fn read_unlock(&self, ctx: Ctx, reader: &mut Reader, disabled: bool, world: &mut impl World) {
        assert!(reader.depth > 0, "rcu_read_unlock() without rcu_read_lock()");
        reader.depth -= 1;
        if (reader.depth > 0 && !mutated("Z47")) || !reader.is_special() {
            return;
        }
        if !disabled {
            return self.report_deferred_qs(ctx, reader, world);
        }
        // Deferred: the next context switch, tick, softirq or idle entry of this task reports it. (Where an
        // expedited grace period waits and interrupts are on, the kernel raises the softirq for a task too;
        // both come at the point where everything is enabled again.)
        if ctx.in_irq {
            let rdp = &self.cpus[ctx.cpu as usize];
            if !std::mem::replace(&mut rdp.own.lock().defer_qs_pending, true) {
                world.raise_core(ctx.cpu);
            }
        } else {
            world.resched(ctx.cpu);
        }
    }

    /// The task goes on outside any section, with everything enabled: do what its last unlock left.
    pub fn report_deferred_qs(&self, ctx: Ctx, reader: &mut Reader, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        rdp.own.lock().defer_qs_pending = false;
        if reader.depth > 0 && !mutated("Z47") {
            return;
        }
        if !reader.is_special() {
            return self.exp_report_owed(ctx, world);
        }
        reader.exp_hint = false;
        if std::mem::take(&mut reader.need_qs) {
            Self::record_qs(rdp, &mut rdp.own.lock(), Resolution::ContextSwitch, world);
        }
        self.exp_report_owed(ctx, world);
        if let Some((leaf, key)) = reader.blocked.take() {
            self.unblock_reader(ctx, reader.id, leaf as usize, key, world);
        }
    }

    /// A reader found inside its section on `cpu` is taken to be preempted there: it goes on the leaf's
    /// list, after which the CPU's own quiescent state no longer depends on it.
    pub fn block_reader(&self, cpu: u32, reader: &mut Reader, world: &mut impl World) {
        self.queue_blocked_reader(&self.cpus[cpu as usize], reader, world);
    }

    /// Preempted inside its section: onto the leaf's list, at or behind the pointer of each grace
    /// period that its CPU still owes a quiescent state.
    pub(super) fn queue_blocked_reader(&self, rdp: &CpuData<C>, reader: &mut Reader, world: &mut impl World) {
        if reader.blocked.is_some() || mutated("Z48a") {
            return;
        }
        let node = &self.nodes[rdp.leaf];
        let mut leaf = self.lock_node(rdp.leaf);
        let blocks_gp = node.qsmask.load(Ordering::Relaxed) & rdp.grpmask != 0;
        promise!(
            !blocks_gp || leaf.completedqs != node.gp_seq.load(Ordering::Relaxed),
            "a leaf that passed its quiescent state up owes none"
        );
        let blocks_exp = node.exp.mask.load(Ordering::Relaxed) & rdp.grpmask != 0;
        let key = leaf.blocked.insert(
            reader.id,
            blocks_gp && !mutated("Z48b"),
            blocks_exp && !mutated("Z48e"),
        );
        node.gp_tasks.store(leaf.blocked.blocks_gp(), Ordering::SeqCst);
        node.exp.tasks.store(leaf.blocked.blocks_exp(), Ordering::SeqCst);
        if leaf.qsmaskinit == 0 {
            // Nobody else there is waited for: the next hotplug pass has to attach the leaf.
            node.hotplug.store(true, Ordering::Release);
        }
        reader.blocked = Some((rdp.leaf as u32, key));
        world.emit(|| {
            let leaf_seq = node.gp_seq.load(Ordering::Relaxed);
            Event::PreemptTask {
                gp_seq: if blocks_gp { leaf_seq } else { seq::snap(leaf_seq) },
                pid: reader.id,
            }
        });
    }

    /// A blocked reader left its section.
    fn unblock_reader(
        &self,
        ctx: Ctx,
        id: super::blocked::ReaderId,
        index: usize,
        key: u32,
        world: &mut impl World,
    ) {
        let by = Report {
            cpu: ctx.cpu,
            how: Resolution::BlockedReader,
        };
        let (root_done, exp_done) = {
            let node = &self.nodes[index];
            let mut leaf = self.lock_node(index);
            let removed = leaf.blocked.remove(key);
            let last = removed.last_gp;
            node.exp.tasks.store(leaf.blocked.blocks_exp(), Ordering::SeqCst);
            let exp_done = removed.last_exp && node.exp.mask.load(Ordering::Relaxed) == 0;
            let gps = node.gp_seq.load(Ordering::Relaxed);
            let owed = node.qsmask.load(Ordering::Relaxed);
            world.emit(|| Event::UnlockPreemptedTask {
                gp_seq: gps,
                pid: id,
                at_gp_start: false,
            });
            node.gp_tasks.store(leaf.blocked.blocks_gp(), Ordering::SeqCst);
            if last {
                world.emit(|| Event::QuiescentStateReport {
                    gp_seq: gps,
                    mask: 0,
                    qsmask: owed,
                    level: node.shape.level,
                    grplo: node.shape.grplo,
                    grphi: node.shape.grphi,
                    gp_tasks: false,
                    by_reader: true,
                });
            }
            let root_done = if !last || owed != 0 {
                // Others block, or CPUs are owed: whoever comes last reports.
                false
            } else {
                leaf.completedqs = gps;
                match node.shape.parent {
                    Some(_) if mutated("Z22") => false,
                    None => {
                        self.root_is_done(by);
                        true
                    }
                    Some(parent) => {
                        drop(leaf);
                        self.report_up(parent, self.lock_node(parent), node.shape.grpmask, gps, by, world)
                    }
                }
            };
            (root_done, exp_done)
        };
        if root_done {
            self.wake_gp_kthread(ctx, world);
        }
        if exp_done {
            self.exp_leaf_done(index, world);
        }
    }

    /// A tick found its CPU inside a long section that holds a grace period of more than a second up:
    /// have the outermost unlock record the quiescent state at once.
    pub(super) fn ask_for_help(&self, rdp: &CpuData<C>, reader: &mut Reader, world: &impl World) {
        let own = rdp.own.lock();
        let started = self.gp_start_jiffies.load(Ordering::Relaxed);
        if own.core_needs_qs
            && own.norm
            && self.preemptible
            && world.jiffies() > started + u64::from(self.tun.hz)
        {
            reader.need_qs = true;
        }
    }
}
