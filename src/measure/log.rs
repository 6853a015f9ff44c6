//! Where a thread writes its calls while it runs, and how the threads' calls become the run's.
//!
//! Nothing is allocated for a call: rows go into a chunk that is there (and was touched) before the run
//! starts; a full one is followed by the next, one allocation for [`CHUNK_ROWS`] calls. Chunks come from a
//! budget that all threads share; when it is used up the run ends with an error instead of being killed.

use crate::control::MIB;
use crate::error::{Error, Result};
use crate::random::Stream;
use crate::stats::{Call, HISTOGRAM_DIGITS, Keep, KeptCalls, Samples};
use crate::sync::{AtomicU64, Ordering};
use hdrhistogram::Histogram;

/// Rows of one chunk.
pub(super) const CHUNK_ROWS: usize = 16_384;
/// Memory of a kept call, bytes, at most: its row here, the row it becomes where a sample is sorted, and its place in
/// the columns.
pub(super) const BYTES_PER_CALL: u64 = (size_of::<Row>() + size_of::<Call>()) as u64 + Samples::ROW_BYTES;
/// Longest latency that a histogram tells apart from longer ones, ns: 73 minutes.
const LONGEST_NS: u64 = 1 << 42;
/// Memory of a thread's histogram, bytes (that range, 3 digits), rounded up.
pub(super) const BYTES_PER_HISTOGRAM: u64 = 300_000;

/// One call of one thread, ns since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    start_ns: i64,
    end_ns: i64,
    gp_seq: i64,
}

impl Row {
    fn of(&self, task: i32, cpu: i32) -> Call {
        Call {
            task,
            cpu,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            gp_seq: self.gp_seq,
        }
    }
}

/// What is left of the memory limit, in rows.
#[derive(Debug)]
pub(super) struct Budget {
    rows: AtomicU64,
    limit_mb: u64,
}

impl Budget {
    pub fn new(limit_mb: u64) -> Self {
        Budget {
            rows: AtomicU64::new(limit_mb.saturating_mul(MIB) / BYTES_PER_CALL),
            limit_mb,
        }
    }

    fn take(&self, rows: u64) -> Result<()> {
        let taken = self
            .rows
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(rows)
            });
        taken.map(drop).map_err(|_| Error::Memory {
            need_mb: self.limit_mb + 1,
            limit_mb: self.limit_mb,
            what: format!(
                "samples of {} calls so far",
                self.limit_mb.saturating_mul(MIB) / BYTES_PER_CALL
            ),
        })
    }
}

/// The calls of one thread.
#[derive(Debug)]
pub(super) struct Log<'b> {
    task: i32,
    cpu: i32,
    keep: Keep,
    full: Vec<Vec<Row>>,
    chunk: Vec<Row>,
    budget: &'b Budget,
    histogram: Option<Histogram<u64>>,
    sum_ns: u128,
    seen: u64,
    random: Stream,
}

impl<'b> Log<'b> {
    /// For about `calls` calls (0: unknown); takes its first chunk from the budget.
    pub fn new(
        task: i32,
        cpu: i32,
        keep: Keep,
        calls: u64,
        budget: &'b Budget,
        random: Stream,
    ) -> Result<Self> {
        let calls = if calls == 0 { u64::MAX } else { calls };
        let rows = keep.at_most(calls).min(CHUNK_ROWS as u64);
        let histogram = (keep != Keep::Samples).then(|| {
            Histogram::new_with_bounds(1, LONGEST_NS, HISTOGRAM_DIGITS)
                .expect("bounds and digits are allowed")
        });
        let mut log = Log {
            task,
            cpu,
            keep,
            full: Vec::with_capacity(64),
            chunk: Vec::new(),
            budget,
            histogram,
            sum_ns: 0,
            seen: 0,
            random,
        };
        log.next_chunk(rows)?;
        Ok(log)
    }

    fn next_chunk(&mut self, rows: u64) -> Result<()> {
        self.budget.take(rows)?;
        // Written once, so that the run does not pay for the pages.
        let mut chunk = vec![Row::default(); rows as usize];
        std::hint::black_box(&mut chunk);
        chunk.clear();
        let full = std::mem::replace(&mut self.chunk, chunk);
        if !full.is_empty() {
            self.full.push(full);
        }
        Ok(())
    }

    fn kept(&self) -> u64 {
        (self.full.len() * CHUNK_ROWS + self.chunk.len()) as u64
    }

    fn push(&mut self, row: Row) -> Result<()> {
        if self.chunk.len() == self.chunk.capacity() {
            self.next_chunk(CHUNK_ROWS as u64)?;
        }
        self.chunk.push(row);
        Ok(())
    }

    /// Takes one call in.
    pub fn record(&mut self, start_ns: u64, end_ns: u64, gp_seq: u64) -> Result<()> {
        let row = Row {
            start_ns: start_ns as i64,
            end_ns: end_ns as i64,
            gp_seq: gp_seq as i64,
        };
        self.seen += 1;
        if let Some(histogram) = &mut self.histogram {
            let latency = end_ns.saturating_sub(start_ns);
            histogram.saturating_record(latency);
            self.sum_ns += u128::from(latency);
        }
        match self.keep {
            Keep::Samples => self.push(row),
            Keep::Histogram => Ok(()),
            Keep::Sample(n) if self.kept() < n => self.push(row),
            // Reservoir sampling, as in a simulated run.
            Keep::Sample(n) => {
                let place = self.random.below(self.seen);
                if place < n {
                    *self.at(place as usize) = row;
                }
                Ok(())
            }
        }
    }

    fn at(&mut self, index: usize) -> &mut Row {
        match self.full.get_mut(index / CHUNK_ROWS) {
            Some(chunk) => &mut chunk[index % CHUNK_ROWS],
            None => &mut self.chunk[index % CHUNK_ROWS],
        }
    }

    fn call(&mut self, index: usize) -> Call {
        let (task, cpu) = (self.task, self.cpu);
        self.at(index).of(task, cpu)
    }

    fn into_kept(mut self) -> Kept {
        self.full.push(self.chunk);
        Kept {
            task: self.task,
            cpu: self.cpu,
            chunks: self.full,
        }
    }

    /// Takes a kept call out, each with the same probability.
    fn draw(&mut self, random: &mut Stream) -> Call {
        let kept = self.kept();
        let index = random.below(kept) as usize;
        let call = self.call(index);
        let last = self.call(kept as usize - 1);
        *self.at(index) = Row {
            start_ns: last.start_ns,
            end_ns: last.end_ns,
            gp_seq: last.gp_seq,
        };
        if self.chunk.is_empty() {
            self.chunk = self.full.pop().expect("something was kept");
        }
        self.chunk.pop();
        call
    }
}

/// The calls of all threads together.
#[derive(Debug)]
pub(super) struct Merged {
    pub samples: KeptCalls,
    pub histogram: Option<Histogram<u64>>,
    pub mean_ns: Option<f64>,
}

/// Puts the threads' calls together, in order of completion; where all of them are kept, when they are looked at.
pub(super) fn merge(mut logs: Vec<Log<'_>>, keep: Keep, mut random: Stream) -> Merged {
    let mut histogram = None;
    let mut mean_ns = None;
    if keep != Keep::Samples {
        let mut whole = Histogram::new(HISTOGRAM_DIGITS).expect("3 digits are allowed");
        for log in &mut logs {
            if let Some(part) = log.histogram.take() {
                whole.add(part).expect("the histogram resizes itself");
            }
        }
        let sum: u128 = logs.iter().map(|log| log.sum_ns).sum();
        mean_ns = (!whole.is_empty()).then(|| sum as f64 / whole.len() as f64);
        histogram = Some(whole);
    }
    let samples = match keep {
        Keep::Histogram => Samples::with_capacity(0).into(),
        Keep::Samples => {
            let calls = logs.iter().map(|log| log.kept() as usize).sum();
            let logs: Vec<Kept> = logs.into_iter().map(Log::into_kept).collect();
            KeptCalls::later(calls, move || by_completion(&logs, calls))
        }
        Keep::Sample(n) => {
            let mut calls = sample(&mut logs, n, &mut random);
            calls.sort_unstable_by_key(order);
            let mut samples = Samples::with_capacity(calls.len());
            for call in calls {
                samples.push(call);
            }
            samples.into()
        }
    };
    Merged {
        samples,
        histogram,
        mean_ns,
    }
}

/// By completion; a thread's own calls come in this order.
fn order(call: &Call) -> (i64, i32, i64) {
    (call.end_ns, call.task, call.start_ns)
}

/// The calls that one thread kept, in the order in which it made them.
#[derive(Debug)]
struct Kept {
    task: i32,
    cpu: i32,
    chunks: Vec<Vec<Row>>,
}

impl Kept {
    fn call(&self, index: usize) -> Call {
        self.chunks[index / CHUNK_ROWS][index % CHUNK_ROWS].of(self.task, self.cpu)
    }
}

/// A call's place: when it ended, whose it is, and which of theirs. A thread's own calls come in this order.
type Place = (i64, u32, u32);

/// All calls of all threads, by completion. What each thread made is in this order already, of which a sort that looks
/// for such runs makes use.
fn by_completion(logs: &[Kept], calls: usize) -> Samples {
    let mut places: Vec<Place> = Vec::with_capacity(calls);
    for (number, log) in logs.iter().enumerate() {
        let rows = log.chunks.iter().flatten().enumerate();
        places.extend(rows.map(|(index, row)| (row.end_ns, number as u32, index as u32)));
    }
    places.sort();
    let mut samples = Samples::with_capacity(calls);
    for (_, number, index) in places {
        samples.push(logs[number as usize].call(index as usize));
    }
    samples
}

/// `n` calls of all that were made, each with the same probability: each thread kept a uniform sample of its
/// own calls, and the next one is taken from a thread with a probability that follows how many of its calls
/// are not yet taken.
fn sample(logs: &mut [Log<'_>], n: u64, random: &mut Stream) -> Vec<Call> {
    let mut left: Vec<u64> = logs.iter().map(|log| log.seen).collect();
    let mut all: u64 = left.iter().sum();
    let wanted = n.min(all);
    let mut calls = Vec::with_capacity(wanted as usize);
    for _ in 0..wanted {
        let mut at = random.below(all);
        let from = left
            .iter()
            .position(|&count| {
                let here = at < count;
                at = at.wrapping_sub(count);
                here
            })
            .expect("the number is below their sum");
        calls.push(logs[from].draw(random));
        left[from] -= 1;
        all -= 1;
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn stream(index: u64) -> Stream {
        Stream::new(1, Purpose::Sample, index)
    }

    fn logged(budget: &Budget, task: i32, keep: Keep, calls: u64) -> Log<'_> {
        let mut log = Log::new(task, 0, keep, 0, budget, stream(task as u64)).expect("fits");
        for i in 0..calls {
            log.record(i * 10, i * 10 + 5, i).expect("fits");
        }
        log
    }

    #[test]
    fn every_call_is_there_in_order_of_completion() {
        let budget = Budget::new(64);
        let n = CHUNK_ROWS as u64 + 7;
        let logs = vec![
            logged(&budget, 0, Keep::Samples, n),
            logged(&budget, 1, Keep::Samples, 3),
        ];
        let samples = merge(logs, Keep::Samples, stream(9)).samples;
        assert_eq!(samples.len() as u64, n + 3);
        assert_eq!(samples.latency_ns.len() as u64, n + 3);
        assert!(samples.end_ns.is_sorted());
        assert_eq!(samples.task.iter().filter(|&&task| task == 1).count(), 3);
        assert!(samples.latency_ns.iter().all(|&ns| ns == 5));
    }

    #[test]
    fn a_sample_takes_from_each_thread_its_share() {
        let budget = Budget::new(64);
        let keep = Keep::Sample(1000);
        let logs = vec![
            logged(&budget, 0, keep, 30_000),
            logged(&budget, 1, keep, 10_000),
            logged(&budget, 2, keep, 0),
        ];
        let merged = merge(logs, keep, stream(9));
        assert_eq!(merged.samples.len(), 1000);
        assert_eq!(merged.histogram.map(|h| h.len()), Some(40_000));
        assert_eq!(merged.mean_ns, Some(5.0));
        let first = merged.samples.task.iter().filter(|&&task| task == 0).count();
        // 750 expected, standard deviation 14.
        assert!((680..=820).contains(&first), "{first}");
        let mut seen: Vec<_> = merged.samples.task.iter().zip(&merged.samples.gp_seq).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000, "no call is taken twice");
        let early = merged.samples.gp_seq.iter().filter(|&&i| i < 5_000).count();
        // 5,000 of each thread's calls: 250 expected.
        assert!((180..=320).contains(&early), "{early}");
    }

    #[test]
    fn the_budget_ends_a_log() {
        let budget = Budget::new(2);
        let mut log = Log::new(0, 0, Keep::Samples, 0, &budget, stream(0)).expect("the first chunk fits");
        let refused = (0..100_000).find_map(|i| log.record(i, i + 1, 0).err());
        assert!(
            matches!(refused, Some(Error::Memory { limit_mb: 2, .. })),
            "{refused:?}"
        );
    }
}
