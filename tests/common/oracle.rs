//! The oracle: watches a run through [`treercu::sim::Observer`] and objects to every broken promise.
//!
//! It sees what happened (sights, in the order of the engine's own events) and, where it asks, the
//! whole tree afterwards. It keeps its own books: which read-side sections are open, when each CPU
//! was last quiescent, what each callback and caller waits for. The tree's words are only compared
//! with those books and with each other.
//!
//! | code | promise |
//! |---|---|
//! | I1 | no section and no busy CPU from before a call or callback is unfinished at its end |
//! | I2 | callbacks: once, in order per CPU, after a full grace period |
//! | I3, I4 | numbers: steps, and the order in which the copies change |
//! | I5, I6 | owed bits: set at initialisation, cleared once and for a reason, none left at the end |
//! | I7 | a quiescent state counts for the grace period in which it happened |
//! | I8 | segments of the callback lists |
//! | I9 | no request is lost |
//! | I10 | who waits is served; a CPU with callbacks keeps ticking |
//! | I11 | direct wake: once, after a full grace period, at most five wait heads, none leaked |
//! | I18 | the early report clears the kthread's own bit and no other |
//! | S0 | the sights themselves make sense (no section in an extended quiescent state …) |
//! | T1 | no scan before its time |
//! | R | the run's records agree with what was seen |
//!
//! A step of the kthread, a tick, a run of the RCU core are atomic in the simulated world, so the
//! state after each of them is a consistent one.

use super::shape::Shape;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use treercu::config::{Latch, Tunables};
use treercu::sim::{Control, Observer, Sight};
use treercu::stats::{Resolution, Run};
use treercu::tree::{CpuSnapshot, NodeSnapshot, Snapshot};

/// Sights kept per CPU for the report.
const KEEP: usize = 24;
/// After this many violations the run is not worth following.
const ENOUGH: usize = 12;

/// Longest single step of the kthread on any machine that the generator makes, beside one node, ns.
const MAX_STEP_NS: u64 = 200_000;

const INIT_FLAG: u32 = 1;
const FQS_FLAG: u32 = 2;
// gp_state
const IDLE: u32 = 0;
const DONE_GPS: u32 = 2;
const ONOFF: u32 = 3;
const INIT: u32 = 4;
const WAIT_FQS: u32 = 5;
const DOING_FQS: u32 = 6;
const CLEANUP: u32 = 7;
const CLEANED: u32 = 8;
// segments
const DONE: usize = 0;
const WAIT: usize = 1;
const NEXT_READY: usize = 2;
const NEXT: usize = 3;

// The arithmetic of grace-period numbers, from its description: two low bits state, distance modulo
// the word, later means at most half the range ahead.

/// `a - b` as a signed distance.
fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}
fn at_or_after(a: u64, b: u64) -> bool {
    ahead(a, b) >= 0
}
fn running(s: u64) -> bool {
    !s.is_multiple_of(4)
}
/// The number with which the grace period after (or in) `s` ends.
fn end_of(s: u64) -> u64 {
    (s / 4).wrapping_mul(4).wrapping_add(4)
}
/// The number by which a grace period that starts after now will have ended.
pub fn full_gp_from(s: u64) -> u64 {
    if running(s) {
        end_of(s).wrapping_add(4)
    } else {
        end_of(s)
    }
}
fn show(s: u64) -> String {
    format!("{}", s as i64)
}

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
    /// A latch may send callers to the callback route in a flood.
    pub latch: bool,
    pub hz: u32,
    /// Waits before the first and the later scans, jiffies.
    pub waits: (u64, u64),
    /// Callbacks from which a CPU counts as overloaded; 0 or less: never.
    pub qovld: i64,
    /// Virtual time by which the run must be over, ns.
    pub deadline_ns: u64,
}

impl Facts {
    pub fn of(t: &Tunables, deadline_ns: u64) -> Facts {
        Facts {
            nr_cpus: t.nr_cpus,
            online: t.maxcpus.min(t.nr_cpus),
            leaf: t.rcu_fanout_leaf,
            fanout: t.rcu_fanout,
            exact: t.rcu_fanout_exact,
            early_qs: t.early_qs,
            direct: t.wake_from_gp,
            latch: t.sr_normal_latch != Latch::Off,
            hz: t.hz,
            waits: (t.jiffies_till_first_fqs, t.jiffies_till_next_fqs),
            qovld: t.qovld,
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

/// What a run came across; a test that never meets a case proves nothing about it.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub runs: u64,
    pub sights: u64,
    pub looks: u64,
    pub grace_periods: u64,
    /// By `Resolution` code.
    pub resolved: [u64; 5],
    pub direct_calls: u64,
    pub callback_calls: u64,
    pub callbacks: u64,
    /// By number of levels, 1 to 4.
    pub levels: [u64; 5],
    pub early_reports: u64,
    /// The report was due and declined: the kthread had moved.
    pub early_declined: u64,
    pub scans: u64,
    pub max_scans: u64,
    /// A scan left a hold-out.
    pub scan_left_holdout: u64,
    /// Looks at which the worker had something to do.
    pub worker: u64,
    /// Grace periods at whose start all five wait heads were taken.
    pub heads_exhausted: u64,
    pub max_heads: u32,
    /// The counter went through zero.
    pub wrapped: u64,
    pub next_ready_used: u64,
    pub next_while_both_numbered: u64,
    /// A batch left ready callbacks behind.
    pub batch_split: u64,
    pub max_list: u64,
    /// A grace period that followed without a pause.
    pub back_to_back: u64,
    /// The kthread's CPU changed inside initialisation.
    pub moved_in_init: u64,
    /// A quiescent state that came too late for its grace period and was given up.
    pub qs_given_up: u64,
    /// Sections open at the start of a grace period.
    pub sections_spanned: u64,
    /// Callers whose begin fell into a running grace period.
    pub began_inside_gp: u64,
    /// Grace periods on a tree with offline CPUs.
    pub offline_gps: u64,
    /// Sections seen.
    pub sections: u64,
    /// Runs of the RCU core in ksoftirqd.
    pub ksoftirqd: u64,
    /// Batches that were not over with the run of the RCU core that began them.
    pub long_batches: u64,
    /// Grace periods noticed inside call_rcu(), by the flood rule.
    pub noticed_in_call: u64,
    /// Scans that somebody asked for before they were due.
    pub forced_scans: u64,
    /// Requests that had to wait for a second grace period, for want of a wait head.
    pub put_off: u64,
}

macro_rules! add_fields {
    ($a:ident, $b:ident; $($f:ident)*; $($m:ident)*) => {
        $( $a.$f += $b.$f; )*
        $( $a.$m = $a.$m.max($b.$m); )*
    };
}

impl Coverage {
    pub fn add(&mut self, o: &Coverage) {
        let a = self;
        add_fields!(a, o; runs sights looks grace_periods direct_calls callback_calls callbacks early_reports
            early_declined scans scan_left_holdout worker heads_exhausted wrapped next_ready_used
            next_while_both_numbered batch_split back_to_back moved_in_init qs_given_up sections_spanned
            began_inside_gp offline_gps sections ksoftirqd long_batches noticed_in_call
            forced_scans put_off; max_scans max_heads max_list);
        a.resolved.iter_mut().zip(o.resolved).for_each(|(x, y)| *x += y);
        a.levels.iter_mut().zip(o.levels).for_each(|(x, y)| *x += y);
    }
}

/// How a CPU was last seen to be quiescent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quiet {
    Eqs,
    Switch,
    Tick,
    /// The kthread itself was at a reschedule point here.
    Kthread,
}

#[derive(Debug)]
struct Cpu {
    /// In an extended quiescent state. Machines start idle.
    eqs: bool,
    /// The idle task is current (also while an interrupt runs on top of it).
    idle: bool,
    /// When it was last quiescent (sight count), and how; entry to and exit from an extended state count.
    quiet_at: u64,
    quiet_how: Quiet,
    /// When it last was in an extended quiescent state.
    eqs_at: u64,
    /// When the RCU core last ran here.
    core_at: u64,
    /// How the quiescent state that cleared `norm` came about.
    recorded: Option<Resolution>,
    /// Callbacks queued and not invoked: (id, sight count, number that must be over).
    callbacks: VecDeque<(u64, u64, u64)>,
    last_callback: Option<u64>,
    /// Since when callbacks wait without a tick here, ns.
    ticking_since: u64,
    recent: VecDeque<(u64, Sight)>,
}

#[derive(Debug)]
struct Section {
    id: u64,
    cpu: u32,
    began: u64,
}

#[derive(Debug, Clone)]
struct Call {
    cpu: u32,
    direct: bool,
    began: u64,
    began_ns: u64,
    /// Number that must be over when it returns.
    needs: u64,
    completed: bool,
}

/// A finished call.
#[derive(Debug, Clone)]
struct Done {
    task: u32,
    cpu: u32,
    direct: bool,
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
    /// CPUs whose bits were cleared by the event that emptied the root, and how.
    last: Vec<u32>,
    how: Option<Resolution>,
    /// When the root recorded the end; callbacks and callers follow.
    cleanup_at: u64,
}

/// The kthread's sleep before a scan.
#[derive(Debug, Clone, Default)]
struct Wait {
    /// It is to begin, with this length in jiffies.
    length: Option<u64>,
    /// Jiffy before which no scan is due.
    due: u64,
    /// Somebody asked for a scan.
    asked: bool,
    /// Some leaf has been scanned since the sleep.
    in_scan: bool,
}

pub struct Oracle {
    facts: Facts,
    shape: Shape,
    /// Online CPUs of each leaf, and which children of an inner node have any.
    owed: Vec<u64>,
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
    last_step_cpu: Option<u32>,
    /// CPUs that have called `call_rcu()` since the last look: what they did to the tree shows at the next one.
    called: Vec<u32>,
    last_gp_end: u64,
    wait: Wait,
    queued: u64,
    invoked: u64,
    ticks: u64,
    switches: u64,
    direct_begun: u64,
    ended: Option<bool>,
    /// Stop after this many violations.
    pub enough: usize,
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
        | Sight::Tick { cpu, .. }
        | Sight::Core { cpu }
        | Sight::GpStep { cpu } => Some(cpu),
        Sight::SectionEnd { .. }
        | Sight::SyncEnd { .. }
        | Sight::DirectComplete { .. }
        | Sight::End { .. } => None,
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            bit
        })
    })
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
        let called = self.called.len();
        let look = self.book(at_ns, sight, snapshot);
        // The sight of a call comes before what the call does, that of an invocation between the parts of
        // the RCU core.
        let whole = !matches!(
            sight,
            Sight::SyncBegin { .. } | Sight::CallbackQueued { .. } | Sight::CallbackInvoked { .. }
        );
        if look || (called > 0 && whole) {
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
        let mut owed = vec![0u64; shape.nodes.len()];
        for cpu in 0..facts.online {
            owed[shape.leaf_of[cpu as usize]] |= shape.bit(cpu);
        }
        for index in (1..owed.len()).rev() {
            if owed[index] != 0 {
                owed[shape.nodes[index].parent.expect("not the root")] |= shape.nodes[index].mask;
            }
        }
        let cpus = (0..facts.nr_cpus)
            .map(|_| Cpu {
                eqs: true,
                idle: true,
                quiet_at: 0,
                quiet_how: Quiet::Eqs,
                eqs_at: 0,
                core_at: 0,
                recorded: None,
                callbacks: VecDeque::new(),
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
            facts,
            shape,
            owed,
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
            last_step_cpu: None,
            called: Vec::new(),
            last_gp_end: 0,
            wait: Wait::default(),
            queued: 0,
            invoked: 0,
            ticks: 0,
            switches: 0,
            direct_begun: 0,
            ended: None,
            enough: ENOUGH,
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

    /// Panics with everything found, and a line that runs this machine again.
    pub fn assert_clean(&self, name: &str, replay: &str) {
        if self.violations.is_empty() {
            return;
        }
        let mut text = format!("{name}: {} violation(s)\n", self.violations.len());
        for v in &self.violations {
            let _ = writeln!(
                text,
                "  [{}] at {} ns: {}\n{}",
                v.code, v.at_ns, v.text, v.context
            );
        }
        panic!("{text}replay: {replay}");
    }

    fn object(&mut self, code: &'static str, at_ns: u64, sight: Sight, cpu: Option<u32>, text: String) {
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
                "; gp_seq {} flags {} state {} masks {:x?} srs {:?}",
                show(p.gp_seq),
                p.gp_flags,
                p.gp_state,
                p.nodes.iter().map(|n| n.qsmask).collect::<Vec<_>>(),
                p.srs
            );
        }
        self.object("I10.deadline", at_ns, sight, self.last_step_cpu, text);
        if let Some(control) = &self.control {
            control.cancel.store(true, Relaxed);
        }
        // Say it once.
        self.facts.deadline_ns = u64::MAX;
    }

    // ------------------------------------------------------------------------------------------
    // The books.
    // ------------------------------------------------------------------------------------------

    fn quiet(&mut self, cpu: u32, how: Quiet) {
        let c = &mut self.cpus[cpu as usize];
        c.quiet_at = self.count;
        c.quiet_how = how;
        if how == Quiet::Eqs {
            c.eqs_at = self.count;
        }
    }

    /// Enters the sight into the books. True: the tree may have changed in a way worth a look.
    fn book(&mut self, at: u64, sight: Sight, snapshot: &dyn Fn() -> Snapshot) -> bool {
        if self.prev.is_none() && !matches!(sight, Sight::End { .. }) {
            // The state before anything: nothing that the first sight did can have ended a grace period.
            let first = snapshot();
            self.first_look(at, sight, &first);
            self.prev = Some(first);
        }
        match sight {
            Sight::SectionBegin { id, cpu } => {
                self.coverage.sections += 1;
                if !self.section_ids.insert(id) {
                    self.object(
                        "S0.section-id",
                        at,
                        sight,
                        None,
                        format!("section {id} began twice"),
                    );
                }
                if self.cpus[cpu as usize].eqs {
                    self.object(
                        "S0.section-in-eqs",
                        at,
                        sight,
                        None,
                        format!("section {id} begins while RCU does not watch CPU {cpu}"),
                    );
                }
                self.sections.push(Section {
                    id,
                    cpu,
                    began: self.count,
                });
                false
            }
            Sight::SectionEnd { id } => {
                match self.sections.iter().position(|s| s.id == id) {
                    Some(i) => {
                        self.sections.swap_remove(i);
                    }
                    None => self.object(
                        "S0.section-end",
                        at,
                        sight,
                        None,
                        format!("section {id} was not open"),
                    ),
                }
                false
            }
            Sight::EqsEnter { cpu } => {
                if self.cpus[cpu as usize].eqs && self.seen_eqs(cpu) {
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
                self.no_open_section(at, sight, cpu, "switches tasks");
                self.cpus[cpu as usize].idle = false;
                self.quiet(cpu, Quiet::Switch);
                self.norm_known(cpu)
            }
            Sight::Tick { cpu, user } => {
                self.ticks += 1;
                if cpu >= self.facts.online {
                    self.object("S0.offline", at, sight, None, "a tick on an offline CPU".into());
                }
                self.tick_gap(at, sight, cpu);
                // Quiescent: user mode, or kernel code outside sections; never the idle task.
                if !self.cpus[cpu as usize].idle && (user || !self.tick_hits_section(cpu)) {
                    self.quiet(cpu, Quiet::Tick);
                }
                self.norm_known(cpu)
            }
            Sight::Core { cpu } => {
                self.coverage.ksoftirqd += u64::from(self.sections.iter().all(|s| s.cpu != cpu));
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
            Sight::SyncBegin { task, cpu, direct } => {
                if direct != self.facts.direct && !(self.facts.latch && self.facts.direct) {
                    self.object("I11.route", at, sight, None, format!("route direct={direct}"));
                }
                if self.cpus[cpu as usize].eqs {
                    self.object(
                        "S0.eqs",
                        at,
                        sight,
                        None,
                        "a call from where RCU does not watch".into(),
                    );
                }
                self.no_open_section(at, sight, cpu, "calls synchronize_rcu()");
                let seq = self.known_seq();
                self.coverage.began_inside_gp += u64::from(running(seq));
                self.direct_begun += u64::from(direct);
                if direct {
                    self.coverage.direct_calls += 1;
                } else {
                    self.coverage.callback_calls += 1;
                }
                let call = Call {
                    cpu,
                    direct,
                    began: self.count,
                    began_ns: at,
                    needs: full_gp_from(seq),
                    completed: false,
                };
                if self.calls.insert(task, call).is_some() {
                    self.object("S0.call", at, sight, None, format!("task {task} called twice"));
                }
                self.called.push(cpu);
                false
            }
            Sight::DirectComplete { task } => {
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
                self.queued += 1;
                self.coverage.callbacks += 1;
                let needs = full_gp_from(self.known_seq());
                let count = self.count;
                let c = &mut self.cpus[cpu as usize];
                let in_order = c.last_callback.is_none_or(|last| id > last);
                c.last_callback = Some(id);
                if c.callbacks.is_empty() {
                    c.ticking_since = at;
                }
                c.callbacks.push_back((id, count, needs));
                if !in_order {
                    self.object(
                        "S0.callback-id",
                        at,
                        sight,
                        None,
                        format!("callback {id} out of order"),
                    );
                }
                self.called.push(cpu);
                false
            }
            Sight::CallbackInvoked { cpu, id } => {
                self.callback_invoked(at, sight, cpu, id);
                false
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

    fn seen_eqs(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].eqs_at > 0
    }

    /// `rs.gp_seq`: it changes only in steps of the kthread, each of which is looked at.
    fn known_seq(&self) -> u64 {
        self.prev.as_ref().map_or(0, |p| p.gp_seq)
    }

    fn norm_known(&self, cpu: u32) -> bool {
        self.prev.as_ref().is_some_and(|p| p.cpus[cpu as usize].norm)
    }

    /// A tick interrupts a section: one other than the interrupt's own is open, or the RCU core has run
    /// since that one began, so that the tick hits softirq processing.
    fn tick_hits_section(&self, cpu: u32) -> bool {
        let mut open = self.sections.iter().filter(|s| s.cpu == cpu);
        let own = open.next().map_or(0, |s| s.began);
        open.next().is_some() || self.cpus[cpu as usize].core_at > own
    }

    fn no_open_section(&mut self, at: u64, sight: Sight, cpu: u32, what: &str) {
        if let Some(id) = self.sections.iter().find(|s| s.cpu == cpu).map(|s| s.id) {
            self.object(
                "S0.open-section",
                at,
                sight,
                None,
                format!("CPU {cpu} {what} inside section {id}"),
            );
        }
    }

    /// I10: where callbacks wait, ticks come.
    fn tick_gap(&mut self, at: u64, sight: Sight, cpu: u32) {
        let period = 1_000_000_000 / u64::from(self.facts.hz);
        let c = &mut self.cpus[cpu as usize];
        let gap = at.saturating_sub(c.ticking_since);
        c.ticking_since = at;
        // A tick that was stopped comes back one period ahead; interrupts may delay it.
        if !c.callbacks.is_empty() && gap > 2 * period + 3_000_000 {
            let text = format!(
                "{gap} ns without a tick on CPU {cpu}, which has {} callbacks",
                c.callbacks.len()
            );
            self.object("I10.tick", at, sight, None, text);
        }
    }

    /// Sections and CPUs that were busy before sight `since` and are not through yet.
    fn leftover(&self, since: u64) -> Option<(&'static str, u32, String)> {
        if let Some(s) = self.sections.iter().find(|s| s.began < since) {
            return Some((
                "section",
                s.cpu,
                format!(
                    "section {} on CPU {} began before it and is still open",
                    s.id, s.cpu
                ),
            ));
        }
        (0..self.facts.online).find_map(|cpu| {
            let c = &self.cpus[cpu as usize];
            (!c.eqs && c.quiet_at < since).then(|| {
                (
                    "cpu",
                    cpu,
                    format!("CPU {cpu} has not been quiescent since (last {:?})", c.quiet_how),
                )
            })
        })
    }

    fn call_ends(&mut self, at: u64, sight: Sight, task: u32, call: Call) {
        if let Some((kind, cpu, why)) = self.leftover(call.began) {
            let code = if kind == "section" {
                "I1.sync-section"
            } else {
                "I1.sync-cpu"
            };
            self.object(
                code,
                at,
                sight,
                Some(cpu),
                format!("synchronize_rcu() of task {task} returns; {why}"),
            );
        }
        if call.direct && !call.completed {
            self.object(
                "I11.once",
                at,
                sight,
                Some(call.cpu),
                format!("task {task} returns without a completion"),
            );
        }
        // The root's copy ends first, rs.gp_seq last; a callback may run in between.
        let over = self.prev.as_ref().map_or(0, |p| p.nodes[0].gp_seq);
        if !at_or_after(over, call.needs) {
            let text = format!(
                "task {task} returns at {}, needs {}",
                show(over),
                show(call.needs)
            );
            self.object("I1.sync-early", at, sight, Some(call.cpu), text);
        }
        self.done.push(Done {
            task,
            cpu: call.cpu,
            direct: call.direct,
            began: call.began,
            began_ns: call.began_ns,
            ended: self.count,
            ended_ns: at,
        });
    }

    fn callback_invoked(&mut self, at: u64, sight: Sight, cpu: u32, id: u64) {
        self.invoked += 1;
        let front = self.cpus[cpu as usize].callbacks.front().copied();
        let Some((first, queued, needs)) = front.filter(|f| f.0 == id) else {
            let callbacks = &mut self.cpus[cpu as usize].callbacks;
            let place = callbacks.iter().position(|c| c.0 == id);
            if let Some(place) = place {
                callbacks.remove(place);
                let text = format!("callback {id} invoked before {:?}", front.map(|f| f.0));
                self.object("I2.order", at, sight, None, text);
            } else {
                let text = format!("callback {id} is not queued on CPU {cpu} (any more)");
                self.object("I2.once", at, sight, None, text);
            }
            return;
        };
        debug_assert_eq!(first, id);
        self.cpus[cpu as usize].callbacks.pop_front();
        let leaf = self.shape.leaf_of[cpu as usize];
        let over = self.prev.as_ref().map_or(0, |p| p.nodes[leaf].gp_seq);
        if !at_or_after(over, needs) {
            let text = format!("callback {id} invoked at {}, needs {}", show(over), show(needs));
            self.object("I2.early", at, sight, None, text);
        }
        if let Some((kind, other, why)) = self.leftover(queued) {
            let code = if kind == "section" {
                "I1.callback-section"
            } else {
                "I1.callback-cpu"
            };
            self.object(
                code,
                at,
                sight,
                Some(other),
                format!("callback {id} invoked; {why}"),
            );
        }
    }

    // ------------------------------------------------------------------------------------------
    // The tree.
    // ------------------------------------------------------------------------------------------

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
            let quiet =
                n.gp_seq == now.gp_seq && n.gp_seq_needed == now.gp_seq && n.completedqs == now.gp_seq;
            if !quiet || n.qsmask != 0 || running(now.gp_seq) {
                self.object("I3.boot", at, sight, None, format!("node {index} at boot: {n:?}"));
            }
            let online = if self.shape.is_leaf(index) {
                self.owed[index]
            } else {
                0
            };
            if n.qsmaskinitnext != online {
                let text = format!(
                    "leaf {index} regards {:x} as online, not {online:x}",
                    n.qsmaskinitnext
                );
                self.object("I5.online", at, sight, None, text);
            }
        }
    }

    fn look(&mut self, at: u64, sight: Sight, now: Snapshot) {
        self.coverage.looks += 1;
        let Some(prev) = self.prev.take() else {
            self.first_look(at, sight, &now);
            self.prev = Some(now);
            return;
        };
        self.check_seq(at, sight, &prev, &now);
        let cleared = self.check_nodes(at, sight, &prev, &now);
        self.check_cleared(at, sight, &prev, &now, &cleared);
        self.check_order(at, sight, &now);
        self.check_requests(at, sight, &now);
        self.check_early(at, sight, &prev, &now, &cleared);
        self.check_wait(at, sight, &prev, &now);
        self.check_cpus(at, sight, &prev, &now);
        self.check_srs(at, sight, &prev, &now);
        if let Sight::GpStep { cpu } = sight {
            if prev.gp_state == INIT && now.gp_state == INIT && self.last_step_cpu.is_some_and(|c| c != cpu) {
                self.coverage.moved_in_init += 1;
            }
            self.last_step_cpu = Some(cpu);
        }
        self.called.clear();
        self.prev = Some(now);
    }

    /// I3: steps of `rs.gp_seq`.
    fn check_seq(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
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
            (1, false) => {
                self.coverage.sections_spanned += self.sections.len() as u64;
                self.coverage.back_to_back += u64::from(self.last_gp_end + 1 == self.count);
                self.coverage.offline_gps += u64::from(self.facts.online < self.facts.nr_cpus);
                let pool_empty = prev.srs.heads_in_use == 5;
                self.coverage.heads_exhausted += u64::from(pool_empty);
                if pool_empty && now.srs.wait_tail {
                    self.object("I11.heads", at, sight, None, "a sixth wait head".into());
                }
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
                    cleanup_at: 0,
                });
            }
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
                    if gp.how.is_none() && self.facts.online > 0 {
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

    /// I5, I6, and the growth of the nodes' words (I3). Returns which bits each node lost.
    fn check_nodes(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) -> Vec<(usize, u64)> {
        let mut cleared = Vec::new();
        let by_kthread = matches!(sight, Sight::GpStep { .. });
        for (index, (p, n)) in prev.nodes.iter().zip(&now.nodes).enumerate() {
            if p == n {
                continue;
            }
            let mut before = p.qsmask;
            match ahead(n.gp_seq, p.gp_seq) {
                0 => {}
                1 if !running(p.gp_seq) => {
                    // The start of a grace period at this node.
                    if p.qsmask != 0 {
                        let text = format!("node {index} starts with {:x} still owed", p.qsmask);
                        self.object("I6.start", at, sight, None, text);
                    }
                    if n.qsmaskinit != self.owed[index] {
                        let text = format!(
                            "node {index} starts with {:x}, online is {:x}",
                            n.qsmaskinit, self.owed[index]
                        );
                        self.object("I5.init", at, sight, None, text);
                    }
                    if now.gp_state != INIT && prev.gp_state != INIT {
                        let text = format!("node {index} starts in gp_state {}", now.gp_state);
                        self.object("I4.state", at, sight, None, text);
                    }
                    before = n.qsmaskinit;
                }
                3 if running(p.gp_seq) => {
                    if p.qsmask != 0 || n.qsmask != 0 {
                        let text = format!("node {index} ends with {:x} owed", p.qsmask | n.qsmask);
                        self.object("I6.end", at, sight, None, text);
                    }
                    if index == 0 {
                        // With a single node the number ends in the same step, above.
                        let count = self.count;
                        if let Some(gp) = self.gp.as_mut().or(self.gps.last_mut()) {
                            gp.cleanup_at = count;
                        }
                    }
                }
                _ => {
                    let text = format!("node {index} {} -> {}", show(p.gp_seq), show(n.gp_seq));
                    self.object("I3.node-step", at, sight, None, text);
                }
            }
            if n.gp_seq != p.gp_seq && !by_kthread {
                self.object(
                    "I3.who",
                    at,
                    sight,
                    None,
                    format!("node {index} changes its number"),
                );
            }
            let set = n.qsmask & !before;
            if set != 0 {
                self.object("I5.set", at, sight, None, format!("node {index} gains {set:x}"));
            }
            let gone = before & !n.qsmask;
            if gone != 0 {
                cleared.push((index, gone));
            }
            if !at_or_after(n.completedqs, p.completedqs) {
                let text = format!(
                    "node {index} completedqs {} -> {}",
                    show(p.completedqs),
                    show(n.completedqs)
                );
                self.object("I3.completedqs", at, sight, None, text);
            }
            if !at_or_after(n.gp_seq_needed, p.gp_seq_needed) {
                let text = format!(
                    "node {index} needed {} -> {}",
                    show(p.gp_seq_needed),
                    show(n.gp_seq_needed)
                );
                self.object("I9.needed", at, sight, None, text);
            }
            if n.qsmaskinitnext != p.qsmaskinitnext {
                self.object(
                    "I5.online",
                    at,
                    sight,
                    None,
                    format!("node {index} changes who is online"),
                );
            }
            if n.qsmaskinit != p.qsmaskinit && now.gp_state != ONOFF && prev.gp_state != ONOFF {
                let text = format!("node {index} changes qsmaskinit in gp_state {}", now.gp_state);
                self.object("I5.init", at, sight, None, text);
            }
        }
        // A node's bit in its parent stands exactly as long as the node owes something (no reader
        // is ever queued on a node here, and one report climbs as far as it can).
        if running(now.gp_seq) {
            for (index, n) in now.nodes.iter().enumerate() {
                let started = n.gp_seq == now.gp_seq;
                let ended = ahead(n.gp_seq, now.gp_seq) == 3;
                if started && self.owed[index] != 0 && (n.qsmask == 0) != (n.completedqs == n.gp_seq) {
                    let text = format!(
                        "node {index} owes {:x}, completedqs {} at {}",
                        n.qsmask,
                        show(n.completedqs),
                        show(n.gp_seq)
                    );
                    self.object("I5.completedqs", at, sight, None, text);
                }
                if let Some(parent) = self.shape.nodes[index].parent
                    && self.owed[index] != 0
                {
                    let q = &now.nodes[parent];
                    if q.gp_seq != now.gp_seq {
                        continue; // the parent has not started, or has ended, this one
                    }
                    let bit = q.qsmask & self.shape.nodes[index].mask != 0;
                    let owes = if started { n.qsmask != 0 } else { !ended };
                    if bit != owes {
                        let text = format!(
                            "node {index} (number {}, owes {:x}) {} in its parent's {:x}",
                            show(n.gp_seq),
                            n.qsmask,
                            if bit { "still stands" } else { "is missing" },
                            q.qsmask
                        );
                        self.object("I5.parent", at, sight, None, text);
                    }
                }
            }
        } else if let Some((index, n)) = now.nodes.iter().enumerate().find(|(_, n)| n.qsmask != 0) {
            let text = format!("no grace period, and node {index} owes {:x}", n.qsmask);
            self.object("I6.idle", at, sight, None, text);
        }
        cleared
    }

    /// I5, I7, I18: every CPU's bit was cleared by somebody entitled to, and for a reason.
    fn check_cleared(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
        cleared: &[(usize, u64)],
    ) {
        let mut cpus = Vec::new();
        for &(index, mask) in cleared {
            if self.shape.is_leaf(index) {
                cpus.extend(bits(mask).map(|b| self.shape.nodes[index].lo + b));
            }
        }
        if cpus.is_empty() {
            return;
        }
        let since = self.gp.as_ref().map_or(0, |gp| gp.started);
        let mut how = None;
        for &cpu in &cpus {
            // The plain form of the guarantee, whoever reported it: nothing of before is going on there.
            if let Some(s) = self.sections.iter().find(|s| s.cpu == cpu && s.began < since) {
                let text = format!("CPU {cpu} is credited inside section {}", s.id);
                self.object("I1.credit-section", at, sight, Some(cpu), text);
            }
            let c = &self.cpus[cpu as usize];
            let (eqs, eqs_at, quiet_at, recorded) = (c.eqs, c.eqs_at, c.quiet_at, c.recorded);
            if !eqs && quiet_at < since {
                let text = format!("CPU {cpu} is credited and has not been quiescent in this grace period");
                self.object("I1.credit-cpu", at, sight, Some(cpu), text);
            }
            match sight {
                Sight::Core { cpu: own } => {
                    let p = &prev.cpus[cpu as usize];
                    let leaf = &prev.nodes[self.shape.leaf_of[cpu as usize]];
                    if own != cpu {
                        let text = format!("the RCU core of CPU {own} clears CPU {cpu}");
                        self.object("I5.who", at, sight, Some(cpu), text);
                    } else if p.norm || !p.core_needs_qs || p.gp_seq != leaf.gp_seq || p.gpwrap {
                        let text = format!(
                            "CPU {cpu} reports in state {p:?}, its leaf is at {}",
                            show(leaf.gp_seq)
                        );
                        self.object("I7.report", at, sight, None, text);
                    }
                    how = recorded;
                }
                // Initialisation: only the kthread's own CPU, by the early report.
                Sight::GpStep { cpu: own } if prev.gp_state == INIT => {
                    how = Some(Resolution::EarlyReport);
                    if own != cpu {
                        self.object(
                            "I18.other",
                            at,
                            sight,
                            Some(cpu),
                            format!("the early report clears CPU {cpu}"),
                        );
                    } else if !self.facts.early_qs {
                        self.object(
                            "I18.off",
                            at,
                            sight,
                            None,
                            "an early report, though it is off".into(),
                        );
                    } else {
                        self.coverage.early_reports += 1;
                        let c = &now.cpus[cpu as usize];
                        let leaf = &now.nodes[self.shape.leaf_of[cpu as usize]];
                        if c.gp_seq != leaf.gp_seq || c.gpwrap {
                            let text = format!(
                                "CPU {cpu} knows {}, its leaf is at {}, yet the report went through",
                                show(c.gp_seq),
                                show(leaf.gp_seq)
                            );
                            self.object("I18.mismatch", at, sight, None, text);
                        }
                    }
                }
                // A scan: an extended quiescent state, now or since the start.
                Sight::GpStep { .. } => {
                    how = Some(Resolution::IdleScan);
                    if !eqs && eqs_at < since {
                        let text = format!("the scan credits CPU {cpu}, which was not idle since the start");
                        self.object("I5.scan", at, sight, Some(cpu), text);
                    }
                }
                _ => {
                    self.object("I5.who", at, sight, Some(cpu), format!("CPU {cpu}'s bit goes"));
                }
            }
        }
        if now.nodes[0].qsmask == 0
            && let Some(gp) = &mut self.gp
        {
            gp.last = cpus;
            gp.how = how;
            if let Some(how) = how {
                self.coverage.resolved[how as usize] += 1;
            }
        }
    }

    /// I4: root first, level by level, at the start and at the end; the end everywhere before `rs` and
    /// before any start.
    fn check_order(&mut self, at: u64, sight: Sight, now: &Snapshot) {
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
            state == IDLE || state == 1 || state == DONE_GPS || state == CLEANED
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
        if state == CLEANUP && now.nodes[0].qsmask != 0 {
            let text = format!("clean-up with {:x} owed at the root", now.nodes[0].qsmask);
            self.object("I6.cleanup", at, sight, None, text);
        }
    }

    /// I9.
    fn check_requests(&mut self, at: u64, sight: Sight, now: &Snapshot) {
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

    /// I18, the other half: where the report is due, it comes.
    fn check_early(
        &mut self,
        at: u64,
        sight: Sight,
        prev: &Snapshot,
        now: &Snapshot,
        cleared: &[(usize, u64)],
    ) {
        let Sight::GpStep { cpu } = sight else { return };
        let last = self.shape.nodes.len() - 1;
        let finished = now.nodes[last].gp_seq == now.gp_seq && prev.nodes[last].gp_seq != now.gp_seq;
        if !finished || !running(now.gp_seq) || !self.facts.early_qs {
            return;
        }
        // The step that initialised the last node ends the initialisation; the report belongs to it.
        let leaf = self.shape.leaf_of[cpu as usize];
        let knows = now.cpus[cpu as usize].gp_seq == now.nodes[leaf].gp_seq;
        let stands = now.nodes[leaf].qsmask & self.shape.bit(cpu) != 0;
        if knows && stands {
            let text =
                format!("CPU {cpu} finished the initialisation and knows its number, but its bit stands");
            self.object("I18.missing", at, sight, None, text);
        }
        if !knows && cleared.is_empty() {
            self.coverage.early_declined += 1;
        }
    }

    /// T1: a scan comes when its wait is over, or when somebody asked for it (or a CPU is overloaded).
    fn check_wait(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        if running(now.gp_seq) && !running(prev.gp_seq) {
            self.wait = Wait::default();
        }
        self.wait.asked |= now.gp_flags & FQS_FLAG != 0;
        if !matches!(sight, Sight::GpStep { .. }) || !running(now.gp_seq) {
            return;
        }
        let jiffies = at / (1_000_000_000 / u64::from(self.facts.hz));
        let (first, next) = self.facts.waits;
        if prev.gp_state == INIT && now.gp_state != INIT {
            // Initialised: the first wait is to begin.
            self.wait.length = Some(first);
        }
        if now.gp_state == WAIT_FQS {
            // It begins once; who wakes early goes back to sleep for the rest.
            if let Some(length) = self.wait.length.take() {
                self.wait.due = jiffies + length;
            }
            self.wait.in_scan = false;
        }
        if prev.gp_state == DOING_FQS && now.gp_state == DOING_FQS {
            // A leaf is scanned.
            if !std::mem::replace(&mut self.wait.in_scan, true) {
                let overload = self.facts.qovld > 0 && self.coverage.max_list as i64 >= self.facts.qovld;
                let early = match self.wait.length {
                    Some(length) => length > 0,
                    None => jiffies < self.wait.due,
                };
                if early && self.wait.asked {
                    self.coverage.forced_scans += 1;
                } else if early && !overload {
                    let text = format!("a scan in jiffy {jiffies}: {:?}", self.wait);
                    self.object("T1.early", at, sight, None, text);
                }
                self.wait.asked = false;
            }
            self.wait.length = Some(next);
        }
    }

    /// I3 (copies of the CPUs), I7, I8.
    fn check_cpus(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        for (cpu, (p, n)) in prev.cpus.iter().zip(&now.cpus).enumerate() {
            if p == n {
                continue;
            }
            let cpu = cpu as u32;
            let leaf = self.shape.leaf_of[cpu as usize];
            self.check_cpu_seq(at, sight, cpu, p, n, &prev.nodes[leaf], &now.nodes[leaf]);
            if p.cblist_len != n.cblist_len
                || p.seglen != n.seglen
                || p.seg_gp_seq != n.seg_gp_seq
                || p.in_batch != n.in_batch
            {
                self.check_list(at, sight, cpu, p, n, now);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn check_cpu_seq(
        &mut self,
        at: u64,
        sight: Sight,
        cpu: u32,
        p: &CpuSnapshot,
        n: &CpuSnapshot,
        leaf_before: &NodeSnapshot,
        leaf: &NodeSnapshot,
    ) {
        let bit = self.shape.bit(cpu);
        let owed = leaf.qsmask & bit != 0;
        // Distrusted numbers (as at boot) are taken over afresh even where they are the same.
        let noticed = n.gp_seq != p.gp_seq || (p.gpwrap && !n.gpwrap);
        if noticed {
            self.coverage.noticed_in_call += u64::from(self.called.contains(&cpu) && running(n.gp_seq));
            let here = self.called.contains(&cpu)
                || match sight {
                    Sight::Core { cpu: c } | Sight::GpStep { cpu: c } => c == cpu,
                    _ => false,
                };
            if !here {
                self.object(
                    "I3.who",
                    at,
                    sight,
                    Some(cpu),
                    format!("CPU {cpu} changes its number"),
                );
            }
            // In call_rcu() it took over what its leaf had then.
            let from_leaf =
                n.gp_seq == leaf.gp_seq || (self.called.contains(&cpu) && n.gp_seq == leaf_before.gp_seq);
            if !from_leaf || !at_or_after(n.gp_seq, p.gp_seq) {
                let text = format!(
                    "CPU {cpu} {} -> {}, leaf {}",
                    show(p.gp_seq),
                    show(n.gp_seq),
                    show(leaf.gp_seq)
                );
                self.object("I3.cpu", at, sight, Some(cpu), text);
            }
            let credited = leaf_before.qsmask & bit != 0 && !owed;
            // It noticed inside call_rcu() and blocked at once.
            let switched = self.called.contains(&cpu) && sight == Sight::ContextSwitch { cpu };
            if switched && owed && n.core_needs_qs && !n.norm {
                self.cpus[cpu as usize].recorded = Some(Resolution::ContextSwitch);
            } else if running(n.gp_seq) && !credited && (n.norm != owed || n.core_needs_qs != owed) {
                let text = format!("CPU {cpu} noticed {} (owed: {owed}) and is {n:?}", show(n.gp_seq));
                self.object("I7.notice", at, sight, Some(cpu), text);
            }
        }
        if !at_or_after(leaf.gp_seq, n.gp_seq) {
            let text = format!("CPU {cpu} at {}, leaf at {}", show(n.gp_seq), show(leaf.gp_seq));
            self.object("I3.cpu", at, sight, Some(cpu), text);
        }
        if n.core_needs_qs && !running(n.gp_seq) {
            let text = format!("CPU {cpu} is asked for a quiescent state at {}", show(n.gp_seq));
            self.object("I7.notice", at, sight, Some(cpu), text);
        }
        if n.gpwrap && !p.gpwrap {
            // Nobody can be a quarter of the range behind in such a run.
            self.object(
                "I3.wrap",
                at,
                sight,
                Some(cpu),
                format!("CPU {cpu} distrusts its numbers"),
            );
        }
        if p.norm && !n.norm && (!noticed || owed) {
            let how = match sight {
                Sight::Tick { cpu: c, .. } if c == cpu && self.cpus[cpu as usize].quiet_at == self.count => {
                    Some(Resolution::Tick)
                }
                Sight::ContextSwitch { cpu: c } if c == cpu => Some(Resolution::ContextSwitch),
                Sight::GpStep { cpu: c } if c == cpu => Some(Resolution::EarlyReport),
                _ => None,
            };
            if how.is_none() {
                let text = format!("CPU {cpu} records a quiescent state that it did not have");
                self.object("I7.record", at, sight, Some(cpu), text);
            }
            self.cpus[cpu as usize].recorded = how;
        }
        if !p.norm && n.norm && !noticed {
            // Given up: it belonged to another grace period.
            self.coverage.qs_given_up += 1;
        }
    }

    fn check_list(
        &mut self,
        at: u64,
        sight: Sight,
        cpu: u32,
        p: &CpuSnapshot,
        n: &CpuSnapshot,
        now: &Snapshot,
    ) {
        let total: u64 = n.seglen.iter().sum();
        let books = self.cpus[cpu as usize].callbacks.len() as u64;
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
        if (!n.in_batch && n.cblist_len != books) || n.cblist_len < books {
            wrong.push("length differs from what was queued and not invoked");
        }
        for text in wrong {
            self.object(
                "I8.list",
                at,
                sight,
                Some(cpu),
                format!("CPU {cpu}: {text}: {n:?}, books {books}"),
            );
        }
        if total > books {
            return; // reported above
        }
        // Which callbacks sit where follows from the order of queueing. The newest of each segment asks
        // the most.
        let leaf = self.shape.leaf_of[cpu as usize];
        let mut place = (books - total) as usize;
        for segment in [DONE, WAIT, NEXT_READY] {
            let len = n.seglen[segment] as usize;
            if len == 0 {
                continue;
            }
            place += len;
            let (id, _, needs) = self.cpus[cpu as usize].callbacks[place - 1];
            let number = if segment == DONE {
                now.nodes[leaf].gp_seq
            } else {
                n.seg_gp_seq[segment]
            };
            if !at_or_after(number, needs) {
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

    /// I11.
    fn check_srs(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let (p, n) = (&prev.srs, &now.srs);
        self.coverage.worker += u64::from(n.cleanups_pending > p.cleanups_pending);
        self.coverage.max_heads = self.coverage.max_heads.max(n.heads_in_use);
        if n.heads_in_use > 5 {
            self.object(
                "I11.heads",
                at,
                sight,
                None,
                format!("{} wait heads in use", n.heads_in_use),
            );
        }
        if n.wait_tail && !running(now.gp_seq) {
            self.object(
                "I11.wait-tail",
                at,
                sight,
                None,
                "a wait tail outside a grace period".into(),
            );
        }
        if n.wait_tail && !p.wait_tail && (!running(now.gp_seq) || running(prev.gp_seq)) {
            self.object(
                "I11.wait-tail",
                at,
                sight,
                None,
                "a wait tail set inside a grace period".into(),
            );
        }
        if p.done_tail && !n.done_tail {
            self.object("I11.done-tail", at, sight, None, "the done tail is gone".into());
        }
        let linked = u32::from(n.wait_tail) + u32::from(n.done_tail);
        if n.heads_in_use < linked || (n.cleanups_pending == 0 && n.heads_in_use != linked) {
            let text = format!("{n:?}: with no worker pending the tails are all that is in use");
            self.object("I11.heads", at, sight, None, text);
        }
    }

    // ------------------------------------------------------------------------------------------
    // The end.
    // ------------------------------------------------------------------------------------------

    fn at_end(&mut self, at: u64, sight: Sight, interrupted: bool) {
        if interrupted {
            return;
        }
        let mut waiting: Vec<_> = self.calls.iter().map(|(t, c)| (*t, c.clone())).collect();
        waiting.sort_by_key(|w| w.0);
        for (task, call) in waiting {
            let text = format!("task {task} never returned: {call:?}");
            self.object("I10.stuck", at, sight, Some(call.cpu), text);
        }
        for cpu in 0..self.facts.nr_cpus {
            self.tick_gap(at, sight, cpu);
        }
    }

    /// Compares the run's records with what was seen. Call after the run.
    pub fn check_run(&mut self, run: &Run) {
        let sight = Sight::End {
            interrupted: run.interrupted,
        };
        let at = run.virtual_ns;
        let mut wrong: Vec<(&'static str, String)> = Vec::new();
        if self.ended != Some(run.interrupted) {
            wrong.push((
                "R.end",
                format!("end seen: {:?}, run interrupted: {}", self.ended, run.interrupted),
            ));
        }
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
        if columns.iter().any(|&c| c != g.len()) {
            wrong.push(("R.columns", format!("{columns:?} of {}", g.len())));
            self.report(at, sight, wrong);
            return;
        }
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
            let off =
                |recorded: i64, seen: u64| recorded.abs_diff(seen as i64) > MAX_STEP_NS + run.machine.node_ns;
            // On a machine where a node costs nothing, a grace period may.
            if g.start_ns[i] >= g.end_ns[i] + i64::from(run.machine.node_ns == 0)
                || (i > 0 && g.start_ns[i] < g.end_ns[i - 1])
                || off(g.start_ns[i], seen.started_ns)
                || off(g.end_ns[i], seen.ended_ns)
            {
                wrong.push(("R.gp-time", row.clone()));
            }
            let how = seen.how.map_or(Resolution::Nobody as i32, |h| h as i32);
            let cpu_fits = match seen.how {
                None => g.holdout_cpu[i] == -1,
                Some(_) => seen.last.iter().any(|&c| c as i32 == g.holdout_cpu[i]),
            };
            if g.resolved_by[i] != how || !cpu_fits {
                wrong.push(("R.resolution", row.clone()));
            }
            if g.scans[i] < 0
                || (seen.how == Some(Resolution::IdleScan) && g.scans[i] == 0)
                || g.requests[i] < 0
            {
                wrong.push(("R.scans", row));
            }
        }
        // Samples: one per finished call, released by a grace period that started behind its beginning
        // and was over (at the leaves at least) before its end.
        let s = &run.samples;
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
        for i in 0..s.len() {
            *released.entry(s.gp_seq[i]).or_default() += 1;
            let row = format!(
                "sample {i}: task {} cpu {} {}..{} latency {} gp {}",
                s.task[i], s.cpu[i], s.start_ns[i], s.end_ns[i], s.latency_ns[i], s.gp_seq[i]
            );
            let Some(d) = self.done.get(i) else {
                break; // reported above
            };
            if *names.entry(d.task).or_insert(s.task[i]) != s.task[i] {
                wrong.push(("R.sample", format!("{row}; seen {d:?}")));
            }
            if s.latency_ns[i] != s.end_ns[i] - s.start_ns[i]
                || s.latency_ns[i] <= 0
                || s.cpu[i] != d.cpu as i32
                || s.start_ns[i] > d.began_ns as i64
                || s.end_ns[i] != d.ended_ns as i64
            {
                wrong.push(("R.sample", format!("{row}; seen {d:?}")));
            }
            if d.direct {
                // Taken along by the first grace period behind its beginning that found a wait head.
                let behind = self.gps.partition_point(|gp| gp.started <= d.began);
                let served = self.gps[behind..].iter().position(|gp| !gp.pool_empty);
                let expected = served.map(|k| self.gps[behind + k].seq as i64);
                self.coverage.put_off += u64::from(served.is_some_and(|k| k > 0));
                if expected != Some(s.gp_seq[i]) {
                    wrong.push(("I11.late", format!("{row}; call {d:?} belongs to {expected:?}")));
                }
            }
            match by_seq.get(&s.gp_seq[i]).map(|&g| &self.gps[g]) {
                Some(gp) if gp.started > d.began && gp.cleanup_at < d.ended => {}
                // Callbacks run as soon as the leaves know; the run may stop before rs does.
                None if self
                    .gp
                    .as_ref()
                    .is_some_and(|gp| gp.seq as i64 == s.gp_seq[i] && gp.cleanup_at > 0) => {}
                other => wrong.push((
                    "R.sample-gp",
                    format!("{row}; call {d:?}, grace period {other:?}"),
                )),
            }
        }
        for (i, &requests) in g.requests.iter().enumerate() {
            let samples = released.get(&g.gp_seq[i]).copied().unwrap_or(0);
            if requests < samples || (!run.interrupted && requests != samples) {
                wrong.push((
                    "R.requests",
                    format!("{} released {requests} calls, {samples} samples", g.gp_seq[i]),
                ));
            }
        }
        let c = &run.counters;
        for (name, counter, seen) in [
            ("grace_periods", c.grace_periods, self.gps.len() as u64),
            ("callbacks_queued", c.callbacks_queued, self.queued),
            ("callbacks_invoked", c.callbacks_invoked, self.invoked),
            ("direct_wakes", c.direct_wakes, self.direct_begun),
            ("ticks", c.ticks, self.ticks),
            // A pass of ksoftirqd ends with a quiescent state that is shown as a switch and not counted.
            (
                "context_switches",
                c.context_switches,
                self.switches.min(c.context_switches),
            ),
        ] {
            if counter != seen {
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
        self.report(at, sight, wrong);
    }

    fn report(&mut self, at: u64, sight: Sight, wrong: Vec<(&'static str, String)>) {
        for (code, text) in wrong.into_iter().take(2 * ENOUGH) {
            self.object(code, at, sight, None, text);
        }
    }
}
