//! What the operating system charges: nobody who needs it can be faster.

use super::host::{membarrier, pin, wall_ns};
use super::report::{Better, Limit, Row, Sample};
use super::rounds::{Slice, interleave, per_call, per_call_beside};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const SLICE_NS: u64 = 20_000_000;

fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the word lives as long as the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives as long as the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// Two threads hand a word to and fro by futexes; half a round trip, ns.
fn hand_off(cores: [usize; 2]) -> Sample {
    const STOP: u32 = 2;
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(&[cores[1]]);
            loop {
                match word.load(Ordering::SeqCst) {
                    0 => futex_wait(&word, 0),
                    1 => {
                        word.store(0, Ordering::SeqCst);
                        futex_wake(&word);
                        // Answered; wait for the next one.
                        futex_wait(&word, 0);
                    }
                    _ => return,
                }
            }
        });
        pin(&[cores[0]]);
        let mut sample = per_call(SLICE_NS, 1, || {
            word.store(1, Ordering::SeqCst);
            futex_wake(&word);
            while word.load(Ordering::SeqCst) == 1 {
                futex_wait(&word, 1);
            }
        });
        word.store(STOP, Ordering::SeqCst);
        futex_wake(&word);
        sample.value /= 2.0;
        for (_, value) in &mut sample.beside {
            *value /= 2.0;
        }
        sample
    })
}

/// While a thread runs on this core; `body` gets its progress.
pub fn while_running<T>(core: usize, body: impl FnOnce(&AtomicU64) -> T) -> T {
    let (running, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(&[core]);
            while !stop.load(Ordering::Relaxed) {
                running.fetch_add(1, Ordering::Relaxed);
                std::hint::spin_loop();
            }
        });
        while running.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let result = body(&running);
        stop.store(true, Ordering::SeqCst);
        result
    })
}

pub fn row(rounds: usize, cores: &[usize]) -> Row {
    let near = cores[0];
    let mut slices: Vec<(&'static str, Slice<'_>)> = vec![(
        "membarrier, alone",
        Box::new(move || {
            pin(&[near]);
            per_call(SLICE_NS, 16, || assert!(membarrier()))
        }),
    )];
    if let Some(&far) = cores.get(1) {
        slices.push((
            "membarrier, one running",
            Box::new(move || {
                pin(&[near]);
                while_running(far, |progress| {
                    per_call_beside(SLICE_NS, progress, || assert!(membarrier()))
                })
            }),
        ));
        slices.push(("futex hand-off", Box::new(move || hand_off([near, far]))));
    }
    slices.push(("context switch", Box::new(move || hand_off([near, near]))));
    slices.push((
        "clock read",
        Box::new(|| {
            per_call(SLICE_NS / 4, 64, || {
                std::hint::black_box(wall_ns());
            })
        }),
    ));
    Row {
        key: "floor",
        title: "floor",
        configuration: "one private expedited membarrier alone, and with one thread of the process running on the other \
                        core; hand-off between two threads by futex on two cores; the same on one core (a switch and \
                        the system calls around it); clock_gettime"
            .to_owned(),
        unit: "ns",
        better: Better::Lower,
        competitors: interleave(rounds, slices),
        must: Limit::None,
        goal: Limit::None,
        conditions: Vec::new(),
        skipped: None,
        notes: Vec::new(),
    }
}
