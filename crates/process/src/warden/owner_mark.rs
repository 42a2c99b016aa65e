//! Owner marks: they tell which dynamic-mcp, and which of its upstreams, a process belongs to.
//!
//! Every upstream has two marks, which its descendants inherit over fork, exec and setsid. The variable
//! `DYNAMIC_MCP_OWNER` in its environment names the owner completely. A resource limit (`rlimit_mark`) survives an
//! emptied environment, but has room for two numbers only.
//!
//! A warden process has its mark as an argument: its environment cannot be read, and if our process is an upstream
//! itself, its limit is the mark of that upstream.

use std::ffi::OsString;

use super::rlimit_mark;
pub(super) use crate::launch::OWNER_VAR;
use base::procfs::{self, ProcStat};

/// The first argument of a warden process. Another name than ours, so that `pkill -f dynamic-mcp` does not kill it: it
/// then cleans up.
pub(super) const WARDEN_NAME: &str = "dmcp-warden";

/// Identifies a dynamic-mcp process among all that ever ran on this machine. Pids and even start times are reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerId {
    /// The process id.
    pub(super) pid: i32,
    /// As in [`ProcStat`].
    starttime: u64,
    /// The id of the boot, because pids and start times begin again with each one.
    boot_id: String,
    /// In another pid namespace the same pid is another process.
    pid_namespace: String,
}

impl OwnerId {
    /// Identifies the running process `pid` of our own pid namespace.
    pub(super) fn of_process(pid: i32) -> Self {
        Self {
            pid,
            starttime: procfs::stat(pid).map_or(0, |process| process.starttime),
            boot_id: procfs::boot_id(),
            pid_namespace: procfs::pid_namespace("self").unwrap_or_default(),
        }
    }

    /// Returns whether the process runs. One that has exited and was not reaped does not.
    pub(super) fn is_running(&self) -> bool {
        ProcStat::is_running(self.pid, self.starttime)
    }

    /// Returns the value of [`OWNER_VAR`] for the upstream `id`. With the id 0, it is the argument that marks a warden.
    pub(super) fn var_value(&self, id: u64) -> OsString {
        let Self { pid, starttime, boot_id, pid_namespace } = self;
        format!("{pid}/{starttime}/{boot_id}/{pid_namespace}/{id}").into()
    }

    fn parse_var(value: &str) -> Option<(Self, u64)> {
        let mut parts = value.split('/');
        let mut next = || parts.next();
        let pid = next()?.parse().ok()?;
        let starttime = next()?.parse().ok()?;
        let owner = Self { pid, starttime, boot_id: next()?.to_owned(), pid_namespace: next()?.to_owned() };
        let id = next()?.parse().ok()?;
        parts.next().is_none().then_some((owner, id))
    }

    /// Returns the owner of a warden process; `None` if the process is none.
    pub(super) fn of_warden(pid: i32) -> Option<Self> {
        let args = procfs::cmdline(pid).ok()?;
        let mark = args.last().filter(|_| args.first().is_some_and(|name| name == WARDEN_NAME))?;
        Self::parse_var(mark.to_str()?).map(|(owner, _)| owner)
    }

    /// Returns whether a process is in the pid namespace of this owner.
    pub(super) fn shares_namespace_with(&self, pid: i32) -> bool {
        procfs::pid_namespace(pid).is_some_and(|namespace| namespace == self.pid_namespace)
    }

    /// Returns whether this owner is certainly dead. `current` is an owner that runs now.
    ///
    /// Nothing is certain about an owner of another pid namespace.
    pub(super) fn is_dead(&self, current: &Self) -> bool {
        self.pid_namespace == current.pid_namespace && (self.boot_id != current.boot_id || !self.is_running())
    }
}

/// The mark of a process.
pub(super) enum OwnerMark {
    /// The owner, and the id of its upstream.
    Env(OwnerId, u64),
    /// The pid of the owner, and the low bits of the id of its upstream. When that owner ran is not known.
    Rlimit(i32, u64),
}

impl OwnerMark {
    /// Reads the mark of a process, if it has one that we may read.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let from_env = || {
            let (owner, id) = OwnerId::parse_var(procfs::environ(pid).ok()?.var(OWNER_VAR)?)?;
            Some(Self::Env(owner, id))
        };
        let from_rlimit = || rlimit_mark::read(pid).map(|(owner_pid, id)| Self::Rlimit(owner_pid, id));
        from_env().or_else(from_rlimit)
    }

    /// Returns the pid of the owner.
    pub(super) fn owner_pid(&self) -> i32 {
        match self {
            Self::Env(owner, _) => owner.pid,
            Self::Rlimit(pid, _) => *pid,
        }
    }

    /// Returns the id of the upstream, if it is one of `owner`.
    pub(super) fn upstream_of(&self, owner: &OwnerId) -> Option<u64> {
        match self {
            Self::Env(marked, id) => (marked == owner).then_some(*id),
            Self::Rlimit(pid, id) => (*pid == owner.pid).then_some(*id),
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_dead_only_when_no_process_can_be_it() {
        let current = OwnerId::of_process(std::process::id().cast_signed());
        let (parsed, id) = OwnerId::parse_var(current.var_value(42).to_str().unwrap()).unwrap();
        assert_eq!((&parsed, id), (&current, 42));
        assert!(!current.is_dead(&current));
        let later = current.starttime + 1;
        assert!(OwnerId { starttime: later, ..current.clone() }.is_dead(&current));
        assert!(OwnerId { boot_id: "earlier".into(), ..current.clone() }.is_dead(&current));
        let foreign = OwnerId { pid_namespace: "1".into(), starttime: later, ..current.clone() };
        assert!(!foreign.is_dead(&current));
    }

    #[test]
    fn malformed_variables_are_ignored() {
        for malformed in ["", "1/2/b/n", "1/2/b/n/3/4", "x/2/b/n/3", "uuid"] {
            assert!(OwnerId::parse_var(malformed).is_none(), "{malformed}");
        }
    }
}
