//! Follows config files: tells when their content may have changed, however it was saved.
//!
//! The directories are watched, not the files: editors replace files, and a watch of the file would follow the old
//! one. Where a file is a link, the directories it leads through are watched too, since one of those links may be what
//! changes. A save is many events, so one is told once things are quiet.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::future::pending;
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

/// Files are looked at in a thread that may block: a slow disk holds up nobody who calls.
pub struct Follower {
    happened: Arc<Notify>,
    /// `None` while they are looked at.
    files: Option<Files>,
}

struct Files {
    paths: Vec<PathBuf>,
    watching: Watching,
    last: Vec<Option<Vec<u8>>>,
}

enum Watching {
    NotYet,
    /// These directories.
    By(RecommendedWatcher, BTreeSet<PathBuf>),
    /// The system does not.
    Polling,
}

impl Follower {
    /// What is another after this will be told, so the files are to be read after this.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let last = contents(&paths);
        Self { happened: Arc::default(), files: Some(Files { paths, watching: Watching::NotYet, last }) }
    }

    /// Returns when the content of a file is another than when this last returned. Not to be called again after it
    /// was dropped halfway.
    pub async fn changed(&mut self) {
        loop {
            match self.files.as_ref().map(|files| &files.watching) {
                // Something may have changed before it was watched.
                Some(Watching::NotYet) => {}
                Some(Watching::By(..)) => {
                    self.happened.notified().await;
                    let quiet = async { while timeout(QUIET, self.happened.notified()).await.is_ok() {} };
                    drop(timeout(LONGEST, quiet).await);
                }
                Some(Watching::Polling) => sleep(POLL).await,
                None => return pending().await,
            }
            let (Some(mut files), happened) = (self.files.take(), self.happened.clone()) else { continue };
            let looked = tokio::task::spawn_blocking(move || (files.look(&happened), files));
            let Ok((changed, files)) = looked.await else { continue };
            self.files = Some(files);
            if changed {
                return;
            }
        }
    }
}

impl Files {
    /// Whether a content is another than the last time.
    fn look(&mut self, happened: &Arc<Notify>) -> bool {
        // A link may lead elsewhere now, and a directory may be there that was not.
        self.watch(happened);
        let now = contents(&self.paths);
        let changed = now != self.last;
        self.last = now;
        changed
    }

    fn watch(&mut self, happened: &Arc<Notify>) {
        if matches!(self.watching, Watching::NotYet) {
            let tell = happened.clone();
            self.watching = match notify::recommended_watcher(move |_| tell.notify_one()) {
                Ok(watcher) => Watching::By(watcher, BTreeSet::new()),
                Err(error) => {
                    tracing::debug!(%error, "the system cannot watch files");
                    Watching::Polling
                }
            };
        }
        let Watching::By(watcher, watched) = &mut self.watching else { return };
        let wanted: BTreeSet<_> = self.paths.iter().flat_map(|file| directories(file)).collect();
        for gone in watched.difference(&wanted) {
            watcher.unwatch(gone).ok();
        }
        watched.clear();
        for dir in wanted {
            // Watching again what is watched follows a directory that was replaced.
            match watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(dir);
                }
                Err(error) => tracing::debug!(dir = %dir.display(), %error, "cannot watch this directory"),
            }
        }
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
