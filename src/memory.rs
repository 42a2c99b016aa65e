//! How the C library's allocator returns memory to the system.
//!
//! A message of 1 MB needs buffers of that size. By default, glibc unmaps them when they are freed, or trims them off the
//! heap, and each such message pays for the pages again: a quarter of its CPU time. So freed memory stays in the process,
//! up to [`KEPT`]. What a burst needed beyond that is returned as soon as it is freed.

/// How many free bytes at the end of the heap the process keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: libc::c_int = 4 << 20;
/// Buffers above this size in bytes are mapped one by one, and unmapped when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: libc::c_int = 4 << 20;

/// Keeps the memory of large buffers for the next ones. To be called before threads are started.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt has no safe wrapper")
)]
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [(libc::M_TRIM_THRESHOLD, KEPT), (libc::M_MMAP_THRESHOLD, MAPPED)] {
        // SAFETY: it sets a number in the allocator, and no other thread runs. A failure leaves the default.
        let _is_set = unsafe { libc::mallopt(parameter, value) };
    }
}
