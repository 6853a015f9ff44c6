//! Runs models, and counts how many executions they took.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What became of a model.
#[derive(Debug)]
pub struct Outcome {
    pub executions: u64,
    pub took: Duration,
    /// Executions in which a grace period ended, or whatever else has to be possible.
    pub hits: u64,
    pub failure: Option<String>,
}

/// A model: its name, its bound on preemptions, its body. The body calls `hit` when what it waits for happened.
#[derive(Clone, Copy)]
pub struct Model {
    pub name: &'static str,
    pub preemptions: usize,
    pub membarrier: bool,
    /// Takes so long that it is checked with `TREERCU_FULL=1` only.
    pub long: bool,
    pub body: fn(&Hits),
}

impl Model {
    pub const fn new(name: &'static str, preemptions: usize, body: fn(&Hits)) -> Model {
        Model {
            name,
            preemptions,
            membarrier: true,
            long: false,
            body,
        }
    }

    /// See the field.
    pub const fn long(mut self) -> Model {
        self.long = true;
        self
    }

    /// Readers execute full fences themselves.
    pub const fn without_membarrier(mut self) -> Model {
        self.membarrier = false;
        self
    }
}

/// Counts executions in which something happened that must be possible.
#[derive(Clone, Default)]
pub struct Hits(Arc<AtomicU64>);

impl Hits {
    pub fn hit(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything is asked for, however long it takes.
pub fn full() -> bool {
    std::env::var_os("TREERCU_FULL").is_some()
}

pub fn check(model: &Model) -> Outcome {
    silence_panics();
    let began = Instant::now();
    let executions = Arc::new(AtomicU64::new(0));
    let hits = Hits::default();
    treercu::sync::model::set_membarrier(model.membarrier);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(model.preemptions));
    builder.max_branches = 10_000;
    let result = {
        let (executions, hits, body) = (executions.clone(), hits.clone(), model.body);
        let run = move || {
            executions.fetch_add(1, Ordering::Relaxed);
            body(&hits);
        };
        catch_unwind(AssertUnwindSafe(|| {
            if builder.log {
                // This one sets a subscriber up for `LOOM_LOG`; its bounds come from the environment alone.
                loom::model(run);
            } else {
                builder.check(run);
            }
        }))
    };
    CHECKING.set(false);
    let hits = hits.0.load(Ordering::Relaxed);
    let failure = match result {
        Err(panic) => Some(text_of(&*panic)),
        Ok(()) if hits == 0 => Some("what it waits for never happens".to_owned()),
        Ok(()) => None,
    };
    Outcome {
        executions: executions.load(Ordering::Relaxed),
        took: began.elapsed(),
        hits,
        failure,
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a text".to_owned());
    text.lines().next().unwrap_or_default().to_owned()
}

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// A mutant fails by a panic, which is what is wanted: the failure is kept and printed in one line. Where `TREERCU_MODEL`
/// asks for a model it is printed in full.
fn silence_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    CHECKING.set(std::env::var_os("TREERCU_MODEL").is_none());
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CHECKING.get() {
                usual(panic);
            }
        }));
    });
}
