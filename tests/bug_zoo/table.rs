//! The mutants. Z01 to Z54 follow the literature's and the project's own list of bugs (published injections, bugs of
//! real kernels, the seam between engine and world); A.. are further ones of mechanisms that are here.
//!
//! Not here: Z11 (offloaded callbacks, Z12 is its twin on ordinary ones), Z13 and Z54 (orderings, which
//! `tests/loom/mutants.rs` drops one by one), Z14 and Z15 (what a torture run injects, no bug of the engine), Z25 (the
//! number starts under the same lock as the requests are taken), Z28 (the delays with which such windows are opened:
//! these machines use them), Z53 (time is the simulator's, see `src/sim/calendar/tests.rs`).

/// What a mutant does to grace periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Somebody is not waited for.
    TooShort,
    /// Somebody waits for ever.
    NeverEnds,
    /// It does no harm, and must not be caught.
    Survives,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::TooShort => "too short",
            Verdict::NeverEnds => "never ends",
            Verdict::Survives => "survives",
        }
    }

    /// The oracle's codes that count.
    pub fn counts(self) -> fn(&str) -> bool {
        fn too_short(code: &str) -> bool {
            let early = ["I2.early", "I11.early", "I14.early", "I16.early"];
            code.starts_with("I1.") || code.starts_with("E1.") || early.contains(&code)
        }
        fn never_ends(code: &str) -> bool {
            code.starts_with("I15.")
        }
        match self {
            Verdict::TooShort => too_short,
            Verdict::NeverEnds => never_ends,
            Verdict::Survives => |code| too_short(code) || never_ends(code),
        }
    }
}

pub struct Mutant {
    pub name: &'static str,
    pub breaks: &'static str,
    pub verdict: Verdict,
    /// It takes CPUs that come and go, and luck: only such machines are tried, and more of them.
    pub rare: bool,
}

impl Mutant {
    /// The machines that are tried, of `most`.
    pub fn machines(&self, most: u64) -> impl Iterator<Item = u64> {
        let (step, times) = if self.rare { (3, 12) } else { (1, 1) };
        (step..=times * most).step_by(step as usize)
    }

    const fn rare(mut self) -> Mutant {
        self.rare = true;
        self
    }
}

const fn short(name: &'static str, breaks: &'static str) -> Mutant {
    Mutant {
        name,
        breaks,
        verdict: Verdict::TooShort,
        rare: false,
    }
}

const fn hangs(name: &'static str, breaks: &'static str) -> Mutant {
    Mutant {
        name,
        breaks,
        verdict: Verdict::NeverEnds,
        rare: false,
    }
}

const fn harmless(name: &'static str, breaks: &'static str) -> Mutant {
    Mutant {
        name,
        breaks,
        verdict: Verdict::Survives,
        rare: false,
    }
}

pub const MUTANTS: &[Mutant] = &[
    harmless("none", "nothing: the engine as it is"),
    short("Z01", "synchronize_rcu() returns at once"),
    short("Z02", "callbacks are invoked at once"),
    short("Z03", "initialisation clears qsmask instead of setting it"),
    short("Z04", "a CPU that notices a new grace period clears its own bit"),
    short("Z05", "a tick takes a section for a quiescent state"),
    short("Z06", "a scan credits a CPU that has not been idle"),
    short("Z07", "a report goes up although its node still owes"),
    short("Z07b", "a report goes up past blocked readers"),
    hangs("Z08", "a CPU never takes note that it owes"),
    hangs("Z09", "quiescent states are not recorded"),
    hangs("Z10", "reports go nowhere"),
    short("Z12", "callbacks are numbered with the grace period in progress"),
    short("Z20", "callbacks are advanced one grace period too far"),
    harmless("Z21", "scans begin right after initialisation"),
    hangs("Z22", "the last blocked reader of a leaf tells nobody"),
    hangs(
        "Z23",
        "a leaf that waited for readers only, and has none, is waited for",
    )
    .rare(),
    harmless(
        "Z24",
        "CPUs that left before initialisation are waited for, until a scan",
    ),
    hangs("Z24+offline unseen", "the same, and scans pass them over").rare(),
    hangs("Z26", "a request for a grace period wakes nobody"),
    hangs("Z27", "inner nodes keep their old number"),
    hangs("Z40", "the kthread's wake-up is dropped"),
    harmless("Z41", "the kthread is woken twice"),
    short(
        "Z42",
        "callers are released before the grace period's end is visible",
    ),
    harmless("Z43", "a wake-up is taken for the timeout"),
    hangs("Z44", "numbers are compared without regard to their wrap"),
    short("Z45", "the last CPU of a leaf is not in the mask"),
    short("Z45b", "the last child of an inner node is not in the mask"),
    short(
        "Z46",
        "a quiescent state recorded for one grace period counts for the next",
    ),
    short("Z47", "a nested section ends at the inner unlock"),
    short("Z48a", "a preempted reader is not queued"),
    short("Z48b", "a preempted reader is queued as blocking nothing"),
    short("Z48c", "readers queued before a grace period do not block it"),
    short(
        "Z48d",
        "with the first blocked reader gone, the rest is forgotten",
    ),
    short(
        "Z48e",
        "a preempted reader does not block the expedited grace period",
    ),
    short("Z49a", "callbacks advance whatever their number"),
    hangs("Z49b", "callbacks never advance"),
    short(
        "callers taken late",
        "callers that come during a grace period are served by it",
    ),
    short("Z51", "an expedited grace period ends the normal one"),
    short("Z52", "a barrier passes CPUs with callbacks over"),
    hangs("A02", "clean-up forgets requests for later grace periods"),
    short("A03", "an expedited grace period passes blocked readers over"),
    short("A04", "an expedited grace period takes every CPU for idle"),
    short(
        "A05",
        "the expedited interrupt takes a section for a quiescent state",
    ),
    hangs("A06", "an owed expedited quiescent state is never reported"),
    short("A08", "an expedited report goes up past blocked readers"),
    hangs(
        "A09",
        "the kthread forgets the callers that it does not wake itself",
    ),
    harmless("A10", "the latch never opens again"),
    short("A11", "a cookie asks for the grace period in progress"),
    short("A12", "the polled number ends when the grace period starts"),
    harmless(
        "A13",
        "a CPU on its way offline does not report, but a scan sees it",
    ),
    hangs("A13+offline unseen", "the same, and scans pass it over"),
    short("A14", "a CPU that comes online is not waited for"),
    hangs("A15", "the callbacks of a dead CPU stay there"),
    hangs(
        "A16",
        "callbacks are numbered, and their grace period is not requested",
    ),
    short("A18", "a quiescent state from before the grace period counts"),
    hangs("A20", "a tick does not raise the RCU core"),
    short("A21", "the first scan takes every CPU for idle"),
];
