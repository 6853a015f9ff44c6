//! The oracle: watches a run through [`treercu::sim::Observer`] and objects to every broken promise.
//!
//! It sees what happened (sights, in the order of the engine's own events) and, where it asks, the
//! whole tree afterwards. It keeps its own books: which read-side sections are open, when each CPU
//! was last quiescent, who is online, what each callback and caller waits for. The tree's words are
//! only compared with those books and with each other.
//!
//! | code | promise | file |
//! |---|---|---|
//! | I1 | no section and no busy CPU from before a call or callback is unfinished at its end | `calls.rs` |
//! | I2 | callbacks: once, in order per CPU, after a full grace period; none lost | `callbacks.rs` |
//! | I3, I4 | numbers: steps, and the order in which the copies change | `numbers.rs`, `cpus.rs` |
//! | I5 | owed bits: set at initialisation, cleared once and for a reason | `nodes.rs`, `credit.rs` |
//! | I6 | no grace period ends with bits owed or with a blocked reader from before it | `nodes.rs`, `readers.rs` |
//! | I7 | a quiescent state counts for the grace period in which it happened | `cpus.rs` |
//! | I8 | segments of the callback lists | `callbacks.rs` |
//! | I9 | no request is lost | `numbers.rs` |
//! | I10 | a CPU with callbacks keeps ticking; the run ends | `books.rs`, here |
//! | I11, I12 | direct wake: once, after a full grace period, five wait heads; the latch | `direct.rs` |
//! | I13 | hotplug: nothing waits for who is offline or came later; the masks follow | `hotplug.rs` |
//! | I14 | polled grace periods: monotone, never early, ended by either kind | `calls.rs`, `expedited.rs` |
//! | I15 | liveness: the kthread never sleeps on work, every call ends | here |
//! | I16 | a barrier returns after every callback queued before it | `calls.rs` |
//! | I17, T1 | no scan before its time; overload shortens the waits | `scans.rs` |
//! | I18 | the early report clears the kthread's own bit and no other | `scans.rs`, `credit.rs` |
//! | E1 | no section and no busy CPU from before an expedited call or grace period is unfinished at its end | `expedited.rs`, `calls.rs` |
//! | E2, E3 | expedited numbers; expedited masks and blocked readers | `expedited.rs` |
//! | S0 | the sights themselves make sense | `books.rs` |
//! | R | the run's records agree with what was seen | `records.rs` |
//!
//! A step of the kthread, a tick, a run of the RCU core are atomic in the simulated world, so the
//! state after each of them is a consistent one.

mod books;
mod callbacks;
mod calls;
mod coverage;
mod cpus;
mod credit;
mod direct;
mod expedited;
mod hotplug;
mod nodes;
mod number;
mod numbers;
mod readers;
mod records;
mod scans;

pub use coverage::Coverage;
pub use number::full_gp_from;

use super::shape::Shape;
use number::*;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use treercu::config::{Latch, Tunables};
use treercu::sim::{Control, Machine, Observer, Sight};
use treercu::stats::Resolution;
use treercu::tree::Snapshot;
use treercu::workload::SyncCallKind;

/// Sights kept per CPU for the report.
const KEEP: usize = 24;
/// After this many violations the run is not worth following.
const ENOUGH: usize = 12;
/// Longest single step of the kthread on any machine that the generator makes, ns.
const MAX_STEP_NS: u64 = 200_000;
/// Longest that the kthread may have something to do and not do it, ns.
const MAX_IDLE_KTHREAD_NS: u64 = 5_000_000_000;

/// What the oracle must know about the machine beforehand.
#[derive(Debug, Clone)]
pub struct Facts {
    pub nr_cpus: u32,
    pub online: u32,
    pub leaf: u32,
    pub fanout: u32,
    pub exact: bool,
    pub early_qs: bool,
    pub direct: bool,
    /// Readers can be preempted.
    pub preemptible: bool,
    pub latch: Latch,
    pub latch_threshold: i64,
    /// A direct call enters in one go, not step by step.
    pub atomic_calls: bool,
    pub hz: u32,
    /// Waits before the first and the later scans, jiffies.
    pub waits: (u64, u64),
    /// Callbacks from which a CPU counts as overloaded; 0 or less: never.
    pub qovld: i64,
    /// Grace periods that a CPU may lag; 0: too many to see.
    pub gpwrap_lag: u64,
    /// Some `gp_*_delay` is set.
    pub delays: bool,
    /// Virtual time by which the run must be over, ns.
    pub deadline_ns: u64,
}

impl Facts {
    pub fn of(t: &Tunables, m: &Machine, deadline_ns: u64) -> Facts {
        Facts {
            nr_cpus: t.nr_cpus,
            online: t.maxcpus.min(t.nr_cpus),
            leaf: t.rcu_fanout_leaf,
            fanout: t.rcu_fanout,
            exact: t.rcu_fanout_exact,
            early_qs: t.early_qs,
            direct: t.wake_from_gp,
            preemptible: t.preempt.is_preemptible(),
            latch: t.sr_normal_latch,
            latch_threshold: i64::from(t.sr_normal_latch_threshold),
            atomic_calls: m.srs_step_ns == 0,
            hz: t.hz,
            waits: (t.jiffies_till_first_fqs, t.jiffies_till_next_fqs),
            qovld: t.qovld,
            gpwrap_lag: t.gpwrap_lag,
            delays: t.gp_preinit_delay + t.gp_init_delay + t.gp_cleanup_delay > 0,
            deadline_ns,
        }
    }
}

/// One broken promise.
#[derive(Debug, Clone)]
pub struct Violation {
    /// As in the table above, with a short name: `I5.set`.
    pub code: &'static str,
    pub at_ns: u64,
    pub text: String,
    /// The sight at which it showed, and what went before on that CPU.
    pub context: String,
}

/// How a CPU was last seen to be quiescent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quiet {
    Eqs,
    Switch,
    Tick,
    /// The kthread itself was at a reschedule point here.
    Kthread,
    /// Long kernel code was at a reschedule point (without preemption).
    Point,
    /// An expedited caller was between two steps here.
    Caller,
    /// An expedited grace period's interrupt hit no section.
    Interrupt,
    /// It hit one, and that one is over.
    Unlock,
}

/// A callback that waits: when it was queued (sight count), number that must be over.
type Waiting = (u64, u64);

#[derive(Debug)]
struct Cpu {
    online: bool,
    /// In an extended quiescent state. Machines start idle.
    eqs: bool,
    /// The idle task is current (also while an interrupt runs on top of it).
    idle: bool,
    /// When it was last quiescent (sight count), and how; entry to and exit from an extended state count.
    quiet_at: u64,
    quiet_how: Quiet,
    /// When it last was, or may have been, in an extended quiescent state.
    eqs_at: u64,
    /// When the RCU core last ran here.
    core_at: u64,
    /// How the quiescent state that cleared `norm` came about; `None`: not known.
    recorded: Option<Resolution>,
    /// Callbacks queued here and not invoked: (id, …).
    callbacks: VecDeque<(u64, u64, u64)>,
    /// Callbacks taken over from dead CPUs, by id. They have lost their place.
    strays: BTreeMap<u64, Waiting>,
    /// Takeovers by this CPU.
    takeovers: u64,
    last_callback: Option<u64>,
    /// Since when callbacks wait without a tick here, ns.
    ticking_since: u64,
    recent: VecDeque<(u64, Sight)>,
}

impl Cpu {
    fn waiting(&self) -> u64 {
        (self.callbacks.len() + self.strays.len()) as u64
    }
}

/// A read-side section.
#[derive(Debug)]
struct Section {
    id: u64,
    /// Where it runs; `None` once its reader has been preempted and may be anywhere.
    cpu: Option<u32>,
    began: u64,
    /// Its reader was preempted inside it.
    queued: Option<Queued>,
}

/// A preempted reader.
#[derive(Debug, Clone, Copy)]
struct Queued {
    /// The leaf of the CPU where that happened.
    leaf: usize,
    cpu: u32,
    /// When (sight count).
    at: u64,
    /// The grace period in progress waits for it.
    blocks: bool,
}

#[derive(Debug, Clone)]
struct Call {
    cpu: u32,
    kind: SyncCallKind,
    direct: bool,
    began: u64,
    began_ns: u64,
    /// Number that must be over when it returns; of the polled number for `Poll`.
    needs: u64,
    /// `PollFull`: the expedited number that would do too.
    needs_exp: u64,
    completed: bool,
    /// Barrier: callbacks with smaller ids must have been invoked.
    watermark: u64,
    /// Barrier: there were some.
    had_callbacks: bool,
    /// Takeovers of callbacks before it began.
    migrations: u64,
    /// Its own callback, and whether that one was taken over.
    callback: Option<u64>,
    migrated: bool,
}

/// A finished call.
#[derive(Debug, Clone)]
struct Done {
    task: u32,
    cpu: u32,
    kind: SyncCallKind,
    direct: bool,
    migrated: bool,
    needs: u64,
    began: u64,
    began_ns: u64,
    ended: u64,
    ended_ns: u64,
}

/// A grace period as the oracle saw it.
#[derive(Debug, Clone)]
struct Gp {
    seq: u64,
    started: u64,
    started_ns: u64,
    ended: u64,
    ended_ns: u64,
    kthread_cpu: u32,
    /// No wait head was free at its start.
    pool_empty: bool,
    /// CPUs that may be the last hold-out by the event that emptied the root (empty: any), and how
    /// (`None` with `emptied`: not known).
    last: Vec<u32>,
    how: Option<Resolution>,
    emptied: bool,
    /// When the root recorded the end; callbacks and callers follow.
    cleanup_at: u64,
    /// Scans seen.
    scans: u64,
}

pub struct Oracle {
    facts: Facts,
    shape: Shape,
    control: Option<Arc<Control>>,
    count: u64,
    cpus: Vec<Cpu>,
    sections: Vec<Section>,
    section_ids: HashSet<u64>,
    calls: HashMap<u32, Call>,
    done: Vec<Done>,
    prev: Option<Snapshot>,
    gp: Option<Gp>,
    gps: Vec<Gp>,
    hotplug: hotplug::Masks,
    expedited: expedited::Expedited,
    readers: readers::Blocked,
    scans: scans::Scans,
    last_step: Option<(u32, u64)>,
    /// CPUs that have called into the engine since the last look: what they did to the tree shows at the
    /// next one.
    called: Vec<u32>,
    last_gp_end: u64,
    /// Since when the kthread has something to do and does nothing, ns.
    kthread_due: Option<u64>,
    /// Smallest callback id not seen yet.
    next_callback: u64,
    /// The task whose own callback is the next to be queued.
    entering: Option<u32>,
    /// Barriers that have begun and not returned.
    barriers: u64,
    /// Takeovers of callbacks.
    migrations: u64,
    queued: u64,
    invoked: u64,
    ticks: u64,
    switches: u64,
    direct_begun: u64,
    ended: Option<bool>,
    /// Stop after this many violations.
    pub enough: usize,
    /// Objections that count, by code; others are passed over.
    pub only: fn(&str) -> bool,
    violations: Vec<Violation>,
    pub coverage: Coverage,
}

fn cpu_of(sight: Sight) -> Option<u32> {
    match sight {
        Sight::SectionBegin { cpu, .. }
        | Sight::SyncBegin { cpu, .. }
        | Sight::CallbackQueued { cpu, .. }
        | Sight::CallbackInvoked { cpu, .. }
        | Sight::EqsEnter { cpu }
        | Sight::EqsExit { cpu }
        | Sight::ContextSwitch { cpu }
        | Sight::ReschedPoint { cpu }
        | Sight::Tick { cpu, .. }
        | Sight::Core { cpu }
        | Sight::GpStep { cpu }
        | Sight::ExpStep { cpu, .. }
        | Sight::ExpIpi { cpu }
        | Sight::CpuOnline { cpu }
        | Sight::CpuOffline { cpu }
        | Sight::CallbacksMigrated { to: cpu, .. } => Some(cpu),
        Sight::SectionEnd { .. }
        | Sight::SyncEnd { .. }
        | Sight::DirectComplete { .. }
        | Sight::Srcu { .. }
        | Sight::End { .. } => None,
    }
}

impl Observer for Oracle {
    fn see(&mut self, at_ns: u64, sight: Sight, snapshot: &dyn Fn() -> Snapshot) {
        if self.violations.len() >= self.enough {
            return;
        }
        self.count += 1;
        self.coverage.sights += 1;
        if at_ns > self.facts.deadline_ns && !matches!(sight, Sight::End { .. }) {
            self.overdue(at_ns, sight);
        }
        if self
            .kthread_due
            .is_some_and(|since| at_ns > since + MAX_IDLE_KTHREAD_NS)
        {
            self.kthread_due = None;
            let text = "the kthread has had something to do and has not done it".into();
            self.object("I15.kthread", at_ns, sight, None, text);
        }
        let pending = !self.called.is_empty() || self.readers.unlocked || !self.expedited.unlocked.is_empty();
        let look = self.book(at_ns, sight, snapshot);
        // The sight of a call comes before what the call does, that of an invocation between the parts of
        // the RCU core.
        let whole = !matches!(
            sight,
            Sight::SyncBegin { .. }
                | Sight::CallbackQueued { .. }
                | Sight::CallbackInvoked { .. }
                | Sight::SectionEnd { .. }
        );
        if look || (pending && whole) {
            let now = snapshot();
            self.look(at_ns, sight, now);
        }
        if let Some(cpu) = cpu_of(sight).or(match sight {
            Sight::SyncEnd { task } | Sight::DirectComplete { task } => self.calls.get(&task).map(|c| c.cpu),
            _ => None,
        }) {
            let recent = &mut self.cpus[cpu as usize].recent;
            if recent.len() == KEEP {
                recent.pop_front();
            }
            recent.push_back((at_ns, sight));
        }
    }
}

impl Oracle {
    pub fn new(facts: Facts) -> Oracle {
        let shape = Shape::new(facts.nr_cpus, facts.leaf, facts.fanout, facts.exact);
        let cpus = (0..facts.nr_cpus)
            .map(|cpu| Cpu {
                online: cpu < facts.online,
                eqs: true,
                idle: true,
                quiet_at: 0,
                quiet_how: Quiet::Eqs,
                eqs_at: 0,
                core_at: 0,
                recorded: None,
                callbacks: VecDeque::new(),
                strays: BTreeMap::new(),
                takeovers: 0,
                last_callback: None,
                ticking_since: 0,
                recent: VecDeque::with_capacity(KEEP),
            })
            .collect();
        let mut coverage = Coverage {
            runs: 1,
            ..Coverage::default()
        };
        coverage.levels[shape.levels as usize] = 1;
        Oracle {
            hotplug: hotplug::Masks::new(&shape, facts.online),
            expedited: expedited::Expedited::new(&shape, facts.online),
            readers: readers::Blocked::new(shape.nodes.len()),
            scans: scans::Scans::default(),
            facts,
            shape,
            control: None,
            count: 0,
            cpus,
            sections: Vec::new(),
            section_ids: HashSet::new(),
            calls: HashMap::new(),
            done: Vec::new(),
            prev: None,
            gp: None,
            gps: Vec::new(),
            last_step: None,
            called: Vec::new(),
            last_gp_end: 0,
            kthread_due: None,
            next_callback: 0,
            entering: None,
            barriers: 0,
            migrations: 0,
            queued: 0,
            invoked: 0,
            ticks: 0,
            switches: 0,
            direct_begun: 0,
            ended: None,
            enough: ENOUGH,
            only: |_| true,
            violations: Vec::new(),
            coverage,
        }
    }

    /// Lets the oracle end a run that has gone wrong, or that goes on for too long.
    pub fn with_control(mut self, control: Arc<Control>) -> Oracle {
        self.control = Some(control);
        self
    }

    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Beginning and end of the only finished call, ns.
    pub fn only_call(&self) -> (u64, u64) {
        assert_eq!(self.done.len(), 1);
        (self.done[0].began_ns, self.done[0].ended_ns)
    }

    /// Start and end of the only grace period, ns.
    pub fn only_gp(&self) -> (u64, u64) {
        assert_eq!(self.gps.len(), 1);
        (self.gps[0].started_ns, self.gps[0].ended_ns)
    }

    pub fn switches_seen(&self) -> u64 {
        self.switches
    }

    /// Everything found, as text.
    pub fn tell(&self) -> String {
        let mut text = format!("{} violation(s)\n", self.violations.len());
        for v in &self.violations {
            let _ = writeln!(
                text,
                "  [{}] at {} ns: {}\n{}",
                v.code, v.at_ns, v.text, v.context
            );
        }
        text
    }

    fn object(&mut self, code: &'static str, at_ns: u64, sight: Sight, cpu: Option<u32>, text: String) {
        if !(self.only)(code) {
            return;
        }
        let mut context = format!("    at {sight:?}");
        if let Some(cpu) = cpu.or(cpu_of(sight)) {
            let _ = write!(context, "\n    CPU {cpu} before that:");
            for (at, s) in &self.cpus[cpu as usize].recent {
                let _ = write!(context, "\n      {at:>12} {s:?}");
            }
        }
        self.violations.push(Violation {
            code,
            at_ns,
            text,
            context,
        });
        if self.violations.len() >= self.enough
            && let Some(control) = &self.control
        {
            control.cancel.store(true, Relaxed);
        }
    }

    fn overdue(&mut self, at_ns: u64, sight: Sight) {
        let mut text = format!("the run should be over; waiting: {:?}", self.calls);
        if let Some(p) = &self.prev {
            let _ = write!(
                text,
                "; gp_seq {} flags {} state {} masks {:x?} blockers {:?} srs {:?}",
                show(p.gp_seq),
                p.gp_flags,
                p.gp_state,
                p.nodes.iter().map(|n| n.qsmask).collect::<Vec<_>>(),
                p.nodes.iter().map(|n| n.gp_blockers.len()).collect::<Vec<_>>(),
                p.srs
            );
        }
        let cpu = self.last_step.map(|step| step.0);
        self.object("I15.deadline", at_ns, sight, cpu, text);
        if let Some(control) = &self.control {
            control.cancel.store(true, Relaxed);
        }
        // Say it once.
        self.facts.deadline_ns = u64::MAX;
    }

    fn first_look(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        let same = now.nodes.len() == self.shape.nodes.len()
            && now.cpus.len() == self.facts.nr_cpus as usize
            && now.nodes.iter().zip(&self.shape.nodes).all(|(n, p)| {
                n.level == p.level
                    && n.grplo == p.lo
                    && n.grphi == p.hi
                    && n.parent == p.parent
                    && n.grpmask == p.mask
            });
        if !same {
            let text = format!("expected {:?}, got {:?}", self.shape.nodes, now.nodes);
            self.object("I5.shape", at, sight, None, text);
        }
        for (index, n) in now.nodes.iter().enumerate() {
            let quiet = n.gp_seq == now.gp_seq
                && n.gp_seq_needed == now.gp_seq
                && n.completedqs == now.gp_seq
                && n.gp_blockers.is_empty()
                && n.exp_blockers.is_empty()
                && n.expmask == 0
                && !n.wait_blkd_tasks;
            if !quiet || n.qsmask != 0 || running(now.gp_seq) {
                self.object("I3.boot", at, sight, None, format!("node {index} at boot: {n:?}"));
            }
        }
        if now.gp_seq_polled != now.gp_seq || now.srs.count != 0 || now.srs.latched {
            let text = format!("polled {} srs {:?}", show(now.gp_seq_polled), now.srs);
            self.object("I3.boot", at, sight, None, text);
        }
        self.check_online(at, sight, now);
    }

    fn look(&mut self, at: u64, sight: Sight, now: Snapshot) {
        self.coverage.looks += 1;
        let Some(prev) = self.prev.take() else {
            self.first_look(at, sight, &now);
            self.prev = Some(now);
            return;
        };
        self.check_seq(at, sight, &prev, &now);
        self.check_polled(at, sight, &prev, &now);
        self.check_online(at, sight, &now);
        self.check_masks(at, sight, &prev, &now);
        let cleared = self.check_nodes(at, sight, &prev, &now);
        self.check_readers(at, sight, &prev, &now);
        self.check_links(at, sight, &now);
        self.check_cleared(at, sight, &prev, &now, &cleared);
        self.check_order(at, sight, &now);
        self.check_requests(at, sight, &now);
        self.check_early(at, sight, &prev, &now, &cleared);
        self.check_wait(at, sight, &prev, &now);
        self.check_cpus(at, sight, &prev, &now);
        self.check_expedited(at, sight, &prev, &now);
        self.check_srs(at, sight, &prev, &now);
        self.check_latch(at, sight, &prev, &now);
        self.watch_kthread(at, sight, &prev, &now);
        self.called.clear();
        self.readers.unlocked = false;
        self.readers.floated = false;
        self.expedited.unlocked.clear();
        self.prev = Some(now);
    }

    /// I15: with something to do the kthread does not sleep on. And what it does at all.
    fn watch_kthread(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let due = if running(now.gp_seq) {
            now.gp_state != WAIT_FQS || root_done(now)
        } else {
            now.gp_flags & INIT_FLAG != 0
        };
        let stepped = matches!(sight, Sight::GpStep { .. });
        if !due {
            self.kthread_due = None;
        } else if stepped || self.kthread_due.is_none() {
            self.kthread_due = Some(at);
        }
        let Sight::GpStep { cpu } = sight else { return };
        if let Some((last, last_at)) = self.last_step {
            if prev.gp_state == INIT && now.gp_state == INIT && last != cpu {
                self.coverage.moved_in_init += 1;
            }
            let period = 1_000_000_000 / u64::from(self.facts.hz);
            let busy = (ONOFF..=INIT).contains(&prev.gp_state) || prev.gp_state == CLEANUP;
            self.coverage.delays += u64::from(self.facts.delays && busy && at >= last_at + period);
        }
        self.last_step = Some((cpu, at));
    }

    fn at_end(&mut self, at: u64, sight: Sight, interrupted: bool) {
        if interrupted {
            return;
        }
        let mut waiting: Vec<_> = self.calls.iter().map(|(t, c)| (*t, c.clone())).collect();
        waiting.sort_by_key(|w| w.0);
        for (task, call) in waiting {
            let text = format!("task {task} never returned: {call:?}");
            self.object("I15.stuck", at, sight, Some(call.cpu), text);
        }
        for cpu in 0..self.facts.nr_cpus {
            self.tick_gap(at, sight, cpu);
        }
    }
}

/// Nobody is waited for any more.
fn root_done(now: &Snapshot) -> bool {
    now.nodes[0].qsmask == 0 && now.nodes[0].gp_blockers.is_empty()
}
