//! What `sync` is made of in model-checker builds, and the switches of their mutants.
//!
//! A mutant is one fence dropped, one order relaxed, or one step done wrongly. All threads of a model run on the
//! thread of the system that checks it, so a thread-local switch is one switch per model.

#[cfg(treercu_loom)]
use loom as checker;
#[cfg(treercu_shuttle)]
use shuttle as checker;

pub use checker::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use checker::thread::yield_now;
pub use checker::thread_local;
pub use std::sync::atomic::Ordering;

use std::cell::Cell;
use std::mem::ManuallyDrop;

std::thread_local! {
    static MUTANT: Cell<&'static str> = const { Cell::new("") };
    static MET: Cell<bool> = const { Cell::new(false) };
    static MEMBARRIER: Cell<bool> = const { Cell::new(true) };
    static SPINS: Cell<u32> = const { Cell::new(2) };
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// Chooses the mutant of the models that this thread checks from here on; "": none. Names joined by `+` are done
/// wrongly together: where one guard stands behind another, both have to go.
pub fn set_mutant(step: &'static str) {
    MUTANT.set(step);
    MET.set(false);
}

/// Whether the mutant was met at all since it was chosen: one that no model executes proves nothing.
pub fn mutant_was_met() -> bool {
    MET.get()
}

/// Full fences that are not in the argument for readers but happen to be on its paths, so that they can stand in for
/// one that is. `others` drops all of them: what is left has to do alone, and then each of it has to be there.
pub const OTHERS: &[&str] = &[
    "lock",
    "watching again",
    "get_state",
    "poll_state",
    "poll_state before",
    "expedited begin",
    "F2 start",
    "F2 switch",
];

/// Whether this step is to be done wrongly.
pub fn mutated(step: &'static str) -> bool {
    let is = |name: &str| name == step || (name == "others" && OTHERS.contains(&step));
    let it_is = MUTANT.get().split('+').any(is);
    if it_is {
        MET.set(true);
    }
    it_is
}

/// Whether the models have `membarrier`, or readers that execute full fences themselves.
pub fn set_membarrier(there: bool) {
    MEMBARRIER.set(there);
}

/// As [`set_membarrier`] says.
pub fn has_membarrier() -> bool {
    MEMBARRIER.get()
}

/// How often a caller that drives grace periods looks at the role before it sleeps: few, and 0 leaves the last try.
pub fn set_spins(spins: u32) {
    SPINS.set(spins);
}

/// As [`set_spins`] says.
pub fn spins() -> u32 {
    SPINS.get()
}

#[cfg(treercu_loom)]
loom::lazy_static! {
    /// Where light and heavy fences meet, one before the other: what came before the first is seen after the second.
    static ref MEETING: AtomicUsize = AtomicUsize::new(0);
}

/// A light and a heavy fence are a pair; neither pairs with an ordinary fence, which a light fence does not know.
/// Hence not `fence(SeqCst)` but a read-modify-write of one word that only these two touch. It orders two light
/// fences as well, which real ones do not.
fn meet() {
    #[cfg(treercu_loom)]
    MEETING.fetch_add(1, Ordering::AcqRel);
}

/// A reader's half of the asymmetric pair, where the model has `membarrier`; else nothing.
pub fn light_fence(step: &'static str) {
    if MEMBARRIER.get() && !mutated(step) {
        meet();
    }
}

/// The other half.
pub fn heavy_fence(step: &'static str) {
    if MEMBARRIER.get() && !mutated(step) {
        meet();
    }
}

/// The models' clock, ns: it stands still unless a model moves it.
pub fn now_ns() -> u64 {
    NOW_NS.get()
}

/// Sets the models' clock.
pub fn set_now_ns(ns: u64) {
    NOW_NS.set(ns);
}

/// The checker's reference count. When a model has failed its execution is gone, and counts are leaked.
#[derive(Debug)]
pub struct ThinArc<T>(ManuallyDrop<checker::sync::Arc<T>>);

impl<T> ThinArc<T> {
    /// One count.
    pub fn new(value: T) -> Self {
        ThinArc(ManuallyDrop::new(checker::sync::Arc::new(value)))
    }

    fn into_inner(self) -> checker::sync::Arc<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the count is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    /// The value, if this is the only count.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        checker::sync::Arc::get_mut(&mut this.0)
    }

    /// Gives the count up to a pointer.
    pub fn into_raw(this: Self) -> *const T {
        checker::sync::Arc::into_raw(this.into_inner())
    }

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// `pointer` came from [`ThinArc::into_raw`], and is taken back once.
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        // SAFETY: as the caller promises.
        ThinArc(ManuallyDrop::new(unsafe {
            checker::sync::Arc::from_raw(pointer)
        }))
    }

    /// Counts.
    pub fn strong_count(this: &Self) -> usize {
        checker::sync::Arc::strong_count(&this.0)
    }

    /// Counts of the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        checker::sync::Arc::ptr_eq(&this.0, &other.0)
    }
}

impl<T> Clone for ThinArc<T> {
    fn clone(&self) -> Self {
        ThinArc(self.0.clone())
    }
}

impl<T> std::ops::Deref for ThinArc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for ThinArc<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped once.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}

/// The checker's lock, with the interface of the real one.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    lock: checker::sync::Mutex<T>,
    /// Held, as somebody sees it who does not wait. The checker's lock is never seen as it was a moment ago, a word of
    /// memory is.
    word: Option<AtomicBool>,
}

/// Its guard.
pub struct MutexGuard<'a, T> {
    word: Option<&'a AtomicBool>,
    guard: checker::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        Mutex {
            lock: checker::sync::Mutex::new(value),
            word: None,
        }
    }

    /// One whose holder is looked for without waiting.
    pub fn new_looked_at(value: T) -> Self {
        Mutex {
            word: Some(AtomicBool::new(false)),
            ..Mutex::new(value)
        }
    }

    fn guard<'a>(&'a self, guard: checker::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let word = self.word.as_ref();
        if let Some(word) = word {
            word.store(true, Ordering::Relaxed);
        }
        MutexGuard { word, guard }
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.lock.lock().expect("a model that failed before"))
    }

    /// Locks it if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self
            .word
            .as_ref()
            .is_some_and(|word| word.load(Ordering::Relaxed))
        {
            return None;
        }
        self.lock.try_lock().ok().map(|guard| self.guard(guard))
    }

    /// Somebody holds it, or did a moment ago.
    pub fn is_locked(&self) -> bool {
        match &self.word {
            Some(word) => word.load(Ordering::Relaxed),
            None => self.try_lock().is_none(),
        }
    }
}

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(word) = self.word
            && !std::thread::panicking()
        {
            word.store(false, Ordering::Release);
        }
    }
}

/// Where threads of a model sleep: what a futex is, with the bits of its wait.
#[derive(Debug, Default)]
pub struct Sleeper {
    asleep: checker::sync::Mutex<Asleep>,
    woken: checker::sync::Condvar,
}

#[derive(Debug, Default)]
struct Asleep {
    next: u32,
    /// Number and mark of each sleeper.
    who: Vec<(u32, u32)>,
}

impl Sleeper {
    /// Sleeps until [`Sleeper::wake`], if `still`. A model in which nobody can run any more fails: that is how a lost
    /// wake-up shows.
    ///
    /// Deadlines: under loom no time passes, so that a wake-up that comes too late is a lost one. Under shuttle
    /// somebody moves the clock.
    pub fn sleep_if(&self, still: impl Fn() -> bool, mark: u32, _deadline: Option<u64>) {
        let mut asleep = self.asleep();
        if !still() {
            return;
        }
        let me = asleep.next;
        asleep.next += 1;
        asleep.who.push((me, mark));
        let sleeps = |asleep: &Asleep| asleep.who.iter().any(|(who, _)| *who == me);
        #[cfg(treercu_shuttle)]
        if let Some(at) = _deadline {
            while sleeps(&asleep) && now_ns() < at {
                drop(asleep);
                yield_now();
                asleep = self.asleep();
            }
            asleep.who.retain(|(who, _)| *who != me);
            return;
        }
        while sleeps(&asleep) {
            asleep = self.woken.wait(asleep).expect("a model that failed before");
        }
    }

    fn asleep(&self) -> checker::sync::MutexGuard<'_, Asleep> {
        self.asleep.lock().expect("a model that failed before")
    }

    /// Wakes those who sleep under one of these marks.
    pub fn wake(&self, marks: u32) {
        self.asleep().who.retain(|(_, mark)| mark & marks == 0);
        self.woken.notify_all();
    }
}
