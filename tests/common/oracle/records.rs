//! R: the run's records against what was seen.

use super::*;
use treercu::stats::Run;

/// What is wrong, by code.
type Wrong = Vec<(&'static str, String)>;

impl Oracle {
    /// Compares the run's records with what was seen. Call after the run.
    pub fn check_run(&mut self, run: &Run) {
        let simulated = run.simulated().expect("a simulated run");
        let sight = Sight::End {
            interrupted: run.interrupted,
        };
        let mut wrong = Wrong::new();
        if self.ended != Some(run.interrupted) {
            wrong.push((
                "R.end",
                format!("end seen: {:?}, run interrupted: {}", self.ended, run.interrupted),
            ));
        }
        if self.check_columns(run, &mut wrong) {
            self.check_gps(run, &mut wrong);
            self.check_samples(run, &mut wrong);
            self.check_counters(run, &mut wrong);
        }
        for (code, text) in wrong.into_iter().take(2 * ENOUGH) {
            self.object(code, simulated.virtual_ns, sight, None, text);
        }
    }

    fn check_columns(&self, run: &Run, wrong: &mut Wrong) -> bool {
        let g = &run.grace_periods;
        if g.len() != self.gps.len() {
            wrong.push((
                "R.gps",
                format!("{} records, {} grace periods seen", g.len(), self.gps.len()),
            ));
        }
        let columns = [
            g.start_ns.len(),
            g.end_ns.len(),
            g.requests.len(),
            g.scans.len(),
            g.holdout_cpu.len(),
            g.resolved_by.len(),
            g.kthread_cpu.len(),
        ];
        let even = columns.iter().all(|&c| c == g.len());
        if !even {
            wrong.push(("R.columns", format!("{columns:?} of {}", g.len())));
        }
        even
    }

    fn check_gps(&mut self, run: &Run, wrong: &mut Wrong) {
        let free_nodes = run.simulated().is_some_and(|s| s.machine.node_ns == 0);
        let g = &run.grace_periods;
        for (i, seen) in self.gps.iter().enumerate().take(g.len()) {
            self.coverage.scans += g.scans[i] as u64;
            self.coverage.max_scans = self.coverage.max_scans.max(g.scans[i] as u64);
            self.coverage.scan_left_holdout += u64::from(g.scans[i] > 1);
            let row = format!(
                "record {i}: seq {} {}..{} scans {} hold-out {} by {} on {}; seen {seen:?}",
                g.gp_seq[i],
                g.start_ns[i],
                g.end_ns[i],
                g.scans[i],
                g.holdout_cpu[i],
                g.resolved_by[i],
                g.kthread_cpu[i]
            );
            if g.gp_seq[i] != seen.seq as i64 || g.kthread_cpu[i] != seen.kthread_cpu as i32 {
                wrong.push(("R.gp", row.clone()));
            }
            // A step's own progress is all that may lie between the record and the sight of the step.
            let off = |recorded: i64, seen: u64| recorded.abs_diff(seen as i64) > MAX_STEP_NS;
            // On a machine where a node costs nothing, a grace period may.
            if g.start_ns[i] >= g.end_ns[i] + i64::from(free_nodes)
                || (i > 0 && g.start_ns[i] < g.end_ns[i - 1])
                || off(g.start_ns[i], seen.started_ns)
                || off(g.end_ns[i], seen.ended_ns)
            {
                wrong.push(("R.gp-time", row.clone()));
            }
            let cpu_fits = if seen.emptied {
                seen.last.is_empty() || seen.last.iter().any(|&c| c as i32 == g.holdout_cpu[i])
            } else {
                g.holdout_cpu[i] == -1
            };
            let how_fits = match seen.how {
                Some(how) => g.resolved_by[i] == how as i32,
                None => seen.emptied || g.resolved_by[i] == Resolution::Nobody as i32,
            };
            if !how_fits || !cpu_fits {
                wrong.push(("R.resolution", row.clone()));
            }
            if i64::from(g.scans[i]) != seen.scans as i64
                || (seen.how == Some(Resolution::IdleScan) && g.scans[i] == 0)
                || g.requests[i] < 0
            {
                wrong.push(("R.scans", row));
            }
        }
    }

    /// Samples: one per finished call. Where a call waits for a grace period, it was released by one that
    /// started behind its beginning and was over (at the leaves at least) before its end.
    fn check_samples(&mut self, run: &Run, wrong: &mut Wrong) {
        let (s, g) = (&run.samples, &run.grace_periods);
        if s.len() != self.done.len() {
            wrong.push((
                "R.samples",
                format!("{} samples, {} calls seen", s.len(), self.done.len()),
            ));
        }
        // Samples name tasks by their number among the callers, sights by an id of their own.
        let mut names: HashMap<u32, i32> = HashMap::new();
        let by_seq: HashMap<i64, usize> = self
            .gps
            .iter()
            .enumerate()
            .map(|(i, gp)| (gp.seq as i64, i))
            .collect();
        let mut released: HashMap<i64, i64> = HashMap::new();
        let mut others = 0;
        for (i, d) in self.done.iter().enumerate().take(s.len()) {
            let row = format!(
                "sample {i}: task {} cpu {} {}..{} latency {} gp {}; call {d:?}",
                s.task[i], s.cpu[i], s.start_ns[i], s.end_ns[i], s.latency_ns[i], s.gp_seq[i]
            );
            if *names.entry(d.task).or_insert(s.task[i]) != s.task[i]
                || s.latency_ns[i] != s.end_ns[i] - s.start_ns[i]
                || s.latency_ns[i] < i64::from(d.kind != SyncCallKind::Barrier)
                || s.cpu[i] != d.cpu as i32
                || s.start_ns[i] > d.began_ns as i64
                || s.end_ns[i] != d.ended_ns as i64
            {
                wrong.push(("R.sample", row.clone()));
            }
            // Pollers and barriers are not released by one grace period in particular; a callback that was
            // taken over is told the number that its new CPU knows.
            if d.kind == SyncCallKind::Expedited {
                // The first expedited grace period that began after it.
                if s.gp_seq[i] as u64 != d.needs.wrapping_sub(3) {
                    wrong.push(("R.expedited", row));
                }
                continue;
            }
            if d.kind != SyncCallKind::Sync || d.migrated {
                others += 1;
                continue;
            }
            *released.entry(s.gp_seq[i]).or_default() += 1;
            if d.direct {
                // Taken along by the first grace period behind its beginning that found a wait head; where a
                // call enters step by step it may come to the stack later.
                let behind = self.gps.partition_point(|gp| gp.started <= d.began);
                let served = self.gps[behind..].iter().position(|gp| !gp.pool_empty);
                let expected = served.map(|k| self.gps[behind + k].seq as i64);
                self.coverage.put_off += u64::from(served.is_some_and(|k| k > 0));
                let fits = if self.facts.atomic_calls {
                    expected == Some(s.gp_seq[i])
                } else {
                    expected.is_some_and(|e| at_or_after(s.gp_seq[i] as u64, e as u64))
                };
                if !fits {
                    wrong.push(("I11.late", format!("{row} belongs to {expected:?}")));
                }
            }
            match by_seq.get(&s.gp_seq[i]).map(|&g| &self.gps[g]) {
                Some(gp) if gp.started > d.began && gp.cleanup_at < d.ended => {}
                // Callbacks run as soon as the leaves know; the run may stop before rs does.
                None if self
                    .gp
                    .as_ref()
                    .is_some_and(|gp| gp.seq as i64 == s.gp_seq[i] && gp.cleanup_at > 0) => {}
                other => wrong.push(("R.sample-gp", format!("{row}, grace period {other:?}"))),
            }
        }
        for (i, &requests) in g.requests.iter().enumerate() {
            let samples = released.get(&g.gp_seq[i]).copied().unwrap_or(0);
            if requests < samples || (!run.interrupted && others == 0 && requests != samples) {
                wrong.push((
                    "R.requests",
                    format!("{} released {requests} calls, {samples} samples", g.gp_seq[i]),
                ));
            }
        }
    }

    fn check_counters(&mut self, run: &Run, wrong: &mut Wrong) {
        let (c, g) = (&run.counters, &run.grace_periods);
        for (name, counter, seen) in [
            ("grace_periods", c.grace_periods, self.gps.len() as u64),
            ("callbacks_queued", c.callbacks_queued, self.queued),
            ("callbacks_invoked", c.callbacks_invoked, self.invoked),
            ("direct_wakes", c.direct_wakes, self.direct_begun),
            ("cpus_offlined", c.cpus_offlined, self.coverage.went_offline),
            ("ticks", c.ticks, self.ticks),
            (
                "expedited_grace_periods",
                c.expedited_grace_periods,
                self.expedited.gps,
            ),
            ("stalls", c.stalls, run.stalls.len() as u64),
            // A pass of ksoftirqd ends with a quiescent state that is shown as a switch and not counted.
            (
                "context_switches",
                c.context_switches,
                self.switches.min(c.context_switches),
            ),
        ] {
            // A CPU may be on its way offline at the end.
            let near = name == "cpus_offlined" && counter == seen + 1;
            if counter != seen && !near {
                wrong.push(("R.counter", format!("{name} is {counter}, seen {seen}")));
            }
        }
        let scans: u64 = g.scans.iter().map(|&x| x as u64).sum();
        if c.fqs_scans < scans || (self.gp.is_none() && c.fqs_scans != scans) {
            wrong.push((
                "R.counter",
                format!("fqs_scans is {}, records say {scans}", c.fqs_scans),
            ));
        }
    }
}
