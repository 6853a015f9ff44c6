//! The engine alone, step by step under a world that only records: rules that a whole machine's
//! figures hardly show. Each expectation is derived from the published rule in its comment.

#[path = "engine/batches.rs"]
mod batches;
#[path = "engine/expedited.rs"]
mod expedited;
#[path = "engine/funnel.rs"]
mod funnel;
#[path = "engine/grace_periods.rs"]
mod grace_periods;
#[path = "engine/readers.rs"]
mod readers;
#[path = "engine/rig.rs"]
mod rig;
#[path = "engine/scans.rs"]
mod scans;
#[path = "engine/stalls.rs"]
mod stalls;
#[path = "engine/waiters.rs"]
mod waiters;
