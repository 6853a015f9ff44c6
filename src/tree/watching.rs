//! Context tracking: whether RCU watches a CPU, as one word per CPU.
//!
//! The low two bits are the context (kernel 0, idle 1, user 2, guest 3); above them counts the
//! watching counter, whose lowest bit (the word's bit 2) is set while RCU watches. An idle CPU, or
//! one in user mode with user context tracking, is in an *extended quiescent state*: the bit is
//! clear. Any passage through such a state changes the counter, which is how a scan sees it later.

use crate::sync::{AtomicU64, Ordering, fence_after_rmw, order};

/// One step of the watching counter.
const WATCHING: u64 = 4;
/// Context of an idle CPU.
const CONTEXT_IDLE: u64 = 1;
/// Context bits.
const CONTEXT_MASK: u64 = 3;

/// A reading of a CPU's context-tracking word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSnap(pub u64);

impl WatchSnap {
    /// In the kernel, as at boot.
    pub const WATCHING: WatchSnap = WatchSnap(WATCHING);
    /// In an extended quiescent state.
    pub const IDLE: WatchSnap = WatchSnap(CONTEXT_IDLE);

    /// The CPU was in an extended quiescent state at that moment.
    pub fn in_eqs(self) -> bool {
        self.0 & WATCHING == 0
    }

    /// Between two readings the CPU passed an extended quiescent state, given that it was not in one
    /// at the first.
    pub fn passed_eqs_since(self, earlier: WatchSnap) -> bool {
        self.0 & !CONTEXT_MASK != earlier.0 & !CONTEXT_MASK
    }
}

/// Context tracking of one CPU. Only that CPU changes it; anybody may read it.
#[derive(Debug)]
pub struct ContextTracking {
    state: AtomicU64,
    /// Interrupts in progress that came out of an extended quiescent state; nested ones count too.
    irq_nesting: AtomicU64,
}

impl Default for ContextTracking {
    /// Watching, in the kernel.
    fn default() -> Self {
        ContextTracking {
            state: AtomicU64::new(WATCHING),
            irq_nesting: AtomicU64::new(0),
        }
    }
}

impl ContextTracking {
    // Every change is a full barrier: what readers did before an entry is ordered before the counter
    // change (by its release), and the change of an exit before what readers do next (by the fence). The
    // partner is the barrier of whoever reads the word (node lock, or the world's `watching`).
    fn add(&self, amount: u64) {
        self.state.fetch_add(amount, order("watching", Ordering::SeqCst));
        fence_after_rmw("watching again");
    }

    /// Reads the word.
    pub fn snap(&self) -> WatchSnap {
        WatchSnap(self.state.load(order("watching look", Ordering::SeqCst)))
    }

    /// Kernel to idle: RCU stops watching.
    pub fn idle_enter(&self) {
        debug_assert!(!self.snap().in_eqs());
        self.add(WATCHING + CONTEXT_IDLE);
        debug_assert!(self.snap().in_eqs());
    }

    /// Idle to kernel: RCU watches again.
    pub fn idle_exit(&self) {
        debug_assert!(self.snap().in_eqs());
        self.add(WATCHING - CONTEXT_IDLE);
    }

    /// Passes through an extended quiescent state for a moment.
    pub fn momentary_eqs(&self) {
        self.add(2 * WATCHING);
    }

    /// An interrupt arrives. True when RCU was not watching and now is.
    pub fn irq_enter(&self) -> bool {
        let nesting = self.irq_nesting.load(Ordering::Relaxed);
        let leaves_eqs = nesting == 0 && self.snap().in_eqs();
        if leaves_eqs || nesting > 0 {
            self.irq_nesting.store(nesting + 1, Ordering::Relaxed);
        }
        if leaves_eqs {
            self.add(WATCHING);
        }
        leaves_eqs
    }

    /// That interrupt is over. True when RCU stops watching again.
    pub fn irq_exit(&self) -> bool {
        let nesting = self.irq_nesting.load(Ordering::Relaxed);
        if nesting > 0 {
            self.irq_nesting.store(nesting - 1, Ordering::Relaxed);
        }
        if nesting == 1 {
            self.add(WATCHING);
        }
        nesting == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_through_idle_shows_and_an_interrupt_in_the_kernel_does_not() {
        let ct = ContextTracking::default();
        let kernel = ct.snap();
        assert!(!kernel.in_eqs());
        assert!(!ct.irq_enter());
        assert!(!ct.irq_exit());
        assert_eq!(ct.snap(), kernel);
        ct.idle_enter();
        assert!(ct.snap().in_eqs());
        assert!(ct.irq_enter());
        assert!(!ct.snap().in_eqs(), "RCU watches interrupt handlers out of idle");
        assert!(!ct.irq_enter(), "a nested interrupt changes nothing");
        assert!(!ct.irq_exit());
        assert!(!ct.snap().in_eqs());
        assert!(ct.irq_exit());
        assert!(ct.snap().in_eqs());
        ct.idle_exit();
        assert!(!ct.snap().in_eqs());
        assert!(ct.snap().passed_eqs_since(kernel));
        assert_eq!(ct.snap().0 & CONTEXT_MASK, 0);
    }
}
