//! What leaving out the launcher came to.

/// What `"launcher": "direct"` did for a server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LauncherUse {
    /// The server was started without its launcher.
    LeftOut,
    /// The launcher has shown what it starts, so the next start needs it no more.
    Learned,
    /// The next start needs it again. Completes "because".
    Needed(String),
}
