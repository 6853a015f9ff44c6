//! liburcu, the userspace RCU library, loaded at run time: flavours memb (`membarrier`, the default one)
//! and qsbr (quiescent states reported by hand, readers free).
//!
//! The functions are called through the library, so a read lock pays an indirect call that C code with the
//! inlined forms does not: figures of readers here are an upper bound. Waits are not affected.

use super::{Abilities, Callback, Describe, Remains, Subject, SubjectThread};
use crate::error::{Error, Result};
use crate::measure::published::Element;
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use libloading::Library;
use std::mem::ManuallyDrop;
use std::time::Instant;

/// Names tried, in this order, after `liburcu-memb` or `liburcu-qsbr`.
const SUFFIXES: [&str; 3] = [".so.8", ".so.6", ".so"];

/// Which of the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    Memb,
    Qsbr,
}

impl Flavour {
    fn stem(self) -> &'static str {
        match self {
            Flavour::Memb => "memb",
            Flavour::Qsbr => "qsbr",
        }
    }
}

type Plain = unsafe extern "C" fn();
type CallRcu = unsafe extern "C" fn(*mut Head, unsafe extern "C" fn(*mut Head));

/// `struct rcu_head`: a link and a function, two words. Two more as a margin.
#[repr(C)]
struct Head([usize; 4]);

/// The library's functions; it stays loaded, because its callback thread runs on after a run.
#[derive(Debug, Clone, Copy)]
struct Functions {
    register_thread: Plain,
    unregister_thread: Plain,
    read_lock: Plain,
    read_unlock: Plain,
    synchronize_rcu: Plain,
    barrier: Plain,
    call_rcu: CallRcu,
    quiescent_state: Option<Plain>,
    thread_offline: Option<Plain>,
    thread_online: Option<Plain>,
}

/// One of the two libraries.
pub struct Liburcu {
    functions: Functions,
    flavour: Flavour,
    file: String,
}

impl Liburcu {
    /// Loads the library.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] of `engine` where no file of the names tried can be loaded, or where one has not the
    /// functions; it names the package to install.
    pub fn load(flavour: Flavour) -> Result<Self> {
        let stem = flavour.stem();
        let missing = |reason: String| {
            Error::config(
                "engine",
                format!("liburcu-{stem}"),
                reason,
                "another engine, or the library installed (Debian and Ubuntu: package liburcu8 or liburcu8t64)",
            )
        };
        let names: Vec<String> = SUFFIXES.map(|suffix| format!("liburcu-{stem}{suffix}")).into();
        for file in &names {
            // SAFETY: liburcu's initialisers register the process for membarrier and set up locks; they have
            // no other preconditions.
            let Ok(library) = (unsafe { Library::new(file) }) else {
                continue;
            };
            let library = ManuallyDrop::new(library);
            // SAFETY: the types are those of the C declarations in urcu/map/*.h and urcu/call-rcu.h.
            let functions = unsafe { Functions::of(&library, flavour) }
                .map_err(|name| missing(format!("{file} has no function {name}")))?;
            return Ok(Liburcu {
                functions,
                flavour,
                file: file.clone(),
            });
        }
        Err(missing(format!("not found; tried {}", names.join(", "))))
    }
}

impl Functions {
    /// The functions of one flavour; the name of the first that is missing.
    ///
    /// # Safety
    ///
    /// `library` must be liburcu of that flavour, and must never be unloaded.
    unsafe fn of(library: &Library, flavour: Flavour) -> std::result::Result<Self, String> {
        let stem = flavour.stem();
        macro_rules! find {
            ($name:literal) => {{
                let name = format!("urcu_{stem}_{}", $name);
                // SAFETY: passed on to the caller.
                match unsafe { library.get(name.as_bytes()) } {
                    Ok(symbol) => *symbol,
                    Err(_) => return Err(name),
                }
            }};
        }
        let qsbr = flavour == Flavour::Qsbr;
        Ok(Functions {
            register_thread: find!("register_thread"),
            unregister_thread: find!("unregister_thread"),
            read_lock: find!("read_lock"),
            read_unlock: find!("read_unlock"),
            synchronize_rcu: find!("synchronize_rcu"),
            barrier: find!("barrier"),
            call_rcu: find!("call_rcu"),
            quiescent_state: if qsbr {
                Some(find!("quiescent_state"))
            } else {
                None
            },
            thread_offline: if qsbr { Some(find!("thread_offline")) } else { None },
            thread_online: if qsbr { Some(find!("thread_online")) } else { None },
        })
    }
}

impl Describe for Liburcu {
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "{} reads no tunable and knows no CPUs: the configuration does not act, the column cpu is -1, \
                 and gp_seq is 0",
                self.file
            ),
            "its functions are called through the library, not inlined: figures of readers are upper bounds"
                .to_owned(),
        ];
        if self.flavour == Flavour::Qsbr {
            notes.push(
                "threads are offline (rcu_thread_offline) while they sleep and in user mode, as qsbr asks of its users"
                    .to_owned(),
            );
        }
        notes
    }
}

impl Subject for Liburcu {
    type Thread<'s> = Thread;

    fn abilities(&self) -> Abilities {
        Abilities {
            barrier: true,
            ..Abilities::default()
        }
    }

    fn register(&self, _cpu: u32) -> Result<Thread> {
        // SAFETY: `Thread` is not `Send` and unregisters this very thread when it is dropped; a run's threads
        // are its own, so nobody registered this one before.
        unsafe { (self.functions.register_thread)() };
        Ok(Thread {
            functions: self.functions,
            _here: std::marker::PhantomData,
        })
    }

    fn close(self, _start: Option<Instant>) -> Result<Remains> {
        // What is still queued runs on in the library's own thread, and touches only memory of its own.
        Ok(Remains::default())
    }
}

/// A registered thread.
pub struct Thread {
    functions: Functions,
    /// Registration is the thread's: not `Send`.
    _here: std::marker::PhantomData<*mut ()>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: registered by this thread in `register`, outside any section now.
        unsafe { (self.functions.unregister_thread)() };
    }
}

impl SubjectThread for Thread {
    fn section(
        &mut self,
        nested: u32,
        pointer: &AtomicPtr<Element>,
        first: impl FnOnce(&Element),
        second: impl FnOnce(&Element),
    ) {
        let f = &self.functions;
        // SAFETY: the thread is registered; locks and unlocks are paired; elements stay until the run is over.
        unsafe {
            (f.read_lock)();
            let element = &*pointer.load(Ordering::Acquire);
            for _ in 0..nested {
                (f.read_lock)();
            }
            first(element);
            for _ in 0..nested {
                (f.read_unlock)();
            }
            second(element);
            (f.read_unlock)();
        }
        // qsbr's users report quiescent states between sections.
        self.quiescent();
    }

    fn quiescent(&mut self) {
        if let Some(quiescent_state) = self.functions.quiescent_state {
            // SAFETY: the thread is registered, online, and in no section.
            unsafe { quiescent_state() };
        }
    }

    fn away<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let (Some(offline), Some(online)) = (self.functions.thread_offline, self.functions.thread_online)
        else {
            return f();
        };
        // SAFETY: the thread is registered, online, and in no section; it comes back below.
        unsafe { offline() };
        let result = f();
        // SAFETY: it went offline above.
        unsafe { online() };
        result
    }

    fn synchronize(&mut self, stop: &AtomicBool) -> Result<Option<u64>> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Cannot be cancelled; the readers of a run leave their sections when it is.
        // SAFETY: the thread is registered and in no section.
        unsafe { (self.functions.synchronize_rcu)() };
        Ok(Some(0))
    }

    fn barrier(&mut self, stop: &AtomicBool) -> Result<bool> {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // SAFETY: the thread is registered, in no section, and not the library's callback thread.
        unsafe { (self.functions.barrier)() };
        Ok(true)
    }

    fn call(&mut self, callback: Callback, _hurry: bool) -> Result<()> {
        post(self.functions, callback);
        Ok(())
    }
}

/// A callback of a workload as the library queues it.
#[repr(C)]
struct Posted {
    head: Head,
    functions: Functions,
    callback: Callback,
}

fn post(functions: Functions, callback: Callback) {
    let posted = Box::into_raw(Box::new(Posted {
        head: Head([0; 4]),
        functions,
        callback,
    }));
    // SAFETY: the thread is registered; the head lives until `invoke` frees it, and is first in its box.
    unsafe { (functions.call_rcu)(posted.cast(), invoke) };
}

/// Runs on the library's callback thread, which is registered.
unsafe extern "C" fn invoke(head: *mut Head) {
    // SAFETY: `head` is the first field of a box made in `post`, and each is invoked once.
    let posted = *unsafe { Box::from_raw(head.cast::<Posted>()) };
    if let Some(again) = posted.callback.invoke() {
        post(posted.functions, again);
    }
}
