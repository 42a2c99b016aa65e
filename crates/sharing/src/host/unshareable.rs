//! The servers that turned out not to be shareable.

use crate::attach::ServerIdentity;
use parking_lot::Mutex;
use process::runtime_dir::RuntimeDir;
use std::collections::HashMap;
use std::path::PathBuf;

/// The servers that turned out not to be shareable, by program and arguments. They are remembered in the runtime
/// directory, too, for later hosts.
pub(super) struct Unshareable {
    dir: RuntimeDir,
    /// The reasons that this host found out, by the path of their file.
    known: Mutex<HashMap<PathBuf, String>>,
}

impl Unshareable {
    pub(super) fn new(dir: RuntimeDir) -> Self {
        Self { dir, known: Mutex::default() }
    }

    pub(super) fn add(&self, identity: &ServerIdentity, reason: &str) {
        let mark = self.mark(identity);
        if self.known.lock().insert(mark.clone(), reason.to_owned()).is_some() {
            return;
        }
        // Without it, the next host finds out again.
        if let Err(error) = std::fs::write(mark, reason) {
            tracing::debug!(%error, "failed to remember that a server is not shareable");
        }
    }

    /// Returns why a server must not be shared.
    pub(super) fn reason(&self, identity: &ServerIdentity) -> Option<String> {
        let mark = self.mark(identity);
        let known = self.known.lock().get(&mark).cloned();
        known.or_else(|| std::fs::read_to_string(mark).ok())
    }

    fn mark(&self, identity: &ServerIdentity) -> PathBuf {
        self.dir.unshareable_mark(&identity.program, &identity.args)
    }
}
