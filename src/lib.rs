//! The Linux kernel's Tree RCU as an engine, in two worlds: virtual time and real threads.
//!
//! RCU (read-copy update) lets readers run without locks: whoever wants to free what readers may
//! still see waits for a *grace period*, in which every CPU passes a *quiescent state*. Tree RCU is
//! the Linux kernel's implementation for many CPUs. This crate holds that algorithm as plain state
//! machines ([`tree`]) that never block, read no clock and start no thread, and two worlds that drive
//! them. [`sim`] is a deterministic discrete-event machine: CPUs with run queues, ticks, softirqs, timers,
//! interrupts and idle states. [`host`] is a real RCU: OS threads on virtual CPUs, readers without fences,
//! callbacks that free memory. Latencies come out of the mechanism; nothing is fitted.
//!
//! # Example
//!
//! One task calls `synchronize_rcu()` on an idle machine of 32 CPUs, HZ=1000, on a kernel whose
//! callers wait by callback. Without the early report the kthread's own CPU holds each grace period
//! up for a second wait: 1 tick to the request, twice 3 + 1 ticks, 1 tick to notice the end.
//!
//! ```
//! use treercu::config::Config;
//! use treercu::sim::{Control, Machine, RunOptions, simulate};
//! use treercu::workload::SyncFlood;
//!
//! let config = Config::new()
//!     .with("kernel", "6.18")?
//!     .with("nr_cpus", 32)?
//!     .with("hz", 1000)?;
//! let machine = Machine { noise: 0.0, gp_kthread_cpu: 0, ..Machine::default() };
//! let flood = SyncFlood { calls: 100, placement: treercu::workload::Placement::Cpu(1), ..Default::default() };
//! let median_ms = |early: bool| -> treercu::error::Result<f64> {
//!     let config = config.with("early_qs", early)?;
//!     let run = simulate(&config, &machine, &flood.clone().into(), 1, &RunOptions::default(), &Control::default())?;
//!     Ok(run.quantile(0.5)? as f64 / 1e6)
//! };
//! assert_eq!(median_ms(false)?.round(), 10.0);
//! assert_eq!(median_ms(true)?.round(), 6.0);
//! # Ok::<(), treercu::error::Error>(())
//! ```
//!
//! # The house
//!
//! Arrows of use point one way: `sync`, [`config`], [`workload`], [`stats`] ← [`tree`] ← [`srcu`] ← [`sim`], [`host`] ←
//! [`measure`] ← `python`.
//!
//! | module | what lives there |
//! |---|---|
//! | [`config`] | every tunable under its kernel name: defaults by formula and by era, limits, errors |
//! | [`workload`] | what to run, as plain data |
//! | [`stats`] | what a run leaves: columns of samples, a record per grace period, counters |
//! | [`trace`] | events under the kernel's tracepoint names, and their text form |
//! | `sync` | the one place that names atomics, fences and locks |
//! | [`tree`] | the Tree RCU algorithm, one mechanism a file, and the seam to its surroundings |
//! | [`srcu`] | Tree SRCU: sleepable RCU, one domain a value, on a seam of its own |
//! | [`sim`] | the world of virtual time: machine, CPUs, scheduler, ticks, timers, workload programs |
//! | [`host`] | the world of real threads: virtual CPUs, readers, ticks and the grace-period thread for real |
//! | `wheel` | how the kernel's timer wheel rounds timeouts |
//! | [`measure`] | workloads on real threads, over this engine and over other libraries |
//! | `control`, `random` | how a run is carried out; its streams of random numbers |
//! | [`torture`] | rcutorture's model in both worlds |
//! | `python` | the extension module `treercu._core` (feature `python`) |
//! | `zoo` | switches of the bug zoo's mutants (feature `bug-zoo`) |
//! | [`error`] | the one error type |
#![warn(missing_docs)]
// What only the modules left out below use.
#![cfg_attr(any(treercu_loom, treercu_shuttle), allow(dead_code))]

pub mod config;
mod control;
pub mod error;
pub mod host;
// These need real threads.
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub mod measure;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub mod probe;
#[cfg(feature = "python")]
mod python;
mod random;
pub mod sim;
pub mod srcu;
pub mod stats;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
mod sync;
#[cfg(any(treercu_loom, treercu_shuttle))]
#[doc(hidden)]
pub mod sync;
#[cfg(not(any(treercu_loom, treercu_shuttle)))]
pub mod torture;
pub mod trace;
pub mod tree;
mod wheel;
pub mod workload;
#[cfg(feature = "bug-zoo")]
#[doc(hidden)]
pub mod zoo;
