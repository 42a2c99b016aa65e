//! Enlarges pipes for large messages.

/// The size of a pipe in bytes. With the default of 64 kB, a 1 MB result takes twice the time across cores. It is not
/// larger, because an unprivileged user has 64 MiB of pipes in all.
#[cfg(target_os = "linux")]
const PIPE_SIZE: libc::c_int = 256 << 10;

/// Enlarges the pipe where the system allows it. A failure is ignored: a small pipe is only slower.
pub fn grow(pipe: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _old_size = nix::fcntl::fcntl(pipe.as_fd(), nix::fcntl::FcntlArg::F_SETPIPE_SZ(PIPE_SIZE));
    #[cfg(not(target_os = "linux"))]
    let _unchanged = pipe;
}
