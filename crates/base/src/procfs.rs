//! Reads what Linux tells about processes in /proc, see proc(5). Other systems have no such files.
//!
//! `pid` is the number of a process, or `self` for our own. Two reads are of two moments: in between, the process may end
//! and another one may get its pid. Everything here blocks.

use crate::files::read_to_limit;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// More than exec accepts as arguments and environment, 6 MB (execve(2)), and than the other files have.
const MAX_BYTES: u64 = 16 << 20;

/// The flag of a process that is exiting, see include/linux/sched.h of Linux.
const PF_EXITING: u32 = 4;

/// Executes the file that our process was started from, even if another file has taken its place since.
pub const OWN_EXE: &str = "/proc/self/exe";

/// The fields of /proc/PID/stat that are used, with the names of proc_pid_stat(5).
#[derive(Clone, Copy, Debug)]
pub struct ProcStat {
    /// The process id.
    pub pid: i32,
    /// The pid of the parent.
    pub ppid: i32,
    /// The process group.
    pub pgrp: i32,
    /// The session.
    pub session: i32,
    /// The start time in clock ticks since boot. Distinguishes processes that had the same pid.
    pub starttime: u64,
    /// Whether a signal or a debugger has stopped it.
    pub is_stopped: bool,
    /// Whether it is about to exit (PF_EXITING) or has exited.
    pub is_exiting: bool,
    /// Whether it has exited and was not reaped.
    pub is_zombie: bool,
}

impl ProcStat {
    /// Creates the record of a process that is only known to lead a session of its own.
    pub fn session_leader(pid: i32) -> Self {
        Self {
            pid,
            ppid: 0,
            pgrp: pid,
            session: pid,
            starttime: 0,
            is_stopped: false,
            is_exiting: false,
            is_zombie: false,
        }
    }

    /// Returns whether the process of this pid and start time runs. One that has exited and was not reaped does not.
    pub fn is_running(pid: i32, starttime: u64) -> bool {
        stat(pid).is_some_and(|process| process.starttime == starttime && !process.is_zombie)
    }

    fn parse(pid: i32, text: &[u8]) -> Option<Self> {
        // The name is in parentheses and may hold any byte, including parentheses and spaces.
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let fields = str::from_utf8(text.get(name_end + 2..)?).ok()?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            pid,
            is_stopped: matches!(fields.first(), Some(&"T" | &"t")),
            is_zombie: matches!(fields.first(), Some(&"Z" | &"X")),
            ppid: number(1)?,
            pgrp: number(2)?,
            session: number(3)?,
            is_exiting: fields.get(6)?.parse::<u32>().ok()? & PF_EXITING != 0,
            starttime: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns /proc/PID/stat; `None` once the process was reaped, and without a /proc.
pub fn stat(pid: i32) -> Option<ProcStat> {
    ProcStat::parse(pid, &read(pid, "stat").ok()?)
}

/// Returns whether a process is exiting or has exited, so that its files are closed or about to be, although its parent
/// may not know yet. `false` on a system without such a /proc.
pub fn is_exiting(pid: i32) -> bool {
    cfg!(target_os = "linux") && stat(pid).is_none_or(|process| process.is_exiting)
}

/// Returns every process, including zombies.
pub fn processes() -> impl Iterator<Item = ProcStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
}

/// Returns the pids of a process's children, including zombies. Empty if the kernel keeps no such lists
/// ([`kernel_lists_children`]).
pub fn children(pid: impl Display) -> Vec<i32> {
    // Each thread has the children that it forked.
    let threads = fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN, which is usually on).
pub fn kernel_lists_children() -> bool {
    fs::exists(path("self", format_args!("task/{}/children", std::process::id()))).unwrap_or(false)
}

/// Returns the name of a process, which the kernel cuts after 15 bytes; `None` if there is no such process.
pub fn name(pid: impl Display) -> Option<String> {
    Some(text(pid, "comm").ok()?.trim().to_owned())
}

/// Returns the command line of a process: its program and its arguments. Every user can read it. Empty if the process has
/// exited and was not reaped.
///
/// # Errors
///
/// Fails if there is no such process.
pub fn cmdline(pid: impl Display) -> io::Result<Vec<OsString>> {
    Ok(words(&read(pid, "cmdline")?).map(os_string).collect())
}

/// The environment that a process was executed with. Not `Debug`: the values may be secrets.
pub struct Environ(Vec<u8>);

impl Environ {
    /// Returns the value of a variable; `None` if it is not set or not UTF-8. Of several, the first counts.
    pub fn var(&self, name: &str) -> Option<&str> {
        let mut values =
            words(&self.0).filter_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        str::from_utf8(values.next()?).ok()
    }

    /// Returns the variables with their values. Entries that are no variables are left out.
    pub fn vars(&self) -> impl Iterator<Item = (OsString, OsString)> {
        words(&self.0).filter_map(|word| {
            let at = word.iter().position(|byte| *byte == b'=')?;
            Some((os_string(&word[..at]), os_string(&word[at + 1..])))
        })
    }

    /// Returns the number of entries. A program that sets its title may write over them, so that some are no variables.
    pub fn entries(&self) -> usize {
        words(&self.0).count()
    }
}

/// Returns the environment that a process of our user was executed with.
///
/// # Errors
///
/// Fails if the environment may not be read, or is empty, as it is after the process has exited.
pub fn environ(pid: impl Display) -> io::Result<Environ> {
    match read(pid, "environ")? {
        bytes if bytes.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        bytes => Ok(Environ(bytes)),
    }
}

/// Lines such as `Name: value`.
pub struct ProcFields(String);

impl ProcFields {
    /// Returns a value, without the white space around it; `None` if there is none.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    }

    /// Returns an amount of memory in bytes. Zero if it is not told.
    pub fn bytes(&self, name: &str) -> u64 {
        let kilobytes = self.value(name).and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok());
        kilobytes.unwrap_or_default() << 10
    }
}

/// Returns /proc/PID/status, which every user can read.
///
/// # Errors
///
/// Fails if there is no such process.
pub fn status(pid: impl Display) -> io::Result<ProcFields> {
    text(pid, "status").map(ProcFields)
}

/// Returns the sums over the memory of a process, such as `Pss` and `Anonymous`.
///
/// # Errors
///
/// Fails if it may not be read.
pub fn smaps_rollup(pid: impl Display) -> io::Result<ProcFields> {
    text(pid, "smaps_rollup").map(ProcFields)
}

/// Returns the resource limits of a process by their names. The value of each has the soft limit, the hard limit and
/// the unit, as the file has them.
///
/// # Errors
///
/// Fails if they cannot be read.
pub fn limits(pid: impl Display) -> io::Result<Vec<(String, String)>> {
    let text = text(pid, "limits")?;
    let limits = text.lines().skip(1).map(|line| {
        let (name, value) = line.split_at_checked(26).ok_or(ErrorKind::InvalidData)?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    limits.collect()
}

/// The control group of a process in one hierarchy, see cgroups(7).
pub struct Cgroup {
    /// The number of the hierarchy.
    pub hierarchy: String,
    /// The controllers of a hierarchy of version 1. None in version 2.
    pub controllers: Vec<String>,
    /// The path of the group, from the root of our cgroup namespace.
    pub path: String,
}

impl Cgroup {
    /// Reads the lines of /proc/PID/cgroup. Others are left out.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let parse = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (hierarchy, controllers) = (parts.next()?.to_owned(), parts.next()?);
            let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            Some(Self { hierarchy, controllers: controllers.collect(), path: parts.next()?.to_owned() })
        };
        text.lines().filter_map(parse).collect()
    }
}

/// Returns the control groups of a process.
///
/// # Errors
///
/// Fails if they cannot be read.
pub fn cgroups(pid: impl Display) -> io::Result<Vec<Cgroup>> {
    Ok(Cgroup::parse_all(&text(pid, "cgroup")?))
}

/// A file system that a process sees, see proc_pid_mountinfo(5).
pub struct Mount {
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// The options of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Reads the lines of /proc/PID/mountinfo. Others are left out.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let parse = |line: &str| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(3);
            let (root, mount_point) = (mount.next()?.into(), mount.next()?.into());
            let mut file_system = file_system.split(' ');
            let (kind, options) = (file_system.next()?.to_owned(), file_system.nth(1)?);
            Some(Self { root, mount_point, kind, options: options.split(',').map(str::to_owned).collect() })
        };
        text.lines().filter_map(parse).collect()
    }
}

/// Returns the file systems that our process sees.
///
/// # Errors
///
/// Fails if they cannot be read.
pub fn own_mounts() -> io::Result<Vec<Mount>> {
    Ok(Mount::parse_all(&text("self", "mountinfo")?))
}

/// Returns where a link such as `cwd`, `exe` or `fd/0` leads to.
///
/// # Errors
///
/// Fails if it may not be read.
pub fn link(pid: impl Display, file: impl Display) -> io::Result<PathBuf> {
    fs::read_link(path(pid, file))
}

/// Returns what a process has open, under any number. Empty if that may not be read.
pub fn open_files(pid: impl Display) -> Vec<PathBuf> {
    let descriptors = fs::read_dir(path(pid, "fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).collect()
}

/// Returns the number of a process's pid namespace, see pid_namespaces(7). `None` if it may not be read.
pub fn pid_namespace(pid: impl Display) -> Option<String> {
    let link = link(pid, "ns/pid").ok()?;
    Some(link.to_string_lossy().trim_start_matches("pid:[").trim_end_matches(']').to_owned())
}

/// Returns the user id of a process; `None` if there is no such process.
#[cfg(unix)]
pub fn uid(pid: impl Display) -> Option<u32> {
    fs::metadata(path(pid, "")).ok().map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata))
}

/// Returns a random id of the current boot of the machine; empty if it cannot be read.
pub fn boot_id() -> String {
    text("sys", "kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the text of a file of a process.
///
/// # Errors
///
/// Fails if it cannot be read, or is no text.
pub fn text(pid: impl Display, file: impl Display) -> io::Result<String> {
    String::from_utf8(read(pid, file)?).map_err(|_| ErrorKind::InvalidData.into())
}

fn read(pid: impl Display, file: impl Display) -> io::Result<Vec<u8>> {
    read_to_limit(File::open(path(pid, file))?, MAX_BYTES)
}

fn path(pid: impl Display, file: impl Display) -> String {
    format!("/proc/{pid}/{file}")
}

/// Splits bytes into words that each end in a NUL.
fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = bytes.strip_suffix(&[0]).unwrap_or(bytes).split(|byte| *byte == 0);
    words.take(if bytes.is_empty() { 0 } else { usize::MAX })
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}

/// Nothing calls this, because there is no /proc.
#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_any_byte() {
        let text = b"7 (a) Z 1 2\xff(b) T 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 99 22";
        let stat = ProcStat::parse(7, text).unwrap();
        assert_eq!((stat.pid, stat.ppid, stat.pgrp, stat.session, stat.starttime), (7, 3, 4, 5, 99));
        assert!(stat.is_stopped && !stat.is_zombie && !stat.is_exiting);
        let exiting = b"7 (b) R 3 4 5 6 7 4194316 9 10 11 12 13 14 15 16 17 18 19 20 99 22";
        assert!(ProcStat::parse(7, exiting).unwrap().is_exiting);
        assert!(ProcStat::parse(7, b"7 (a) S 1 2").is_none());
        assert!(ProcStat::parse(7, b"7 (a").is_none());
    }

    #[test]
    fn words_may_be_empty() {
        let split = |bytes: &'static [u8]| words(bytes).collect::<Vec<_>>();
        assert_eq!(split(b"a\0\0b c\0"), [&b"a"[..], b"", b"b c"]);
        assert_eq!(split(b"\0"), [b""]);
        assert_eq!(split(b"a title"), [b"a title"]);
        assert!(split(b"").is_empty());
    }

    #[test]
    fn an_environment_has_entries_that_are_no_variables() {
        let environ = Environ(b"PATH=/bin\0PA=x=y\0title\0EMPTY=\0BAD=\xff\0".to_vec());
        assert_eq!((environ.var("PATH"), environ.var("PA")), (Some("/bin"), Some("x=y")));
        assert_eq!((environ.var("EMPTY"), environ.var("title"), environ.var("BAD")), (Some(""), None, None));
        assert_eq!((environ.vars().count(), environ.entries()), (4, 5));
    }

    #[test]
    fn fields_have_values() {
        let fields = ProcFields("Uid:\t5\t6\nPss_Anon:  1 kB\nPss:   12 kB\n".to_owned());
        assert_eq!((fields.value("Uid"), fields.value("Pid")), (Some("5\t6"), None));
        assert_eq!((fields.bytes("Pss"), fields.bytes("Rss")), (12 << 10, 0));
    }

    #[test]
    fn groups_and_mounts_are_lines_of_fields() {
        let groups = Cgroup::parse_all("4:cpu,cpuacct:/a:b\n0::/\nbad");
        assert_eq!(groups.len(), 2);
        assert_eq!((&*groups[0].hierarchy, &*groups[0].path, groups[0].controllers.len()), ("4", "/a:b", 2));
        assert!(groups[1].controllers.is_empty());
        let mounts = Mount::parse_all("30 23 0:26 /r /cg rw shared:4 - cgroup2 none rw,nsdelegate\nbad");
        assert_eq!(mounts.len(), 1);
        assert_eq!((mounts[0].root.to_str(), mounts[0].mount_point.to_str()), (Some("/r"), Some("/cg")));
        assert_eq!((&*mounts[0].kind, &*mounts[0].options[1]), ("cgroup2", "nsdelegate"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[cfg_attr(miri, ignore = "to read all of /proc takes minutes")]
    fn our_own_process_is_read() {
        let pid = std::process::id().cast_signed();
        let own = stat(pid).unwrap();
        assert!(!is_exiting(pid) && is_exiting(0));
        assert!(ProcStat::is_running(pid, own.starttime) && !ProcStat::is_running(pid, own.starttime + 1));
        assert!(processes().any(|process| process.pid == pid));
        assert!(own.ppid == 0 || !kernel_lists_children() || children(own.ppid).contains(&pid));
        assert_eq!(cmdline(pid).unwrap(), std::env::args_os().collect::<Vec<_>>());
        assert!(environ("self").unwrap().entries() > 0);
        assert!(smaps_rollup("self").unwrap().bytes("Anonymous") > 0);
        assert_eq!(status("self").unwrap().value("Pid"), Some(&*pid.to_string()));
        assert!(limits("self").unwrap().iter().any(|(name, _)| name == "Max open files"));
        assert!(!cgroups("self").unwrap().is_empty() && !own_mounts().unwrap().is_empty());
        assert_eq!(link("self", "exe").unwrap(), std::env::current_exe().unwrap());
        assert!(open_files("self").contains(&link("self", "fd/0").unwrap()));
        assert_eq!(uid("self"), uid(pid));
        assert!(!boot_id().is_empty() && pid_namespace("self").unwrap().parse::<u64>().is_ok());
        assert!(name("self").is_some() && stat(0).is_none());
    }
}
