//! Watches config files, and the files that they name, and reports when their content may have changed, however they were
//! saved.
//!
//! The directories are watched rather than the files: editors replace a file, and a watch of the file would follow the
//! old one. If a file or a directory on its way is a symbolic link, the directories of the link and of its target are watched
//! too, because any link on the way may change. A save causes many events, so a change is reported only after the events have stopped.

use super::referenced::FileStamp;
use base::blocking;
use base::files::{self, MAX_CONFIG_BYTES};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// A save is over when no event has come for this long.
const QUIET_PERIOD: Duration = Duration::from_millis(150);
/// How long a stream of events may delay a look at the files.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// The interval between looks where the system cannot watch files, as on some network file systems.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// After how long a look at the files is logged as one that hangs.
const LOOK_TIMEOUT: Duration = Duration::from_secs(15);
/// How many symbolic links are followed; the same number as in Linux.
const MAX_SYMLINKS: usize = 40;

/// Watches config files. The files are read on a thread that may block, so a slow disk delays nothing else.
pub struct ConfigWatcher {
    /// Notified of each event that may concern the files.
    event: Arc<Notify>,
    /// The config files.
    paths: Vec<PathBuf>,
    /// `None` while the files are read on another thread.
    files: Option<WatchedFiles>,
}

struct WatchedFiles {
    /// The config files.
    paths: Vec<PathBuf>,
    /// The watch on the directories of the files.
    watch: Watch,
    /// The names of all files and directories on the way to the files, to ignore events of their neighbors.
    names: Arc<Mutex<BTreeSet<OsString>>>,
    /// The content of each file when it was last read; `None` if it could not be read or is a FIFO.
    contents: Vec<Option<Vec<u8>>>,
    /// The files that the config names, as they were when they were last seen. Their content is not read here.
    referenced: BTreeMap<PathBuf, FileStamp>,
    /// Whether `referenced` may name files that are not watched yet.
    is_incomplete: bool,
}

/// How changes are noticed.
enum Watch {
    /// Nothing is watched yet.
    NotStarted,
    /// The system reports events in these directories.
    Events(RecommendedWatcher, BTreeSet<PathBuf>),
    /// The system cannot watch files, so they are read at intervals.
    Polling,
}

impl ConfigWatcher {
    /// Starts to watch these files. Reports every change after this call, so load the files afterwards. Blocks.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let contents = read_all(&paths);
        let files = WatchedFiles::new(&paths, Watch::NotStarted, contents);
        Self { event: Arc::default(), paths, files: Some(files) }
    }

    /// Sets the files that the config names, in place of those of the last call. `changed` reports every change since
    /// the stamps were taken.
    pub fn set_referenced(&mut self, referenced: BTreeMap<PathBuf, FileStamp>) {
        if let Some(files) = &mut self.files {
            (files.referenced, files.is_incomplete) = (referenced, true);
        }
    }

    /// Has the next `changed` return after a look at the files, whatever it sees: what was reported could not be read.
    pub fn report_again(&mut self) {
        if let Some(files) = &mut self.files {
            files.contents.clear();
            files.is_incomplete = true;
        }
    }

    /// Waits until the content of a file differs from what it was when this last returned. While the file system hangs,
    /// so does the look at the files, and it goes on with the file system.
    ///
    /// Not cancel safe: once its future was dropped, later calls may never return.
    pub async fn changed(&mut self) {
        loop {
            // A file may have changed before it was watched.
            let is_incomplete = self.files.as_ref().is_some_and(|files| files.is_incomplete);
            match self.files.as_ref().map(|files| &files.watch) {
                Some(Watch::NotStarted) => {}
                _ if is_incomplete => {}
                Some(Watch::Events(..)) => {
                    self.event.notified().await;
                    let quiet = async { while timeout(QUIET_PERIOD, self.event.notified()).await.is_ok() {} };
                    drop(timeout(MAX_DELAY, quiet).await);
                }
                Some(Watch::Polling) => sleep(POLL_INTERVAL).await,
                None => return pending().await,
            }
            let (Some(mut files), event) = (self.files.take(), self.event.clone()) else { continue };
            let look = blocking::run(Duration::MAX, move || (files.refresh(&event), files));
            let mut look = pin!(look);
            let looked = match timeout(LOOK_TIMEOUT, &mut look).await {
                Ok(looked) => looked,
                Err(_) => {
                    let after = LOOK_TIMEOUT.as_secs();
                    tracing::warn!(
                        "a look at the config files takes longer than {after} s; until it ends, no change is noticed"
                    );
                    // Another look would hang as well, and take one more thread.
                    look.await
                }
            };
            match looked {
                Ok((changed, files)) => {
                    self.files = Some(files);
                    if changed {
                        return;
                    }
                }
                Err(_) => self.files = Some(WatchedFiles::new(&self.paths, Watch::Polling, Vec::new())),
            }
        }
    }
}

impl WatchedFiles {
    fn new(paths: &[PathBuf], watch: Watch, contents: Vec<Option<Vec<u8>>>) -> Self {
        Self {
            paths: paths.to_owned(),
            watch,
            names: Arc::default(),
            contents,
            referenced: BTreeMap::new(),
            is_incomplete: false,
        }
    }

    /// Reads the files again. Returns whether the content of one has changed. Blocks.
    fn refresh(&mut self, event: &Arc<Notify>) -> bool {
        // A link may have a new target, and a missing directory may exist now.
        self.update_watch(event);
        self.is_incomplete = false;
        let contents = read_all(&self.paths);
        let mut changed = contents != self.contents;
        self.contents = contents;
        for (path, stamp) in &mut self.referenced {
            let seen = std::mem::replace(stamp, FileStamp::of(path));
            changed |= seen != *stamp;
        }
        changed
    }

    /// Watches the directories that lead to the files now.
    fn update_watch(&mut self, event: &Arc<Notify>) {
        let routes: Vec<_> =
            self.paths.iter().chain(self.referenced.keys()).map(|file| route_to(file)).collect();
        let names = routes.iter().flat_map(|route| &route.names).cloned().collect();
        *self.names.lock() = names;
        if matches!(self.watch, Watch::NotStarted) {
            self.watch = self.start_watch(event.clone());
        }
        let Watch::Events(watcher, watched) = &mut self.watch else { return };
        let wanted: BTreeSet<_> = routes.into_iter().flat_map(|route| route.directories).collect();
        for gone in watched.difference(&wanted) {
            watcher.unwatch(gone).ok();
        }
        watched.clear();
        for dir in wanted {
            // Even if the path is watched: the directory may have been replaced.
            match watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(dir);
                }
                Err(error) => {
                    tracing::debug!(dir = %dir.display(), %error, "cannot watch the directory of a config file");
                }
            }
        }
    }

    fn start_watch(&self, event: Arc<Notify>) -> Watch {
        // The watcher panics if its thread cannot be started.
        if !blocking::can_start_threads() {
            tracing::debug!("the limit of threads is reached, so config files are polled");
            return Watch::Polling;
        }
        let names = self.names.clone();
        let watcher = notify::recommended_watcher(move |result: notify::Result<Event>| {
            let names = names.lock();
            if result.map_or(true, |event| may_change_files(&event, &names)) {
                event.notify_one();
            }
        });
        match watcher {
            Ok(watcher) => Watch::Events(watcher, BTreeSet::new()),
            Err(error) => {
                tracing::debug!(%error, "cannot watch files, so config files are polled");
                Watch::Polling
            }
        }
    }
}

/// Reads the files; `None` for one that cannot be read. A FIFO is not read, because only `load` may take what was
/// written to it. Blocks.
fn read_all(paths: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    paths.iter().map(|path| files::read_regular(path, MAX_CONFIG_BYTES).ok()).collect()
}

/// Returns whether a file may have changed by this event. Reading is no change, and we read the files ourselves.
fn may_change_files(event: &Event, names: &BTreeSet<OsString>) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        _ => {}
    }
    let is_on_route = |path: &PathBuf| path.file_name().is_none_or(|name| names.contains(name));
    event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(is_on_route)
}

/// The way to a file through directories and symbolic links.
#[derive(Default)]
struct Route {
    /// The directories of every link on the way, of its target, and of the file. A missing directory counts as its nearest
    /// ancestor that exists.
    directories: Vec<PathBuf>,
    /// The names of all files and directories on the way. Each of them may be a link.
    names: BTreeSet<OsString>,
}

fn route_to(file: &Path) -> Route {
    let mut route = Route::default();
    let mut path = file.to_owned();
    for _ in 0..=MAX_SYMLINKS {
        route.names.extend(path.iter().map(OsString::from));
        let watched = parent_of(&path).ancestors().find(|dir| dir.is_dir()).map(Path::to_owned);
        route.directories.extend(watched);
        // The outermost link first, as the system does. A directory on the way may be the link, such as the `..data` that
        // Kubernetes replaces.
        let ancestors: Vec<_> = path.ancestors().collect();
        let mut links = ancestors.into_iter().rev();
        let link = links.find_map(|link| Some((link, std::fs::read_link(link).ok()?)));
        let Some((link, target)) = link else { break };
        route.directories.push(parent_of(link).to_owned());
        let target = parent_of(link).join(target);
        path = match path.strip_prefix(link) {
            Ok(rest) if !rest.as_os_str().is_empty() => target.join(rest),
            _ => target,
        };
    }
    route
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, Flag, ModifyKind};

    #[test]
    fn a_look_that_hangs_goes_on_later() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("servers.json");
        std::fs::write(&file, "{}").unwrap();
        let mut watcher = ConfigWatcher::new(vec![file.clone()]);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(1).start_paused(true).build().unwrap();
        runtime.block_on(async {
            // The only thread is busy, as with a file system that hangs.
            let (release, busy) = std::sync::mpsc::channel::<()>();
            let hung = tokio::task::spawn_blocking(move || busy.recv());
            let changed = tokio::spawn(async move { watcher.changed().await });
            tokio::task::yield_now().await;
            for _ in 0..3 {
                tokio::time::advance(LOOK_TIMEOUT).await;
                tokio::task::yield_now().await;
            }
            std::fs::write(&file, "{\"mcpServers\": {}}").unwrap();
            release.send(()).unwrap();
            hung.await.unwrap().unwrap();
            changed.await.unwrap();
        });
    }

    #[test]
    fn events_of_neighbors_and_readers_are_ignored() {
        let names = route_to(Path::new("/nowhere/etc/servers.json")).names;
        let on = |kind, path: &str| Event::new(kind).add_path(path.into());
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = |mode| EventKind::Access(AccessKind::Close(mode));
        for (event, expected) in [
            (on(written, "/nowhere/etc/servers.json"), true),
            (on(written, "/nowhere/etc/other.log"), false),
            (on(written, "./servers.json"), true),
            (on(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/nowhere/etc/servers.json"), false),
            (on(closed(AccessMode::Read), "/nowhere/etc/servers.json"), false),
            (on(closed(AccessMode::Write), "/nowhere/etc/servers.json"), true),
            (on(written, "/nowhere/etc/servers.json.tmp").add_path("/nowhere/etc/servers.json".into()), true),
            // A directory on the way is created.
            (on(EventKind::Create(CreateKind::Folder), "/nowhere/etc"), true),
            (Event::new(EventKind::Other).set_flag(Flag::Rescan), true),
        ] {
            assert_eq!(may_change_files(&event, &names), expected, "{event:?}");
        }
    }
}
