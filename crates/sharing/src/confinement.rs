//! What confines a process: its user and groups, its capabilities, its namespaces, and everything else that sandboxes
//! change.
//!
//! A server in the host runs with the rights of the host. If the host had more rights than the instance that uses the
//! server, it would be a way out of a sandbox; if they were fewer, the server would fail where a private one works. So
//! both ends compare each other with themselves and share nothing if anything differs or cannot be read. All of it is
//! read from /proc (see proc(5)); other systems than Linux share nothing.
//!
//! Namespaces and the root directory can be read only of a process that is dumpable. The host reads them of the attach
//! helper (`attach_helper`). Instances cannot read them of the host, which is not dumpable; they compare the rest. With
//! CAP_SYS_PTRACE they can.
//!
//! Seccomp filters are counted, because /proc does not tell which they are, and nothing tells of a Landlock sandbox. That
//! is enough for processes that could add neither without `no_new_privs`: what they have was there before they started,
//! as in a container. A process with CAP_SYS_ADMIN can add both. So one that has it shares only without any filter, and
//! only if it can look at the host, as no process in a Landlock sandbox can.

use super::attach::Declined;
use super::cgroup_limits;
use base::procfs;
use std::collections::BTreeMap;
use std::fmt::Display;

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
/// CAP_SYS_ADMIN in a set of capabilities, see capabilities(7).
const SYS_ADMIN: u64 = 1 << 21;
/// The files that show a user namespace, see user_namespaces(7). Every process of the user can read them.
const ID_MAPS: [&str; 2] = ["uid_map", "gid_map"];
/// Limits that differ for other reasons: the warden marks its processes with this one, and instances raise the other.
const IGNORED_LIMITS: [&str; 2] = ["Max realtime timeout", "Max open files"];

/// What confines a process. Two processes with equal values have the same rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// What any process of the user can read.
    rights: BTreeMap<String, String>,
    /// The namespaces and the root directory.
    places: BTreeMap<String, String>,
}

impl Confinement {
    /// Reads what confines our own process.
    ///
    /// # Errors
    ///
    /// Fails if anything cannot be read.
    pub(crate) fn read_own() -> Result<Self, Declined> {
        Self::read("self")
    }

    fn read(pid: impl Display + Copy) -> Result<Self, Declined> {
        Ok(Self { rights: read_rights(pid)?, places: read_places(pid)? })
    }

    /// Returns whether a process of these rights can sandbox itself without `no_new_privs`.
    pub(crate) fn has_sys_admin(&self) -> bool {
        ["CapPrm", "CapEff"].into_iter().any(|name| {
            let set = u64::from_str_radix(self.right(name), 16);
            set.is_ok_and(|set| set & SYS_ADMIN != 0)
        })
    }

    fn right(&self, name: &str) -> &str {
        self.rights.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Checks that a process of these rights may share anything: no one has taken rights from it, it has none from a
    /// set-user-ID program, and every process with this number of seccomp filters has the same ones.
    ///
    /// # Errors
    ///
    /// Fails with the reason if it may not.
    pub(crate) fn check_unconfined(&self) -> Result<(), Declined> {
        if self.right("NoNewPrivs") != "0" {
            return Err(Declined::new("this process runs in a sandbox (NoNewPrivs)"));
        }
        let has_filters = self.right("Seccomp") != "0" || self.right("Seccomp_filters") != "0";
        if has_filters && self.has_sys_admin() {
            return Err(Declined::new(
                "this process has CAP_SYS_ADMIN and a seccomp filter, which may be its own",
            ));
        }
        for name in ["Uid", "Gid"] {
            let mut ids = self.right(name).split_whitespace();
            let first = ids.next();
            if first.is_none() || ids.any(|id| Some(id) != first) {
                return Err(Declined::new(format!(
                    "the real and the effective {name} of this process differ"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the process that connected to us has exactly our rights, and no limit that we lack. `pid` and `uid`
    /// are its credentials as the kernel tells them.
    ///
    /// # Errors
    ///
    /// Fails with the reason if it has not.
    pub(crate) fn check_client(&self, pid: Option<i32>, uid: u32) -> Result<(), Declined> {
        let pid = checked_pid(pid, uid)?;
        let client = Self::read(pid)?;
        equal(&self.rights, &client.rights)?;
        equal(&self.places, &client.places)?;
        cgroup_limits::check(pid)
    }

    /// Checks that the host has our rights, by everything that /proc and the socket show of them. With CAP_SYS_ADMIN
    /// all of them must be readable. `pid` and `uid` are its credentials, as in [`check_client`](Self::check_client).
    ///
    /// # Errors
    ///
    /// Fails with the reason if it has not.
    pub(crate) fn check_host(&self, pid: Option<i32>, uid: u32) -> Result<(), Declined> {
        let host = checked_pid(pid, uid)?;
        equal(&self.rights, &read_rights(host)?)?;
        if self.has_sys_admin() { equal(&self.places, &read_places(host)?) } else { Ok(()) }
    }
}

/// Returns the pid of a process of our user, given its credentials.
///
/// # Errors
///
/// Fails if the process is of another user or in another pid namespace.
fn checked_pid(pid: Option<i32>, uid: u32) -> Result<i32, Declined> {
    if uid != nix::unistd::geteuid().as_raw() {
        return Err(Declined::new("the other process belongs to another user"));
    }
    pid.ok_or_else(|| Declined::new("the other process is in another pid namespace"))
}

fn unreadable(what: &str) -> Declined {
    Declined::new(format!("cannot read {what} of the other process"))
}

/// Reads what any process of the user can read: users, groups, capabilities, limits and the like.
///
/// # Errors
///
/// Fails if any of it cannot be read, but for the label of a security module.
fn read_rights(pid: impl Display + Copy) -> Result<BTreeMap<String, String>, Declined> {
    let mut rights = BTreeMap::new();
    let status = procfs::status(pid).map_err(|_| unreadable("the status"))?;
    for name in STATUS_LINES {
        let value = status.value(name).ok_or_else(|| unreadable(name))?;
        rights.insert(name.to_owned(), value.to_owned());
    }
    let pids = status.value("NSpid").ok_or_else(|| unreadable("NSpid"))?;
    rights.insert("NSpid".to_owned(), pids.split_whitespace().count().to_string());
    // Without a security module the file is missing or cannot be read.
    let label = procfs::text(pid, "attr/current").unwrap_or_default();
    rights.insert("security label".to_owned(), label);
    for name in ID_MAPS {
        let map = procfs::text(pid, name).map_err(|_| unreadable("the user namespace"))?;
        rights.insert(name.to_owned(), map);
    }
    let limits = procfs::limits(pid).map_err(|_| unreadable("the limits"))?;
    rights.extend(limits.into_iter().filter(|(name, _)| !IGNORED_LIMITS.contains(&name.as_str())));
    Ok(rights)
}

/// Reads the namespaces that our kernel has, and the root directory.
///
/// # Errors
///
/// Fails if one cannot be read.
fn read_places(pid: impl Display + Copy) -> Result<BTreeMap<String, String>, Declined> {
    let mut places = BTreeMap::new();
    for name in NAMESPACES {
        let file = format!("ns/{name}");
        if procfs::link("self", &file).is_err() {
            continue;
        }
        let link = procfs::link(pid, &file).map_err(|_| unreadable("the namespaces"))?;
        places.insert(format!("{name} namespace"), link.to_string_lossy().into_owned());
    }
    let root = procfs::link(pid, "root").map_err(|_| unreadable("the root directory"))?;
    places.insert("root directory".to_owned(), root.to_string_lossy().into_owned());
    Ok(places)
}

/// Checks that two processes have equal values.
///
/// # Errors
///
/// Fails with the name of the first value that differs or that one of them lacks.
fn equal(own: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Result<(), Declined> {
    let differs = |(name, value)| other.get(name) != Some(value);
    let missing = || other.keys().find(|name| !own.contains_key(*name));
    let difference = own.iter().find(|entry| differs(*entry)).map(|(name, _)| name).or_else(missing);
    match difference {
        Some(what) => Err(Declined::new(format!("the two processes differ in: {what}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_rights() {
        let own = Confinement::read_own().unwrap();
        let (pid, uid) = (std::process::id().cast_signed(), nix::unistd::geteuid().as_raw());
        for check in [Confinement::check_client, Confinement::check_host] {
            check(&own, Some(pid), uid).unwrap();
            assert!(check(&own, Some(pid), uid + 1).is_err());
            assert!(check(&own, Some(0), uid).is_err());
            assert!(check(&own, None, uid).is_err());
        }
    }

    #[test]
    fn every_value_counts() {
        let own = Confinement::read_own().unwrap();
        assert!(own.rights.len() > 20 && own.places.len() > 5, "{own:?}");
        for values in [&own.rights, &own.places] {
            for name in values.keys() {
                let mut other = values.clone();
                other.insert(name.clone(), "other".to_owned());
                let reason = equal(values, &other).unwrap_err().0;
                assert_eq!(reason, format!("the two processes differ in: {name}"));
                other.remove(name);
                assert_eq!(equal(values, &other).unwrap_err().0, reason);
                assert_eq!(equal(&other, values).unwrap_err().0, reason);
            }
        }
    }

    #[test]
    fn a_sandbox_and_a_setuid_program_are_confined() {
        let plain = |changes: &[(&str, &str)]| {
            let mut values = BTreeMap::from(
                [
                    ("NoNewPrivs", "0"),
                    ("Uid", "5\t5\t5\t5"),
                    ("Gid", "6\t6\t6\t6"),
                    ("CapPrm", "00000000a80425fb"),
                    ("CapEff", "0000000000000000"),
                    ("Seccomp", "0"),
                    ("Seccomp_filters", "0"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            );
            values.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            Confinement { rights: values, places: BTreeMap::new() }.check_unconfined()
        };
        plain(&[]).unwrap();
        for change in [("NoNewPrivs", "1"), ("Uid", "5\t0\t0\t0"), ("Gid", "6\t6\t7\t6"), ("Uid", "")] {
            assert!(plain(&[change]).is_err(), "{change:?}");
        }
        // Filters count only beside CAP_SYS_ADMIN: the capabilities of a container do not have it.
        let (filter, count) = (("Seccomp", "2"), ("Seccomp_filters", "1"));
        plain(&[filter, count]).unwrap();
        for capable in [("CapPrm", "0000000000200000"), ("CapEff", "000001ffffffffff")] {
            plain(&[capable]).unwrap();
            for confined in [&[capable, filter][..], &[capable, count], &[capable, ("Seccomp", "1")]] {
                assert!(plain(confined).is_err(), "{confined:?}");
            }
        }
    }
}
