//! Pipes with room for a large message.

/// A pipe of 64 kB makes a 1 MB result cost twice the time across cores. Not more than this, because an unprivileged
/// user has 64 MiB of pipes in all.
#[cfg(target_os = "linux")]
const ROOM: libc::c_int = 256 << 10;

/// Gives the pipe more room where the system allows it; a small pipe is slower and no worse.
pub fn grow(pipe: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _old_size = nix::fcntl::fcntl(pipe.as_fd(), nix::fcntl::FcntlArg::F_SETPIPE_SZ(ROOM));
    #[cfg(not(target_os = "linux"))]
    let _unchanged = pipe;
}
