//! `rcuog`: waits for grace periods on behalf of a group of offloaded CPUs.

use super::cblist::NEXT;
use super::nocb::Defer;
use super::rcu::Rcu;
use super::seq;
use super::world::{Ctx, Kthread, World};
use crate::sync::Ordering;

/// What `rcuog` wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NocbGpWait {
    /// Sleep until woken, unless the ticket is old by then.
    Sleep {
        /// See [`Rcu::nocb_gp_ticket_is_old`].
        ticket: u64,
    },
    /// Sleep one jiffy (`rcu_nocb_poll`).
    Poll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pass,
    Idle,
    StartWait(u64),
    Polling,
}

/// The variables of one `rcuog`; its world keeps them.
#[derive(Debug)]
pub struct NocbGpKthread {
    phase: Phase,
}

impl Default for NocbGpKthread {
    fn default() -> Self {
        NocbGpKthread { phase: Phase::Pass }
    }
}

impl<C> Rcu<C> {
    /// True when that `rcuog` was woken since it took this ticket.
    pub fn nocb_gp_ticket_is_old(&self, group: u32, ticket: u64) -> bool {
        self.nocb
            .as_deref()
            .is_none_or(|nocb| nocb.groups[group as usize].ticket.load(Ordering::SeqCst) != ticket)
    }

    /// One round of `rcuog`, from a wake-up to the next sleep.
    pub fn nocb_gp_step(
        &self,
        index: u32,
        k: &mut NocbGpKthread,
        ctx: Ctx,
        world: &mut impl World,
    ) -> NocbGpWait {
        let nocb = self.nocb.as_deref().expect("only offloading has rcuog kthreads");
        let group = &nocb.groups[index as usize];
        loop {
            // Before the conditions are looked at, so that a wake-up in between makes it old.
            let ticket = group.ticket.load(Ordering::SeqCst);
            let goes_on = match k.phase {
                Phase::Pass => {
                    k.phase = self.nocb_pass(index, ctx, world);
                    if k.phase == Phase::Polling {
                        return NocbGpWait::Poll;
                    }
                    continue;
                }
                Phase::Polling => true,
                Phase::Idle => {
                    let mut state = group.state.lock();
                    state.idle = state.gp_sleep;
                    !state.gp_sleep
                }
                Phase::StartWait(wanted) => {
                    let asked = !group.state.lock().gp_sleep;
                    let _leaf = self.lock_node(group.leaf);
                    let over = seq::ge(self.nodes[group.leaf].gp_seq.load(Ordering::Relaxed), wanted);
                    let queue = if asked || over {
                        0
                    } else {
                        1 + (seq::ctr(wanted) & 1)
                    };
                    group.waits_for_parity.store(queue, Ordering::Relaxed);
                    asked || over
                }
            };
            if !goes_on {
                return NocbGpWait::Sleep { ticket };
            }
            let cancel = {
                let mut state = group.state.lock();
                state.level = Defer::Not;
                state.idle = false;
                state.gp_sleep = true;
                std::mem::take(&mut state.timer_armed)
            };
            if cancel {
                world.cancel_nocb_timer(index);
            }
            k.phase = Phase::Pass;
        }
    }

    /// `nocb_gp_wait()` up to its sleep: looks at every member.
    fn nocb_pass(&self, index: u32, ctx: Ctx, world: &mut impl World) -> Phase {
        let nocb = self.nocb.as_deref().expect("only offloading has rcuog kthreads");
        let group = &nocb.groups[index as usize];
        let jiffies = world.jiffies();
        let (mut bypass_left, mut wake_gp) = (false, false);
        let mut wanted: Option<u64> = None;
        for &cpu in &group.members {
            let rdp = &self.cpus[cpu as usize];
            let wake_cb = {
                let mut own = rdp.own.lock();
                let (length, first) = own.bypass.as_deref().map_or((0, 0), |b| (b.len(), b.first));
                if length == 0 && own.cblist.queued() == 0 {
                    continue;
                }
                if length > 0 && (length >= 2 * self.tun.qhimark as u64 || jiffies > first + 1) {
                    Self::nocb_flush(&mut own, jiffies);
                } else {
                    bypass_left |= length > 0;
                }
                let leaf_seq = self.nodes[rdp.leaf].gp_seq.load(Ordering::Acquire);
                let over = own.cblist.next_seq().is_some_and(|wait| seq::ge(leaf_seq, wait));
                if over || own.cblist.seglen(NEXT) > 0 {
                    let mut leaf = self.lock_node(rdp.leaf);
                    wake_gp |= self.advance_cbs(&mut leaf, rdp, &mut own.cblist, world);
                }
                if let Some(wait) = own.cblist.next_seq()
                    && wanted.is_none_or(|earliest| seq::lt(wait, earliest))
                {
                    wanted = Some(wait);
                }
                own.cblist.ready()
                    && nocb.of[cpu as usize]
                        .as_ref()
                        .is_some_and(|(_, kthread)| kthread.sleep.swap(false, Ordering::SeqCst))
            };
            if wake_cb {
                if let Some((_, kthread)) = &nocb.of[cpu as usize] {
                    kthread.ticket.fetch_add(1, Ordering::SeqCst);
                }
                world.wake(Kthread::NocbCb(cpu));
            }
        }
        if wake_gp {
            self.wake_gp_kthread(ctx, world);
        }
        if self.tun.rcu_nocb_poll {
            return Phase::Polling;
        }
        if bypass_left {
            self.nocb_defer(group.members[0], Defer::Bypass, world);
        }
        wanted.map_or(Phase::Idle, Phase::StartWait)
    }

    /// The groups that wait on this node for the end of a grace period of this number's parity. The node is locked.
    pub(super) fn nocb_waiting(&self, node: usize, ended: u64) -> Vec<u32> {
        let Some(nocb) = self.nocb.as_deref() else {
            return Vec::new();
        };
        let queue = 1 + (seq::ctr(ended) & 1);
        (0u32..)
            .zip(&nocb.groups)
            .filter(|(_, group)| {
                group.leaf == node && group.waits_for_parity.load(Ordering::Relaxed) == queue
            })
            .map(|(index, group)| {
                group.waits_for_parity.store(0, Ordering::Relaxed);
                group.ticket.fetch_add(1, Ordering::SeqCst);
                index
            })
            .collect()
    }
}
