//! I2, I8: callbacks and the segmented lists they wait on.

use super::*;
use treercu::tree::CpuSnapshot;

impl Oracle {
    pub(super) fn callback_queued(&mut self, at: u64, sight: Sight, cpu: u32, id: u64) {
        self.queued += 1;
        self.coverage.callbacks += 1;
        self.next_callback = self.next_callback.max(id + 1);
        if let Some(call) = self.entering.take().and_then(|task| self.calls.get_mut(&task)) {
            call.callback = Some(id);
        }
        // What the list may hold at most, which is what the overload rule looks at.
        let since = self.called.iter().filter(|&&c| c == cpu).count() as u64;
        let before = self.prev.as_ref().map_or(0, |p| p.cpus[cpu as usize].cblist_len);
        self.may_be_overloaded(before + since + self.hidden(cpu));
        let needs = full_gp_from(self.known_seq());
        let count = self.count;
        let c = &mut self.cpus[cpu as usize];
        let in_order = c.last_callback.is_none_or(|last| id > last);
        c.last_callback = Some(id);
        if c.waiting() == 0 {
            c.ticking_since = at;
        }
        c.callbacks.push_back((id, count, needs));
        if !in_order {
            let text = format!("callback {id} out of order");
            self.object("S0.callback-id", at, sight, None, text);
        }
        self.called.push(cpu);
    }

    pub(super) fn callback_invoked(&mut self, at: u64, sight: Sight, cpu: u32, id: u64) {
        self.invoked += 1;
        let c = &mut self.cpus[cpu as usize];
        let front = c.callbacks.front().copied();
        // A callback that was taken over may have been ready by the number of a leaf that is ahead of this one.
        let (queued, needs, over) = if let Some((queued, needs)) = c.strays.remove(&id) {
            (queued, needs, 0)
        } else if let Some((_, queued, needs)) = front.filter(|f| f.0 == id) {
            c.callbacks.pop_front();
            (queued, needs, self.shape.leaf_of[cpu as usize])
        } else {
            if let Some(place) = c.callbacks.iter().position(|c| c.0 == id) {
                c.callbacks.remove(place);
                let text = format!("callback {id} invoked before {:?}", front.map(|f| f.0));
                self.object("I2.order", at, sight, None, text);
            } else {
                let text = format!("callback {id} is not queued on CPU {cpu} (any more)");
                self.object("I2.once", at, sight, None, text);
            }
            return;
        };
        let over = self.prev.as_ref().map_or(0, |p| p.nodes[over].gp_seq);
        if !at_or_after(over, needs) {
            let text = format!("callback {id} invoked at {}, needs {}", show(over), show(needs));
            self.object("I2.early", at, sight, None, text);
        }
        if let Some((what, other, why)) = self.leftover(queued) {
            let code = if what == "section" {
                "I1.callback-section"
            } else {
                "I1.callback-cpu"
            };
            self.object(code, at, sight, other, format!("callback {id} invoked; {why}"));
        }
    }

    /// A surviving CPU takes over; the callbacks lose their order, and may lose their numbers.
    pub(super) fn callbacks_migrated(&mut self, at: u64, sight: Sight, from: u32, to: u32) {
        if self.cpus[from as usize].online {
            let text = format!("CPU {from} is online and its callbacks are taken over");
            self.object("S0.online", at, sight, None, text);
        }
        let dead = &mut self.cpus[from as usize];
        let mut moved = std::mem::take(&mut dead.strays);
        moved.extend(
            dead.callbacks
                .drain(..)
                .map(|(id, queued, needs)| (id, (queued, needs))),
        );
        // There may have been callbacks of barriers, which are not shown.
        let barriers = 1 + std::mem::take(&mut dead.takeovers);
        self.cpus[to as usize].takeovers += barriers;
        if moved.is_empty() {
            return;
        }
        self.coverage.migrations += 1;
        self.coverage.migrated_callbacks += moved.len() as u64;
        self.migrations += 1;
        for call in self.calls.values_mut() {
            call.migrated |= call.callback.is_some_and(|id| moved.contains_key(&id));
        }
        let c = &mut self.cpus[to as usize];
        if c.waiting() == 0 {
            c.ticking_since = at;
        }
        c.strays.append(&mut moved);
    }

    /// Callbacks of barriers that may be on this list. They are not shown. One barrier runs at a time and puts one on
    /// each list; lists that were taken over bring theirs along.
    fn hidden(&self, cpu: u32) -> u64 {
        if self.barriers > 0 {
            1 + self.cpus[cpu as usize].takeovers
        } else {
            0
        }
    }

    pub(super) fn check_list(
        &mut self,
        at: u64,
        sight: Sight,
        cpu: u32,
        p: &CpuSnapshot,
        n: &CpuSnapshot,
        now: &Snapshot,
    ) {
        let total: u64 = n.seglen.iter().sum();
        let c = &self.cpus[cpu as usize];
        let books = c.waiting();
        let barriers = self.hidden(cpu);
        self.coverage.max_list = self.coverage.max_list.max(n.cblist_len);
        self.coverage.next_ready_used += u64::from(n.seglen[NEXT_READY] > 0);
        self.coverage.next_while_both_numbered +=
            u64::from(n.seglen[WAIT] > 0 && n.seglen[NEXT_READY] > 0 && n.seglen[NEXT] > 0);
        self.coverage.batch_split +=
            u64::from(matches!(sight, Sight::Core { .. }) && !n.in_batch && n.seglen[DONE] > 0);
        self.coverage.long_batches += u64::from(n.in_batch && !p.in_batch);
        let mut wrong = Vec::new();
        if n.seglen[WAIT] == 0 && n.seglen[NEXT_READY] > 0 {
            wrong.push("WAIT is empty and NEXT_READY is not");
        }
        if n.seglen[WAIT] > 0
            && n.seglen[NEXT_READY] > 0
            && !at_or_after(n.seg_gp_seq[NEXT_READY], n.seg_gp_seq[WAIT])
        {
            wrong.push("numbers decrease");
        }
        if total > n.cblist_len {
            wrong.push("more in the segments than in all");
        }
        if !n.in_batch && total != n.cblist_len {
            wrong.push("segments and length differ outside a batch");
        }
        if (!n.in_batch && n.cblist_len > books + barriers) || n.cblist_len < books {
            wrong.push("length differs from what was queued and not invoked");
        }
        for text in wrong {
            let text = format!("CPU {cpu}: {text}: {n:?}, books {books}, barriers {barriers}");
            self.object("I8.list", at, sight, Some(cpu), text);
        }
        if total <= books + barriers {
            self.check_segments(at, sight, cpu, n, now);
        }
    }

    /// Which callbacks sit where follows from the order of queueing, up to those that are not shown or have
    /// lost their place. The newest of each segment asks the most.
    fn check_segments(&mut self, at: u64, sight: Sight, cpu: u32, n: &CpuSnapshot, now: &Snapshot) {
        let leaf = self.shape.leaf_of[cpu as usize];
        let total: u64 = n.seglen.iter().sum();
        let c = &self.cpus[cpu as usize];
        let own = c.callbacks.len() as i64;
        // Callbacks of this list that are not in the order of the books.
        let others = (total as i64 - own).max(0) + c.strays.len() as i64;
        let taken = (own - total as i64).max(0);
        let mut place = taken;
        for segment in [DONE, WAIT, NEXT_READY] {
            let len = n.seglen[segment] as i64;
            if len == 0 {
                continue;
            }
            place += len;
            let number = if segment == DONE {
                now.nodes[leaf].gp_seq
            } else {
                n.seg_gp_seq[segment]
            };
            let newest = usize::try_from(place - 1 - others).ok();
            let newest = newest.and_then(|at| self.cpus[cpu as usize].callbacks.get(at).copied());
            if let Some((id, _, needs)) = newest.filter(|c| !at_or_after(number, c.2)) {
                let text = format!(
                    "CPU {cpu}: callback {id} sits in segment {segment} with {}, needs {}",
                    show(number),
                    show(needs)
                );
                self.object("I2.number", at, sight, Some(cpu), text);
            }
            if segment == DONE {
                continue;
            }
            if !at_or_after(full_gp_from(now.gp_seq), number) {
                let text = format!(
                    "CPU {cpu}: segment {segment} waits for {}, rs is {}",
                    show(number),
                    show(now.gp_seq)
                );
                self.object("I8.future", at, sight, Some(cpu), text);
            }
            // Somebody has asked for it: it runs already, or is marked on the way up.
            let covered = at_or_after(now.gp_seq, number)
                || (running(now.gp_seq) && at_or_after(end_of(now.gp_seq), number))
                || self
                    .path(leaf)
                    .any(|i| at_or_after(now.nodes[i].gp_seq_needed, number));
            if !covered {
                let text = format!(
                    "CPU {cpu}: segment {segment} waits for {}, which nobody asked for",
                    show(number)
                );
                self.object("I9.unasked", at, sight, Some(cpu), text);
            }
        }
    }

    fn path(&self, leaf: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(leaf), |&i| self.shape.nodes[i].parent)
    }
}
