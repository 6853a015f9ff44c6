//! Threads that use an engine: registered ones, by a [`Handle`] of their own, and all others, by an attachment
//! that the thread keeps for itself.

use super::callback::HostCb;
use super::calls::{GiveUp, Kicker, Patience, Served};
use super::engine::{Engine, Shared};
use super::slot::Slot;
use super::softirq::SharedRef;
use crate::error::Result;
use crate::sync::{AtomicBool, compiler_barrier};
use crate::tree::FullCookie;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A registered thread: the fastest way to read, and one place among an engine's virtual CPUs.
///
/// Guards borrow the handle, and calls that wait need it mutably, so that waiting inside a section does not
/// compile:
///
/// ```compile_fail,E0502
/// # use treercu::{config::Config, host::{Engine, Options}};
/// # let engine = Engine::new(&Config::new(), &Options::default()).unwrap();
/// let mut handle = engine.register().unwrap();
/// let guard = handle.read_lock();
/// handle.synchronize().unwrap(); // would wait for `guard`
/// drop(guard);
/// ```
///
/// That holds for this handle only. A thread that waits by another way, through the engine or through a second handle,
/// while a guard of this one is open waits for itself for ever, as in the kernel; nothing detects it but the stall
/// report ([`Engine::stalls`]), since the fast path does not say which thread is inside. The other way round it is
/// refused: sections of [`Engine::read_lock`] are counted by the thread, and every call that waits looks there.
pub struct Handle {
    slot: NonNull<Slot>,
    /// Sections have words: preemptible.
    preemptible: bool,
    shared: SharedRef,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the slot lives as long as `shared`; everything in it that others touch is atomic or locked. A guard
// borrows the handle, so it cannot be moved to another thread inside a section.
unsafe impl Send for Handle {}

/// A read-side section of a [`Handle`]. Not `Send`: it ends on the thread that began it.
///
/// ```compile_fail,E0277
/// # use treercu::{config::Config, host::{Engine, Options}};
/// # let engine = Engine::new(&Config::new(), &Options::default()).unwrap();
/// let handle = engine.register().unwrap();
/// let guard = handle.read_lock();
/// std::thread::scope(|scope| { scope.spawn(move || drop(guard)); });
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct ReadGuard<'h> {
    handle: &'h Handle,
    _not_send: PhantomData<*mut ()>,
}

/// A read-side section of a thread that has no [`Handle`].
#[must_use = "the section ends when the guard is dropped"]
pub struct ThreadGuard<'e> {
    slot: NonNull<Slot>,
    shared: &'e Shared,
    _not_send: PhantomData<*mut ()>,
}

mod sealed {
    pub trait Sealed {
        fn engine_id(&self) -> u64;
    }
}

/// A proof that a read-side section is open.
pub trait Section: sealed::Sealed {}

impl sealed::Sealed for ReadGuard<'_> {
    #[inline(always)]
    fn engine_id(&self) -> u64 {
        self.handle.shared.id
    }
}
impl Section for ReadGuard<'_> {}
impl sealed::Sealed for ThreadGuard<'_> {
    #[inline(always)]
    fn engine_id(&self) -> u64 {
        self.shared.id
    }
}
impl Section for ThreadGuard<'_> {}

pub(super) fn section_of(section: &impl Section) -> u64 {
    section.engine_id()
}

impl Handle {
    pub(super) fn attach(shared: &SharedRef, cpu: Option<u32>) -> Result<Handle> {
        let slot = NonNull::from(shared.attach(cpu)?);
        Ok(Handle {
            slot,
            preemptible: shared.rcu.is_preemptible(),
            shared: shared.clone(),
            _not_sync: PhantomData,
        })
    }

    pub(super) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> &Slot {
        // SAFETY: slots live as long as `shared`, which this handle keeps.
        unsafe { self.slot.as_ref() }
    }

    /// Number of the engine.
    pub fn engine_id(&self) -> u64 {
        self.shared.id
    }

    /// The virtual CPU it is attached to; hotplug may change it.
    pub fn cpu(&self) -> u32 {
        self.slot().cpu()
    }

    /// Opens a read-side section (`rcu_read_lock()`); sections nest.
    ///
    /// `preempt=full|lazy`: two plain stores and two loads a section. `preempt=none|voluntary`: nothing at all,
    /// but the thread has to call [`Handle::quiescent`] every now and then, or block in the engine.
    #[inline(always)]
    pub fn read_lock(&self) -> ReadGuard<'_> {
        if self.preemptible {
            if self.slot().words.enter() {
                self.shared.enter_marked(self.slot());
            }
        } else {
            compiler_barrier();
        }
        ReadGuard {
            handle: self,
            _not_send: PhantomData,
        }
    }

    /// Passes a quiescent state (`cond_resched()`). Needed with `preempt=none|voluntary` only; one load unless a
    /// grace period waits for this thread.
    #[inline(always)]
    pub fn quiescent(&mut self) {
        if !self.preemptible && self.slot().words.is_marked() {
            self.shared.quiescent_slow(self.slot());
        }
    }

    /// Runs `f` while no grace period waits for this thread (`preempt=none|voluntary`): for sleeps, system calls
    /// and long work that reads nothing. Preemptible threads need it not: outside sections nobody waits for them.
    pub fn outside<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.shared.outside(self.slot(), f)
    }

    /// `synchronize_rcu()`: waits until every section that is open now has ended.
    pub fn synchronize(&mut self) -> Result<Served> {
        let served = self.shared.synchronize(self.slot(), Patience(None))?;
        Ok(served.expect("nothing to give up for"))
    }

    /// The same, until `cancel` is set: `None` then. Who sets it calls [`Engine::kick_waiters`] afterwards.
    pub fn synchronize_cancellable(&mut self, cancel: &AtomicBool) -> Result<Option<Served>> {
        self.shared.synchronize(self.slot(), Patience(Some(cancel)))
    }

    /// `synchronize_rcu_expedited()`: the same without waiting for anybody's tick or turn; the caller drives it.
    pub fn synchronize_expedited(&mut self) -> Result<Served> {
        let served = self.shared.synchronize_expedited(self.slot(), Patience(None))?;
        Ok(served.expect("nothing to give up for"))
    }

    /// The same, until `cancel` is set: `None` then, unless others rely on this caller, who goes on for them.
    pub fn synchronize_expedited_cancellable(&mut self, cancel: &AtomicBool) -> Result<Option<Served>> {
        self.shared
            .synchronize_expedited(self.slot(), Patience(Some(cancel)))
    }

    /// The same, until there is a reason to give up: `None` then, unless others rely on this caller.
    pub fn synchronize_expedited_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<Served>> {
        self.shared
            .synchronize_expedited(self.slot(), Patience(Some(reason)))
    }

    /// The same, until there is a reason to give up: `None` then.
    pub fn synchronize_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<Served>> {
        self.shared.synchronize(self.slot(), Patience(Some(reason)))
    }

    /// `rcu_barrier()`: waits until every callback queued before has been invoked.
    pub fn barrier(&mut self) -> Result<()> {
        self.shared.barrier(self.slot(), Patience(None)).map(drop)
    }

    /// The same, until `cancel` is set: `None` then.
    pub fn barrier_cancellable(&mut self, cancel: &AtomicBool) -> Result<Option<()>> {
        self.shared.barrier(self.slot(), Patience(Some(cancel)))
    }

    /// The same, until there is a reason to give up: `None` then.
    pub fn barrier_unless(&mut self, reason: &dyn GiveUp) -> Result<Option<()>> {
        self.shared.barrier(self.slot(), Patience(Some(reason)))
    }

    /// Wakes this thread out of a call that blocks, so that it looks whether to give up.
    pub fn kicker(&self) -> Kicker {
        Kicker::new(&self.shared, self.slot())
    }

    /// `call_rcu()`: has `f` called on an engine thread after a grace period. `f` must not wait for grace periods.
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.shared.check("call")?;
        self.shared.call(self.slot(), HostCb::closure(f));
        Ok(())
    }

    /// `call_rcu_hurry()`: the same, never delayed to save power.
    pub fn call_hurry(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.call(f)
    }

    /// `kfree_rcu()`: drops the box after a grace period; no allocation.
    pub fn defer_drop<T: Send + 'static>(&self, value: Box<T>) -> Result<()> {
        self.shared.check("defer_drop")?;
        self.shared.call(self.slot(), HostCb::free(value));
        Ok(())
    }

    /// `start_poll_synchronize_rcu()`: a cookie, and a request for the grace period that it needs.
    ///
    /// As in the kernel, normal and expedited grace periods share the number behind this cookie, and those that overlap
    /// add one number between them. So the requested grace period may have none of its own, where an expedited one was
    /// in progress and ended their number first: the cookie then comes true with one grace period more, of either
    /// kind, which nobody has requested. Where others make expedited calls, take
    /// [`start_poll_full`](Self::start_poll_full), which always comes true by itself.
    pub fn start_poll(&self) -> Result<u64> {
        self.shared.start_poll(self.slot())
    }

    /// `start_poll_synchronize_rcu_full()`: the same for a cookie that normal and expedited grace periods make true.
    pub fn start_poll_full(&self) -> Result<FullCookie> {
        self.shared.start_poll_full(self.slot())
    }

    /// `get_state_synchronize_rcu()`.
    pub fn get_state(&self) -> u64 {
        self.shared.rcu.get_state()
    }

    /// `get_state_synchronize_rcu_full()`.
    pub fn get_state_full(&self) -> FullCookie {
        self.shared.rcu.get_state_full()
    }

    /// `poll_state_synchronize_rcu()`: the grace period that this cookie needs is over.
    pub fn poll_state(&self, cookie: u64) -> bool {
        self.shared.rcu.poll_state(cookie)
    }

    /// `poll_state_synchronize_rcu_full()`.
    pub fn poll_state_full(&self, cookie: FullCookie) -> bool {
        self.shared.rcu.poll_state_full(cookie)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        #[cfg(any(treercu_loom, treercu_shuttle))]
        if std::thread::panicking() {
            return; // The model has failed, and its execution is gone.
        }
        // In the child of a fork somebody who is not here may hold the engine's locks.
        if !self.shared.is_forked() {
            self.shared.detach(self.slot());
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle(engine {}, cpu {})", self.shared.id, self.cpu())
    }
}

impl Drop for ReadGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(any(treercu_loom, treercu_shuttle))]
        if std::thread::panicking() {
            return; // The model has failed, and its execution is gone.
        }
        if self.handle.preemptible {
            if self.handle.slot().words.leave() {
                self.handle.shared.left(self.handle.slot());
            }
        } else {
            compiler_barrier();
        }
    }
}

impl Drop for ThreadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: slots live as long as `shared`.
        let slot = unsafe { self.slot.as_ref() };
        if slot.words.leave() {
            self.shared.left(slot);
        }
    }
}

/// Attachments of one thread, one for each engine it has used.
#[derive(Default)]
struct Attachments {
    list: RefCell<Vec<Handle>>,
}

thread_local! {
    static ATTACHMENTS: Attachments = Attachments::default();
    /// The engine used last, and its slot: valid while the attachment is in the list.
    static LAST: Cell<(u64, *const Slot)> = const { Cell::new((0, std::ptr::null())) };
}

/// The calling thread's slot in this engine.
#[inline]
fn slot_of(shared: &SharedRef) -> Result<NonNull<Slot>> {
    let (id, slot) = LAST.get();
    match NonNull::new(slot.cast_mut()) {
        Some(slot) if id == shared.id => Ok(slot),
        _ => find_slot(shared),
    }
}

#[cold]
fn find_slot(shared: &SharedRef) -> Result<NonNull<Slot>> {
    let found = ATTACHMENTS.try_with(|attachments| {
        let mut list = attachments.list.borrow_mut();
        if let Some(handle) = list.iter().find(|handle| handle.engine_id() == shared.id) {
            return Ok(handle.slot);
        }
        // Engines that are closed need no attachment any more.
        list.retain(|handle| {
            handle.shared.state() != super::engine::State::Closed || handle.slot().words.nesting() > 0
        });
        let handle = Handle::attach(shared, None)?;
        let slot = handle.slot;
        list.push(handle);
        Ok(slot)
    });
    let slot = found.unwrap_or_else(|_| {
        Err(crate::error::Error::Misuse {
            call: "attach",
            reason: "the thread is exiting and its attachments are gone".to_owned(),
            allowed: "before the thread's destructors run",
        })
    })?;
    LAST.set((shared.id, slot.as_ptr()));
    Ok(slot)
}

/// The calling thread's own attachment to this engine, if it has one.
pub(super) fn attached(shared: &Shared) -> Option<NonNull<Slot>> {
    let (id, slot) = LAST.get();
    match NonNull::new(slot.cast_mut()) {
        Some(slot) if id == shared.id => Some(slot),
        _ => ATTACHMENTS
            .try_with(|attachments| {
                let list = attachments.list.borrow();
                let found = list.iter().find(|handle| handle.engine_id() == shared.id);
                found.map(|handle| handle.slot)
            })
            .ok()
            .flatten(),
    }
}

/// Sections that the calling thread has open through its own attachment to this engine.
#[inline]
pub(super) fn own_nesting(shared: &Shared) -> u64 {
    // SAFETY: slots live as long as `shared`.
    attached(shared).map_or(0, |slot| unsafe { slot.as_ref() }.words.nesting())
}

impl Drop for Attachments {
    fn drop(&mut self) {
        let _ = LAST.try_with(|last| last.set((0, std::ptr::null())));
    }
}

/// Gives up the calling thread's own attachment to this engine, unless it is inside a section.
pub(super) fn detach_thread(engine: u64) {
    let _ = ATTACHMENTS.try_with(|attachments| {
        let mut list = attachments.list.borrow_mut();
        list.retain(|handle| handle.engine_id() != engine || handle.slot().words.nesting() > 0);
        LAST.set((0, std::ptr::null()));
    });
}

impl Engine {
    /// Registers the calling thread, on the next online virtual CPU in turn.
    pub fn register(&self) -> Result<Handle> {
        Handle::attach(self.shared(), None)
    }

    /// Registers the calling thread on this virtual CPU.
    pub fn register_on(&self, cpu: u32) -> Result<Handle> {
        Handle::attach(self.shared(), Some(cpu))
    }

    /// The calling thread's own attachment, made by its first call, given up when the thread exits.
    #[inline]
    fn local(&self) -> Result<&Slot> {
        let slot = slot_of(self.shared())?;
        // SAFETY: slots live as long as the engine's shared part, which `self` keeps.
        Ok(unsafe { slot.as_ref() })
    }

    /// Opens a read-side section (`rcu_read_lock()`); sections nest.
    ///
    /// With `preempt=none|voluntary` the thread stays attached afterwards and has to call
    /// [`Engine::quiescent`] every now and then, block in the engine, or [`Engine::detach`].
    #[inline]
    pub fn read_lock(&self) -> Result<ThreadGuard<'_>> {
        let slot = slot_of(self.shared())?;
        // SAFETY: as in `local`.
        let words = unsafe { &slot.as_ref().words };
        if words.nesting() == 0 {
            self.shared().check("read_lock")?;
        }
        if words.enter() {
            // SAFETY: as in `local`.
            self.shared().enter_marked(unsafe { slot.as_ref() });
        }
        Ok(ThreadGuard {
            slot,
            shared: self.shared(),
            _not_send: PhantomData,
        })
    }

    /// Gives up the calling thread's own attachment, unless it is inside a section. Its next call attaches anew.
    pub fn detach(&self) {
        detach_thread(self.id());
    }

    /// Sections that the calling thread has open, one inside the other.
    pub fn nesting(&self) -> u64 {
        let (id, slot) = LAST.get();
        match NonNull::new(slot.cast_mut()) {
            // SAFETY: as in `local`.
            Some(slot) if id == self.id() => unsafe { slot.as_ref() }.words.nesting(),
            _ => self.local().map_or(0, |slot| slot.words.nesting()),
        }
    }

    /// Passes a quiescent state; see [`Handle::quiescent`]. Inside a section it does nothing.
    pub fn quiescent(&self) -> Result<()> {
        let slot = self.local()?;
        if !self.shared().rcu.is_preemptible() && slot.words.is_marked() && slot.words.nesting() == 0 {
            self.shared().quiescent_slow(slot);
        }
        Ok(())
    }

    /// `synchronize_rcu()`: waits until every section that is open now has ended.
    ///
    /// Refused inside a section of the calling thread's own ([`Engine::read_lock`]), and in a callback. A section
    /// that this thread has open through a [`Handle`] is not known here: the call would wait for it for ever.
    pub fn synchronize(&self) -> Result<Served> {
        let served = self.shared().synchronize(self.local()?, Patience(None))?;
        Ok(served.expect("nothing to give up for"))
    }

    /// The same, until `cancel` is set: `None` then. Who sets it calls [`Engine::kick_waiters`] afterwards.
    pub fn synchronize_cancellable(&self, cancel: &AtomicBool) -> Result<Option<Served>> {
        self.shared().synchronize(self.local()?, Patience(Some(cancel)))
    }

    /// `synchronize_rcu_expedited()`: the same without waiting for anybody's tick or turn; the caller drives it.
    pub fn synchronize_expedited(&self) -> Result<Served> {
        let served = self
            .shared()
            .synchronize_expedited(self.local()?, Patience(None))?;
        Ok(served.expect("nothing to give up for"))
    }

    /// The same, until `cancel` is set: `None` then, unless others rely on this caller, who goes on for them.
    pub fn synchronize_expedited_cancellable(&self, cancel: &AtomicBool) -> Result<Option<Served>> {
        self.shared()
            .synchronize_expedited(self.local()?, Patience(Some(cancel)))
    }

    /// `rcu_barrier()`: waits until every callback queued before has been invoked.
    pub fn barrier(&self) -> Result<()> {
        self.shared().barrier(self.local()?, Patience(None)).map(drop)
    }

    /// The same, until `cancel` is set: `None` then.
    pub fn barrier_cancellable(&self, cancel: &AtomicBool) -> Result<Option<()>> {
        self.shared().barrier(self.local()?, Patience(Some(cancel)))
    }

    /// `call_rcu()`: has `f` called on an engine thread after a grace period. `f` must not wait for grace periods.
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.shared().check("call")?;
        self.shared().call(self.local()?, HostCb::closure(f));
        Ok(())
    }

    /// `call_rcu_hurry()`: the same, never delayed to save power.
    pub fn call_hurry(&self, f: impl FnOnce() + Send + 'static) -> Result<()> {
        self.call(f)
    }

    /// `kfree_rcu()`: drops the box after a grace period; no allocation.
    pub fn defer_drop<T: Send + 'static>(&self, value: Box<T>) -> Result<()> {
        self.shared().check("defer_drop")?;
        self.shared().call(self.local()?, HostCb::free(value));
        Ok(())
    }

    /// `start_poll_synchronize_rcu()`: a cookie, and a request for the grace period that it needs.
    ///
    /// As in the kernel, normal and expedited grace periods share the number behind this cookie, and those that overlap
    /// add one number between them. So the requested grace period may have none of its own, where an expedited one was
    /// in progress and ended their number first: the cookie then comes true with one grace period more, of either
    /// kind, which nobody has requested. Where others make expedited calls, take
    /// [`start_poll_full`](Self::start_poll_full), which always comes true by itself.
    pub fn start_poll(&self) -> Result<u64> {
        self.shared().start_poll(self.local()?)
    }

    /// `start_poll_synchronize_rcu_full()`: the same for a cookie that normal and expedited grace periods make true.
    pub fn start_poll_full(&self) -> Result<FullCookie> {
        self.shared().start_poll_full(self.local()?)
    }

    /// `get_state_synchronize_rcu()`.
    pub fn get_state(&self) -> u64 {
        self.shared().rcu.get_state()
    }

    /// `get_state_synchronize_rcu_full()`.
    pub fn get_state_full(&self) -> FullCookie {
        self.shared().rcu.get_state_full()
    }

    /// `poll_state_synchronize_rcu()`: the grace period that this cookie needs is over.
    pub fn poll_state(&self, cookie: u64) -> bool {
        self.shared().rcu.poll_state(cookie)
    }

    /// `poll_state_synchronize_rcu_full()`.
    pub fn poll_state_full(&self, cookie: FullCookie) -> bool {
        self.shared().rcu.poll_state_full(cookie)
    }
}
