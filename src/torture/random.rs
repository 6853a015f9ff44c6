//! Random numbers of a torture run: one stream per thread, all from one seed.

use crate::random::{Purpose, Stream};

/// A stream.
#[derive(Debug, Clone)]
pub struct Random(Stream);

impl Random {
    /// Stream number `index` under `seed`.
    pub fn new(seed: u64, index: u64) -> Self {
        Random(Stream::new(seed, Purpose::Torture, index))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// Uniform in 0 .. `bound`; 0 for an empty range.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
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
