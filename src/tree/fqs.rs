//! Force-quiescent-state scans: report idle CPUs on their behalf, press the others.
//!
//! The first scan of a grace period reports every CPU that is in an extended quiescent state at that
//! moment and takes a reading of each other CPU's counter; later scans report whoever's counter has
//! changed since. A CPU that stays in the kernel is only pressed: urgent, then heavy, then resched.

use super::gp::GpKthread;
use super::qs::Report;
use super::rcu::{CpuData, FLAG_FQS, Rcu, bits};
use super::watching::WatchSnap;
use super::world::{Ctx, Work, World};
use crate::stats::Resolution;
use crate::sync::{Ordering, mutated};
use crate::trace::Event;

/// What a scan finds out about one CPU.
enum Verdict {
    Quiescent,
    Owes,
    Resched,
}

impl<C> Rcu<C> {
    pub(super) fn begin_scan(&self, k: &mut GpKthread, world: &mut impl World) {
        world.emit(|| Event::GracePeriod {
            gp_seq: self.gp_seq(),
            what: "fqsstart",
        });
        // Only the kthread writes it.
        let scans = self.n_force_qs.load(Ordering::Relaxed);
        self.n_force_qs.store(scans + 1, Ordering::Relaxed);
        k.scans += 1;
        k.cbovld = std::mem::take(&mut k.cbovld_next);
    }

    pub(super) fn end_scan(&self, world: &mut impl World) {
        let _root = self.lock_node(0);
        self.change_gp_flags(|flags| flags & !FLAG_FQS);
        world.emit(|| Event::GracePeriod {
            gp_seq: self.gp_seq(),
            what: "fqsend",
        });
    }

    /// One leaf of `force_qs_rnp()`.
    pub(super) fn scan_leaf(&self, k: &mut GpKthread, index: usize, ctx: Ctx, world: &mut impl World) {
        let node = &self.nodes[index];
        let leaf = self.lock_node(index);
        k.cbovld_next |= node.cbovldmask.load(Ordering::Relaxed) != 0;
        let owed = node.qsmask.load(Ordering::Relaxed);
        if owed == 0 {
            return;
        }
        let jiffies = world.jiffies();
        let mut quiescent = 0;
        let mut resched = 0;
        for bit in bits(owed) {
            let rdp = &self.cpus[(node.shape.grplo + bit) as usize];
            let verdict = if mutated("offline unseen") && leaf.qsmaskinitnext & rdp.grpmask == 0 {
                Verdict::Owes
            } else if k.first_scan {
                self.save_snapshot(rdp, world)
            } else {
                self.recheck(k, rdp, leaf.qsmaskinitnext & rdp.grpmask == 0, jiffies, world)
            };
            match verdict {
                Verdict::Quiescent => {
                    quiescent |= rdp.grpmask;
                    Self::clear_urgency(rdp);
                }
                Verdict::Resched => resched |= rdp.grpmask,
                Verdict::Owes => {}
            }
        }
        k.cpus_scanned += u64::from(owed.count_ones());
        world.spend(Work::ScanCpus(owed.count_ones()));
        let gps = node.gp_seq.load(Ordering::Relaxed);
        let root_emptied = if quiescent != 0 {
            let cpu = node.shape.grplo + (63 - quiescent.leading_zeros());
            self.report_up(
                index,
                leaf,
                quiescent,
                gps,
                Report {
                    cpu,
                    how: Resolution::IdleScan,
                },
                world,
            )
        } else {
            drop(leaf);
            false
        };
        if root_emptied {
            // The kthread itself runs this scan, so the wake-up comes to nothing; its next check sees
            // the empty root.
            self.wake_gp_kthread(ctx, world);
        }
        for bit in bits(resched) {
            world.resched(node.shape.grplo + bit);
        }
    }

    /// First scan.
    fn save_snapshot(&self, rdp: &CpuData<C>, world: &mut impl World) -> Verdict {
        let snap = world.watching(rdp.cpu);
        rdp.watching_snap.store(snap.0, Ordering::Relaxed);
        if snap.in_eqs() || mutated("A21") {
            world.emit(|| Event::Fqs {
                gp_seq: rdp.gp_seq.load(Ordering::Relaxed),
                cpu: rdp.cpu,
            });
            self.check_gpwrap(rdp);
            Verdict::Quiescent
        } else {
            Verdict::Owes
        }
    }

    /// Later scans.
    fn recheck(
        &self,
        k: &GpKthread,
        rdp: &CpuData<C>,
        offline: bool,
        jiffies: u64,
        world: &mut impl World,
    ) -> Verdict {
        let before = WatchSnap(rdp.watching_snap.load(Ordering::Relaxed));
        if world.watching(rdp.cpu).passed_eqs_since(before) || mutated("Z06") {
            world.emit(|| Event::Fqs {
                gp_seq: rdp.gp_seq.load(Ordering::Relaxed),
                cpu: rdp.cpu,
            });
            self.check_gpwrap(rdp);
            return Verdict::Quiescent;
        }
        if offline {
            promise!(false, "an offline CPU reports itself on its way out");
            return Verdict::Quiescent;
        }
        let jtsq = self.tun.jiffies_to_sched_qs;
        let gp_start = self.gp_start_jiffies.load(Ordering::Relaxed);
        let past_resched = jiffies > k.jiffies_resched;
        if !rdp.need_heavy_qs.load(Ordering::Relaxed)
            && (jiffies > gp_start + 2 * jtsq || past_resched || k.cbovld)
        {
            rdp.need_heavy_qs.store(true, Ordering::Relaxed);
            // Release pairs with the acquire in the tick.
            rdp.urgent_qs.store(true, Ordering::Release);
        } else if jiffies > gp_start + jtsq {
            rdp.urgent_qs.store(true, Ordering::Release);
        }
        if past_resched && jiffies > rdp.last_fqs_resched.load(Ordering::Relaxed) + jtsq {
            rdp.last_fqs_resched.store(jiffies, Ordering::Relaxed);
            return Verdict::Resched;
        }
        Verdict::Owes
    }
}
