//! The three pipes of an upstream. Our ends are overlapped, so that no thread waits for them; the child's ends are
//! ordinary ones, which every program can use.
//!
//! Windows has no anonymous pipes with an overlapped end. Their names cannot be guessed. Each admits one connection,
//! which is ours, and none from the network.

use std::fs::File;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::OwnedHandle;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES};

use base::random;

/// The size of a pipe's buffer in bytes. With a smaller one, a large message is passed in many small parts.
const BUFFER_SIZE: u32 = 256 << 10;

/// The pipes of one upstream.
pub(super) struct StdioPipes {
    /// Writes to its stdin.
    pub(super) stdin: NamedPipeServer,
    /// Reads its stdout.
    pub(super) stdout: NamedPipeServer,
    /// Reads its stderr.
    pub(super) stderr: NamedPipeServer,
    /// Its stdin, stdout and stderr.
    pub(super) of_child: [OwnedHandle; 3],
}

/// Creates the pipes, both ends of each.
///
/// # Errors
///
/// Fails if the system refuses one, or if another process was faster to connect to it.
pub(super) async fn open() -> io::Result<StdioPipes> {
    let (stdin, child_stdin) = pipe(Direction::ToChild).await?;
    let (stdout, child_stdout) = pipe(Direction::FromChild).await?;
    let (stderr, child_stderr) = pipe(Direction::FromChild).await?;
    Ok(StdioPipes { stdin, stdout, stderr, of_child: [child_stdin, child_stdout, child_stderr] })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToChild,
    FromChild,
}

/// Creates a pipe and connects to it. Returns our end and the child's.
///
/// # Errors
///
/// Fails if the system refuses it, or if another process was faster to connect to it.
async fn pipe(direction: Direction) -> io::Result<(NamedPipeServer, OwnedHandle)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let name = format!(r"\\.\pipe\dynamic-mcp-{pid}-{count}-{}", random::hex_id());
    let is_to_child = direction == Direction::ToChild;
    let ours = ServerOptions::new()
        .access_outbound(is_to_child)
        .access_inbound(!is_to_child)
        .first_pipe_instance(true)
        .reject_remote_clients(true)
        .max_instances(1)
        .out_buffer_size(BUFFER_SIZE)
        .in_buffer_size(BUFFER_SIZE)
        .create(&name)?;
    // With the rights that Node gives to its children: a program that sets the mode of its stdin needs more than to read.
    let access = match direction {
        Direction::ToChild => GENERIC_READ | FILE_WRITE_ATTRIBUTES,
        Direction::FromChild => GENERIC_WRITE | FILE_READ_ATTRIBUTES,
    };
    // Fails if anybody else was faster.
    let theirs = File::options().access_mode(access).open(&name)?;
    ours.connect().await?;
    Ok((ours, theirs.into()))
}
