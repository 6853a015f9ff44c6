//! I3, I4, I9: the numbers of `rs` and of the nodes; requests.

use super::*;

impl Oracle {
    /// I3: steps of `rs.gp_seq`.
    pub(super) fn check_seq(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let step = ahead(now.gp_seq, prev.gp_seq);
        if step == 0 {
            return;
        }
        let Sight::GpStep { cpu } = sight else {
            let text = format!("rs.gp_seq {} -> {}", show(prev.gp_seq), show(now.gp_seq));
            self.object("I3.who", at, sight, None, text);
            return;
        };
        match (step, running(prev.gp_seq)) {
            (1, false) => self.gp_starts(at, sight, cpu, prev, now),
            (3, true) => {
                self.coverage.grace_periods += 1;
                self.last_gp_end = self.count;
                if prev.gp_seq as i64 == -3 {
                    self.coverage.wrapped += 1;
                }
                if let Some(mut gp) = self.gp.take() {
                    gp.ended = self.count;
                    gp.ended_ns = at;
                    gp.kthread_cpu = cpu;
                    gp.scans = self.scans.scans;
                    // Where everybody came after, or left before, his leaf's turn, nobody is waited for.
                    if !gp.emptied && prev.nodes[0].qsmaskinit != 0 {
                        let text = format!("{} ends and nobody emptied the root", show(gp.seq));
                        self.object("I6.reason", at, sight, None, text);
                    }
                    self.gps.push(gp);
                }
            }
            _ => {
                let text = format!("rs.gp_seq {} -> {}", show(prev.gp_seq), show(now.gp_seq));
                self.object("I3.step", at, sight, None, text);
            }
        }
    }

    fn gp_starts(&mut self, at: u64, sight: Sight, cpu: u32, prev: &Snapshot, now: &Snapshot) {
        self.coverage.sections_spanned += self.sections.len() as u64;
        self.coverage.back_to_back += u64::from(self.last_gp_end + 1 == self.count);
        self.coverage.offline_gps += u64::from(self.cpus.iter().any(|c| !c.online));
        let pool_empty = prev.srs.heads_in_use == 5;
        self.coverage.heads_exhausted += u64::from(pool_empty);
        if pool_empty && now.srs.wait_tail {
            self.object("I11.heads", at, sight, None, "a sixth wait head".into());
        }
        self.hotplug_gp_starts();
        self.gp = Some(Gp {
            seq: now.gp_seq,
            started: self.count,
            started_ns: at,
            ended: 0,
            ended_ns: 0,
            kthread_cpu: cpu,
            pool_empty,
            last: Vec::new(),
            how: None,
            emptied: false,
            cleanup_at: 0,
            scans: 0,
        });
    }

    /// I4: root first, level by level, at the start and at the end; the end everywhere before `rs` and
    /// before any start.
    pub(super) fn check_order(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        let rs = now.gp_seq;
        let mut last = i64::MAX;
        let (mut fresh, mut behind, mut over) = (false, false, false);
        for (index, n) in now.nodes.iter().enumerate() {
            let d = ahead(n.gp_seq, rs);
            if !(if running(rs) {
                [-1, 0, 3].contains(&d)
            } else {
                d == 0
            }) {
                let text = format!("rs {} and node {index} {}", show(rs), show(n.gp_seq));
                self.object("I4.distance", at, sight, None, text);
                return;
            }
            if d > last {
                let text = format!("node {index} {} is ahead of an earlier node", show(n.gp_seq));
                self.object("I4.order", at, sight, None, text);
            }
            last = d;
            fresh |= d == 0;
            behind |= d == -1;
            over |= d == 3;
        }
        if behind && over {
            let text = "some node has ended what another has not started".into();
            self.object("I4.order", at, sight, None, text);
        }
        let state = now.gp_state;
        let fits = if !running(rs) {
            state == IDLE || state == WAIT_GPS || state == DONE_GPS || state == CLEANED
        } else if behind {
            // started, not yet everywhere
            (DONE_GPS..=INIT).contains(&state) && (!fresh || state == INIT)
        } else {
            (INIT..=CLEANUP).contains(&state) && (!over || state == CLEANUP)
        };
        if !fits {
            let text = format!("gp_state {state} does not fit rs {} and its nodes", show(rs));
            self.object("I4.state", at, sight, None, text);
        }
        // No step into the clean-up with anything owed.
        if state == CLEANUP && !root_done(now) {
            let text = format!(
                "clean-up with {:x} owed and {:?} blocked at the root",
                now.nodes[0].qsmask, now.nodes[0].gp_blockers
            );
            self.object("I6.cleanup", at, sight, None, text);
        }
    }

    /// I9.
    pub(super) fn check_requests(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        let idle = !running(now.gp_seq);
        let most = full_gp_from(now.gp_seq);
        for (index, n) in now.nodes.iter().enumerate() {
            if !running(n.gp_seq) && !at_or_after(n.gp_seq_needed, n.gp_seq) {
                let text = format!(
                    "node {index} needs {} at {}",
                    show(n.gp_seq_needed),
                    show(n.gp_seq)
                );
                self.object("I9.behind", at, sight, None, text);
            }
            if idle && !at_or_after(n.gp_seq, n.gp_seq_needed) && now.gp_flags & INIT_FLAG == 0 {
                let text = format!(
                    "node {index} needs {} at {}, nothing runs and INIT is not set",
                    show(n.gp_seq_needed),
                    show(n.gp_seq)
                );
                self.object("I9.lost", at, sight, None, text);
            }
            if !at_or_after(most, n.gp_seq_needed) {
                let text = format!(
                    "node {index} needs {}, the latest is {}",
                    show(n.gp_seq_needed),
                    show(most)
                );
                self.object("I9.future", at, sight, None, text);
            }
        }
    }
}
