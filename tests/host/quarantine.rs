//! Memory that shows when it was freed, for as long as the process lasts: what a [`Canary`] lay in is poisoned and
//! never handed out again, so that nothing living can take the place of what a reader must not see any more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

const ALIVE: u64 = 0x0a11_fe00;
const DROPPED: u64 = 0xdead;
const FREED: u64 = 0xf4ee_df4e_edf4_eedf;
/// Words of a canary.
const WORDS: usize = 64;

/// Says whether it is alive. Nothing else in this process is aligned like this.
#[repr(align(512))]
pub struct Canary([AtomicU64; WORDS]);

impl Canary {
    pub fn new() -> Self {
        Canary(std::array::from_fn(|_| AtomicU64::new(ALIVE)))
    }

    /// The first word, and one that every look takes another of.
    pub fn check(&self, look: u64) {
        for word in [0, look as usize % WORDS] {
            let word = self.0[word].load(Ordering::Relaxed);
            assert_eq!(word, ALIVE, "read after it was freed: {word:#x}");
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.0[0].store(DROPPED, Ordering::Relaxed);
    }
}

struct Quarantine;

// SAFETY: allocation is the system's. What is not given back to it is only written to.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout != Layout::new::<Canary>() {
            // SAFETY: the caller's promises are passed on.
            return unsafe { System.dealloc(memory, layout) };
        }
        for word in 0..WORDS {
            // SAFETY: inside the block, which is nobody's; a reader that should not be there reads atomically.
            unsafe { (*memory.cast::<AtomicU64>().add(word)).store(FREED, Ordering::Relaxed) };
        }
    }
}

#[global_allocator]
static ALLOCATOR: Quarantine = Quarantine;

#[test]
fn memory_of_a_canary_is_not_handed_out_again() {
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let canary = Box::new(Canary::new());
        canary.check(1);
        assert!(seen.insert(std::ptr::from_ref(&*canary).addr()));
    }
}
