//! A scenario on this machine, for a run of this length: what its values come to, and what is left out.
//!
//! rcutorture's values are made for half an hour on a machine of the scenario's size. Here the *tree*
//! keeps that size (virtual CPUs cost nothing), threads of the host world are cut to what its cores can
//! run, and every period is cut to a share of the run, so that each thing happens several times. What a
//! value came to is in the parameters that the report prints.

use super::World;
use super::kind::GpKind;
use super::pass::{Odds, PREEMPT_OFF, RCU_1, RCU_2};
use super::scenario::{Flavour, Scenario};
use crate::config::Config;
use crate::error::{Error, Result};
use serde::Serialize;

/// Longest run, s: a week.
pub const MAX_SECONDS: f64 = 604_800.0;
/// Shortest run, s.
pub const MIN_SECONDS: f64 = 0.1;
/// Shortest run in which a stall is injected, s: it takes [`STALL_S`] of it.
pub const MIN_STALL_RUN_S: f64 = 8.0;

/// Ticks per second of every scenario: the default of the builds that rcutorture runs.
const HZ: u32 = 1000;
/// `rcu_cpu_stall_timeout` where a stall is injected (the shortest there is), and how long it lasts, s.
const STALL_TIMEOUT_S: u32 = 3;
const STALL_S: f64 = 4.0;
/// rcutorture's shortest `nr` round, a quarter of the stall timeout of 21 s, and its longest flood.
const FWD_PATIENCE_NS: u64 = 5_250_000_000;
const FWD_FLOOD_NS: u64 = 8_000_000_000;
/// Reader threads per core of the host.
const READERS_PER_CORE: u32 = 2;
/// Readers of an idle scenario.
const MAX_IDLE_READERS: u32 = 16;

const S: f64 = 1e9;

/// Something of the scenario, or of rcutorture, that does not happen in this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Which setting or test.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What will be done. Times are in ns of the run's world.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The engine's configuration.
    pub config: Config,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// How long the test lasts.
    pub run_ns: u64,
    /// Kinds of grace periods that the writers use.
    pub kinds: Vec<GpKind>,
    /// `nreaders`.
    pub readers: u32,
    /// `nfakewriters`.
    pub fakewriters: u32,
    /// What the readers do.
    pub odds: Odds,
    /// A long delay.
    pub long_ns: u64,
    /// Mean time between two of them, over all readers; 0: none.
    pub long_every_ns: u64,
    /// Longest sleep of a reader between two passes; 0: readers sleep about every 10 jiffies only.
    pub idle_ns: u64,
    /// `n_barrier_cbs`, and the pause between two rounds.
    pub barrier_cbs: u32,
    /// See `barrier_cbs`.
    pub barrier_every_ns: u64,
    /// `fwd_progress`: threads.
    pub fwd_progress: u32,
    /// Pause before each of its rounds.
    pub fwd_holdoff_ns: u64,
    /// Longest `nr` round; the shortest is a quarter of it.
    pub fwd_round_ns: u64,
    /// A round without progress goes on for so long before it counts as a failure. Not scaled: how fast a grace
    /// period is does not depend on the length of the run.
    pub fwd_patience_ns: u64,
    /// The same of a flood.
    pub fwd_flood_ns: u64,
    /// `onoff_interval`; 0: no hotplug.
    pub onoff_every_ns: u64,
    /// `onoff_holdoff`.
    pub onoff_holdoff_ns: u64,
    /// `shuffle_interval`; 0: threads stay.
    pub shuffle_ns: u64,
    /// `stutter`: run so long, then pause for a quarter of that.
    pub stutter_ns: u64,
    /// `stat_interval`.
    pub stat_ns: u64,
    /// `read_exit_delay` and `read_exit_burst`; a burst of 0: no such test.
    pub read_exit_ns: u64,
    /// See `read_exit_ns`.
    pub read_exit_burst: u32,
    /// `stall_cpu`; 0: none.
    pub stall_ns: u64,
    /// `stall_cpu_holdoff`.
    pub stall_holdoff_ns: u64,
    /// What does not happen.
    pub skipped: Vec<Skipped>,
}

impl Plan {
    /// The plan for a run of `seconds` in `world`, on a host with `cores` cores.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when `seconds` is out of range or the scenario does not exist in that world.
    pub fn new(
        scenario: &'static Scenario,
        seconds: f64,
        world: World,
        seed: u64,
        cores: u32,
    ) -> Result<Plan> {
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            return Err(Error::config(
                "seconds",
                seconds,
                "out of range",
                format!("{MIN_SECONDS} to {MAX_SECONDS}"),
            ));
        }
        if scenario.flavour == Flavour::Trivial && world == World::Sim {
            return Err(Error::config(
                "scenario",
                scenario.name,
                "textbook RCU needs real threads",
                "this scenario with world=host, or another one",
            ));
        }
        let mut plan = Plan {
            scenario,
            config: config(scenario)?,
            seed,
            run_ns: (seconds * S) as u64,
            kinds: Vec::new(),
            readers: 0,
            fakewriters: 0,
            odds: Odds {
                mask: RCU_1 | RCU_2,
                readers: 1,
                preemptible: scenario.preempt.is_preemptible(),
                extend_one_in: 2,
            },
            long_ns: (0.3f64.min(seconds / 50.0) * S) as u64,
            long_every_ns: 0,
            idle_ns: if scenario.idle { 30_000_000 } else { 0 },
            barrier_cbs: 4,
            barrier_every_ns: 100_000_000,
            fwd_progress: 0,
            fwd_holdoff_ns: share(60.0, seconds, 5.0),
            fwd_round_ns: share(8.0, seconds, 5.0),
            fwd_patience_ns: FWD_PATIENCE_NS,
            fwd_flood_ns: FWD_FLOOD_NS,
            onoff_every_ns: 0,
            onoff_holdoff_ns: 0,
            shuffle_ns: share(3.0, seconds, 8.0),
            stutter_ns: share(5.0, seconds, 4.0),
            stat_ns: share(15.0, seconds, 2.0),
            read_exit_ns: share(13.0, seconds, 6.0),
            read_exit_burst: 16,
            stall_ns: 0,
            stall_holdoff_ns: 0,
            skipped: Vec::new(),
        };
        for &(name, why) in scenario.missing {
            plan.skip(name, why);
        }
        plan.skip("irqreader=1", "no reader runs from an interrupt's handler yet");
        plan.skip("n_up_down=32", "sections are left by the task that entered them");
        plan.threads(world, cores);
        plan.kinds(world);
        plan.events(seconds);
        plan.limits_of(world);
        Ok(plan)
    }

    /// Lists something as skipped.
    pub fn skip(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Skipped {
            name: name.into(),
            why: why.into(),
        });
    }

    fn threads(&mut self, world: World, cores: u32) {
        let cpus = self.scenario.cpus as i32;
        let wanted = (cpus - 1).max(1) as u32;
        let fakewriters = match self.scenario.nfakewriters {
            n if n < 0 => (cpus - 2 - n).max(1) as u32,
            n => n as u32,
        };
        let most = match world {
            // Those that sleep most of the time need no core.
            _ if self.scenario.idle => MAX_IDLE_READERS,
            World::Host => (cores * READERS_PER_CORE).max(4),
            World::Sim => u32::MAX,
        };
        if wanted > most {
            let why = if self.scenario.idle {
                format!("{most} readers that sleep leave enough CPUs idle")
            } else {
                format!("{most} readers are what {cores} cores can run")
            };
            self.skip(format!("nreaders={wanted}"), why);
        }
        self.readers = wanted.min(most);
        self.fakewriters = fakewriters.min(most);
        self.odds.readers = u64::from(self.readers);
        self.long_every_ns = 4 * self.long_ns;
    }

    fn kinds(&mut self, world: World) {
        self.kinds = if self.scenario.gp_sync_only {
            vec![GpKind::Sync]
        } else {
            GpKind::ALL.to_vec()
        };
        let polled = |kind| matches!(kind, GpKind::PollGetExp | GpKind::PollGetExpFull);
        if self.scenario.flavour == Flavour::Rcu || world == World::Sim {
            self.leave_out(|kind| polled(kind).then_some("expedited grace periods cannot be polled yet"));
        }
    }

    /// Leaves out the kinds for which `refuses` has a reason; they are listed as skipped.
    pub fn leave_out(&mut self, refuses: impl Fn(GpKind) -> Option<&'static str>) {
        let refused: Vec<_> = self
            .kinds
            .iter()
            .filter_map(|&kind| Some((kind, refuses(kind)?)))
            .collect();
        self.kinds
            .retain(|kind| refused.iter().all(|(other, _)| other != kind));
        for (kind, why) in refused {
            self.skip(format!("gp_{}", kind.name()), why);
        }
        if self.kinds.is_empty() {
            self.kinds.push(GpKind::Sync);
        }
    }

    fn events(&mut self, seconds: f64) {
        self.fwd_progress = self.scenario.fwd_progress;
        if let Some(onoff) = self.scenario.onoff {
            let interval = f64::from(onoff.interval_jiffies) / f64::from(HZ);
            // Scenarios that ask for more of it keep getting more.
            let parts = if interval < 1.0 { 50.0 } else { 20.0 };
            self.onoff_every_ns = share(interval, seconds, parts);
            self.onoff_holdoff_ns = share(f64::from(onoff.holdoff_s), seconds, 10.0);
        }
        if let Some(stall) = self.scenario.stall_cpu {
            if seconds < MIN_STALL_RUN_S {
                self.skip(
                    format!("stall_cpu={}", stall.stall_s),
                    format!("it takes {STALL_S} s; runs of at least {MIN_STALL_RUN_S} s have it"),
                );
            } else {
                self.stall_ns = (STALL_S * S) as u64;
                self.stall_holdoff_ns = share(f64::from(stall.holdoff_s), seconds, 8.0);
            }
        }
    }

    fn limits_of(&mut self, world: World) {
        match world {
            World::Host => {
                self.skip(
                    "extendables=0x1f",
                    "a process cannot disable preemption, softirqs or interrupts",
                );
            }
            World::Sim => {
                self.odds.mask |= PREEMPT_OFF;
                self.odds.extend_one_in = 4;
                // Virtual time costs nothing while nobody runs, so there are more of them, and shorter ones.
                self.long_ns /= 2;
                self.long_every_ns = self.long_ns;
                self.skip(
                    "extendables=0x1b",
                    "disabled softirqs and interrupts are the same as disabled preemption here",
                );
                self.skip("read_exit_burst=16", "tasks of the simulated machine do not exit");
                self.skip(
                    "shuffle_interval=3",
                    "the simulated scheduler has no affinity masks",
                );
                self.read_exit_burst = 0;
                self.shuffle_ns = 0;
            }
        }
    }

    /// The parameters in force, as the first and the last line print them.
    pub fn parameters(&self) -> String {
        let s = |ns: u64| ns as f64 / S;
        let tun = self.config.tunables();
        format!(
            "nreaders={} nfakewriters={} stat_interval={} stutter={} shuffle_interval={} onoff_interval={} \
             onoff_holdoff={} n_barrier_cbs={} fwd_progress={} fwd_progress_holdoff={} fwd_progress_round={} \
             read_exit_delay={} read_exit_burst={} stall_cpu={} stall_cpu_holdoff={} long_delay={} nr_cpus={} \
             maxcpus={} HZ={} preempt={} rcu_fanout={} rcu_fanout_leaf={} seed={} seconds={}",
            self.readers,
            self.fakewriters,
            s(self.stat_ns),
            s(self.stutter_ns),
            s(self.shuffle_ns),
            s(self.onoff_every_ns),
            s(self.onoff_holdoff_ns),
            self.barrier_cbs,
            self.fwd_progress,
            s(self.fwd_holdoff_ns),
            s(self.fwd_round_ns),
            s(self.read_exit_ns),
            self.read_exit_burst,
            s(self.stall_ns),
            s(self.stall_holdoff_ns),
            s(self.long_ns),
            tun.nr_cpus,
            tun.maxcpus,
            tun.hz,
            tun.preempt.name(),
            tun.rcu_fanout,
            tun.rcu_fanout_leaf,
            self.seed,
            s(self.run_ns),
        )
    }

    /// A jiffy.
    pub fn jiffy_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.config.tunables().hz)
    }
}

/// A period of the half-hour test, but no more than a `parts`-th of this run, in ns.
fn share(period_s: f64, seconds: f64, parts: f64) -> u64 {
    (period_s.min(seconds / parts) * S) as u64
}

fn config(scenario: &Scenario) -> Result<Config> {
    let mut config = Config::new()
        .with("nr_cpus", i64::from(scenario.nr_cpus))?
        .with("maxcpus", i64::from(scenario.cpus))?
        .with("hz", i64::from(HZ))?
        .with("preempt", scenario.preempt.name())?
        .with("hz_periodic", scenario.periodic_ticks)?
        .with("rcu_fanout_exact", scenario.fanout_exact)?
        .with("gp_preinit_delay", i64::from(scenario.gp_delays.0))?
        .with("gp_init_delay", i64::from(scenario.gp_delays.1))?
        .with("gp_cleanup_delay", i64::from(scenario.gp_delays.2))?
        .with("kthread_prio", i64::from(scenario.kthread_prio))?;
    if let Some((fanout, leaf)) = scenario.fanout {
        config = config
            .with("rcu_fanout", i64::from(fanout))?
            .with("rcu_fanout_leaf", i64::from(leaf))?;
    }
    if scenario.wake_from_gp {
        config = config.with("rcu_normal_wake_from_gp", 1)?;
    }
    if scenario.stall_cpu.is_some() {
        config = config.with("rcu_cpu_stall_timeout", i64::from(STALL_TIMEOUT_S))?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::super::scenario::SCENARIOS;
    use super::*;

    #[test]
    fn every_scenario_has_a_plan_in_each_world_it_exists_in() {
        for scenario in SCENARIOS {
            for world in [World::Host, World::Sim] {
                if scenario.flavour == Flavour::Trivial && world == World::Sim {
                    assert!(Plan::new(scenario, 5.0, world, 1, 2).is_err());
                    continue;
                }
                for seconds in [1.0, 5.0, 60.0, 1800.0] {
                    let plan = Plan::new(scenario, seconds, world, 1, 2).unwrap();
                    assert!(plan.config.warnings().is_empty(), "{:?}", plan.config.warnings());
                    assert!(plan.readers > 0 && plan.fakewriters > 0 && !plan.kinds.is_empty());
                    assert!(plan.long_ns * 2 <= plan.run_ns && plan.fwd_round_ns * 2 <= plan.run_ns);
                    let listed = plan.stall_ns > 0
                        || scenario.stall_cpu.is_none()
                        || plan.skipped.iter().any(|skipped| skipped.name == "stall_cpu=14");
                    assert!(listed, "an injection that does not happen is listed");
                    for (name, _) in scenario.missing {
                        assert!(plan.skipped.iter().any(|skipped| skipped.name == *name));
                    }
                }
            }
        }
    }

    #[test]
    fn half_an_hour_has_the_scripts_own_values() {
        let plan = Plan::new(Scenario::named("TREE03").unwrap(), 1800.0, World::Host, 1, 8).unwrap();
        assert_eq!((plan.readers, plan.fakewriters), (15, 4));
        let s = |ns: u64| ns as f64 / 1e9;
        assert_eq!((s(plan.onoff_every_ns), s(plan.onoff_holdoff_ns)), (0.2, 30.0));
        assert_eq!(
            (s(plan.stutter_ns), s(plan.stat_ns), s(plan.long_ns)),
            (5.0, 15.0, 0.3)
        );
        assert_eq!(s(plan.fwd_holdoff_ns), 60.0);
        let plan = Plan::new(Scenario::named("TREE05").unwrap(), 60.0, World::Sim, 1, 2).unwrap();
        assert_eq!(
            (plan.readers, plan.fakewriters, plan.kinds),
            (7, 7, vec![GpKind::Sync])
        );
        for bad in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(Plan::new(Scenario::named("TREE01").unwrap(), bad, World::Host, 1, 2).is_err());
        }
    }
}
