//! I5, I7, I18: every CPU's bit was cleared by somebody entitled to, and for a reason; who emptied the root.

use super::hotplug::attached;
use super::*;

impl Oracle {
    pub(super) fn check_cleared(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
        cleared: &[(usize, u64)],
    ) {
        let mut cpus = Vec::new();
        for &(index, mask) in cleared {
            if self.shape.is_leaf(index) {
                cpus.extend(bits(mask).map(|b| self.shape.nodes[index].lo + b));
            }
        }
        let mut how = None;
        let mut last = Vec::new();
        for &cpu in &cpus {
            self.deserved(at, sight, cpu);
            let by = self.entitled(at, sight, prev, now, cpu);
            // The early report comes behind the initialisation of the last node.
            if how != Some(Some(Resolution::EarlyReport)) {
                if by == Some(Resolution::EarlyReport) {
                    last.clear();
                }
                how = Some(by);
                // A leaf whose CPUs have gone is named by its first one.
                let leaf = self.shape.leaf_of[cpu as usize];
                last.push(match by {
                    Some(Resolution::Nobody) => self.shape.nodes[leaf].lo,
                    _ => cpu,
                });
            }
        }
        let emptied = running(now.gp_seq)
            && now.nodes[0].gp_seq == now.gp_seq
            && root_done(now)
            && self.gp.as_ref().is_some_and(|gp| !gp.emptied);
        if !emptied {
            return;
        }
        let reason = match how {
            Some(how) => Some((how, last)),
            None => self.without_a_bit(sight, prev, now),
        };
        let Some((how, last)) = reason else { return };
        if let Some(gp) = &mut self.gp {
            gp.emptied = true;
            gp.last = last;
            gp.how = how;
        }
        if let Some(how) = how {
            self.coverage.resolved[how as usize] += 1;
            self.coverage.readers_waited_for += u64::from(how == Resolution::BlockedReader);
        }
    }

    /// The plain form of the guarantee, whoever reported it: nothing of before is going on there.
    fn deserved(&mut self, at: u64, sight: Sight, cpu: u32) {
        let since = self.gp.as_ref().map_or(0, |gp| gp.started);
        if let Some(s) = self
            .sections
            .iter()
            .find(|s| s.cpu == Some(cpu) && s.began < since)
        {
            let text = format!("CPU {cpu} is credited inside section {}", s.id);
            self.object("I1.credit-section", at, sight, Some(cpu), text);
        }
        let c = &self.cpus[cpu as usize];
        if !c.eqs && c.online && c.quiet_at < since {
            let text = format!("CPU {cpu} is credited and has not been quiescent in this grace period");
            self.object("I1.credit-cpu", at, sight, Some(cpu), text);
        }
    }

    /// Who clears the CPU's bit at this sight, and may he? How the CPU was resolved, if that is known.
    fn entitled(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
        cpu: u32,
    ) -> Option<Resolution> {
        let since = self.gp.as_ref().map_or(0, |gp| gp.started);
        let leaf = self.shape.leaf_of[cpu as usize];
        let c = &self.cpus[cpu as usize];
        let (eqs, eqs_at, recorded, online) = (c.eqs, c.eqs_at, c.recorded, c.online);
        match sight {
            Sight::Core { cpu: own } => {
                let p = &prev.cpus[cpu as usize];
                if own != cpu {
                    let text = format!("the RCU core of CPU {own} clears CPU {cpu}");
                    self.object("I5.who", at, sight, Some(cpu), text);
                } else if p.norm || !p.core_needs_qs || p.gp_seq != prev.nodes[leaf].gp_seq || p.gpwrap {
                    let text = format!(
                        "CPU {cpu} reports in state {p:?}, its leaf is at {}",
                        show(prev.nodes[leaf].gp_seq)
                    );
                    self.object("I7.report", at, sight, None, text);
                }
                recorded
            }
            Sight::CpuOffline { cpu: own } => {
                if own != cpu {
                    let text = format!("CPU {own} goes offline and clears CPU {cpu}");
                    self.object("I5.who", at, sight, Some(cpu), text);
                }
                Some(Resolution::Offline)
            }
            // Initialisation: CPUs that have left since the hotplug pass, and the kthread's own by the early
            // report.
            Sight::GpStep { .. } if prev.gp_state == INIT && !online => {
                if running(prev.nodes[leaf].gp_seq) || !running(now.nodes[leaf].gp_seq) {
                    let text = format!("CPU {cpu} is forgiven outside the initialisation of its leaf");
                    self.object("I13.gone", at, sight, Some(cpu), text);
                }
                Some(Resolution::Nobody)
            }
            Sight::GpStep { cpu: own } if prev.gp_state == INIT => {
                if own != cpu {
                    let text = format!("the early report clears CPU {cpu}");
                    self.object("I18.other", at, sight, Some(cpu), text);
                } else if !self.facts.early_qs {
                    let text = "an early report, though it is off".into();
                    self.object("I18.off", at, sight, None, text);
                } else {
                    self.coverage.early_reports += 1;
                    let c = &now.cpus[cpu as usize];
                    if c.gp_seq != now.nodes[leaf].gp_seq || c.gpwrap {
                        let text = format!(
                            "CPU {cpu} knows {}, its leaf is at {}, yet the report went through",
                            show(c.gp_seq),
                            show(now.nodes[leaf].gp_seq)
                        );
                        self.object("I18.mismatch", at, sight, None, text);
                    }
                }
                Some(Resolution::EarlyReport)
            }
            // A scan: an extended quiescent state, now or since the start.
            Sight::GpStep { .. } => {
                if !eqs && eqs_at < since {
                    let text = format!("the scan credits CPU {cpu}, which was not idle since the start");
                    self.object("I5.scan", at, sight, Some(cpu), text);
                }
                Some(Resolution::IdleScan)
            }
            _ => {
                self.object("I5.who", at, sight, Some(cpu), format!("CPU {cpu}'s bit goes"));
                None
            }
        }
    }

    /// The root is done and no CPU's bit has gone: the last blocked reader left, or a leaf was initialised
    /// that had been kept for blocked readers only and has none left.
    fn without_a_bit(
        &mut self,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
    ) -> Option<(Option<Resolution>, Vec<u32>)> {
        if matches!(sight, Sight::GpStep { .. })
            && let Some((index, _)) = now.nodes.iter().enumerate().find(|&(index, n)| {
                self.shape.is_leaf(index)
                    && n.wait_blkd_tasks
                    && attached(n)
                    && n.gp_seq != prev.nodes[index].gp_seq
            })
        {
            return Some((Some(Resolution::Nobody), vec![self.shape.nodes[index].lo]));
        }
        let left = prev
            .nodes
            .iter()
            .zip(&now.nodes)
            .any(|(p, n)| p.gp_blockers.len() > n.gp_blockers.len());
        left.then(|| (Some(Resolution::BlockedReader), Vec::new()))
    }
}
