//! The world of real threads: the same Tree RCU protects real readers.
//!
//! An [`Engine`] is a tree whose CPUs are *virtual*: each is a run queue of OS threads. Threads read through a
//! [`Handle`] or simply through the engine, which attaches them by itself; updaters wait, poll or queue callbacks.
//!
//! ```
//! use treercu::config::Config;
//! use treercu::host::{Engine, Options, RcuPtr};
//!
//! let engine = Engine::new(&Config::new().with("nr_cpus", 2)?.with("hz", 1000)?, &Options::default())?;
//! let shared = RcuPtr::new(&engine, String::from("old"));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let section = engine.read_lock().unwrap();
//!         assert!(["old", "new"].contains(&shared.load(&section).as_str()));
//!     });
//!     // The old string is freed after a grace period, when no reader can hold it any more.
//!     shared.replace(String::from("new")).unwrap();
//!     engine.synchronize().unwrap();
//! });
//! # Ok::<(), treercu::error::Error>(())
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `engine` | the engine's parts, its threads, opening and closing |
//! | `handle` | registered threads and their guards; the attachment that a thread keeps for itself |
//! | `attachment` | sections that are opened and closed by calls, for callers whose blocks are not Rust's |
//! | `pointer` | RCU-protected pointers |
//! | `calls` | waiting, callbacks, cookies, slow paths of readers |
//! | `expedited` | expedited grace periods, driven by their caller |
//! | `reader` | the three words of a reader |
//! | [`order`] | why that is enough: the memory-ordering argument; heavy fences |
//! | `pass` | making sure of readers before a quiescent state is reported |
//! | `vcpu` | virtual CPUs and their scan sets |
//! | `slot` | records of attached threads, and what they block on |
//! | `gp_thread`, `tick`, `softirq` | the engine's threads |
//! | `drive` | callers that carry out the grace-period thread's steps themselves |
//! | `hotplug` | virtual CPUs coming and going |
//! | `inspect` | what an engine is doing |
//! | `world` | the engine's requests, answered |
//! | `stalls` | stall reports with the threads' names |
//! | `facts` | what machine this is |
//! | `callback` | what `call_rcu()` queues |
//! | `park`, `crowd` | blocking: alone, and together with others whom one grace period releases |
//! | `srcu`, `srcu_pointer` | domains of sleepable RCU, and pointers that they protect |
//! | `clock`, `os` | time, the rest of the operating system |

mod attachment;
mod callback;
mod calls;
mod clock;
mod crowd;
mod drive;
mod engine;
mod expedited;
mod facts;
#[cfg(all(test, target_os = "linux"))]
mod forked;
mod gp_thread;
mod handle;
mod hotplug;
mod inspect;
#[cfg(any(treercu_loom, treercu_shuttle))]
#[doc(hidden)]
pub mod model;
pub mod order;
mod os;
mod park;
mod pass;
mod pointer;
mod reader;
mod records;
mod slot;
mod softirq;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
mod srcu;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
mod srcu_pointer;
mod stalls;
mod tick;
mod vcpu;
mod world;

pub use attachment::Attachment;
pub use calls::{GiveUp, Kicker, Served};
pub use engine::{Engine, GpDriver, Lateness, Options, Remaining, State, ThreadCpu, TimerMode};
pub use facts::HostFacts;
pub use handle::{Handle, ReadGuard, Section, ThreadGuard};
pub use order::FenceMode;
pub use os::ParkMode;
pub use pointer::{PtrReader, RcuPtr, ReadRef};
pub use slot::MAX_THREADS;
pub use softirq::Panics;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub use srcu::{Srcu, SrcuCounters, SrcuDownGuard, SrcuGuard, SrcuSection};
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub use srcu_pointer::SrcuPtr;
pub use stalls::HostStall;
