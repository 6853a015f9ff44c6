//! Does the oracle object? Hand-made stories on a machine of four CPUs and two leaves: each is legal up
//! to a point (the oracle must be silent), then breaks one promise (the oracle must name it).
//!
//! The stories are written from the rules in words, event by event; no engine takes part.

mod common;

use common::oracle::{Facts, Oracle};
use treercu::config::{Config, Latch};
use treercu::sim::{Machine, Observer, Sight};
use treercu::stats::{Counters, GracePeriods, Keep, Resolution, Run, Samples};
use treercu::tree::{CpuSnapshot, NodeSnapshot, Snapshot, SrsSnapshot};
use treercu::workload::{SyncCallKind, SyncFlood, Workload};

/// The number at boot, -1200.
const BOOT: u64 = 0u64.wrapping_sub(1200);
/// Where the kthread runs; CPU 1 sits in the first leaf (node 1).
const G: u32 = 1;
const ROOT: usize = 0;
const LEAF0: usize = 1;
const LEAF1: usize = 2;

struct Story {
    oracle: Oracle,
    tree: Snapshot,
    at: u64,
    section: u64,
    early: bool,
    direct: bool,
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
    }
}

fn facts(early_qs: bool, direct: bool) -> Facts {
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
    fn new(early: bool, direct: bool) -> Story {
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
        };
        let mut story = Story {
            oracle: Oracle::new(facts(early, direct)),
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

    fn see(&mut self, sight: Sight) {
        self.at += 1_000;
        let tree = self.tree.clone();
        self.oracle.see(self.at, sight, &|| tree.clone());
    }

    /// The idle CPU switches to a task.
    fn wake(&mut self, cpu: u32) {
        self.see(Sight::EqsExit { cpu });
        self.see(Sight::ContextSwitch { cpu });
    }

    /// The task blocks, the CPU goes idle.
    fn sleep(&mut self, cpu: u32) {
        // A context switch records the quiescent state.
        self.tree.cpus[cpu as usize].norm = false;
        self.see(Sight::ContextSwitch { cpu });
        self.see(Sight::EqsEnter { cpu });
    }

    fn step(&mut self) {
        self.see(Sight::GpStep { cpu: G });
    }

    /// Task 7 on CPU 2 calls and goes to sleep; a grace period is requested for it.
    fn call(&mut self) {
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

    /// An interrupt out of idle.
    fn interrupt(&mut self, cpu: u32, handler: impl FnOnce(&mut Story)) {
        self.see(Sight::EqsExit { cpu });
        self.hard(cpu, handler);
        self.see(Sight::EqsEnter { cpu });
    }

    /// An interrupt of a task: its handler and softirqs are a read-side section.
    fn hard(&mut self, cpu: u32, handler: impl FnOnce(&mut Story)) {
        self.section += 1;
        let id = self.section;
        self.see(Sight::SectionBegin { id, cpu });
        handler(self);
        self.see(Sight::SectionEnd { id });
    }

    fn ask(&mut self, number: u64) {
        for index in [LEAF1, ROOT] {
            self.tree.nodes[index].gp_seq_needed = number;
        }
        self.tree.gp_flags |= 1;
    }

    /// The kthread wakes and the number starts.
    fn start(&mut self) {
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
    fn onoff(&mut self) {
        for leaf in [LEAF0, LEAF1] {
            self.tree.nodes[leaf].qsmaskinit = 0b11;
            self.tree.nodes[ROOT].qsmaskinit |= self.tree.nodes[leaf].grpmask;
            if leaf == LEAF1 {
                self.tree.gp_state = 4;
            }
            self.step();
        }
    }

    fn init_quietly(&mut self, index: usize) {
        let rs = self.tree.gp_seq;
        let n = &mut self.tree.nodes[index];
        n.gp_seq = rs;
        n.qsmask = n.qsmaskinit;
        if index == LEAF0 {
            self.notice(G);
        }
    }

    fn init(&mut self) {
        for index in [ROOT, LEAF0, LEAF1] {
            self.init_quietly(index);
            self.step();
        }
        self.report();
    }

    /// The step in which the early report is made, if there is one.
    fn report(&mut self) {
        if self.early {
            self.tree.cpus[G as usize].norm = false;
            self.tree.cpus[G as usize].core_needs_qs = false;
            self.clear(G);
        }
        self.step();
    }

    /// This CPU takes over its leaf's number.
    fn notice(&mut self, cpu: u32) {
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
    fn clear(&mut self, cpu: u32) {
        let index = 1 + cpu as usize / 2;
        let leaf = &mut self.tree.nodes[index];
        leaf.qsmask &= !(1 << (cpu % 2));
        if leaf.qsmask == 0 {
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

    /// The kthread sleeps before a scan.
    fn wait(&mut self) {
        self.tree.gp_state = 5;
        self.step();
        self.sleep(G);
    }

    /// It wakes and scans; `found`: the CPUs that it finds idle, or that were.
    fn scan(&mut self, found: &[u32]) {
        // The timer fires with the next tick but one.
        self.at += 2_000_000;
        self.scan_now(found);
    }

    fn scan_now(&mut self, found: &[u32]) {
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
    fn until_done(&mut self) {
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

    fn clean_node(&mut self, index: usize) {
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

    fn clean(&mut self) {
        for index in [ROOT, LEAF0, LEAF1] {
            self.clean_node(index);
            self.step_unless_last(index);
        }
    }

    /// The last node and the end of the number are one step.
    fn step_unless_last(&mut self, index: usize) {
        if index != LEAF1 {
            self.step();
        }
    }

    /// The number ends; who was served directly is completed.
    fn end(&mut self) {
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
    fn run_callback(&mut self) {
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

    fn whole(&mut self) {
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
    fn silent(&self) {
        assert!(
            self.oracle.violations().is_empty(),
            "objects too early: {:#?}",
            self.oracle.violations()
        );
    }

    #[track_caller]
    fn objects(&self, code: &str) {
        let codes: Vec<_> = self.oracle.violations().iter().map(|v| v.code).collect();
        assert!(codes.contains(&code), "expected {code}, got {codes:?}");
    }
}

/// A legal story up to here, on the route and with the report as given; then a broken promise.
#[track_caller]
fn breaks(
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

#[test]
fn a_legal_story_is_met_with_silence() {
    for early in [false, true] {
        for direct in [false, true] {
            let mut s = Story::new(early, direct);
            s.whole();
            s.see(Sight::End { interrupted: false });
            s.silent();
            let c = &s.oracle.coverage;
            assert_eq!(c.grace_periods, 1);
            assert_eq!(c.early_reports, u64::from(early));
            // The last bit: CPUs 2 and 3 found idle by the first scan, or G by the second.
            assert_eq!(c.resolved, [0, 0, 1, 0, 0, 0, 0]);
        }
    }
}

// --- I1 -----------------------------------------------------------------------------------------

#[test]
fn i1_a_section_from_before_the_call_is_open_at_its_end() {
    breaks(
        "I1.sync-section",
        true,
        true,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_section_from_after_the_call_is_nobody_s_business() {
    let mut s = Story::new(true, true);
    s.call();
    s.wake(0);
    s.see(Sight::SectionBegin { id: 1, cpu: 0 });
    s.see(Sight::SyncEnd { task: 7 });
    assert!(s.oracle.violations().iter().all(|v| v.code != "I1.sync-section"));
}

#[test]
fn i1_a_busy_cpu_was_never_quiescent() {
    breaks(
        "I1.sync-cpu",
        true,
        true,
        |s| {
            s.wake(0);
            s.call();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_callback_runs_inside_an_older_section() {
    breaks(
        "I1.callback-section",
        true,
        false,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i1_a_scan_credits_a_cpu_inside_a_section() {
    breaks(
        "I1.credit-section",
        true,
        true,
        |s| {
            s.wake(0);
            s.see(Sight::SectionBegin { id: 1, cpu: 0 });
            s.call();
            s.start();
            s.onoff();
            s.init();
            s.wait();
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i1_a_call_returns_before_its_grace_period() {
    breaks(
        "I1.sync-early",
        true,
        true,
        |s| s.call(),
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i1_a_callback_runs_while_a_cpu_was_never_quiescent() {
    breaks(
        "I1.callback-cpu",
        true,
        false,
        |s| {
            s.wake(0);
            s.call();
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

// --- I2 -----------------------------------------------------------------------------------------

#[test]
fn i2_invoked_twice() {
    breaks(
        "I2.once",
        true,
        false,
        |s| s.whole(),
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i2_invoked_before_the_grace_period_is_over() {
    breaks(
        "I2.early",
        true,
        false,
        |s| s.until_done(),
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 0 }),
    );
}

#[test]
fn i2_invoked_out_of_order() {
    breaks(
        "I2.order",
        true,
        false,
        |s| {
            s.wake(2);
            for id in [3, 4] {
                s.tree.cpus[2].cblist_len += 1;
                s.tree.cpus[2].seglen[3] += 1;
                s.see(Sight::CallbackQueued { cpu: 2, id });
            }
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 2, id: 4 }),
    );
}

#[test]
fn i2_a_number_that_does_not_cover_the_callback() {
    // Queued while 4k+1 runs, it needs the grace period after that; numbered with the running one.
    breaks(
        "I2.number",
        true,
        false,
        |s| {
            s.call();
            s.start();
            s.wake(0);
            s.tree.cpus[0].cblist_len = 1;
            s.tree.cpus[0].seglen = [0, 0, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 0, id: 1 });
        },
        |s| {
            s.tree.cpus[0].seglen = [0, 1, 0, 0];
            s.tree.cpus[0].seg_gp_seq = [0, BOOT + 4, 0, 0];
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

// --- I3, I4 -------------------------------------------------------------------------------------

#[test]
fn i3_the_number_jumps() {
    for (step, state) in [(4, 8), (2, 3), (u64::MAX, 3)] {
        breaks(
            "I3.step",
            true,
            true,
            |s| {
                s.call();
                s.wake(G);
            },
            |s| {
                s.tree.gp_seq = s.tree.gp_seq.wrapping_add(step);
                s.tree.gp_state = state;
                s.step();
            },
        );
    }
}

#[test]
fn i3_the_number_changes_outside_the_kthread() {
    breaks(
        "I3.who",
        true,
        true,
        |s| s.call(),
        |s| {
            s.tree.gp_seq += 1;
            s.tree.gp_state = 3;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i3_a_node_skips_the_running_state() {
    breaks(
        "I3.node-step",
        true,
        true,
        |s| {
            s.call();
            s.start();
            s.onoff();
        },
        |s| {
            s.tree.nodes[ROOT].gp_seq += 4;
            s.step();
        },
    );
}

#[test]
fn i3_a_cpu_is_ahead_of_its_leaf() {
    breaks(
        "I3.cpu",
        true,
        true,
        |s| {
            s.call();
            s.start();
        },
        |s| {
            s.tree.cpus[0].gp_seq += 1;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i3_completedqs_goes_back() {
    breaks(
        "I3.completedqs",
        true,
        true,
        |s| s.until_done(),
        |s| {
            s.tree.nodes[LEAF0].completedqs -= 4;
            s.step();
        },
    );
}

#[test]
fn i4_a_leaf_starts_before_the_root() {
    breaks(
        "I4.order",
        true,
        true,
        |s| {
            s.call();
            s.start();
            s.onoff();
        },
        |s| {
            s.init_quietly(LEAF0);
            s.step();
        },
    );
}

#[test]
fn i4_a_leaf_ends_before_the_root() {
    breaks(
        "I4.order",
        true,
        true,
        |s| s.until_done(),
        |s| {
            s.clean_node(LEAF0);
            s.step();
        },
    );
}

#[test]
fn i4_rs_ends_before_the_last_leaf() {
    breaks(
        "I4.distance",
        true,
        true,
        |s| {
            s.until_done();
            s.clean_node(ROOT);
            s.step();
            s.clean_node(LEAF0);
            s.step();
        },
        |s| {
            s.tree.gp_seq += 3;
            s.tree.gp_state = 8;
            s.step();
        },
    );
}

#[test]
fn i4_a_node_starts_the_next_before_all_recorded_the_end() {
    breaks(
        "I4.distance",
        true,
        true,
        |s| {
            s.until_done();
            s.clean_node(ROOT);
            s.step();
        },
        |s| {
            s.tree.nodes[ROOT].gp_seq += 1;
            s.step();
        },
    );
}

#[test]
fn i3_a_tree_that_does_not_boot_clean() {
    let mut tree = Story::new(true, true).tree;
    tree.nodes[LEAF0].qsmask = 1;
    let mut oracle = Oracle::new(facts(true, true));
    oracle.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(oracle.violations().iter().any(|v| v.code == "I3.boot"));
}

#[test]
fn i3_a_cpu_distrusts_its_numbers_for_no_reason() {
    breaks("I3.wrap", true, true, mid_gp, |s| {
        s.tree.cpus[3].gpwrap = true;
        s.wake(G);
        s.step();
    });
}

#[test]
fn i4_gp_state_does_not_fit_the_numbers() {
    breaks("I4.state", true, true, mid_gp, |s| {
        s.tree.gp_state = 3;
        s.wake(G);
        s.step();
    });
}

// --- I5, I6 -------------------------------------------------------------------------------------

fn mid_gp(s: &mut Story) {
    s.call();
    s.start();
    s.onoff();
    s.init();
    s.wait();
}

#[test]
fn i5_a_bit_is_set_outside_initialisation() {
    breaks(
        "I5.set",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[0, 2]);
        },
        |s| {
            s.tree.nodes[LEAF0].qsmask |= 1;
            s.step();
        },
    );
}

#[test]
fn i5_the_last_cpu_is_not_in_the_mask() {
    breaks(
        "I13.missed",
        true,
        true,
        |s| {
            s.call();
            s.start();
        },
        |s| {
            s.onoff();
            s.tree.nodes[LEAF1].qsmaskinit = 0b01;
            s.init();
        },
    );
}

#[test]
fn i5_a_leaf_that_still_owes_is_gone_from_its_parent() {
    breaks("I5.parent", true, true, mid_gp, |s| {
        s.tree.nodes[ROOT].qsmask = 0b01;
        s.wake(G);
        s.step();
    });
}

#[test]
fn i5_a_leaf_that_owes_nothing_still_stands_in_its_parent() {
    breaks("I5.parent", true, true, mid_gp, |s| {
        s.wake(G);
        s.tree.gp_state = 6;
        s.tree.nodes[LEAF1].qsmask = 0;
        s.tree.nodes[LEAF1].completedqs = s.tree.gp_seq;
        s.step();
    });
}

#[test]
fn i5_completedqs_is_written_too_early() {
    breaks("I5.completedqs", true, true, mid_gp, |s| {
        s.tree.nodes[LEAF0].completedqs = s.tree.gp_seq;
        s.wake(G);
        s.step();
    });
}

#[test]
fn i5_a_core_reports_for_another_cpu() {
    breaks("I5.who", true, true, mid_gp, |s| {
        s.clear(3);
        s.interrupt(0, |s| s.see(Sight::Core { cpu: 0 }));
    });
}

#[test]
fn i5_a_scan_credits_a_cpu_that_only_switched() {
    breaks(
        "I5.scan",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
            s.see(Sight::ContextSwitch { cpu: 0 });
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i5_a_scan_credits_a_busy_cpu() {
    breaks(
        "I1.credit-cpu",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
        },
        |s| s.scan(&[0]),
    );
}

#[test]
fn i6_a_grace_period_ends_with_bits_owed() {
    breaks(
        "I6.end",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[2, 3]);
        },
        |s| {
            s.clean_node(ROOT);
            s.step();
            s.clean_node(LEAF0);
            s.step();
        },
    );
}

#[test]
fn i6_clean_up_begins_with_the_root_owed() {
    breaks(
        "I6.cleanup",
        true,
        true,
        |s| {
            mid_gp(s);
            s.scan(&[2, 3]);
        },
        |s| {
            s.tree.gp_state = 7;
            s.step();
        },
    );
}

#[test]
fn i6_a_grace_period_that_waits_for_nobody() {
    // Initialisation clears the masks instead of setting them; the end comes with nobody having emptied
    // the root. More than one promise goes.
    let mut s = Story::new(false, true);
    s.oracle.enough = 100;
    s.call();
    s.start();
    s.silent();
    s.tree.gp_state = 4;
    s.step();
    for index in [ROOT, LEAF0, LEAF1] {
        s.init_quietly(index);
        s.step();
    }
    s.clean();
    s.end();
    s.objects("I13.missed");
    s.objects("I6.reason");
}

#[test]
fn i6_a_bit_is_left_over_from_the_last_grace_period() {
    breaks(
        "I6.idle",
        true,
        true,
        |s| s.whole(),
        |s| {
            s.tree.nodes[LEAF1].qsmask = 1;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
    let mut s = Story::new(true, true);
    s.call();
    s.start();
    s.onoff();
    s.tree.nodes[LEAF0].qsmask = 1;
    s.step();
    s.init();
    s.objects("I6.start");
}

// --- I7 -----------------------------------------------------------------------------------------

/// CPU 0 is busy; it has noticed the grace period.
fn busy_noticed(s: &mut Story) {
    s.wake(0);
    mid_gp(s);
    s.notice(0);
    s.see(Sight::Core { cpu: 0 });
}

#[test]
fn i7_the_usual_way_is_fine() {
    let mut s = Story::new(true, true);
    busy_noticed(&mut s);
    s.tree.cpus[0].norm = false;
    s.see(Sight::Tick { cpu: 0, user: true });
    s.tree.cpus[0].core_needs_qs = false;
    s.clear(0);
    s.see(Sight::Core { cpu: 0 });
    s.silent();
}

#[test]
fn i7_recorded_without_a_quiescent_state() {
    breaks(
        "I7.record",
        true,
        true,
        |s| {
            busy_noticed(s);
            s.see(Sight::SectionBegin { id: 9, cpu: 0 });
        },
        |s| {
            s.tree.cpus[0].norm = false;
            s.hard(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
        },
    );
}

#[test]
fn i7_a_tick_in_kernel_code_counts_outside_sections_and_not_in_softirq() {
    let mut s = Story::new(true, true);
    busy_noticed(&mut s);
    s.tree.cpus[0].norm = false;
    s.hard(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
    s.silent();
    breaks("I7.record", true, true, busy_noticed, |s| {
        s.hard(0, |s| {
            // The RCU softirq runs; a second tick interrupts it.
            s.see(Sight::Tick { cpu: 0, user: false });
            s.see(Sight::Core { cpu: 0 });
            s.tree.cpus[0].norm = false;
            s.see(Sight::Tick { cpu: 0, user: false });
        });
    });
}

#[test]
fn i7_a_tick_out_of_idle_records() {
    breaks(
        "I7.record",
        true,
        true,
        |s| {
            mid_gp(s);
            s.interrupt(0, |s| {
                s.see(Sight::Tick { cpu: 0, user: false });
                s.notice(0);
                s.see(Sight::Core { cpu: 0 });
            });
        },
        |s| {
            s.tree.cpus[0].norm = false;
            s.interrupt(0, |s| s.see(Sight::Tick { cpu: 0, user: false }));
        },
    );
}

#[test]
fn i7_reported_without_being_recorded() {
    breaks("I7.report", true, true, busy_noticed, |s| {
        s.tree.cpus[0].core_needs_qs = false;
        s.clear(0);
        s.see(Sight::Core { cpu: 0 });
    });
}

#[test]
fn i7_an_old_quiescent_state_counts_for_the_new_grace_period() {
    // The CPU switched before the grace period; it takes the number over without asking anew.
    breaks(
        "I7.notice",
        true,
        true,
        |s| {
            s.wake(0);
            mid_gp(s);
        },
        |s| {
            s.notice(0);
            s.tree.cpus[0].norm = false;
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

// --- I8 -----------------------------------------------------------------------------------------

#[test]
fn i8_lists() {
    type Break = fn(&mut CpuSnapshot);
    let cases: [(&str, Break); 5] = [
        ("I8.list", |c| c.seglen = [0, 0, 1, 0]),
        ("I8.list", |c| c.seglen = [0, 1, 0, 1]),
        ("I8.list", |c| c.seglen = [0, 0, 0, 0]),
        ("I8.list", |c| c.cblist_len = 0),
        ("I8.future", |c| {
            c.seglen = [0, 1, 0, 0];
            c.seg_gp_seq = [0, BOOT + 8, 0, 0];
        }),
    ];
    for (code, change) in cases {
        breaks(
            code,
            true,
            false,
            |s| {
                s.wake(2);
                s.tree.cpus[2].cblist_len = 1;
                s.tree.cpus[2].seglen = [0, 0, 0, 1];
                s.see(Sight::CallbackQueued { cpu: 2, id: 0 });
            },
            |s| {
                change(&mut s.tree.cpus[2]);
                s.see(Sight::Core { cpu: 2 });
            },
        );
    }
}

#[test]
fn i8_numbers_that_decrease() {
    breaks(
        "I8.list",
        true,
        false,
        |s| {
            s.call();
            s.start();
            s.wake(2);
            s.tree.cpus[2].cblist_len = 2;
            s.tree.cpus[2].seglen = [0, 1, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 2, id: 1 });
        },
        |s| {
            s.tree.nodes[LEAF1].gp_seq_needed = BOOT + 8;
            s.tree.cpus[2].seglen = [0, 1, 1, 0];
            s.tree.cpus[2].seg_gp_seq = [0, BOOT + 8, BOOT + 4, 0];
            s.see(Sight::Core { cpu: 2 });
        },
    );
}

// --- I9, I10 ------------------------------------------------------------------------------------

#[test]
fn i9_a_request_without_init() {
    breaks(
        "I9.lost",
        true,
        true,
        |s| s.call(),
        |s| {
            s.tree.gp_flags = 0;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i9_clean_up_forgets_a_request() {
    breaks(
        "I9.behind",
        true,
        true,
        |s| s.until_done(),
        |s| {
            s.clean_node(ROOT);
            s.step();
            s.clean_node(LEAF0);
            s.tree.nodes[LEAF0].gp_seq_needed = BOOT;
            s.step();
        },
    );
}

#[test]
fn i9_a_request_goes_back() {
    breaks(
        "I9.needed",
        true,
        true,
        |s| {
            s.call();
            s.interrupt(0, |s| s.see(Sight::Core { cpu: 0 }));
        },
        |s| {
            s.tree.nodes[LEAF1].gp_seq_needed = BOOT;
            s.wake(0);
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i9_a_request_too_far_ahead() {
    breaks(
        "I9.future",
        true,
        true,
        |_| {},
        |s| {
            s.wake(0);
            s.ask(BOOT + 8);
            s.see(Sight::Core { cpu: 0 });
        },
    );
}

#[test]
fn i9_a_numbered_callback_that_nobody_asked_for() {
    breaks(
        "I9.unasked",
        true,
        false,
        |s| {
            s.wake(2);
            s.tree.cpus[2].cblist_len = 1;
            s.tree.cpus[2].seglen = [0, 0, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 2, id: 0 });
        },
        |s| {
            s.tree.cpus[2].seglen = [0, 1, 0, 0];
            s.tree.cpus[2].seg_gp_seq = [0, BOOT + 4, 0, 0];
            s.see(Sight::Core { cpu: 2 });
        },
    );
}

#[test]
fn i10_a_caller_is_left_behind() {
    breaks(
        "I15.stuck",
        true,
        true,
        |s| s.until_done(),
        |s| s.see(Sight::End { interrupted: false }),
    );
    let mut s = Story::new(true, true);
    s.until_done();
    s.see(Sight::End { interrupted: true });
    s.silent();
}

#[test]
fn i10_a_cpu_with_callbacks_stops_ticking() {
    breaks(
        "I10.tick",
        true,
        false,
        |s| {
            s.wake(2);
            s.tree.cpus[2].cblist_len = 1;
            s.tree.cpus[2].seglen = [0, 0, 0, 1];
            s.see(Sight::CallbackQueued { cpu: 2, id: 0 });
        },
        |s| {
            s.at += 20_000_000;
            s.see(Sight::Tick { cpu: 2, user: false });
        },
    );
}

#[test]
fn i10_a_run_that_goes_on_and_on() {
    breaks(
        "I15.deadline",
        true,
        true,
        |s| s.call(),
        |s| {
            s.at += 2_000_000_000;
            s.see(Sight::Tick { cpu: 0, user: false });
        },
    );
}

// --- I11 ----------------------------------------------------------------------------------------

#[test]
fn i11_completed_too_early() {
    breaks(
        "I11.early",
        true,
        true,
        |s| s.until_done(),
        |s| s.see(Sight::DirectComplete { task: 7 }),
    );
}

#[test]
fn i11_completed_by_a_grace_period_that_had_started_before() {
    // Task 8 calls while the grace period for task 7 runs and is completed with it.
    breaks(
        "I11.early",
        true,
        true,
        |s| {
            mid_gp(s);
            s.wake(0);
            s.see(Sight::SyncBegin {
                task: 8,
                cpu: 0,
                direct: true,
                kind: SyncCallKind::Sync,
            });
            s.tree.nodes[LEAF0].gp_seq_needed = BOOT + 8;
            s.sleep(0);
            s.scan(&[0, 2, 3]);
            s.clean();
            s.tree.gp_flags = 1;
            s.tree.gp_seq += 3;
            s.tree.gp_state = 8;
            s.tree.srs.wait_tail = false;
            s.tree.srs.done_tail = true;
            s.step();
        },
        |s| s.see(Sight::DirectComplete { task: 8 }),
    );
}

#[test]
fn i11_completed_twice_or_never() {
    breaks(
        "I11.once",
        true,
        true,
        |s| s.whole(),
        |s| s.see(Sight::DirectComplete { task: 7 }),
    );
    breaks(
        "I11.once",
        true,
        true,
        |s| {
            s.until_done();
            s.clean();
            s.tree.gp_seq += 3;
            s.tree.gp_state = 8;
            s.tree.srs.wait_tail = false;
            s.tree.srs.done_tail = true;
            s.step();
        },
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
}

#[test]
fn i11_wait_heads() {
    type Break = fn(&mut SrsSnapshot);
    let cases: [(&str, Break); 5] = [
        ("I11.heads", |n| n.heads_in_use = 6),
        ("I11.heads", |n| n.heads_in_use = 2),
        ("I11.heads", |n| n.heads_in_use = 0),
        ("I11.wait-tail", |n| {
            n.wait_tail = true;
            n.heads_in_use = 2;
        }),
        ("I11.done-tail", |n| {
            n.done_tail = false;
            n.heads_in_use = 0;
        }),
    ];
    for (code, change) in cases {
        breaks(
            code,
            true,
            true,
            |s| s.whole(),
            |s| {
                change(&mut s.tree.srs);
                s.wake(0);
                s.see(Sight::Core { cpu: 0 });
            },
        );
    }
}

#[test]
fn i11_the_wrong_route() {
    breaks(
        "I11.route",
        true,
        true,
        |s| s.wake(2),
        |s| {
            s.see(Sight::SyncBegin {
                task: 7,
                cpu: 2,
                direct: false,
                kind: SyncCallKind::Sync,
            })
        },
    );
}

// --- I18 ----------------------------------------------------------------------------------------

fn before_the_report(s: &mut Story) {
    s.call();
    s.start();
    s.onoff();
    for index in [ROOT, LEAF0, LEAF1] {
        s.init_quietly(index);
        s.step();
    }
}

#[test]
fn i18_the_report_clears_another_cpu() {
    breaks("I18.other", true, true, before_the_report, |s| {
        s.clear(3);
        s.report();
    });
}

#[test]
fn i18_a_report_although_it_is_off() {
    breaks("I18.off", false, true, before_the_report, |s| {
        s.clear(G);
        s.report();
    });
}

/// The kthread has moved to a CPU that does not know the number yet.
fn moved(s: &mut Story) {
    before_the_report(s);
    s.sleep(G);
    s.wake(0);
}

#[test]
fn i18_a_report_from_a_cpu_that_does_not_know_the_number() {
    breaks("I18.mismatch", true, true, moved, |s| {
        s.clear(0);
        s.see(Sight::GpStep { cpu: 0 });
    });
}

#[test]
fn i18_a_kthread_that_moved_declines() {
    let mut s = Story::new(true, true);
    moved(&mut s);
    s.tree.cpus[0].norm = true;
    s.see(Sight::GpStep { cpu: 0 });
    s.silent();
    assert_eq!(s.oracle.coverage.early_declined, 1);
}

#[test]
fn i18_the_report_does_not_come() {
    breaks("I18.missing", true, true, before_the_report, |s| {
        s.early = false;
        s.report();
    });
}

#[test]
fn i18_initialisation_ends_without_a_step_for_the_report() {
    breaks("I18.missing", true, true, before_the_report, |s| s.wait());
}

// --- T1 -----------------------------------------------------------------------------------------

#[test]
fn t1_a_scan_before_its_time() {
    // The wait is one jiffy, and no jiffy passes.
    breaks("T1.early", true, true, mid_gp, |s| s.scan_now(&[0]));
    // Unless somebody asked.
    let mut s = Story::new(true, true);
    mid_gp(&mut s);
    s.tree.gp_flags |= 2;
    s.wake(0);
    s.see(Sight::Core { cpu: 0 });
    s.sleep(0);
    s.scan_now(&[0]);
    s.silent();
    assert_eq!(s.oracle.coverage.forced_scans, 1);
}

// --- S0: the world itself -----------------------------------------------------------------------

#[test]
fn s0_sections_and_extended_quiescent_states_exclude_each_other() {
    breaks(
        "S0.section-in-eqs",
        true,
        true,
        |_| {},
        |s| s.see(Sight::SectionBegin { id: 1, cpu: 0 }),
    );
    let open = |s: &mut Story| {
        s.wake(0);
        s.see(Sight::SectionBegin { id: 1, cpu: 0 });
    };
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::EqsEnter { cpu: 0 })
    });
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::GpStep { cpu: 0 })
    });
    breaks("S0.open-section", true, true, open, |s| {
        s.see(Sight::SyncBegin {
            task: 1,
            cpu: 0,
            direct: true,
            kind: SyncCallKind::Sync,
        })
    });
    breaks("S0.section-end", true, true, open, |s| {
        s.see(Sight::SectionEnd { id: 2 })
    });
    breaks("S0.section-id", true, true, open, |s| {
        s.see(Sight::SectionBegin { id: 1, cpu: 0 })
    });
    breaks(
        "S0.eqs",
        true,
        true,
        |s| s.wake(0),
        |s| s.see(Sight::EqsExit { cpu: 0 }),
    );
    // CPU 3 has been seen to go idle.
    breaks(
        "S0.eqs",
        true,
        true,
        |_| {},
        |s| s.see(Sight::EqsEnter { cpu: 3 }),
    );
}

#[test]
fn the_shape_is_checked_against_a_second_construction() {
    let mut s = Story::new(true, true);
    s.tree.nodes[LEAF1].grplo = 1;
    let mut fresh = Oracle::new(facts(true, true));
    let tree = s.tree.clone();
    fresh.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(fresh.violations().iter().any(|v| v.code == "I5.shape"));
    // And who is online.
    let mut other = Oracle::new(Facts {
        online: 3,
        ..facts(true, true)
    });
    let tree = Story::new(true, true).tree;
    other.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(other.violations().iter().any(|v| v.code == "I13.online"));
}

#[test]
fn s0_calls_callbacks_and_offline_cpus() {
    let call = Sight::SyncBegin {
        task: 7,
        cpu: 2,
        direct: true,
        kind: SyncCallKind::Sync,
    };
    breaks("S0.call", true, true, Story::call, |s| s.see(call));
    breaks(
        "S0.call",
        true,
        true,
        |_| {},
        |s| s.see(Sight::SyncEnd { task: 7 }),
    );
    breaks("S0.callback-id", true, false, Story::call, |s| {
        s.see(Sight::CallbackQueued { cpu: 2, id: 0 })
    });
    let mut oracle = Oracle::new(Facts {
        online: 3,
        ..facts(true, true)
    });
    let mut tree = Story::new(true, true).tree;
    tree.nodes[LEAF1].qsmaskinitnext = 0b01;
    oracle.see(0, Sight::EqsExit { cpu: 0 }, &|| tree.clone());
    assert!(oracle.violations().is_empty());
    oracle.see(0, Sight::Tick { cpu: 3, user: true }, &|| tree.clone());
    assert!(oracle.violations().iter().any(|v| v.code == "S0.offline"));
}

// --- R: the records of the run ------------------------------------------------------------------

/// One whole story and the run record that tells it truthfully.
fn told(early: bool, direct: bool) -> (Story, Run) {
    let mut s = Story::new(early, direct);
    s.whole();
    s.see(Sight::End { interrupted: false });
    s.silent();
    let done = s.oracle.coverage.clone();
    let (began, ended) = s.oracle.only_call();
    let (started, over) = s.oracle.only_gp();
    let gp_seq = BOOT as i64 + 1;
    let run = Run {
        samples: Samples {
            task: vec![7],
            cpu: vec![2],
            start_ns: vec![began as i64],
            end_ns: vec![ended as i64],
            latency_ns: vec![(ended - began) as i64],
            gp_seq: vec![gp_seq],
        },
        histogram: None,
        mean_ns: None,
        keep: Keep::default(),
        trace: None,
        grace_periods: GracePeriods {
            gp_seq: vec![gp_seq],
            start_ns: vec![started as i64],
            end_ns: vec![over as i64],
            requests: vec![1],
            scans: vec![if early { 1 } else { 2 }],
            // The first scan empties the root with CPUs 2 and 3; without the report G is the last.
            holdout_cpu: vec![if early { 3 } else { G as i32 }],
            resolved_by: vec![Resolution::IdleScan as i32],
            kthread_cpu: vec![G as i32],
        },
        counters: Counters {
            ticks: if direct { 0 } else { 2 },
            context_switches: s.oracle.switches_seen(),
            grace_periods: done.grace_periods,
            fqs_scans: if early { 1 } else { 2 },
            callbacks_queued: done.callbacks,
            callbacks_invoked: done.callbacks,
            direct_wakes: done.direct_calls,
            ..Counters::default()
        },
        events: 0,
        virtual_ns: s.at,
        wall_ns: 0,
        cpu_ns: 0,
        seed: 0,
        config: Config::new(),
        machine: Machine::default(),
        workload: Workload::from(SyncFlood::default()),
        interrupted: false,
    };
    (s, run)
}

#[test]
fn r_a_true_record_is_accepted() {
    for (early, direct) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut s, run) = told(early, direct);
        s.oracle.check_run(&run);
        s.silent();
    }
}

#[test]
fn r_false_records() {
    type Lie = fn(&mut Run);
    let lies: &[(&str, Lie)] = &[
        ("R.end", |r| r.interrupted = true),
        ("R.gps", |r| r.grace_periods = GracePeriods::default()),
        ("R.columns", |r| r.grace_periods.scans.clear()),
        ("R.gp", |r| r.grace_periods.gp_seq[0] += 4),
        ("R.gp", |r| r.grace_periods.kthread_cpu[0] = 0),
        ("R.gp-time", |r| {
            r.grace_periods.end_ns[0] = r.grace_periods.start_ns[0]
        }),
        ("R.gp-time", |r| r.grace_periods.start_ns[0] -= 100_000_000),
        ("R.resolution", |r| {
            r.grace_periods.resolved_by[0] = Resolution::Tick as i32
        }),
        ("R.resolution", |r| r.grace_periods.holdout_cpu[0] = 0),
        ("R.scans", |r| r.grace_periods.scans[0] = 0),
        ("R.requests", |r| r.grace_periods.requests[0] = 2),
        ("R.requests", |r| r.grace_periods.requests[0] = 0),
        ("R.samples", |r| r.samples = Samples::default()),
        ("R.sample", |r| r.samples.latency_ns[0] += 1),
        ("R.sample", |r| r.samples.cpu[0] = 1),
        ("R.sample-gp", |r| r.samples.gp_seq[0] += 4),
        ("I11.late", |r| r.samples.gp_seq[0] += 4),
        ("R.counter", |r| r.counters.ticks += 1),
        ("R.counter", |r| r.counters.context_switches += 1),
        ("R.counter", |r| r.counters.callbacks_invoked += 1),
        ("R.counter", |r| r.counters.direct_wakes += 1),
        ("R.counter", |r| r.counters.grace_periods += 1),
        ("R.counter", |r| r.counters.fqs_scans += 1),
    ];
    for (code, lie) in lies {
        let (mut s, mut run) = told(true, true);
        lie(&mut run);
        s.oracle.check_run(&run);
        s.objects(code);
    }
}
