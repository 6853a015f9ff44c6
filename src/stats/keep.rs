//! What a run keeps of its calls: all of them, a random sample, or only their distribution.

use super::Samples;
use crate::error::{Error, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant decimal digits of the histogram: a bucket is at most 0.1 % wide.
pub const HISTOGRAM_DIGITS: u8 = 3;
/// Hard limit of [`Keep::Sample`].
pub const MAX_SAMPLE: u64 = 1_000_000_000;

/// How much of the calls a run keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every call.
    #[default]
    Samples,
    /// The distribution of latencies only, with [`HISTOGRAM_DIGITS`] significant digits.
    Histogram,
    /// The distribution, and this many calls, each completed call being equally likely among them.
    Sample(u64),
}

impl Keep {
    /// Checks the size of a sample.
    pub fn validate(self) -> Result<()> {
        match self {
            Keep::Sample(n) if n == 0 || n > MAX_SAMPLE => Err(Error::config(
                "keep",
                n,
                "out of range",
                format!("samples, histogram, or a number of calls from 1 to {MAX_SAMPLE}"),
            )),
            _ => Ok(()),
        }
    }

    /// Most calls that are kept of `calls`.
    pub fn at_most(self, calls: u64) -> u64 {
        match self {
            Keep::Samples => calls,
            Keep::Histogram => 0,
            Keep::Sample(n) => n.min(calls),
        }
    }
}

/// One completed call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub task: i32,
    pub cpu: i32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub gp_seq: i64,
}

/// Takes calls in as they complete.
#[derive(Debug)]
pub(crate) struct Recorder {
    keep: Keep,
    pub samples: Samples,
    pub histogram: Option<Histogram<u64>>,
    sum_ns: u128,
    seen: u64,
}

impl Recorder {
    pub fn new(keep: Keep) -> Self {
        let histogram = (keep != Keep::Samples).then(|| {
            // Grows with the largest latency seen.
            Histogram::new(HISTOGRAM_DIGITS).expect("3 digits are allowed")
        });
        Recorder {
            keep,
            samples: Samples::default(),
            histogram,
            sum_ns: 0,
            seen: 0,
        }
    }

    /// Takes one call in. `draw(n)` gives a number below `n`.
    pub fn record(&mut self, call: Call, draw: impl FnOnce(u64) -> u64) {
        self.seen += 1;
        if let Some(histogram) = &mut self.histogram {
            let latency = (call.end_ns - call.start_ns) as u64;
            histogram.record(latency).expect("the histogram resizes itself");
            self.sum_ns += u128::from(latency);
        }
        match self.keep {
            Keep::Samples => self.samples.push(call),
            Keep::Histogram => {}
            Keep::Sample(n) if (self.samples.len() as u64) < n => self.samples.push(call),
            // Reservoir sampling: the k-th call replaces one of the n kept with probability n / k.
            Keep::Sample(n) => {
                let place = draw(self.seen);
                if place < n {
                    self.samples.set(place as usize, call);
                }
            }
        }
    }

    /// Exact mean of all latencies, where the samples do not give it.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.histogram.is_some() && self.seen > 0).then(|| self.sum_ns as f64 / self.seen as f64)
    }
}

impl Samples {
    pub(crate) fn with_capacity(calls: usize) -> Self {
        Samples {
            task: Vec::with_capacity(calls),
            cpu: Vec::with_capacity(calls),
            start_ns: Vec::with_capacity(calls),
            end_ns: Vec::with_capacity(calls),
            latency_ns: Vec::with_capacity(calls),
            gp_seq: Vec::with_capacity(calls),
        }
    }

    pub(crate) fn push(&mut self, call: Call) {
        self.task.push(call.task);
        self.cpu.push(call.cpu);
        self.start_ns.push(call.start_ns);
        self.end_ns.push(call.end_ns);
        self.latency_ns.push(call.end_ns - call.start_ns);
        self.gp_seq.push(call.gp_seq);
    }

    fn set(&mut self, at: usize, call: Call) {
        self.task[at] = call.task;
        self.cpu[at] = call.cpu;
        self.start_ns[at] = call.start_ns;
        self.end_ns[at] = call.end_ns;
        self.latency_ns[at] = call.end_ns - call.start_ns;
        self.gp_seq[at] = call.gp_seq;
    }
}
