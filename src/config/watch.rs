//! Follows config files: tells when their content may have changed, however it was saved.
//!
//! The directories are watched, not the files: editors replace files, and a watch of the file would follow the old
//! one. Where a file is a link, the directories it leads through are watched too, since one of those links may be what
//! changes. A save is many events, so one is told once things are quiet.

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::OsString;
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
pub struct ConfigWatcher {
    happened: Arc<Notify>,
    /// `None` while they are looked at.
    files: Option<Files>,
}

struct Files {
    paths: Vec<PathBuf>,
    watching: Watching,
    /// What is on the way to the files. Other things happen in their directories as well.
    names: Arc<Mutex<BTreeSet<OsString>>>,
    last: Vec<Option<Vec<u8>>>,
}

enum Watching {
    NotYet,
    /// These directories.
    By(RecommendedWatcher, BTreeSet<PathBuf>),
    /// The system does not.
    Polling,
}

impl ConfigWatcher {
    /// What is another after this will be told, so the files are to be read after this.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let last = contents(&paths);
        let files = Files { paths, watching: Watching::NotYet, names: Arc::default(), last };
        Self { happened: Arc::default(), files: Some(files) }
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
        let ways: Vec<_> = self.paths.iter().map(|file| way(file)).collect();
        let names = ways.iter().flat_map(|way| &way.names).cloned().collect();
        *self.names.lock() = names;
        if matches!(self.watching, Watching::NotYet) {
            let (tell, names) = (happened.clone(), self.names.clone());
            let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
                let names = names.lock();
                if event.map_or(true, |event| concerns(&event, &names)) {
                    tell.notify_one();
                }
            });
            self.watching = match watcher {
                Ok(watcher) => Watching::By(watcher, BTreeSet::new()),
                Err(error) => {
                    tracing::debug!(%error, "the system cannot watch files");
                    Watching::Polling
                }
            };
        }
        let Watching::By(watcher, watched) = &mut self.watching else { return };
        let wanted: BTreeSet<_> = ways.into_iter().flat_map(|way| way.directories).collect();
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

/// Whether a config may be another after this. That a file is read is none of it: we do that ourselves.
fn concerns(event: &Event, names: &BTreeSet<OsString>) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        _ => {}
    }
    let named = |path: &PathBuf| path.file_name().is_none_or(|name| names.contains(name));
    event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(named)
}

/// Where a file is.
#[derive(Default)]
struct Way {
    /// Its directory and those of everything it leads to; of a missing directory, the nearest that exists.
    directories: Vec<PathBuf>,
    /// All that is named on the way: any of it may be a link.
    names: BTreeSet<OsString>,
}

fn way(file: &Path) -> Way {
    /// As many links as Linux follows.
    const LINKS: usize = 40;
    let mut way = Way::default();
    let mut path = file.to_owned();
    for _ in 0..LINKS {
        way.names.extend(path.iter().map(OsString::from));
        let parent =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let existing = parent.ancestors().find(|dir| dir.is_dir());
        way.directories.extend(existing.map(Path::to_owned));
        // A directory on the way may be the link (as Kubernetes swaps `..data`).
        if let Ok(real) = parent.canonicalize() {
            way.names.extend(real.iter().map(OsString::from));
            way.directories.push(real);
        }
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = parent.join(target);
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, Flag, ModifyKind};

    #[test]
    fn neighbours_and_readers_are_no_reason_to_look() {
        let names = way(Path::new("/nowhere/etc/servers.json")).names;
        let on = |kind, path: &str| Event::new(kind).add_path(path.into());
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = |mode| EventKind::Access(AccessKind::Close(mode));
        for (event, is_ours) in [
            (on(written, "/nowhere/etc/servers.json"), true),
            (on(written, "/nowhere/etc/other.log"), false),
            (on(written, "./servers.json"), true),
            (on(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/nowhere/etc/servers.json"), false),
            (on(closed(AccessMode::Read), "/nowhere/etc/servers.json"), false),
            (on(closed(AccessMode::Write), "/nowhere/etc/servers.json"), true),
            (on(written, "/nowhere/etc/servers.json.tmp").add_path("/nowhere/etc/servers.json".into()), true),
            // A directory on the way that was not there.
            (on(EventKind::Create(CreateKind::Folder), "/nowhere/etc"), true),
            (Event::new(EventKind::Other).set_flag(Flag::Rescan), true),
        ] {
            assert_eq!(concerns(&event, &names), is_ours, "{event:?}");
        }
    }
}
