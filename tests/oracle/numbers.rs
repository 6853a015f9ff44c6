//! I3 and I4: the numbers and the order of their copies; I9: requests; I10: ticks; the end of a run.

use crate::common::oracle::Oracle;
use crate::nodes::mid_gp;
use crate::story::*;
use treercu::sim::{Observer, Sight};

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
