//! Takes the place of `with_proc` where no /proc shows what a launcher starts: every server is started as written.

use super::effect::LauncherUse;
use crate::launch::Launch;
use config::{Launcher, StdioConfig};
use std::path::PathBuf;

/// Knows nothing.
#[derive(Clone, Default)]
pub struct NoDirectLaunches(());

/// How a server was started without its launcher. There is none.
pub struct NoStartRecord {
    written: Launch,
    /// Whether the server was started without the launcher.
    pub is_direct: bool,
}

impl NoDirectLaunches {
    /// Keeps nothing.
    pub fn new(_dir: Option<PathBuf>) -> Self {
        Self(())
    }

    /// Returns what the config says.
    pub async fn choose(
        &self,
        _launcher: Launcher,
        _stdio: &StdioConfig,
        written: Launch,
    ) -> (Launch, Option<NoStartRecord>) {
        (written, None)
    }
}

impl NoStartRecord {
    /// Returns the launch as the config has it.
    pub fn configured_launch(&self) -> Launch {
        self.written.clone()
    }

    /// Learns nothing.
    pub async fn learn(&self, _pid: u32) -> LauncherUse {
        LauncherUse::Needed("only Linux shows what a launcher starts".to_owned())
    }

    /// Has nothing to forget.
    pub async fn forget(&self) {}
}

/// Nothing is known.
pub fn server_of_launcher(_pid: u32) -> Option<u32> {
    None
}
