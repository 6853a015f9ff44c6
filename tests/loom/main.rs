//! Model checks of the host world's protocols, made of the same files that run. `tests/README.md` says what is
//! modelled and how a failure is replayed.
#![cfg(treercu_loom)]

mod attach;
mod calls;
mod expedited;
mod mutants;
mod quiescent;
mod readers;
mod rig;
mod run;
mod waiters;
mod waits;
