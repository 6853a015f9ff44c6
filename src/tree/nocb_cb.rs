//! `rcuop`: invokes the callbacks of one offloaded CPU, wherever it runs itself.

use super::callback::{Batch, Callback};
use super::rcu::Rcu;
use super::seq;
use super::world::{Ctx, World};
use crate::sync::Ordering;

impl<C: Callback> Rcu<C> {
    /// `rcuop` of `cpu` runs: what it is to invoke. None: it sleeps until woken.
    pub fn nocb_cb_batch(&self, cpu: u32, ctx: Ctx, world: &mut impl World) -> Option<Batch<'_, C>> {
        let nocb = self.nocb.as_deref()?;
        let (_, kthread) = nocb.of[cpu as usize].as_ref()?;
        if kthread.sleep.load(Ordering::SeqCst) {
            return None;
        }
        world.momentary_eqs(ctx.cpu);
        let batch = self.unlimited_batch(cpu, world);
        if batch.is_none() {
            // "WokeEmpty": somebody else has been here.
            kthread.sleep.store(true, Ordering::SeqCst);
        }
        batch
    }

    /// After a batch: takes what became ready meanwhile, or goes to sleep.
    pub fn nocb_cb_done(&self, cpu: u32, ctx: Ctx, world: &mut impl World) {
        let Some((_, kthread)) = self
            .nocb
            .as_deref()
            .and_then(|nocb| nocb.of[cpu as usize].as_ref())
        else {
            return;
        };
        let rdp = &self.cpus[cpu as usize];
        let wake = {
            let mut own = rdp.own.lock();
            let node = &self.nodes[rdp.leaf];
            let leaf_seq = node.gp_seq.load(Ordering::Acquire);
            let over = own.cblist.next_seq().is_some_and(|wait| seq::ge(leaf_seq, wait));
            let wake = match over.then(|| node.state.try_lock()).flatten() {
                Some(mut leaf) => self.advance_cbs(&mut leaf, rdp, &mut own.cblist, world),
                None => false,
            };
            kthread.sleep.store(!own.cblist.ready(), Ordering::SeqCst);
            wake
        };
        if wake {
            self.wake_gp_kthread(ctx, world);
        }
    }
}
