//! The ways to wait for a grace period that the writers take in turn.

use serde::Serialize;

/// One way to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpKind {
    /// An asynchronous callback, which posts itself again until its element is through the pipe.
    DefFree,
    /// `synchronize_rcu_expedited()`.
    ExpSync,
    /// A cookie, some time, then wait for what is still missing.
    CondGet,
    /// The same with a full cookie.
    CondGetFull,
    /// A cookie, some time, then expedited for what is still missing.
    CondGetExp,
    /// The same with a full cookie.
    CondGetExpFull,
    /// Start a grace period and poll until it is over.
    PollGet,
    /// The same with a full cookie.
    PollGetFull,
    /// Start an expedited one and poll.
    PollGetExp,
    /// The same with a full cookie.
    PollGetExpFull,
    /// `synchronize_rcu()`.
    Sync,
}

impl GpKind {
    /// All of them, in the order of the writer's states.
    pub const ALL: [GpKind; 11] = [
        GpKind::DefFree,
        GpKind::ExpSync,
        GpKind::CondGet,
        GpKind::CondGetFull,
        GpKind::CondGetExp,
        GpKind::CondGetExpFull,
        GpKind::PollGet,
        GpKind::PollGetFull,
        GpKind::PollGetExp,
        GpKind::PollGetExpFull,
        GpKind::Sync,
    ];

    /// The writer's state while it waits so, as the kernel prints it.
    pub const fn state(self) -> &'static str {
        match self {
            GpKind::DefFree => "RTWS_DEF_FREE",
            GpKind::ExpSync => "RTWS_EXP_SYNC",
            GpKind::CondGet => "RTWS_COND_GET",
            GpKind::CondGetFull => "RTWS_COND_GET_FULL",
            GpKind::CondGetExp => "RTWS_COND_GET_EXP",
            GpKind::CondGetExpFull => "RTWS_COND_GET_EXP_FULL",
            GpKind::PollGet => "RTWS_POLL_GET",
            GpKind::PollGetFull => "RTWS_POLL_GET_FULL",
            GpKind::PollGetExp => "RTWS_POLL_GET_EXP",
            GpKind::PollGetExpFull => "RTWS_POLL_GET_EXP_FULL",
            GpKind::Sync => "RTWS_SYNC",
        }
    }

    /// Its name among the counters.
    pub const fn name(self) -> &'static str {
        match self {
            GpKind::DefFree => "def_free",
            GpKind::ExpSync => "exp_sync",
            GpKind::CondGet => "cond_get",
            GpKind::CondGetFull => "cond_get_full",
            GpKind::CondGetExp => "cond_get_exp",
            GpKind::CondGetExpFull => "cond_get_exp_full",
            GpKind::PollGet => "poll_get",
            GpKind::PollGetFull => "poll_get_full",
            GpKind::PollGetExp => "poll_get_exp",
            GpKind::PollGetExpFull => "poll_get_exp_full",
            GpKind::Sync => "sync",
        }
    }

    /// Needs the expedited machinery.
    pub const fn is_expedited(self) -> bool {
        matches!(
            self,
            GpKind::ExpSync
                | GpKind::CondGetExp
                | GpKind::CondGetExpFull
                | GpKind::PollGetExp
                | GpKind::PollGetExpFull
        )
    }

    /// Its place in [`GpKind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_complete_and_in_order() {
        for (index, kind) in GpKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), index);
            assert_eq!(kind.state(), format!("RTWS_{}", kind.name().to_uppercase()));
            assert_eq!(kind.is_expedited(), kind.name().contains("exp"));
        }
    }
}
