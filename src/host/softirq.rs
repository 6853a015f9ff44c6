//! Where callbacks run: one thread per engine (`ksoftirqd`), or one per vCPU (`rcuc/N`).
//!
//! Never on the tick thread, which would delay every vCPU, and never on the thread that queued them, which
//! may hold a lock that the callback wants.

use super::engine::Shared;
use super::park::Park;
use super::vcpu::Bitmap;
use super::world::{Actor, Host};
use crate::sync::{Ordering, Tally, WorldLock};
use crate::tree::Cb;
use crate::tree::world::World;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

#[cfg(not(any(treercu_loom, treercu_shuttle)))]
thread_local! {
    /// This thread is invoking a callback of this engine (its number).
    static INVOKING: Cell<u64> = const { Cell::new(0) };
}
#[cfg(any(treercu_loom, treercu_shuttle))]
crate::sync::model::thread_local! {
    static INVOKING: Cell<u64> = Cell::new(0);
}

/// Messages of panics in callbacks that are kept.
const KEPT_PANICS: usize = 64;

/// Callback execution.
pub(super) struct Softirq {
    /// vCPUs with ready callbacks.
    raised: Bitmap,
    park: Park,
    /// With `rcuc`: a thread for each vCPU that ever had something to do.
    rcuc: Box<[OnceLock<Park>]>,
    pub invoked: Tally,
    panics: WorldLock<Panics>,
}

/// Callbacks that panicked.
#[derive(Debug, Default, Clone)]
pub struct Panics {
    /// How many.
    pub count: u64,
    /// The first few messages.
    pub messages: Vec<String>,
}

impl Softirq {
    pub fn new(nr_cpus: u32, rcuc: bool) -> Self {
        Softirq {
            raised: Bitmap::new(nr_cpus),
            park: Park::default(),
            rcuc: (0..if rcuc { nr_cpus } else { 0 })
                .map(|_| OnceLock::new())
                .collect(),
            invoked: Tally::new(0),
            panics: WorldLock::default(),
        }
    }

    /// Callbacks of that vCPU may be invoked.
    pub fn raise(&self, shared: &Shared, cpu: u32) {
        self.raised.set(cpu);
        match self.rcuc.get(cpu as usize) {
            None => self.park.wake(shared.parking),
            Some(thread) => thread
                .get_or_init(|| {
                    shared.spawn(&format!("rcuc/{cpu}"), move |shared| shared.rcuc_thread(cpu));
                    Park::default()
                })
                .wake(shared.parking),
        }
    }

    /// Has the threads look whether they are to stop.
    pub fn wake_all(&self, shared: &Shared) {
        self.park.wake(shared.parking);
        for thread in self.rcuc.iter().filter_map(OnceLock::get) {
            thread.wake(shared.parking);
        }
    }

    pub fn panics(&self) -> Panics {
        self.panics.lock().clone()
    }
}

/// The engine whose callback this thread is invoking; 0: none.
pub(super) fn invoking() -> u64 {
    INVOKING.with(Cell::get)
}

impl Shared {
    pub(super) fn softirq_thread(&self) {
        while !self.stopping() {
            let mut did = false;
            for cpu in self.soft.raised.iter() {
                if self.soft.raised.take(cpu) {
                    did = true;
                    self.invoke_callbacks(cpu);
                }
            }
            if did {
                continue;
            }
            self.soft.park.announce();
            if self.soft.raised.is_empty() && !self.stopping() {
                self.soft.park.sleep(self.parking, None);
            }
            self.soft.park.withdraw();
        }
    }

    fn rcuc_thread(&self, cpu: u32) {
        let park = self.soft.rcuc[cpu as usize].wait();
        while !self.stopping() {
            if self.soft.raised.take(cpu) {
                let mut host = Host::new(self, Actor::Softirq, cpu);
                self.counters.cores.fetch_add(1, Ordering::Relaxed);
                self.rcu.core_check(host.ctx(), None, &mut host);
                host.deliver();
                self.invoke_callbacks(cpu);
                continue;
            }
            park.announce();
            if !self.soft.raised.contains(cpu) && !self.stopping() {
                park.sleep(self.parking, None);
            }
            park.withdraw();
        }
    }

    /// One batch of one vCPU.
    fn invoke_callbacks(&self, cpu: u32) {
        let mut host = Host::new(self, Actor::Softirq, cpu);
        let ctx = host.ctx();
        let Some(mut batch) = self.rcu.core_batch(ctx, &mut host) else {
            return;
        };
        INVOKING.with(|invoking| invoking.set(self.id));
        while let Some(callback) = batch.next(ctx, false, &mut host) {
            match callback {
                Cb::User(callback) => {
                    // Nobody waits for a callback that happens to lie behind the own one.
                    host.wake_crowd();
                    if self.discarding() {
                        self.guarded(|| callback.discard());
                    } else {
                        self.guarded(|| callback.run());
                    }
                }
                Cb::Wake(waiter) => host.complete(waiter, self.rcu.last_gp_of(cpu)),
                Cb::Barrier => {
                    self.rcu.barrier_callback(&mut host);
                    host.deliver();
                }
            }
        }
        INVOKING.with(|invoking| invoking.set(0));
        if !self.rcu.is_preemptible() {
            // A callback that used the engine attached this thread, which passes no quiescent state while it
            // waits for more work.
            super::handle::detach_thread(self.id);
        }
        self.soft.invoked.fetch_add(batch.invoked(), Ordering::Relaxed);
        batch.finish(ctx, false, &mut host);
        host.deliver();
    }

    /// A panic in a callback concerns that callback only.
    fn guarded(&self, f: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else {
            return;
        };
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panic without a text".to_owned());
        let mut panics = self.soft.panics.lock();
        panics.count += 1;
        if panics.messages.len() < KEPT_PANICS {
            panics.messages.push(text);
        }
    }
}

impl Shared {
    /// Starts a thread of this engine; it is joined when the engine closes.
    pub(super) fn spawn(&self, name: &str, main: impl FnOnce(&Shared) + Send + 'static) {
        let Some(shared) = self.me.upgrade() else { return };
        let started = std::thread::Builder::new()
            .name(format!("treercu-{name}"))
            .spawn(move || main(&shared));
        match started {
            Ok(handle) => self.threads.lock().push(handle),
            Err(err) => self
                .failed
                .lock()
                .push(format!("cannot start thread {name}: {err}")),
        }
    }
}

/// For those who must not keep the engine alive.
pub(super) type WeakShared = Weak<Shared>;
/// The engine's shared part.
pub(super) type SharedRef = Arc<Shared>;
