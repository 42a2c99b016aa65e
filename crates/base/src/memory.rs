//! Configures which freed memory the allocator keeps, and which goes back to the system.
//!
//! A message of 1 MB needs buffers of that size. If they were returned each time, each such message would pay for its
//! pages again: a quarter of its CPU time. So some freed memory stays for the next messages. After a burst of larger
//! ones it goes back: glibc would raise its threshold for blocks with a mapping of their own to the size of the largest
//! block that was freed, up to 32 MB. From then on one small block in its heaps would keep everything below it. With
//! fixed values every larger buffer is returned as soon as it is freed. Other allocators need no advice.

/// The size from which a block is mapped by itself, and is returned when it is freed, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD: i32 = 4 << 20;
/// How much free memory a heap keeps at its end, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_THRESHOLD: i32 = 4 << 20;
/// By how much a heap grows at least, in bytes. Memory that is not used yet is not resident.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TOP_PAD: i32 = 1 << 20;
/// The number of heaps. A further one would grow by single pages, and the few threads that we have hardly compete.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: i32 = 1;

/// Configures the allocator. To be called before the first thread is started.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt has no safe wrapper")]
pub fn configure() {
    let options = [
        (libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD),
        (libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD),
        (libc::M_TOP_PAD, TOP_PAD),
        (libc::M_ARENA_MAX, HEAPS),
    ];
    for (option, value) in options {
        // SAFETY: mallopt takes two numbers and changes only the allocator's own state. An option that it does not
        // know has no effect.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Does nothing: this system's allocator returns large blocks by itself.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn configure() {}
