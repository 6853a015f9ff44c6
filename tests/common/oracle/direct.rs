//! I11, I12: calls on the direct route, and the latch that keeps a flood off it.

use super::*;

impl Oracle {
    /// I11, I12: which route a call takes.
    pub(super) fn check_route(
        &mut self,
        at: u64,
        sight: Sight,
        direct: bool,
        kind: SyncCallKind,
        snapshot: &dyn Fn() -> Snapshot,
    ) {
        let mut expected = self.facts.direct && kind == SyncCallKind::Sync;
        if expected && self.facts.latch != Latch::Off && snapshot().srs.latched {
            // The sight comes between the decision and what follows from it.
            expected = false;
            self.coverage.latched_calls += 1;
        }
        if direct != expected {
            let text = format!("{kind:?}: route direct={direct}, expected {expected}");
            self.object("I11.route", at, sight, None, text);
        }
    }

    pub(super) fn direct_complete(
        &mut self,
        at: u64,
        sight: Sight,
        task: u32,
        snapshot: &dyn Fn() -> Snapshot,
    ) {
        // Taken apart from the looks: this may come from inside a step.
        let seq = snapshot().gp_seq;
        match self.calls.get_mut(&task) {
            Some(call) if call.direct && !call.completed => {
                call.completed = true;
                if !at_or_after(seq, call.needs) {
                    let text = format!(
                        "task {task} completed at gp_seq {}, needs {}",
                        show(seq),
                        show(call.needs)
                    );
                    let cpu = call.cpu;
                    self.object("I11.early", at, sight, Some(cpu), text);
                }
            }
            other => {
                let text = format!("task {task} completed: {other:?}");
                self.object("I11.once", at, sight, None, text);
            }
        }
    }

    /// I11: wait heads.
    pub(super) fn check_srs(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let (p, n) = (&prev.srs, &now.srs);
        self.coverage.worker += u64::from(n.cleanups_pending > p.cleanups_pending);
        self.coverage.max_heads = self.coverage.max_heads.max(u64::from(n.heads_in_use));
        let mut wrong = Vec::new();
        if n.heads_in_use > 5 {
            wrong.push(("I11.heads", format!("{} wait heads in use", n.heads_in_use)));
        }
        if n.wait_tail && !running(now.gp_seq) {
            wrong.push(("I11.wait-tail", "a wait tail outside a grace period".into()));
        }
        let began = running(now.gp_seq) && !running(prev.gp_seq);
        if n.wait_tail && !p.wait_tail && !began {
            wrong.push(("I11.wait-tail", "a wait tail set inside a grace period".into()));
        }
        if p.done_tail && !n.done_tail {
            wrong.push(("I11.done-tail", "the done tail is gone".into()));
        }
        let linked = u32::from(n.wait_tail) + u32::from(n.done_tail);
        if n.heads_in_use < linked || (n.cleanups_pending == 0 && n.heads_in_use != linked) {
            let text = format!("{n:?}: with no worker pending the tails are all that is in use");
            wrong.push(("I11.heads", text));
        }
        for (code, text) in wrong {
            self.object(code, at, sight, None, text);
        }
    }

    /// I12, for the latch as merged: it counts before it queues.
    pub(super) fn check_latch(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let (p, n) = (&prev.srs, &now.srs);
        self.coverage.latch_closed += u64::from(n.latched && !p.latched);
        self.coverage.latch_opened += u64::from(p.latched && !n.latched);
        if self.facts.latch == Latch::V1 {
            return;
        }
        let open = self.calls.values().filter(|c| c.direct && !c.completed);
        let (mut most, mut least) = (0, 0);
        for call in open {
            most += 1;
            // The engine completes a call some time before that shows, and not before its grace period is over.
            // A call that enters step by step may not be counted yet.
            let unserved = !at_or_after(now.gp_seq, call.needs);
            least += i64::from(self.facts.atomic_calls && unserved);
        }
        let mut wrong = Vec::new();
        if self.facts.latch == Latch::Off {
            if n.count != 0 || n.latched {
                wrong.push(("I12.off", "counts, though there is no latch"));
            }
        } else {
            if n.count < least || n.count > most {
                wrong.push(("I12.count", "does not count the calls in flight"));
            }
            if n.latched && n.count <= 0 {
                wrong.push(("I12.stuck", "closed with nothing in flight to open it"));
            }
            if self.facts.atomic_calls {
                let threshold = self.facts.latch_threshold;
                if n.count >= threshold && !n.latched {
                    wrong.push(("I12.open", "open at the threshold"));
                }
                let completed = i64::from(matches!(sight, Sight::DirectComplete { .. }));
                if n.latched && !p.latched && most + completed < threshold {
                    wrong.push(("I12.closed", "closed below the threshold"));
                }
                if p.latched && !n.latched && least > 0 && self.called.is_empty() {
                    wrong.push(("I12.opened", "opened with calls in flight"));
                }
            }
        }
        for (code, text) in wrong {
            let text = format!("{n:?}: {text}; in flight {least} to {most}");
            self.object(code, at, sight, None, text);
        }
    }
}
