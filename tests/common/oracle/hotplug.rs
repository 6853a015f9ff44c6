//! I13: who is online, and what the masks make of it.
//!
//! A leaf's `qsmaskinitnext` follows at once. What a grace period waits for (`qsmaskinit`) changes only in
//! its hotplug pass, leaf by leaf; who comes or goes while that pass runs may be in or out, anybody else
//! may not.

use super::*;
use treercu::tree::NodeSnapshot;

/// The oracle's own masks, by node (of leaves only).
#[derive(Debug)]
pub(super) struct Masks {
    /// Online CPUs.
    online: Vec<u64>,
    /// Online from the start of the latest grace period to the end of its hotplug pass, all the time; and at
    /// any time.
    always: Vec<u64>,
    ever: Vec<u64>,
    /// That pass is on.
    passing: bool,
}

impl Masks {
    pub fn new(shape: &Shape, online: u32) -> Masks {
        let mut masks = vec![0u64; shape.nodes.len()];
        for cpu in 0..online {
            masks[shape.leaf_of[cpu as usize]] |= shape.bit(cpu);
        }
        Masks {
            online: masks.clone(),
            always: masks.clone(),
            ever: masks,
            passing: false,
        }
    }
}

impl Oracle {
    pub(super) fn is_online(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].online
    }

    /// The first sight of all may be a CPU's coming or going: the state before it.
    pub(super) fn before_hotplug(&self, first: &mut Snapshot, sight: Sight) {
        let (Sight::CpuOnline { cpu } | Sight::CpuOffline { cpu }) = sight else {
            return;
        };
        let leaf = self.shape.leaf_of[cpu as usize];
        first.nodes[leaf].qsmaskinitnext = self.hotplug.online[leaf];
    }

    pub(super) fn cpu_comes(&mut self, at: u64, sight: Sight, cpu: u32) {
        self.coverage.came_online += 1;
        if self.cpus[cpu as usize].online || !self.cpus[cpu as usize].eqs {
            let text = format!("CPU {cpu} comes online, and was there already");
            self.object("S0.online", at, sight, None, text);
        }
        self.cpus[cpu as usize].online = true;
        let (leaf, bit) = (self.shape.leaf_of[cpu as usize], self.shape.bit(cpu));
        self.hotplug.online[leaf] |= bit;
        self.expedited.comes(leaf, bit);
        if self.hotplug.passing {
            self.hotplug.ever[leaf] |= bit;
        }
        self.cover_hotplug();
        self.coverage.online_in_gp += u64::from(running(self.known_seq()));
        let c = &mut self.cpus[cpu as usize];
        c.ticking_since = at;
    }

    pub(super) fn cpu_goes(&mut self, at: u64, sight: Sight, cpu: u32) {
        self.coverage.went_offline += 1;
        if !self.cpus[cpu as usize].online || self.cpus[cpu as usize].eqs {
            let text = format!("CPU {cpu} goes offline, and was not there");
            self.object("S0.online", at, sight, None, text);
        }
        self.cpus[cpu as usize].online = false;
        let (leaf, bit) = (self.shape.leaf_of[cpu as usize], self.shape.bit(cpu));
        self.hotplug.online[leaf] &= !bit;
        if self.hotplug.passing {
            self.hotplug.always[leaf] &= !bit;
        }
        self.cover_hotplug();
        if let Some(p) = &self.prev {
            self.coverage.offline_owing += u64::from(p.nodes[leaf].qsmask & bit != 0);
        }
    }

    fn cover_hotplug(&mut self) {
        let initialising = self
            .prev
            .as_ref()
            .is_some_and(|p| running(p.gp_seq) && p.nodes.last().is_some_and(|n| n.gp_seq != p.gp_seq));
        let state = self.prev.as_ref().map_or(IDLE, |p| p.gp_state);
        self.coverage.hotplug_in_init += u64::from(initialising && state <= INIT);
    }

    /// The hotplug pass of a grace period begins with its number.
    pub(super) fn hotplug_gp_starts(&mut self) {
        let m = &mut self.hotplug;
        m.always.clone_from(&m.online);
        m.ever.clone_from(&m.online);
        m.passing = true;
        let empty = (0..self.shape.nodes.len())
            .filter(|&i| self.shape.is_leaf(i) && self.hotplug.online[i] == 0)
            .count();
        self.coverage.empty_leaves += empty as u64;
    }

    /// `qsmaskinitnext` against the books; nobody offline is waited for.
    pub(super) fn check_online(&mut self, at: u64, sight: Sight, now: &Snapshot) {
        for (index, n) in now.nodes.iter().enumerate() {
            let online = if self.shape.is_leaf(index) {
                self.hotplug.online[index]
            } else {
                0
            };
            if n.qsmaskinitnext != online {
                let text = format!(
                    "node {index} regards {:x} as online, not {online:x}",
                    n.qsmaskinitnext
                );
                self.object("I13.online", at, sight, None, text);
            }
            if self.shape.is_leaf(index) && n.qsmask & !online != 0 {
                let text = format!(
                    "leaf {index} waits for {:x}, of which {:x} is offline",
                    n.qsmask,
                    n.qsmask & !online
                );
                self.object("I13.offline", at, sight, None, text);
            }
        }
    }

    /// `qsmaskinit` and `wait_blkd_tasks`: when they change, and to what.
    pub(super) fn check_masks(&mut self, at: u64, sight: Sight, prev: &Snapshot, now: &Snapshot) {
        let by_kthread = matches!(sight, Sight::GpStep { .. });
        if self.hotplug.passing && now.gp_state == INIT {
            self.hotplug.passing = false;
        }
        for (index, (p, n)) in prev.nodes.iter().zip(&now.nodes).enumerate() {
            let leaf = self.shape.is_leaf(index);
            let changed = n.qsmaskinit != p.qsmaskinit || n.wait_blkd_tasks != p.wait_blkd_tasks;
            if changed && !(by_kthread && prev.gp_state == ONOFF) {
                let text = format!(
                    "node {index} changes qsmaskinit {:x} -> {:x} (waits for readers {} -> {}) in gp_state {}",
                    p.qsmaskinit, n.qsmaskinit, p.wait_blkd_tasks, n.wait_blkd_tasks, now.gp_state
                );
                self.object("I13.pass", at, sight, None, text);
            }
            if leaf && n.qsmaskinit != p.qsmaskinit && n.qsmaskinit != self.hotplug.online[index] {
                let text = format!(
                    "leaf {index} will wait for {:x}, online is {:x}",
                    n.qsmaskinit, self.hotplug.online[index]
                );
                self.object("I13.pass", at, sight, None, text);
            }
            if n.wait_blkd_tasks {
                let readers = self.readers_ever(index);
                if !leaf || n.qsmaskinit != 0 || (!p.wait_blkd_tasks && readers == 0) {
                    let text = format!(
                        "node {index} waits for blocked readers, has CPUs {:x} and {readers} readers",
                        n.qsmaskinit
                    );
                    self.object("I13.wait-blkd", at, sight, None, text);
                }
                self.coverage.leaf_without_cpus += u64::from(!p.wait_blkd_tasks);
            }
            // A node's bit in its parent: it has CPUs below, or waits for readers of CPUs that have gone.
            if let Some(parent) = self.shape.nodes[index].parent {
                let bit = now.nodes[parent].qsmaskinit & self.shape.nodes[index].mask != 0;
                if bit != attached(n) {
                    let text = format!(
                        "node {index} has CPUs {:x}, waits for readers: {}; its parent has {:x}",
                        n.qsmaskinit, n.wait_blkd_tasks, now.nodes[parent].qsmaskinit
                    );
                    self.object("I13.parent", at, sight, None, text);
                }
            }
            // The leaf starts: whoever was online throughout is in, whoever was not at all is out.
            if leaf && running(n.gp_seq) && !running(p.gp_seq) {
                let (always, ever) = (self.hotplug.always[index], self.hotplug.ever[index]);
                if always & !n.qsmaskinit != 0 || n.qsmaskinit & !ever != 0 {
                    let text = format!(
                        "leaf {index} starts with {:x}; online throughout {always:x}, at some time {ever:x}",
                        n.qsmaskinit
                    );
                    self.object("I13.missed", at, sight, None, text);
                }
                let gone = n.qsmaskinit & !self.hotplug.online[index];
                self.coverage.offline_in_init += u64::from(gone.count_ones());
            }
        }
    }
}

/// The node takes part in grace periods.
pub(super) fn attached(n: &NodeSnapshot) -> bool {
    n.qsmaskinit != 0 || n.wait_blkd_tasks
}
