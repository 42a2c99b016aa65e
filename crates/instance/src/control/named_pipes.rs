//! Endpoints that are named pipes.
//!
//! A name cannot be guessed, and other users can neither connect nor read it: it is in a file of ours, `instance-PID`, in
//! the folder `instances` of our state directory. Pipes are not reachable from the network.
#![expect(unsafe_code, reason = "a pipe with an access list of its own has no safe constructor")]

use base::private_files::{self, PrivateFileError, windows::OwnerOnly};
use config::dirs;
use config::env::Env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions};
use tokio::time::sleep;
use windows_sys::Win32::Foundation::ERROR_PIPE_BUSY;
use windows_sys::Win32::Storage::FileSystem::SECURITY_IDENTIFICATION;

/// How the name of every pipe begins.
const PREFIX: &str = r"\\.\pipe\dynamic-mcp-instance-";
/// The longest name of a pipe, in bytes.
const MAX_NAME_BYTES: u64 = 256;
/// The interval between attempts to connect to a pipe that another command uses.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);

pub(super) use PipeEndpoint as OwnEndpoint;

/// Returns our state directory.
pub(super) fn base(env: &Env) -> Option<PathBuf> {
    dirs::state_dir(env)
}

pub(super) fn dir(base: Option<&Path>) -> io::Result<PathBuf> {
    let base = base.ok_or_else(|| io::Error::other("LOCALAPPDATA is not set"))?;
    Ok(base.join("instances"))
}

/// The pipe of this instance.
pub(super) struct PipeEndpoint {
    name: String,
    /// Waits for the next command.
    pipe: NamedPipeServer,
    /// Removed when this is dropped.
    file: PathBuf,
}

impl Drop for PipeEndpoint {
    fn drop(&mut self) {
        fs::remove_file(&self.file).ok();
    }
}

impl PipeEndpoint {
    /// Makes it and listens. `name`: that of its file.
    ///
    /// # Errors
    ///
    /// Fails if the pipe or its file cannot be made.
    pub(super) fn listen(base: Option<&Path>, name: &str) -> io::Result<Self> {
        let file = dir(base)?.join(name);
        let name = format!("{PREFIX}{}-{}", std::process::id(), base::random::hex_id());
        let pipe = create(&name, true)?;
        private_files::replace(&file, name.as_bytes(), false).map_err(io::Error::other)?;
        Ok(Self { name, pipe, file })
    }

    /// Waits for the next command.
    ///
    /// # Errors
    ///
    /// Fails if handles are exhausted, for example.
    pub(super) async fn accept(&mut self) -> io::Result<NamedPipeServer> {
        self.pipe.connect().await?;
        let next = create(&self.name, false)?;
        Ok(std::mem::replace(&mut self.pipe, next))
    }
}

fn create(name: &str, is_first: bool) -> io::Result<NamedPipeServer> {
    let mut security = OwnerOnly::new()?;
    let mut options = ServerOptions::new();
    options.first_pipe_instance(is_first).reject_remote_clients(true);
    // SAFETY: the attributes live until the call returns.
    unsafe { options.create_with_security_attributes_raw(name, security.attributes()) }
}

/// Checks nothing: only the user can connect.
///
/// # Errors
///
/// None.
pub(super) fn check_peer(_pipe: &NamedPipeServer) -> io::Result<()> {
    Ok(())
}

/// Returns the files of all instances, also of those that were killed.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub(super) fn find(base: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir(base)?) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_instance = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("instance-") && !name.contains('.')
    };
    Ok(entries.flatten().map(|file| file.path()).filter(is_instance).collect())
}

/// Connects to the pipe that a file names. Waits while other commands use it; the caller limits the wait.
///
/// # Errors
///
/// Fails with `ConnectionRefused` if no process has the pipe, and otherwise if the file cannot be read or trusted, or
/// names no pipe of ours.
pub(super) async fn connect(file: &Path) -> io::Result<NamedPipeClient> {
    let name = private_files::read_private(file, MAX_NAME_BYTES).map_err(|error| match error {
        PrivateFileError::Io { error, .. } => error,
        untrusted @ PrivateFileError::Untrusted { .. } => io::Error::other(untrusted),
    })?;
    let name = String::from_utf8(name).ok().filter(|name| name.starts_with(PREFIX));
    let name = name.ok_or(ErrorKind::InvalidData)?;
    loop {
        // Whoever has the pipe may know who we are, and not act as us.
        match ClientOptions::new().security_qos_flags(SECURITY_IDENTIFICATION).open(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY.cast_signed()) => {
                sleep(BUSY_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::exchange;
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn commands_reach_an_instance_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let mut endpoint = PipeEndpoint::listen(Some(dir.path()), "instance-1").unwrap();
        let files = find(Some(dir.path())).unwrap();
        assert_eq!(files, [dir.path().join("instances").join("instance-1")]);
        for n in 0..3 {
            let (file, request) = (files[0].clone(), format!("question {n}\n"));
            let asked = tokio::spawn(async move { exchange(&file, request.as_bytes()).await });
            let pipe = timeout(DEADLINE, endpoint.accept()).await.unwrap().unwrap();
            let (input, mut output) = tokio::io::split(pipe);
            let mut line = String::new();
            tokio::io::BufReader::new(input).read_line(&mut line).await.unwrap();
            assert_eq!(line, format!("question {n}\n"));
            output.write_all(b"answer\n").await.unwrap();
            output.flush().await.unwrap();
            assert_eq!(timeout(DEADLINE, asked).await.unwrap().unwrap().unwrap(), b"answer\n");
        }
        drop(endpoint);
        assert_eq!(find(Some(dir.path())).unwrap(), [] as [PathBuf; 0]);
    }

    #[tokio::test]
    async fn an_instance_that_was_killed_or_is_none_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("instances").join("instance-1");
        private_files::replace(&file, format!("{PREFIX}1-0").as_bytes(), false).unwrap();
        let kind = async || connect(&file).await.unwrap_err().kind();
        assert_eq!(kind().await, ErrorKind::ConnectionRefused);
        private_files::replace(&file, br"\\.\pipe\of-another-program", false).unwrap();
        assert_eq!(kind().await, ErrorKind::InvalidData);
    }
}
