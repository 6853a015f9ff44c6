//! One pass of a reader, drawn beforehand: which extents hold the section together, how they overlap,
//! and how long it stays in each.

use super::random::Random;

/// Preemption disabled (simulated world only: a process cannot do that).
pub const PREEMPT_OFF: u8 = 0x04;
/// `rcu_read_lock()`.
pub const RCU_1: u8 = 0x20;
/// A second `rcu_read_lock()`, nested or overlapping.
pub const RCU_2: u8 = 0x40;

/// Most segments of a pass.
pub const MAX_SEGMENTS: usize = 10;
/// Most extensions of a section.
const MAX_EXTENSIONS: u64 = 7;
/// Length of a short delay, ns.
pub const SHORT_NS: u64 = 200_000;

/// What a reader does inside a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Nothing.
    None,
    /// Spins for [`SHORT_NS`].
    Short,
    /// Stays for longer than a grace period takes.
    Long,
    /// Gives way to others.
    Yield,
}

/// A stretch of a section with the same extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What holds it; never 0.
    pub held: u8,
    /// How long.
    pub delay: Delay,
}

/// One section.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    segments: [Segment; MAX_SEGMENTS],
    len: usize,
}

/// How likely the delays are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// Extents that this world has.
    pub mask: u8,
    /// Readers in all: the fewer, the likelier.
    pub readers: u64,
    /// Readers may be preempted inside a section, so they may yield there.
    pub preemptible: bool,
    /// One of so many passes is extended.
    pub extend_one_in: u64,
}

impl Pass {
    /// Draws a pass. `long`: a long delay is due.
    pub fn draw(random: &mut Random, odds: &Odds, long: bool) -> Pass {
        let mut pass = Pass {
            segments: [Segment {
                held: RCU_1,
                delay: Delay::None,
            }; MAX_SEGMENTS],
            len: 1,
        };
        pass.segments[0].held = Self::extents(random, odds.mask);
        if random.one_in(odds.extend_one_in) {
            pass.len += random.below(MAX_EXTENSIONS + 1) as usize;
        }
        for segment in &mut pass.segments[1..pass.len] {
            segment.held = Self::extents(random, odds.mask);
        }
        for segment in &mut pass.segments[..pass.len] {
            segment.delay = if random.one_in(odds.readers * 400) {
                Delay::Short
            } else if odds.preemptible && segment.held & PREEMPT_OFF == 0 && random.one_in(odds.readers * 500)
            {
                Delay::Yield
            } else {
                Delay::None
            };
        }
        if long {
            let at = random.below(pass.len as u64) as usize;
            pass.segments[at].delay = Delay::Long;
            // Half of them where it can be preempted.
            if random.one_in(2) {
                pass.segments[at].held = RCU_1;
            }
        }
        pass
    }

    /// Some extents, at least one.
    fn extents(random: &mut Random, mask: u8) -> u8 {
        loop {
            let held = random.bits() as u8 & mask;
            if held != 0 {
                return held;
            }
        }
    }

    /// In order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.len]
    }

    /// As it is printed for the first section that failed.
    pub fn describe(&self) -> String {
        let one = |segment: &Segment| {
            let delay = match segment.delay {
                Delay::None => "",
                Delay::Short => " 200us",
                Delay::Long => " long",
                Delay::Yield => " yield",
            };
            format!("{:#x}{delay}", segment.held)
        };
        self.segments().iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_use_every_extent_and_never_let_go() {
        let odds = Odds {
            mask: RCU_1 | RCU_2 | PREEMPT_OFF,
            readers: 1,
            preemptible: true,
            extend_one_in: 1,
        };
        let mut random = Random::new(1, 0);
        let (mut lengths, mut kinds, mut longs) = ([0; MAX_SEGMENTS + 1], [0; 4], 0);
        for round in 0..20_000 {
            let pass = Pass::draw(&mut random, &odds, round % 100 == 0);
            lengths[pass.segments().len()] += 1;
            for segment in pass.segments() {
                assert!(segment.held != 0 && segment.held & !odds.mask == 0);
                assert!(segment.delay != Delay::Yield || segment.held & PREEMPT_OFF == 0);
                kinds[segment.delay as usize] += 1;
            }
            longs += pass
                .segments()
                .iter()
                .filter(|segment| segment.delay == Delay::Long)
                .count();
        }
        assert!(lengths[1..=8].iter().all(|&n| n > 1000), "{lengths:?}");
        assert!(lengths[0] + lengths[9] + lengths[10] == 0);
        assert!(kinds.iter().all(|&n| n > 50), "{kinds:?}");
        assert_eq!(longs, 200);
    }
}
