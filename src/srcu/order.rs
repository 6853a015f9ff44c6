//! Why it is enough: the memory-ordering argument.
//!
//! What a grace period promises. **P1**: a reader that began before the grace period has done all of its section before
//! anything that comes after the grace period. **P2**: a reader that the grace period did not wait for sees whatever
//! the updater stored before it asked.
//!
//! | name | where | what it separates |
//! |---|---|---|
//! | B | [`Srcu::read_enter`](super::Srcu::read_enter) | the count of the lock, and the section behind it |
//! | C | [`Srcu::read_unlock`](super::Srcu::read_unlock) | the section, and the count of the unlock behind it |
//! | A | the zero test | the sum of unlocks, and the sum of locks behind it |
//! | E | the flip | the sums of the first scan, and the new index behind it |
//! | D | the flip | the new index, and the sums of the second scan behind it |
//! | request | numbering a request, the lock of the CPU's list | the updater's stores, and the number |
//! | poll | a cookie that is done, a waiter that goes on | the number, and what the updater does then |
//!
//! All are full fences; B and C are none with fast and light readers. The counters themselves are relaxed.
//!
//! 1. **An unlock that is counted has its lock counted.** Say the sum of unlocks saw the unlock of R. R counted its lock,
//!    then passed C, then counted its unlock; the zero test saw that, passed A, and summed the locks. C and A order the
//!    lock before that sum. So the locks summed are never fewer than the unlocks summed belong to, and equal sums say
//!    that each lock counted has its unlock counted. The other way round it would not hold: between a sum of locks and a
//!    later sum of unlocks somebody comes and goes, and his unlock stands in for the missing one of an old reader.
//! 2. **P1.** The lock of R was counted and the sums were equal, so its unlock was counted: section, C, unlock, sum, A, and
//!    then whatever follows the grace period.
//! 3. **P2.** The lock of R was not counted. The updater stored its data, passed A, and looked at R's counter; R counted,
//!    passed B, and looked at the data. These are two threads that each store and then look at the other's store, with a
//!    full fence in between: at least one of them sees the other. The updater did not, so R did.
//! 4. **Both indices.** R fetches the index, and counts itself later, perhaps many flips later. So a reader from before
//!    the grace period can be on either index, and each has to be seen quiescent once: SCAN1 looks at the one that
//!    newcomers do not use, then comes the flip, and SCAN2 looks at the other. Leave either scan out and a reader on that
//!    index is missed; a test does so, and its oracle notices.
//! 5. **Nobody is kept waiting for ever.** Each scan looks at the index that newcomers have stopped using.
//! 6. **E and D.** That the first scan succeeded is what lets the flip happen, and a store that depends on a load's
//!    outcome is not seen before it: E says again what control flow says already. (C11 does not count that dependency;
//!    but in either order of the two nothing goes wrong: the flip only decides which pair newcomers count on, and the
//!    argument above holds for any choice.) D has a reader that left after the scan began find the new index sooner.
//!    Without it the second scan may have to be repeated, and nothing else.
//! 7. **Late counts.** After a flip and D, each task may count on the old index once, since it had fetched it, and once
//!    more where its fetch was made ahead of B and C. That is less than tasks plus CPUs, far from the range of a counter.
//! 8. **Fast and light readers.** B and C are nothing, and A is a whole grace period X of RCU. The count of the lock lies in
//!    an RCU section Y, the count of the unlock in an RCU section Z. Either Y ends before X does, and its count is seen
//!    by the sum of locks; or Y begins after X began, and then it, and all that its thread does later, sees the updater's
//!    earlier stores: P2. An unlock that was counted before X lies in a Z that began before X ends and so has ended with
//!    it, and what came before Z, the section, too: P1. The price is two RCU grace periods, one a zero test.
//! 9. **Start.** A number is taken behind a full barrier, and never accepts a grace period that is under way. The barrier
//!    is that of the lock of the CPU's list, or of [`get_state`](super::Srcu::get_state). The number says idle or the scan
//!    that runs; so the grace period that satisfies it has both of its scans after it: the work item reads the demand
//!    under the domain's lock, where the request left it.
//! 10. **End.** The number's end is stored under the domain's lock; callback work takes its CPU's lock and reads it. A
//!     waiter released by a callback, and a poller, pass a full fence of their own, since their CPU may have taken part in
//!     nothing.
//!
//! `tests/loom/srcu.rs` checks this with each of the fences removed. E and D survive there, as they have to.
