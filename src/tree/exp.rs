//! Expedited grace periods: `synchronize_rcu_expedited()`.
//!
//! Where a normal grace period waits until every CPU has happened to be quiescent, an expedited one asks:
//! an idle CPU needs nothing, a busy one gets an interrupt whose handler reports at once unless it hit a
//! reader, and a reader reports at its outermost unlock. Concurrent callers are batched by a funnel through
//! the tree: of all callers with one target number, one reaches `exp_mutex` and drives the grace period;
//! the others sleep on a node near them.
//!
//! The caller that owns `exp_mutex` drives its grace period itself, step by step ([`Rcu::exp_step`]), and
//! ends it and wakes the sleepers before it lets the mutex go. So the kernel's second mutex, which keeps one
//! grace period's waking apart from the next one's, has nothing to do here. Nothing blocks: a caller that has
//! to wait leaves its waiter in a queue, and whoever ends its wait completes that waiter.
//!
//! Readers blocked inside a section and the quiescent states of CPUs are in `exp_qs.rs`.
//!
//! Simulated latencies (medians of lone calls, HZ=1000, the machine's default costs, no noise). Idle: nobody but the caller
//! runs. Busy: every other CPU is in kernel code, in sections of 2 µs most of the time, so that the last reader to leave
//! decides until the caller's own walk over the tree takes longer. `cargo run --release --example expedited_latency`
//! prints it.
//!
//! | CPUs | expedited, idle, µs | expedited, busy, µs | normal, idle, µs | expedited, idle (o) and busy (x), 1 µs to 10 ms |
//! |---:|---:|---:|---:|---|
//! | 1 | 1.8 | 1.8 | 5 | `...o.....................................` |
//! | 2 | 1.9 | 6.2 | 3995 | `...o....x................................` |
//! | 4 | 2.0 | 11.2 | 3995 | `...o......x..............................` |
//! | 8 | 2.1 | 11.2 | 3995 | `...o......x..............................` |
//! | 16 | 2.4 | 11.2 | 3995 | `....o.....x..............................` |
//! | 32 | 3.4 | 11.2 | 3995 | `.....o....x..............................` |
//! | 64 | 5.0 | 14.2 | 3995 | `.......o....x............................` |
//! | 128 | 8.1 | 17.2 | 3995 | `.........o..x............................` |
//! | 256 | 14.4 | 23.2 | 4995 | `............o.x..........................` |
//! | 512 | 27.1 | 35.2 | 5995 | `..............ox.........................` |
//! | 1024 | 52.4 | 61.3 | 7995 | `.................ox......................` |
//! | 2048 | 103.2 | 112.3 | 11995 | `....................ox...................` |
//!
//! Speed: on an idle machine of one node a whole call is a dozen locked instructions or fewer, and allocates nothing.

use super::handoff::HandOff;
use super::rcu::{Node, Rcu, bits};
use super::seq;
use super::waiters::Waiter;
use super::watching::WatchSnap;
use super::world::{Ctx, Ipi, Work, World};
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, FullLock, Ordering, assert_unlocked, fence_after_rmw, full_fence,
    mutated, order,
};
use crate::trace::Event;

/// A node's part in expedited grace periods.
#[derive(Debug, Default)]
pub(super) struct ExpNode {
    /// Children (CPUs at a leaf) that still owe an expedited quiescent state. Written under the node's lock.
    pub mask: AtomicU64,
    /// Leaf: some blocked reader blocks the expedited grace period (`exp_tasks` is set).
    pub tasks: AtomicBool,
    /// Latest target that somebody asked for through this node (`exp_seq_rq`). Only ever grows. The kernel
    /// raises it everywhere at the end of each grace period, lest it lag half the range of the number: with
    /// 64 bits that takes thousands of years.
    seq_rq: AtomicU64,
    /// Callers asleep here, each with its target (`exp_wq`).
    sleepers: FullLock<Vec<(Waiter, u64)>>,
    /// Their number, for those who look without the lock.
    asleep: AtomicU32,
}

/// What all expedited grace periods share.
#[derive(Debug)]
pub(super) struct Expedited {
    /// `expedited_sequence`.
    pub seq: AtomicU64,
    mutex: HandOff,
    /// Callers asleep on all nodes together.
    asleep: AtomicU32,
    /// `expedited_wq`: the driver, while it waits for the root.
    driver: FullLock<Option<Waiter>>,
    driver_waits: AtomicBool,
    /// CPUs that were ever online, and their number when the masks were last brought up to date.
    pub ncpus: AtomicU32,
    ncpus_snap: AtomicU32,
}

impl Expedited {
    /// Nothing in flight, the first `online` CPUs online. The masks are made by the first grace period.
    pub(super) fn new(online: u32) -> Self {
        Expedited {
            seq: AtomicU64::new(0),
            mutex: HandOff::default(),
            asleep: AtomicU32::new(0),
            driver: FullLock::new(None),
            driver_waits: AtomicBool::new(false),
            ncpus: AtomicU32::new(online),
            ncpus_snap: AtomicU32::new(0),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Enter,
    /// Asleep on this node.
    OnNode(usize),
    /// In the queue of `exp_mutex`.
    ForMutex,
    /// The owner: the sequence is started, the masks come next.
    Reset,
    /// The owner: this leaf next. The mask: leaves of the same parent that turned out to owe nothing.
    Select(usize, u64),
    /// The owner, asleep until the root is clear.
    Asleep,
    Done,
}

/// One `synchronize_rcu_expedited()`. It may be stepped from any CPU and thread, by one at a time.
#[derive(Debug)]
pub struct ExpCall {
    /// The sequence by which the call is done.
    s: u64,
    stage: Stage,
    /// Jiffy in which the owner began to wait.
    since: u64,
    /// Jiffy from which on the wait counts as stalled.
    stall_at: u64,
}

impl ExpCall {
    /// `expedited_sequence`, while it runs, of the grace period that serves this call: the first that
    /// starts after the call began.
    pub fn gp_seq(&self) -> u64 {
        self.s.wrapping_sub(seq::SEQ_MASK)
    }
}

/// What a call wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpStep {
    /// A reschedule point: step again.
    Again,
    /// This caller has started a grace period and nobody has been sampled yet. What the world knows to be
    /// true of running readers from here on counts: now is the time for its heavy fence, and to put readers
    /// that it finds in a section on their leaf's list. The next step samples the CPUs.
    Prepare,
    /// Block until the waiter is completed, then step again.
    Wait,
    /// The same, but step again after so many jiffies too: the step reports a stall.
    WaitTimeout {
        /// Jiffies, at least 1.
        jiffies: u64,
    },
    /// A full grace period has passed since the call began.
    Done,
}

impl<C> Rcu<C> {
    /// `expedited_sequence`: the number of the latest expedited grace period, in the form of
    /// [`seq`](super::seq).
    pub fn exp_seq(&self) -> u64 {
        self.exp.seq.load(Ordering::SeqCst)
    }

    /// Begins a `synchronize_rcu_expedited()`.
    pub fn exp_begin(&self) -> ExpCall {
        // Full barrier: the caller's updates come before the reading. Partner: the barrier of the leaf locks
        // that a grace period which starts later takes before it samples.
        full_fence("expedited begin");
        ExpCall {
            s: seq::snap(self.exp_seq()),
            stage: Stage::Enter,
            since: 0,
            stall_at: 0,
        }
    }

    /// One step of the call. `ctx` says where the caller runs now; `waiter` is what a wait is ended by, the
    /// same one in each step.
    ///
    /// `ctx.cpu` counts as quiescent where [`World::is_alone`]: whatever else runs there is on its leaf's list by
    /// the step after [`ExpStep::Prepare`].
    ///
    /// A step too many does no harm. Each wait is ended by one completion; when `Done` comes by a step that
    /// was not due to it, that completion may still be on its way.
    pub fn exp_step(&self, call: &mut ExpCall, ctx: Ctx, waiter: &Waiter, world: &mut impl World) -> ExpStep {
        match call.stage {
            Stage::Enter => self.exp_enter(call, ctx, waiter, world),
            Stage::OnNode(index) => {
                if !self.exp_done(call, world) {
                    return ExpStep::Wait;
                }
                self.leave_node(index, waiter);
                ExpStep::Done
            }
            Stage::ForMutex if self.exp.mutex.is_queued(waiter) => ExpStep::Wait,
            Stage::ForMutex => self.exp_start(call, world),
            Stage::Reset => {
                self.exp_reset(call, world);
                self.exp_event(call, "select", world);
                self.exp_select(call, self.geometry.leaves().start, 0, ctx, waiter, world)
            }
            Stage::Select(leaf, done) => self.exp_select(call, leaf, done, ctx, waiter, world),
            Stage::Asleep => self.exp_wait(call, waiter, world),
            Stage::Done => ExpStep::Done,
        }
    }

    /// Gives a call up, if nobody relies on it: true. A caller that owns `exp_mutex` or waits for it has to
    /// go on, since others sleep until it has done its grace period, or find somebody who does so for it
    /// ([`Rcu::exp_adopt`]).
    pub fn exp_cancel(&self, call: &mut ExpCall, waiter: &Waiter) -> bool {
        match call.stage {
            Stage::OnNode(index) => self.leave_node(index, waiter),
            Stage::Enter | Stage::Done => {}
            _ => return false,
        }
        call.stage = Stage::Done;
        true
    }

    /// Somebody else goes on with a call that could not be given up, and is completed as `new` where its caller
    /// was as `old`; he steps it at once, since a completion may have gone to the old one before this.
    pub fn exp_adopt(&self, old: &Waiter, new: &Waiter) {
        self.exp.mutex.rename(old, new);
        let mut driver = self.exp.driver.lock();
        if driver.as_ref().is_some_and(|driver| driver.same(old)) {
            *driver = Some(new.clone());
        }
    }

    /// CPUs that the expedited grace period in progress still waits for.
    pub fn exp_holdouts(&self) -> Vec<u32> {
        self.geometry
            .leaves()
            .flat_map(|leaf| {
                let node = &self.nodes[leaf];
                bits(node.exp.mask.load(Ordering::Relaxed)).map(|bit| node.shape.grplo + bit)
            })
            .collect()
    }

    /// Readers blocked inside a section that the expedited grace period in progress still waits for.
    pub fn exp_blocking_readers(&self) -> Vec<super::ReaderId> {
        self.geometry
            .leaves()
            .flat_map(|leaf| self.lock_node(leaf).blocked.exp_blockers())
            .collect()
    }

    /// `sync_exp_work_done()`.
    fn exp_done(&self, call: &mut ExpCall, world: &mut impl World) -> bool {
        if !seq::done(self.exp_seq(), call.s) {
            return false;
        }
        self.exp_event(call, "done", world);
        // The number was read with acquire, of the release with which it was ended: what the caller frees now comes
        // after the readers that it proves gone.
        call.stage = Stage::Done;
        true
    }

    fn exp_event(&self, call: &ExpCall, what: &'static str, world: &mut impl World) {
        let gp_seq = call.s;
        world.emit(|| Event::ExpGracePeriod { gp_seq, what });
    }

    /// `exp_funnel_lock()`.
    fn exp_enter(&self, call: &mut ExpCall, ctx: Ctx, waiter: &Waiter, world: &mut impl World) -> ExpStep {
        self.exp_event(call, "snap", world);
        let leaf = self.cpus[ctx.cpu as usize].leaf;
        let nobody_ahead = |node: &Node| seq::lt(node.exp.seq_rq.load(Ordering::Relaxed), call.s);
        if nobody_ahead(&self.nodes[leaf]) && nobody_ahead(&self.nodes[0]) && self.exp.mutex.try_lock() {
            return self.exp_start(call, world);
        }
        let mut next = Some(leaf);
        while let Some(index) = next {
            if self.exp_done(call, world) {
                return ExpStep::Done;
            }
            let node = &self.nodes[index];
            let first = node.exp.ask_for(call.s);
            world.emit(|| Event::ExpFunnelLock {
                level: node.shape.level,
                grplo: node.shape.grplo,
                grphi: node.shape.grphi,
                what: if first { "nxtlvl" } else { "wait" },
            });
            if !first {
                return self.sleep_on_node(call, index, waiter, world);
            }
            next = node.shape.parent;
        }
        if self.exp.mutex.lock_or_queue(waiter) {
            return self.exp_start(call, world);
        }
        call.stage = Stage::ForMutex;
        ExpStep::Wait
    }

    /// Somebody with the same or a later target went ahead through this node: sleep until he is done.
    fn sleep_on_node(
        &self,
        call: &mut ExpCall,
        index: usize,
        waiter: &Waiter,
        world: &mut impl World,
    ) -> ExpStep {
        let node = &self.nodes[index].exp;
        {
            let mut sleepers = node.sleepers.lock();
            sleepers.push((waiter.clone(), call.s));
            node.asleep.fetch_add(1, Ordering::SeqCst);
            self.exp.asleep.fetch_add(1, Ordering::SeqCst);
        }
        // Counted first, then the number is read; the end writes the number first, then reads the counts. A full
        // barrier between the two, there and here.
        fence_after_rmw("sleeper counted");
        if self.exp_done(call, world) {
            // Whether the waker has found it or not: if so, its completion makes a step too many.
            self.leave_node(index, waiter);
            return ExpStep::Done;
        }
        call.stage = Stage::OnNode(index);
        ExpStep::Wait
    }

    /// Takes a waiter that nobody has completed off its node.
    fn leave_node(&self, index: usize, waiter: &Waiter) {
        let node = &self.nodes[index].exp;
        let mut sleepers = node.sleepers.lock();
        if let Some(at) = sleepers.iter().position(|(other, _)| other.same(waiter)) {
            sleepers.swap_remove(at);
            node.asleep.fetch_sub(1, Ordering::SeqCst);
            self.exp.asleep.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// `exp_mutex` is this caller's. If nobody has done its work meanwhile, the sequence starts.
    fn exp_start(&self, call: &mut ExpCall, world: &mut impl World) -> ExpStep {
        if self.exp_done(call, world) {
            self.exp_mutex_unlock(world);
            return ExpStep::Done;
        }
        // Only the owner writes the number. The barrier behind this store is that of the leaf locks: whoever
        // still reads the old number did so before it, and so did its updates.
        let started = seq::start(self.exp.seq.load(Ordering::Relaxed));
        promise_eq!(
            seq::endval(started),
            call.s,
            "an owner does the first grace period it needs"
        );
        self.exp.seq.store(started, Ordering::Release);
        self.polled_exp_start();
        self.exp_event(call, "start", world);
        world.spend(Work::ExpStart);
        call.stage = Stage::Reset;
        ExpStep::Prepare
    }

    /// First half of the reset: the inner nodes, from the root down.
    ///
    /// The leaves follow one by one, each reset and selected in one critical section. That is right, though
    /// at that time other leaves are not reset yet: a report climbs only through inner nodes, and those are
    /// complete. A reader that is preempted on a CPU of a leaf which is still to be reset does not block the
    /// grace period when it is queued (no bit is set), but the reset makes all that are queued by then block;
    /// one that is not preempted is sampled after the reset, like any other. A reader cannot leave its leaf
    /// unnoticed: it changes CPU only by being preempted, and stays on the list of the leaf where that was.
    fn exp_reset(&self, call: &ExpCall, world: &mut impl World) {
        self.exp_event(call, "reset", world);
        let ncpus = self.exp.ncpus.load(Ordering::Acquire);
        if ncpus != self.exp.ncpus_snap.load(Ordering::Relaxed) {
            self.exp.ncpus_snap.store(ncpus, Ordering::Relaxed);
            self.exp_hotplug();
        }
        let inner = self.geometry.leaves().start;
        for (index, node) in self.nodes[..inner].iter().enumerate() {
            let state = self.lock_node(index);
            promise_eq!(node.exp.mask.load(Ordering::Relaxed), 0, "the last one is over");
            node.exp.mask.store(state.expmaskinit, Ordering::Release);
        }
        world.spend(Work::ExpReset(inner as u32));
    }

    /// `sync_exp_reset_tree_hotplug()`: CPUs that were online for the first time since the last expedited
    /// grace period become part of the tree, for good.
    fn exp_hotplug(&self) {
        for leaf in self.geometry.leaves() {
            let attached = {
                let mut state = self.lock_node(leaf);
                let attached = state.expmaskinit != 0;
                state.expmaskinit = state.expmaskinitnext;
                attached || state.expmaskinit == 0
            };
            let mut index = leaf;
            while let Some(parent) = self.nodes[index].shape.parent.filter(|_| !attached) {
                let mask = self.nodes[index].shape.grpmask;
                let mut state = self.lock_node(parent);
                let was_empty = state.expmaskinit == 0;
                state.expmaskinit |= mask;
                if !was_empty {
                    break;
                }
                index = parent;
            }
        }
    }

    /// `sync_exp_select_cpus()` for one leaf, its reset included.
    fn exp_select(
        &self,
        call: &mut ExpCall,
        leaf: usize,
        mut done: u64,
        ctx: Ctx,
        waiter: &Waiter,
        world: &mut impl World,
    ) -> ExpStep {
        if self.exp_select_leaf(leaf, ctx, world) {
            done |= self.nodes[leaf].shape.grpmask;
        }
        let parent = self.nodes[leaf].shape.parent;
        let next = self.nodes.get(leaf + 1);
        // Leaves that owe nothing are reported to their parent together.
        if let Some(parent) = parent.filter(|_| next.is_none_or(|next| next.shape.parent != parent)) {
            if done != 0 {
                self.exp_report_up(parent, self.lock_node(parent), done);
            }
            done = 0;
        }
        if next.is_some() {
            call.stage = Stage::Select(leaf + 1, done);
            return ExpStep::Again;
        }
        if self.exp_root_done() {
            return self.exp_end(call, world);
        }
        self.exp_sleep(call, waiter, world)
    }

    /// True: nobody is waited for at this leaf, and its parent does not know yet.
    fn exp_select_leaf(&self, index: usize, ctx: Ctx, world: &mut impl World) -> bool {
        let node = &self.nodes[index];
        let cpu_of = |bit: u32| &self.cpus[(node.shape.grplo + bit) as usize];
        let mut owed;
        {
            let mut leaf = self.lock_node(index);
            promise_eq!(node.exp.mask.load(Ordering::Relaxed), 0, "the last one is over");
            promise!(
                !node.exp.tasks.load(Ordering::Relaxed),
                "and left no reader behind"
            );
            let blocked = !leaf.blocked.is_empty() && !mutated("A03");
            if blocked {
                leaf.blocked.all_block_exp();
                node.exp.tasks.store(true, Ordering::Release);
            }
            // A CPU that is not online has reported all it could owe.
            owed = leaf.expmaskinit & leaf.qsmaskinitnext;
            for bit in bits(owed) {
                let rdp = cpu_of(bit);
                // The caller itself is outside any section. What begins on an idle CPU begins after this.
                let snap = world.watching(rdp.cpu);
                if (rdp.cpu == ctx.cpu && world.is_alone(rdp.cpu)) || snap.in_eqs() || mutated("A04") {
                    owed &= !rdp.grpmask;
                } else {
                    rdp.exp_watching_snap.store(snap.0, Ordering::Relaxed);
                }
            }
            node.exp.mask.store(owed, Ordering::Release);
            world.spend(Work::ExpSelect(leaf.expmaskinit.count_ones()));
            if owed == 0 {
                return !blocked;
            }
        }
        assert_unlocked();
        let mut passed = 0;
        for bit in bits(owed) {
            let rdp = cpu_of(bit);
            let snap = WatchSnap(rdp.exp_watching_snap.load(Ordering::Relaxed));
            if world.watching(rdp.cpu).passed_eqs_since(snap) {
                passed |= rdp.grpmask;
            } else {
                world.send_ipi(rdp.cpu, Ipi::Exp);
            }
        }
        if passed != 0 {
            // Nobody waits for the root yet.
            self.exp_report_up(index, self.lock_node(index), passed);
        }
        false
    }

    /// The root is clear: nobody is waited for.
    pub(super) fn exp_root_done(&self) -> bool {
        // In this order: a reader blocks before the bit of its CPU goes.
        let root = &self.nodes[0].exp;
        root.mask.load(Ordering::SeqCst) == 0 && !root.tasks.load(Ordering::SeqCst)
    }

    /// The driver goes to sleep on `expedited_wq`.
    fn exp_sleep(&self, call: &mut ExpCall, waiter: &Waiter, world: &mut impl World) -> ExpStep {
        self.exp_event(call, "startwait", world);
        call.since = world.jiffies();
        call.stall_at = call.since + self.tun.exp_stall_timeout_jiffies;
        call.stage = Stage::Asleep;
        *self.exp.driver.lock() = Some(waiter.clone());
        self.exp.driver_waits.store(true, Ordering::SeqCst);
        // Full barrier between the store and the look at the root. Partner: the one in `exp_wake_driver`.
        full_fence("driver waits");
        self.exp_wait(call, waiter, world)
    }

    /// The driver looks, before it sleeps or because it was woken or its time was up.
    fn exp_wait(&self, call: &mut ExpCall, _waiter: &Waiter, world: &mut impl World) -> ExpStep {
        if self.exp_root_done() {
            self.exp.driver_waits.store(false, Ordering::SeqCst);
            // Whoever emptied the root may have taken it; then its completion makes a step too many.
            self.exp.driver.lock().take();
            return self.exp_end(call, world);
        }
        let now = world.jiffies();
        if now >= call.stall_at {
            self.exp_stall(call.gp_seq(), now - call.since, world);
            call.stall_at = now + 3 * self.tun.exp_stall_timeout_jiffies + 3;
        }
        ExpStep::WaitTimeout {
            jiffies: call.stall_at - now,
        }
    }

    /// The root was emptied; no lock is held. Wakes the driver if it sleeps already.
    pub(super) fn exp_wake_driver(&self, world: &mut impl World) {
        assert_unlocked();
        // Full barrier between the emptying and the look at the flag. Partner: `exp_sleep`.
        full_fence("driver woken");
        if !self.exp.driver_waits.swap(false, Ordering::SeqCst) {
            return;
        }
        let driver = self.exp.driver.lock().take();
        if let Some(driver) = driver {
            world.complete(driver, self.exp_seq());
        }
    }

    /// `rcu_exp_wait_wake()`, second part: the grace period ends, and all who sleep for it wake.
    fn exp_end(&self, call: &mut ExpCall, world: &mut impl World) -> ExpStep {
        let running = self.exp.seq.load(Ordering::Relaxed);
        self.polled_exp_end();
        // Full barrier on both sides: all reports come before it, and the counts are read after it.
        self.exp
            .seq
            .swap(seq::end(running), order("expedited end", Ordering::SeqCst));
        fence_after_rmw("expedited ended");
        self.exp_event(call, "end", world);
        if self.exp.asleep.load(Ordering::SeqCst) > 0 {
            self.exp_wake_sleepers(running, world);
        }
        self.exp_event(call, "endwake", world);
        // As `exp_done` would find; its barrier was the swap.
        self.exp_event(call, "done", world);
        call.stage = Stage::Done;
        self.exp_mutex_unlock(world);
        world.spend(Work::ExpEnd);
        ExpStep::Done
    }

    /// Wakes everybody whose target is reached, breadth first.
    fn exp_wake_sleepers(&self, running: u64, world: &mut impl World) {
        for node in &self.nodes {
            let node = &node.exp;
            if node.asleep.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let woken: Vec<Waiter> = {
                let mut sleepers = node.sleepers.lock();
                let reached = sleepers.extract_if(.., |(_, s)| seq::done(seq::endval(running), *s));
                reached.map(|(waiter, _)| waiter).collect()
            };
            node.asleep.fetch_sub(woken.len() as u32, Ordering::SeqCst);
            self.exp.asleep.fetch_sub(woken.len() as u32, Ordering::SeqCst);
            for waiter in woken {
                world.complete(waiter, running);
            }
        }
    }

    fn exp_mutex_unlock(&self, world: &mut impl World) {
        if let Some(next) = self.exp.mutex.unlock() {
            world.complete(next, self.exp_seq());
        }
    }
}

impl ExpNode {
    /// Records the target; false: the same or a later one was recorded before.
    fn ask_for(&self, s: u64) -> bool {
        let relaxed = Ordering::Relaxed;
        let update = |rq| seq::lt(rq, s).then_some(s);
        self.seq_rq.fetch_update(relaxed, relaxed, update).is_ok()
    }
}
