//! The endpoint on which an instance answers commands.

use super::endpoint::{self, OwnEndpoint, check_peer};
use super::{InstanceReply, InstanceRequest, InstanceStatus};
use config::GroupName;
use config::env::Env;
use front::tools::status;
use serde_json::Value;
use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use upstream::GroupManager;
use wire::lines::LineReader;

/// A client that only probes the program has ended it before this, and no file is made.
const START_DELAY: Duration = Duration::from_millis(200);
/// How long a command may take to send its request and to read the reply.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// How many commands are answered at the same time. Another one takes the place of the one that takes longest.
const MAX_COMMANDS: usize = 32;
/// The largest request, in bytes.
const MAX_REQUEST_BYTES: usize = 4096;
/// The interval between attempts to accept after one has failed.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Answers commands. `files` are the config files of this instance, `number` says which one of this process it is. Never
/// completes.
pub async fn serve(files: &[PathBuf], env: &Env, groups: Arc<GroupManager>, number: usize) {
    let started = Instant::now();
    let unchanging = Arc::new(InstanceStatus::of_process(files, env));
    let pid = unchanging.pid;
    let name = if number == 0 { format!("instance-{pid}") } else { format!("instance-{pid}-{number}") };
    sleep(START_DELAY).await;
    let mut endpoint = match OwnEndpoint::listen(endpoint::base(env).as_deref(), &name) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::debug!(%error, "commands such as `dynamic-mcp status` will not find this process");
            return pending().await;
        }
    };
    let mut commands = OpenCommands::default();
    loop {
        match endpoint.accept().await {
            Ok(socket) => {
                let (status, groups) = (unchanging.clone(), groups.clone());
                commands.add(async move {
                    check_peer(&socket)?;
                    answer(socket, &status, &groups, started).await
                });
            }
            Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

/// The commands that are being answered, at most [`MAX_COMMANDS`]. A process that connects and sends nothing keeps no
/// other one out.
#[derive(Default)]
struct OpenCommands {
    tasks: JoinSet<()>,
    /// The tasks, the oldest first.
    oldest_first: VecDeque<AbortHandle>,
}

impl OpenCommands {
    /// Answers a command within [`COMMAND_TIMEOUT`].
    fn add(&mut self, answer: impl Future<Output = io::Result<()>> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first.retain(|task| !task.is_finished());
        if self.oldest_first.len() == MAX_COMMANDS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.oldest_first.push_back(self.tasks.spawn(async move {
            if let Ok(Err(error)) = timeout(COMMAND_TIMEOUT, answer).await {
                tracing::debug!(%error, "a command was not answered");
            }
        }));
    }
}

/// Answers one command. A request to reconnect is answered before the group is connected. `status` has what does not
/// change of the instance's status.
///
/// # Errors
///
/// Fails if the command sends no valid request, or does not read the reply.
async fn answer(
    socket: impl AsyncRead + AsyncWrite + Send + 'static,
    status: &InstanceStatus,
    groups: &Arc<GroupManager>,
    started: Instant,
) -> io::Result<()> {
    let (input, mut output) = tokio::io::split(socket);
    let line = LineReader::new(Box::new(input), MAX_REQUEST_BYTES).next().await;
    let Some(Ok(line)) = line else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let reply = match serde_json::from_slice(&line)? {
        InstanceRequest::Status => InstanceReply::Status(Box::new(InstanceStatus {
            up_s: started.elapsed().as_secs(),
            status: status_for_owner(groups).await,
            ..status.clone()
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

/// Returns what `get_status` reports, with the findings that only the owner of the config may know.
async fn status_for_owner(groups: &Arc<GroupManager>) -> Value {
    let mut report = status::page_report(groups).await;
    for of_group in report["groups"].as_array_mut().into_iter().flatten() {
        // It may be shown elsewhere, and only the session that offered the login may.
        of_group["loginUrl"] = Value::Null;
        let name = GroupName::new(of_group["group"].as_str().unwrap_or_default());
        if let Some(group) = groups.get(&name) {
            of_group["findings"] = group.snapshot().findings_for_owner().into();
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test(start_paused = true)]
    async fn who_only_connects_keeps_nobody_out_and_does_not_stay() {
        let mut commands = OpenCommands::default();
        let open = Arc::new(());
        for _ in 0..3 * MAX_COMMANDS {
            let open = open.clone();
            commands.add(async move {
                let _open = open;
                pending().await
            });
        }
        let (sender, answered) = oneshot::channel();
        commands.add(async move { sender.send(()).map_err(|()| io::ErrorKind::Other.into()) });
        let within = timeout(Duration::from_millis(1), answered).await;
        assert!(matches!(within, Ok(Ok(()))), "{within:?}");
        assert!(Arc::strong_count(&open) <= MAX_COMMANDS, "{}", Arc::strong_count(&open));
        sleep(2 * COMMAND_TIMEOUT).await;
        assert_eq!(Arc::strong_count(&open), 1);
    }
}
