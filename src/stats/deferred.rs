//! The calls that a run kept. Putting those of many threads in order takes a while, which nobody has to wait for who only
//! wants the run to end: it is done when the calls are first looked at.

use super::Samples;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type Make = Box<dyn FnOnce() -> Samples + Send>;

/// [`Samples`], made at the first look. Clones share them.
#[derive(Debug, Clone)]
pub struct KeptCalls {
    calls: usize,
    made: Arc<LazyLock<Samples, Make>>,
}

impl KeptCalls {
    /// So many calls, which `make` gives.
    pub(crate) fn later(calls: usize, make: impl FnOnce() -> Samples + Send + 'static) -> Self {
        KeptCalls {
            calls,
            made: Arc::new(LazyLock::new(Box::new(make))),
        }
    }

    /// Number of calls; does not look at them.
    pub fn len(&self) -> usize {
        self.calls
    }

    /// True when no call was kept.
    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }
}

impl From<Samples> for KeptCalls {
    fn from(samples: Samples) -> Self {
        let kept = KeptCalls::later(samples.len(), || samples);
        LazyLock::force(&kept.made);
        kept
    }
}

impl Deref for KeptCalls {
    type Target = Samples;

    fn deref(&self) -> &Samples {
        &self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn they_are_made_once_and_when_they_are_looked_at() {
        let made = Arc::new(AtomicU32::new(0));
        let kept = KeptCalls::later(2, {
            let made = made.clone();
            move || {
                made.fetch_add(1, Ordering::Relaxed);
                Samples {
                    latency_ns: vec![3, 4],
                    ..Samples::default()
                }
            }
        });
        let clone = kept.clone();
        assert_eq!(kept.len(), 2);
        assert!(!kept.is_empty());
        assert_eq!(made.load(Ordering::Relaxed), 0);
        assert_eq!(kept.latency_ns, [3, 4]);
        assert_eq!(clone.latency_ns, [3, 4]);
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
