//! What an expedited grace period costs a real thread when nobody reads: every CPU is in an extended
//! quiescent state, the caller takes the funnel's fast path, and no interrupt is sent.
//!
//! ```text
//! cargo bench --bench expedited
//! ```
//!
//! The world is a trivial one, so the figures are the engine's own: what a real world adds is its barrier
//! against running readers. Each figure is the best of several rounds.

use std::time::Instant;
use treercu::config::Config;
use treercu::tree::waiters::Waiter;
use treercu::tree::watching::WatchSnap;
use treercu::tree::world::{Ctx, Current, Fence, GpRecord, Ipi, Kthread, Work, WorkItem, World};
use treercu::tree::{ExpStep, Rcu, StallReport};

/// Every CPU is idle.
struct AllIdle;

impl World for AllIdle {
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
        unreachable!("{waiter:?}")
    }
    fn queue_work(&mut self, item: WorkItem) -> bool {
        unreachable!("{item:?}")
    }
    fn spend(&mut self, _work: Work) {}
    fn stall(&mut self, report: &StallReport) {
        unreachable!("{report}")
    }
    fn grace_period_ended(&mut self, record: &GpRecord) {
        unreachable!("{record:?}")
    }
}

/// ns per call.
fn measure(cpus: u32, calls: u32) -> f64 {
    let config = Config::new()
        .with("nr_cpus", i64::from(cpus))
        .expect("a number of CPUs");
    let rcu: Rcu<()> = Rcu::new(config.tunables()).expect("fits");
    let ctx = Ctx {
        cpu: 0,
        in_irq: false,
        current: Current::Task,
    };
    let waiter = Waiter::new(0);
    let begun = Instant::now();
    for _ in 0..calls {
        let mut call = rcu.exp_begin();
        while std::hint::black_box(rcu.exp_step(&mut call, ctx, &waiter, &mut AllIdle)) != ExpStep::Done {}
    }
    let ns = begun.elapsed().as_nanos() as f64 / f64::from(calls);
    assert_eq!(rcu.exp_seq() / 4, u64::from(calls), "one grace period a call");
    ns
}

fn main() {
    const ROUNDS: u32 = 7;
    println!("{:>6} {:>6} {:>12}", "CPUs", "nodes", "ns a call");
    for (cpus, calls) in [(1, 2_000_000), (2, 2_000_000), (64, 500_000), (2048, 20_000)] {
        let best = (0..ROUNDS).map(|_| measure(cpus, calls)).fold(f64::MAX, f64::min);
        let config = Config::new().with("nr_cpus", i64::from(cpus)).expect("valid");
        let rcu: Rcu<()> = Rcu::new(config.tunables()).expect("fits");
        println!("{cpus:>6} {:>6} {best:>12.1}", rcu.geometry().nodes.len());
    }
}
