//! Sequence numbers, the tree's shape and the segmented callback list against the vectors of the
//! fact sheet and against naive models that share nothing with the implementation.
//!
//! Every expected value is derived here, by hand, from the rules in words.

use proptest::prelude::*;
use treercu::tree::cblist::{DONE, NEXT, NEXT_READY, SegCbList, WAIT};
use treercu::tree::geometry::Geometry;
use treercu::tree::seq;

// ---------------------------------------------------------------------------------------------
// Sequence numbers.
//
// The reference counts in i128, where nothing wraps: number = base + x for a small signed x. A
// comparison of two wrapped numbers must answer what the comparison of the two x answers.
// ---------------------------------------------------------------------------------------------

/// Bases where wrap bugs live: boot (-1200), both sides of the wrap, the sign change, zero.
fn bases() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0u64),
        Just(0u64.wrapping_sub(1200)),
        Just(u64::MAX - 3),
        Just(u64::MAX - 7),
        Just(1 << 63),
        Just((1 << 63) - 4),
        any::<u64>().prop_map(|x| x & !3),
    ]
}

fn at(base: u64, x: i128) -> u64 {
    // Truncation is the wrap.
    (i128::from(base) + x) as u64
}

/// Rounds down and up to a multiple of 4, for negative numbers too.
fn floor4(x: i128) -> i128 {
    x.div_euclid(4) * 4
}
fn ceil4(x: i128) -> i128 {
    -floor4(-x)
}

#[test]
fn boot_number_is_minus_1200() {
    // (0 - 300) << 2
    assert_eq!(seq::SEQ_BOOT as i64, -1200);
    assert_eq!(seq::state(seq::SEQ_BOOT), 0);
    assert_eq!(seq::SEQ_GP, 4);
}

#[test]
fn the_counter_passes_zero_300_grace_periods_after_boot() {
    let mut s = seq::SEQ_BOOT;
    for _ in 0..300 {
        s = seq::start(s);
        assert_eq!(seq::state(s), 1);
        s = seq::end(s);
        assert_eq!(seq::state(s), 0);
    }
    assert_eq!(s, 0);
}

#[test]
fn snap_vectors() {
    // Idle at 4k: the next grace period runs 4k+1 .. 4k+4 and starts after now, so 4k+4. In progress
    // at 4k+1: the running one does not count, the one after it ends with 4k+8.
    for (s, expected) in [(0, 4), (1, 8), (4, 8), (5, 12)] {
        assert_eq!(seq::snap(s), expected, "snap({s})");
    }
    // Across the wrap: -4 idle -> 0; -3 in progress -> 4.
    assert_eq!(seq::snap(0u64.wrapping_sub(4)), 0);
    assert_eq!(seq::snap(0u64.wrapping_sub(3)), 4);
}

#[test]
fn started_vectors() {
    // t = 4: cur >= 1. t = 8: cur >= 5.
    for (t, first) in [(4u64, 1u64), (8, 5)] {
        for cur in 0..12 {
            assert_eq!(seq::started(cur, t), cur >= first, "started({cur}, {t})");
        }
    }
}

#[test]
fn completed_and_new_gp_vectors() {
    for (old, new, completed, fresh) in [
        (4, 5, false, true),
        (5, 5, false, false),
        (5, 8, true, false),
        (5, 9, true, true),
        (4, 8, true, true),
        (4, 9, true, true),
        (8, 9, false, true),
    ] {
        assert_eq!(
            seq::completed_gp(old, new),
            completed,
            "completed_gp({old}, {new})"
        );
        assert_eq!(seq::new_gp(old, new), fresh, "new_gp({old}, {new})");
    }
}

#[test]
fn diff_vectors() {
    for (new, old, expected) in [(5, 4, 1), (8, 4, 2), (9, 4, 2), (8, 5, 1), (12, 5, 2), (13, 5, 2)] {
        assert_eq!(seq::diff(new, old), expected, "diff({new}, {old})");
    }
    assert_eq!(seq::diff(77, 77), 0);
}

#[test]
fn comparisons_turn_at_half_the_range() {
    // GE(a, b) holds for differences 0 ..= MAX/2 and no more.
    let half = u64::MAX / 2;
    for b in [0, 1, half, half + 1, u64::MAX, 0u64.wrapping_sub(1200)] {
        assert!(seq::ge(b, b));
        assert!(seq::ge(b.wrapping_add(1), b));
        assert!(seq::ge(b.wrapping_add(half), b));
        assert!(!seq::ge(b.wrapping_add(half + 1), b));
        assert!(!seq::ge(b.wrapping_sub(1), b));
        assert!(seq::lt(b.wrapping_sub(1), b));
        assert!(!seq::lt(b, b));
    }
}

#[test]
fn done_exact_has_a_guard_band_of_two_grace_periods() {
    // A cookie up to two grace periods (8) ahead is not done; anything further ahead can only be one
    // that the word has wrapped past.
    for base in [0u64, u64::MAX - 3, 1 << 63] {
        for ahead in 1..=8u64 {
            assert!(
                !seq::done_exact(base, base.wrapping_add(ahead)),
                "{ahead} ahead of {base}"
            );
        }
        for ahead in [9u64, 12, 400, 1 << 62] {
            assert!(
                seq::done_exact(base, base.wrapping_add(ahead)),
                "{ahead} ahead of {base}"
            );
        }
        assert!(seq::done_exact(base, base));
        assert!(seq::done_exact(base, base.wrapping_sub(4)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comparisons_agree_with_unbounded_integers(base in bases(), a in -(1i64 << 61)..(1i64 << 61), b in -(1i64 << 61)..(1i64 << 61)) {
        let (a, b) = (i128::from(a), i128::from(b));
        prop_assert_eq!(seq::ge(at(base, a), at(base, b)), a >= b);
        prop_assert_eq!(seq::lt(at(base, a), at(base, b)), a < b);
        prop_assert_eq!(seq::done(at(base, a), at(base, b)), a >= b);
    }

    #[test]
    fn operations_agree_with_unbounded_integers(base in bases(), a in -4000i64..4000, b in -4000i64..4000) {
        let (a, b) = (i128::from(a), i128::from(b));
        let (wa, wb) = (at(base, a), at(base, b));
        // The smallest multiple of 4 that a grace period starting strictly after now can end with: from
        // idle the next multiple, from inside a grace period the one after the next.
        let idle = a.rem_euclid(4) == 0;
        prop_assert_eq!(seq::snap(wa), at(base, if idle { a + 4 } else { ceil4(a) + 4 }));
        prop_assert_eq!(seq::endval(wa), at(base, floor4(a) + 4));
        prop_assert_eq!(seq::state(wa), a.rem_euclid(4) as u64);
        prop_assert_eq!(seq::ctr(wa), wa / 4);
        // The grace period that ends with t (a multiple of 4) starts with t - 3.
        let t = floor4(b);
        prop_assert_eq!(seq::started(wa, at(base, t)), a >= t - 3);
        prop_assert_eq!(seq::done_exact(wa, wb), a >= b || a < b - 8);
        // Between old = b and new = a some grace period ended: a multiple of 4 was newly reached.
        prop_assert_eq!(seq::completed_gp(wb, wa), b < floor4(a));
        prop_assert_eq!(seq::new_gp(wb, wa), ceil4(b) < a);
        if idle {
            prop_assert_eq!(seq::start(wa), at(base, a + 1));
            prop_assert_eq!(seq::end(seq::start(wa)), at(base, a + 4));
        }
    }

    #[test]
    fn a_snapshot_is_done_only_after_a_full_grace_period(base in bases(), first in 0usize..8) {
        // Walk through the numbers 0, 1, 4, 5, ... and check for each cookie when it becomes done.
        let walk: Vec<i128> = (0..12).flat_map(|k| [4 * k, 4 * k + 1]).collect();
        let cookie = seq::snap(at(base, walk[first]));
        for (position, &x) in walk.iter().enumerate().skip(first) {
            // A start (odd position) strictly behind `first`, with its end (one further) reached.
            let full = (first + 1..position).any(|start| start % 2 == 1);
            prop_assert_eq!(seq::done(at(base, x), cookie), full, "cookie of {} at {}", walk[first], x);
        }
    }

    #[test]
    fn diff_counts_grace_periods_roughly(base in bases(), a in 0i64..1000, d in 0i64..100, running: (bool, bool)) {
        // Only states 0 and 1 occur.
        let old = i128::from(4 * a) + i128::from(running.0);
        let new = (i128::from(4 * (a + d)) + i128::from(running.1)).max(old);
        let got = i128::from(seq::diff(at(base, new), at(base, old)));
        // r = floor4(new) - ceil4(old), + 1 if either state is not 0; r <= 3 -> 1; else (r - 4) / 4 + 2.
        let r = floor4(new) - ceil4(old) + i128::from(new.rem_euclid(4) != 0 || old.rem_euclid(4) != 0);
        let expected = if new == old { 0 } else if r <= 3 { 1 } else { (r - 4) / 4 + 2 };
        prop_assert_eq!(got, expected);
    }
}

// ---------------------------------------------------------------------------------------------
// Geometry.
// ---------------------------------------------------------------------------------------------

struct Vector {
    nr: u32,
    leaf: u32,
    fanout: u32,
    exact: bool,
    count: &'static [u32],
    spread: &'static [u32],
    /// (level, ranges of all nodes of that level).
    ranges: &'static [(u32, &'static [(u32, u32)])],
}

/// The table of the fact sheet, section 1. Where it says "16 per leaf" or "=", the ranges follow from
/// grplo = j * stride with the strides of the spread column.
const VECTORS: &[Vector] = &[
    // 17 = 2 leaves of at most 16: balanced ceil(17/2) = 9 and 8; exact 16 and 1.
    Vector {
        nr: 17,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2],
        spread: &[2, 9],
        ranges: &[(0, &[(0, 16)]), (1, &[(0, 8), (9, 16)])],
    },
    Vector {
        nr: 17,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2],
        spread: &[64, 16],
        ranges: &[(1, &[(0, 15), (16, 16)])],
    },
    Vector {
        nr: 20,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2],
        spread: &[2, 10],
        ranges: &[(1, &[(0, 9), (10, 19)])],
    },
    Vector {
        nr: 20,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2],
        spread: &[64, 16],
        ranges: &[(1, &[(0, 15), (16, 19)])],
    },
    Vector {
        nr: 32,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2],
        spread: &[2, 16],
        ranges: &[(1, &[(0, 15), (16, 31)])],
    },
    Vector {
        nr: 32,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2],
        spread: &[64, 16],
        ranges: &[(1, &[(0, 15), (16, 31)])],
    },
    Vector {
        nr: 33,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 3],
        spread: &[3, 11],
        ranges: &[(1, &[(0, 10), (11, 21), (22, 32)])],
    },
    Vector {
        nr: 33,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 3],
        spread: &[64, 16],
        ranges: &[(1, &[(0, 15), (16, 31), (32, 32)])],
    },
    Vector {
        nr: 64,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 4],
        spread: &[4, 16],
        ranges: &[(1, &[(0, 15), (16, 31), (32, 47), (48, 63)])],
    },
    Vector {
        nr: 80,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 5],
        spread: &[5, 16],
        ranges: &[(1, &[(0, 15), (16, 31), (32, 47), (48, 63), (64, 79)])],
    },
    Vector {
        nr: 128,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 8],
        spread: &[8, 16],
        ranges: &[],
    },
    Vector {
        nr: 256,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 16],
        spread: &[16, 16],
        ranges: &[],
    },
    Vector {
        nr: 1024,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 64],
        spread: &[64, 16],
        ranges: &[],
    },
    // 1025 does not fit 64 leaves of 16: three levels, 65 leaves, 2 nodes between.
    Vector {
        nr: 1025,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2, 65],
        spread: &[2, 33, 16],
        ranges: &[(0, &[(0, 1024)]), (1, &[(0, 527), (528, 1024)])],
    },
    Vector {
        nr: 1025,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2, 65],
        spread: &[64, 64, 16],
        ranges: &[(1, &[(0, 1023), (1024, 1024)])],
    },
    Vector {
        nr: 1536,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2, 96],
        spread: &[2, 48, 16],
        ranges: &[(1, &[(0, 767), (768, 1535)])],
    },
    Vector {
        nr: 1536,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2, 96],
        spread: &[64, 64, 16],
        ranges: &[(1, &[(0, 1023), (1024, 1535)])],
    },
    Vector {
        nr: 2048,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 2, 128],
        spread: &[2, 64, 16],
        ranges: &[(1, &[(0, 1023), (1024, 2047)])],
    },
    Vector {
        nr: 2048,
        leaf: 16,
        fanout: 64,
        exact: true,
        count: &[1, 2, 128],
        spread: &[64, 64, 16],
        ranges: &[(1, &[(0, 1023), (1024, 2047)])],
    },
    Vector {
        nr: 4096,
        leaf: 16,
        fanout: 64,
        exact: false,
        count: &[1, 4, 256],
        spread: &[4, 64, 16],
        ranges: &[(1, &[(0, 1023), (1024, 2047), (2048, 3071), (3072, 4095)])],
    },
    // Capacities 2, 4, 8, 16: four levels, ceil(12/16, 12/8, 12/4, 12/2).
    Vector {
        nr: 12,
        leaf: 2,
        fanout: 2,
        exact: false,
        count: &[1, 2, 3, 6],
        spread: &[2, 2, 2, 2],
        ranges: &[
            (0, &[(0, 11)]),
            (1, &[(0, 7), (8, 11)]),
            (2, &[(0, 3), (4, 7), (8, 11)]),
            (3, &[(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]),
        ],
    },
    Vector {
        nr: 12,
        leaf: 2,
        fanout: 2,
        exact: true,
        count: &[1, 2, 3, 6],
        spread: &[2, 2, 2, 2],
        ranges: &[(1, &[(0, 7), (8, 11)]), (2, &[(0, 3), (4, 7), (8, 11)])],
    },
    // Capacities 3, 12, 48: ceil(13/48, 13/12, 13/3) = 1, 2, 5; spread ceil(13/5) = 3, ceil(5/2) = 3, 2.
    Vector {
        nr: 13,
        leaf: 3,
        fanout: 4,
        exact: false,
        count: &[1, 2, 5],
        spread: &[2, 3, 3],
        ranges: &[
            (1, &[(0, 8), (9, 12)]),
            (2, &[(0, 2), (3, 5), (6, 8), (9, 11), (12, 12)]),
        ],
    },
    Vector {
        nr: 13,
        leaf: 3,
        fanout: 4,
        exact: true,
        count: &[1, 2, 5],
        spread: &[4, 4, 3],
        ranges: &[
            (1, &[(0, 11), (12, 12)]),
            (2, &[(0, 2), (3, 5), (6, 8), (9, 11), (12, 12)]),
        ],
    },
];

/// Total nodes as the fact sheet's table gives them, both balanced and exact.
const TOTALS: &[(u32, u32, u32, usize)] = &[
    (17, 16, 64, 3),
    (20, 16, 64, 3),
    (32, 16, 64, 3),
    (33, 16, 64, 4),
    (64, 16, 64, 5),
    (80, 16, 64, 6),
    (128, 16, 64, 9),
    (256, 16, 64, 17),
    (1024, 16, 64, 65),
    (1025, 16, 64, 68),
    (1536, 16, 64, 99),
    (2048, 16, 64, 131),
    (4096, 16, 64, 261),
    (12, 2, 2, 12),
    (13, 3, 4, 8),
];

#[test]
fn geometry_vectors() {
    for v in VECTORS {
        let name = format!(
            "{} CPUs, leaf {}, fan-out {}, exact {}",
            v.nr, v.leaf, v.fanout, v.exact
        );
        let g = Geometry::new(v.nr, v.leaf, v.fanout, v.exact).expect("fits four levels");
        assert_eq!(g.level_count, v.count, "{name}");
        assert_eq!(g.level_spread, v.spread, "{name}");
        for (level, ranges) in v.ranges {
            let got: Vec<(u32, u32)> = g
                .nodes
                .iter()
                .filter(|n| n.level == *level)
                .map(|n| (n.grplo, n.grphi))
                .collect();
            assert_eq!(&got, ranges, "{name}, level {level}");
        }
    }
    for &(nr, leaf, fanout, total) in TOTALS {
        for exact in [false, true] {
            let g = Geometry::new(nr, leaf, fanout, exact).expect("fits four levels");
            assert_eq!(
                g.nodes.len(),
                total,
                "{nr} CPUs, leaf {leaf}, fan-out {fanout}, exact {exact}"
            );
        }
    }
}

#[test]
fn exact_and_balanced_agree_where_the_table_says_so() {
    // "=" in the table, and 16 CPUs per leaf fill every leaf.
    let ranges = |g: &Geometry| {
        g.nodes
            .iter()
            .map(|n| (n.level, n.grplo, n.grphi, n.parent))
            .collect::<Vec<_>>()
    };
    for nr in (1..=16).chain([32, 64, 80, 128, 256, 1024, 2048, 4096]) {
        let balanced = Geometry::new(nr, 16, 64, false).expect("fits");
        let exact = Geometry::new(nr, 16, 64, true).expect("fits");
        assert_eq!(ranges(&balanced), ranges(&exact), "{nr} CPUs");
    }
}

#[test]
fn up_to_16_cpus_the_root_is_the_only_leaf() {
    for nr in 1..=16 {
        for exact in [false, true] {
            let g = Geometry::new(nr, 16, 64, exact).expect("fits");
            assert_eq!(g.nodes.len(), 1);
            let root = &g.nodes[0];
            assert_eq!(
                (root.level, root.grplo, root.grphi, root.grpmask, root.parent),
                (0, 0, nr - 1, 0, None)
            );
            assert_eq!(g.leaves(), 0..1);
            assert_eq!(g.levels(), 1);
        }
    }
}

#[test]
fn more_than_four_levels_are_refused() {
    // 2 * 2 * 2 * 2 = 16 CPUs is the most that four levels of twos carry.
    assert!(Geometry::new(16, 2, 2, false).is_ok());
    assert!(Geometry::new(17, 2, 2, false).is_err());
    // 64^4 is far above any CPU count.
    assert!(Geometry::new(100_000, 64, 64, true).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn geometry_properties(nr in prop_oneof![1u32..200, 1u32..5000], leaf in 2u32..=64, fanout in 2u32..=64, exact: bool) {
        // capacity of four levels
        let most = u64::from(leaf) * u64::from(fanout).pow(3);
        let built = Geometry::new(nr, leaf, fanout, exact);
        if u64::from(nr) > most {
            prop_assert!(built.is_err());
            return Ok(());
        }
        let g = built.expect("fits four levels");
        let levels = g.levels();
        prop_assert!((1..=4).contains(&levels));
        // Fewest levels that carry nr.
        let capacity = |l: usize| u64::from(leaf) * u64::from(fanout).pow(l as u32 - 1);
        prop_assert!(capacity(levels) >= u64::from(nr));
        prop_assert!(levels == 1 || capacity(levels - 1) < u64::from(nr));

        // Breadth-first array, one root, levels in order.
        prop_assert!(g.nodes.windows(2).all(|w| w[0].level <= w[1].level));
        prop_assert_eq!(g.nodes.iter().filter(|n| n.level == 0).count(), 1);
        let leaves = g.leaves();
        prop_assert_eq!(leaves.end, g.nodes.len());
        prop_assert!(g.nodes[leaves.clone()].iter().all(|n| n.level as usize == levels - 1));
        prop_assert!(g.nodes[..leaves.start].iter().all(|n| (n.level as usize) < levels - 1));

        // Every level covers 0 .. nr without gap or overlap.
        for level in 0..levels as u32 {
            let mut next = 0;
            for n in g.nodes.iter().filter(|n| n.level == level) {
                prop_assert_eq!(n.grplo, next);
                prop_assert!(n.grphi >= n.grplo && n.grphi < nr);
                next = n.grphi + 1;
            }
            prop_assert_eq!(next, nr, "level {} does not end at the last CPU", level);
        }

        // Each CPU in exactly one leaf, at a bit of its own within 64.
        for cpu in 0..nr {
            let holders: Vec<usize> = leaves.clone().filter(|&i| (g.nodes[i].grplo..=g.nodes[i].grphi).contains(&cpu)).collect();
            prop_assert_eq!(&holders, &vec![g.leaf_of(cpu)]);
            let offset = cpu - g.nodes[holders[0]].grplo;
            prop_assert!(offset < 64 && offset < leaf);
            prop_assert_eq!(g.cpu_mask(cpu), 1u64 << offset);
        }

        // Parents: one level up, the range that contains the child's; masks of siblings are distinct bits
        // 0, 1, 2, ... from left to right, within the fan-out.
        let mut masks = vec![0u64; g.nodes.len()];
        for (i, n) in g.nodes.iter().enumerate() {
            match n.parent {
                None => prop_assert!(i == 0 && n.grpmask == 0 && n.grpnum == 0),
                Some(p) => {
                    let parent = &g.nodes[p];
                    prop_assert!(p < i);
                    prop_assert_eq!(parent.level + 1, n.level);
                    prop_assert!(parent.grplo <= n.grplo && n.grphi <= parent.grphi);
                    prop_assert_eq!(n.grpmask, 1u64 << n.grpnum);
                    prop_assert!(n.grpnum < fanout);
                    prop_assert_eq!(masks[p] + 1, n.grpmask, "bits are given from the lowest up");
                    masks[p] |= n.grpmask;
                }
            }
        }
        for (i, n) in g.nodes.iter().enumerate() {
            if (n.level as usize) < levels - 1 {
                prop_assert_ne!(masks[i], 0, "a node without children");
            }
        }

        // Exact: all but the last node of a level are full. Balanced: equal size but for the last.
        for level in 0..levels as u32 {
            let sizes: Vec<u32> = g.nodes.iter().filter(|n| n.level == level).map(|n| n.grphi - n.grplo + 1).collect();
            let full = &sizes[..sizes.len() - 1];
            prop_assert!(full.windows(2).all(|w| w[0] == w[1]));
            prop_assert!(full.iter().all(|&s| s >= sizes[sizes.len() - 1]));
            if exact {
                prop_assert!(full.iter().all(|&s| u64::from(s) == capacity(levels - level as usize)));
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Callback list.
//
// The model is one row of callbacks, oldest first, each with what it waits for. It knows nothing of
// segments; the rules in words:
//  * a callback without a number may share a number with others, at most two different numbers being
//    out at a time;
//  * accelerate(s): everything that does not wait for something earlier than s waits for s from now on,
//    unless two earlier numbers are out already, or there is nothing such;
//  * advance(s): whatever waits for s or earlier is ready, strictly from the front.
// ---------------------------------------------------------------------------------------------

#[derive(Debug, Clone, Copy, PartialEq)]
enum For {
    Ready,
    Number(i64),
    Unknown,
}

#[derive(Debug, Default, Clone)]
struct Model {
    row: Vec<(u32, For)>,
    unfinished: u64,
}

impl Model {
    fn enqueue(&mut self, id: u32) {
        self.row.push((id, For::Unknown));
        self.unfinished += 1;
    }

    fn entrain(&mut self, id: u32) -> bool {
        if self.unfinished == 0 {
            return false;
        }
        let with = self.row.last().map_or(For::Ready, |&(_, w)| w);
        self.row.push((id, with));
        self.unfinished += 1;
        true
    }

    fn numbers(&self) -> Vec<i64> {
        let mut out: Vec<i64> = self
            .row
            .iter()
            .filter_map(|&(_, w)| if let For::Number(s) = w { Some(s) } else { None })
            .collect();
        out.dedup();
        out
    }

    fn accelerate(&mut self, s: i64) -> bool {
        let earlier = self.numbers().iter().filter(|&&x| x < s).count();
        let free = |w: For| match w {
            For::Ready => false,
            For::Number(x) => x >= s,
            For::Unknown => true,
        };
        if earlier == 2 || !self.row.iter().any(|&(_, w)| free(w)) {
            return false;
        }
        self.row
            .iter_mut()
            .filter(|(_, w)| free(*w))
            .for_each(|(_, w)| *w = For::Number(s));
        true
    }

    fn advance(&mut self, s: i64) {
        for (_, w) in &mut self.row {
            match *w {
                For::Ready => {}
                For::Number(x) if x <= s => *w = For::Ready,
                _ => return,
            }
        }
    }

    /// Takes the ready ones from the front, or the others from the back.
    fn take(&mut self, ready: bool) -> Vec<u32> {
        let split = self
            .row
            .iter()
            .position(|&(_, w)| w != For::Ready)
            .unwrap_or(self.row.len());
        let taken: Vec<_> = if ready {
            self.row.drain(..split).collect()
        } else {
            self.row.drain(split..).collect()
        };
        taken.into_iter().map(|(id, _)| id).collect()
    }

    fn lengths(&self) -> [u64; 4] {
        let numbers = self.numbers();
        assert!(numbers.len() <= 2 && numbers.windows(2).all(|w| w[0] < w[1]));
        let count = |what: For| self.row.iter().filter(|&&(_, w)| w == what).count() as u64;
        let numbered = |i: usize| numbers.get(i).map_or(0, |&s| count(For::Number(s)));
        [count(For::Ready), numbered(0), numbered(1), count(For::Unknown)]
    }
}

#[derive(Debug, Clone)]
enum Op {
    Enqueue(u8),
    Entrain,
    /// The grace-period number as the CPU knows it goes on by so many halves (0 -> 1 -> 4 -> 5 ...).
    Walk(u8),
    Accelerate,
    Advance,
    /// Extract DONE, finish so many, put the rest back; in between, optionally, do other things.
    Batch(u8, bool),
    TakeAndReturnPending,
    /// Merge a list with this many ready and this many pending callbacks into ours.
    Merge(u8, u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1u8..6).prop_map(Op::Enqueue),
        1 => Just(Op::Entrain),
        4 => (1u8..5).prop_map(Op::Walk),
        5 => Just(Op::Accelerate),
        5 => Just(Op::Advance),
        3 => (0u8..8, any::<bool>()).prop_map(|(n, busy)| Op::Batch(n, busy)),
        1 => Just(Op::TakeAndReturnPending),
        1 => (0u8..4, 0u8..4).prop_map(|(d, p)| Op::Merge(d, p)),
    ];
    prop::collection::vec(op, 1..120)
}

fn compare(list: &SegCbList<u32>, model: &Model, base: u64) -> Result<(), TestCaseError> {
    let expected = model.lengths();
    for segment in [DONE, WAIT, NEXT_READY, NEXT] {
        prop_assert_eq!(
            list.seglen(segment),
            expected[segment],
            "segment {} of {:?}",
            segment,
            model
        );
    }
    for (i, segment) in [WAIT, NEXT_READY].into_iter().enumerate() {
        if let Some(&number) = model.numbers().get(i) {
            prop_assert_eq!(list.segment_gp_seq(segment), base.wrapping_add(number as u64));
        }
    }
    prop_assert_eq!(list.len(), model.unfinished);
    prop_assert_eq!(list.is_empty(), model.unfinished == 0);
    prop_assert_eq!(list.ready(), expected[DONE] > 0);
    prop_assert_eq!(
        list.pend(),
        expected[WAIT] + expected[NEXT_READY] + expected[NEXT] > 0
    );
    prop_assert_eq!(list.restempty(NEXT_READY), expected[NEXT] == 0);
    prop_assert_eq!(list.restempty(WAIT), expected[NEXT_READY] + expected[NEXT] == 0);
    // I8
    prop_assert!(expected[WAIT] > 0 || list.seglen(NEXT_READY) == 0);
    prop_assert!(list.queued() <= list.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn callback_list_follows_its_model(base in bases(), ops in ops()) {
        let mut list = SegCbList::<u32>::default();
        let mut model = Model::default();
        let mut id = 0u32;
        // The grace-period number without wrap: 0, 1, 4, 5, ...
        let mut now = 0i64;
        for op in ops {
            match op {
                Op::Enqueue(n) => for _ in 0..n {
                    list.enqueue(id);
                    model.enqueue(id);
                    id += 1;
                },
                Op::Entrain => {
                    prop_assert_eq!(list.entrain(id).is_ok(), model.entrain(id));
                    id += 1;
                }
                Op::Walk(halves) => for _ in 0..halves {
                    now += if now % 4 == 0 { 1 } else { 3 };
                },
                Op::Accelerate => {
                    // A full grace period from now on, see `snap_vectors`.
                    let number = if now % 4 == 0 { now + 4 } else { now + 7 };
                    prop_assert_eq!(list.accelerate(base.wrapping_add(number as u64)), model.accelerate(number));
                }
                Op::Advance => {
                    list.advance(base.wrapping_add(now as u64));
                    model.advance(now);
                }
                Op::Batch(finish, busy) => {
                    let mut out = list.extract_done();
                    let taken = model.take(true);
                    prop_assert_eq!(out.clone().into_iter().collect::<Vec<_>>(), taken.clone());
                    // `len` still counts them.
                    compare(&list, &model, base)?;
                    if busy {
                        // A batch runs with interrupts on: a callback may arrive and a list may advance.
                        list.enqueue(id);
                        model.enqueue(id);
                        id += 1;
                        list.advance(base.wrapping_add(now as u64));
                        model.advance(now);
                        prop_assert_eq!(list.entrain(id).is_ok(), model.entrain(id));
                        id += 1;
                    }
                    let finished = usize::from(finish).min(out.len());
                    for _ in 0..finished {
                        out.pop_front();
                    }
                    let back = taken[finished..].iter().map(|&x| (x, For::Ready)).collect::<Vec<_>>();
                    model.row.splice(0..0, back);
                    model.unfinished -= finished as u64;
                    list.insert_done(out);
                    list.finished(finished as u64);
                    compare(&list, &model, base)?;
                    prop_assert_eq!(list.queued(), list.len(), "outside a batch the segments hold everything");
                }
                Op::TakeAndReturnPending => {
                    let out: Vec<u32> = list.extract_pend().into_iter().collect();
                    let taken = model.take(false);
                    prop_assert_eq!(&out, &taken);
                    prop_assert!(!list.pend());
                    // Their numbers are forgotten.
                    list.insert_pend(out.into_iter().collect());
                    model.row.extend(taken.into_iter().map(|x| (x, For::Unknown)));
                }
                Op::Merge(ready, pending) => {
                    let mut other = SegCbList::<u32>::default();
                    let mut theirs = Vec::new();
                    for _ in 0..ready { other.enqueue(id); theirs.push(id); id += 1; }
                    // Make them ready: number them with something that is over at once.
                    other.accelerate(base);
                    other.advance(base);
                    for _ in 0..pending { other.enqueue(id); id += 1; }
                    let first_pending = id - u32::from(pending);
                    list.merge(&mut other);
                    prop_assert!(other.is_empty() && !other.ready() && !other.pend());
                    // DONE to the front of DONE, the rest behind NEXT.
                    model.row.splice(0..0, theirs.into_iter().map(|x| (x, For::Ready)));
                    model.row.extend((first_pending..id).map(|x| (x, For::Unknown)));
                    model.unfinished += u64::from(ready) + u64::from(pending);
                }
            }
            compare(&list, &model, base)?;
        }
        // Everything comes out once, in the model's order.
        let rest: Vec<u32> = list.extract_done().into_iter().chain(list.extract_pend()).collect();
        let expected: Vec<u32> = model.row.iter().map(|&(x, _)| x).collect();
        prop_assert_eq!(rest, expected);
    }
}

#[test]
fn accelerate_says_yes_to_callbacks_that_have_the_number_already() {
    let mut list = SegCbList::default();
    assert!(!list.accelerate(8), "nothing waits");
    list.enqueue('a');
    assert!(list.accelerate(8));
    assert!(
        list.accelerate(8),
        "somebody waits for 8, so the caller makes sure of a request"
    );
    list.enqueue('b');
    assert!(list.accelerate(12), "b waits for 12 behind a");
    list.enqueue('c');
    assert!(
        !list.accelerate(16),
        "both numbered segments are taken by earlier grace periods"
    );
    assert_eq!([1, 1, 1], [WAIT, NEXT_READY, NEXT].map(|s| list.seglen(s)));
    list.advance(8);
    assert_eq!(
        [1, 1, 0, 1],
        [DONE, WAIT, NEXT_READY, NEXT].map(|s| list.seglen(s))
    );
    assert_eq!(list.segment_gp_seq(WAIT), 12);
    assert!(list.accelerate(16));
    assert_eq!(list.segment_gp_seq(NEXT_READY), 16);
    list.advance(16);
    assert_eq!(list.extract_done().into_iter().collect::<String>(), "abc");
    assert_eq!(list.len(), 3, "taken is not finished");
    list.finished(3);
    assert!(list.is_empty());
}
