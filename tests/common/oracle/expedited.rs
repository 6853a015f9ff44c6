//! E1 to E3: expedited grace periods. They have numbers, masks and lists of readers of their own; nothing
//! that the other files say about normal ones changes because of them.

use super::*;

/// The expedited grace period in progress.
#[derive(Debug)]
pub(super) struct ExpGp {
    /// When it started (sight count).
    started: u64,
    /// By node: CPUs that were ever online when it started.
    known: Vec<u64>,
}

/// The oracle's own books.
#[derive(Debug)]
pub(super) struct Expedited {
    gp: Option<ExpGp>,
    /// By node: CPUs that were ever online.
    ever: Vec<u64>,
    pub gps: u64,
    /// CPUs on which a section has ended since the last look while one was running: its unlock may have
    /// reported.
    pub unlocked: Vec<u32>,
    /// The polled number as it should be, and what each kind of grace period may end.
    polled: Option<u64>,
    norm_snap: u64,
    exp_snap: u64,
}

impl Expedited {
    pub fn new(shape: &Shape, online: u32) -> Expedited {
        let mut ever = vec![0u64; shape.nodes.len()];
        for cpu in 0..online {
            ever[shape.leaf_of[cpu as usize]] |= shape.bit(cpu);
        }
        Expedited {
            gp: None,
            ever,
            gps: 0,
            unlocked: Vec::new(),
            polled: None,
            norm_snap: 0,
            exp_snap: 0,
        }
    }

    pub fn comes(&mut self, leaf: usize, bit: u64) {
        self.ever[leaf] |= bit;
    }
}

impl Oracle {
    pub(super) fn exp_running(&self) -> bool {
        self.prev.as_ref().is_some_and(|p| running(p.expedited_sequence))
    }

    /// An expedited caller at a reschedule point.
    pub(super) fn exp_step(&mut self, at: u64, sight: Sight, cpu: u32) {
        self.no_open_section(at, sight, cpu, "steps an expedited call");
        if self.cpus[cpu as usize].eqs {
            let text = "an expedited caller runs where RCU does not watch".into();
            self.object("S0.eqs", at, sight, None, text);
        }
        self.quiet(cpu, Quiet::Caller);
    }

    /// The interrupt proves something where it hit no section: an idle task always, other code only where it
    /// can be preempted.
    pub(super) fn exp_ipi(&mut self, cpu: u32) {
        self.coverage.exp_ipis += 1;
        let anywhere = self.cpus[cpu as usize].idle || self.facts.preemptible;
        if anywhere && !self.tick_hits_section(cpu) {
            self.quiet(cpu, Quiet::Interrupt);
        }
    }

    /// A section ends while an expedited grace period runs. One that was asked inside it waits for just that.
    pub(super) fn exp_unlock(&mut self, cpu: u32) {
        self.expedited.unlocked.push(cpu);
        let owes = self.prev.as_ref().is_some_and(|p| p.cpus[cpu as usize].exp_owed);
        let outside = self.sections.iter().all(|s| s.cpu != Some(cpu));
        if owes && outside && self.facts.preemptible {
            self.quiet(cpu, Quiet::Unlock);
        }
    }

    pub(super) fn check_expedited(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let by_caller = matches!(sight, Sight::ExpStep { .. });
        let step = ahead(now.expedited_sequence, prev.expedited_sequence);
        match (step, running(prev.expedited_sequence)) {
            (0, _) => {}
            (1, false) if by_caller => {
                self.expedited.gp = Some(ExpGp {
                    started: self.count,
                    known: self.expedited.ever.clone(),
                });
                self.coverage.exp_in_gp += u64::from(running(now.gp_seq));
            }
            (3, true) if by_caller => self.exp_ends(at, sight, now),
            _ => {
                let text = format!(
                    "expedited_sequence {} -> {}",
                    prev.expedited_sequence, now.expedited_sequence
                );
                self.object("E2.step", at, sight, None, text);
            }
        }
        for (index, (p, n)) in prev.nodes.iter().zip(&now.nodes).enumerate() {
            let leaf = self.shape.is_leaf(index);
            if !running(now.expedited_sequence) && (n.expmask != 0 || !n.exp_blockers.is_empty()) {
                let text = format!(
                    "no expedited grace period, and node {index} owes {:x} and readers {:?}",
                    n.expmask, n.exp_blockers
                );
                self.object("E3.idle", at, sight, None, text);
            }
            if n.expmask & !p.expmask != 0 && !by_caller {
                let text = format!("node {index} gains {:x}", n.expmask & !p.expmask);
                self.object("E3.set", at, sight, None, text);
            }
            if n.expmask & !n.expmaskinit != 0 || p.expmaskinit & !n.expmaskinit != 0 {
                let text = format!(
                    "node {index} owes {:x} of {:x} (before: of {:x})",
                    n.expmask, n.expmaskinit, p.expmaskinit
                );
                self.object("E3.init", at, sight, None, text);
            }
            if !leaf && !n.exp_blockers.is_empty() {
                let text = format!("inner node {index} has blocked readers {:?}", n.exp_blockers);
                self.object("E3.inner", at, sight, None, text);
            }
            if let Some(parent) = self.shape.nodes[index].parent
                && (n.expmask != 0 || !n.exp_blockers.is_empty())
                && now.nodes[parent].expmask & self.shape.nodes[index].mask == 0
            {
                let text = format!(
                    "node {index} owes {:x} and readers {:?}, and its parent does not know",
                    n.expmask, n.exp_blockers
                );
                self.object("E3.parent", at, sight, None, text);
            }
            if leaf {
                self.coverage.max_exp_blockers =
                    self.coverage.max_exp_blockers.max(n.exp_blockers.len() as u64);
                self.coverage.exp_reader_left +=
                    u64::from(!p.exp_blockers.is_empty() && n.exp_blockers.is_empty());
                if n.expmask & !n.qsmaskinitnext != 0 {
                    let text = format!("leaf {index} waits for {:x}, some of it offline", n.expmask);
                    self.object("E3.offline", at, sight, None, text);
                }
                if let Sight::CpuOffline { cpu } = sight {
                    let bit = self.shape.bit(cpu);
                    let here = self.shape.leaf_of[cpu as usize] == index;
                    self.coverage.exp_offline_owing += u64::from(here && p.expmask & bit != 0);
                }
                for bit in bits(p.expmask & !n.expmask) {
                    self.exp_deserved(at, sight, self.shape.nodes[index].lo + bit);
                }
            }
        }
    }

    /// A CPU is not waited for any more: nothing of before is going on there.
    fn exp_deserved(&mut self, at: u64, sight: Sight, cpu: u32) {
        let Some(since) = self.expedited.gp.as_ref().map(|gp| gp.started) else {
            return;
        };
        let own = match sight {
            Sight::ExpStep { .. } => true,
            // A reader that was preempted may have left its section anywhere.
            _ => {
                cpu_of(sight) == Some(cpu) || self.expedited.unlocked.contains(&cpu) || self.readers.unlocked
            }
        };
        if !own {
            let text = format!("CPU {cpu} is credited by somebody else");
            self.object("E3.who", at, sight, Some(cpu), text);
        }
        if let Some(s) = self
            .sections
            .iter()
            .find(|s| s.cpu == Some(cpu) && s.began < since)
        {
            let text = format!("CPU {cpu} is credited inside section {}", s.id);
            self.object("E3.section", at, sight, Some(cpu), text);
        }
        let c = &self.cpus[cpu as usize];
        if !c.eqs && c.online && c.quiet_at < since {
            let text = format!(
                "CPU {cpu} is credited and has not been quiescent since (last {:?})",
                c.quiet_how
            );
            self.object("E3.cpu", at, sight, Some(cpu), text);
        }
    }

    fn exp_ends(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        self.expedited.gps += 1;
        self.coverage.exp_gps += 1;
        let Some(gp) = self.expedited.gp.take() else {
            self.object("E2.step", at, sight, None, "an end without a start".into());
            return;
        };
        if let Some((what, cpu, why)) = self.leftover(gp.started) {
            let code = if what == "section" { "E1.section" } else { "E1.cpu" };
            let text = format!("an expedited grace period ends; {why}");
            self.object(code, at, sight, cpu, text);
        }
        for (index, n) in now.nodes.iter().enumerate() {
            if self.shape.is_leaf(index) && gp.known[index] & !n.expmaskinit != 0 {
                let text = format!(
                    "leaf {index} asks {:x}; {:x} were online before the start",
                    n.expmaskinit, gp.known[index]
                );
                self.object("E3.known", at, sight, None, text);
            }
        }
    }

    /// I14: the polled number. Each kind of grace period starts it or finds it started, and ends it if nobody
    /// else has ended it since; the normal one before any node knows.
    pub(super) fn check_polled(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let cleans = |s: &Snapshot| running(s.gp_seq) && s.gp_state == CLEANUP;
        let e = &mut self.expedited;
        let mut polled = e.polled.unwrap_or(prev.gp_seq_polled);
        let started = |before: u64, after: u64| running(after) && !running(before);
        if started(prev.gp_seq, now.gp_seq) {
            polled = if running(polled) {
                polled
            } else {
                polled.wrapping_add(1)
            };
            e.norm_snap = polled;
        }
        if started(prev.expedited_sequence, now.expedited_sequence) {
            polled = if running(polled) {
                polled
            } else {
                polled.wrapping_add(1)
            };
            e.exp_snap = polled;
        }
        if cleans(now) && !cleans(prev) && e.norm_snap == polled && running(polled) {
            polled = end_of(polled);
        }
        let exp_ended = running(prev.expedited_sequence) && !running(now.expedited_sequence);
        if exp_ended && e.exp_snap == polled && running(polled) {
            polled = end_of(polled);
            self.coverage.exp_ended_polled += u64::from(running(now.gp_seq));
        }
        e.polled = Some(polled);
        if now.gp_seq_polled != polled || !at_or_after(now.gp_seq_polled, prev.gp_seq_polled) {
            let text = format!(
                "polled {} -> {}, not {}; rs {} in gp_state {}, expedited {}",
                show(prev.gp_seq_polled),
                show(now.gp_seq_polled),
                show(polled),
                show(now.gp_seq),
                now.gp_state,
                show(now.expedited_sequence)
            );
            self.object("I14.number", at, sight, None, text);
        }
    }
}
