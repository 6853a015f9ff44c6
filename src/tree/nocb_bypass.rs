//! Queueing on an offloaded CPU: the list itself, or the bypass once a jiffy's budget is used up.

use super::chunks::Chunks;
use super::nocb::{Call, Defer};
use super::rcu::{Cb, CpuData, Own, Rcu};
use super::world::{Ctx, World};
use crate::sync::Ordering;

/// The bypass list of an offloaded CPU. Its callbacks are in the main list's `len`, in none of its segments.
#[derive(Debug)]
pub(super) struct Bypass<C> {
    waiting: Chunks<Cb<C>>,
    /// Jiffy of the first entry.
    pub first: u64,
    /// Calls that the budget of `last` still feels.
    count: u64,
    /// Jiffy of the latest enqueue.
    last: u64,
    /// Jiffy in which a flush advanced the list.
    advanced: u64,
}

impl<C> Default for Bypass<C> {
    fn default() -> Self {
        Bypass {
            waiting: Chunks::default(),
            first: 0,
            count: 0,
            last: 0,
            advanced: 0,
        }
    }
}

impl<C> Bypass<C> {
    pub(super) fn len(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Takes all of it.
    pub(super) fn take(bypass: &mut Self, jiffies: u64) -> Chunks<Cb<C>> {
        bypass.first = jiffies;
        std::mem::take(&mut bypass.waiting)
    }

    /// Calls of this jiffy before this one, and what earlier ones left: a burst leaks away at `limit` a jiffy.
    fn charge(&mut self, jiffies: u64, limit: u64) -> u64 {
        if jiffies == self.last {
            self.count += 1;
        } else {
            self.last = jiffies;
            self.count = self.count.saturating_sub(limit).min(limit);
        }
        self.count
    }
}

impl<C> Rcu<C> {
    /// `call_rcu_nocb()`: queues on an offloaded CPU, whose lock is held. What it returns is to be done after.
    pub(super) fn nocb_enqueue(
        &self,
        ctx: Ctx,
        rdp: &CpuData<C>,
        own: &mut Own<C>,
        callback: Cb<C>,
        world: &impl World,
    ) -> Call {
        let jiffies = world.jiffies();
        let limit = self.tun.nocb_nobypass_lim_per_jiffy;
        let bypass = own.bypass.as_deref_mut().expect("an offloaded CPU has a bypass");
        let direct = bypass.charge(jiffies, limit) < limit;
        let was_idle = !own.cblist.pend();
        if direct {
            Self::nocb_flush(own, jiffies);
            own.cblist.enqueue(callback);
            return self.nocb_wake_rule(ctx, own, was_idle);
        }
        let length = bypass.len();
        let flush = length > 0 && (length >= self.tun.qhimark as u64 || bypass.first != jiffies);
        own.cblist.count_one();
        if flush {
            let old = Bypass::take(bypass, jiffies);
            bypass.waiting.push_back(callback);
            let advance = std::mem::replace(&mut bypass.advanced, jiffies) != jiffies;
            own.cblist.insert_pend(old);
            if advance {
                let leaf_seq = self.nodes[rdp.leaf].gp_seq.load(Ordering::Acquire);
                own.cblist.advance(leaf_seq);
            }
            return self.nocb_wake_rule(ctx, own, was_idle);
        }
        bypass.waiting.push_back(callback);
        if length > 0 {
            return Call::Nothing;
        }
        bypass.first = jiffies;
        // Where the list has callbacks that wait, rcuog will look anyway.
        if was_idle {
            self.nocb_wake_rule(ctx, own, true)
        } else {
            Call::Nothing
        }
    }

    /// `__call_rcu_nocb_wake()`. `was_idle`: nothing waited on the main list before.
    fn nocb_wake_rule(&self, ctx: Ctx, own: &mut Own<C>, was_idle: bool) -> Call {
        if self.tun.rcu_nocb_poll || !was_idle {
            return Call::Nothing;
        }
        own.qlen_last_fqs_check = own.cblist.len();
        if ctx.in_irq {
            Call::Defer(Defer::Wake)
        } else {
            Call::Wake
        }
    }
}
