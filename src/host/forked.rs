//! Tests: readers in the child of a fork, where whoever held a lock is not there to let it go.

use super::engine::{Engine, Options, Remaining};
use crate::config::Config;
use std::sync::Barrier;
use std::time::Duration;

/// Runs `child` in a child process, which a timer kills; true: it came to its end.
fn in_child(child: impl FnOnce()) -> bool {
    // SAFETY: the child takes no lock but the memory allocator's, which the C library makes good after a fork, and
    // ends by `_exit`, so that nothing of the parent's is destroyed there.
    unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(20);
                child();
                libc::_exit(0)
            }
            pid => {
                let mut status = -1;
                assert!(pid > 0 && libc::waitpid(pid, &mut status, 0) == pid);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

#[test]
fn a_reader_in_the_child_of_a_fork_takes_no_lock() {
    for preempt in ["full", "none"] {
        let config = Config::new()
            .with("nr_cpus", 1)
            .and_then(|config| config.with("preempt", preempt))
            .expect("a good configuration");
        let engine = Engine::new(&config, &Options::default()).expect("an engine");
        let [reading, mut idle, gone] = [(); 3].map(|()| engine.register().unwrap());
        // The parent's own are dropped when nobody holds the locks any more.
        let mut sections = Some((reading.read_lock(), engine.read_lock().unwrap()));
        let mut gone = Some(gone);
        let shared = engine.shared();
        for slot in shared.slots.made() {
            slot.words.mark();
        }
        let (hold, held) = (Barrier::new(2), Barrier::new(2));
        let (hold, held) = (&hold, &held);
        let ended = std::thread::scope(|scope| {
            scope.spawn(move || {
                let _run = shared.vcpus.get(0).run.lock();
                let _states: Vec<_> = shared.slots.made().map(|slot| slot.state.lock()).collect();
                held.wait();
                hold.wait();
            });
            held.wait();
            let ended = in_child(|| {
                sections = None;
                drop(idle.read_lock());
                idle.quiescent();
                idle.outside(|| ());
                assert!(engine.read_lock().is_err());
                engine.detach();
                gone = None;
                engine.close(Remaining::Run, Duration::from_secs(10)).unwrap();
            });
            hold.wait();
            ended
        });
        assert!(ended, "preempt={preempt}: the child hangs");
    }
}
