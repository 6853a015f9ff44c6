//! I1, I14, I16: what callers were promised, and what is so when they return.

use super::*;

impl Oracle {
    pub(super) fn call_begins(
        &mut self,
        at: u64,
        sight: Sight,
        (task, cpu, direct, kind): (u32, u32, bool, SyncCallKind),
        snapshot: &dyn Fn() -> Snapshot,
    ) {
        if self.cpus[cpu as usize].eqs {
            let text = "a call from where RCU does not watch".into();
            self.object("S0.eqs", at, sight, None, text);
        }
        self.check_route(at, sight, direct, kind, snapshot);
        let seq = self.known_seq();
        self.coverage.began_inside_gp += u64::from(running(seq));
        let needs = match kind {
            SyncCallKind::Poll => self.prev.as_ref().map_or(0, |p| full_gp_from(p.gp_seq_polled)),
            SyncCallKind::Expedited => self.expedited_needs(),
            _ => full_gp_from(seq),
        };
        let needs_exp = self.expedited_needs();
        let coverage = &mut self.coverage;
        *match (kind, direct) {
            (SyncCallKind::Sync, true) => &mut coverage.direct_calls,
            (SyncCallKind::Sync, false) => &mut coverage.callback_calls,
            (SyncCallKind::Poll, _) => &mut coverage.poll_calls,
            (SyncCallKind::PollFull, _) => &mut coverage.poll_full_calls,
            (SyncCallKind::Barrier, _) => &mut coverage.barrier_calls,
            (SyncCallKind::Expedited, _) => &mut coverage.exp_calls,
        } += 1;
        self.direct_begun += u64::from(direct);
        self.barriers += u64::from(kind == SyncCallKind::Barrier);
        let call = Call {
            cpu,
            kind,
            direct,
            began: self.count,
            began_ns: at,
            needs,
            needs_exp,
            completed: false,
            watermark: self.next_callback,
            had_callbacks: self.cpus.iter().any(|c| c.waiting() > 0),
            callback: None,
            migrations: self.migrations,
            migrated: false,
        };
        if self.calls.insert(task, call).is_some() {
            self.object("S0.call", at, sight, None, format!("task {task} called twice"));
        }
        self.entering = (kind == SyncCallKind::Sync && !direct).then_some(task);
        self.called.push(cpu);
    }

    /// The expedited number by which a grace period that starts after now will have ended.
    fn expedited_needs(&self) -> u64 {
        self.prev
            .as_ref()
            .map_or(0, |p| full_gp_from(p.expedited_sequence))
    }

    /// Sections and CPUs that were busy before sight `since` and are not through yet. A CPU whose reader was
    /// preempted is through; the reader's section is not.
    pub(super) fn leftover(&self, since: u64) -> Option<(&'static str, Option<u32>, String)> {
        if let Some(s) = self.sections.iter().find(|s| s.began < since) {
            let place = match (s.cpu, s.queued) {
                (Some(cpu), _) => format!("on CPU {cpu}"),
                (None, Some(q)) => format!("of a reader preempted on CPU {}", q.cpu),
                (None, None) => String::new(),
            };
            return Some((
                "section",
                s.cpu,
                format!("section {} {place} began before it and is still open", s.id),
            ));
        }
        self.cpus.iter().zip(0..).find_map(|(c, cpu)| {
            (c.online && !c.eqs && c.quiet_at < since).then(|| {
                (
                    "cpu",
                    Some(cpu),
                    format!("CPU {cpu} has not been quiescent since (last {:?})", c.quiet_how),
                )
            })
        })
    }

    pub(super) fn call_ends(&mut self, at: u64, sight: Sight, task: u32, call: Call) {
        if call.kind == SyncCallKind::Barrier {
            self.barrier_ends(at, sight, task, &call);
        } else {
            self.full_gp_ends(at, sight, task, &call);
        }
        self.done.push(Done {
            task,
            cpu: call.cpu,
            kind: call.kind,
            direct: call.direct,
            migrated: call.migrated,
            needs: call.needs,
            began: call.began,
            began_ns: call.began_ns,
            ended: self.count,
            ended_ns: at,
        });
    }

    fn full_gp_ends(&mut self, at: u64, sight: Sight, task: u32, call: &Call) {
        if let Some((what, cpu, why)) = self.leftover(call.began) {
            let code = match (what, call.kind) {
                ("section", SyncCallKind::Expedited) => "E1.call-section",
                (_, SyncCallKind::Expedited) => "E1.call-cpu",
                ("section", _) => "I1.sync-section",
                _ => "I1.sync-cpu",
            };
            let text = format!("{:?} of task {task} returns; {why}", call.kind);
            self.object(code, at, sight, cpu, text);
        }
        if call.direct && !call.completed {
            let text = format!("task {task} returns without a completion");
            self.object("I11.once", at, sight, Some(call.cpu), text);
        }
        // The root's copy ends first, rs.gp_seq last; a callback may run in between. The polled number ends
        // before all of them.
        let over = self.prev.as_ref().map_or(0, |p| match call.kind {
            SyncCallKind::Poll => p.gp_seq_polled,
            SyncCallKind::Expedited => p.expedited_sequence,
            _ => p.nodes[0].gp_seq,
        });
        let also = call.kind == SyncCallKind::PollFull
            && self
                .prev
                .as_ref()
                .is_some_and(|p| at_or_after(p.expedited_sequence, call.needs_exp));
        let by_norm = at_or_after(over, call.needs);
        self.coverage.exp_ended_poll_full += u64::from(also && !by_norm);
        if !by_norm && !also {
            let text = format!(
                "{:?} of task {task} returns at {}, needs {}",
                call.kind,
                show(over),
                show(call.needs)
            );
            let code = match call.kind {
                SyncCallKind::Poll | SyncCallKind::PollFull => "I14.early",
                SyncCallKind::Expedited => "E1.early",
                _ => "I1.sync-early",
            };
            self.object(code, at, sight, Some(call.cpu), text);
        }
    }

    /// I16: nothing that was queued before the barrier began is left.
    fn barrier_ends(&mut self, at: u64, sight: Sight, task: u32, call: &Call) {
        self.barriers = self.barriers.saturating_sub(1);
        if self.barriers == 0 {
            self.cpus.iter_mut().for_each(|c| c.takeovers = 0);
        }
        let oldest = self
            .cpus
            .iter()
            .zip(0..)
            .filter_map(|(c, cpu)| {
                let own = c.callbacks.front().map(|c| c.0);
                let stray = c.strays.keys().next().copied();
                own.into_iter().chain(stray).min().map(|id| (id, cpu))
            })
            .min();
        if let Some((id, cpu)) = oldest.filter(|&(id, _)| id < call.watermark) {
            let text = format!(
                "the barrier of task {task}, begun before callback {}, returns; callback {id} waits on CPU {cpu}",
                call.watermark
            );
            self.object("I16.early", at, sight, Some(cpu), text);
        }
        self.coverage.barriers_served += u64::from(call.had_callbacks);
        self.coverage.barriers_over_migration += u64::from(self.migrations > call.migrations);
    }
}
