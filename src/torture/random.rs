//! Random numbers of a torture run: one stream per thread, all from one seed.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream.
#[derive(Debug, Clone)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// Stream number `index` under `seed`.
    pub fn new(seed: u64, index: u64) -> Self {
        // Two odd multipliers keep neighbouring seeds and indices apart; the generator's own seeding
        // does the mixing.
        let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd134_2543_de82_ef95);
        Random(Pcg64Mcg::seed_from_u64(word.rotate_left(31) ^ seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0 .. `bound`; 0 for an empty range.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` on average; never for 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
