//! The line from which all threads of a run start together, and the run's clock.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
enum State {
    Waiting,
    Open(Instant),
    Shut,
}

/// Threads wait here until everybody is ready, or until somebody could not start.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<(usize, State)>,
    changed: Condvar,
}

impl Gate {
    pub fn new() -> Self {
        Gate {
            state: Mutex::new((0, State::Waiting)),
            changed: Condvar::new(),
        }
    }

    /// A thread is ready; returns when the gate opens. `None`: it was shut.
    pub fn pass(&self) -> Option<Clock> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            match state.1 {
                State::Waiting => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                State::Open(start) => return Some(Clock { start }),
                State::Shut => return None,
            }
        }
    }

    /// Opens the gate as soon as `threads` are ready, unless it was shut or `cancelled` says so meanwhile.
    pub fn open(&self, threads: usize, cancelled: impl Fn() -> bool) -> Option<Clock> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match state.1 {
                State::Shut => return None,
                _ if cancelled() => {
                    state.1 = State::Shut;
                    self.changed.notify_all();
                    return None;
                }
                _ if state.0 >= threads => break,
                _ => {
                    let wait = self.changed.wait_timeout(state, Duration::from_millis(5));
                    state = wait.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        let start = Instant::now();
        state.1 = State::Open(start);
        self.changed.notify_all();
        Some(Clock { start })
    }

    /// Nobody starts any more.
    pub fn shut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waiting = state.1 {
            state.1 = State::Shut;
        }
        self.changed.notify_all();
    }
}

/// Time since the start of the run, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub start: Instant,
}

impl Clock {
    /// Now, ns.
    pub fn now(self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_shut_gate() {
        let gate = Gate::new();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass().is_none())).collect();
            gate.shut();
            assert!(waiting.into_iter().all(|thread| thread.join().expect("no panic")));
        });
        assert!(gate.open(0, || false).is_none());
    }

    #[test]
    fn all_pass_an_open_gate_with_one_clock() {
        let gate = Gate::new();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass())).collect();
            let clock = gate.open(3, || false).expect("opens");
            for thread in waiting {
                assert_eq!(
                    thread.join().expect("no panic").map(|c| c.start),
                    Some(clock.start)
                );
            }
        });
    }
}
