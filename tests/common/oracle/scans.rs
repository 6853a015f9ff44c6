//! T1, I17, I18: when the kthread scans, what overload changes about it, and its early report.

use super::*;

/// The kthread's sleeps and scans.
#[derive(Debug, Clone, Default)]
pub(super) struct Scans {
    /// A sleep is to begin, with this length in jiffies.
    length: Option<u64>,
    /// Jiffy before which no scan is due.
    due: u64,
    /// Somebody asked for a scan.
    asked: bool,
    /// Leaves of the running scan still to come, the scan's last step included; `None`: no scan is on.
    left: Option<usize>,
    /// The kthread woke for no reason known.
    stray: bool,
    /// Some CPU may be over the overload mark, and when that was last seen (sight count).
    over: bool,
    over_at: u64,
    /// Whether that was so during the previous scan, and since.
    before: bool,
    since: bool,
    /// The early report has not had its step yet.
    report_due: bool,
    /// Scans of the grace period in progress.
    pub scans: u64,
}

impl Oracle {
    /// A list that may hold this many callbacks is about to get one more.
    pub(super) fn may_be_overloaded(&mut self, len: u64) {
        if self.facts.qovld > 0 && len as i64 >= self.facts.qovld {
            self.scans.over = true;
            self.scans.since = true;
            self.scans.over_at = self.count;
            self.coverage.overloads += 1;
        }
    }

    /// T1: a scan comes when its wait is over, or when somebody asked for it. I17: or when a CPU was overloaded
    /// in the scan before the last one, which shortens the wait.
    pub(super) fn check_wait(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        if running(now.gp_seq) && !running(prev.gp_seq) {
            let w = &mut self.scans;
            (w.length, w.due, w.asked, w.left, w.stray, w.scans) = (None, 0, false, None, false, 0);
        }
        if running(prev.gp_seq) && !running(now.gp_seq) {
            self.overload_ends(now);
        }
        if now.gp_state == CLEANUP && self.scans.over {
            // The pass clears the mark of whoever is below it by then, not of those that fall below it later.
            self.note_overload(now);
        }
        self.scans.asked |= now.gp_flags & FQS_FLAG != 0;
        if !matches!(sight, Sight::GpStep { .. }) || !running(now.gp_seq) {
            return;
        }
        let jiffies = at / (1_000_000_000 / u64::from(self.facts.hz));
        let (first, next) = self.facts.waits;
        let w = &mut self.scans;
        if prev.gp_state == INIT && now.gp_state != INIT {
            // Initialised: the first wait is to begin.
            w.length = Some(first);
        }
        if now.gp_state == WAIT_FQS {
            // It begins once; who wakes early goes back to sleep for the rest.
            if let Some(length) = w.length.take() {
                w.due = jiffies + length;
            }
            w.left = None;
            w.stray = false;
        }
        let early = match w.length {
            Some(length) => length > 0,
            None => jiffies < w.due,
        };
        if prev.gp_state != DOING_FQS && now.gp_state == DOING_FQS {
            w.stray = early && !w.asked && !w.before;
        }
        if prev.gp_state != DOING_FQS || now.gp_state != DOING_FQS {
            return;
        }
        // A leaf is scanned. Or the kthread decides about the next scan without any sleep.
        match w.left {
            Some(0) => {
                w.left = None;
                return;
            }
            Some(left) => {
                w.left = Some(left - 1);
                return;
            }
            None => {}
        }
        if std::mem::take(&mut w.stray) && w.asked {
            return;
        }
        let leaves = self
            .shape
            .nodes
            .iter()
            .filter(|n| n.level + 1 == self.shape.levels);
        w.left = Some(leaves.count() - 1);
        w.scans += 1;
        let overload = w.before;
        w.before = w.since;
        w.since = w.over;
        let asked = std::mem::take(&mut w.asked);
        w.length = Some(next);
        if early && asked {
            self.coverage.forced_scans += 1;
        } else if early && overload {
            self.coverage.overload_scans += 1;
        } else if early {
            let text = format!("a scan in jiffy {jiffies}: {:?}", self.scans);
            self.object("T1.early", at, sight, None, text);
        }
    }

    fn note_overload(&mut self, now: &Snapshot) {
        if now.cpus.iter().any(|c| c.cblist_len as i64 >= self.facts.qovld) {
            self.scans.over_at = self.count;
        }
    }

    /// The clean-up pass has looked at every list again.
    fn overload_ends(&mut self, now: &Snapshot) {
        self.note_overload(now);
        let cleanup_at = self.gps.last().map_or(0, |gp| gp.cleanup_at);
        if self.scans.over_at < cleanup_at {
            self.scans.over = false;
        }
    }

    /// I18, the other half: where the report is due, it comes, in a step of its own behind the initialisation of
    /// the last node.
    pub(super) fn check_early(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
        cleared: &[(usize, u64)],
    ) {
        let Sight::GpStep { cpu } = sight else { return };
        if !self.facts.early_qs || prev.gp_state != INIT {
            return;
        }
        let last = self.shape.nodes.len() - 1;
        let initialised = running(prev.gp_seq) && prev.nodes[last].gp_seq == prev.gp_seq;
        if now.gp_state != INIT {
            if !std::mem::take(&mut self.scans.report_due) {
                return;
            }
            let text = "initialisation ends without a step for the report".into();
            self.object("I18.missing", at, sight, None, text);
        }
        if !initialised {
            self.scans.report_due = true;
            return;
        }
        if !std::mem::take(&mut self.scans.report_due) {
            return;
        }
        let leaf = self.shape.leaf_of[cpu as usize];
        let knows = now.cpus[cpu as usize].gp_seq == now.nodes[leaf].gp_seq;
        let stands = now.nodes[leaf].qsmask & self.shape.bit(cpu) != 0;
        if knows && stands && !now.cpus[cpu as usize].gpwrap {
            let text =
                format!("CPU {cpu} finished the initialisation and knows its number, but its bit stands");
            self.object("I18.missing", at, sight, None, text);
        }
        if !knows && cleared.is_empty() {
            self.coverage.early_declined += 1;
        }
    }
}
