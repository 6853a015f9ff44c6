use super::*;
use proptest::prelude::*;

#[test]
fn time_then_ticks_then_arrival() {
    let mut calendar = Calendar::new();
    calendar.push(5, Class::Other, "a");
    calendar.push(5, Class::Other, "b");
    calendar.push(5, Class::Tick, "tick");
    calendar.push(4, Class::Other, "first");
    let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
    assert_eq!(order, [(4, "first"), (5, "tick"), (5, "a"), (5, "b")]);
}

/// Wheel and heap side by side. Events are numbered, so that two that change places are seen.
struct Pair {
    wheel: Calendar<u64>,
    heap: Heap<u64>,
    pushed: u64,
    now: u64,
    most: usize,
}

impl Pair {
    fn new() -> Self {
        Pair {
            wheel: Calendar::new(),
            heap: Heap::new(),
            pushed: 0,
            now: 0,
            most: 0,
        }
    }

    fn push(&mut self, at: u64, class: Class) {
        self.wheel.push(at, class, self.pushed);
        self.heap.push(at, class, self.pushed);
        self.pushed += 1;
        self.most = self.most.max(self.heap.len());
    }

    fn pop(&mut self) -> Option<u64> {
        let expected = self.heap.pop();
        assert_eq!(self.wheel.pop(), expected);
        self.now = expected?.0;
        Some(self.now)
    }

    fn drain(&mut self) {
        while self.pop().is_some() {}
        self.memory_is_bounded();
    }

    /// No more blocks than the fullest moment needs, two partly filled ones in every slot.
    fn memory_is_bounded(&self) {
        let bound = self.most / BLOCK + 2 * LEVELS * SLOTS.min(self.most) + 2;
        assert!(
            self.wheel.pool.blocks.len() <= bound,
            "{} blocks",
            self.wheel.pool.blocks.len()
        );
    }
}

const CLASSES: [Class; 2] = [Class::Other, Class::Tick];

/// Times around every boundary of a digit, of the wheel's range and of `u64`.
fn boundaries() -> Vec<u64> {
    let mut times: Vec<u64> = (0..64)
        .flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1]
        })
        .chain((0..=10).map(|k| 63 * 64u64.pow(k).min(u64::MAX / 63)))
        .chain([FAR_NS - 2, FAR_NS + 2, u64::MAX - 1, u64::MAX])
        .collect();
    times.sort_unstable();
    times.dedup();
    times
}

#[test]
fn boundaries_in_both_classes_and_any_order() {
    let times = boundaries();
    for reversed in [false, true] {
        for repeat in [1, 2, SORTED + 1, 2 * BLOCK + 1] {
            let mut pair = Pair::new();
            for class in CLASSES {
                for _ in 0..repeat {
                    for n in 0..times.len() {
                        pair.push(times[if reversed { times.len() - 1 - n } else { n }], class);
                    }
                }
            }
            pair.drain();
        }
    }
}

#[test]
fn from_every_boundary_to_every_later_one() {
    let times = boundaries();
    for (n, &from) in times.iter().enumerate() {
        let mut pair = Pair::new();
        pair.push(from, Class::Other);
        pair.pop();
        for (m, &to) in times[n..].iter().enumerate() {
            pair.push(to, CLASSES[m % 2]);
            pair.push(to, CLASSES[(m + 1) % 2]);
        }
        pair.drain();
    }
}

#[test]
fn pushed_at_now_while_now_is_dispatched() {
    for pending in [1, SORTED, BLOCK, 3 * BLOCK] {
        for at in [0, 1, 31, 32, 4_000_000, FAR_NS - 1, FAR_NS, u64::MAX] {
            let mut pair = Pair::new();
            for _ in 0..pending {
                pair.push(at, Class::Other);
            }
            // Each dispatched entry wakes another at once; every fifth one brings a tick.
            for n in 0..4 * BLOCK {
                assert_eq!(pair.pop(), Some(at));
                pair.push(at, Class::Other);
                if n % 5 == 0 {
                    pair.push(at, Class::Tick);
                }
            }
            pair.drain();
        }
    }
}

#[test]
fn a_tick_comes_before_others_pending_at_now() {
    let mut calendar = Calendar::new();
    for event in ["a", "b"] {
        calendar.push(7, Class::Other, event);
    }
    assert_eq!(calendar.pop(), Some((7, "a")));
    calendar.push(7, Class::Other, "c");
    calendar.push(7, Class::Tick, "tick");
    let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
    assert_eq!(order, [(7, "tick"), (7, "b"), (7, "c")]);
}

#[test]
fn a_full_front_returns_to_the_wheel() {
    for step in [0, 1, 3] {
        let mut pair = Pair::new();
        // Two entries of one slot: the first pop makes it the front, with room for BLOCK entries.
        pair.push(1 << 20, Class::Other);
        pair.push((1 << 20) + 1_000, Class::Other);
        pair.pop();
        for n in 0..2 * BLOCK as u64 {
            pair.push((1 << 20) + 500 - n * step, Class::Other);
            pair.push((1 << 20) + 500 + n * step, Class::Tick);
        }
        pair.drain();
    }
}

#[test]
fn empty_again_and_again() {
    let mut pair = Pair::new();
    for n in 0..200 {
        assert_eq!(pair.pop(), None);
        pair.push(pair.now + n * n * n, CLASSES[n as usize % 2]);
        pair.pop();
    }
    // The front's block and one more.
    assert!(pair.wheel.pool.blocks.len() <= 2);
}

#[test]
#[should_panic(expected = "into the past")]
fn the_past_is_refused() {
    let mut calendar = Calendar::new();
    calendar.push(100, Class::Other, ());
    calendar.pop();
    calendar.push(99, Class::Other, ());
}

/// Long runs at a constant number of pending entries: full slots, several blocks per slot, a front that
/// comes and goes, time that crosses the boundaries of several levels.
#[test]
fn steady_state_equals_heap() {
    for (pending, spread, events) in [
        (3, 40_000_000, 60_000),
        (100, 5_000, 60_000),
        (1_000, 40_000_000, 60_000),
        (3_000, 40_000, 60_000),
        (20_000, 40_000_000, 120_000),
    ] {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64 ^ pending as u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % bound
        };
        let mut pair = Pair::new();
        for _ in 0..pending {
            pair.push(below(spread), Class::Other);
        }
        for _ in 0..events {
            let now = pair.pop().unwrap();
            match below(16) {
                0..3 => pair.push(now, Class::Other),
                3..7 => pair.push(now + 1_000 + below(4_000), Class::Other),
                7..10 => pair.push((now / 4_000_000 + 1) * 4_000_000, Class::Tick),
                10 => pair.push(now + below(40), CLASSES[below(2) as usize]),
                _ => pair.push(now + below(spread), Class::Other),
            }
        }
        let blocks = pair.wheel.pool.blocks.len();
        assert!(
            blocks <= pending / BLOCK + 2 * 4 * SLOTS,
            "{blocks} blocks for {pending}"
        );
        pair.drain();
    }
}

/// What a random test does next; times are relative to now where that makes sense.
#[derive(Debug, Clone)]
enum Step {
    Push {
        ahead: u64,
        times: usize,
        tick: bool,
    },
    /// At the same instant as the entry pushed last, if that is still to come.
    Again {
        tick: bool,
    },
    /// At the next multiple of 2^bits.
    Aligned {
        bits: u32,
        tick: bool,
    },
    /// At that very time, if it is still to come.
    At {
        at: u64,
        tick: bool,
    },
    Pop {
        times: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let near = prop_oneof![
        3 => Just(0),
        3 => 0..70_u64,
        3 => 1_000..5_000_u64,
        3 => 0..40_000_000_u64,
        1 => (0..62_u32, 0..3_u64).prop_map(|(bit, d)| (1u64 << bit).saturating_add(d).saturating_sub(1)),
        1 => (0..62_u32).prop_flat_map(|bit| 0..1u64 << bit),
    ];
    let times = prop_oneof![6 => Just(1), 2 => 2..8_usize, 1 => 8..80_usize];
    prop_oneof![
        8 => (near, times.clone(), any::<bool>()).prop_map(|(ahead, times, tick)| Step::Push { ahead, times, tick }),
        3 => any::<bool>().prop_map(|tick| Step::Again { tick }),
        2 => (0..40_u32, any::<bool>()).prop_map(|(bits, tick)| Step::Aligned { bits, tick }),
        1 => (prop::sample::select(boundaries()), any::<bool>()).prop_map(|(at, tick)| Step::At { at, tick }),
        9 => times.prop_map(|times| Step::Pop { times }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn equals_heap(steps in prop::collection::vec(step(), 1..300)) {
        let mut pair = Pair::new();
        let mut last = 0;
        for step in steps {
            let now = pair.now;
            let (at, times, tick) = match step {
                Step::Push { ahead, times, tick } => (now.saturating_add(ahead), times, tick),
                Step::Again { tick } => (last, 1, tick),
                Step::Aligned { bits, tick } => ((now >> bits).saturating_add(1) << bits, 1, tick),
                Step::At { at, tick } => (at, 1, tick),
                Step::Pop { times } => {
                    for _ in 0..times {
                        pair.pop();
                    }
                    continue;
                }
            };
            last = at.max(now);
            for _ in 0..times {
                pair.push(last, CLASSES[usize::from(tick)]);
            }
        }
        pair.drain();
    }
}
