//! I5, I6: what each node owes, and how that goes up the tree.

use super::hotplug::attached;
use super::*;

impl Oracle {
    /// The growth of the nodes' words (I3, I9), the start and end at each node. Returns which bits each node
    /// lost.
    pub(super) fn check_nodes(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
    ) -> Vec<(usize, u64)> {
        let mut cleared = Vec::new();
        let by_kthread = matches!(sight, Sight::GpStep { .. });
        for (index, (p, n)) in prev.nodes.iter().zip(&now.nodes).enumerate() {
            if p == n {
                continue;
            }
            let mut before = p.qsmask;
            match ahead(n.gp_seq, p.gp_seq) {
                0 => {}
                1 if !running(p.gp_seq) => {
                    // The start of a grace period at this node.
                    if p.qsmask != 0 {
                        let text = format!("node {index} starts with {:x} still owed", p.qsmask);
                        self.object("I6.start", at, sight, None, text);
                    }
                    if now.gp_state != INIT && prev.gp_state != INIT {
                        let text = format!("node {index} starts in gp_state {}", now.gp_state);
                        self.object("I4.state", at, sight, None, text);
                    }
                    before = n.qsmaskinit;
                }
                3 if running(p.gp_seq) => {
                    if p.qsmask != 0 || n.qsmask != 0 {
                        let text = format!("node {index} ends with {:x} owed", p.qsmask | n.qsmask);
                        self.object("I6.end", at, sight, None, text);
                    }
                    if !n.gp_blockers.is_empty() || (!p.gp_blockers.is_empty() && !self.readers.unlocked) {
                        let text = format!("node {index} ends with blocked readers {:?}", p.gp_blockers);
                        self.object("I6.end-blocked", at, sight, None, text);
                    }
                    if index == 0 {
                        // With a single node the number ends in the same step, above.
                        let count = self.count;
                        if let Some(gp) = self.gp.as_mut().or(self.gps.last_mut()) {
                            gp.cleanup_at = count;
                        }
                    }
                }
                _ => {
                    let text = format!("node {index} {} -> {}", show(p.gp_seq), show(n.gp_seq));
                    self.object("I3.node-step", at, sight, None, text);
                }
            }
            if n.gp_seq != p.gp_seq && !by_kthread {
                let text = format!("node {index} changes its number");
                self.object("I3.who", at, sight, None, text);
            }
            let set = n.qsmask & !before;
            if set != 0 {
                self.object("I5.set", at, sight, None, format!("node {index} gains {set:x}"));
            }
            if n.qsmask & !n.qsmaskinit != 0 {
                let text = format!("node {index} owes {:x}, of {:x}", n.qsmask, n.qsmaskinit);
                self.object("I5.init", at, sight, None, text);
            }
            let gone = before & !n.qsmask;
            if gone != 0 {
                cleared.push((index, gone));
            }
            if !at_or_after(n.completedqs, p.completedqs) {
                let text = format!(
                    "node {index} completedqs {} -> {}",
                    show(p.completedqs),
                    show(n.completedqs)
                );
                self.object("I3.completedqs", at, sight, None, text);
            }
            if !at_or_after(n.gp_seq_needed, p.gp_seq_needed) {
                let text = format!(
                    "node {index} needed {} -> {}",
                    show(p.gp_seq_needed),
                    show(n.gp_seq_needed)
                );
                self.object("I9.needed", at, sight, None, text);
            }
        }
        cleared
    }

    /// A node's bit in its parent stands exactly as long as the node owes something or has blocked readers
    /// that the grace period waits for: one report climbs as far as it can.
    pub(super) fn check_links(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        if !running(now.gp_seq) {
            if let Some((index, n)) = now.nodes.iter().enumerate().find(|(_, n)| n.qsmask != 0) {
                let text = format!("no grace period, and node {index} owes {:x}", n.qsmask);
                self.object("I6.idle", at, sight, None, text);
            }
            return;
        }
        for (index, n) in now.nodes.iter().enumerate() {
            let started = n.gp_seq == now.gp_seq;
            let ended = ahead(n.gp_seq, now.gp_seq) == 3;
            let through = n.qsmask == 0 && n.gp_blockers.is_empty();
            if !attached(n) {
                continue;
            }
            if started && through != (n.completedqs == n.gp_seq) {
                let text = format!(
                    "node {index} owes {:x} and readers {:?}, completedqs {} at {}",
                    n.qsmask,
                    n.gp_blockers,
                    show(n.completedqs),
                    show(n.gp_seq)
                );
                self.object("I5.completedqs", at, sight, None, text);
            }
            if let Some(parent) = self.shape.nodes[index].parent {
                let q = &now.nodes[parent];
                if q.gp_seq != now.gp_seq {
                    continue; // the parent has not started, or has ended, this one
                }
                let bit = q.qsmask & self.shape.nodes[index].mask != 0;
                let owes = if started { !through } else { !ended };
                if bit != owes {
                    let text = format!(
                        "node {index} (number {}, owes {:x} and readers {:?}) {} in its parent's {:x}",
                        show(n.gp_seq),
                        n.qsmask,
                        n.gp_blockers,
                        if bit { "still stands" } else { "is missing" },
                        q.qsmask
                    );
                    self.object("I5.parent", at, sight, None, text);
                }
            }
        }
    }
}
