//! A queue in chunks, for callbacks: adding one allocates once in [`CHUNK`], and joining two queues moves whole chunks.
//!
//! Most lists of a simulated machine hold a handful of callbacks; those live in one buffer that grows and shrinks with
//! them.

use std::collections::VecDeque;

/// Elements of a full chunk.
pub const CHUNK: usize = 256;

/// Spare room that a short queue may keep when it is joined to another; more is given back, or the lists of a flooded
/// machine would hold several times what is in them.
const SPARE: usize = 8;

/// A queue. The front chunk is empty only if the whole queue is.
#[derive(Debug, Clone)]
pub struct Chunks<T> {
    front: VecDeque<T>,
    /// Chunks behind the first; of two neighbours at least one is half full.
    rest: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Chunks {
            front: VecDeque::new(),
            rest: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> Chunks<T> {
    /// Elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// None.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one at the end.
    #[inline]
    pub fn push_back(&mut self, value: T) {
        self.len += 1;
        let last = self.rest.back_mut().unwrap_or(&mut self.front);
        if last.len() < CHUNK {
            last.push_back(value);
        } else {
            self.push_chunk(value);
        }
    }

    #[cold]
    fn push_chunk(&mut self, value: T) {
        let mut chunk = VecDeque::with_capacity(CHUNK);
        chunk.push_back(value);
        self.rest.push_back(chunk);
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let value = self.front.pop_front()?;
        self.len -= 1;
        if self.front.is_empty()
            && let Some(next) = self.rest.pop_front()
        {
            self.front = next;
        }
        Some(value)
    }

    /// Moves everything in `from` behind this. What fits into the last chunk is copied there; else chunks move, those
    /// of the queue that has fewer.
    #[inline]
    pub fn append(&mut self, from: &mut Chunks<T>) {
        if self.is_empty() {
            std::mem::swap(self, from);
        } else {
            let last = self.rest.back_mut().unwrap_or(&mut self.front);
            if from.rest.is_empty() && last.len() + from.front.len() <= CHUNK {
                last.append(&mut from.front);
            } else if from.rest.len() <= self.rest.len() {
                self.rest.push_back(std::mem::take(&mut from.front));
                self.rest.append(&mut from.rest);
            } else {
                from.rest.push_front(std::mem::take(&mut from.front));
                while let Some(chunk) = self.rest.pop_back() {
                    from.rest.push_front(chunk);
                }
                std::mem::swap(&mut self.rest, &mut from.rest);
            }
            self.len += std::mem::take(&mut from.len);
        }
        if self.rest.is_empty() && self.front.capacity() > self.front.len() + SPARE {
            self.front.shrink_to(self.front.len() + SPARE);
        }
    }
}

/// Elements, oldest first.
#[derive(Debug)]
pub struct IntoIter<T>(Chunks<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}

impl<T> IntoIterator for Chunks<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

impl<T> FromIterator<T> for Chunks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut queue = Chunks::default();
        values.into_iter().for_each(|value| queue.push_back(value));
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything out, checking the invariant on the way.
    fn drain(mut queue: Chunks<u32>) -> Vec<u32> {
        let mut out = Vec::new();
        loop {
            assert_eq!(queue.front.is_empty(), queue.len == 0);
            let Some(value) = queue.pop_front() else {
                assert!(queue.rest.is_empty());
                return out;
            };
            out.push(value);
        }
    }

    #[test]
    fn order_is_kept_whatever_is_joined() {
        let sizes = [0, 1, 3, 255, 256, 257, 600, 2000];
        for before in sizes {
            for behind in sizes {
                for taken in [0, 1, 200, 300] {
                    let (mut a, mut b) = (Chunks::default(), Chunks::default());
                    (0..before).for_each(|value| a.push_back(value));
                    (0..behind).for_each(|value| b.push_back(10_000 + value));
                    let gone = (0..taken).map_while(|_| a.pop_front()).count() as u32;
                    a.append(&mut b);
                    assert!(b.is_empty() && b.pop_front().is_none());
                    a.push_back(20_000);
                    b.push_back(1);
                    let expected: Vec<u32> = (gone..before)
                        .chain(10_000..10_000 + behind)
                        .chain([20_000])
                        .collect();
                    assert_eq!(a.len(), expected.len());
                    assert_eq!(drain(a), expected, "{before} {behind} {taken}");
                    assert_eq!(drain(b), [1]);
                }
            }
        }
    }

    #[test]
    fn joining_many_short_queues_leaves_no_row_of_nearly_empty_chunks() {
        let mut all = Chunks::default();
        for value in 0..10_000u32 {
            let mut one = Chunks::default();
            one.push_back(value);
            one.push_back(value);
            all.append(&mut one);
        }
        assert!(all.rest.len() < 2 * 20_000 / CHUNK, "{} chunks", all.rest.len());
    }
}
