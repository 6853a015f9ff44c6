//! The tree's shape, a second time and by another road: recursively from the top, by counting.

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub level: u32,
    pub lo: u32,
    pub hi: u32,
    pub parent: Option<usize>,
    /// Bit in the parent's masks.
    pub mask: u64,
}

/// Nodes, root first, level by level; and the leaf of each CPU.
#[derive(Debug, Clone)]
pub struct Shape {
    pub nodes: Vec<Place>,
    pub leaf_of: Vec<usize>,
    pub levels: u32,
}

impl Shape {
    pub fn new(nr: u32, leaf: u32, fanout: u32, exact: bool) -> Shape {
        // Group sizes from the bottom: the CPUs are the members of the leaves, the leaves the members of
        // the level above, until one node holds all. The number of groups of a level comes from full
        // groups (`capacity`); balanced then deals the members out evenly, rounding up.
        let mut groups: Vec<(u32, u32)> = Vec::new(); // (nodes, members per node), leaf level first
        let mut capacity = u64::from(leaf);
        let mut members = nr;
        loop {
            let nodes = u64::from(nr).div_ceil(capacity) as u32;
            let most = if groups.is_empty() { leaf } else { fanout };
            groups.push((nodes, if exact { most } else { members.div_ceil(nodes) }));
            if nodes == 1 {
                break;
            }
            members = nodes;
            capacity *= u64::from(fanout);
        }
        let levels = groups.len() as u32;
        let mut nodes = Vec::new();
        let mut first_of_parent_level = 0;
        for level in 0..levels {
            let depth = (levels - 1 - level) as usize; // distance from the leaves
            let covered: u64 = groups[..=depth].iter().map(|&(_, per)| u64::from(per)).product();
            let first = nodes.len();
            for j in 0..groups[depth].0 {
                let siblings = groups.get(depth + 1).map_or(1, |&(_, per)| per);
                nodes.push(Place {
                    level,
                    lo: (u64::from(j) * covered) as u32,
                    hi: ((u64::from(j) + 1) * covered - 1).min(u64::from(nr) - 1) as u32,
                    parent: (level > 0).then(|| first_of_parent_level + (j / siblings) as usize),
                    mask: if level > 0 { 1 << (j % siblings) } else { 0 },
                });
            }
            first_of_parent_level = first;
        }
        let leaf_of = (0..nr)
            .map(|cpu| {
                nodes
                    .iter()
                    .position(|n| n.level == levels - 1 && (n.lo..=n.hi).contains(&cpu))
                    .expect("every CPU has a leaf")
            })
            .collect();
        Shape {
            nodes,
            leaf_of,
            levels,
        }
    }

    pub fn is_leaf(&self, index: usize) -> bool {
        self.nodes[index].level == self.levels - 1
    }

    /// The CPU's bit in its leaf.
    pub fn bit(&self, cpu: u32) -> u64 {
        1 << (cpu - self.nodes[self.leaf_of[cpu as usize]].lo)
    }
}
