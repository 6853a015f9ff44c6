//! The driver as tasks of the simulated machine. One thread, so the same seed gives the same counters.
//!
//! | file | tasks |
//! |---|---|
//! | `writer.rs` | the writer, the fake writers |
//! | `reader.rs` | readers, and one that stays too long |
//! | `barrier.rs` | barrier test |
//! | `forward.rs` | forward-progress test |
//! | `onoff.rs` | CPUs that come and go |
//! | `gp.rs` | waiting by each kind of grace period |
//! | `rig.rs` | what they share |
//! | `busted.rs` | an RCU that must fail |

mod barrier;
mod busted;
mod forward;
mod gp;
mod onoff;
mod reader;
mod rig;
mod writer;

use super::World;
use super::plan::Plan;
use super::random::Random;
use super::report::{Report, Scribe};
use super::scenario::Flavour;
use crate::control::Control;
use crate::error::Result;
use crate::sim::Machine;
use crate::sim::guest::{Guest, Hands, Step, run_guest};
use crate::sync::Ordering::Relaxed;
use busted::{Busted, BustedHands};
use rig::{Rig, Task};

/// Virtual time after the end by which everybody has to be gone, ns.
const END_NS: u64 = 30_000_000_000;

struct Torture<'a> {
    rig: Rig,
    tasks: Vec<Box<dyn Task>>,
    busted: Option<Busted>,
    scribe: Scribe,
    printed: u64,
    /// Stalls reported so far.
    stalls: u64,
    control: &'a Control,
}

impl Torture<'_> {
    fn crew(rig: &Rig) -> Vec<Box<dyn Task>> {
        let plan = &rig.plan;
        let mut tasks: Vec<Box<dyn Task>> = Vec::new();
        let random = |tasks: &Vec<Box<dyn Task>>| rig.random(tasks.len());
        for index in 0..plan.readers as usize {
            tasks.push(Box::new(reader::Reader::new(index, random(&tasks))));
        }
        tasks.push(Box::new(writer::Writer::new(random(&tasks))));
        for index in 0..plan.fakewriters as usize {
            tasks.push(Box::new(writer::FakeWriter::new(index, rig, random(&tasks))));
        }
        if plan.barrier_cbs > 0 {
            for _ in 0..plan.barrier_cbs {
                tasks.push(Box::new(barrier::Poster::default()));
            }
            tasks.push(Box::new(barrier::Barrier::new()));
        }
        for index in 0..plan.fwd_progress as usize {
            tasks.push(Box::new(forward::Forward::new(index, random(&tasks))));
        }
        if plan.onoff_every_ns > 0 {
            tasks.push(Box::new(onoff::OnOff::new(random(&tasks))));
        }
        if plan.stall_ns > 0 {
            tasks.push(Box::new(reader::Staller::default()));
        }
        tasks
    }
}

impl Guest for Torture<'_> {
    fn next(&mut self, index: u32, hands: &mut dyn Hands) -> Step {
        let task = &mut self.tasks[index as usize];
        let Some(busted) = &mut self.busted else {
            return task.step(&mut self.rig, hands);
        };
        let mut broken = BustedHands {
            inner: hands,
            busted,
            index,
        };
        let step = task.step(&mut self.rig, &mut broken);
        // Its callbacks come at once, and its waits are over before they begin.
        while let Some(id) = broken.busted.due.pop() {
            self.rig.callback(id, &mut broken);
        }
        let over = broken.busted.released.contains(&index);
        if step == Step::Wait && over {
            Step::Run(1)
        } else {
            step
        }
    }

    fn callback(&mut self, id: u64, hands: &mut dyn Hands) {
        self.rig.callback(id, hands);
    }

    fn look(&mut self, now: u64, gp_seq: u64, stalls: u64) -> bool {
        let plan = &self.rig.plan;
        self.control.done.store(now.min(plan.run_ns), Relaxed);
        if now / plan.stat_ns > self.printed && !self.rig.is_over(now) {
            self.printed = now / plan.stat_ns;
            self.scribe
                .stats(&self.rig.ledger.counters(), self.rig.writer_state, gp_seq);
        }
        if stalls > self.stalls && !self.rig.stalling {
            let new = stalls - self.stalls;
            self.rig
                .ledger
                .warn(|| format!("{new} stalls that nobody injected"));
        }
        self.stalls = stalls;
        self.rig.ledger.stalls.store(stalls, Relaxed);
        now < plan.run_ns + END_NS
    }
}

/// Tortures the engine on a simulated machine as planned. What goes wrong is in the report.
///
/// # Errors
///
/// [`crate::error::Error::Config`] when the machine cannot be simulated.
pub fn torture(plan: Plan, control: &Control) -> Result<Report> {
    let scribe = Scribe::start(&plan);
    let rig = Rig::new(plan.clone());
    let tasks = Torture::crew(&rig);
    let cpus = u64::from(plan.config.tunables().maxcpus);
    let mut random = Random::new(plan.seed, u64::MAX);
    let jiffy = plan.jiffy_ns();
    let starts: Vec<(u32, u64)> = (0..tasks.len() as u64)
        .map(|index| ((index % cpus) as u32, random.below(jiffy)))
        .collect();
    control.total.store(plan.run_ns, Relaxed);
    let mut torture = Torture {
        rig,
        tasks,
        busted: (plan.scenario.flavour == Flavour::Busted).then(Busted::default),
        scribe,
        printed: 0,
        stalls: 0,
        control,
    };
    let machine = Machine::default();
    let run = run_guest(&plan.config, &machine, &starts, plan.seed, &mut torture, control)?;
    let ledger = torture.rig.ledger;
    if let Some(why) = &run.stuck {
        ledger.warn(|| format!("the machine got stuck: {why}"));
    } else if run.virtual_ns >= plan.run_ns + END_NS {
        ledger.warn(|| {
            format!(
                "tasks were still there {} s after the end",
                END_NS / 1_000_000_000
            )
        });
    }
    ledger.pipe.retract();
    Ok(torture
        .scribe
        .end(plan, World::Sim, &ledger, run.virtual_ns, run.interrupted))
}
