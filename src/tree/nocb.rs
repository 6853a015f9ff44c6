//! Callback offloading: the callbacks of some CPUs are waited for and invoked by kthreads.
//!
//! A *group* is an aligned run of `stride` CPUs. Its `rcuog` looks after the lists of its offloaded members (see
//! `nocb_gp`), and each member has an `rcuop`, which invokes what is ready (see `nocb_cb`). `call_rcu` on such a CPU
//! queues and at most wakes `rcuog`; floods go to a second list, the bypass (see `nocb_bypass`). A CPU's own lock
//! is its `nocb_lock`.
//!
//! Who wants `rcuog` to look wakes it at once, or arms the group's timer at one of three *defer levels*. Only its
//! idle sleep can be woken so: while it waits for the end of a grace period it is left alone, and looks at every
//! member afterwards.

use super::nocb_bypass::Bypass;
use super::rcu::{CpuData, Own, Rcu};
use super::world::{Ctx, Kthread, World};
use crate::config::Tunables;
use crate::sync::{AtomicBool, AtomicU64, FullLock, Ordering, assert_unlocked};

/// How urgently `rcuog` is to look, where it is not woken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Defer {
    /// Not at all.
    Not,
    /// A bypass list waits to be flushed: 2 jiffies.
    Bypass,
    /// Callbacks were queued where nobody could be woken: 1 jiffy, or the CPU's next tick.
    Wake,
}

/// What `nocb_gp_lock` protects.
#[derive(Debug)]
pub(super) struct GroupState {
    /// `nocb_gp_sleep`: who queues a callback should wake.
    pub gp_sleep: bool,
    /// `rcuog` is in its idle sleep, the only one that enqueuers end.
    pub idle: bool,
    pub level: Defer,
    pub timer_armed: bool,
}

/// A group of CPUs.
#[derive(Debug)]
pub(super) struct Group {
    /// Offloaded CPUs.
    pub members: Vec<u32>,
    /// The leaf of the group's first CPU, on whose queue `rcuog` waits for grace periods.
    pub leaf: usize,
    pub state: FullLock<GroupState>,
    /// Parity + 1 of the grace period whose end `rcuog` sleeps for on the leaf's queue; 0: on none. Changed under
    /// the leaf's lock.
    pub waits_for_parity: AtomicU64,
    /// Event count of `rcuog`.
    pub ticket: AtomicU64,
}

/// An offloaded CPU's callback kthread, as others see it.
#[derive(Debug)]
pub(super) struct CallbackKthread {
    /// `nocb_cb_sleep`. Changed under the CPU's own lock.
    pub sleep: AtomicBool,
    pub ticket: AtomicU64,
}

/// The offloading of one machine. There is none where no CPU is offloaded.
#[derive(Debug)]
pub(super) struct Offloading {
    pub groups: Vec<Group>,
    /// Of each CPU: its group and its callback kthread, if it is offloaded.
    pub of: Vec<Option<(usize, CallbackKthread)>>,
}

impl Offloading {
    pub(super) fn new(tun: &Tunables, leaf_of: impl Fn(u32) -> usize) -> Option<Box<Self>> {
        if tun.offloaded.is_empty() {
            return None;
        }
        let stride = tun.rcu_nocb_gp_stride.max(1);
        let mut groups: Vec<Group> = Vec::new();
        let mut of: Vec<Option<(usize, CallbackKthread)>> = (0..tun.nr_cpus).map(|_| None).collect();
        for leader in (0..tun.nr_cpus).step_by(stride as usize) {
            let end = leader.saturating_add(stride);
            let members: Vec<u32> = tun
                .offloaded
                .iter()
                .copied()
                .filter(|&c| (leader..end).contains(&c))
                .collect();
            if members.is_empty() {
                continue;
            }
            for &cpu in &members {
                let kthread = CallbackKthread {
                    sleep: AtomicBool::new(true),
                    ticket: AtomicU64::new(0),
                };
                of[cpu as usize] = Some((groups.len(), kthread));
            }
            groups.push(Group {
                members,
                leaf: leaf_of(leader),
                state: FullLock::new(GroupState {
                    gp_sleep: true,
                    idle: false,
                    level: Defer::Not,
                    timer_armed: false,
                }),
                waits_for_parity: AtomicU64::new(0),
                ticket: AtomicU64::new(0),
            });
        }
        Some(Box::new(Offloading { groups, of }))
    }
}

/// What an enqueue, decided under the CPU's lock, wants done once it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Nothing,
    /// Wake `rcuog` now.
    Wake,
    /// Arm its timer.
    Defer(Defer),
}

impl<C> Rcu<C> {
    /// That CPU's callbacks are offloaded.
    pub fn is_offloaded(&self, cpu: u32) -> bool {
        self.nocb
            .as_deref()
            .is_some_and(|nocb| nocb.of[cpu as usize].is_some())
    }

    /// Offloaded CPUs of each `rcuog`'s group.
    pub fn nocb_groups(&self) -> impl Iterator<Item = &[u32]> {
        self.nocb
            .iter()
            .flat_map(|nocb| nocb.groups.iter().map(|group| group.members.as_slice()))
    }

    pub(super) fn nocb_group_of(&self, cpu: u32) -> Option<(usize, &Group)> {
        let nocb = self.nocb.as_deref()?;
        let (index, _) = nocb.of[cpu as usize].as_ref()?;
        Some((*index, &nocb.groups[*index]))
    }

    pub(super) fn nocb_call(&self, cpu: u32, call: Call, world: &mut impl World) {
        match call {
            Call::Nothing => {}
            Call::Wake => self.nocb_wake(cpu, world),
            Call::Defer(level) => self.nocb_defer(cpu, level, world),
        }
    }

    /// `wake_nocb_gp()`: has the group's `rcuog` look at its members.
    pub(super) fn nocb_wake(&self, cpu: u32, world: &mut impl World) {
        assert_unlocked();
        let Some((index, group)) = self.nocb_group_of(cpu) else {
            return;
        };
        let (cancel, wake) = {
            let mut state = group.state.lock();
            state.level = Defer::Not;
            let cancel = std::mem::take(&mut state.timer_armed);
            let asked = std::mem::take(&mut state.gp_sleep);
            (cancel, asked && state.idle)
        };
        if cancel {
            world.cancel_nocb_timer(index as u32);
        }
        if wake {
            group.ticket.fetch_add(1, Ordering::SeqCst);
            world.wake(Kthread::NocbGp(index as u32));
        }
    }

    /// `wake_nocb_gp_defer()`.
    pub(super) fn nocb_defer(&self, cpu: u32, request: Defer, world: &mut impl World) {
        let Some((index, group)) = self.nocb_group_of(cpu) else {
            return;
        };
        let jiffies = {
            let mut state = group.state.lock();
            if request == Defer::Bypass {
                // Always, so it may push a more urgent one back.
                state.level = Defer::Bypass;
                Some(2)
            } else {
                let arm = state.level < Defer::Wake;
                state.level = state.level.max(request);
                arm.then_some(1)
            }
            .inspect(|_| state.timer_armed = true)
        };
        if let Some(jiffies) = jiffies {
            world.set_nocb_timer(index as u32, jiffies);
        }
    }

    /// The group's timer expired.
    pub fn nocb_timer(&self, group: u32, world: &mut impl World) {
        let Some(nocb) = self.nocb.as_deref() else {
            return;
        };
        let group = &nocb.groups[group as usize];
        let due = {
            let mut state = group.state.lock();
            state.timer_armed = false;
            state.level >= Defer::Bypass
        };
        if due {
            self.nocb_wake(group.members[0], world);
        }
    }

    /// A wake-up of `rcuog` was put off until a better moment for this CPU.
    pub(super) fn nocb_wake_is_due(&self, rdp: &CpuData<C>) -> bool {
        self.nocb_group_of(rdp.cpu)
            .is_some_and(|(_, group)| group.state.lock().level == Defer::Wake)
    }

    /// `do_nocb_deferred_wakeup()`: such a moment (a tick's RCU core, the CPU goes idle).
    pub fn nocb_deferred_wakeup(&self, ctx: Ctx, world: &mut impl World) {
        if self.nocb.is_some() && self.nocb_wake_is_due(&self.cpus[ctx.cpu as usize]) {
            self.nocb_wake(ctx.cpu, world);
        }
    }

    /// Moves the bypass behind the main list; its callbacks are counted already. True: it had some.
    pub(super) fn nocb_flush(own: &mut Own<C>, jiffies: u64) -> bool {
        let Some(bypass) = own.bypass.as_deref_mut() else {
            return false;
        };
        let waiting = Bypass::take(bypass, jiffies);
        let some = !waiting.is_empty();
        own.cblist.insert_pend(waiting);
        some
    }
}
