//! Interleaving: A B C A B C …, in short slices, so that whatever disturbs the machine disturbs all.

use super::host::wall_ns;
use super::report::{Competitor, Sample};
use std::sync::atomic::{AtomicU64, Ordering};

/// A competitor's slice.
pub type Slice<'a> = Box<dyn FnMut() -> Sample + 'a>;

/// One slice of each to warm up, then `rounds` rounds. Every other round goes backwards, so that nobody always
/// follows the same neighbour.
pub fn interleave(rounds: usize, mut slices: Vec<(&'static str, Slice<'_>)>) -> Vec<Competitor> {
    let mut competitors: Vec<Competitor> = slices.iter().map(|(name, _)| Competitor::new(name)).collect();
    for (_, slice) in &mut slices {
        slice();
    }
    let len = slices.len();
    for round in 0..rounds {
        for step in 0..len {
            let index = if round % 2 == 0 { step } else { len - 1 - step };
            let sample = (slices[index].1)();
            competitors[index].push(sample);
        }
    }
    competitors
}

/// Calls `f` for a slice and counts only those calls during which `progress` moved: a reader whose core was taken by
/// others is not the running reader that a row is about. The sample is the median time of a call, ns, with the mean
/// beside it, and the share of calls that counted. Where too few did the slice is repeated, up to ten times.
pub fn per_call_beside(slice_ns: u64, progress: &AtomicU64, mut f: impl FnMut()) -> Sample {
    /// Enough for a median.
    const ENOUGH: usize = 20;
    let mut times = Vec::with_capacity(1 << 16);
    let mut calls = 0;
    for _ in 0..10 {
        let start = wall_ns();
        let mut before = start;
        while before - start < slice_ns {
            let moved = progress.load(Ordering::Relaxed);
            f();
            let now = wall_ns();
            calls += 1;
            if progress.load(Ordering::Relaxed) != moved {
                times.push((now - before) as f64);
            }
            before = now;
        }
        if times.len() >= ENOUGH {
            break;
        }
    }
    Sample {
        value: super::report::median(&times),
        beside: vec![
            ("mean", times.iter().sum::<f64>() / times.len() as f64),
            ("counted", times.len() as f64 / f64::from(calls)),
        ],
    }
}

/// Calls `f` for a slice, `batch` calls between two looks at the clock. The sample is the median time of a call, ns,
/// with the mean beside it.
pub fn per_call(slice_ns: u64, batch: u32, mut f: impl FnMut()) -> Sample {
    let mut times = Vec::with_capacity(1 << 16);
    let start = wall_ns();
    let mut before = start;
    loop {
        for _ in 0..batch {
            f();
        }
        let now = wall_ns();
        times.push((now - before) as f64 / f64::from(batch));
        before = now;
        if now - start >= slice_ns {
            break;
        }
    }
    let mean = (before - start) as f64 / (times.len() as f64 * f64::from(batch));
    Sample {
        value: super::report::median(&times),
        beside: vec![("mean", mean)],
    }
}
