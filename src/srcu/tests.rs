//! The mechanisms one by one, with values derived by hand from the rules. HZ=1000 everywhere: a budget of
//! 2·10⁶ / 1000 / 5 = 400 evaluations a phase.

use super::domain::SEQ_INITIAL;
use super::funnel::slot;
use super::*;
use crate::config::{Config, Tunables};
use crate::tree::seq;
use crate::tree::waiters::Waiter;
use std::collections::BTreeMap;

/// Nothing happens in it by itself.
#[derive(Default)]
struct Still {
    now: u64,
    jiffies: u64,
    contended: bool,
    offline: Vec<u32>,
    starts: u32,
    gp: Option<u64>,
    callbacks: BTreeMap<u32, u64>,
    completed: Vec<u64>,
    records: Vec<GpRecord>,
}

impl World for Still {
    fn now(&self) -> u64 {
        self.now
    }
    fn jiffies(&self) -> u64 {
        self.jiffies
    }
    fn was_online(&self, cpu: u32) -> bool {
        !self.offline.contains(&cpu)
    }
    fn is_contended(&mut self, _lock: Lock) -> bool {
        self.contended
    }
    fn queue_start(&mut self) {
        crate::sync::assert_unlocked();
        self.starts += 1;
    }
    fn queue_gp(&mut self, delay: u64) {
        crate::sync::assert_unlocked();
        self.gp.get_or_insert(delay);
    }
    fn queue_callbacks(&mut self, cpu: u32, delay: u64) {
        crate::sync::assert_unlocked();
        let due = self.callbacks.entry(cpu).or_insert(delay);
        *due = delay.min(*due);
    }
    fn complete(&mut self, waiter: Waiter, _gp_seq: u64) {
        crate::sync::assert_unlocked();
        self.completed.push(waiter.token());
    }
    fn grace_period_ended(&mut self, record: &GpRecord) {
        self.records.push(*record);
    }
}

/// What one run of the work item did.
#[derive(Debug, PartialEq, Eq, Default)]
struct RunOf {
    spins: Vec<u64>,
    rcu: Vec<bool>,
    requeued: Option<u64>,
}

struct Rig {
    srcu: Srcu<u32>,
    work: GpWork,
    world: Still,
}

impl Rig {
    fn new(flavour: Flavour, settings: &[(&str, i64)]) -> Rig {
        let world = Still {
            now: 1_000_000_000,
            jiffies: 1000,
            ..Still::default()
        };
        Rig {
            srcu: Srcu::new(&tunables(settings), flavour, &world).unwrap(),
            work: GpWork::default(),
            world,
        }
    }

    fn normal(settings: &[(&str, i64)]) -> Rig {
        Rig::new(Flavour::Normal, settings)
    }

    fn call(&mut self, cpu: u32, callback: u32) -> u64 {
        self.srcu.call(cpu, callback, &mut self.world)
    }

    /// The work item is due.
    fn run(&mut self) -> RunOf {
        self.world.gp = None;
        let mut run = RunOf::default();
        loop {
            match self.srcu.gp_step(&mut self.work, &mut self.world) {
                GpWait::Again => {}
                GpWait::Spin { us } => run.spins.push(us),
                GpWait::Rcu { expedited } => run.rcu.push(expedited),
                GpWait::Done => break,
            }
        }
        run.requeued = self.world.gp;
        run
    }

    /// The funnel's `irq_work`, and the run that it leads to.
    fn start_and_run(&mut self) -> RunOf {
        assert_eq!(std::mem::take(&mut self.world.starts), 1);
        self.srcu.start_work(&mut self.world);
        self.run()
    }

    fn invoke(&mut self, cpu: u32) -> Vec<u32> {
        self.world.callbacks.remove(&cpu);
        let mut invoked = Vec::new();
        let Some(mut batch) = self.srcu.callback_work(cpu) else {
            return invoked;
        };
        while let Some(callback) = batch.next() {
            match callback {
                Cb::User(user) => invoked.push(user),
                Cb::Wake(waiter) => self.world.complete(waiter, 0),
                Cb::Barrier => self.srcu.barrier_callback(cpu, &mut self.world),
                Cb::Expedite(of) => self.srcu.expedite_callback(of, &mut self.world),
            }
        }
        batch.finish(&mut self.world);
        invoked
    }

    /// One grace period for one callback, up to its end.
    fn grace_period(&mut self) {
        self.call(0, 0);
        assert_eq!(self.start_and_run().requeued, None);
        self.invoke(0);
    }
}

fn tunables(settings: &[(&str, i64)]) -> Tunables {
    let mut config = Config::new()
        .with("nr_cpus", 4)
        .and_then(|c| c.with("hz", 1000))
        .unwrap();
    for &(name, value) in settings {
        config = config.with(name, value).unwrap();
    }
    config.tunables().clone()
}

#[test]
fn budgets_follow_the_tick_rate() {
    // 2·10⁶ / HZ / 5: 400, 1333, 1600 and 4000, cut at 1000.
    for (hz, phase, jiffy) in [
        (1000, 400, 400),
        (300, 1000, 1000),
        (250, 1000, 1000),
        (100, 1000, 1000),
    ] {
        let t = Config::new().with("hz", hz).unwrap().tunables().srcu.clone();
        assert_eq!((t.max_nodelay_phase, t.max_nodelay), (phase, jiffy));
    }
    let few = tunables(&[("srcu_max_nodelay_phase", 7)]).srcu;
    assert_eq!(few.max_nodelay, 100, "at least 100 a jiffy");
}

#[test]
fn one_run_does_it_all_without_readers() {
    let mut rig = Rig::normal(&[]);
    assert_eq!(rig.srcu.gp_seq(), (-400i64) as u64, "counter -100, idle");
    let s = rig.call(3, 7);
    assert_eq!(s, (-396i64) as u64);
    assert_eq!(seq::state(rig.srcu.gp_seq()), SCAN1, "begun by the funnel");
    rig.srcu.start_work(&mut rig.world);
    assert_eq!(rig.world.gp, Some(1), "not expedited: in a jiffy");
    rig.world.starts = 0;
    assert_eq!(rig.run(), RunOf::default(), "no spin, no second run");
    assert_eq!(rig.srcu.gp_seq(), s);
    assert_eq!(
        rig.world.callbacks,
        BTreeMap::from([(BOOT_CPU, 1)]),
        "small: the boot CPU's list"
    );
    assert_eq!(rig.world.records[0].tests, 2);
    assert_eq!(rig.world.records[0].runs, 1);
    assert!(rig.invoke(3).is_empty());
    assert_eq!(rig.invoke(0), [7]);
    assert_eq!(rig.srcu.check_cleanup(1000), Ok(()));
}

#[test]
fn expedited_ones_are_not_delayed() {
    let mut rig = Rig::normal(&[]);
    rig.srcu.synchronize_expedited(1, Waiter::new(5), &mut rig.world);
    rig.srcu.start_work(&mut rig.world);
    assert_eq!(rig.world.gp, Some(0));
    assert_eq!(rig.run().requeued, None);
    assert_eq!(rig.world.callbacks, BTreeMap::from([(0, 0)]));
    assert!(rig.world.records[0].expedited);
    rig.invoke(0);
    assert_eq!(rig.world.completed, [5]);
}

#[test]
fn a_request_in_progress_needs_the_next_grace_period() {
    let mut rig = Rig::normal(&[]);
    let first = rig.call(0, 1);
    let second = rig.call(0, 2);
    assert_eq!(second, first + 4, "the running one may have passed its scans");
    let run = rig.start_and_run();
    assert_eq!(run.requeued, Some(0), "unmet demand: at once");
    assert_eq!(rig.srcu.gp_seq(), first + SCAN1);
    assert_eq!(rig.invoke(0), [1]);
    assert_eq!(rig.run().requeued, None);
    assert_eq!(rig.invoke(0), [2]);
}

#[test]
fn tries_are_one_and_two_and_one_more_when_expedited() {
    for (expedited, spins) in [(false, 1), (true, 2)] {
        let mut rig = Rig::normal(&[]);
        let reader = rig.srcu.read_lock(2);
        assert_eq!(reader.number(), 0);
        if expedited {
            rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
        } else {
            rig.call(0, 1);
        }
        // Newcomers' index 0 is busy: SCAN1 looks at 1 and flips, SCAN2 looks at 0 and fails.
        let run = rig.start_and_run();
        assert_eq!(run.spins, vec![5; spins], "tries less one");
        assert_eq!(run.requeued, Some(u64::from(!expedited)));
        assert_eq!(seq::state(rig.srcu.gp_seq()), SCAN2);
        assert_eq!(rig.srcu.read_index().number(), 1, "flipped");
        // The unlock may be on any CPU.
        rig.srcu.read_unlock(3, reader);
        assert_eq!(rig.run(), RunOf::default());
        assert!(!rig.srcu.gp_in_progress());
    }
    // A reader on the index that newcomers avoid: it fetched the index before a flip.
    for (expedited, spins) in [(false, 0), (true, 1)] {
        let mut rig = Rig::normal(&[]);
        let late = rig.srcu.read_index();
        rig.grace_period();
        rig.srcu.read_enter(1, late);
        if expedited {
            rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
        } else {
            rig.call(0, 1);
        }
        assert_eq!(rig.start_and_run().spins, vec![5; spins]);
        assert_eq!(seq::state(rig.srcu.gp_seq()), SCAN1, "not flipped");
        rig.srcu.read_unlock(1, late);
    }
}

#[test]
fn each_scan_alone_misses_a_reader() {
    for (skipped, late) in [(Scan::First, true), (Scan::Second, false)] {
        let mut rig = Rig::normal(&[]);
        let index = rig.srcu.read_index();
        if late {
            rig.grace_period();
        }
        rig.srcu.read_enter(1, index);
        let s = rig.call(0, 1);
        let run = |rig: &mut Rig| {
            rig.start_and_run();
            rig.srcu.poll_state(s)
        };
        rig.srcu.skip_scan(skipped);
        assert!(run(&mut rig), "{skipped:?} skipped: the reader is still there");
    }
}

#[test]
fn delays_grow_with_age() {
    let mut rig = Rig::normal(&[]);
    let reader = rig.srcu.read_lock(0);
    rig.call(0, 1);
    // With timers that are exact: 1 at ages 0 and 1, then the age, then 10.
    let mut delays = vec![rig.start_and_run().requeued.unwrap()];
    for _ in 0..6 {
        rig.world.jiffies += delays.last().unwrap();
        delays.push(rig.run().requeued.unwrap());
    }
    assert_eq!(delays, [1, 1, 2, 4, 8, 10, 10]);
    rig.srcu.read_unlock(0, reader);
}

#[test]
fn haste_has_a_budget_a_phase_and_a_jiffy() {
    // A phase: each run evaluates the delay on entering SCAN2 and at its end. Run 200 ends with evaluation 400, which is
    // within the budget; run 201 enters with 401, so it has two tries instead of three and is delayed.
    let mut rig = Rig::normal(&[]);
    let reader = rig.srcu.read_lock(0);
    rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
    rig.world.starts = 0;
    for run in 1..=200 {
        let of = rig.run();
        assert_eq!((of.spins.len(), of.requeued), (2, Some(0)), "run {run}");
    }
    let of = rig.run();
    assert_eq!((of.spins.len(), of.requeued), (1, Some(1)));
    // In a later jiffy the phase has not got its budget back.
    rig.world.jiffies += 1;
    assert_eq!(rig.run().requeued, Some(1));
    rig.srcu.read_unlock(0, reader);

    // A jiffy: run 50 is the fiftieth without delay.
    let mut rig = Rig::normal(&[("srcu_max_nodelay", 50)]);
    let reader = rig.srcu.read_lock(0);
    rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
    rig.world.starts = 0;
    for _ in 0..50 {
        assert_eq!(rig.run().requeued, Some(0));
    }
    assert_eq!(rig.run().requeued, Some(1));
    // The next jiffy starts a new count; the grace period is one jiffy old, which adds nothing yet.
    rig.world.jiffies += 1;
    assert_eq!(rig.run().requeued, Some(0));
    rig.srcu.read_unlock(0, reader);
}

#[test]
fn big_domains_launch_by_slot_and_mask() {
    let settings = [
        ("nr_cpus", 32),
        ("rcu_fanout_leaf", 16),
        ("convert_to_big", 1),
        ("exp_holdoff", 0),
    ];
    let mut rig = Rig::normal(&settings);
    assert_eq!(rig.srcu.size_state(), SizeState::Big);
    let s = rig.call(17, 1);
    // Counter -99: slot 1 (mod 4 of 2^62 - 99 is that of -99).
    assert_eq!(slot(s), 1);
    let leaf = rig.srcu.geometry.leaf_of(17);
    {
        let state = rig.srcu.tree()[leaf].state.lock();
        assert_eq!(state.have_cbs, [2, s, 2, 2], "the others still hold the marker");
        assert_eq!(state.data_have_cbs, [0, 1 << 1, 0, 0]);
    }
    assert_eq!(rig.srcu.tree()[0].state.lock().have_cbs[1], s);
    assert_eq!(rig.start_and_run().requeued, None);
    assert_eq!(rig.world.callbacks, BTreeMap::from([(17, 1)]));
    assert_eq!(rig.invoke(17), [1]);
    {
        let state = rig.srcu.tree()[leaf].state.lock();
        assert_eq!(state.have_cbs[1], s + 1, "launched");
        assert_eq!(state.data_have_cbs, [0; 4]);
    }
    // Two CPUs of the other leaf meet in one slot; both are launched, nobody else.
    rig.call(3, 2);
    rig.srcu.start_work(&mut rig.world);
    rig.world.starts = 0;
    rig.call(5, 3);
    rig.call(6, 4);
    assert_eq!(rig.run().requeued, Some(0));
    assert_eq!(rig.world.callbacks, BTreeMap::from([(3, 1)]));
    rig.world.callbacks.clear();
    assert_eq!(rig.run().requeued, None);
    assert_eq!(rig.world.callbacks, BTreeMap::from([(5, 1), (6, 1)]));
    // Too late for a launched slot: straight to the callbacks.
    rig.world.callbacks.clear();
    rig.srcu.funnel(18, Some(leaf), s, true, &mut rig.world);
    assert_eq!(rig.world.callbacks, BTreeMap::from([(18, 0)]));
}

#[test]
fn haste_climbs_where_a_request_stopped() {
    let mut rig = Rig::normal(&[("nr_cpus", 32), ("rcu_fanout_leaf", 16), ("convert_to_big", 1)]);
    let s = rig.call(17, 1);
    rig.srcu.synchronize_expedited(18, Waiter::new(0), &mut rig.world);
    // The running one cannot serve it, the next one is asked for in haste.
    assert_eq!(rig.srcu.sup.lock().gp_seq_needed_exp, s + 4);
    // Somebody in the same leaf wants that one too, then in haste: it stops at the leaf and the haste goes on.
    let mut rig = Rig::normal(&[("nr_cpus", 32), ("rcu_fanout_leaf", 16), ("convert_to_big", 1)]);
    let s = rig.call(17, 1);
    rig.call(18, 2);
    rig.srcu.synchronize_expedited(18, Waiter::new(0), &mut rig.world);
    assert_eq!(rig.srcu.sup.lock().gp_seq_needed_exp, s + 4);
    let leaf = rig.srcu.geometry.leaf_of(18);
    for node in [leaf, 0] {
        assert_eq!(rig.srcu.tree()[node].state.lock().gp_seq_needed_exp, s + 4);
    }
}

#[test]
fn contention_makes_a_small_domain_grow_by_one_state_a_grace_period() {
    let mut rig = Rig::normal(&[("exp_holdoff", 0)]);
    assert_eq!(rig.srcu.size_state(), SizeState::Small);
    rig.world.contended = true;
    // Each cookie costs one contended acquisition of the list.
    for _ in 0..99 {
        rig.srcu.start_poll(0, &mut rig.world);
    }
    // The first and the second needed a new number each, and went on to the domain; later ones found theirs asked for.
    assert_eq!(rig.srcu.sup.lock().n_lock_retries, 99 + 2);
    assert_eq!(rig.srcu.size_state(), SizeState::Alloc, "101 is more than 100");
    // A new jiffy starts a new count.
    let mut slow = Rig::normal(&[("exp_holdoff", 0)]);
    slow.world.contended = true;
    for _ in 0..300 {
        slow.world.jiffies += 1;
        slow.srcu.start_poll(0, &mut slow.world);
    }
    assert_eq!(slow.srcu.size_state(), SizeState::Small);
    // Never, where the bit is not set.
    let mut never = Rig::normal(&[("convert_to_big", 0)]);
    never.world.contended = true;
    for _ in 0..300 {
        never.srcu.start_poll(0, &mut never.world);
    }
    assert_eq!(never.srcu.size_state(), SizeState::Small);

    rig.world.contended = false;
    rig.world.starts = 0;
    let mut states = Vec::new();
    let mut on = Vec::new();
    while rig.run().requeued.is_some() {
        states.push(rig.srcu.size_state());
    }
    while rig.srcu.size_state() != SizeState::Big {
        states.push(rig.srcu.size_state());
        rig.call(2, 9);
        on.push(if rig.srcu.callbacks(2) > 0 { 2 } else { 0 });
        rig.start_and_run();
        assert_eq!([rig.invoke(0), rig.invoke(2)].concat(), [9]);
    }
    use SizeState::*;
    assert_eq!(
        states,
        [WaitBarrier, WaitCall, WaitCbs1, WaitCbs2, WaitCbs3, WaitCbs4]
    );
    assert_eq!(on, [2; 5], "from WAIT_CALL on each CPU has its own list");
}

#[test]
fn who_expedites_by_itself() {
    let at = |settings: &[(&str, i64)], flavour, rest: u64, busy: bool| {
        let mut rig = Rig::new(flavour, settings);
        if busy {
            rig.call(0, 1);
        }
        rig.world.now += rest;
        rig.srcu.synchronize(0, Waiter::new(1), &mut rig.world)
    };
    let normal = Flavour::Normal;
    assert!(
        !at(&[], normal, 24_999, false),
        "in the hold-off since it was made"
    );
    assert!(at(&[], normal, 25_000, false));
    assert!(!at(&[("exp_holdoff", 0)], normal, 1 << 40, false));
    assert!(at(&[("exp_holdoff", 1)], normal, 1, false));
    assert!(!at(&[], normal, 1 << 40, true), "its list has a callback");
    for slow in [Flavour::Fast, Flavour::FastUpdown, Flavour::Light] {
        assert!(!at(&[], slow, 1 << 40, false));
    }
    // The hold-off counts from the end of a grace period.
    let mut rig = Rig::normal(&[]);
    rig.world.now += 1_000_000;
    rig.grace_period();
    rig.world.now += 24_999;
    assert!(!rig.srcu.synchronize(2, Waiter::new(1), &mut rig.world));
    // Demand of another CPU, whose list is another one in a big domain.
    let mut rig = Rig::normal(&[("convert_to_big", 1)]);
    rig.call(1, 1);
    rig.world.now += 1_000_000;
    assert!(!rig.srcu.synchronize(0, Waiter::new(1), &mut rig.world));
}

#[test]
fn fast_and_light_readers_cost_two_rcu_grace_periods() {
    for flavour in [Flavour::Fast, Flavour::FastUpdown, Flavour::Light] {
        for expedited in [false, true] {
            let mut rig = Rig::new(flavour, &[]);
            if expedited {
                rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
            } else {
                rig.call(0, 1);
            }
            assert_eq!(rig.start_and_run().rcu, [expedited; 2]);
        }
    }
}

#[test]
fn cookies() {
    let mut rig = Rig::normal(&[]);
    assert!(rig.srcu.poll_state(Srcu::<u32>::get_completed()));
    let idle = rig.srcu.get_state(&rig.world);
    assert_eq!(idle, SEQ_INITIAL + 4);
    assert_eq!(rig.world.starts, 0, "starts nothing");
    assert!(!rig.srcu.poll_state(idle));
    let asked = rig.srcu.start_poll(0, &mut rig.world);
    assert_eq!(asked, idle);
    assert_eq!(rig.srcu.get_state(&rig.world), idle + 4, "one is under way");
    rig.start_and_run();
    assert!(rig.srcu.poll_state(idle));
    assert!(!rig.srcu.poll_state(idle + 4));
    // Farther ahead than any live cookie: from before the number wrapped.
    assert!(rig.srcu.poll_state(idle + 12));
    assert!(
        rig.world.callbacks.contains_key(&0),
        "launched though there is no callback"
    );
    assert!(rig.invoke(0).is_empty());
}

#[test]
fn barriers_wait_for_callbacks_not_for_grace_periods() {
    let mut rig = Rig::normal(&[]);
    rig.srcu.barrier(1, Waiter::new(1), &mut rig.world);
    assert_eq!(rig.world.completed, [1], "nothing is queued");
    rig.srcu.start_poll(0, &mut rig.world);
    rig.srcu.barrier(1, Waiter::new(2), &mut rig.world);
    assert_eq!(rig.world.completed, [1, 2], "a grace period is");
    rig.call(3, 7);
    rig.srcu.barrier(1, Waiter::new(3), &mut rig.world);
    // Two more share the next one.
    rig.srcu.barrier(1, Waiter::new(4), &mut rig.world);
    rig.srcu.barrier(2, Waiter::new(5), &mut rig.world);
    rig.start_and_run();
    assert_eq!(
        rig.world.completed,
        [1, 2],
        "the callback's grace period is the next one"
    );
    rig.run();
    assert_eq!(rig.invoke(0), [7]);
    assert_eq!(
        rig.world.completed,
        [1, 2, 3],
        "4 and 5 came while 3 ran, and find the batch still running"
    );
    rig.invoke(0);
    assert_eq!(rig.world.completed, [1, 2, 3, 4, 5]);
    assert_eq!(rig.srcu.check_cleanup(0), Ok(()));
}

#[test]
fn expedite_current_reposts_itself_once() {
    let mut rig = Rig::normal(&[]);
    rig.call(0, 1);
    rig.srcu.expedite_current(0, &mut rig.world);
    rig.srcu.expedite_current(0, &mut rig.world);
    rig.srcu.expedite_current(0, &mut rig.world);
    assert_eq!(rig.srcu.callbacks(0), 2, "posted once");
    rig.start_and_run();
    assert!(
        rig.world.records[0].expedited,
        "the grace period under way is behind the demand"
    );
    assert_eq!(rig.invoke(0), [1]);
    rig.run();
    rig.invoke(0);
    assert_eq!(rig.srcu.callbacks(0), 1, "posted again by its callback");
    rig.start_and_run();
    rig.invoke(0);
    assert_eq!(rig.srcu.check_cleanup(0), Ok(()));
}

#[test]
fn stale_numbers_are_refreshed_where_the_mask_says() {
    let lag = |check: i64| {
        let mut rig = Rig::normal(&[("counter_wrap_check", check)]);
        let before = rig.srcu.cpu_needs(3).0;
        // CPU 3 lags by 24 grace periods of 4 counts, 96, and then by 100.
        (0..24).for_each(|_| rig.grace_period());
        assert_eq!(rig.srcu.cpu_needs(3).0, before);
        rig.grace_period();
        (rig.srcu.cpu_needs(3), rig.srcu.gp_seq(), before)
    };
    let (needs, now, _) = lag(0);
    assert_eq!(needs, (now, now));
    // -300 has bits under this mask, so nothing is refreshed.
    let (needs, _, before) = lag((u64::MAX >> 2) as i64);
    assert_eq!(needs, (before, before));
}

#[test]
fn static_domains_are_initialised_by_the_first_request() {
    let world = || Still {
        now: 5_000_000,
        ..Still::default()
    };
    let mut rig = Rig {
        srcu: Srcu::new_static(&tunables(&[("convert_to_big", 1)]), Flavour::Normal).unwrap(),
        work: GpWork::default(),
        world: world(),
    };
    assert_ne!(seq::state(rig.srcu.gp_seq_needed()), 0);
    assert_eq!(rig.srcu.check_cleanup(0), Ok(()), "never used");
    let reader = rig.srcu.read_lock(1);
    rig.srcu.read_unlock(1, reader);
    assert_ne!(seq::state(rig.srcu.gp_seq_needed()), 0, "readers need nothing");
    assert!(
        !rig.srcu.synchronize(0, Waiter::new(0), &mut rig.world),
        "the hold-off begins here"
    );
    assert_eq!(
        rig.srcu.size_state(),
        SizeState::Alloc,
        "where it is used one may not allocate"
    );
    rig.start_and_run();
    assert_eq!(rig.srcu.size_state(), SizeState::WaitBarrier);
}

#[test]
fn cpus_that_never_were_there_get_nothing() {
    let mut rig = Rig::normal(&[("convert_to_big", 1)]);
    rig.world.offline = vec![3];
    rig.call(3, 1);
    assert_eq!(rig.srcu.callbacks(0), 1, "queued on the boot CPU");
    // While slots are not trusted, everybody else is launched.
    let mut rig = Rig::normal(&[("convert_to_big", 16), ("small_contention_lim", 0)]);
    rig.world.offline = vec![3];
    rig.world.contended = true;
    rig.call(0, 1);
    rig.start_and_run();
    rig.invoke(0);
    rig.call(0, 1);
    rig.start_and_run();
    assert_eq!(rig.world.callbacks.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn unclean_domains() {
    let mut rig = Rig::normal(&[]);
    let reader = rig.srcu.read_lock(1);
    assert_eq!(rig.srcu.check_cleanup(1000), Err(Unclean::Readers));
    rig.srcu.read_unlock(2, reader);
    assert_eq!(rig.srcu.check_cleanup(1000), Ok(()));
    rig.call(0, 1);
    assert_eq!(rig.srcu.check_cleanup(1000), Err(Unclean::Callbacks(0)));
    rig.srcu.start_poll(0, &mut rig.world);
    rig.start_and_run();
    rig.invoke(0);
    assert_eq!(rig.srcu.check_cleanup(1000), Err(Unclean::GracePeriod));
    rig.srcu.synchronize_expedited(0, Waiter::new(0), &mut rig.world);
    assert_eq!(rig.srcu.check_cleanup(1000), Err(Unclean::Expedited));
}

#[test]
fn a_batch_that_is_dropped_loses_nothing() {
    let mut rig = Rig::normal(&[]);
    rig.call(0, 1);
    rig.call(0, 2);
    rig.start_and_run();
    rig.run();
    let mut batch = rig.srcu.callback_work(0).unwrap();
    assert!(rig.srcu.callback_work(0).is_none(), "one worker at a time");
    assert!(matches!(batch.next(), Some(Cb::User(1))));
    drop(batch);
    assert_eq!(rig.srcu.callbacks(0), 1);
    assert_eq!(rig.invoke(0), [2]);
}

#[test]
fn the_line_of_rcutorture() {
    let mut rig = Rig::normal(&[("convert_to_big", 2)]);
    let reader = rig.srcu.read_lock(1);
    rig.srcu.read_unlock(2, reader);
    let inside = rig.srcu.read_lock(1);
    rig.call(0, 1);
    assert_eq!(
        rig.srcu.torture_stats(),
        "Tree SRCU g-399 state 0 (SRCU_SIZE_SMALL) per-CPU(idx=0): 0(0,0 C) 1(0,2 .) 2(0,-1 .) 3(0,0 .) T(0,1)"
    );
    assert_eq!(rig.srcu.size_state(), SizeState::Alloc, "convert_to_big=2");
    rig.srcu.read_unlock(1, inside);
}
