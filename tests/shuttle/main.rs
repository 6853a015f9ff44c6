//! The engine under real locks and random schedules: its own threads, readers, every kind of waiter, hotplug.
//! `tests/README.md` says how a failing schedule is replayed.
#![cfg(treercu_shuttle)]

mod machine;
mod mutants;
mod oracle;
mod run;
mod schedules;
