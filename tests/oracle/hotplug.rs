//! I13: CPUs that come and go; what becomes of their callbacks (I2, I8).

use crate::story::*;
use treercu::sim::Sight;
use treercu::stats::Resolution;

fn begun(s: &mut Story) {
    s.call();
    s.start();
    s.onoff();
    s.init();
}

#[test]
fn i13_a_legal_story_of_coming_and_going() {
    let mut s = Story::new(true, true);
    s.offline(3);
    s.call();
    s.start();
    s.onoff();
    s.silent();
    // CPU 0 leaves between the pass and its leaf's initialisation: it is forgiven there.
    s.offline(0);
    s.init_quietly(ROOT);
    s.step();
    s.init_quietly(LEAF0);
    s.tree.nodes[LEAF0].qsmask = 0b10;
    s.step();
    s.init_quietly(LEAF1);
    s.step();
    s.report();
    s.silent();
    // CPU 3 comes back, and is not waited for; CPU 2, the last one that is, leaves.
    s.online(3);
    s.offline(2);
    s.silent();
    let c = &s.oracle.coverage;
    assert_eq!((c.went_offline, c.came_online, c.offline_in_init), (3, 1, 1));
    assert_eq!(c.resolved[Resolution::Offline as usize], 1);
    s.wait();
    s.wake(G);
    s.clean();
    s.end();
    s.silent();
}

#[test]
fn i13_the_leaf_does_not_hear_of_it() {
    breaks(
        "I13.online",
        true,
        true,
        |_| {},
        |s| {
            s.wake(0);
            s.see(Sight::ContextSwitch { cpu: 0 });
            s.see(Sight::CpuOffline { cpu: 0 });
        },
    );
    breaks(
        "I13.online",
        true,
        true,
        |s| s.offline(0),
        |s| s.see(Sight::CpuOnline { cpu: 0 }),
    );
}

#[test]
fn i13_an_offline_cpu_is_waited_for() {
    breaks("I13.offline", true, true, begun, |s| {
        s.wake(0);
        s.see(Sight::ContextSwitch { cpu: 0 });
        s.tree.nodes[LEAF0].qsmaskinitnext = 0b10;
        s.see(Sight::CpuOffline { cpu: 0 });
    });
}

#[test]
fn i13_an_offline_cpu_is_not_forgiven_at_initialisation() {
    let left = |s: &mut Story| {
        s.call();
        s.start();
        s.onoff();
        s.offline(0);
        s.init_quietly(ROOT);
        s.step();
    };
    breaks("I13.offline", true, true, left, |s| {
        s.init_quietly(LEAF0);
        s.step();
    });
    breaks("I13.gone", true, true, left, |s| {
        s.oracle.enough = 100;
        s.init_quietly(LEAF0);
        s.step();
        s.clear(0);
        s.init_quietly(LEAF1);
        s.step();
    });
}

#[test]
fn i13_a_cpu_that_came_before_the_start_is_missed() {
    breaks(
        "I13.missed",
        true,
        true,
        |s| {
            s.call();
            s.start();
            s.onoff();
            s.init();
            s.offline(3);
            s.wait();
            s.scan(&[0, 2]);
            s.clean();
            s.end();
            // Another grace period, whose pass sees CPU 3 gone, and a third one after its return.
            s.oracle.enough = 100;
        },
        |s| {
            s.online(3);
            s.wake(2);
            s.see(Sight::SyncEnd { task: 7 });
            s.sleep(2);
            s.tree.nodes[LEAF1].qsmaskinitnext = 0b01;
            s.call();
            s.start();
            s.onoff();
            s.tree.nodes[LEAF1].qsmaskinitnext = 0b11;
            s.init();
        },
    );
}

#[test]
fn i13_masks_change_only_in_the_pass_and_to_what_is_online() {
    breaks("I13.pass", true, true, begun, |s| {
        s.tree.nodes[LEAF0].qsmaskinit = 0b01;
        s.step();
    });
    breaks(
        "I13.pass",
        true,
        true,
        |s| {
            s.offline(3);
            s.call();
            s.start();
        },
        |s| {
            s.tree.nodes[LEAF1].qsmaskinit = 0b11;
            s.tree.nodes[ROOT].qsmaskinit = 0b10;
            s.step();
        },
    );
}

#[test]
fn i13_a_leaf_and_its_bit_in_the_parent() {
    // The last CPU of a leaf has gone and the parent keeps the bit.
    let empty = |s: &mut Story| {
        begun(s);
        s.wait();
        s.scan(&[0, 2, 3]);
        s.clean();
        s.end();
        s.wake(2);
        s.see(Sight::SyncEnd { task: 7 });
        s.sleep(2);
        s.wake(0);
        s.see(Sight::SyncBegin {
            task: 7,
            cpu: 0,
            direct: true,
            kind: treercu::workload::SyncCallKind::Sync,
        });
        for index in [LEAF0, ROOT] {
            s.tree.nodes[index].gp_seq_needed = s.tree.gp_seq + 4;
        }
        s.tree.gp_flags |= 1;
        s.sleep(0);
        s.offline(2);
        s.offline(3);
        s.start();
    };
    breaks("I13.parent", true, true, empty, |s| {
        s.tree.nodes[LEAF1].qsmaskinit = 0;
        s.step();
    });
    breaks("I13.parent", true, true, empty, |s| {
        s.tree.nodes[ROOT].qsmaskinit = 0b01;
        s.step();
    });
    breaks("I13.wait-blkd", true, true, empty, |s| {
        s.tree.nodes[LEAF1].qsmaskinit = 0;
        s.tree.nodes[LEAF1].wait_blkd_tasks = true;
        s.step();
    });
    let mut s = Story::new(true, true);
    empty(&mut s);
    s.onoff();
    s.silent();
}

#[test]
fn i13_a_cpu_comes_online_with_old_numbers() {
    breaks(
        "I13.fresh",
        true,
        true,
        |s| s.offline(3),
        |s| {
            s.tree.nodes[LEAF1].qsmaskinitnext = 0b11;
            s.tree.cpus[3].norm = true;
            s.tree.cpus[3].core_needs_qs = true;
            s.see(Sight::CpuOnline { cpu: 3 });
        },
    );
}

#[test]
fn i5_a_cpu_that_goes_clears_another() {
    breaks("I5.who", true, true, begun, |s| {
        s.clear(2);
        s.offline(3);
    });
}

#[test]
fn s0_what_an_offline_cpu_does_not_do() {
    breaks(
        "S0.offline",
        true,
        true,
        |s| s.offline(3),
        |s| s.see(Sight::Tick { cpu: 3, user: true }),
    );
    breaks(
        "S0.online",
        true,
        true,
        |s| s.offline(3),
        |s| s.see(Sight::CpuOffline { cpu: 3 }),
    );
    breaks(
        "S0.online",
        true,
        true,
        |_| {},
        |s| s.see(Sight::CpuOnline { cpu: 3 }),
    );
    breaks(
        "S0.open-section",
        true,
        true,
        |s| s.reading(3, 1),
        |s| s.see(Sight::CpuOffline { cpu: 3 }),
    );
    breaks(
        "S0.online",
        true,
        true,
        |_| {},
        |s| s.see(Sight::CallbacksMigrated { from: 3, to: 0 }),
    );
}

/// Callback 0 of task 7 is queued on CPU 2, which dies; CPU 0 takes over.
fn taken_over(s: &mut Story) {
    s.call();
    s.offline(2);
    s.wake(0);
}

fn moves(s: &mut Story) {
    for (cpu, len) in [(2, 0), (0, 1)] {
        let c = &mut s.tree.cpus[cpu];
        c.cblist_len = len;
        c.seglen = [0, 0, 0, len];
    }
    s.see(Sight::CallbacksMigrated { from: 2, to: 0 });
}

#[test]
fn i2_a_callback_that_moves_is_invoked_where_it_went() {
    let mut s = Story::new(true, false);
    taken_over(&mut s);
    moves(&mut s);
    s.silent();
    assert_eq!(s.oracle.coverage.migrated_callbacks, 1);
    breaks(
        "I2.early",
        true,
        false,
        |s| {
            taken_over(s);
            moves(s);
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 0, id: 0 }),
    );
    breaks(
        "I2.once",
        true,
        false,
        |s| {
            taken_over(s);
            moves(s);
        },
        |s| s.see(Sight::CallbackInvoked { cpu: 1, id: 0 }),
    );
}

#[test]
fn i8_a_callback_is_lost_on_the_way() {
    breaks("I8.list", true, false, taken_over, |s| {
        s.tree.cpus[2].cblist_len = 0;
        s.tree.cpus[2].seglen = [0; 4];
        s.see(Sight::CallbacksMigrated { from: 2, to: 0 });
    });
    breaks("I8.list", true, false, taken_over, |s| {
        s.tree.cpus[0].cblist_len = 1;
        s.tree.cpus[0].seglen = [0, 0, 0, 1];
        s.see(Sight::CallbacksMigrated { from: 2, to: 0 });
    });
}

#[test]
fn i3_a_cpu_that_lags_distrusts_its_numbers() {
    // Two grace periods pass an idle CPU by; with a lag of one the scan of the second one says so.
    let lag = |lag: u64| {
        let mut s = Story::with(true, true, |f| f.gpwrap_lag = lag);
        begun(&mut s);
        s.wait();
        s.scan(&[0, 2, 3]);
        s.clean();
        s.end();
        s.wake(2);
        s.see(Sight::SyncEnd { task: 7 });
        s.sleep(2);
        s.call_again();
        s.start();
        s.onoff();
        s.init();
        s.wait();
        s.silent();
        s.tree.cpus[0].gpwrap = true;
        s.scan(&[0]);
        s
    };
    lag(1).silent();
    lag(0).objects("I3.wrap");
    lag(2).objects("I3.wrap");
}
