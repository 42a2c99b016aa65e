//! The limits of a process's control groups (cgroups(7)): how many processes, how much memory and processor time.
//!
//! A shared server runs in the group of the host. It must not escape from a limit of the group of the instance that uses
//! it. Limits of the host that are stricter do not count: they are no way out of anything.

use super::attach::Declined;
use base::procfs::{self, Cgroup, Mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Version 1 reports a larger number, which depends on the size of a page, where memory has no limit.
const UNLIMITED_MEMORY: u64 = 1 << 62;

/// The limits of a process: of its group and of all groups above. `u64::MAX`: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CgroupLimits {
    /// Processes and threads.
    processes: u64,
    /// Bytes of memory: that at which the kernel kills (`memory.max`), or that at which it slows the group down until
    /// memory is given back (`memory.high`), if that is less.
    memory: u64,
    /// Nanoseconds of processor time in a second.
    cpu: u64,
}

impl CgroupLimits {
    const NONE: Self = Self { processes: u64::MAX, memory: u64::MAX, cpu: u64::MAX };

    /// Both limits hold.
    fn and(self, other: Self) -> Self {
        Self {
            processes: self.processes.min(other.processes),
            memory: self.memory.min(other.memory),
            cpu: self.cpu.min(other.cpu),
        }
    }

    /// Returns what is limited more than in `other`, if anything is.
    fn stricter_than(&self, other: &Self) -> Option<&'static str> {
        let kinds = [
            ("processes", self.processes < other.processes),
            ("memory", self.memory < other.memory),
            ("processor time", self.cpu < other.cpu),
        ];
        kinds.into_iter().find(|(_, is_stricter)| *is_stricter).map(|(kind, _)| kind)
    }
}

/// Checks that no limit of the process `pid` is stricter than our own.
///
/// # Errors
///
/// Fails with the reason if one is, or if one cannot be read.
pub(super) fn check(pid: i32) -> Result<(), Declined> {
    let unreadable = |_| Declined::new("the control groups cannot be read");
    let own = procfs::cgroups("self").map_err(unreadable)?;
    let other = procfs::cgroups(pid).map_err(unreadable)?;
    compare(&own, &other, &procfs::own_mounts().map_err(unreadable)?, &read_limit_file)
}

/// Reads a file of a group. Returns `None` if the group is there and has no file of this name, and thus not this limit.
///
/// # Errors
///
/// Fails if the group is not there, or if the file cannot be read.
fn read_limit_file(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // The directory tells a group that is not there from a file that is not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

type ReadFile<'f> = &'f dyn Fn(&Path) -> io::Result<Option<String>>;

/// Checks that no limit of the `other` process is stricter than our own, given the groups of both and our mounts.
///
/// # Errors
///
/// Fails with the reason if one is, or if one cannot be read.
fn compare(own: &[Cgroup], other: &[Cgroup], mounts: &[Mount], read: ReadFile<'_>) -> Result<(), Declined> {
    let (mut own_limits, mut other_limits) = (CgroupLimits::NONE, CgroupLimits::NONE);
    for group in other.iter().filter(|group| has_limits(group)) {
        let ours = own.iter().find(|ours| ours.hierarchy == group.hierarchy);
        let ours = ours.ok_or_else(|| Declined::new("the control groups of the host are of another kind"))?;
        // What limits both equally need not be read.
        if ours.path != group.path {
            own_limits = own_limits.and(limits(ours, mounts, read)?);
            other_limits = other_limits.and(limits(group, mounts, read)?);
        }
    }
    match other_limits.stricter_than(&own_limits) {
        Some(kind) => Err(Declined::new(format!("a control group limits {kind} more than the host's does"))),
        None => Ok(()),
    }
}

fn is_version_2(group: &Cgroup) -> bool {
    group.controllers.is_empty()
}

fn controls(group: &Cgroup, controller: &str) -> bool {
    group.controllers.iter().any(|name| name == controller)
}

/// Returns whether a group can have a limit that is compared.
fn has_limits(group: &Cgroup) -> bool {
    is_version_2(group) || ["pids", "memory", "cpu"].into_iter().any(|name| controls(group, name))
}

/// Returns the strictest limits of a group and those above.
///
/// # Errors
///
/// Fails if the group is not visible here, or one of its limits cannot be read.
fn limits(group: &Cgroup, mounts: &[Mount], read: ReadFile<'_>) -> Result<CgroupLimits, Declined> {
    let unreadable =
        || Declined::new(format!("the limits of the control group {} cannot be read", group.path));
    let (mount_point, directory) = directory(group, mounts).ok_or_else(unreadable)?;
    let mut limits = CgroupLimits::NONE;
    for dir in directory.ancestors().take_while(|dir| dir.starts_with(mount_point)) {
        limits = limits.and(limits_of(group, dir, read).ok_or_else(unreadable)?);
    }
    Ok(limits)
}

/// Returns where the hierarchy of a group is mounted, and the directory of the group.
fn directory<'m>(group: &Cgroup, mounts: &'m [Mount]) -> Option<(&'m Path, PathBuf)> {
    mounts.iter().find_map(|mount| {
        let is_ours = match mount.kind.as_str() {
            "cgroup2" => is_version_2(group),
            "cgroup" => {
                !is_version_2(group) && group.controllers.iter().all(|name| mount.options.contains(name))
            }
            _ => false,
        };
        // A container without a cgroup namespace sees paths of the system, and a part of the hierarchy.
        let below = Path::new(&group.path).strip_prefix(&mount.root).ok().filter(|_| is_ours)?;
        let is_visible = !below.components().any(|part| part == std::path::Component::ParentDir);
        is_visible.then(|| (mount.mount_point.as_path(), mount.mount_point.join(below)))
    })
}

/// Returns the limits of one group, in its directory or one above; `None` if they cannot be read.
fn limits_of(group: &Cgroup, dir: &Path, read: ReadFile<'_>) -> Option<CgroupLimits> {
    let number = |file: &str| limit(read(&dir.join(file)).ok()?.as_deref());
    let mut limits = CgroupLimits::NONE;
    if is_version_2(group) {
        limits.processes = number("pids.max")?;
        limits.memory = number("memory.max")?.min(number("memory.high")?);
        let text = read(&dir.join("cpu.max")).ok()?;
        let (quota, period) = text.as_deref().unwrap_or("max 1").trim().split_once(' ')?;
        limits.cpu = cpu_share(quota, period)?;
    }
    if controls(group, "pids") {
        limits.processes = number("pids.max")?;
    }
    if controls(group, "memory") {
        let bytes = number("memory.limit_in_bytes")?;
        limits.memory = if bytes < UNLIMITED_MEMORY { bytes } else { u64::MAX };
    }
    if controls(group, "cpu") {
        let text = |file: &str| Some(read(&dir.join(file)).ok()?.unwrap_or_default());
        let (quota, period) = (text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")?);
        limits.cpu = match quota.trim() {
            "" | "-1" => u64::MAX,
            quota => cpu_share(quota, period.trim())?,
        };
    }
    Some(limits)
}

/// Reads a limit. No text: there is none.
fn limit(text: Option<&str>) -> Option<u64> {
    match text.map(str::trim) {
        None | Some("max") => Some(u64::MAX),
        Some(number) => number.parse().ok(),
    }
}

/// Returns the nanoseconds in a second, given the microseconds in a period and its length in microseconds.
fn cpu_share(quota: &str, period: &str) -> Option<u64> {
    if quota == "max" {
        return Some(u64::MAX);
    }
    let (quota, period): (u128, u128) = (quota.parse().ok()?, period.parse().ok()?);
    u64::try_from((quota * 1_000_000_000).checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        25 1 8:1 / / rw - ext4 /dev/sda rw\n\
        30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n\
        31 25 0:27 / /cg/pids rw - cgroup cgroup rw,pids\n\
        32 25 0:28 /docker/1 /cg/memory rw - cgroup cgroup rw,memory\n\
        33 25 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct";

    /// Compares two processes, given the files of the groups.
    fn compared(own: &str, other: &str, files: &[(&str, &str)]) -> Result<(), String> {
        let read = |path: &Path| {
            let text = path.to_str().unwrap();
            if let Some((_, content)) = files.iter().find(|(file, _)| *file == text) {
                return Ok(Some((*content).to_owned()));
            }
            let is_group = !text.contains("gone");
            if is_group { Ok(None) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        let (own, other) = (Cgroup::parse_all(own), Cgroup::parse_all(other));
        compare(&own, &other, &Mount::parse_all(MOUNTS), &read).map_err(|declined| declined.0)
    }

    #[test]
    fn only_a_limit_that_is_stricter_than_the_hosts_counts() {
        let (window, above) = ("/sys/fs/cgroup/a/window", "/sys/fs/cgroup/a");
        // A file of the window's group, its content, the content in the host's group, and which limit is stricter.
        let table = [
            ("pids.max", "max", "max", None),
            ("pids.max", "100", "100", None),
            ("pids.max", "100", "99", None),
            ("pids.max", "max", "99", None),
            ("pids.max", "99", "100", Some("processes")),
            ("pids.max", "99", "max", Some("processes")),
            ("memory.max", "1000", "1000", None),
            ("memory.max", "999", "1000", Some("memory")),
            ("memory.max", "9999", "max", Some("memory")),
            ("memory.high", "999", "max", Some("memory")),
            ("memory.high", "max", "5", None),
            ("cpu.max", "max 100000", "max 100000", None),
            ("cpu.max", "50000 100000", "5000 10000", None),
            ("cpu.max", "50000 100000", "60000 100000", Some("processor time")),
            ("cpu.max", "200000 100000", "max 100000", Some("processor time")),
            ("cpu.max", "200000 100000", "100000 100000", None),
        ];
        for (file, of_window, of_host, stricter) in table {
            let expected = match stricter {
                Some(kind) => Err(format!("a control group limits {kind} more than the host's does")),
                None => Ok(()),
            };
            // Its own, or inherited.
            for dir in [window, above] {
                let (of_window_file, of_host_file) =
                    (format!("{dir}/{file}"), format!("/sys/fs/cgroup/host/{file}"));
                let files = [(of_window_file.as_str(), of_window), (of_host_file.as_str(), of_host)];
                let verdict = compared("0::/host\n", "0::/a/window\n", &files);
                assert_eq!(verdict, expected, "{dir}/{file} {of_window} {of_host}");
            }
        }
        // A group below another one has its limits as well; the strictest counts.
        let files = [("/sys/fs/cgroup/a/window/pids.max", "500"), ("/sys/fs/cgroup/a/pids.max", "50")];
        assert!(compared("0::/host", "0::/a/window", &files).is_err());
        assert_eq!(compared("0::/a", "0::/a/window", &files), Ok(()));
        assert_eq!(compared("0::/a/window", "0::/a", &files), Ok(()));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let own = "3:pids:/\n2:memory:/docker/1\n1:cpu,cpuacct:/\n4:freezer:/x\n0::/";
        let other = "3:pids:/w\n2:memory:/docker/1/w\n1:cpu,cpuacct:/w\n4:freezer:/y\n0::/";
        let unlimited = "9223372036854771712";
        let table = [
            (vec![], None),
            (vec![("/cg/pids/w/pids.max", "5")], Some("processes")),
            (vec![("/cg/memory/w/memory.limit_in_bytes", unlimited)], None),
            (vec![("/cg/memory/w/memory.limit_in_bytes", "4611686018427387904")], None),
            (vec![("/cg/memory/w/memory.limit_in_bytes", "4096")], Some("memory")),
            (
                vec![
                    ("/cg/memory/w/memory.limit_in_bytes", "4096"),
                    ("/cg/memory/memory.limit_in_bytes", "4096"),
                ],
                None,
            ),
            (vec![("/cg/cpu/w/cpu.cfs_quota_us", "-1"), ("/cg/cpu/w/cpu.cfs_period_us", "100000")], None),
            (
                vec![("/cg/cpu/w/cpu.cfs_quota_us", "500"), ("/cg/cpu/w/cpu.cfs_period_us", "1000")],
                Some("processor time"),
            ),
        ];
        for (files, stricter) in table {
            let verdict = compared(own, other, &files);
            assert_eq!(verdict.is_err(), stricter.is_some(), "{files:?} {verdict:?}");
            assert!(stricter.is_none_or(|kind| verdict.unwrap_err().contains(kind)), "{files:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_shared() {
        // The same group needs no reading.
        assert_eq!(compared("0::/gone", "0::/gone", &[]), Ok(()));
        for (own, other) in [
            ("0::/", "0::/gone"),
            ("0::/gone", "0::/"),
            ("0::/", "0::/../outside"),
            ("0::/", "7:pids:/w"),
            ("7:memory:/elsewhere", "7:memory:/docker/1"),
        ] {
            assert!(compared(own, other, &[]).is_err(), "{own} {other}");
        }
        for (file, content) in [("pids.max", "many"), ("cpu.max", "50000"), ("cpu.max", "5 0")] {
            let path = format!("/sys/fs/cgroup/w/{file}");
            assert!(compared("0::/", "0::/w", &[(&path, content)]).is_err(), "{file} {content}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_limits_are_not_stricter_than_our_own() {
        check(std::process::id().cast_signed()).unwrap();
        assert!(check(i32::MAX).is_err(), "there is no such process");
    }

    #[test]
    fn a_group_without_a_file_has_no_such_limit_and_a_group_that_is_gone_cannot_be_read() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("pids.max"), "7\n").unwrap();
        assert_eq!(read_limit_file(&group.path().join("pids.max")).unwrap().as_deref(), Some("7\n"));
        assert_eq!(read_limit_file(&group.path().join("memory.max")).unwrap(), None);
        assert!(read_limit_file(&group.path().join("gone/pids.max")).is_err());
        fs::create_dir(group.path().join("cpu.max")).unwrap();
        assert!(read_limit_file(&group.path().join("cpu.max")).is_err(), "it is there and cannot be read");
    }
}
