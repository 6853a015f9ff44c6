//! Textbook RCU from plain locks: a reader holds its own lock, a grace period takes each of them once.
//!
//! Slow, and plainly right. It shows that the driver fails nobody who does not deserve it, and wrapped
//! in a fault it shows that each error counter moves.

use super::subject::{Callback, Session, Subject};
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering::*, RwLock, RwLockReadGuard};
use crate::tree::seq;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a grace period waits for one reader before it looks whether it was cancelled.
const PATIENCE: Duration = Duration::from_millis(5);

/// Callbacks and who invokes them.
#[derive(Default)]
struct Queue {
    waiting: Vec<Callback>,
    /// Callbacks queued, and invoked, since the start.
    queued: u64,
    invoked: u64,
    closing: bool,
}

struct Shared {
    /// One lock per registered thread.
    readers: Mutex<Vec<Arc<RwLock<()>>>>,
    /// One grace period at a time.
    gp: Mutex<()>,
    gp_seq: AtomicU64,
    /// Polling asked for a grace period.
    asked: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
    closed: AtomicBool,
}

/// See the module page.
#[derive(Clone)]
pub struct Trivial {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// A registered thread.
pub struct TrivialSession {
    subject: Trivial,
    lock: Arc<RwLock<()>>,
}

impl Trivial {
    /// With a thread that invokes callbacks.
    pub fn new() -> Result<Self> {
        let shared = Arc::new(Shared {
            readers: Mutex::default(),
            gp: Mutex::default(),
            gp_seq: AtomicU64::new(seq::SEQ_BOOT),
            asked: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        let of_worker = shared.clone();
        let worker = std::thread::Builder::new()
            .name("treercu-trivial".to_owned())
            .spawn(move || of_worker.invoke_callbacks())
            .map_err(|err| Error::Engine(format!("cannot start a thread: {err}")))?;
        Ok(Trivial {
            shared,
            worker: Arc::new(Mutex::new(Some(worker))),
        })
    }
}

impl Shared {
    /// A grace period: every lock is free once. False: cancelled.
    fn grace_period(&self, cancel: &AtomicBool) -> bool {
        let Some(_one) = std::iter::from_fn(|| Some(self.gp.try_lock_for(PATIENCE)))
            .take_while(|_| !cancel.load(Relaxed))
            .find_map(|guard| guard)
        else {
            return false;
        };
        self.gp_seq.store(seq::start(self.gp_seq.load(Relaxed)), SeqCst);
        let readers = self.readers.lock().clone();
        for reader in readers {
            while reader.try_write_for(PATIENCE).is_none() {
                if cancel.load(Relaxed) {
                    // The number goes on as if nothing had been started: nobody has seen this one end.
                    self.gp_seq.store(self.gp_seq.load(Relaxed) - 1, SeqCst);
                    return false;
                }
            }
        }
        self.gp_seq.store(seq::end(self.gp_seq.load(Relaxed)), SeqCst);
        true
    }

    fn invoke_callbacks(&self) {
        loop {
            let batch = {
                let mut queue = self.queue.lock();
                while queue.waiting.is_empty() && !self.asked.load(SeqCst) && !queue.closing {
                    self.changed.wait(&mut queue);
                }
                if queue.closing && queue.waiting.is_empty() {
                    return;
                }
                self.asked.store(false, SeqCst);
                std::mem::take(&mut queue.waiting)
            };
            if !self.grace_period(&self.closed) {
                return;
            }
            for callback in batch {
                callback();
                self.queue.lock().invoked += 1;
            }
            self.changed.notify_all();
        }
    }

    fn call(&self, callback: Callback) -> Result<()> {
        let mut queue = self.queue.lock();
        queue.waiting.push(callback);
        queue.queued += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn start_poll(&self) -> u64 {
        let cookie = seq::snap(self.gp_seq.load(SeqCst));
        let _queue = self.queue.lock();
        self.asked.store(true, SeqCst);
        self.changed.notify_all();
        cookie
    }
}

impl Subject for Trivial {
    type Session = TrivialSession;

    fn register(&self, _cpu: u32) -> Result<TrivialSession> {
        let lock = Arc::new(RwLock::new(()));
        self.shared.readers.lock().push(lock.clone());
        Ok(TrivialSession {
            subject: self.clone(),
            lock,
        })
    }

    fn call_again(&self, callback: Callback) -> Result<()> {
        self.shared.call(callback)
    }

    fn gp_seq(&self) -> u64 {
        self.shared.gp_seq.load(SeqCst)
    }

    fn get_state(&self) -> u64 {
        seq::snap(self.gp_seq())
    }

    fn poll_state(&self, cookie: u64) -> bool {
        seq::done(self.gp_seq(), cookie)
    }

    fn get_state_full(&self) -> u64 {
        self.get_state()
    }

    fn poll_state_full(&self, cookie: u64) -> bool {
        self.poll_state(cookie)
    }

    fn cpu_offline(&self, _cpu: u32) -> Result<()> {
        Ok(())
    }

    fn cpu_online(&self, _cpu: u32) -> Result<()> {
        Ok(())
    }

    fn close(&self, run: bool, _deadline: Duration) -> Result<()> {
        {
            let mut queue = self.shared.queue.lock();
            queue.closing = true;
            if !run {
                self.shared.closed.store(true, SeqCst);
                queue.waiting.clear();
            }
            self.shared.changed.notify_all();
        }
        if let Some(worker) = self.worker.lock().take() {
            worker
                .join()
                .map_err(|_| Error::Engine("a callback panicked".to_owned()))?;
        }
        Ok(())
    }
}

impl Session for TrivialSession {
    type Guard<'a> = RwLockReadGuard<'a, ()>;
    type Full = u64;

    fn read_lock(&self) -> RwLockReadGuard<'_, ()> {
        // Recursive: a waiting grace period must not stop a nested section.
        self.lock.read_recursive()
    }

    fn synchronize(&mut self, cancel: &AtomicBool) -> Result<bool> {
        Ok(self.subject.shared.grace_period(cancel))
    }

    fn synchronize_expedited(&mut self, cancel: &AtomicBool) -> Result<bool> {
        self.synchronize(cancel)
    }

    fn barrier(&mut self, cancel: &AtomicBool) -> Result<bool> {
        let shared = &self.subject.shared;
        let mut queue = shared.queue.lock();
        let target = queue.queued;
        while queue.invoked < target {
            if cancel.load(Relaxed) {
                return Ok(false);
            }
            shared.changed.wait_until(&mut queue, Instant::now() + PATIENCE);
        }
        Ok(true)
    }

    fn call(&self, callback: Callback) -> Result<()> {
        self.subject.shared.call(callback)
    }

    fn start_poll(&self) -> Result<u64> {
        Ok(self.subject.shared.start_poll())
    }

    fn start_poll_full(&self) -> Result<u64> {
        self.start_poll()
    }
}

impl Drop for TrivialSession {
    fn drop(&mut self) {
        let mut readers = self.subject.shared.readers.lock();
        readers.retain(|lock| !Arc::ptr_eq(lock, &self.lock));
    }
}
