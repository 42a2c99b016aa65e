//! Our own program, which the warden, the host of shared servers and the helper that attaches run again.

use std::path::PathBuf;

/// The path of our own program. On Linux it stays the file that we were started from, whatever an upgrade puts in its
/// place.
pub(super) fn own_program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") { link } else { std::env::current_exe().unwrap_or(link) }
}
