//! The shape of the combining tree: which CPUs belong to which `rcu_node`, and who is whose parent.
//!
//! Nodes live in one array, root first, level by level; the leaves are its tail. The shape depends
//! on the number of *possible* CPUs (`nr_cpu_ids`) and on the two fan-outs, never on who is online.

use crate::error::{Error, Result};
use std::ops::Range;

/// A tree has at most this many levels.
pub const MAX_LEVELS: usize = 4;

/// Place of one `rcu_node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeShape {
    /// 0 = root.
    pub level: u32,
    /// Lowest CPU covered.
    pub grplo: u32,
    /// Highest CPU covered.
    pub grphi: u32,
    /// Position among the parent's children (0 for the root).
    pub grpnum: u32,
    /// `1 << grpnum`, or 0 for the root.
    pub grpmask: u64,
    /// Index of the parent; `None` for the root.
    pub parent: Option<usize>,
}

/// The whole shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Number of possible CPUs.
    pub nr_cpus: u32,
    /// Nodes per level, root level first.
    pub level_count: Vec<u32>,
    /// Children per node of each level (CPUs per leaf at the last), root level first.
    pub level_spread: Vec<u32>,
    /// All nodes, breadth first.
    pub nodes: Vec<NodeShape>,
    /// Index of the leaf of each CPU.
    pub leaf_of_cpu: Vec<u32>,
}

impl Geometry {
    /// Lays the tree out. `exact` fills nodes to the fan-out from the left; otherwise children are balanced.
    pub fn new(nr_cpus: u32, fanout_leaf: u32, fanout: u32, exact: bool) -> Result<Self> {
        let mut capacity = vec![u64::from(fanout_leaf)];
        while *capacity.last().expect("never empty") < u64::from(nr_cpus) {
            if capacity.len() == MAX_LEVELS {
                return Err(Error::config(
                    "nr_cpus",
                    nr_cpus,
                    format!(
                        "does not fit a tree of {MAX_LEVELS} levels with rcu_fanout_leaf={fanout_leaf} and rcu_fanout={fanout}"
                    ),
                    format!("1 to {}", capacity.last().expect("never empty")),
                ));
            }
            capacity.push(capacity.last().expect("never empty") * u64::from(fanout));
        }
        let levels = capacity.len();
        let level_count: Vec<u32> = (0..levels)
            .map(|level| u64::from(nr_cpus).div_ceil(capacity[levels - 1 - level]) as u32)
            .collect();

        let mut level_spread = vec![0u32; levels];
        if exact {
            level_spread.fill(fanout);
            level_spread[levels - 1] = fanout_leaf;
        } else {
            let mut below = nr_cpus;
            for level in (0..levels).rev() {
                level_spread[level] = below.div_ceil(level_count[level]);
                below = level_count[level];
            }
        }

        // CPUs covered by one full node of each level.
        let mut stride = vec![1u64; levels];
        let mut covered = 1u64;
        for level in (0..levels).rev() {
            covered *= u64::from(level_spread[level]);
            stride[level] = covered;
        }

        let mut nodes = Vec::with_capacity(level_count.iter().sum::<u32>() as usize);
        let mut level_start = Vec::with_capacity(levels);
        for level in 0..levels {
            level_start.push(nodes.len());
            for j in 0..level_count[level] {
                let lo = u64::from(j) * stride[level];
                let hi = ((u64::from(j) + 1) * stride[level] - 1).min(u64::from(nr_cpus) - 1);
                let (grpnum, parent) = if level == 0 {
                    (0, None)
                } else {
                    let spread = level_spread[level - 1];
                    (j % spread, Some(level_start[level - 1] + (j / spread) as usize))
                };
                nodes.push(NodeShape {
                    level: level as u32,
                    grplo: lo as u32,
                    grphi: hi as u32,
                    grpnum,
                    grpmask: if level == 0 { 0 } else { 1 << grpnum },
                    parent,
                });
            }
        }

        let first_leaf = level_start[levels - 1];
        let mut leaf_of_cpu = Vec::with_capacity(nr_cpus as usize);
        let mut leaf = first_leaf;
        for cpu in 0..nr_cpus {
            while cpu > nodes[leaf].grphi {
                leaf += 1;
            }
            leaf_of_cpu.push(leaf as u32);
        }
        Ok(Geometry {
            nr_cpus,
            level_count,
            level_spread,
            nodes,
            leaf_of_cpu,
        })
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.level_count.len()
    }

    /// Indices of the leaves.
    pub fn leaves(&self) -> Range<usize> {
        self.nodes.len() - *self.level_count.last().expect("at least one level") as usize..self.nodes.len()
    }

    /// Index of the leaf that `cpu` belongs to.
    pub fn leaf_of(&self, cpu: u32) -> usize {
        self.leaf_of_cpu[cpu as usize] as usize
    }

    /// The CPU's bit in its leaf's masks.
    pub fn cpu_mask(&self, cpu: u32) -> u64 {
        1 << (cpu - self.nodes[self.leaf_of(cpu)].grplo)
    }
}
