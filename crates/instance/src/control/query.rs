//! Asks the running instances of this user.

use super::endpoint;
use super::{InstanceReply, InstanceRequest, InstanceStatus};
use base::text;
use config::env::Env;
use futures_util::{StreamExt, stream};
use process::server_log::{LogCursor, LogPage};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, split};
use tokio::time::timeout;

/// How long an instance may take to answer, from the connection to the end of the line. One that hangs is left out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer, in bytes. A log has at most 64 kB, and the status of a server some kB if it failed.
const MAX_ANSWER_BYTES: u64 = 8 << 20;
/// How many instances are asked at the same time.
const MAX_ASKED: usize = 16;

/// A running instance.
pub struct RunningInstance {
    /// What it says of itself.
    pub status: InstanceStatus,
    /// The file of its endpoint.
    file: PathBuf,
}

/// The instances of this user.
#[derive(Default)]
pub struct RunningInstances {
    /// Those that answer, the oldest first.
    pub answering: Vec<RunningInstance>,
    /// Those that do not, each as a line for the user.
    pub silent: Vec<String>,
}

/// Asks all instances, each for `ANSWER_TIMEOUT` at most. Those that do not answer are in `silent`. Removes the files
/// of those that were killed.
///
/// # Errors
///
/// Fails if the directory of the endpoints cannot be used.
pub async fn ask_all(env: &Env) -> io::Result<RunningInstances> {
    let mut instances = RunningInstances::default();
    let unusable = |error: io::Error| {
        io::Error::new(error.kind(), format!("the running instances cannot be found: {error}"))
    };
    let files = endpoint::find(endpoint::base(env).as_deref()).map_err(unusable)?;
    let ask_status = async |file: PathBuf| (ask(&file, &InstanceRequest::Status).await, file);
    let mut answers = pin!(stream::iter(files).map(ask_status).buffer_unordered(MAX_ASKED));
    while let Some((answer, file)) = answers.next().await {
        match answer {
            Ok(InstanceReply::Status(status)) => {
                instances.answering.push(RunningInstance { status: *status, file });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&file).ok();
            }
            answer => {
                let why = answer.err().map(|error| format!(": {error}")).unwrap_or_default();
                instances.silent.push(format!("{} does not answer{why}", text::path(&file)));
            }
        }
    }
    instances
        .answering
        .sort_by_key(|instance| std::cmp::Reverse((instance.status.up_s, instance.status.pid)));
    Ok(instances)
}

impl RunningInstance {
    /// Tells the instance to connect a group again. Returns before that. Returns false if it has no such group.
    ///
    /// # Errors
    ///
    /// Fails if the instance does not answer within `ANSWER_TIMEOUT`; with `ConnectionRefused` or `NotFound` if it has
    /// ended.
    pub async fn reconnect(&self, group: &str) -> io::Result<bool> {
        match ask(&self.file, &InstanceRequest::Reconnect(group.to_owned())).await? {
            InstanceReply::Reconnecting => Ok(true),
            InstanceReply::NoSuchGroup => Ok(false),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Asks again what the instance says of itself.
    ///
    /// # Errors
    ///
    /// As [`reconnect`](Self::reconnect).
    pub async fn ask_status(&self) -> io::Result<InstanceStatus> {
        match ask(&self.file, &InstanceRequest::Status).await? {
            InstanceReply::Status(status) => Ok(*status),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads the log of a group's server, from `after` on. `None` if the instance has no such group.
    ///
    /// # Errors
    ///
    /// As [`reconnect`](Self::reconnect).
    pub async fn log(&self, group: &str, after: Option<LogCursor>) -> io::Result<Option<LogPage>> {
        match ask(&self.file, &InstanceRequest::Logs { group: group.to_owned(), after }).await? {
            InstanceReply::Log(page) => Ok(Some(page)),
            InstanceReply::NoSuchGroup => Ok(None),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

async fn ask(file: &Path, request: &InstanceRequest) -> io::Result<InstanceReply> {
    let line = serde_json::to_string(request)? + "\n";
    let answer = timeout(ANSWER_TIMEOUT, exchange(file, line.as_bytes())).await??;
    Ok(serde_json::from_slice(&answer)?)
}

/// Sends a line to an endpoint and returns the line that is the answer. The caller limits the wait.
///
/// # Errors
///
/// Fails with `ConnectionRefused` if no process has the endpoint, and otherwise if the connection fails or the answer
/// has `MAX_ANSWER_BYTES`.
pub(super) async fn exchange(file: &Path, request: &[u8]) -> io::Result<Vec<u8>> {
    let (input, mut output) = split(endpoint::connect(file).await?);
    output.write_all(request).await?;
    output.flush().await?;
    let mut answer = Vec::new();
    BufReader::new(input).take(MAX_ANSWER_BYTES).read_until(b'\n', &mut answer).await?;
    match answer.len() as u64 {
        MAX_ANSWER_BYTES => {
            Err(io::Error::other(format!("the answer is larger than {MAX_ANSWER_BYTES} bytes")))
        }
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::OwnEndpoint;
    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn the_socket_of_a_live_process_with_an_equal_pid_stays() {
        let dir = tempfile::tempdir().unwrap();
        let listen = || OwnEndpoint::listen(Some(dir.path()), "instance-1").unwrap();
        let mut first = listen();
        let file = endpoint::find(Some(dir.path())).unwrap().remove(0);
        let second = listen();
        assert_eq!(endpoint::find(Some(dir.path())).unwrap().len(), 2);
        drop(second);
        let asked = tokio::join!(endpoint::connect(&file), first.accept());
        assert!(asked.0.is_ok() && asked.1.is_ok());
        drop(first);
        assert_eq!(endpoint::find(Some(dir.path())).unwrap().len(), 0);
    }

    #[tokio::test]
    async fn an_endless_answer_is_refused_at_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut own = OwnEndpoint::listen(Some(dir.path()), "instance-1").unwrap();
        let file = endpoint::find(Some(dir.path())).unwrap().remove(0);
        let flood = async {
            let mut socket = own.accept().await.unwrap();
            let (block, mut written) = (vec![b'x'; 64 << 10], 0);
            while written < 4 * MAX_ANSWER_BYTES && socket.write_all(&block).await.is_ok() {
                written += block.len() as u64;
            }
            written
        };
        let ask = async { exchange(&file, b"\"status\"\n").await };
        let (written, answer) = tokio::join!(flood, ask);
        assert!(answer.unwrap_err().to_string().contains("larger than"));
        assert!(written < 2 * MAX_ANSWER_BYTES, "{written}");
    }
}
