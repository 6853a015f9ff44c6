//! A small machine: the engine's own threads, and threads that use it.

use crate::oracle::Oracle;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use treercu::config::Config;
use treercu::host::Handle;
use treercu::host::model::Rig;

pub fn config(nr_cpus: u32, preempt: &str, direct: bool, early: bool) -> Config {
    Config::new()
        .with("nr_cpus", nr_cpus)
        .and_then(|c| c.with("hz", 1000))
        .and_then(|c| c.with("preempt", preempt))
        .and_then(|c| c.with("early_qs", early))
        .and_then(|c| c.with("rcu_normal_wake_from_gp", u32::from(direct)))
        .and_then(|c| c.with("jiffies_till_first_fqs", 1))
        .and_then(|c| c.with("jiffies_till_next_fqs", 1))
        .expect("a good configuration")
}

/// Jiffies in which every machine here is done long since.
const ENOUGH: u32 = 3000;

/// An open engine whose threads are the checker's.
pub struct Machine {
    pub rig: Rig,
    pub oracle: Oracle,
    threads: Vec<thread::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Machine {
    pub fn open(config: &Config) -> Machine {
        Machine::with(Rig::new(config))
    }

    /// The same, and callers carry out the grace-period kthread's steps.
    pub fn driven(config: &Config) -> Machine {
        Machine::with(Rig::driven(config, 2))
    }

    fn with(rig: Rig) -> Machine {
        let stop = Arc::new(AtomicBool::new(false));
        let ticker = {
            let (rig, stop) = (rig.clone(), stop.clone());
            move || {
                let mut jiffies = 0;
                while !stop.load(Ordering::Relaxed) {
                    rig.jiffy();
                    jiffies += 1;
                    assert!(jiffies < ENOUGH, "somebody waits for ever: {}", rig.describe());
                    rig.tick_all();
                    thread::yield_now();
                }
            }
        };
        let (gp, softirq) = (rig.clone(), rig.clone());
        let threads = vec![
            thread::spawn(ticker),
            thread::spawn(move || gp.gp_thread()),
            thread::spawn(move || softirq.softirq_thread()),
        ];
        Machine {
            rig,
            oracle: Oracle::default(),
            threads,
            stop,
        }
    }

    /// Starts a thread that uses the engine through a handle on `cpu`.
    pub fn user(
        &self,
        cpu: u32,
        body: impl FnOnce(Handle, Oracle) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let (handle, oracle) = (self.rig.register_on(cpu), self.oracle.clone());
        thread::spawn(move || body(handle, oracle))
    }

    /// Everybody has gone: the engine's threads end, and the books are closed.
    pub fn close(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.rig.stop();
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.oracle.finish();
    }
}

/// One section with a pause in it; `nested` opens another one inside.
pub fn section(handle: &Handle, oracle: &Oracle, nested: bool) {
    let outer = handle.read_lock();
    let number = oracle.entered();
    thread::yield_now();
    if nested {
        let inner = handle.read_lock();
        thread::yield_now();
        drop(inner);
    }
    oracle.leaving(number);
    drop(outer);
}

/// Sections with quiescent states between them.
pub fn read(sections: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        for round in 0..sections {
            section(&handle, &oracle, round % 2 == 1);
            handle.quiescent();
        }
    }
}

/// Sections that may outlast a grace period which began before them.
pub fn read_long(sections: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        for _ in 0..sections {
            let guard = handle.read_lock();
            let number = oracle.entered();
            for _ in 0..30 {
                thread::yield_now();
            }
            oracle.leaving(number);
            drop(guard);
            handle.quiescent();
        }
    }
}

/// Sections with long rests between them.
pub fn rest_and_read(sections: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |handle, oracle| {
        for _ in 0..sections {
            for _ in 0..20 {
                thread::yield_now();
            }
            section(&handle, &oracle, false);
        }
    }
}

pub fn synchronize(calls: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        for _ in 0..calls {
            let before = oracle.before();
            handle.synchronize().expect("an open engine");
            oracle.waited(&before, "synchronize()");
        }
    }
}

pub fn expedited(calls: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        for _ in 0..calls {
            let before = oracle.before();
            handle.synchronize_expedited().expect("an open engine");
            oracle.waited(&before, "synchronize_expedited()");
        }
    }
}

/// Queues callbacks, then waits for all of them.
pub fn callbacks(count: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        let mut mine = Vec::new();
        for _ in 0..count {
            let (number, before, books) = (oracle.queueing(), oracle.before(), oracle.clone());
            mine.push(number);
            handle
                .call(move || books.invoked(number, &before))
                .expect("an open engine");
            thread::yield_now();
        }
        handle.barrier().expect("an open engine");
        oracle.barrier_over(&mine);
    }
}

/// Full cookies: the compressed ones can miss a normal grace period that overlaps an expedited one, as the kernel's do,
/// so that a poller may need a later one, which nobody has asked for.
pub fn polls(count: u32) -> impl FnOnce(Handle, Oracle) + Send + 'static {
    move |mut handle, oracle| {
        for _ in 0..count {
            let before = oracle.before();
            let cookie = handle.start_poll_full().expect("an open engine");
            while !handle.poll_state_full(cookie) {
                handle.quiescent();
                thread::yield_now();
            }
            oracle.waited(&before, "a polled grace period");
        }
    }
}
