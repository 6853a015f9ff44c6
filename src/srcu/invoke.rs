//! Callbacks of one CPU are invoked, in batches (invariant S6).

use super::domain::{Cb, Srcu};
use super::world::World;
use crate::tree::chunks::Chunks;

/// Callbacks whose grace period is over: [`Batch::next`] each, then [`Batch::finish`]. Dropped, also by a panic, what was
/// not taken goes back to the front of the list.
#[must_use = "the callbacks wait in it"]
pub struct Batch<'s, C> {
    srcu: &'s Srcu<C>,
    cpu: u32,
    callbacks: Chunks<Cb<C>>,
    taken: u64,
}

impl<C> Srcu<C> {
    /// The work of one CPU begins: takes everything that is ready. `None`: nothing is, or somebody else is at it.
    pub fn callback_work(&self, cpu: u32) -> Option<Batch<'_, C>> {
        let mut own = self.cpus[cpu as usize].lock();
        own.cblist.advance(self.gp_seq());
        if own.invoking || !own.cblist.ready() {
            return None;
        }
        own.invoking = true;
        Some(Batch {
            srcu: self,
            cpu,
            callbacks: own.cblist.extract_done(),
            taken: 0,
        })
    }
}

impl<C> Batch<'_, C> {
    /// The next one.
    #[expect(
        clippy::should_implement_trait,
        reason = "as the tree's batches: no iterator's laziness"
    )]
    pub fn next(&mut self) -> Option<Cb<C>> {
        let callback = self.callbacks.pop_front()?;
        self.taken += 1;
        Some(callback)
    }

    /// All are taken, and have been invoked. More that are ready by now have the work queued again.
    pub fn finish(self, world: &mut impl World) {
        let (srcu, cpu) = (self.srcu, self.cpu);
        drop(self);
        if srcu.is_ready(cpu) {
            world.queue_callbacks(cpu, 0);
        }
    }
}

impl<C> Drop for Batch<'_, C> {
    fn drop(&mut self) {
        let mut own = self.srcu.cpus[self.cpu as usize].lock();
        own.cblist.insert_done(std::mem::take(&mut self.callbacks));
        own.cblist.finished(self.taken);
        own.invoking = false;
    }
}

impl<C> Srcu<C> {
    /// Callbacks of this CPU could be invoked now.
    fn is_ready(&self, cpu: u32) -> bool {
        let mut own = self.cpus[cpu as usize].lock();
        own.cblist.advance(self.gp_seq());
        own.cblist.ready()
    }
}
