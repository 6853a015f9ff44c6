//! Random numbers of a run: one 64-bit seed, split into a stream per purpose, so that one more draw
//! for one purpose shifts no other. The generators and the exponential are the same on every platform.

use crate::workload::Length;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What a stream is for.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(crate) enum Purpose {
    Placement = 1,
    Kthread = 2,
    Start = 3,
    Noise = 4,
    Governor = 5,
    Readers = 6,
    Flood = 7,
    Hotplug = 8,
    Sample = 9,
    Merge = 10,
    Torture = 11,
    Srcu = 12,
}

/// One stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream(Pcg64Mcg);

/// The finaliser of splitmix64: neighbouring seeds give unrelated streams.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Stream {
    /// The stream of `purpose`, number `index` (a CPU, say), under `seed`.
    pub(crate) fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        Stream(Pcg64Mcg::seed_from_u64(mix(
            mix(mix(seed) ^ purpose as u64) ^ index
        )))
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0 .. `bound`; 0 for an empty range.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift; the bias is below 2^-64 * bound.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `low ..= high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// Exponential with this mean, rounded to whole units, at least 1.
    pub(crate) fn exponential(&mut self, mean: f64) -> u64 {
        // libm rather than the platform's own: the same bits everywhere. 1 - u lies in (0, 1].
        ((-libm::log(1.0 - self.unit()) * mean) as u64).max(1)
    }

    /// Uniform in 0 .. 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a length, ns.
    pub(crate) fn length(&mut self, length: Length) -> u64 {
        match length {
            Length::Fixed(ns) => ns,
            Length::Uniform(low, high) => self.between(low, high),
            Length::Exponential(0) => 0,
            Length::Exponential(mean) => self.exponential(mean as f64).min(mean.saturating_mul(20)),
        }
    }
}
