//! Memory that stays in the process, and memory that goes back to the system: what the allocator keeps, and the pages of
//! the program that are mapped.
//!
//! A message of 1 MB needs buffers of that size. If they were returned each time, each such message would pay for its
//! pages again: a quarter of its CPU time. So some freed memory stays for the next messages. After a burst of larger
//! ones it goes back: glibc would raise the size from which it maps blocks by themselves to that of the largest block
//! that was freed, up to 32 MB, and from then on one small block in its heaps would keep everything below it. With fixed
//! values every larger buffer is returned as soon as it is freed. Other allocators need no advice.
//!
//! A start runs much code that is not needed again, and each fault maps the 15 pages around it as well. So a process
//! that has settled unmaps the pages of its own program ([`unmap_program`]). What it then uses is mapped again from the
//! page cache.

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

/// Unmaps the pages of our own program that are as in its file: code and constants, but no data. To be called when what
/// ran last is not needed soon. The next use of a page maps it again, which takes less than a microsecond as long as the
/// system keeps the file in memory. A debugger has to set its breakpoints again.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "dl_iterate_phdr and madvise have no safe wrappers")]
pub fn unmap_program() {
    // SAFETY: the function does what dl_iterate_phdr(3) asks of it, and needs no data.
    unsafe { libc::dl_iterate_phdr(Some(unmap_object), std::ptr::null_mut()) };
}

/// Unmaps the read-only segments of the first object, which is the program.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "as above")]
extern "C" fn unmap_object(object: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
    // SAFETY: dl_iterate_phdr(3) passes a description that is valid until we return, with that many headers.
    let (base, headers) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // SAFETY: it only reads a number.
    let Ok(page) = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else { return 1 };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = base + header.p_vaddr;
        // Whole pages only. The loader writes to none of them, because the program is position-independent.
        let (start, end) = (start.next_multiple_of(page), (start + header.p_filesz) / page * page);
        if start < end {
            // SAFETY: no page in the range was ever written to, so its next use finds the same bytes in the file. It
            // fails only if the pages are locked, and then they stay.
            unsafe { libc::madvise(start as *mut libc::c_void, (end - start) as usize, libc::MADV_DONTNEED) };
        }
    }
    // The first is enough.
    1
}

/// Does nothing: this system has no such call.
#[cfg(not(target_os = "linux"))]
pub fn unmap_program() {}
