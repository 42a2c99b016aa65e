//! Our own program, which the warden, the host of shared servers, the helper that attaches and the runner of jq
//! programs start again.

use base::procfs::OWN_EXE;
use std::path::PathBuf;

/// Returns the path of our own program. On Linux it stays the file that we were started from, even after an upgrade has
/// replaced it.
pub fn own_program() -> PathBuf {
    let link = PathBuf::from(OWN_EXE);
    if cfg!(target_os = "linux") { link } else { std::env::current_exe().unwrap_or(link) }
}
