//! What a torture run leaves: counters, verdict, and the text that rcutorture would have printed.

use super::World;
use super::counters::{Counters, Verdict};
use super::ledger::Ledger;
use super::plan::{Plan, Skipped};

/// The result of a torture run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Where it ran.
    pub world: World,
    /// Its seed.
    pub seed: u64,
    /// How long it was to run, s (virtual time in the simulated world).
    pub seconds: f64,
    /// How long it ran, s.
    pub ran_s: f64,
    /// All counters at the end.
    pub counters: Counters,
    /// What they come to.
    pub verdict: Verdict,
    /// What did not happen.
    pub skipped: Vec<Skipped>,
    /// Cut short by a cancel request.
    pub interrupted: bool,
    /// Everything that was printed.
    pub text: String,
}

impl Report {
    /// The sum of all error counters.
    pub fn errors(&self) -> u64 {
        self.counters.errors()
    }
}

/// Writes the text while a run lasts.
#[derive(Debug)]
pub(super) struct Scribe {
    tt: &'static str,
    hz: u32,
    text: String,
    /// Writer versions at the last print.
    version: u64,
}

impl Scribe {
    pub(super) fn start(plan: &Plan) -> Self {
        let tt = plan.scenario.flavour.name();
        let mut text = format!("{tt}-torture:--- Start of test: {}\n", plan.parameters());
        for skipped in &plan.skipped {
            text += &format!("{tt}-torture: skipped: {}: {}\n", skipped.name, skipped.why);
        }
        Scribe {
            tt,
            hz: plan.config.tunables().hz,
            text,
            version: 0,
        }
    }

    /// A statistics print. `state`: what the writer is doing, and the grace-period number.
    pub(super) fn stats(&mut self, counters: &Counters, state: &str, gp_seq: u64) {
        self.text += &counters.lines(self.tt, self.hz);
        if counters.rtc.is_some() && counters.ver == self.version {
            self.text += &format!("??? Writer stall state {state} g{}\n", gp_seq as i64);
        }
        self.version = counters.ver;
    }

    /// The end: what went wrong, the last statistics, the verdict.
    pub(super) fn end(
        mut self,
        plan: Plan,
        world: World,
        ledger: &Ledger,
        ran_ns: u64,
        interrupted: bool,
    ) -> Report {
        let counters = ledger.counters();
        let tt = self.tt;
        for warning in ledger.warnings() {
            self.text += &format!("{tt}-torture: WARNING: {warning}\n");
        }
        self.text += &counters.lines(tt, self.hz);
        if let Some(first) = ledger.first_failure() {
            self.text += &format!(
                "{tt}-torture: Failure/close-call rcutorture reader: {}\n",
                first.text
            );
        }
        let forward = &counters.fwd_progress;
        if forward.nr_rounds + forward.cr_rounds > 0 {
            self.text += &format!(
                "{tt}-torture: fwd_prog: nr {} rounds {} failures; cr {} floods {} failures {} invoked {} max \
                 queued {} gps\n",
                forward.nr_rounds,
                forward.nr_failures,
                forward.cr_rounds,
                forward.cr_failures,
                forward.cr_invoked,
                forward.cr_max_queued,
                forward.cr_gps
            );
        }
        let verdict = counters.verdict();
        let cut = if interrupted { " (interrupted)" } else { "" };
        self.text += &format!(
            "{tt}-torture:--- End of test: {}{cut}: {}\n",
            verdict.name(),
            plan.parameters()
        );
        Report {
            scenario: plan.scenario.name,
            world,
            seed: plan.seed,
            seconds: plan.run_ns as f64 / 1e9,
            ran_s: ran_ns as f64 / 1e9,
            counters,
            verdict,
            skipped: plan.skipped,
            interrupted,
            text: self.text,
        }
    }
}
