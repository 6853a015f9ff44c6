//! Kinds of readers. A domain has one, declared when it is made, so that every zero test knows what it deals with.

/// How readers of a domain order their accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// Full barriers in lock and unlock (B and C). The unlock may be another task's, or an interrupt's.
    Normal,
    /// `srcu_read_lock_fast()`: no barrier; the domain waits for RCU grace periods instead.
    Fast,
    /// The same, and another task may unlock.
    FastUpdown,
    /// `srcu_read_lock_lite()`: what came before fast, 6.13 to about 6.17; as fast, with an index instead of a pointer.
    Light,
}

impl Flavour {
    /// Names and values.
    pub const ALL: [(&'static str, Flavour); 4] = [
        ("normal", Flavour::Normal),
        ("fast", Flavour::Fast),
        ("fast-updown", Flavour::FastUpdown),
        ("light", Flavour::Light),
    ];

    /// Updaters wait for RCU grace periods in place of readers' barriers (`SRCU_READ_FLAVOR_SLOWGP`).
    pub const fn is_slow_gp(self) -> bool {
        !matches!(self, Flavour::Normal)
    }
}
