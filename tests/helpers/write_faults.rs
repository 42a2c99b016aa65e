//! A library for `LD_PRELOAD` that lets one call fail which changes a file, or ends the process there.
//!
//! `WRITE_FAULT` has the number of the call, counted from 1 over all threads of the process, and what happens:
//!
//! | `N:kill` | the process is killed before the call |
//! | `N:torn` | the same, but half of the bytes are written if the call writes some |
//! | `N:ERRNO` | the call fails with this number of an error |
//! | `N+:ERRNO` | so do all calls after it |
//!
//! `WRITE_FAULT_MARK` is a file that is made when that happens. Child processes are left alone.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "these functions stand in for those of the C library")]
#![allow(
    clippy::missing_safety_doc,
    reason = "they have the contracts of the functions that they stand in for"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{AT_FDCWD, iovec, mode_t, off_t, size_t, ssize_t};

/// What happens at which call.
struct Fault {
    at: u64,
    and_after: bool,
    kind: Kind,
    mark: Vec<u8>,
}

enum Kind {
    Kill,
    Torn,
    Error(c_int),
}

static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Runs before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let fault = variable(c"WRITE_FAULT").and_then(|text| parse(&text));
    let mark = variable(c"WRITE_FAULT_MARK").unwrap_or_default();
    drop(FAULT.set(fault.map(|(at, and_after, kind)| Fault {
        at,
        and_after,
        kind,
        mark: [mark.as_bytes(), b"\0"].concat(),
    })));
    for name in [c"LD_PRELOAD", c"WRITE_FAULT", c"WRITE_FAULT_MARK"] {
        // SAFETY: no other thread runs yet.
        unsafe { libc::unsetenv(name.as_ptr()) };
    }
}

fn variable(name: &CStr) -> Option<String> {
    // SAFETY: no other thread runs yet, so the value stays.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value that is there is a C string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

fn parse(text: &str) -> Option<(u64, bool, Kind)> {
    let (at, kind) = text.split_once(':')?;
    let kind = match kind {
        "kill" => Kind::Kill,
        "torn" => Kind::Torn,
        errno => Kind::Error(errno.parse().ok()?),
    };
    let (at, and_after) = at.strip_suffix('+').map_or((at, false), |at| (at, true));
    Some((at.parse().ok()?, and_after, kind))
}

/// Counts a call that changes a file. Returns the fault if it is its turn.
fn next_call() -> Option<&'static Fault> {
    let fault = FAULT.get()?.as_ref()?;
    let number = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
    let is_due = number == fault.at || fault.and_after && number > fault.at;
    if number == fault.at {
        // SAFETY: the path is a C string.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat,
                AT_FDCWD,
                fault.mark.as_ptr(),
                libc::O_CREAT | libc::O_WRONLY,
                0o600,
            )
        };
        // SAFETY: it was opened above.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
    is_due.then_some(fault)
}

/// Lets the call fail, or ends the process. `torn` writes half of the bytes.
fn fail(fault: &Fault, torn: impl FnOnce()) -> c_int {
    match fault.kind {
        Kind::Error(number) => {
            // SAFETY: it is the errno of this thread.
            unsafe { *libc::__errno_location() = number };
            return -1;
        }
        Kind::Torn => torn(),
        Kind::Kill => {}
    }
    loop {
        // SAFETY: it only ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

fn is_regular(fd: c_int) -> bool {
    // SAFETY: all of it is plain numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: it is written by the call.
    let result = unsafe { libc::fstat(fd, &raw mut stat) };
    result == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// Defines functions that change a file if the condition holds, and are system calls themselves.
macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*) -> $returned:ty, if $changes:expr $(, torn $torn:expr)? => $number:ident($($passed:expr),*);)*) => {$(
        /// Stands in for the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $returned {
            if $changes && let Some(fault) = next_call() {
                return fail(fault, || { $($torn;)? }) as $returned;
            }
            // SAFETY: the caller keeps the contract of the function, which is that of the system call.
            unsafe { libc::syscall(libc::$number, $($passed),*) as $returned }
        }
    )*};
}

fn makes(flags: c_int) -> bool {
    flags & (libc::O_CREAT | libc::O_TRUNC) != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE
}

/// Writes half of the bytes.
fn half(fd: c_int, bytes: *const c_void, length: size_t) {
    // SAFETY: the caller of `write` passed as many.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes, length / 2) };
}

calls! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, if makes(flags) => SYS_openat(AT_FDCWD, path, flags, mode);
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, if makes(flags) => SYS_openat(AT_FDCWD, path, flags | libc::O_LARGEFILE, mode);
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, if makes(flags) => SYS_openat(dir, path, flags, mode);
    openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, if makes(flags) => SYS_openat(dir, path, flags, mode);
    write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t, if is_regular(fd), torn half(fd, bytes, length) => SYS_write(fd, bytes, length);
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, if is_regular(fd) => SYS_writev(fd, parts, count);
    pwrite(fd: c_int, bytes: *const c_void, length: size_t, at: off_t) -> ssize_t, if is_regular(fd) => SYS_pwrite64(fd, bytes, length, at);
    pwrite64(fd: c_int, bytes: *const c_void, length: size_t, at: off_t) -> ssize_t, if is_regular(fd) => SYS_pwrite64(fd, bytes, length, at);
    ftruncate(fd: c_int, length: off_t) -> c_int, if true => SYS_ftruncate(fd, length);
    ftruncate64(fd: c_int, length: off_t) -> c_int, if true => SYS_ftruncate(fd, length);
    fsync(fd: c_int) -> c_int, if is_regular(fd) => SYS_fsync(fd);
    fdatasync(fd: c_int) -> c_int, if is_regular(fd) => SYS_fdatasync(fd);
    rename(from: *const c_char, to: *const c_char) -> c_int, if true => SYS_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
    renameat(dir: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int, if true => SYS_renameat2(dir, from, other, to, 0);
    renameat2(dir: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int, if true => SYS_renameat2(dir, from, other, to, flags);
    link(from: *const c_char, to: *const c_char) -> c_int, if true => SYS_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    linkat(dir: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int, if true => SYS_linkat(dir, from, other, to, flags);
    symlink(to: *const c_char, path: *const c_char) -> c_int, if true => SYS_symlinkat(to, AT_FDCWD, path);
    unlink(path: *const c_char) -> c_int, if true => SYS_unlinkat(AT_FDCWD, path, 0);
    unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int, if true => SYS_unlinkat(dir, path, flags);
    rmdir(path: *const c_char) -> c_int, if true => SYS_unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR);
    mkdir(path: *const c_char, mode: mode_t) -> c_int, if true => SYS_mkdirat(AT_FDCWD, path, mode);
    mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int, if true => SYS_mkdirat(dir, path, mode);
    chmod(path: *const c_char, mode: mode_t) -> c_int, if true => SYS_fchmodat(AT_FDCWD, path, mode);
    fchmod(fd: c_int, mode: mode_t) -> c_int, if true => SYS_fchmod(fd, mode);
    fchown(fd: c_int, user: c_uint, group: c_uint) -> c_int, if true => SYS_fchown(fd, user, group);
}
