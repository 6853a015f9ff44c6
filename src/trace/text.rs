//! Trace records as ftrace prints them.

use super::{Context, Event, Record, Trace};
use std::fmt::{self, Write};

/// The trace as text, one line a record, in the order of time.
pub(super) fn ftrace(trace: &Trace) -> String {
    let mut out = String::from("# tracer: nop\n#\n");
    for record in trace.in_order() {
        // Writing to a String cannot fail.
        let _ = line(&mut out, trace.flavour, record);
    }
    if trace.dropped > 0 {
        let _ = writeln!(out, "# {} later events dropped", trace.dropped);
    }
    out
}

/// The part of a line that says what happened.
pub(super) fn event_text(flavour: &str, what: &Event) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = event(&mut out, flavour, what);
    out
}

fn line(out: &mut String, flavour: &str, r: &Record) -> fmt::Result {
    let (irqs_off, context) = match r.context {
        Context::Task => ('.', '.'),
        Context::HardIrq => ('d', 'h'),
        Context::SoftIrq => ('.', 's'),
    };
    let (secs, usecs) = (r.at_ns / 1_000_000_000, r.at_ns / 1000 % 1_000_000);
    write!(
        out,
        "{:>16}-{:<7} [{:03}] {irqs_off}.{context}.. {secs:5}.{usecs:06}: ",
        r.comm, r.pid, r.cpu
    )?;
    event(out, flavour, &r.event)?;
    out.push('\n');
    Ok(())
}

fn event(out: &mut String, flavour: &str, event: &Event) -> fmt::Result {
    match *event {
        Event::Utilization(what) => write!(out, "rcu_utilization: {what}"),
        Event::GracePeriod { gp_seq, what } => {
            write!(out, "rcu_grace_period: {flavour} {} {what}", gp_seq as i64)
        }
        Event::FutureGracePeriod {
            gp_seq,
            req,
            level,
            grplo,
            grphi,
            what,
        } => write!(
            out,
            "rcu_future_grace_period: {flavour} {} {} {level} {grplo} {grphi} {what}",
            gp_seq as i64, req as i64
        ),
        Event::GracePeriodInit {
            gp_seq,
            level,
            grplo,
            grphi,
            qsmask,
        } => write!(
            out,
            "rcu_grace_period_init: {flavour} {} {level} {grplo} {grphi} {qsmask:x}",
            gp_seq as i64
        ),
        Event::QuiescentStateReport {
            gp_seq,
            mask,
            qsmask,
            level,
            grplo,
            grphi,
            gp_tasks,
            by_reader,
        } => {
            // The last blocked reader of a leaf prints this name in place of the flavour's.
            let name = if by_reader { "preempt_rcu" } else { flavour };
            write!(
                out,
                "rcu_quiescent_state_report: {name} {} {mask:x}>{qsmask:x} {level} {grplo} {grphi} {}",
                gp_seq as i64,
                u32::from(gp_tasks)
            )
        }
        Event::Fqs { gp_seq, cpu } => write!(out, "rcu_fqs: {flavour} {} {cpu} dti", gp_seq as i64),
        Event::PreemptTask { gp_seq, pid } => {
            write!(out, "rcu_preempt_task: {flavour} {} {pid}", gp_seq as i64)
        }
        Event::UnlockPreemptedTask {
            gp_seq,
            pid,
            at_gp_start,
        } => {
            let name = if at_gp_start {
                "rcu_preempt-GPS"
            } else {
                "rcu_preempt"
            };
            write!(out, "rcu_unlock_preempted_task: {name} {} {pid}", gp_seq as i64)
        }
        Event::SrNormal { rhp, what } => {
            write!(out, "rcu_sr_normal: {flavour} rhp=0x{rhp:016x} event={what}")
        }
        Event::Callback { rhp, func, qlen } => {
            write!(out, "rcu_callback: {flavour} rhp={rhp:016x} func={func} {qlen}")
        }
        Event::SegCbStats {
            what,
            seglen: n,
            gp_seq: s,
        } => write!(
            out,
            "rcu_segcb_stats: {what} seglen: (DONE={}, WAIT={}, NEXT_READY={}, NEXT={}) gp_seq: (DONE={}, WAIT={}, NEXT_READY={}, NEXT={})",
            n[0], n[1], n[2], n[3], s[0], s[1], s[2], s[3]
        ),
        Event::BatchStart { qlen, blimit } => {
            write!(out, "rcu_batch_start: {flavour} CBs={qlen} bl={blimit}")
        }
        Event::InvokeCallback { rhp, func } => {
            write!(out, "rcu_invoke_callback: {flavour} rhp={rhp:016x} func={func}")
        }
        Event::BatchEnd {
            invoked,
            more,
            need_resched,
            idle,
        } => {
            let flag = |on: bool, letter: char| if on { letter } else { '.' };
            write!(
                out,
                "rcu_batch_end: {flavour} CBs-invoked={invoked} idle={}{}{}.",
                flag(more, 'C'),
                flag(need_resched, 'S'),
                flag(idle, 'I')
            )
        }
        Event::ExpGracePeriod { gp_seq, what } => {
            write!(out, "rcu_exp_grace_period: {flavour} {} {what}", gp_seq as i64)
        }
        Event::ExpFunnelLock {
            level,
            grplo,
            grphi,
            what,
        } => write!(
            out,
            "rcu_exp_funnel_lock: {flavour} {level} {grplo} {grphi} {what}"
        ),
        Event::StallWarning(what) => write!(out, "rcu_stall_warning: {flavour} {what}"),
        Event::Barrier {
            what,
            cpu,
            remaining,
            done,
        } => {
            write!(
                out,
                "rcu_barrier: {flavour} {what} cpu {cpu} remaining {remaining} # {done}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_kernels_form() {
        let mut trace = Trace::new(true, 10);
        trace.push(Record {
            at_ns: 1_500_100_000_999,
            cpu: 10,
            comm: "bench",
            pid: 5200,
            context: Context::Task,
            event: Event::SrNormal {
                rhp: 0xdead_be01,
                what: "request",
            },
        });
        trace.push(Record {
            at_ns: 1_500_106_041_000,
            cpu: 3,
            comm: "ksoftirqd",
            pid: 30,
            context: Context::SoftIrq,
            event: Event::BatchEnd {
                invoked: 10,
                more: true,
                need_resched: false,
                idle: false,
            },
        });
        let text = trace.to_ftrace();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "           bench-5200    [010] .....  1500.100000: rcu_sr_normal: rcu_preempt rhp=0x00000000deadbe01 event=request",
                "       ksoftirqd-30      [003] ..s..  1500.106041: rcu_batch_end: rcu_preempt CBs-invoked=10 idle=C...",
            ]
        );
    }

    #[test]
    fn the_limit_holds_and_is_told() {
        let mut trace = Trace::new(false, 1);
        let record = Record {
            at_ns: 0,
            cpu: 0,
            comm: "swapper",
            pid: 0,
            context: Context::HardIrq,
            event: Event::GracePeriod {
                gp_seq: 0u64.wrapping_sub(1199),
                what: "start",
            },
        };
        trace.push(record);
        trace.push(record);
        assert_eq!((trace.records.len(), trace.dropped), (1, 1));
        assert!(
            trace
                .to_ftrace()
                .contains("rcu_grace_period: rcu_sched -1199 start\n")
        );
        assert!(trace.to_ftrace().ends_with("# 1 later events dropped\n"));
    }
}
