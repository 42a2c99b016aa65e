//! This program once more, as the server of an MCP client, for `demo` and `import --measure`.

use super::client::McpClient;
use anyhow::{Context, ensure};
use futures_util::FutureExt;
use futures_util::future::ready;
use process::launch::OWN_VAR_PREFIX;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use wire::lines::UNLIMITED;

/// How long to wait for an answer, and for a process to exit. The machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A process of this program, and the connection to it.
pub struct ProgramClient {
    /// The process.
    child: Child,
    /// The connection.
    pub client: McpClient,
}

/// Takes the variables of our own options out of the environment that a command of this program gets.
pub(crate) fn remove_own_variables(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with(OWN_VAR_PREFIX)) {
        command.env_remove(name);
    }
}

impl ProgramClient {
    /// Starts this program with `args`. Its stderr is ours. It gets our environment, but for the variables of our own
    /// options. `dirs` are variables of directories, such as `XDG_STATE_HOME` for what it remembers.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn start(args: &[&OsStr], dirs: &[(&str, &Path)]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.envs(dirs.iter().copied());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // The user's own settings would change what is shown.
        remove_own_variables(&mut command);
        let mut child = command.spawn().context("cannot start this program once more")?;
        let stdin = child.stdin.take().context("a process without stdin")?;
        let stdout = child.stdout.take().context("a process without stdout")?;
        let no_question = Arc::new(|_| ready(None).boxed());
        Ok(Self { child, client: McpClient::new(stdout, stdin, UNLIMITED, TIMEOUT, no_question) })
    }

    /// Makes the handshake and returns the result of `initialize`.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended, answers with an error, or does not answer within `TIMEOUT`.
    pub async fn initialize(&self) -> anyhow::Result<Value> {
        let result = self.client.initialize("dynamic-mcp demo", json!({})).await?;
        Ok(serde_json::from_slice(&result)?)
    }

    /// Returns the pid of the process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Closes its stdin, as clients do, and waits until it has exited.
    ///
    /// # Errors
    ///
    /// Fails if it does not exit within `TIMEOUT`, or not with success.
    pub async fn shut_down(&mut self) -> anyhow::Result<()> {
        self.client.close();
        let status = timeout(TIMEOUT, self.child.wait()).await.context("the process did not exit")??;
        ensure!(status.success(), "the process ended with {status}");
        Ok(())
    }
}
