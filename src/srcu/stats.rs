//! The line that rcutorture prints about a domain.

use super::domain::Srcu;
use std::fmt::Write as _;

impl<C> Srcu<C> {
    /// `srcu_torture_stats_print()`, without what stands in front of "Tree SRCU". With `convert_to_big=2` it makes the
    /// domain grow.
    ///
    /// For each CPU, locks less unlocks on the index that new readers avoid and on the one they use, and `C` where
    /// callbacks are queued. One value may be negative, since a reader may leave on another CPU; only the totals mean
    /// something.
    pub fn torture_stats(&self) -> String {
        let current = self.current_index();
        let size = self.size_state();
        let mut line = format!(
            "Tree SRCU g{} state {} ({}) per-CPU(idx={current}):",
            self.gp_seq() as i64,
            size as u32,
            size.name(),
        );
        let mut totals = [0i64; 2];
        for (cpu, counters) in self.counters.iter().enumerate() {
            // Unlocks before locks, as everywhere.
            let inside = [current ^ 1, current].map(|index| {
                let unlocks = counters.unlocks(index);
                counters.locks(index).wrapping_sub(unlocks) as i64
            });
            totals[0] += inside[0];
            totals[1] += inside[1];
            let queued = if self.callbacks(cpu as u32) > 0 { 'C' } else { '.' };
            let _ = write!(line, " {cpu}({},{} {queued})", inside[0], inside[1]);
        }
        let _ = write!(line, " T({},{})", totals[0], totals[1]);
        if self.tun.srcu.sizing.by_torture {
            self.begin_to_grow(&mut self.sup.lock());
        }
        line
    }
}
