//! What has to be true before a domain goes. Where it is not, the kernel warns and leaks it.

use super::domain::Srcu;
use super::gp::IDLE;
use crate::tree::seq;

/// Why a domain cannot be cleaned up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// Somebody waits for an expedited grace period.
    Expedited,
    /// Readers are inside.
    Readers,
    /// Callbacks of this CPU wait or run: a barrier was left out.
    Callbacks(u32),
    /// A grace period is under way.
    GracePeriod,
    /// One is wanted.
    Wanted,
}

impl<C> Srcu<C> {
    /// Looks whether everything is over (`cleanup_srcu_struct()`). The caller has stopped readers and requests, has run a
    /// barrier, and has flushed whatever the world queued. A domain that was never used is clean.
    pub fn check_cleanup(&self, jiffies: u64) -> Result<(), Unclean> {
        let needed = self.gp_seq_needed();
        if self.evaluate_delay(&mut self.sup.lock(), jiffies) == 0 {
            return Err(Unclean::Expedited);
        }
        // Twice, as the sums are of counters that move.
        for _ in 0..2 {
            if self.readers().iter().sum::<i64>() != 0 {
                return Err(Unclean::Readers);
            }
        }
        for cpu in 0..self.tun.nr_cpus {
            if self.callbacks(cpu) != 0 {
                return Err(Unclean::Callbacks(cpu));
            }
        }
        if seq::state(self.gp_seq()) != IDLE {
            return Err(Unclean::GracePeriod);
        }
        // State bits: never initialised.
        if seq::state(needed) == 0 && self.gp_seq() != needed {
            return Err(Unclean::Wanted);
        }
        Ok(())
    }
}
