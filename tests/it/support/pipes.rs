//! Processes and their pipes, each wait with a deadline: a test fails if an answer does not come, instead of hanging.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use tokio::time::Instant;

use self::readiness::{Pipe, wait_writable};
pub(crate) use self::readiness::{wait_readable, wait_until_closed};
use super::{TEST_TIMEOUT, wait_until};

#[cfg_attr(windows, path = "pipes/windows.rs")]
#[cfg_attr(unix, path = "pipes/unix.rs")]
mod readiness;

/// What a pipe accepts without blocking once it is writable (pipe(7): `PIPE_BUF`).
const WRITE_SIZE: usize = 4096;

/// Writes all of `bytes`.
///
/// # Errors
///
/// The other end is closed, or reads nothing for `TEST_TIMEOUT`.
pub(crate) fn write_all(pipe: &mut (impl Write + Pipe), bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(WRITE_SIZE).try_for_each(|chunk| {
        wait_writable(pipe)?;
        pipe.write_all(chunk)
    })
}

/// Reads the output of a process.
pub(crate) struct PipeReader<R> {
    pipe: R,
    /// What was read and not returned yet.
    buffer: Vec<u8>,
}

impl<R: Read + Pipe> PipeReader<R> {
    pub(crate) fn new(pipe: R) -> Self {
        Self { pipe, buffer: Vec::new() }
    }

    /// Reads the next line, without its line feed. `None` at the end of the output.
    pub(crate) fn read_line(&mut self) -> Option<String> {
        let mut searched = 0;
        let end = loop {
            match self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                Some(at) => break searched + at,
                None => searched = self.buffer.len(),
            }
            if !self.fill() {
                assert!(self.buffer.is_empty(), "the last line is incomplete: {:?}", self.buffer);
                return None;
            }
        };
        let line: Vec<u8> = self.buffer.drain(..=end).take(end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads everything until the end of the output.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads more. Returns false at the end.
    fn fill(&mut self) -> bool {
        wait_readable(&self.pipe).unwrap();
        let mut chunk = vec![0; 64 << 10];
        let length = self.pipe.read(&mut chunk).unwrap();
        self.buffer.extend_from_slice(&chunk[..length]);
        length > 0
    }
}

/// Waits until a process exits. Kills it if it does not.
pub(crate) fn wait_for_child(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    wait_until("the process exits", || {
        if start.elapsed() * 2 > TEST_TIMEOUT {
            let _gone = child.kill();
        }
        child.try_wait().unwrap().is_some()
    });
    child.wait().unwrap()
}

/// Runs a command without input, and returns its output.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = PipeReader::new(child.stderr.take().unwrap());
    let stderr = std::thread::spawn(move || stderr.read_to_end());
    let stdout = PipeReader::new(child.stdout.take().unwrap()).read_to_end();
    Output { status: wait_for_child(&mut child), stdout, stderr: stderr.join().unwrap() }
}
