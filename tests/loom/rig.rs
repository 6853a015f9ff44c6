//! What the models share: protected memory, and an updater that frees it after a grace period.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use treercu::config::Config;
use treercu::host::Handle;
use treercu::host::model::{Kthread, Rig};

/// What readers reach through one pointer: two objects, of which the updater unpublishes and frees the first.
pub struct Protected {
    which: AtomicUsize,
    objects: [UnsafeCell<u32>; 2],
}

impl Protected {
    pub fn new() -> Arc<Protected> {
        Arc::new(Protected {
            which: AtomicUsize::new(0),
            objects: [UnsafeCell::new(1), UnsafeCell::new(1)],
        })
    }

    /// Inside a section. It is the *access* that counts: the model fails as soon as the memory could be freed at the
    /// same time, whatever would be read.
    pub fn read(&self) {
        let which = self.which.load(Relaxed);
        // SAFETY: the model checker proves that nobody writes at the same time, or fails.
        self.objects[which].with(|object| unsafe { assert_eq!(*object, 1, "freed memory was read") });
    }

    pub fn unpublish(&self) {
        self.which.store(1, Relaxed);
    }

    /// After a grace period.
    pub fn free(&self) {
        // SAFETY: as in `read`.
        self.objects[0].with_mut(|object| unsafe { *object = 0 });
    }
}

/// Made once: a model opens an engine for each of its executions.
pub fn config(nr_cpus: u32, preempt: &'static str) -> Config {
    static MADE: Mutex<BTreeMap<(u32, &str), Config>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    made.entry((nr_cpus, preempt))
        .or_insert_with(|| make_config(nr_cpus, preempt))
        .clone()
}

fn make_config(nr_cpus: u32, preempt: &str) -> Config {
    Config::new()
        .with("nr_cpus", nr_cpus)
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.with("preempt", preempt))
        .and_then(|c| c.with("early_qs", true))
        .and_then(|c| c.with("rcu_normal_wake_from_gp", 1))
        .and_then(|c| c.with("jiffies_till_first_fqs", 0))
        .expect("a good configuration")
}

/// One section that reads.
pub fn section(handle: &Handle, shared: &Protected) {
    let section = handle.read_lock();
    shared.read();
    drop(section);
}

/// An updater that drives its grace period itself.
pub struct Updater {
    rig: Rig,
    kthread: Kthread,
    cookie: Option<u64>,
}

impl Updater {
    /// Its kthread runs on `cpu`.
    pub fn new(rig: &Rig, cpu: u32) -> Updater {
        Updater {
            rig: rig.clone(),
            kthread: Kthread::new(rig, cpu),
            cookie: None,
        }
    }

    /// Unpublishes, and runs a grace period as far as it goes with so many sleeps. True: it ended, and the memory was
    /// freed.
    pub fn update(&mut self, shared: &Protected, sleeps: u32) -> bool {
        shared.unpublish();
        self.cookie = Some(self.rig.start_poll(0));
        self.go_on(shared, sleeps)
    }

    /// Takes it further.
    pub fn go_on(&mut self, shared: &Protected, sleeps: u32) -> bool {
        self.kthread.run(sleeps);
        let over = self.rig.poll(self.cookie.expect("an update came before"));
        if over {
            shared.free();
        }
        over
    }

    /// All readers are gone: the grace period has to end.
    pub fn finish(&mut self) {
        self.kthread.run(3);
        let cookie = self.cookie.expect("an update came before");
        assert!(self.rig.poll(cookie), "the grace period never ends");
        assert_eq!(self.rig.blocking(), 0, "a reader that left is still queued");
    }
}
