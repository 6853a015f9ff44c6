//! Interleaving: A B C A B C …, in short slices, so that whatever disturbs the machine disturbs all.

use super::host::{process_cpu_ns, wall_ns};
use super::report::{Competitor, Sample};

/// A competitor's slice.
pub type Slice<'a> = Box<dyn FnMut() -> Sample + 'a>;

/// One slice of each to warm up, then `rounds` rounds. Every other round goes backwards, so that nobody always
/// follows the same neighbour.
pub fn interleave(rounds: usize, mut slices: Vec<(&'static str, Slice<'_>)>) -> Vec<Competitor> {
    let mut competitors: Vec<Competitor> =
        slices.iter().map(|(name, _)| Competitor::new(name)).collect();
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

/// Repeats a slice, up to ten times, in which the process did not get nearly all of `cores` cores although its threads
/// never stop: a reader that does not run while others have its core is not the reader that the row is about. The last
/// one counts whatever happened; how many were thrown away is shown.
pub fn undisturbed(cores: f64, mut slice: impl FnMut() -> Sample) -> Sample {
    for thrown in 0.. {
        let (wall, cpu) = (wall_ns(), process_cpu_ns());
        let mut sample = slice();
        let share = (process_cpu_ns() - cpu) as f64 / (wall_ns() - wall) as f64;
        if share >= 0.93 * cores || thrown == 10 {
            sample.beside.push(("thrown away", f64::from(thrown)));
            sample.beside.push(("cores", share));
            return sample;
        }
    }
    unreachable!("the last one counts")
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
