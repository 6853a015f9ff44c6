//! One number for a whole run: equal digests mean equal bytes in every column and counter.

use super::Run;
use xxhash_rust::xxh3::Xxh3;

/// Counters of mechanisms that came later: a run that does not meet them keeps the digest that it had.
const LATER_COUNTERS: [&str; 2] = ["expedited_grace_periods", "stalls"];

fn column<T: Copy, const N: usize>(hash: &mut Xxh3, name: &str, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    hash.update(name.as_bytes());
    hash.update(&(values.len() as u64).to_le_bytes());
    for &value in values {
        hash.update(&bytes(value));
    }
}

pub(super) fn of(run: &Run) -> String {
    let mut hash = Xxh3::new();
    let s = &run.samples;
    column(&mut hash, "task", &s.task, i32::to_le_bytes);
    column(&mut hash, "cpu", &s.cpu, i32::to_le_bytes);
    column(&mut hash, "start_ns", &s.start_ns, i64::to_le_bytes);
    column(&mut hash, "end_ns", &s.end_ns, i64::to_le_bytes);
    column(&mut hash, "gp_seq", &s.gp_seq, i64::to_le_bytes);
    if let Some(histogram) = &run.histogram {
        for value in histogram.iter_recorded() {
            hash.update(&value.value_iterated_to().to_le_bytes());
            hash.update(&value.count_at_value().to_le_bytes());
        }
    }
    let g = &run.grace_periods;
    column(&mut hash, "gp.gp_seq", &g.gp_seq, i64::to_le_bytes);
    column(&mut hash, "gp.start_ns", &g.start_ns, i64::to_le_bytes);
    column(&mut hash, "gp.end_ns", &g.end_ns, i64::to_le_bytes);
    column(&mut hash, "gp.requests", &g.requests, i64::to_le_bytes);
    column(&mut hash, "gp.scans", &g.scans, i32::to_le_bytes);
    column(&mut hash, "gp.holdout_cpu", &g.holdout_cpu, i32::to_le_bytes);
    column(&mut hash, "gp.resolved_by", &g.resolved_by, i32::to_le_bytes);
    column(&mut hash, "gp.kthread_cpu", &g.kthread_cpu, i32::to_le_bytes);
    // Serialised counters keep their declaration order.
    let mut counters = serde_json::to_string(&run.counters).expect("counters serialise");
    for later in LATER_COUNTERS {
        counters = counters.replace(&format!(",\"{later}\":0"), "");
    }
    hash.update(counters.as_bytes());
    for stall in &run.stalls {
        let stall = serde_json::to_string(stall).expect("stalls serialise");
        hash.update(stall.as_bytes());
    }
    format!("{:032x}", hash.digest128())
}
