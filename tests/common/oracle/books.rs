//! Sights into books: sections, extended quiescent states, switches, ticks (S0, I10).

use super::*;

impl Oracle {
    pub(super) fn quiet(&mut self, cpu: u32, how: Quiet) {
        let count = self.count;
        let momentary = !self.facts.preemptible && matches!(how, Quiet::Switch | Quiet::Point);
        let c = &mut self.cpus[cpu as usize];
        c.quiet_at = count;
        c.quiet_how = how;
        // Asked urgently, the non-preemptible flavour passes through an extended state for a moment.
        if how == Quiet::Eqs || momentary {
            c.eqs_at = count;
        }
    }

    /// Enters the sight into the books. True: the tree may have changed in a way worth a look.
    pub(super) fn book(&mut self, at: u64, sight: Sight, snapshot: &dyn Fn() -> Snapshot) -> bool {
        if self.prev.is_none() && !matches!(sight, Sight::End { .. }) {
            // The state before anything: nothing that the first sight did can have ended a grace period,
            // but the first sight may be of a CPU that has just come or gone.
            let mut first = snapshot();
            self.before_hotplug(&mut first, sight);
            self.first_look(at, sight, &first);
            self.prev = Some(first);
        }
        if let Some(cpu) = cpu_of(sight)
            && !self.cpus[cpu as usize].online
            && !matches!(
                sight,
                Sight::CpuOnline { .. } | Sight::CpuOffline { .. } | Sight::EqsEnter { .. }
            )
        {
            self.object("S0.offline", at, sight, None, format!("CPU {cpu} is offline"));
        }
        match sight {
            // SRCU has an oracle of its own.
            Sight::Srcu { .. } => false,
            Sight::SectionBegin { id, cpu } => {
                self.section_begins(at, sight, id, cpu);
                false
            }
            Sight::SectionEnd { id } => {
                self.section_ends(at, sight, id);
                false
            }
            Sight::EqsEnter { cpu } => {
                if self.cpus[cpu as usize].eqs && self.cpus[cpu as usize].eqs_at > 0 {
                    self.object("S0.eqs", at, sight, None, "entered twice".into());
                }
                self.no_open_section(at, sight, cpu, "enters an extended quiescent state");
                let c = &mut self.cpus[cpu as usize];
                c.eqs = true;
                c.idle = true;
                self.quiet(cpu, Quiet::Eqs);
                false
            }
            Sight::EqsExit { cpu } => {
                if !self.cpus[cpu as usize].eqs {
                    self.object("S0.eqs", at, sight, None, "left without being in it".into());
                }
                // It was in the extended state up to now.
                self.quiet(cpu, Quiet::Eqs);
                self.cpus[cpu as usize].eqs = false;
                false
            }
            Sight::ContextSwitch { cpu } => {
                self.switches += 1;
                let floated = self.facts.preemptible && self.reader_preempted(cpu);
                self.no_open_section(at, sight, cpu, "switches tasks");
                self.cpus[cpu as usize].idle = false;
                self.quiet(cpu, Quiet::Switch);
                floated || self.norm_known(cpu) || self.someone_blocks() || self.exp_running()
            }
            Sight::ReschedPoint { cpu } => {
                self.no_open_section(at, sight, cpu, "passes a reschedule point");
                if self.facts.preemptible {
                    let text = "a preemptible kernel has no reschedule points".into();
                    self.object("S0.point", at, sight, None, text);
                }
                self.quiet(cpu, Quiet::Point);
                self.norm_known(cpu) || self.exp_running()
            }
            Sight::Tick { cpu, user } => {
                self.ticks += 1;
                self.tick_gap(at, sight, cpu);
                // Quiescent: user mode; kernel code outside sections that can be preempted; the idle task
                // where the flavour is the non-preemptible one.
                let kernel = self.cpus[cpu as usize].idle != self.facts.preemptible;
                if user || (kernel && !self.tick_hits_section(cpu)) {
                    self.quiet(cpu, Quiet::Tick);
                }
                self.norm_known(cpu) || self.someone_blocks() || self.exp_running()
            }
            Sight::ExpStep { cpu, .. } => {
                self.exp_step(at, sight, cpu);
                true
            }
            Sight::ExpIpi { cpu } => {
                self.exp_ipi(cpu);
                true
            }
            Sight::Core { cpu } => {
                let in_task = self.sections.iter().all(|s| s.cpu != Some(cpu));
                self.coverage.ksoftirqd += u64::from(in_task);
                self.cpus[cpu as usize].core_at = self.count;
                true
            }
            Sight::GpStep { cpu } => {
                self.no_open_section(at, sight, cpu, "runs the grace-period kthread");
                if self.cpus[cpu as usize].eqs {
                    self.object(
                        "S0.eqs",
                        at,
                        sight,
                        None,
                        "the kthread runs where RCU does not watch".into(),
                    );
                }
                self.quiet(cpu, Quiet::Kthread);
                true
            }
            Sight::SyncBegin {
                task,
                cpu,
                direct,
                kind,
            } => {
                self.no_open_section(at, sight, cpu, "calls synchronize_rcu()");
                self.call_begins(at, sight, (task, cpu, direct, kind), snapshot);
                false
            }
            Sight::DirectComplete { task } => {
                self.direct_complete(at, sight, task, snapshot);
                false
            }
            Sight::SyncEnd { task } => {
                match self.calls.remove(&task) {
                    Some(call) => self.call_ends(at, sight, task, call),
                    None => self.object("S0.call", at, sight, None, format!("task {task} was not waiting")),
                }
                false
            }
            Sight::CallbackQueued { cpu, id } => {
                self.callback_queued(at, sight, cpu, id);
                false
            }
            Sight::CallbackInvoked { cpu, id } => {
                self.callback_invoked(at, sight, cpu, id);
                false
            }
            Sight::CpuOnline { cpu } => {
                self.cpu_comes(at, sight, cpu);
                self.quiet(cpu, Quiet::Eqs);
                true
            }
            Sight::CpuOffline { cpu } => {
                self.no_open_section(at, sight, cpu, "goes offline");
                self.cpu_goes(at, sight, cpu);
                true
            }
            Sight::CallbacksMigrated { from, to } => {
                self.callbacks_migrated(at, sight, from, to);
                true
            }
            Sight::End { interrupted } => {
                self.ended = Some(interrupted);
                if self.prev.is_some() {
                    let now = snapshot();
                    self.look(at, sight, now);
                }
                self.at_end(at, sight, interrupted);
                false
            }
        }
    }

    fn section_begins(&mut self, at: u64, sight: Sight, id: u64, cpu: u32) {
        self.coverage.sections += 1;
        if !self.section_ids.insert(id) {
            let text = format!("section {id} began twice");
            self.object("S0.section-id", at, sight, None, text);
        }
        if self.cpus[cpu as usize].eqs {
            let text = format!("section {id} begins while RCU does not watch CPU {cpu}");
            self.object("S0.section-in-eqs", at, sight, None, text);
        }
        self.sections.push(Section {
            id,
            cpu: Some(cpu),
            began: self.count,
            queued: None,
        });
    }

    fn section_ends(&mut self, at: u64, sight: Sight, id: u64) {
        match self.sections.iter().position(|s| s.id == id) {
            Some(place) => {
                let section = self.sections.swap_remove(place);
                if let Some(queued) = section.queued {
                    self.reader_leaves(queued);
                } else if let Some(cpu) = section.cpu.filter(|_| self.exp_running()) {
                    self.exp_unlock(cpu);
                }
            }
            None => {
                let text = format!("section {id} was not open");
                self.object("S0.section-end", at, sight, None, text);
            }
        }
    }

    /// `rs.gp_seq`: it changes only in steps of the kthread, each of which is looked at.
    pub(super) fn known_seq(&self) -> u64 {
        self.prev.as_ref().map_or(0, |p| p.gp_seq)
    }

    fn norm_known(&self, cpu: u32) -> bool {
        self.prev.as_ref().is_some_and(|p| p.cpus[cpu as usize].norm)
    }

    /// A tick interrupts a section: one other than the interrupt's own is open, or the RCU core has run
    /// since that one began, so that the tick hits softirq processing.
    pub(super) fn tick_hits_section(&self, cpu: u32) -> bool {
        let mut open = self.sections.iter().filter(|s| s.cpu == Some(cpu));
        let own = open.next().map_or(0, |s| s.began);
        open.next().is_some() || self.cpus[cpu as usize].core_at > own
    }

    pub(super) fn no_open_section(&mut self, at: u64, sight: Sight, cpu: u32, what: &str) {
        if let Some(id) = self.sections.iter().find(|s| s.cpu == Some(cpu)).map(|s| s.id) {
            let text = format!("CPU {cpu} {what} inside section {id}");
            self.object("S0.open-section", at, sight, None, text);
        }
    }

    /// I10: where callbacks wait, ticks come.
    pub(super) fn tick_gap(&mut self, at: u64, sight: Sight, cpu: u32) {
        let period = 1_000_000_000 / u64::from(self.facts.hz);
        let c = &mut self.cpus[cpu as usize];
        let gap = at.saturating_sub(c.ticking_since);
        c.ticking_since = at;
        // A tick that was stopped comes back one period ahead; interrupts may delay it.
        if c.online && c.waiting() > 0 && gap > 2 * period + 3_000_000 {
            let text = format!(
                "{gap} ns without a tick on CPU {cpu}, which has {} callbacks",
                c.waiting()
            );
            self.object("I10.tick", at, sight, None, text);
        }
    }
}
