//! I6: readers that were preempted inside a section, and the lists on which they hold grace periods.
//!
//! The tree names blocked readers by ids of its own, so the lists are compared by number: on each leaf,
//! exactly the preempted sections that the grace period waits for, and those that have just ended and may
//! not have been taken off yet.

use super::*;
use treercu::tree::NodeSnapshot;

/// Preempted readers.
#[derive(Debug)]
pub(super) struct Blocked {
    /// Per node: sections that ended and may still be listed among those that are waited for.
    leaving: Vec<u64>,
    /// Per node: sections that ended since the node's latest start; each may still be listed somewhere.
    ended: Vec<u64>,
    /// Per node: an expedited grace period has waited for readers here since then too. One list serves both, so
    /// the normal one may wait for more readers than it has to, never for fewer.
    mixed: Vec<bool>,
    /// A preempted reader's section has ended since the last look.
    pub unlocked: bool,
    /// A reader has been preempted since.
    pub floated: bool,
}

impl Blocked {
    pub fn new(nodes: usize) -> Blocked {
        Blocked {
            leaving: vec![0; nodes],
            ended: vec![0; nodes],
            mixed: vec![false; nodes],
            unlocked: false,
            floated: false,
        }
    }
}

impl Oracle {
    /// A context switch on this CPU: away from a reader inside its section? From here on it may be anywhere.
    pub(super) fn reader_preempted(&mut self, cpu: u32) -> bool {
        let leaf = self.shape.leaf_of[cpu as usize];
        let at = self.count;
        // One reader at most; a second section would be one of another kind and is left for others to see.
        let Some(section) = self.sections.iter_mut().find(|s| s.cpu == Some(cpu)) else {
            return false;
        };
        section.cpu = None;
        section.queued = Some(Queued {
            leaf,
            cpu,
            at,
            blocks: false,
        });
        self.coverage.preempted += 1;
        self.readers.floated = true;
        true
    }

    /// A reader that was preempted leaves its section, somewhere.
    pub(super) fn reader_leaves(&mut self, queued: Queued) {
        self.readers.ended[queued.leaf] += 1;
        if queued.blocks {
            self.readers.leaving[queued.leaf] += 1;
        }
        self.readers.unlocked = true;
    }

    pub(super) fn someone_blocks(&self) -> bool {
        self.prev
            .as_ref()
            .is_some_and(|p| p.nodes.iter().any(|n| !n.gp_blockers.is_empty()))
    }

    /// Readers that are, or may be, on this leaf's list.
    pub(super) fn readers_ever(&self, leaf: usize) -> u64 {
        let open = self.queued_on(leaf).count() as u64;
        open + self.readers.ended[leaf]
    }

    fn queued_on(&self, leaf: usize) -> impl Iterator<Item = &Section> {
        self.sections
            .iter()
            .filter(move |s| s.queued.is_some_and(|q| q.leaf == leaf))
    }

    pub(super) fn check_readers(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        for (index, (p, n)) in prev.nodes.iter().zip(&now.nodes).enumerate() {
            let listed = n.gp_blockers.len() as u64;
            if !self.shape.is_leaf(index) {
                if listed > 0 {
                    let text = format!("inner node {index} has blocked readers {:?}", n.gp_blockers);
                    self.object("I6.inner", at, sight, None, text);
                }
                continue;
            }
            self.coverage.max_blockers = self.coverage.max_blockers.max(listed);
            if !running(n.gp_seq) {
                // Over here, or not begun: nobody is waited for (and the end itself is checked with the masks).
                if listed > 0 {
                    let text = format!("leaf {index} waits for readers {:?} outside", n.gp_blockers);
                    self.object("I6.blockers-outside", at, sight, None, text);
                }
                if running(p.gp_seq) {
                    self.readers.leaving[index] = 0;
                    for s in &mut self.sections {
                        if let Some(q) = s.queued.as_mut().filter(|q| q.leaf == index) {
                            q.blocks = false;
                        }
                    }
                }
                continue;
            }
            let starts = !running(p.gp_seq);
            self.who_blocks(index, n, starts);
            let mixed = !p.exp_blockers.is_empty() || !n.exp_blockers.is_empty();
            self.readers.mixed[index] = mixed || (self.readers.mixed[index] && !starts);
            let blocking = self
                .queued_on(index)
                .filter(|s| s.queued.is_some_and(|q| q.blocks))
                .count() as u64;
            let most = if self.readers.mixed[index] {
                self.readers_ever(index)
            } else {
                blocking
            } + if starts {
                self.readers.ended[index]
            } else {
                self.readers.leaving[index]
            };
            if listed < blocking {
                let text = format!(
                    "leaf {index} waits for readers {:?}, but {blocking} preempted ones hold the grace period",
                    n.gp_blockers
                );
                self.object("I6.missing", at, sight, None, text);
            }
            if listed > most {
                let text = format!(
                    "leaf {index} waits for readers {:?}, of which at most {most} hold the grace period",
                    n.gp_blockers
                );
                self.object("I6.extra", at, sight, None, text);
            }
            let left = self.readers.leaving[index];
            self.readers.leaving[index] = listed.saturating_sub(blocking);
            if starts {
                self.readers.ended[index] = self.readers.leaving[index];
                self.coverage.preempted_spanned += blocking;
            } else if !self.readers.unlocked {
                // Taken off some time after the end of its section: its quiescent state had been deferred.
                self.coverage.deferred += left.saturating_sub(self.readers.leaving[index]);
            }
            self.check_covered(at, sight, index);
        }
    }

    /// Which preempted readers the grace period must wait for at this leaf.
    fn who_blocks(&mut self, index: usize, n: &NodeSnapshot, starts: bool) {
        let (lo, count, floated) = (n.grplo, self.count, self.readers.floated);
        let mut owing = 0;
        for s in &mut self.sections {
            let Some(q) = s.queued.as_mut().filter(|q| q.leaf == index) else {
                continue;
            };
            if starts {
                q.blocks = super::hotplug::attached(n);
            } else if floated && q.at == count {
                // Preempted just now: it holds the grace period if its CPU still owes it.
                q.blocks = n.qsmask & (1 << (q.cpu - lo)) != 0;
                owing += u64::from(q.blocks);
            }
        }
        self.coverage.preempted_owing += owing;
    }

    /// Every preempted section from before the start is waited for.
    fn check_covered(&mut self, at: u64, sight: Sight, index: usize) {
        let Some(started) = self.gp.as_ref().map(|gp| gp.started) else {
            return;
        };
        let missed = self
            .queued_on(index)
            .find(|s| s.began < started && s.queued.is_some_and(|q| !q.blocks))
            .map(|s| s.id);
        if let Some(id) = missed {
            let text = format!("leaf {index} does not wait for section {id}, preempted and older than it");
            self.object("I6.missed", at, sight, None, text);
        }
    }
}
