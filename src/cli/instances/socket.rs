//! The socket on which an instance answers commands.

use super::{InstanceReply, InstanceRequest, InstanceStatus};
use crate::config::GroupName;
use crate::front::tools::status;
use crate::groups::GroupManager;
use crate::groups::login_flows::LoginFlows;
use crate::transport::shared::runtime_dir::RuntimeDir;
use crate::wire::lines::LineReader;
use std::future::pending;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};

/// A client that only probes the program has ended it before this, and no file is made.
const START_DELAY: Duration = Duration::from_millis(200);
/// How long a command may take to send its request and to read the reply. Commands are answered one after the other.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest request, in bytes.
const MAX_REQUEST_BYTES: usize = 4096;
/// The interval between attempts to accept after one has failed.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What an instance says of itself.
pub struct InstanceInfo {
    /// `$XDG_RUNTIME_DIR`.
    pub runtime_base: Option<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The config files.
    pub config: Vec<PathBuf>,
}

/// Answers commands. Never completes.
pub async fn serve(info: InstanceInfo, groups: &GroupManager) {
    let started = Instant::now();
    sleep(START_DELAY).await;
    let (listener, _socket_file) = match listen(info.runtime_base.as_deref()) {
        Ok(listening) => listening,
        Err(error) => {
            tracing::debug!(%error, "commands such as `dynamic-mcp status` will not find this process");
            return pending().await;
        }
    };
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let answered = timeout(COMMAND_TIMEOUT, answer(socket, &info, groups, started)).await;
                if let Ok(Err(error)) = answered {
                    tracing::debug!(%error, "a command was not answered");
                }
            }
            Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

/// Removes a file when it is dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn listen(runtime_base: Option<&Path>) -> io::Result<(UnixListener, SocketFile)> {
    let dir = RuntimeDir::open(runtime_base)?;
    let path = dir.path().join(format!("instance-{}.sock", std::process::id()));
    // A process that had this pid before and was killed has left its file. In another pid namespace it may still live.
    if StdUnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(&path)?;
    }
    // It gets its name when it listens: before that it refuses connections, and commands remove a socket that does.
    let unnamed = path.with_extension("new");
    std::fs::remove_file(&unnamed).ok();
    let listener = UnixListener::bind(&unnamed)?;
    std::fs::rename(&unnamed, &path)?;
    Ok((listener, SocketFile(path)))
}

async fn answer(
    socket: UnixStream,
    info: &InstanceInfo,
    groups: &GroupManager,
    started: Instant,
) -> io::Result<()> {
    if socket.peer_cred()?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (input, mut output) = socket.into_split();
    let line = LineReader::new(input, MAX_REQUEST_BYTES).next().await;
    let Some(Ok(line)) = line else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let reply = match serde_json::from_slice(&line)? {
        InstanceRequest::Status => InstanceReply::Status(Box::new(InstanceStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            up_s: started.elapsed().as_secs(),
            cwd: info.cwd.clone(),
            config: info.config.clone(),
            status: status::report(&groups.all(), groups, &LoginFlows::default(), &[]).json,
        })),
        InstanceRequest::Reconnect(name) => match groups.get(&GroupName::new(&name)) {
            Some(group) => {
                group.reconnect().await;
                InstanceReply::Reconnecting
            }
            None => InstanceReply::NoSuchGroup,
        },
        InstanceRequest::Logs { group, after } => match groups.get(&GroupName::new(&group)) {
            Some(group) => InstanceReply::Log(group.log_page(after).await),
            None => InstanceReply::NoSuchGroup,
        },
    };
    let line = serde_json::to_string(&reply)? + "\n";
    output.write_all(line.as_bytes()).await
}
