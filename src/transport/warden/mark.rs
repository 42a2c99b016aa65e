//! How a process says whose it is, to somebody who finds it later.
//!
//! Every upstream bears two marks, and its descendants inherit them over fork, exec and setsid: a variable in
//! its environment, which names everything, and its soft RLIMIT_RTTIME (counted by real-time threads only, so
//! the value is free), which survives an emptied environment but has room for two numbers only.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::scan;

pub(super) const VARIABLE: &str = "DYNAMIC_MCP_OWNER";

/// One dynamic-mcp among all that ever ran here: pids and even start times come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) pid: i32,
    start: u64,
    boot: String,
    /// The pid namespace: elsewhere the same pid is another process.
    namespace: String,
}

impl Owner {
    /// The running process `pid` of our own pid namespace.
    pub(super) fn of(pid: i32) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            pid,
            start: scan::stat(pid).map_or(0, |process| process.start),
            boot: boot.trim().to_owned(),
            namespace: namespace_of(std::process::id().cast_signed()).unwrap_or_default(),
        }
    }

    /// The value of `VARIABLE` for the upstream `id`.
    pub(super) fn variable(&self, id: u64) -> OsString {
        format!("{}/{}/{}/{}/{id}", self.pid, self.start, self.boot, self.namespace).into()
    }

    fn parse(value: &str) -> Option<(Self, u64)> {
        let mut parts = value.split('/');
        let mut next = || parts.next();
        let pid = next()?.parse().ok()?;
        let start = next()?.parse().ok()?;
        let owner = Self { pid, start, boot: next()?.to_owned(), namespace: next()?.to_owned() };
        let id = next()?.parse().ok()?;
        parts.next().is_none().then_some((owner, id))
    }

    /// Whether a process is in the pid namespace of this owner.
    pub(super) fn shares_namespace(&self, pid: i32) -> bool {
        namespace_of(pid).is_some_and(|namespace| namespace == self.namespace)
    }

    /// Whether it is certain that this owner is gone. One of another namespace can never be judged.
    pub(super) fn is_dead(&self, here: &Self) -> bool {
        self.namespace == here.namespace
            && (self.boot != here.boot || scan::stat(self.pid).is_none_or(|now| now.start != self.start))
    }
}

/// What a process's marks say.
pub(super) enum Mark {
    Variable(Owner, u64),
    /// Owner's pid and the low bits of the id. Nothing tells when that owner lived.
    Limit(i32, u64),
}

impl Mark {
    /// The mark of a process, if we may read it and it has one.
    pub(super) fn read(pid: i32) -> Option<Self> {
        variable(pid).or_else(|| limit::read(pid))
    }

    /// The upstream it names, if that is one of `owner`'s.
    pub(super) fn id_of(&self, owner: &Owner) -> Option<u64> {
        match self {
            Self::Variable(whose, id) => (whose == owner).then_some(*id),
            Self::Limit(pid, id) => (*pid == owner.pid).then_some(*id),
        }
    }
}

fn variable(pid: i32) -> Option<Mark> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environ.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Owner::parse(str::from_utf8(value).ok()?).map(|(owner, id)| Mark::Variable(owner, id))
}

/// The pid namespace of a process, as a number that is the same for all in it.
fn namespace_of(pid: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    let text = String::from_utf8_lossy(link.as_os_str().as_bytes()).into_owned();
    Some(text.trim_start_matches("pid:[").trim_end_matches(']').to_owned())
}

/// The second mark: `4d43` in the two highest bytes, 22 bits of the owner's pid (Linux has no greater ones),
/// 26 bits of the id.
#[cfg(target_os = "linux")]
pub(super) mod limit {
    use super::Mark;

    const TAG: u64 = 0x4d43;
    const ID_BITS: u32 = 26;
    const PID_BITS: u32 = 22;

    pub(in super::super) fn value(owner: i32, id: u64) -> u64 {
        let low = |value: u64, bits: u32| value & ((1 << bits) - 1);
        let pid = u64::from(owner.unsigned_abs());
        TAG << (ID_BITS + PID_BITS) | low(pid, PID_BITS) << ID_BITS | low(id, ID_BITS)
    }

    pub(super) fn read(pid: i32) -> Option<Mark> {
        let [soft, _] = rttime(pid, None)?;
        let pid = i32::try_from(soft >> ID_BITS & ((1 << PID_BITS) - 1)).ok()?;
        (soft >> (ID_BITS + PID_BITS) == TAG).then_some(Mark::Limit(pid, soft & ((1 << ID_BITS) - 1)))
    }

    /// Marks the calling process. Failure is ignored: it happens under a lower hard limit only, and the other
    /// mark remains. Async-signal-safe.
    pub(in super::super) fn wear(value: u64) {
        if let Some([_, hard]) = rttime(0, None) {
            rttime(0, Some([value, hard]));
        }
    }

    /// Soft and hard RLIMIT_RTTIME of a process, as they were before `new`.
    #[expect(unsafe_code, reason = "another process's limits have no safe wrapper")]
    fn rttime(pid: i32, new: Option<[u64; 2]>) -> Option<[u64; 2]> {
        let mut old = [0_u64; 2];
        let new = new.as_ref().map_or(std::ptr::null(), |new| new.as_ptr());
        // SAFETY: prlimit64 reads and writes a `struct rlimit64`, two u64 on every architecture; `new` is
        // null or points to two that live until the call returns, as does `old`.
        let done = unsafe {
            libc::syscall(libc::SYS_prlimit64, pid, libc::RLIMIT_RTTIME as libc::c_int, new, old.as_mut_ptr())
        };
        (done == 0).then_some(old)
    }
}

/// Elsewhere there is no such limit, nor a way to read another process's.
#[cfg(not(target_os = "linux"))]
pub(super) mod limit {
    pub(in super::super) fn value(_owner: i32, _id: u64) -> u64 {
        0
    }

    pub(in super::super) fn wear(_value: u64) {}

    pub(super) fn read(_pid: i32) -> Option<super::Mark> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn me() -> Owner {
        Owner::of(std::process::id().cast_signed())
    }

    #[test]
    fn an_owner_is_dead_only_when_nobody_could_be_it() {
        let here = me();
        let (read, id) = Owner::parse(here.variable(42).to_str().unwrap()).unwrap();
        assert_eq!((&read, id), (&here, 42));
        assert!(!here.is_dead(&here));
        assert!(Owner { start: here.start + 1, ..here.clone() }.is_dead(&here));
        assert!(Owner { boot: "earlier".into(), ..here.clone() }.is_dead(&here));
        let elsewhere = Owner { namespace: "1".into(), start: here.start + 1, ..here.clone() };
        assert!(!elsewhere.is_dead(&here));
        for bad in ["", "1/2/b/n", "1/2/b/n/3/4", "x/2/b/n/3", "uuid"] {
            assert!(Owner::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_limit_holds_the_greatest_pid_and_a_large_id() {
        let value = limit::value(4_194_303, (1 << 26) - 1);
        assert_eq!(value, 0x4d43_ffff_ffff_ffff);
        assert_eq!(limit::value(1, 2), 0x4d43_0000_0400_0002);
    }
}
