//! What `call_rcu()` queues on the host: two words, whatever the closure.

use crate::tree::Callback;

/// A closure to be run, or memory to be freed, after a grace period.
///
/// Dropped without having been run or discarded it leaks, on purpose: only after its grace period may
/// anything in it be touched.
#[derive(Debug)]
pub(super) struct HostCb {
    data: *mut (),
    kind: &'static Kind,
}

#[derive(Debug)]
struct Kind {
    run: unsafe fn(*mut ()),
    discard: unsafe fn(*mut ()),
    func: &'static str,
}

// SAFETY: made only from `Send` values, and owned like a box of one.
unsafe impl Send for HostCb {}

impl HostCb {
    /// Runs `f`.
    pub fn closure<F: FnOnce() + Send + 'static>(f: F) -> Self {
        struct Of<F>(F);
        impl<F: FnOnce() + Send + 'static> Of<F> {
            const KIND: Kind = Kind {
                // SAFETY: `data` came from `Box::into_raw` of a box of `F` and is given up once.
                run: |data| unsafe { Box::from_raw(data.cast::<F>())() },
                // SAFETY: the same.
                discard: |data| drop(unsafe { Box::from_raw(data.cast::<F>()) }),
                func: "closure",
            };
        }
        HostCb {
            data: Box::into_raw(Box::new(f)).cast(),
            kind: &Of::<F>::KIND,
        }
    }

    /// Drops the box.
    pub fn free<T: Send + 'static>(value: Box<T>) -> Self {
        struct Of<T>(T);
        impl<T: Send + 'static> Of<T> {
            const KIND: Kind = Kind {
                // SAFETY: `data` came from `Box::into_raw` of a box of `T` and is given up once.
                run: |data| drop(unsafe { Box::from_raw(data.cast::<T>()) }),
                // SAFETY: the same.
                discard: |data| drop(unsafe { Box::from_raw(data.cast::<T>()) }),
                func: "kfree_rcu",
            };
        }
        HostCb {
            data: Box::into_raw(value).cast(),
            kind: &Of::<T>::KIND,
        }
    }

    /// After its grace period.
    pub fn run(self) {
        // SAFETY: `self` owns `data`, and this consumes it.
        unsafe { (self.kind.run)(self.data) }
    }

    /// After its grace period as well, but nobody wants the call any more.
    pub fn discard(self) {
        // SAFETY: `self` owns `data`, and this consumes it.
        unsafe { (self.kind.discard)(self.data) }
    }
}

impl Callback for HostCb {
    fn rhp(&self) -> u64 {
        self.data.addr() as u64
    }

    fn func(&self) -> &'static str {
        self.kind.func
    }
}
