//! A machine of four CPUs and two leaves whose story is told by hand.

use crate::common::oracle::{Facts, Oracle};
use treercu::config::Latch;
use treercu::sim::{Observer, Sight};
use treercu::tree::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
use treercu::workload::SyncCallKind;

/// The number at boot, -1200.
pub const BOOT: u64 = 0u64.wrapping_sub(1200);
/// Where the kthread runs; CPU 1 sits in the first leaf (node 1).
pub const G: u32 = 1;
pub const ROOT: usize = 0;
pub const LEAF0: usize = 1;
pub const LEAF1: usize = 2;

pub struct Story {
    pub oracle: Oracle,
    pub tree: Snapshot,
    pub at: u64,
    pub section: u64,
    pub early: bool,
    pub direct: bool,
}

fn node(level: u32, lo: u32, hi: u32, parent: Option<usize>, mask: u64) -> NodeSnapshot {
    NodeSnapshot {
        level,
        grplo: lo,
        grphi: hi,
        parent,
        grpmask: mask,
        gp_seq: BOOT,
        gp_seq_needed: BOOT,
        completedqs: BOOT,
        qsmask: 0,
        qsmaskinit: 0,
        qsmaskinitnext: if level == 1 { 0b11 } else { 0 },
        gp_blockers: Vec::new(),
        wait_blkd_tasks: false,
        expmask: 0,
        expmaskinit: 0,
        exp_blockers: Vec::new(),
    }
}

pub fn facts(early_qs: bool, direct: bool) -> Facts {
    Facts {
        nr_cpus: 4,
        online: 4,
        leaf: 2,
        fanout: 64,
        exact: false,
        early_qs,
        direct,
        preemptible: true,
        latch: Latch::Off,
        latch_threshold: 3,
        atomic_calls: true,
        hz: 1000,
        waits: (1, 1),
        qovld: 20_000,
        gpwrap_lag: 0,
        delays: false,
        deadline_ns: 1_000_000_000,
    }
}

impl Story {
    /// Four idle CPUs, nothing requested.
    pub fn new(early: bool, direct: bool) -> Story {
        Story::with(early, direct, |_| {})
    }

    /// The same with other facts.
    pub fn with(early: bool, direct: bool, change: impl FnOnce(&mut Facts)) -> Story {
        let mut facts = facts(early, direct);
        change(&mut facts);
        let cpu = CpuSnapshot {
            gp_seq: BOOT,
            gp_seq_needed: BOOT,
            norm: false,
            core_needs_qs: false,
            gpwrap: false,
            cblist_len: 0,
            seglen: [0; 4],
            seg_gp_seq: [0; 4],
            in_batch: false,
            exp_owed: false,
        };
        let tree = Snapshot {
            gp_seq: BOOT,
            gp_flags: 0,
            gp_state: 1,
            nodes: vec![
                node(0, 0, 3, None, 0),
                node(1, 0, 1, Some(0), 0b01),
                node(1, 2, 3, Some(0), 0b10),
            ],
            cpus: vec![cpu; 4],
            srs: SrsSnapshot {
                heads_in_use: 0,
                wait_tail: false,
                done_tail: false,
                cleanups_pending: 0,
                count: 0,
                latched: false,
            },
            gp_seq_polled: BOOT,
            expedited_sequence: 0,
        };
        let mut story = Story {
            oracle: Oracle::new(facts),
            tree,
            at: 0,
            section: 1000,
            early,
            direct,
        };
        // Something harmless, so that the oracle has seen the state at boot.
        story.see(Sight::EqsExit { cpu: 3 });
        story.see(Sight::ContextSwitch { cpu: 3 });
        story.sleep(3);
        story
    }

    pub fn see(&mut self, sight: Sight) {
        self.at += 1_000;
        let tree = self.tree.clone();
        self.oracle.see(self.at, sight, &|| tree.clone());
    }

    /// The idle CPU switches to a task.
    pub fn wake(&mut self, cpu: u32) {
        self.see(Sight::EqsExit { cpu });
        self.see(Sight::ContextSwitch { cpu });
    }

    /// The task blocks, the CPU goes idle.
    pub fn sleep(&mut self, cpu: u32) {
        // A context switch records the quiescent state.
        self.tree.cpus[cpu as usize].norm = false;
        self.see(Sight::ContextSwitch { cpu });
        self.see(Sight::EqsEnter { cpu });
    }

    pub fn step(&mut self) {
        self.see(Sight::GpStep { cpu: G });
    }

    /// Task 7 on CPU 2 calls and goes to sleep; a grace period is requested for it.
    pub fn call(&mut self) {
        self.wake(2);
        self.see(Sight::SyncBegin {
            task: 7,
            cpu: 2,
            direct: self.direct,
            kind: SyncCallKind::Sync,
        });
        if self.direct {
            self.ask(BOOT + 4);
        } else {
            let c = &mut self.tree.cpus[2];
            c.cblist_len = 1;
            c.seglen = [0, 0, 0, 1];
            self.see(Sight::CallbackQueued { cpu: 2, id: 0 });
        }
        self.sleep(2);
        if !self.direct {
            // The next tick finds the callback, numbers it and asks.
            self.interrupt(2, |s| {
                s.see(Sight::Tick { cpu: 2, user: false });
                s.ask(BOOT + 4);
                let c = &mut s.tree.cpus[2];
                c.seglen = [0, 1, 0, 0];
                c.seg_gp_seq = [0, BOOT + 4, BOOT + 4, 0];
                s.see(Sight::Core { cpu: 2 });
            });
        }
    }

    /// Task 7 calls again, directly.
    pub fn call_again(&mut self) {
        self.wake(2);
        self.see(Sight::SyncBegin {
            task: 7,
            cpu: 2,
            direct: true,
            kind: SyncCallKind::Sync,
        });
        self.ask(self.tree.gp_seq + 4);
        self.sleep(2);
    }

    /// An interrupt out of idle.
    pub fn interrupt(&mut self, cpu: u32, handler: impl FnOnce(&mut Story)) {
        self.see(Sight::EqsExit { cpu });
        self.hard(cpu, handler);
        self.see(Sight::EqsEnter { cpu });
    }

    /// An interrupt of a task: its handler and softirqs are a read-side section.
    pub fn hard(&mut self, cpu: u32, handler: impl FnOnce(&mut Story)) {
        self.section += 1;
        let id = self.section;
        self.see(Sight::SectionBegin { id, cpu });
        handler(self);
        self.see(Sight::SectionEnd { id });
    }

    pub fn ask(&mut self, number: u64) {
        for index in [LEAF1, ROOT] {
            self.tree.nodes[index].gp_seq_needed = number;
        }
        self.tree.gp_flags |= 1;
    }

    /// The kthread wakes and the number starts.
    pub fn start(&mut self) {
        self.wake(G);
        self.tree.gp_seq += 1;
        self.tree.gp_seq_polled = self.tree.gp_seq;
        self.tree.gp_flags = 0;
        self.tree.gp_state = 3;
        if self.direct {
            self.tree.srs.heads_in_use += 1;
            self.tree.srs.wait_tail = true;
        }
        self.step();
    }

    /// The hotplug pass.
    pub fn onoff(&mut self) {
        for leaf in [LEAF0, LEAF1] {
            let n = &mut self.tree.nodes[leaf];
            n.qsmaskinit = n.qsmaskinitnext;
            let (mask, takes_part) = (n.grpmask, n.qsmaskinit != 0 || n.wait_blkd_tasks);
            let root = &mut self.tree.nodes[ROOT];
            root.qsmaskinit = root.qsmaskinit & !mask | if takes_part { mask } else { 0 };
            if leaf == LEAF1 {
                self.tree.gp_state = 4;
            }
            self.step();
        }
    }

    pub fn init_quietly(&mut self, index: usize) {
        let rs = self.tree.gp_seq;
        let n = &mut self.tree.nodes[index];
        n.gp_seq = rs;
        n.qsmask = n.qsmaskinit;
        if index == LEAF0 {
            self.notice(G);
        }
    }

    pub fn init(&mut self) {
        for index in [ROOT, LEAF0, LEAF1] {
            self.init_quietly(index);
            self.step();
        }
        self.report();
    }

    /// The step in which the early report is made, if there is one.
    pub fn report(&mut self) {
        if self.early {
            self.tree.cpus[G as usize].norm = false;
            self.tree.cpus[G as usize].core_needs_qs = false;
            self.clear(G);
        }
        self.step();
    }

    /// This CPU takes over its leaf's number.
    pub fn notice(&mut self, cpu: u32) {
        let leaf = &self.tree.nodes[1 + cpu as usize / 2];
        let owed = leaf.qsmask & (1 << (cpu % 2)) != 0;
        let (seq, needed) = (leaf.gp_seq, leaf.gp_seq_needed);
        let c = &mut self.tree.cpus[cpu as usize];
        if seq % 4 != 0 {
            c.norm = owed;
            c.core_needs_qs = owed;
        } else {
            c.core_needs_qs = false;
        }
        c.gp_seq = seq;
        c.gp_seq_needed = needed;
    }

    /// Clears a CPU's bit and what follows from it further up.
    pub fn clear(&mut self, cpu: u32) {
        let index = 1 + cpu as usize / 2;
        let leaf = &mut self.tree.nodes[index];
        leaf.qsmask &= !(1 << (cpu % 2));
        if leaf.qsmask == 0 && leaf.gp_blockers.is_empty() {
            leaf.completedqs = leaf.gp_seq;
            let bit = leaf.grpmask;
            let root = &mut self.tree.nodes[ROOT];
            root.qsmask &= !bit;
            if root.qsmask == 0 {
                root.completedqs = root.gp_seq;
                self.tree.gp_flags |= 2;
            }
        }
    }

    /// A reader begins on a CPU that was idle.
    pub fn reading(&mut self, cpu: u32, id: u64) {
        self.wake(cpu);
        self.see(Sight::SectionBegin { id, cpu });
    }

    /// It is preempted, and its CPU has nothing else to do. `listed`: the tree has it among those that the grace
    /// period waits for.
    pub fn preempted(&mut self, cpu: u32, id: u64, listed: bool) {
        if listed {
            self.tree.nodes[1 + cpu as usize / 2].gp_blockers.push(id);
        }
        self.sleep(cpu);
    }

    /// It resumes somewhere and leaves its section; then that shows.
    pub fn leaves(&mut self, leaf: usize, id: u64) {
        self.see(Sight::SectionEnd { id });
        self.unlisted(leaf, id);
        self.wake(3);
        self.sleep(3);
    }

    /// The tree takes a reader off its list, and passes the leaf's quiescent state up if it was the last.
    pub fn unlisted(&mut self, leaf: usize, id: u64) {
        let n = &mut self.tree.nodes[leaf];
        n.gp_blockers.retain(|&other| other != id);
        if n.qsmask == 0 && n.gp_blockers.is_empty() {
            n.completedqs = n.gp_seq;
            let mask = n.grpmask;
            let root = &mut self.tree.nodes[ROOT];
            root.qsmask &= !mask;
            if root.qsmask == 0 {
                root.completedqs = root.gp_seq;
                self.tree.gp_flags |= 2;
            }
        }
    }

    /// A CPU with nothing to do goes offline.
    pub fn offline(&mut self, cpu: u32) {
        self.wake(cpu);
        self.tree.cpus[cpu as usize].norm = false;
        self.see(Sight::ContextSwitch { cpu });
        let index = 1 + cpu as usize / 2;
        if self.tree.nodes[index].qsmask & (1 << (cpu % 2)) != 0 {
            self.clear(cpu);
        }
        self.tree.nodes[index].qsmaskinitnext &= !(1 << (cpu % 2));
        self.see(Sight::CpuOffline { cpu });
        self.see(Sight::EqsEnter { cpu });
    }

    pub fn online(&mut self, cpu: u32) {
        let index = 1 + cpu as usize / 2;
        self.tree.nodes[index].qsmaskinitnext |= 1 << (cpu % 2);
        let c = &mut self.tree.cpus[cpu as usize];
        c.gp_seq = self.tree.nodes[index].gp_seq;
        c.norm = true;
        c.core_needs_qs = false;
        self.see(Sight::CpuOnline { cpu });
    }

    /// The kthread sleeps before a scan.
    pub fn wait(&mut self) {
        self.tree.gp_state = 5;
        self.step();
        self.sleep(G);
    }

    /// It wakes and scans; `found`: the CPUs that it finds idle, or that were.
    pub fn scan(&mut self, found: &[u32]) {
        // The timer fires with the next tick but one.
        self.at += 2_000_000;
        self.scan_now(found);
    }

    pub fn scan_now(&mut self, found: &[u32]) {
        self.wake(G);
        self.tree.gp_state = 6;
        self.step();
        for half in [0, 1] {
            for &cpu in found.iter().filter(|&&c| c / 2 == half) {
                self.clear(cpu);
            }
            self.step();
        }
        self.tree.gp_flags &= !2;
    }

    /// From the request to the point where nobody is waited for any more.
    pub fn until_done(&mut self) {
        self.call();
        self.start();
        self.onoff();
        self.init();
        self.wait();
        if self.early {
            self.scan(&[0, 2, 3]);
        } else {
            self.scan(&[0, 2, 3]);
            self.wait();
            self.scan(&[G]);
        }
    }

    pub fn clean_node(&mut self, index: usize) {
        self.tree.gp_state = 7;
        let ended = self.tree.gp_seq + 3;
        self.tree.gp_seq_polled = ended;
        let n = &mut self.tree.nodes[index];
        n.gp_seq = ended;
        n.gp_seq_needed = n.gp_seq_needed.max(ended);
        if index == LEAF0 {
            self.notice(G);
        }
    }

    pub fn clean(&mut self) {
        for index in [ROOT, LEAF0, LEAF1] {
            self.clean_node(index);
            self.step_unless_last(index);
        }
    }

    /// The last node and the end of the number are one step.
    pub fn step_unless_last(&mut self, index: usize) {
        if index != LEAF1 {
            self.step();
        }
    }

    /// The number ends; who was served directly is completed.
    pub fn end(&mut self) {
        self.tree.gp_seq += 3;
        self.tree.gp_state = 8;
        self.tree.gp_flags = 0;
        if self.direct {
            self.tree.srs.wait_tail = false;
            self.tree.srs.done_tail = true;
            self.see(Sight::DirectComplete { task: 7 });
        }
        self.step();
        self.tree.gp_state = 1;
        self.step();
        self.sleep(G);
    }

    /// The tick after the end runs the callback.
    pub fn run_callback(&mut self) {
        self.interrupt(2, |s| {
            s.see(Sight::Tick { cpu: 2, user: false });
            s.notice(2);
            let c = &mut s.tree.cpus[2];
            c.seglen = [0, 0, 0, 0];
            c.in_batch = true;
            s.see(Sight::Core { cpu: 2 });
            s.see(Sight::CallbackInvoked { cpu: 2, id: 0 });
            let c = &mut s.tree.cpus[2];
            c.in_batch = false;
            c.cblist_len = 0;
            s.see(Sight::Core { cpu: 2 });
        });
    }

    pub fn whole(&mut self) {
        self.until_done();
        self.clean();
        self.end();
        if !self.direct {
            self.run_callback();
        }
        self.wake(2);
        self.see(Sight::SyncEnd { task: 7 });
        self.sleep(2);
    }

    #[track_caller]
    pub fn silent(&self) {
        assert!(
            self.oracle.violations().is_empty(),
            "objects too early: {:#?}",
            self.oracle.violations()
        );
    }

    #[track_caller]
    pub fn objects(&self, code: &str) {
        let codes: Vec<_> = self.oracle.violations().iter().map(|v| v.code).collect();
        assert!(codes.contains(&code), "expected {code}, got {codes:?}");
    }
}

/// A legal story up to here, on the route and with the report as given; then a broken promise.
#[track_caller]
pub fn breaks(
    code: &str,
    early: bool,
    direct: bool,
    legal: impl FnOnce(&mut Story),
    broken: impl FnOnce(&mut Story),
) {
    let mut story = Story::new(early, direct);
    legal(&mut story);
    story.silent();
    broken(&mut story);
    story.objects(code);
}
