//! Follows config files: tells when their content may have changed, however it was saved.
//!
//! The directories are watched, not the files: editors replace files, and a watch of the file would follow the old
//! one. Where a file is a link, the directories it leads through are watched too, since one of those links may be what
//! changes. A save is many events, so one is told once things are quiet.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Without an event for so long, a save is over.
const QUIET: Duration = Duration::from_millis(150);
/// However many events there are, the files are looked at after so long.
const LONGEST: Duration = Duration::from_secs(2);
/// Where the system cannot watch (some network file systems), the files are looked at so often.
const POLL: Duration = Duration::from_secs(2);

pub struct Follower {
    files: Vec<PathBuf>,
    happened: Arc<Notify>,
    /// `None`: the system cannot watch.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    last: Vec<Option<Vec<u8>>>,
}

impl Follower {
    pub fn new(files: Vec<PathBuf>) -> Self {
        let happened = Arc::new(Notify::new());
        let tell = happened.clone();
        let watcher = notify::recommended_watcher(move |_| tell.notify_one());
        let watcher =
            watcher.inspect_err(|error| tracing::debug!(%error, "the system cannot watch files")).ok();
        let last = contents(&files);
        let mut follower = Self { files, happened, watcher, watched: BTreeSet::new(), last };
        follower.watch();
        follower
    }

    /// Returns when the content of a file is another than when this last returned. Cancel-safe but for the wait.
    pub async fn changed(&mut self) {
        loop {
            if self.watcher.is_some() {
                self.happened.notified().await;
                let quiet = async { while timeout(QUIET, self.happened.notified()).await.is_ok() {} };
                drop(timeout(LONGEST, quiet).await);
            } else {
                sleep(POLL).await;
            }
            // A link may lead elsewhere now, and a directory may be there that was not.
            self.watch();
            let now = contents(&self.files);
            if now != self.last {
                self.last = now;
                return;
            }
        }
    }

    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted: BTreeSet<_> = self.files.iter().flat_map(|file| directories(file)).collect();
        for gone in self.watched.difference(&wanted) {
            watcher.unwatch(gone).ok();
        }
        let mut watched = BTreeSet::new();
        for dir in wanted {
            // Watching again what is watched follows a directory that was replaced.
            match watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(dir);
                }
                Err(error) => tracing::debug!(dir = %dir.display(), %error, "cannot watch this directory"),
            }
        }
        self.watched = watched;
    }
}

fn contents(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok()).collect()
}

/// The directory of `file` and of everything it leads to; of a missing directory, the nearest that exists.
fn directories(file: &Path) -> Vec<PathBuf> {
    /// As many links as Linux follows.
    const LINKS: usize = 40;
    let mut directories = Vec::new();
    let mut path = file.to_owned();
    for _ in 0..LINKS {
        let parent =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let existing = parent.ancestors().find(|dir| dir.is_dir());
        directories.extend(existing.map(Path::to_owned));
        // A directory on the way may be the link (as Kubernetes swaps `..data`).
        if let Ok(real) = parent.canonicalize() {
            directories.push(real);
        }
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = parent.join(target);
    }
    directories
}
