//! The endpoint on which an instance answers commands.

use super::endpoint::{OwnEndpoint, check_peer};
use super::{InstanceReply, InstanceRequest, InstanceStatus};
use crate::config::GroupName;
use crate::front::tools::status;
use crate::groups::GroupManager;
use crate::groups::login_flows::LoginFlows;
use crate::wire::lines::LineReader;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
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
    /// See [`endpoint_base`](super::endpoint_base).
    pub endpoint_base: Option<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The config files.
    pub config: Vec<PathBuf>,
}

/// Answers commands. Never completes.
pub async fn serve(info: InstanceInfo, groups: &GroupManager) {
    let started = Instant::now();
    sleep(START_DELAY).await;
    let mut endpoint = match OwnEndpoint::listen(info.endpoint_base.as_deref()) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::debug!(%error, "commands such as `dynamic-mcp status` will not find this process");
            return pending().await;
        }
    };
    loop {
        match endpoint.accept().await {
            Ok(socket) => {
                let answered = async {
                    check_peer(&socket)?;
                    answer(socket, &info, groups, started).await
                };
                let answered = timeout(COMMAND_TIMEOUT, answered).await;
                if let Ok(Err(error)) = answered {
                    tracing::debug!(%error, "a command was not answered");
                }
            }
            Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

async fn answer(
    socket: impl AsyncRead + AsyncWrite + Send + 'static,
    info: &InstanceInfo,
    groups: &GroupManager,
    started: Instant,
) -> io::Result<()> {
    let (input, mut output) = tokio::io::split(socket);
    let line = LineReader::new(Box::new(input), MAX_REQUEST_BYTES).next().await;
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
    output.write_all(line.as_bytes()).await?;
    output.flush().await
}
