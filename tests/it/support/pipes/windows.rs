//! When a pipe can be read, by asking what is in it. Windows does not tell when one can be written: a write has no deadline.
#![expect(unsafe_code, reason = "PeekNamedPipe has no safe wrapper")]

use std::io::{self, ErrorKind};
use std::ptr::null_mut;
use std::time::Duration;

use tokio::time::Instant;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

use crate::support::TEST_TIMEOUT;

pub(crate) use std::os::windows::io::AsRawHandle as Pipe;

/// The interval between two looks.
const INTERVAL: Duration = Duration::from_millis(1);

/// Waits until the pipe can be read, or is at its end.
///
/// # Errors
///
/// It is not within `TEST_TIMEOUT`.
pub(crate) fn wait_readable(pipe: &impl Pipe) -> io::Result<()> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let mut available = 0;
        // SAFETY: the handle is open, and nothing but the number of bytes is asked for.
        let is_open = unsafe {
            PeekNamedPipe(pipe.as_raw_handle(), null_mut(), 0, null_mut(), &raw mut available, null_mut())
        };
        // The next read tells why it is not.
        if is_open == 0 || available > 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            let message = format!("not within {TEST_TIMEOUT:?}: something to read");
            return Err(io::Error::new(ErrorKind::TimedOut, message));
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Does not wait.
///
/// # Errors
///
/// None.
pub(super) fn wait_writable(_pipe: &impl Pipe) -> io::Result<()> {
    Ok(())
}

/// Does not wait: a process that another test starts has no copy of a pipe.
///
/// # Errors
///
/// None.
pub(crate) fn wait_until_closed(_pipe: &impl Pipe) -> io::Result<()> {
    Ok(())
}
