//! The funnel of expedited callers under real threads: nobody is forgotten, and callers are batched.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::Thread;
use treercu::config::Config;
use treercu::tree::waiters::Waiter;
use treercu::tree::watching::WatchSnap;
use treercu::tree::world::{Ctx, Current, Fence, GpRecord, Ipi, Kthread, Work, WorkItem, World};
use treercu::tree::{ExpStep, Rcu, StallReport};

const THREADS: u32 = 4;
const CALLS: u64 = 3_000;

/// All CPUs are idle; the threads park.
struct Parking<'a> {
    threads: &'a [Thread],
    completed: &'a [AtomicBool],
    completions: &'a AtomicU64,
}

impl World for Parking<'_> {
    fn now(&self) -> u64 {
        0
    }
    fn jiffies(&self) -> u64 {
        0
    }
    fn heavy_fence(&mut self, _why: Fence) {}
    fn watching(&self, _cpu: u32) -> WatchSnap {
        WatchSnap(1)
    }
    fn wake(&mut self, kthread: Kthread) {
        unreachable!("{kthread:?}")
    }
    fn raise_core(&mut self, cpu: u32) {
        unreachable!("CPU {cpu}")
    }
    fn send_ipi(&mut self, cpu: u32, ipi: Ipi) {
        unreachable!("{ipi:?} to CPU {cpu}")
    }
    fn momentary_eqs(&mut self, cpu: u32) {
        unreachable!("CPU {cpu}")
    }
    fn resched(&mut self, cpu: u32) {
        unreachable!("CPU {cpu}")
    }
    fn complete(&mut self, waiter: Waiter, _gp_seq: u64) {
        self.completions.fetch_add(1, SeqCst);
        let thread = waiter.token() as usize;
        self.completed[thread].store(true, SeqCst);
        self.threads[thread].unpark();
    }
    fn queue_work(&mut self, item: WorkItem) -> bool {
        unreachable!("{item:?}")
    }
    fn spend(&mut self, _work: Work) {
        // More schedules, where cores are few.
        std::thread::yield_now();
    }
    fn stall(&mut self, report: &StallReport) {
        unreachable!("{report}")
    }
    fn grace_period_ended(&mut self, record: &GpRecord) {
        unreachable!("{record:?}")
    }
}

/// Each thread calls from a CPU of its own leaf or shares one, and updates a counter before each call: at the
/// call's end the number has moved by at least one whole grace period. A lost hand-over or wake-up would hang.
#[test]
fn threads_hand_the_mutex_on_and_wake_each_other() {
    let config = Config::new()
        .with("nr_cpus", 8)
        .and_then(|c| c.with("rcu_fanout_leaf", 2))
        .and_then(|c| c.with("rcu_fanout", 2))
        .expect("valid");
    let rcu: Rcu<()> = Rcu::new(config.tunables()).expect("fits");
    let completed: Vec<AtomicBool> = (0..THREADS).map(|_| AtomicBool::new(false)).collect();
    let completions = AtomicU64::new(0);
    let (ready, go) = (
        std::sync::Barrier::new(THREADS as usize + 1),
        std::sync::OnceLock::new(),
    );
    let slept = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for index in 0..THREADS {
            let (rcu, completed, completions) = (&rcu, &completed, &completions);
            let (ready, go, slept) = (&ready, &go, &slept);
            let handle = scope.spawn(move || {
                ready.wait();
                ready.wait();
                let threads: &Vec<Thread> = go.get().expect("set between the barriers");
                let mut world = Parking {
                    threads,
                    completed,
                    completions,
                };
                // Two of them share a leaf.
                let ctx = Ctx {
                    cpu: [0, 1, 2, 7][index as usize],
                    in_irq: false,
                    current: Current::Task,
                };
                let waiter = Waiter::new(u64::from(index));
                for _ in 0..CALLS {
                    let before = rcu.exp_seq();
                    let mut call = rcu.exp_begin();
                    loop {
                        match rcu.exp_step(&mut call, ctx, &waiter, &mut world) {
                            ExpStep::Again | ExpStep::Prepare => {}
                            ExpStep::Wait => {
                                slept.fetch_add(1, SeqCst);
                                while !completed[index as usize].swap(false, SeqCst) {
                                    std::thread::park();
                                }
                            }
                            ExpStep::WaitTimeout { .. } => unreachable!("everybody is idle"),
                            ExpStep::Done => break,
                        }
                    }
                    // At least to the end of the first one that starts after the beginning.
                    let needed = if before % 4 == 0 {
                        before + 4
                    } else {
                        before / 4 * 4 + 8
                    };
                    assert!(rcu.exp_seq() >= needed);
                    assert!(call.gp_seq() + 3 >= needed);
                }
            });
            threads.push(handle.thread().clone());
        }
        ready.wait();
        go.set(threads).expect("once");
        ready.wait();
    });
    let grace_periods = rcu.exp_seq() / 4;
    let calls = u64::from(THREADS) * CALLS;
    println!(
        "{calls} calls, {grace_periods} grace periods, {} sleeps, {} completions",
        slept.load(SeqCst),
        completions.load(SeqCst)
    );
    assert!(grace_periods < calls, "some shared one");
    assert!(slept.load(SeqCst) > 0);
    assert!(rcu.exp_holdouts().is_empty());
}
