//! The owner mark in a resource limit: the soft RLIMIT_RTTIME.
//!
//! The kernel applies this limit to threads with a real-time policy only, so its value can hold other data. It has
//! `4d43` in the two highest bytes, then 22 bits for the pid of the owner (Linux has no greater pids) and 26 bits for
//! the id of the upstream.

const MAGIC: u64 = 0x4d43;
const ID_BITS: u32 = 26;
const PID_BITS: u32 = 22;

/// Returns the value of the limit for an upstream.
pub(super) fn encode(owner_pid: i32, id: u64) -> u64 {
    let low_bits = |value: u64, bits: u32| value & ((1 << bits) - 1);
    let pid = u64::from(owner_pid.unsigned_abs());
    MAGIC << (ID_BITS + PID_BITS) | low_bits(pid, PID_BITS) << ID_BITS | low_bits(id, ID_BITS)
}

/// Reads the pid of the owner and the low bits of the upstream's id from the limit of a process.
pub(super) fn read(pid: i32) -> Option<(i32, u64)> {
    let [soft, _] = prlimit_rttime(pid, None)?;
    let owner_pid = i32::try_from(soft >> ID_BITS & ((1 << PID_BITS) - 1)).ok()?;
    (soft >> (ID_BITS + PID_BITS) == MAGIC).then_some((owner_pid, soft & ((1 << ID_BITS) - 1)))
}

/// Sets the soft limit of the calling process. Async-signal-safe.
///
/// Ignores errors: a lower hard limit is the only cause, and the mark in the environment remains.
pub(super) fn set(value: u64) {
    if let Some([_, hard]) = prlimit_rttime(0, None) {
        prlimit_rttime(0, Some([value, hard]));
    }
}

/// Calls prlimit(2) and returns the previous soft and hard limit.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe wrapper reads the limits of another process")]
fn prlimit_rttime(pid: i32, new: Option<[u64; 2]>) -> Option<[u64; 2]> {
    let mut old = [0_u64; 2];
    let new = new.as_ref().map_or(std::ptr::null(), |new| new.as_ptr());
    // SAFETY: prlimit64 reads and writes a `struct rlimit64`, two u64 on every architecture. `new` is null or points to
    // two that live until the call returns, as does `old`.
    let result = unsafe {
        libc::syscall(libc::SYS_prlimit64, pid, libc::RLIMIT_RTTIME as libc::c_int, new, old.as_mut_ptr())
    };
    (result == 0).then_some(old)
}

/// Other systems have no such limit, or no way to read another process's limit.
#[cfg(not(target_os = "linux"))]
fn prlimit_rttime(_pid: i32, _new: Option<[u64; 2]>) -> Option<[u64; 2]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_the_greatest_pid_and_a_large_id() {
        assert_eq!(encode(4_194_303, (1 << 26) - 1), 0x4d43_ffff_ffff_ffff);
        assert_eq!(encode(1, 2), 0x4d43_0000_0400_0002);
    }
}
