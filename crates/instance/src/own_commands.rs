//! Commands of this program, which an instance runs for the status page: each in a process of its own, as at a terminal.

use super::program_client::remove_own_variables;
use base::files::MAX_CONFIG_BYTES;
use config::env::Env;
use front::session::requester::{CommandOutput, OwnCommand, OwnCommands};
use futures_util::FutureExt;
use process::own_program::own_program;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long a command may take. The system may ask the person to unlock the keyring.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The flag of `CreateProcessW` with which no console appears.
#[cfg(windows)]
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

/// Returns what runs commands on these config files, in this environment.
pub(crate) fn own_commands(files: &[PathBuf], env: &Env) -> OwnCommands {
    let (files, cwd) = (files.to_vec(), env.cwd().to_owned());
    Arc::new(move |command| {
        let (files, cwd) = (files.clone(), cwd.clone());
        async move {
            let output = timeout(TIMEOUT, run(command, files, cwd)).await;
            let problem = match output {
                Ok(Ok(output)) => return output,
                Ok(Err(error)) => format!("dynamic-mcp cannot run its own command: {error}"),
                Err(_) => "It takes longer than five minutes; `dynamic-mcp status` shows what became of it."
                    .to_owned(),
            };
            CommandOutput { stderr: problem, ..CommandOutput::default() }
        }
        .boxed()
    })
}

/// Runs a command. It is not ended if nobody waits any more, because it may be writing files.
///
/// # Errors
///
/// Fails if the process cannot be started, or its pipes fail.
async fn run(
    OwnCommand { args, input }: OwnCommand,
    files: Vec<PathBuf>,
    cwd: PathBuf,
) -> io::Result<CommandOutput> {
    let mut command = Command::new(own_program());
    command.current_dir(cwd).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    remove_own_variables(&mut command);
    #[cfg(windows)]
    command.creation_flags(CREATE_NO_WINDOW);
    for file in files {
        command.arg("--config").arg(file);
    }
    let mut child = command.args(args).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        stdin.write_all(input.as_bytes()).await?;
    }
    let (stdout, stderr, status) = tokio::try_join!(read(stdout), read(stderr), child.wait())?;
    Ok(CommandOutput { stdout, stderr, is_success: status.success() })
}

/// Reads what a command prints, up to the size of a config file.
///
/// # Errors
///
/// Fails if the pipe fails.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
