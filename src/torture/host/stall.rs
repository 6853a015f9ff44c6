//! Stall injection: a section that lasts longer than the stall timeout has to be reported.

use super::rig::Rig;
use super::subject::{Session, Subject};
use crate::error::Result;
use crate::sync::Ordering::Relaxed;
use crate::torture::random::Random;
use std::sync::Arc;

pub(super) fn stall<S: Subject>(rig: &Arc<Rig<S>>, random: &mut Random) -> Result<()> {
    if !rig.nap(rig.plan.stall_holdoff_ns) {
        return Ok(());
    }
    let session = rig.register(random.bits())?;
    let before = rig.subject.stalls();
    rig.stalling.store(true, Relaxed);
    let section = session.read_lock();
    let whole = rig.nap(rig.plan.stall_ns);
    drop(section);
    if whole && before.is_some() && rig.subject.stalls() == before {
        rig.ledger.warn(|| {
            format!(
                "a section of {} s was not reported as a stall",
                rig.plan.stall_ns / 1_000_000_000
            )
        });
    }
    // Reports that are on their way belong to this stall.
    rig.nap(500_000_000);
    rig.stalling.store(false, Relaxed);
    Ok(())
}
