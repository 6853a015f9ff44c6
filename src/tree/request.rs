//! Asking for grace periods: the funnel from a leaf to the root (invariant I9), and the numbering
//! of callbacks that goes with it.

use super::cblist::{SegCbList, WAIT};
use super::rcu::{Cb, CpuData, FLAG_INIT, NodeState, Own, Rcu};
use super::seq;
use super::world::{Ctx, World};
use crate::sync::{FullGuard, Ordering, mutated};
use crate::trace::Event;

impl<C> Rcu<C> {
    /// Records at `start` (whose lock the caller holds as `held`) and upwards that the grace period
    /// ending with `req` is wanted. True: the caller must wake the kthread after unlocking.
    pub(super) fn start_this_gp(
        &self,
        start: usize,
        held: &mut NodeState,
        rdp: &CpuData<C>,
        req: u64,
        world: &mut impl World,
    ) -> bool {
        let future = |index: usize, what: &'static str| {
            let node = &self.nodes[index];
            Event::FutureGracePeriod {
                gp_seq: node.gp_seq.load(Ordering::Relaxed),
                req,
                level: node.shape.level,
                grplo: node.shape.grplo,
                grphi: node.shape.grphi,
                what,
            }
        };
        world.emit(|| future(start, "Startleaf"));
        let mut index = start;
        let mut climbed: Option<FullGuard<'_, NodeState>> = None;
        let mut wake = false;
        let needed = loop {
            let node = &self.nodes[index];
            let state: &mut NodeState = match climbed.as_deref_mut() {
                Some(state) => state,
                None => held,
            };
            let node_seq = node.gp_seq.load(Ordering::Relaxed);
            let covered = seq::ge(state.gp_seq_needed, req)
                || seq::started(node_seq, req)
                || (index != start && seq::state(node_seq) != 0);
            if covered {
                world.emit(|| future(index, "Prestarted"));
                break state.gp_seq_needed;
            }
            state.gp_seq_needed = req;
            if seq::state(node_seq) != 0 {
                // Cleanup of the running grace period will see the mark.
                world.emit(|| future(start, "Startedleaf"));
                break req;
            }
            if let Some(parent) = node.shape.parent {
                // The start node stays locked by the caller; a node in between is let go first.
                drop(climbed.take());
                climbed = Some(self.lock_node(parent));
                index = parent;
                continue;
            }
            if self.gp_in_progress() {
                world.emit(|| future(index, "Startedleafroot"));
            } else {
                world.emit(|| future(index, "Startedroot"));
                self.change_gp_flags(|flags| flags | FLAG_INIT);
                wake = !mutated("Z26");
                world.emit(|| Event::GracePeriod {
                    gp_seq: self.gp_seq(),
                    what: "newreq",
                });
            }
            break req;
        };
        drop(climbed);
        if seq::lt(req, needed) {
            held.gp_seq_needed = needed;
            rdp.gp_seq_needed.store(needed, Ordering::Relaxed);
        }
        wake
    }

    /// Numbers this CPU's new callbacks and requests what they need. `held` is the locked node
    /// `start`: the CPU's leaf, or the root at the end of a grace period.
    pub(super) fn accelerate_cbs(
        &self,
        start: usize,
        held: &mut NodeState,
        rdp: &CpuData<C>,
        cblist: &mut SegCbList<Cb<C>>,
        world: &mut impl World,
    ) -> bool {
        if !cblist.pend() {
            return false;
        }
        world.emit(|| segments("SegCbPreAcc", cblist));
        // `snap` needs a full barrier after the read: the node lock that we hold gave one before, and
        // the SeqCst load orders the rest.
        let req = match self.gp_seq() {
            running if mutated("Z12") && seq::state(running) != 0 => seq::endval(running),
            now => seq::snap(now),
        };
        let wake =
            cblist.accelerate(req) && !mutated("A16") && self.start_this_gp(start, held, rdp, req, world);
        world.emit(|| Event::GracePeriod {
            gp_seq: req,
            what: if cblist.restempty(WAIT) {
                "AccWaitCB"
            } else {
                "AccReadyCB"
            },
        });
        world.emit(|| segments("SegCbPostAcc", cblist));
        wake
    }

    /// Moves finished callbacks to DONE by the leaf's number, then numbers new ones.
    pub(super) fn advance_cbs(
        &self,
        held: &mut NodeState,
        rdp: &CpuData<C>,
        cblist: &mut SegCbList<Cb<C>>,
        world: &mut impl World,
    ) -> bool {
        if !cblist.pend() {
            return false;
        }
        let reached = self.nodes[rdp.leaf].gp_seq.load(Ordering::Relaxed);
        if mutated("Z20") {
            cblist.advance(reached.wrapping_add(seq::SEQ_GP));
        } else if !mutated("Z49b") {
            cblist.advance(reached);
        }
        self.accelerate_cbs(rdp.leaf, held, rdp, cblist, world)
    }

    /// Numbers this CPU's callbacks; takes the leaf lock only when a request has to be made. True:
    /// wake the kthread.
    pub(super) fn accelerate_cbs_unlocked(
        &self,
        rdp: &CpuData<C>,
        own: &mut Own<C>,
        world: &mut impl World,
    ) -> bool {
        let snap = seq::snap(self.gp_seq());
        let known =
            !rdp.gpwrap.load(Ordering::Relaxed) && seq::ge(rdp.gp_seq_needed.load(Ordering::Relaxed), snap);
        if known {
            own.cblist.accelerate(snap);
            return false;
        }
        let mut leaf = self.lock_node(rdp.leaf);
        self.accelerate_cbs(rdp.leaf, &mut leaf, rdp, &mut own.cblist, world)
    }

    /// `start_poll_synchronize_rcu()`: requests a full grace period from now on, without a callback.
    pub(super) fn request_gp(&self, ctx: Ctx, world: &mut impl World) {
        let rdp = &self.cpus[ctx.cpu as usize];
        let wake = {
            let mut leaf = self.lock_node(rdp.leaf);
            let req = seq::snap(self.gp_seq());
            self.start_this_gp(rdp.leaf, &mut leaf, rdp, req, world)
        };
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
    }
}

/// `rcu_segcb_stats` of a list.
pub(super) fn segments<T>(what: &'static str, cblist: &SegCbList<T>) -> Event {
    Event::SegCbStats {
        what,
        seglen: std::array::from_fn(|segment| cblist.seglen(segment)),
        gp_seq: std::array::from_fn(|segment| cblist.segment_gp_seq(segment)),
    }
}
