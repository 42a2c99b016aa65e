//! What confines a process: its user and groups, its capabilities, its namespaces, and whatever else sandboxes change.
//!
//! A server in the host runs with the rights of the host. If these were more than those of the instance that uses the
//! server, the host would be a way out of a sandbox; if they were fewer, the server would fail where a private one
//! works. So both ends compare each other with themselves ([`Confinement::difference`]) and share nothing if anything
//! differs or cannot be read. All of it is read from /proc (see proc(5)); other systems than Linux share nothing.

use super::attach::Declined;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The lines of /proc/PID/status that are compared.
const STATUS_LINES: [&str; 12] = [
    "Uid",
    "Gid",
    "Groups",
    "Umask",
    "Seccomp",
    "Seccomp_filters",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
];
/// The namespaces that are compared, see namespaces(7). An older kernel has fewer.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];
/// Limits that differ for other reasons: the warden marks its processes with this one, and instances raise the other.
const IGNORED_LIMITS: [&str; 2] = ["Max realtime timeout", "Max open files"];

/// What confines a process. Two processes with equal values have the same rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement(BTreeMap<String, String>);

impl Confinement {
    /// Reads what confines the process `pid`, by default our own.
    ///
    /// # Errors
    ///
    /// Fails if anything cannot be read.
    pub fn read(pid: Option<i32>) -> Result<Self, Declined> {
        if !cfg!(target_os = "linux") {
            return Err(Declined::new("servers are shared on Linux only"));
        }
        let process = match pid {
            Some(pid) if pid > 0 => format!("/proc/{pid}"),
            Some(_) => return Err(Declined::new("the other process is in another pid namespace")),
            None => "/proc/self".to_owned(),
        };
        let process = Path::new(&process);
        let unreadable = |what: &str| Declined::new(format!("cannot read {what} of the other process"));
        let mut values = BTreeMap::new();
        let status = fs::read_to_string(process.join("status")).map_err(|_| unreadable("the status"))?;
        for name in STATUS_LINES {
            let value = status_value(&status, name).ok_or_else(|| unreadable(name))?;
            values.insert(name.to_owned(), value.to_owned());
        }
        let pids = status_value(&status, "NSpid").ok_or_else(|| unreadable("NSpid"))?;
        values.insert("NSpid".to_owned(), pids.split_whitespace().count().to_string());
        for name in NAMESPACES.iter().filter(|name| Path::new("/proc/self/ns").join(name).exists()) {
            let link =
                fs::read_link(process.join("ns").join(name)).map_err(|_| unreadable("the namespaces"))?;
            values.insert(format!("{name} namespace"), link.to_string_lossy().into_owned());
        }
        let root = fs::read_link(process.join("root")).map_err(|_| unreadable("the root directory"))?;
        values.insert("root directory".to_owned(), root.to_string_lossy().into_owned());
        // Without a security module the file is missing or cannot be read.
        let label = fs::read_to_string(process.join("attr/current")).unwrap_or_default();
        values.insert("security label".to_owned(), label);
        let limits = fs::read_to_string(process.join("limits")).map_err(|_| unreadable("the limits"))?;
        for line in limits.lines().skip(1) {
            let (name, value) = line.split_at_checked(26).ok_or_else(|| unreadable("the limits"))?;
            if !IGNORED_LIMITS.contains(&name.trim()) {
                values.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
        Ok(Self(values))
    }

    /// Checks that a process of these rights may share anything: no one has taken rights from it, and it has none from a
    /// set-user-ID program.
    ///
    /// # Errors
    ///
    /// Fails with the reason if it may not.
    pub fn check_unconfined(&self) -> Result<(), Declined> {
        let value = |name: &str| self.0.get(name).map(String::as_str).unwrap_or_default();
        if value("NoNewPrivs") != "0" {
            return Err(Declined::new("this process runs in a sandbox (NoNewPrivs)"));
        }
        for name in ["Uid", "Gid"] {
            let mut ids = value(name).split_whitespace();
            let first = ids.next();
            if first.is_none() || ids.any(|id| Some(id) != first) {
                return Err(Declined::new(format!(
                    "the real and the effective {name} of this process differ"
                )));
            }
        }
        Ok(())
    }

    /// Returns the name of the first value that differs.
    pub fn difference<'c>(&'c self, other: &'c Self) -> Option<&'c str> {
        self.0
            .iter()
            .find(|(name, value)| other.0.get(*name) != Some(value))
            .map(|(name, _)| name.as_str())
            .or_else(|| other.0.keys().find(|name| !self.0.contains_key(*name)).map(String::as_str))
    }

    /// Checks that the process at the other end of a socket has exactly our rights. `pid` and `uid` are its credentials
    /// as the kernel tells them.
    ///
    /// # Errors
    ///
    /// Fails with the reason if it has not.
    pub fn check_peer(&self, pid: Option<i32>, uid: u32) -> Result<(), Declined> {
        if uid != nix::unistd::geteuid().as_raw() {
            return Err(Declined::new("the other process belongs to another user"));
        }
        let other = Self::read(Some(pid.unwrap_or_default()))?;
        match self.difference(&other) {
            Some(what) => Err(Declined::new(format!("the two processes differ in: {what}"))),
            None => Ok(()),
        }
    }
}

/// Returns the value of a line of /proc/PID/status.
fn status_value<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_rights() {
        let own = Confinement::read(None).unwrap();
        let pid = std::process::id().cast_signed();
        own.check_peer(Some(pid), nix::unistd::geteuid().as_raw()).unwrap();
        assert!(own.check_peer(Some(pid), nix::unistd::geteuid().as_raw() + 1).is_err());
        assert!(own.check_peer(Some(0), nix::unistd::geteuid().as_raw()).is_err());
        assert!(own.check_peer(None, nix::unistd::geteuid().as_raw()).is_err());
    }

    #[test]
    fn every_value_counts() {
        let own = Confinement::read(None).unwrap();
        assert!(own.0.len() > 25, "{own:?}");
        for name in own.0.keys() {
            let mut other = own.clone();
            other.0.insert(name.clone(), "other".to_owned());
            assert_eq!(own.difference(&other), Some(name.as_str()));
            other.0.remove(name);
            assert_eq!(own.difference(&other), Some(name.as_str()));
            assert_eq!(other.difference(&own), Some(name.as_str()));
        }
    }

    #[test]
    fn a_sandbox_and_a_setuid_program_are_confined() {
        let plain = |changes: &[(&str, &str)]| {
            let mut values = BTreeMap::from(
                [("NoNewPrivs", "0"), ("Uid", "5\t5\t5\t5"), ("Gid", "6\t6\t6\t6")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
            values.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            Confinement(values).check_unconfined()
        };
        plain(&[]).unwrap();
        for change in [("NoNewPrivs", "1"), ("Uid", "5\t0\t0\t0"), ("Gid", "6\t6\t7\t6"), ("Uid", "")] {
            assert!(plain(&[change]).is_err(), "{change:?}");
        }
    }
}
