//! A virtual CPU: a slot of the tree whose run queue holds OS threads.
//!
//! Its *scan set* are the attached threads that may be inside a read-side section for all that anybody
//! knows. The vCPU is idle, and costs nothing, when that is empty: threads that block in the engine leave it,
//! threads that have not read for a while are put out of it, and a thread that reads again re-joins.

use super::slot::Slot;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, WorldLock, full_fence, order};
use crate::tree::watching::ContextTracking;

/// One virtual CPU.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Vcpu {
    /// Size of the scan set.
    active: AtomicU32,
    pub online: AtomicBool,
    /// Whether the grace-period kthread runs here.
    pub kthread: ContextTracking,
    pub run: WorldLock<RunQueue>,
}

/// The scan set, and who of it was asked for a quiescent state (non-preemptible readers).
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    pub entries: Vec<Entry>,
    pub normal: Asked,
    pub expedited: Asked,
}

/// A thread in the scan set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub slot: u32,
    /// It still owes the normal, and the expedited, grace period that was asked for.
    pub owes: [bool; 2],
}

/// A question put to all threads of the scan set.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Asked {
    /// The grace period.
    pub gp_seq: u64,
    /// Threads that have not answered.
    pub left: u32,
}

/// Which of the two questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal = 0,
    Expedited = 1,
}

/// Questions that were answered by the last thread to owe an answer.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Answered {
    pub normal: Option<u64>,
    pub expedited: Option<u64>,
}

impl Answered {
    pub fn any(&self) -> bool {
        self.normal.is_some() || self.expedited.is_some()
    }
}

impl RunQueue {
    pub fn asked(&mut self, kind: Kind) -> &mut Asked {
        match kind {
            Kind::Normal => &mut self.normal,
            Kind::Expedited => &mut self.expedited,
        }
    }

    /// The thread at `place` passed a quiescent state.
    pub fn answer(&mut self, place: usize) -> Answered {
        let mut answered = Answered::default();
        let [normal, expedited] = std::mem::take(&mut self.entries[place].owes);
        if normal {
            self.normal.left -= 1;
            answered.normal = (self.normal.left == 0).then_some(self.normal.gp_seq);
        }
        if expedited {
            self.expedited.left -= 1;
            answered.expedited = (self.expedited.left == 0).then_some(self.expedited.gp_seq);
        }
        answered
    }
}

impl Vcpu {
    pub fn new() -> Self {
        let vcpu = Vcpu {
            active: AtomicU32::new(0),
            online: AtomicBool::new(false),
            kthread: ContextTracking::default(),
            run: WorldLock::default(),
        };
        vcpu.kthread.idle_enter();
        vcpu
    }

    /// Size of the scan set; F2 of [`super::order`] has to come before.
    #[inline]
    pub fn active(&self) -> u32 {
        self.active.load(order("active look", Ordering::SeqCst))
    }
}

/// All vCPUs, and which of them have a scan set.
#[derive(Debug)]
pub(super) struct Vcpus {
    all: Box<[Vcpu]>,
    /// Threads in all scan sets together.
    readers: AtomicU32,
    /// vCPUs with a scan set, as a bitmap.
    busy: Bitmap,
    next: AtomicUsize,
}

impl Vcpus {
    pub fn new(nr_cpus: u32, online: u32) -> Self {
        let all: Box<[Vcpu]> = (0..nr_cpus).map(|_| Vcpu::new()).collect();
        for vcpu in &all[..online as usize] {
            vcpu.online.store(true, Ordering::Relaxed);
        }
        Vcpus {
            all,
            readers: AtomicU32::new(0),
            busy: Bitmap::new(nr_cpus),
            next: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub fn get(&self, cpu: u32) -> &Vcpu {
        &self.all[cpu as usize]
    }

    pub fn is_online(&self, cpu: u32) -> bool {
        self.get(cpu).online.load(Ordering::Relaxed)
    }

    pub fn online(&self) -> impl DoubleEndedIterator<Item = u32> {
        (0..self.all.len() as u32).filter(|&cpu| self.is_online(cpu))
    }

    /// Threads in all scan sets together; F2 of [`super::order`] has to come before.
    #[inline]
    pub fn readers(&self) -> u32 {
        self.readers.load(order("readers look", Ordering::SeqCst))
    }

    /// vCPUs with a scan set.
    pub fn busy(&self) -> impl Iterator<Item = u32> {
        self.busy.iter()
    }

    /// The next online vCPU in turn, for a thread that does not say which.
    pub fn next_in_turn(&self) -> u32 {
        loop {
            let cpu = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
            if self.is_online(cpu as u32) {
                return cpu as u32;
            }
        }
    }

    /// Puts a thread into the scan set of its vCPU. F1 of [`super::order`].
    pub fn join(&self, slot: &Slot) {
        loop {
            let cpu = slot.cpu();
            let vcpu = self.get(cpu);
            let mut run = vcpu.run.lock();
            if slot.cpu() != cpu {
                continue; // It was moved while we waited for the lock.
            }
            self.join_locked(cpu, &mut run, slot);
            drop(run);
            full_fence("F1");
            return;
        }
    }

    pub fn join_locked(&self, cpu: u32, run: &mut RunQueue, slot: &Slot) {
        slot.place.store(run.entries.len() as u32, Ordering::Relaxed);
        slot.quiet.store(0, Ordering::Relaxed);
        run.entries.push(Entry {
            slot: slot.index,
            owes: [false; 2],
        });
        self.count(cpu, run, 1);
    }

    /// Takes a thread out of the scan set; `slots` finds the one that takes its place.
    pub fn part_locked<'s>(
        &self,
        cpu: u32,
        run: &mut RunQueue,
        slot: &Slot,
        slots: impl Fn(u32) -> &'s Slot,
    ) -> Answered {
        let place = slot.place.load(Ordering::Relaxed) as usize;
        debug_assert_eq!(run.entries[place].slot, slot.index);
        let answered = run.answer(place);
        run.entries.swap_remove(place);
        if let Some(moved) = run.entries.get(place) {
            slots(moved.slot).place.store(place as u32, Ordering::Relaxed);
        }
        self.count(cpu, run, -1);
        answered
    }

    fn count(&self, cpu: u32, run: &RunQueue, change: i32) {
        let len = run.entries.len() as u32;
        self.get(cpu).active.store(len, order("active", Ordering::SeqCst));
        if change > 0 {
            self.readers.fetch_add(1, order("readers", Ordering::SeqCst));
            if len == 1 {
                self.busy.set(cpu);
            }
        } else {
            self.readers.fetch_sub(1, order("readers", Ordering::SeqCst));
            if len == 0 {
                self.busy.clear(cpu);
            }
        }
    }
}

/// A set of vCPUs. Who changes it and then looks elsewhere, or the other way round, has a full fence between the two.
#[derive(Debug)]
pub(super) struct Bitmap {
    words: Box<[AtomicU64]>,
}

impl Bitmap {
    pub fn new(nr_cpus: u32) -> Self {
        Bitmap {
            words: (0..nr_cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// True: it was not in the set before.
    #[inline]
    pub fn set(&self, cpu: u32) -> bool {
        let (word, bit) = (&self.words[cpu as usize / 64], 1 << (cpu % 64));
        word.load(Ordering::Acquire) & bit == 0 && word.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    #[inline]
    pub fn clear(&self, cpu: u32) {
        self.words[cpu as usize / 64].fetch_and(!(1 << (cpu % 64)), Ordering::AcqRel);
    }

    /// Takes it out. True: it was in.
    #[inline]
    pub fn take(&self, cpu: u32) -> bool {
        let (word, bit) = (&self.words[cpu as usize / 64], 1 << (cpu % 64));
        word.load(Ordering::Acquire) & bit != 0 && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.words[cpu as usize / 64].load(Ordering::Acquire) & (1 << (cpu % 64)) != 0
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Members, lowest first, as they are when their word is reached.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut bits = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    index as u32 * 64 + bit
                })
            })
        })
    }
}
