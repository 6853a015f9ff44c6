//! The one error type of the crate: every variant says which parameter, which value, what is allowed.

/// What can go wrong before or during a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter of a config, machine, workload or call is unknown, of the wrong type or out of range.
    #[error("{parameter}={value}: {reason}; allowed: {allowed}")]
    Config {
        /// Name of the parameter as the user writes it.
        parameter: String,
        /// The offending value, as text.
        value: String,
        /// What is wrong with it.
        reason: String,
        /// The allowed range or choices.
        allowed: String,
    },
    /// The run would need more memory than the stated limit; nothing was started.
    #[error(
        "memory_limit_mb={limit_mb}: this run would need about {need_mb} MiB ({what}); allowed: shorten the run, or raise memory_limit_mb"
    )]
    Memory {
        /// Estimated need in MiB.
        need_mb: u64,
        /// The limit in force in MiB.
        limit_mb: u64,
        /// What takes the most.
        what: String,
    },
    /// A grace period did not end: for ten stall timeouts in virtual time, or while an engine was closed.
    #[error(
        "grace period {gp_seq} did not end within {waited_s} s of {}; waiting for CPUs {cpus:?}; allowed: {}",
        if *is_virtual { "virtual time" } else { "real time" },
        if *is_virtual {
            "every CPU must pass a quiescent state (idle, user mode, a context switch)"
        } else {
            "readers that leave their sections in time"
        }
    )]
    Stall {
        /// `gp_seq` of the grace period that did not end.
        gp_seq: i64,
        /// Virtual seconds since it started; real ones since somebody waited for it.
        waited_s: u64,
        /// The seconds are virtual ones.
        is_virtual: bool,
        /// CPUs that still owe a quiescent state.
        cpus: Vec<u32>,
    },
    /// A call in a place where it could never return, or on an engine that is closed.
    #[error("{call}: {reason}; allowed: {allowed}")]
    Misuse {
        /// The call.
        call: &'static str,
        /// What is wrong.
        reason: String,
        /// Where it is allowed.
        allowed: &'static str,
    },
    /// The operating system refused something that the host world needs.
    #[error("{0}")]
    Host(String),
    /// The engine failed: a defect of this crate, never of the input.
    #[error("internal error: {0}")]
    Engine(String),
}

impl Error {
    /// Shorthand for [`Error::Config`].
    pub fn config(
        parameter: impl Into<String>,
        value: impl ToString,
        reason: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Error::Config {
            parameter: parameter.into(),
            value: value.to_string(),
            reason: reason.into(),
            allowed: allowed.into(),
        }
    }
}

/// `Result` with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;
