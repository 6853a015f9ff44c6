//! I3, I7: the CPUs' copies of the numbers, and their quiescent states.

use super::*;
use treercu::tree::{CpuSnapshot, NodeSnapshot};

/// A grace period older than this may have a reader record a quiescent state as it leaves, ns.
const NEEDS_HELP_NS: u64 = 1_000_000_000;

impl Oracle {
    pub(super) fn check_cpus(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        for (cpu, (p, n)) in prev.cpus.iter().zip(&now.cpus).enumerate() {
            let cpu = cpu as u32;
            let moved = matches!(sight, Sight::CallbacksMigrated { from, to } if from == cpu || to == cpu);
            if p == n && !moved {
                continue;
            }
            let leaf = self.shape.leaf_of[cpu as usize];
            if (sight == Sight::CpuOnline { cpu }) {
                self.check_fresh(at, sight, cpu, n, &now.nodes[leaf]);
            } else {
                self.check_cpu_seq(at, sight, cpu, (p, n), (&prev.nodes[leaf], &now.nodes[leaf]));
            }
            if p.cblist_len != n.cblist_len
                || p.seglen != n.seglen
                || p.seg_gp_seq != n.seg_gp_seq
                || p.in_batch != n.in_batch
                || moved
            {
                self.check_list(at, sight, cpu, p, n, now);
            }
        }
    }

    /// A CPU that comes online knows its leaf's number and owes nothing.
    fn check_fresh(&mut self, at: u64, sight: Sight, cpu: u32, n: &CpuSnapshot, leaf: &NodeSnapshot) {
        if n.gp_seq != leaf.gp_seq || n.core_needs_qs || !n.norm || n.gpwrap {
            let text = format!(
                "CPU {cpu} comes online as {n:?}; its leaf is at {}",
                show(leaf.gp_seq)
            );
            self.object("I13.fresh", at, sight, None, text);
        }
    }

    fn check_cpu_seq(
        &mut self,
        at: u64,
        sight: Sight,
        cpu: u32,
        (p, n): (&CpuSnapshot, &CpuSnapshot),
        (leaf_before, leaf): (&NodeSnapshot, &NodeSnapshot),
    ) {
        let bit = self.shape.bit(cpu);
        let owed = leaf.qsmask & bit != 0;
        // Distrusted numbers (as at boot) are taken over afresh even where they are the same.
        let noticed = n.gp_seq != p.gp_seq || (p.gpwrap && !n.gpwrap);
        if noticed {
            let called = self.called.contains(&cpu);
            self.coverage.noticed_in_call += u64::from(called && running(n.gp_seq));
            let here = called
                || match sight {
                    Sight::Core { cpu: c } | Sight::GpStep { cpu: c } => c == cpu,
                    _ => false,
                };
            if !here {
                let text = format!("CPU {cpu} changes its number");
                self.object("I3.who", at, sight, Some(cpu), text);
            }
            // In call_rcu() it took over what its leaf had then.
            let from_leaf = n.gp_seq == leaf.gp_seq || (called && n.gp_seq == leaf_before.gp_seq);
            if !from_leaf || !at_or_after(n.gp_seq, p.gp_seq) {
                let text = format!(
                    "CPU {cpu} {} -> {}, leaf {}",
                    show(p.gp_seq),
                    show(n.gp_seq),
                    show(leaf.gp_seq)
                );
                self.object("I3.cpu", at, sight, Some(cpu), text);
            }
            let credited = leaf_before.qsmask & bit != 0 && !owed;
            // It noticed inside call_rcu() and was quiescent before anything else happened there.
            let at_once =
                called && cpu_of(sight) == Some(cpu) && self.cpus[cpu as usize].quiet_at == self.count;
            if at_once && owed && n.core_needs_qs && !n.norm {
                self.cpus[cpu as usize].recorded = Some(match sight {
                    Sight::Tick { .. } => Resolution::Tick,
                    _ => Resolution::ContextSwitch,
                });
            } else if running(n.gp_seq) && !credited && (n.norm != owed || n.core_needs_qs != owed) {
                let text = format!("CPU {cpu} noticed {} (owed: {owed}) and is {n:?}", show(n.gp_seq));
                self.object("I7.notice", at, sight, Some(cpu), text);
            }
        }
        if !at_or_after(leaf.gp_seq, n.gp_seq) {
            let text = format!("CPU {cpu} at {}, leaf at {}", show(n.gp_seq), show(leaf.gp_seq));
            self.object("I3.cpu", at, sight, Some(cpu), text);
        }
        if n.core_needs_qs && !running(n.gp_seq) {
            let text = format!("CPU {cpu} is asked for a quiescent state at {}", show(n.gp_seq));
            self.object("I7.notice", at, sight, Some(cpu), text);
        }
        self.check_wrap(at, sight, cpu, (p, n), leaf);
        if p.norm && !n.norm && (owed || !noticed) {
            self.check_recorded(at, sight, cpu, noticed);
        }
        if !p.norm && n.norm && !noticed {
            // Given up: it belonged to another grace period.
            self.coverage.qs_given_up += 1;
        }
    }

    /// Numbers are distrusted where the scan that found the CPU idle saw it lag too far behind, and only there.
    fn check_wrap(
        &mut self,
        at: u64,
        sight: Sight,
        cpu: u32,
        (p, n): (&CpuSnapshot, &CpuSnapshot),
        leaf: &NodeSnapshot,
    ) {
        if !n.gpwrap || p.gpwrap {
            return;
        }
        self.coverage.gpwraps += 1;
        let lag = self.facts.gpwrap_lag as i64;
        let lags = lag > 0 && ahead(leaf.gp_seq, n.gp_seq) > 4 * lag;
        if !lags || !matches!(sight, Sight::GpStep { .. }) {
            let text = format!(
                "CPU {cpu} at {} distrusts its numbers, leaf at {}",
                show(n.gp_seq),
                show(leaf.gp_seq)
            );
            self.object("I3.wrap", at, sight, Some(cpu), text);
        }
    }

    /// I7: a quiescent state is recorded where there is one.
    fn check_recorded(&mut self, at: u64, sight: Sight, cpu: u32, noticed: bool) {
        let quiet_now = self.cpus[cpu as usize].quiet_at == self.count;
        // A reader that was asked for help records as it leaves; where it did so is not seen.
        let long = self
            .gp
            .as_ref()
            .is_some_and(|gp| at > gp.started_ns + NEEDS_HELP_NS);
        let (how, known) = match sight {
            Sight::Tick { cpu: c, .. } if c == cpu && quiet_now => {
                let idle = self.cpus[cpu as usize].idle;
                self.coverage.idle_ticks += u64::from(idle);
                (Some(Resolution::Tick), !long)
            }
            Sight::ContextSwitch { cpu: c } if c == cpu => (Some(Resolution::ContextSwitch), true),
            Sight::ReschedPoint { cpu: c } if c == cpu => {
                self.coverage.resched_points += 1;
                (Some(Resolution::ContextSwitch), true)
            }
            Sight::GpStep { cpu: c } if c == cpu => (Some(Resolution::EarlyReport), true),
            _ => (None, false),
        };
        if how.is_none() && !(long && self.facts.preemptible) {
            let text =
                format!("CPU {cpu} records a quiescent state that it did not have (noticed: {noticed})");
            self.object("I7.record", at, sight, Some(cpu), text);
        }
        self.cpus[cpu as usize].recorded = if known { how } else { None };
    }
}
