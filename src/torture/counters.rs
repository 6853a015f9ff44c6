//! The counters under rcutorture's names, and the lines that it prints them on.

use super::kind::GpKind;
use super::pipe::{Id, Stages};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// CPU hotplug in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Transitions {
    /// Transitions that were tried.
    pub attempts: u64,
    /// … and succeeded.
    pub successes: u64,
    /// Shortest, jiffies; −1: none.
    pub min_jiffies: i64,
    /// Longest, jiffies; −1: none.
    pub max_jiffies: i64,
    /// All of them, jiffies.
    pub sum_jiffies: u64,
}

impl Default for Transitions {
    fn default() -> Self {
        Transitions {
            attempts: 0,
            successes: 0,
            min_jiffies: -1,
            max_jiffies: -1,
            sum_jiffies: 0,
        }
    }
}

impl Transitions {
    /// Books one that was tried.
    pub fn book(&mut self, succeeded: bool, jiffies: u64) {
        self.attempts += 1;
        if !succeeded {
            return;
        }
        self.successes += 1;
        self.sum_jiffies += jiffies;
        let jiffies = jiffies as i64;
        self.max_jiffies = self.max_jiffies.max(jiffies);
        self.min_jiffies = if self.min_jiffies < 0 {
            jiffies
        } else {
            self.min_jiffies.min(jiffies)
        };
    }
}

/// The barrier test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BarrierTest {
    /// Rounds after which every callback had been invoked.
    pub successes: u64,
    /// Rounds.
    pub attempts: u64,
    /// Rounds after which callbacks were missing (`rtbe`).
    pub errors: u64,
}

/// The forward-progress test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ForwardProgress {
    /// Rounds of the reader that is always there (`nr`).
    pub nr_rounds: u64,
    /// … during which neither the writer nor two grace periods got on.
    pub nr_failures: u64,
    /// Callback floods (`cr`).
    pub cr_rounds: u64,
    /// … in which too few callbacks went through several grace periods.
    pub cr_failures: u64,
    /// Callbacks invoked in floods.
    pub cr_invoked: u64,
    /// Most callbacks pending at once.
    pub cr_max_queued: u64,
    /// Grace periods during floods.
    pub cr_gps: u64,
}

/// A state of all counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Number of the current element; `None` before the first one and after the test. Not a count.
    #[serde(skip)]
    pub rtc: Option<Id>,
    /// Elements that the writer published.
    pub ver: u64,
    /// No element is free right now (0 or 1).
    pub tfle: u64,
    /// Elements allocated.
    pub rta: u64,
    /// Allocations that found none.
    pub rtaf: u64,
    /// Elements freed.
    pub rtf: u64,
    /// Error: elements read after they were freed.
    pub rtmbe: u64,
    /// Error: failures of the memory-order test.
    pub rtmbkf: u64,
    /// Its tries.
    pub rtmbkf_tries: u64,
    /// Error: barriers that returned with callbacks missing.
    pub rtbe: u64,
    /// Error: boost kthreads that could not be made.
    pub rtbke: u64,
    /// Error: readers that were not boosted in time.
    pub rtbf: u64,
    /// Readers boosted.
    pub rtb: u64,
    /// Readers run from an interrupt.
    pub nt: u64,
    /// CPUs brought online.
    pub online: Transitions,
    /// CPUs taken offline.
    pub offline: Transitions,
    /// The barrier test.
    pub barrier: BarrierTest,
    /// Readers that exited.
    pub read_exits: u64,
    /// CPUs offloaded, and back.
    pub nocb_toggles: [u64; 2],
    /// CPUs that fell so far behind that their numbers were distrusted.
    pub gpwraps: u64,
    /// Sections by the stage that they found their element at, at their end; 2 and more are errors.
    pub reader_pipe: Stages,
    /// Sections by the grace periods that ended meanwhile.
    pub reader_batch: Stages,
    /// Elements that left each stage.
    pub free_block_circulation: Stages,
    /// Error: promises broken besides (cookies, forward progress, stalls, refused calls); each has a
    /// line in the report.
    pub warnings: u64,
    /// Stalls that were reported.
    pub stalls: u64,
    /// The forward-progress test.
    pub fwd_progress: ForwardProgress,
    /// Grace periods that the writers waited for, by kind.
    pub gp_kinds: BTreeMap<&'static str, u64>,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// No error counter moved.
    #[serde(rename = "SUCCESS")]
    Success,
    /// Some did.
    #[serde(rename = "FAILURE")]
    Failure,
    /// None did, but CPUs did not come or go as they should.
    #[serde(rename = "RCU_HOTPLUG")]
    Hotplug,
}

impl Verdict {
    /// As in the last line.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Success => "SUCCESS",
            Verdict::Failure => "FAILURE",
            Verdict::Hotplug => "RCU_HOTPLUG",
        }
    }
}

impl Counters {
    /// Sections that found an element at stage 2 or later: grace periods that were too short.
    pub fn too_short(&self) -> u64 {
        self.reader_pipe[2..].iter().sum()
    }

    /// The sum of everything that is an error.
    pub fn errors(&self) -> u64 {
        self.rtmbe + self.rtmbkf + self.rtbe + self.rtbke + self.rtbf + self.too_short() + self.warnings
    }

    /// What these counters come to.
    pub fn verdict(&self) -> Verdict {
        let incomplete = |t: &Transitions| t.attempts != t.successes;
        if self.errors() > 0 {
            Verdict::Failure
        } else if incomplete(&self.online) || incomplete(&self.offline) {
            Verdict::Hotplug
        } else {
            Verdict::Success
        }
    }

    /// `!!! ` is printed: an error field of the line is not zero, or some grace period was too short.
    pub fn is_marked(&self) -> bool {
        self.errors() > self.warnings
    }

    /// The four lines of a statistics print, for the torture type `tt` on a machine with `hz` ticks/s.
    pub fn lines(&self, tt: &str, hz: u32) -> String {
        let mut out = String::new();
        let (on, off, barrier) = (&self.online, &self.offline, &self.barrier);
        let (pointer, ver) = match self.rtc {
            // Elements lie one cache line apart.
            Some(id) => (
                format!("{:016x}", 0xffff_8880_0001_0000u64 + u64::from(id) * 64),
                "ver",
            ),
            None => ("(null)".to_owned(), "VER"),
        };
        let mark = if self.is_marked() { "!!! " } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{tt}-torture: rtc: {pointer} {ver}: {} tfle: {} rta: {} rtaf: {} rtf: {} rtmbe: {} rtmbkf: {}/{} \
             rtbe: {} rtbke: {} rtbf: {} rtb: {} nt: {} onoff: {}/{}:{}/{} {},{}:{},{} {}:{} (HZ={hz}) \
             barrier: {}/{}:{} read-exits: {} nocb-toggles: {}:{} gpwraps: {}",
            self.ver,
            self.tfle,
            self.rta,
            self.rtaf,
            self.rtf,
            self.rtmbe,
            self.rtmbkf,
            self.rtmbkf_tries,
            self.rtbe,
            self.rtbke,
            self.rtbf,
            self.rtb,
            self.nt,
            on.successes,
            on.attempts,
            off.successes,
            off.attempts,
            on.min_jiffies,
            on.max_jiffies,
            off.min_jiffies,
            off.max_jiffies,
            on.sum_jiffies,
            off.sum_jiffies,
            barrier.successes,
            barrier.attempts,
            barrier.errors,
            self.read_exits,
            self.nocb_toggles[0],
            self.nocb_toggles[1],
            self.gpwraps,
        );
        for (mark, name, stages) in [
            (mark, "Reader Pipe", &self.reader_pipe),
            ("", "Reader Batch", &self.reader_batch),
            ("", "Free-Block Circulation", &self.free_block_circulation),
        ] {
            let _ = write!(out, "{tt}-torture: {mark}{name}: ");
            for count in stages {
                let _ = write!(out, " {count}");
            }
            out.push('\n');
        }
        out
    }

    /// Books a completed grace period of this kind.
    pub fn count_kind(&mut self, kind: GpKind, count: u64) {
        if count > 0 {
            *self.gp_kinds.entry(kind.name()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Counters {
        let mut counters = Counters {
            rtc: Some(3),
            ver: 155_441,
            rta: 155_441,
            rtaf: 8_884,
            rtf: 155_440,
            rtmbkf_tries: 17,
            nt: 5,
            read_exits: 32,
            reader_pipe: [727_860_534, 34_213, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            reader_batch: [727_877_838, 17_003, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ..Counters::default()
        };
        counters.barrier = BarrierTest {
            successes: 7,
            attempts: 8,
            errors: 0,
        };
        counters.online.book(true, 5);
        counters.online.book(true, 2);
        counters.offline.book(true, 9);
        counters
    }

    /// The form of each line, from the format facts.
    #[test]
    fn lines_have_the_kernels_form() {
        let text = counters().lines("rcu", 1000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "rcu-torture: rtc: ffff8880000100c0 ver: 155441 tfle: 0 rta: 155441 rtaf: 8884 rtf: 155440 \
                 rtmbe: 0 rtmbkf: 0/17 rtbe: 0 rtbke: 0 rtbf: 0 rtb: 0 nt: 5 onoff: 2/2:1/1 2,5:9,9 7:9 \
                 (HZ=1000) barrier: 7/8:0 read-exits: 32 nocb-toggles: 0:0 gpwraps: 0",
                "rcu-torture: Reader Pipe:  727860534 34213 0 0 0 0 0 0 0 0 0",
                "rcu-torture: Reader Batch:  727877838 17003 0 0 0 0 0 0 0 0 0",
                "rcu-torture: Free-Block Circulation:  0 0 0 0 0 0 0 0 0 0 0",
            ]
        );
        assert_eq!(counters().verdict(), Verdict::Success);
        // Nothing published, nobody came or went.
        let text = Counters::default().lines("busted", 250);
        assert!(text.starts_with("busted-torture: rtc: (null) VER: 0 "), "{text}");
        assert!(
            text.contains(" onoff: 0/0:0/0 -1,-1:-1,-1 0:0 (HZ=250) "),
            "{text}"
        );
    }

    #[test]
    fn each_error_field_marks_the_pipe_and_fails_the_test() {
        let errors: [fn(&mut Counters); 7] = [
            |c| c.rtmbe = 1,
            |c| c.rtmbkf = 1,
            |c| c.rtbe = 1,
            |c| c.rtbke = 1,
            |c| c.rtbf = 1,
            |c| c.reader_pipe[2] = 1,
            |c| c.reader_pipe[10] = 1,
        ];
        for set in errors {
            let mut counters = counters();
            set(&mut counters);
            assert_eq!(counters.errors(), 1);
            assert_eq!(counters.verdict(), Verdict::Failure);
            let text = counters.lines("rcu", 1000);
            assert!(
                text.contains("\nrcu-torture: !!! Reader Pipe:  727860534 "),
                "{text}"
            );
            assert_eq!(text.matches("!!!").count(), 1);
        }
        // Suspicious, and no error: the verdict is the pipe's.
        let mut suspicious = counters();
        suspicious.reader_batch[2] = 1;
        assert_eq!(suspicious.verdict(), Verdict::Success);
        assert!(!suspicious.lines("rcu", 1000).contains("!!!"));
        // A broken promise that has a line of its own fails the test and marks nothing.
        let mut warned = counters();
        warned.warnings = 1;
        assert_eq!(warned.verdict(), Verdict::Failure);
        assert!(!warned.lines("rcu", 1000).contains("!!!"));
        // Hotplug alone.
        let mut hotplug = counters();
        hotplug.offline.book(false, 0);
        assert_eq!(hotplug.verdict(), Verdict::Hotplug);
        hotplug.rtbe = 1;
        assert_eq!(hotplug.verdict(), Verdict::Failure);
    }
}
