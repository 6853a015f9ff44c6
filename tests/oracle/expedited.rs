//! E1 to E3, I14: expedited grace periods.

use crate::story::{BOOT, G, LEAF0, LEAF1, ROOT, Story};
use treercu::sim::Sight;
use treercu::workload::SyncCallKind;

const CALLER: u32 = 2;
const BUSY: u32 = 0;

impl Story {
    /// Task 9 on CPU 2 calls; CPU 0 runs a task, the other two are idle.
    fn exp_call(&mut self) {
        self.wake(BUSY);
        self.wake(CALLER);
        self.see(Sight::SyncBegin {
            task: 9,
            cpu: CALLER,
            direct: false,
            kind: SyncCallKind::Expedited,
        });
    }

    fn exp_step(&mut self) {
        self.see(Sight::ExpStep { task: 9, cpu: CALLER });
    }

    /// The number starts, and with it the polled one.
    fn exp_start(&mut self) {
        self.tree.expedited_sequence += 1;
        if self.tree.gp_seq_polled.is_multiple_of(4) {
            self.tree.gp_seq_polled += 1;
        }
        self.exp_step();
    }

    /// Reset and selection: CPU 0 is asked.
    fn exp_select(&mut self) {
        for (index, init) in [(ROOT, 0b11), (LEAF0, 0b11), (LEAF1, 0b11)] {
            self.tree.nodes[index].expmaskinit = init;
        }
        self.tree.nodes[ROOT].expmask = 0b01;
        self.tree.nodes[LEAF0].expmask = 0b01;
        self.exp_step();
    }

    /// The interrupt, and perhaps the report in it.
    fn exp_asked(&mut self, reports: bool) {
        self.hard(BUSY, |s| {
            if reports {
                s.exp_report();
            }
            s.see(Sight::ExpIpi { cpu: BUSY });
        });
    }

    fn exp_report(&mut self) {
        self.tree.nodes[LEAF0].expmask = 0;
        self.tree.nodes[ROOT].expmask = 0;
    }

    fn exp_end(&mut self) {
        self.tree.expedited_sequence += 3;
        self.tree.gp_seq_polled += 3;
        self.exp_step();
    }

    fn exp_whole(&mut self) {
        self.exp_call();
        self.exp_start();
        self.exp_select();
        self.exp_asked(true);
        self.exp_end();
    }

    fn section(&mut self, cpu: u32) {
        self.see(Sight::SectionBegin { id: 1, cpu });
    }
}

/// A legal beginning, then a broken promise.
#[track_caller]
fn breaks(code: &str, legal: impl FnOnce(&mut Story), broken: impl FnOnce(&mut Story)) {
    crate::story::breaks(code, true, false, legal, broken);
}

#[test]
fn a_legal_expedited_story() {
    let mut s = Story::new(true, false);
    s.exp_whole();
    s.see(Sight::SyncEnd { task: 9 });
    s.silent();
    let c = &s.oracle.coverage;
    assert_eq!((c.exp_calls, c.exp_gps, c.exp_ipis), (1, 1, 1));
    // A reader inside its section when it is asked: its unlock reports.
    let mut s = Story::new(true, false);
    s.wake(BUSY);
    s.section(BUSY);
    s.wake(CALLER);
    s.exp_start();
    s.exp_select();
    s.tree.cpus[BUSY as usize].exp_owed = true;
    s.exp_asked(false);
    s.see(Sight::SectionEnd { id: 1 });
    s.tree.cpus[BUSY as usize].exp_owed = false;
    s.exp_report();
    s.see(Sight::SectionBegin { id: 2, cpu: BUSY });
    s.exp_end();
    s.silent();
}

#[test]
fn e1_a_call_returns_before_its_grace_period_is_over() {
    breaks(
        "E1.early",
        |s| {
            s.exp_call();
            s.exp_start();
            s.exp_select();
            s.exp_asked(true);
        },
        |s| s.see(Sight::SyncEnd { task: 9 }),
    );
}

#[test]
fn e1_a_call_returns_inside_an_older_section() {
    breaks(
        "E1.call-section",
        |s| {
            s.wake(3);
            s.section(3);
            s.exp_call();
        },
        |s| s.see(Sight::SyncEnd { task: 9 }),
    );
}

#[test]
fn e1_a_call_returns_while_a_cpu_was_never_quiescent() {
    breaks(
        "E1.call-cpu",
        |s| s.exp_call(),
        |s| s.see(Sight::SyncEnd { task: 9 }),
    );
}

#[test]
fn e1_a_grace_period_ends_inside_an_older_section() {
    breaks(
        "E1.section",
        |s| {
            s.wake(3);
            s.section(3);
            s.exp_call();
            s.exp_start();
            // CPU 3 is taken to be idle.
            s.exp_select();
            s.exp_asked(true);
        },
        |s| s.exp_end(),
    );
}

#[test]
fn e1_a_grace_period_ends_and_a_cpu_was_never_quiescent() {
    breaks(
        "E1.cpu",
        |s| {
            s.wake(3);
            s.exp_call();
            s.exp_start();
            s.exp_select();
            s.exp_asked(true);
        },
        |s| s.exp_end(),
    );
}

#[test]
fn e2_the_number_jumps_or_moves_by_itself() {
    breaks(
        "E2.step",
        |s| s.exp_call(),
        |s| {
            s.tree.expedited_sequence += 4;
            s.exp_step();
        },
    );
    breaks(
        "E2.step",
        |s| s.exp_whole(),
        |s| {
            s.tree.expedited_sequence += 1;
            s.tree.gp_seq_polled += 1;
            s.exp_asked(false);
        },
    );
}

#[test]
fn e3_masks_outside_a_grace_period() {
    breaks(
        "E3.idle",
        |s| {
            s.exp_call();
            s.exp_start();
            s.exp_select();
        },
        |s| s.exp_end(),
    );
}

#[test]
fn e3_bits_that_come_from_nowhere() {
    let begun = |s: &mut Story| {
        s.exp_call();
        s.exp_start();
        s.exp_select();
    };
    breaks("E3.set", begun, |s| {
        s.tree.nodes[LEAF0].expmask = 0b11;
        s.exp_asked(false);
    });
    breaks("E3.init", begun, |s| {
        s.tree.nodes[LEAF1].expmask = 0b100;
        s.exp_step();
    });
    breaks("E3.inner", begun, |s| {
        s.tree.nodes[ROOT].exp_blockers = vec![5];
        s.exp_step();
    });
    breaks("E3.parent", begun, |s| {
        s.tree.nodes[LEAF1].expmask = 0b01;
        s.exp_step();
    });
    breaks("E3.offline", begun, |s| {
        s.tree.nodes[LEAF0].qsmaskinitnext = 0b10;
        s.exp_step();
    });
}

#[test]
fn e3_who_is_credited_and_when() {
    let begun = |s: &mut Story| {
        s.exp_call();
        s.exp_start();
        s.exp_select();
    };
    breaks("E3.cpu", begun, |s| {
        s.exp_report();
        s.exp_step();
    });
    breaks("E3.who", begun, |s| {
        s.exp_asked(false);
        // Nothing of the interrupt is left to be seen.
        s.exp_step();
        s.exp_report();
        s.see(Sight::ContextSwitch { cpu: CALLER });
    });
    breaks(
        "E3.section",
        |s| {
            s.wake(BUSY);
            s.section(BUSY);
            s.wake(CALLER);
            s.exp_start();
            s.exp_select();
        },
        |s| s.exp_asked(true),
    );
}

#[test]
fn e3_a_cpu_that_was_online_before_is_not_asked() {
    breaks(
        "E3.known",
        |s| {
            s.exp_call();
            s.exp_start();
            s.exp_select();
            s.exp_asked(true);
            // As if the masks had never been made for it.
        },
        |s| {
            s.tree.nodes[LEAF1].expmaskinit = 0b01;
            s.exp_end();
        },
    );
}

/// The polled number is ended by whichever kind of grace period is over first, and by that one only.
#[test]
fn i14_either_kind_ends_the_polled_number_once() {
    let shared = |s: &mut Story| {
        s.call();
        s.start();
        // A delay of its initialisation, say.
        s.sleep(G);
        s.exp_call();
        s.tree.expedited_sequence += 1;
        s.exp_step();
        s.exp_select();
        s.exp_asked(true);
    };
    let mut s = Story::new(true, false);
    shared(&mut s);
    s.exp_end();
    assert_eq!(s.tree.gp_seq_polled, BOOT + 4);
    s.silent();
    breaks("I14.number", shared, |s| {
        s.tree.expedited_sequence += 3;
        s.exp_step();
    });
}
