//! What calls leave in the process of a server and in its working directory.

use base::blocking;
use base::procfs;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// A directory with more files is not watched.
const MAX_FILES: usize = 5000;
/// How many files a finding names.
const MAX_NAMED: usize = 3;
/// The bits of `flags` in /proc/PID/fdinfo/FD that say that a file is open for writing (O_WRONLY, O_RDWR).
const WRITES: u32 = 3;
/// The state of a socket that listens, in /proc/PID/net/tcp.
const LISTENS: &str = "0A";

/// The state of the processes of a server. Empty where there is no /proc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessTraces {
    /// The processes, with their names.
    processes: BTreeMap<i32, String>,
    /// The working directory and the umask of each.
    settings: BTreeMap<i32, (PathBuf, Option<String>)>,
    /// The files that are open for writing.
    written_files: BTreeSet<PathBuf>,
    /// The TCP ports on which they listen.
    ports: BTreeSet<u16>,
}

/// The files below a directory, with their sizes and times. `None`: there are too many.
pub(super) type DirectoryFiles = Option<BTreeMap<PathBuf, (u64, Option<SystemTime>)>>;

/// Looks at a process with its descendants, and at the files below a directory.
///
/// # Errors
///
/// It took more than `LOOK_TIMEOUT`. The text says so.
pub(super) async fn look(pid: u32, dir: &Path) -> Result<(ProcessTraces, DirectoryFiles), String> {
    let dir = dir.to_owned();
    let work = move || (ProcessTraces::read(pid.cast_signed()), files_below(&dir));
    blocking::run(LOOK_TIMEOUT, work)
        .await
        .map_err(|error| format!("the look at its process and files {error}"))
}

impl ProcessTraces {
    fn read(pid: i32) -> Self {
        let mut traces = Self::default();
        let parents: Vec<_> = procfs::processes().filter(|process| !process.is_zombie).collect();
        let mut open = vec![pid];
        while let Some(pid) = open.pop() {
            if traces.processes.insert(pid, procfs::name(pid).unwrap_or_default()).is_some() {
                continue;
            }
            open.extend(parents.iter().filter(|process| process.ppid == pid).map(|process| process.pid));
            let umask = procfs::status(pid).ok().and_then(|status| status.value("Umask").map(str::to_owned));
            if let Ok(cwd) = procfs::link(pid, "cwd") {
                traces.settings.insert(pid, (cwd, umask));
            }
            traces.read_files(pid);
        }
        traces
    }

    fn read_files(&mut self, pid: i32) {
        let mut sockets = BTreeSet::new();
        let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
        for fd in entries.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
            let Ok(target) = procfs::link(pid, format_args!("fd/{fd}")) else { continue };
            let name = target.to_string_lossy();
            if let Some(inode) = name.strip_prefix("socket:[").and_then(|name| name.strip_suffix(']')) {
                sockets.insert(inode.to_owned());
            }
            let info = procfs::text(pid, format_args!("fdinfo/{fd}")).unwrap_or_default();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or_default();
            let is_file =
                name.starts_with('/') && (!name.starts_with("/dev/") || name.starts_with("/dev/shm/"));
            if flags & WRITES != 0 && is_file {
                self.written_files.insert(target);
            }
        }
        for file in ["net/tcp", "net/tcp6"] {
            let table = procfs::text(pid, file).unwrap_or_default();
            self.ports.extend(table.lines().filter_map(|line| listening_port(line, &sockets)));
        }
    }

    /// Returns what differs in `now`, or is wrong in it; `None` if that is nothing.
    pub(super) fn left(&self, now: &Self) -> Option<String> {
        if let Some(port) = now.ports.first() {
            return Some(format!("it listens on port {port}"));
        }
        for (pid, (cwd, umask)) in &self.settings {
            match now.settings.get(pid) {
                Some((new, _)) if new != cwd => {
                    return Some(format!(
                        "a call changes its working directory to {}",
                        base::text::path(new)
                    ));
                }
                Some((_, new)) if new != umask => return Some("a call changes its umask".to_owned()),
                _ => {}
            }
        }
        let new: Vec<_> = now.written_files.difference(&self.written_files).collect();
        if !new.is_empty() {
            return Some(format!("calls leave files open for writing: {}", named(new)));
        }
        let left = now.processes.iter().find(|(pid, _)| !self.processes.contains_key(pid));
        left.map(|(_, name)| format!("calls leave a process running: {name}"))
    }
}

/// Returns the port of a line of /proc/PID/net/tcp, if one of these sockets listens there.
fn listening_port(line: &str, sockets: &BTreeSet<String>) -> Option<u16> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_one = *fields.get(3)? == LISTENS && sockets.contains(*fields.get(9)?);
    u16::from_str_radix(fields[1].rsplit(':').next()?, 16).ok().filter(|_| is_one)
}

/// Returns the files below a directory. Links are not followed.
fn files_below(dir: &Path) -> DirectoryFiles {
    let (mut files, mut open) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            match metadata.is_dir() {
                true => open.push(entry.path()),
                false => drop(files.insert(entry.path(), (metadata.len(), metadata.modified().ok()))),
            }
            if files.len() + open.len() > MAX_FILES {
                return None;
            }
        }
    }
    Some(files)
}

/// Returns which files were written, added or removed; `None` if none was, or if they are too many to tell.
pub(super) fn written(before: &DirectoryFiles, now: &DirectoryFiles) -> Option<String> {
    let (Some(before), Some(now)) = (before, now) else { return None };
    let all: BTreeSet<&PathBuf> = before.keys().chain(now.keys()).collect();
    let changed: Vec<_> = all.into_iter().filter(|file| before.get(*file) != now.get(*file)).collect();
    (!changed.is_empty()).then(|| named(changed))
}

fn named(files: Vec<&PathBuf>) -> String {
    base::text::joined_up_to(MAX_NAMED, files.into_iter().map(|file| base::text::path(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trace_is_told_and_nothing_else_is() {
        let before = ProcessTraces {
            processes: [(7, "node".to_owned())].into(),
            settings: [(7, ("/a".into(), Some("0022".to_owned())))].into(),
            written_files: ["/log".into()].into(),
            ports: [].into(),
        };
        assert_eq!(before.left(&before), None);
        let with = |change: fn(&mut ProcessTraces)| {
            let mut now = before.clone();
            change(&mut now);
            before.left(&now).unwrap_or_default()
        };
        assert!(with(|now| now.ports = [80].into()).ends_with("on port 80"));
        assert!(with(|now| now.settings.get_mut(&7).unwrap().0 = "/b".into()).ends_with("directory to /b"));
        assert!(with(|now| now.settings.get_mut(&7).unwrap().1 = None).ends_with("its umask"));
        assert!(with(|now| now.written_files = ["/c".into()].into()).ends_with("writing: /c"));
        assert!(with(|now| drop(now.processes.insert(9, "sh".to_owned()))).ends_with("running: sh"));
        assert_eq!(with(|now| now.written_files.clear()), "");
    }

    #[test]
    fn only_a_port_of_the_process_counts() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 0 100";
        assert_eq!(listening_port(line, &["4711".to_owned()].into()), Some(8080));
        assert_eq!(listening_port(line, &["1".to_owned()].into()), None);
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 "), &["4711".to_owned()].into()), None);
    }

    #[test]
    fn a_file_that_is_written_is_named() {
        let dir = tempfile::TempDir::new().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let before = files_below(dir.path());
        assert_eq!(written(&before, &files_below(dir.path())), None);
        fs::write(dir.path().join("sub/a"), "x").unwrap();
        assert!(written(&before, &files_below(dir.path())).unwrap().ends_with("sub/a"));
        assert_eq!(written(&None, &before), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_process_is_read() {
        let dir = tempfile::TempDir::new().unwrap();
        let pid = std::process::id().cast_signed();
        let before = ProcessTraces::read(pid);
        assert_eq!(before.settings[&pid].0, std::env::current_dir().unwrap());
        let file = fs::File::create(dir.path().join("open")).unwrap();
        assert!(ProcessTraces::read(pid).written_files.contains(&dir.path().join("open")));
        drop(file);
    }
}
