//! The Tree RCU algorithm as state machines that never block, read no clock and start no thread.
//!
//! | file | mechanism |
//! |---|---|
//! | [`geometry`] | the shape of the combining tree |
//! | [`seq`] | grace-period numbers |
//! | [`cblist`] | segmented callback list |
//! | [`watching`] | context tracking: is RCU watching this CPU? |
//! | [`waiters`] | waiters and their lock-free stack |
//! | [`world`] | the seam: what the engine asks of its surroundings |
//! | `rcu` | the shared state |
//! | `request` | the request funnel, numbering of callbacks |
//! | `gp` | the grace-period kthread |
//! | `fqs` | force-quiescent-state scans |
//! | `qs` | recording and reporting quiescent states, the tick |
//! | `callback` | `call_rcu`, the RCU core, batches |
//! | `preempt`, `blocked` | read-side sections, readers that were preempted inside one |
//! | `poll` | polled grace periods |
//! | `barrier` | `rcu_barrier()` |
//! | `exp`, `exp_qs` | expedited grace periods: the callers; the quiescent states |
//! | `handoff` | `exp_mutex` |
//! | `stall` | grace periods that last too long |
//! | `hotplug` | CPUs coming and going |
//! | `nocb`, `nocb_bypass` | callback offloading: groups and wake-ups; queueing |
//! | `nocb_gp`, `nocb_cb` | its kthreads: `rcuog`, which waits; `rcuop`, which invokes |
//! | `sync` | `synchronize_rcu()` by callback and by direct wake |
//! | `snapshot` | the whole tree as data |

/// A `debug_assert!` of what the algorithm promises. The bug zoo breaks promises and leaves it to its oracle to notice.
macro_rules! promise {
    ($($what:tt)*) => { if cfg!(not(feature = "bug-zoo")) { debug_assert!($($what)*); } };
}
/// The same of `debug_assert_eq!`.
macro_rules! promise_eq {
    ($($what:tt)*) => { if cfg!(not(feature = "bug-zoo")) { debug_assert_eq!($($what)*); } };
}

mod barrier;
mod blocked;
mod callback;
pub mod cblist;
pub mod chunks;
mod exp;
mod exp_qs;
mod fqs;
pub mod geometry;
mod gp;
mod handoff;
mod hotplug;
mod nocb;
mod nocb_bypass;
mod nocb_cb;
mod nocb_gp;
mod poll;
mod preempt;
mod qs;
mod rcu;
mod request;
pub mod seq;
mod snapshot;
mod stall;
mod sync;
pub mod waiters;
pub mod watching;
pub mod world;

pub use blocked::ReaderId;
pub use callback::{Batch, Callback, DEFAULT_MAX_RCU_BLIMIT};
pub use exp::{ExpCall, ExpStep};
pub use gp::{GpKthread, GpResume, GpState, GpWait, Upcoming};
#[cfg(treercu_loom)]
pub use handoff::HandOff;
pub use nocb_gp::{NocbGpKthread, NocbGpWait};
pub use poll::{COMPLETED, FullCookie};
pub use preempt::Reader;
pub use rcu::{Cb, Rcu};
pub use snapshot::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
pub use stall::StallReport;
pub use sync::{MAX_DIRECT_WAKES, Route, SyncCall, WAIT_HEADS};
