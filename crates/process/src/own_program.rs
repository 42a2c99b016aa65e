//! Our own program, which the warden, the host of shared servers, the helper that attaches and the runner of jq
//! programs start again.

use base::procfs::OWN_EXE;
use std::path::PathBuf;

#[cfg(unix)]
pub use descriptors::close_other_descriptors;

/// Returns the path of our own program. On Linux it stays the file that we were started from, even after an upgrade has
/// replaced it.
pub fn own_program() -> PathBuf {
    let link = PathBuf::from(OWN_EXE);
    if cfg!(target_os = "linux") { link } else { std::env::current_exe().unwrap_or(link) }
}

#[cfg(unix)]
mod descriptors {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::sys::resource::{Resource, getrlimit};
    use std::os::fd::BorrowedFd;

    /// Marks every descriptor but stdin, stdout and stderr to be closed at the next exec, and closes it where no next exec
    /// comes: a client may have leaked some to us.
    #[expect(unsafe_code, reason = "closes descriptors that no code of this process owns")]
    pub fn close_other_descriptors() {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: called first of all; the process has opened nothing but 0 to 2 yet.
            let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
            if result == 0 {
                return;
            }
        }
        // Linux before 5.9 and other systems: one by one, up to a limit that takes little time.
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft.min(65_536));
        for number in 3..i32::try_from(limit).unwrap_or(1024) {
            // SAFETY: as above; a number that is not open gives an error.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok();
        }
    }
}
