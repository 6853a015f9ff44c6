//! What a run makes of subjects that do not do what they promise.

use super::published::Element;
use super::subject::{Abilities, Callback, Describe, Remains, Subject, SubjectThread};
use super::{EngineKind, Job, Options};
use crate::config::Config;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::stats::Run;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::workload::{Length, Readers, SyncFlood, Workload};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Waits for nobody.
    ReturnsAtOnce,
    /// Its third thread cannot register.
    RefusesThreads,
    /// Its second call fails.
    FailsACall,
    /// Its second call panics.
    Panics,
}

struct Faulty {
    fault: Fault,
    registered: AtomicU64,
    calls: AtomicU64,
}

impl Describe for Faulty {
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Subject for Faulty {
    type Thread<'s> = Thread<'s>;

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn register(&self, _cpu: u32) -> Result<Thread<'_>> {
        if self.registered.fetch_add(1, Ordering::Relaxed) == 2 && self.fault == Fault::RefusesThreads {
            return Err(Error::Host("no more".to_owned()));
        }
        Ok(Thread(self))
    }

    fn close(self, _start: Option<Instant>) -> Result<Remains> {
        Ok(Remains::default())
    }
}

struct Thread<'s>(&'s Faulty);

impl SubjectThread for Thread<'_> {
    fn section(
        &mut self,
        _nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    ) {
        // SAFETY: elements stay until the run is over, protected or not.
        let element = unsafe { &*pointer.load(Ordering::Acquire) };
        first(element);
        second(element);
    }

    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        let call = self.0.calls.fetch_add(1, Ordering::Relaxed);
        match self.0.fault {
            Fault::FailsACall if call == 1 => return Err(Error::Host("out of order".to_owned())),
            Fault::Panics if call == 1 => panic!("out of order"),
            Fault::FailsACall | Fault::Panics => {
                // Everybody else waits for ever, or for the end of the run.
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Ok(None);
            }
            Fault::ReturnsAtOnce | Fault::RefusesThreads => {}
        }
        Ok(Some(0))
    }

    fn call(&mut self, _callback: Callback, _hurry: bool) -> Result<()> {
        Ok(())
    }
}

fn run(fault: Fault) -> Result<Run> {
    let workload = Workload::from(SyncFlood {
        tasks: 4,
        calls: 0,
        duration_ns: 200_000_000,
        think_ns: 10_000,
        ..SyncFlood::default()
    })
    .and(Readers {
        tasks: 2,
        section: Length::Fixed(100_000),
        gap: Length::Fixed(0),
        ..Readers::default()
    });
    let subject = Faulty {
        fault,
        registered: AtomicU64::new(0),
        calls: AtomicU64::new(0),
    };
    Job {
        config: &Config::new(),
        workload: &workload,
        seed: 1,
        options: &Options {
            engine: EngineKind::Seize,
            ..Options::default()
        },
        control: &Control::default(),
    }
    .run(subject)
}

#[test]
fn a_wait_that_waits_for_nobody_is_caught_by_its_readers() {
    let ended = run(Fault::ReturnsAtOnce);
    assert!(
        matches!(&ended, Err(Error::Engine(text)) if text.contains("after their grace period")),
        "{ended:?}"
    );
}

#[test]
fn a_thread_that_cannot_register_ends_the_run() {
    assert_eq!(
        run(Fault::RefusesThreads).err(),
        Some(Error::Host("no more".to_owned()))
    );
}

#[test]
fn a_call_that_fails_ends_the_run_and_frees_everybody() {
    let begun = Instant::now();
    assert_eq!(
        run(Fault::FailsACall).err(),
        Some(Error::Host("out of order".to_owned()))
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_panic_ends_the_run_and_comes_through() {
    let caught = std::panic::catch_unwind(|| run(Fault::Panics));
    let payload = caught.expect_err("the panic comes through");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"out of order"));
}
