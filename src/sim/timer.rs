//! Who expires an idle CPU's timers.

/// CPUs (or groups) per group of the timer-migration hierarchy.
const GROUP: usize = 8;

#[derive(Debug, Clone)]
struct Group {
    parent: Option<usize>,
    /// Position among the parent's children.
    slot: u8,
    /// The children are CPUs, not groups.
    of_cpus: bool,
    /// Active children.
    active: u8,
    /// Child that expires the timers of idle ones.
    migrator: u8,
    /// CPU numbers or group indices.
    children: [u32; GROUP],
}

/// The timer-migration hierarchy of kernels from 6.9 on: groups of 8 CPUs, 8 groups to a parent.
/// Each group with an active member has one *migrator*: the first to become active, and when that
/// goes idle the lowest-numbered active one.
#[derive(Debug)]
pub(super) struct Hierarchy {
    groups: Vec<Group>,
    active_cpus: u32,
}

impl Hierarchy {
    /// All CPUs idle.
    pub(super) fn new(cpus: u32) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut below: Vec<u32> = (0..cpus).collect();
        let mut of_cpus = true;
        loop {
            let start = groups.len();
            for chunk in below.chunks(GROUP) {
                let mut children = [0; GROUP];
                children[..chunk.len()].copy_from_slice(chunk);
                let index = groups.len();
                if !of_cpus {
                    for (slot, &child) in chunk.iter().enumerate() {
                        groups[child as usize].parent = Some(index);
                        groups[child as usize].slot = slot as u8;
                    }
                }
                groups.push(Group {
                    parent: None,
                    slot: 0,
                    of_cpus,
                    active: 0,
                    migrator: 0,
                    children,
                });
            }
            below = (start as u32..groups.len() as u32).collect();
            of_cpus = false;
            if below.len() == 1 {
                break;
            }
        }
        Hierarchy {
            groups,
            active_cpus: 0,
        }
    }

    /// The CPU leaves the idle loop.
    pub(super) fn activate(&mut self, cpu: u32) {
        self.active_cpus += 1;
        let (mut index, mut slot) = (cpu as usize / GROUP, (cpu as usize % GROUP) as u8);
        loop {
            let group = &mut self.groups[index];
            let was_idle = group.active == 0;
            group.active |= 1 << slot;
            if !was_idle {
                return;
            }
            group.migrator = slot;
            let Some(parent) = group.parent else { return };
            slot = group.slot;
            index = parent;
        }
    }

    /// The CPU stops its tick.
    pub(super) fn deactivate(&mut self, cpu: u32) {
        self.active_cpus -= 1;
        let (mut index, mut slot) = (cpu as usize / GROUP, (cpu as usize % GROUP) as u8);
        loop {
            let group = &mut self.groups[index];
            group.active &= !(1 << slot);
            if group.active != 0 {
                if group.migrator == slot {
                    group.migrator = group.active.trailing_zeros() as u8;
                }
                return;
            }
            let Some(parent) = group.parent else { return };
            slot = group.slot;
            index = parent;
        }
    }

    /// How many CPUs are active.
    pub(super) fn active_cpus(&self) -> u32 {
        self.active_cpus
    }

    /// The active CPU that expires the timers of this idle one, if any CPU is active.
    pub(super) fn responsible_for(&self, cpu: u32) -> Option<u32> {
        let mut index = cpu as usize / GROUP;
        while self.groups[index].active == 0 {
            index = self.groups[index].parent?;
        }
        loop {
            let group = &self.groups[index];
            let child = group.children[group.migrator as usize];
            if group.of_cpus {
                return Some(child);
            }
            index = child as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrator_stays_until_idle_then_the_lowest_takes_over() {
        let mut h = Hierarchy::new(32);
        assert_eq!(h.active_cpus(), 0);
        assert_eq!(h.responsible_for(3), None);
        h.activate(20);
        assert_eq!(
            h.responsible_for(3),
            Some(20),
            "another group's CPU, through the parent"
        );
        h.activate(17);
        assert_eq!(
            h.responsible_for(19),
            Some(20),
            "the first active one stays migrator"
        );
        h.deactivate(20);
        assert_eq!(h.responsible_for(3), Some(17));
        h.activate(2);
        assert_eq!(h.responsible_for(3), Some(2), "its own group comes first");
        assert_eq!(
            h.responsible_for(30),
            Some(17),
            "the parent's migrator group stays"
        );
        h.deactivate(17);
        assert_eq!(h.responsible_for(30), Some(2));
        h.deactivate(2);
        assert_eq!(h.active_cpus(), 0);
    }

    #[test]
    fn large_machines_have_more_levels() {
        let mut h = Hierarchy::new(2048);
        h.activate(2047);
        assert_eq!(h.responsible_for(0), Some(2047));
        h.activate(1);
        assert_eq!(h.responsible_for(0), Some(1));
        assert_eq!(h.responsible_for(9), Some(1));
        assert_eq!(h.responsible_for(2000), Some(2047));
        let mut one = Hierarchy::new(1);
        one.activate(0);
        assert_eq!(one.responsible_for(0), Some(0));
        one.deactivate(0);
        assert_eq!(one.active_cpus(), 0);
    }
}
