//! Reads the PATH of the user's login shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use base::random;
use config::env::Env;

/// Start-up files with version managers in them take up to a second. Some never end.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// More than the start-up files of any shell print.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Variables that keep common interactive start-up files from asking a question or starting tmux.
const NON_INTERACTIVE_VARS: [(&str, &str); 3] =
    [("DISABLE_AUTO_UPDATE", "true"), ("ZSH_TMUX_AUTOSTART", "false"), ("ZSH_TMUX_AUTOSTARTED", "true")];

/// The result for the life of our process. A shell that failed once is not started again.
static LOGIN_PATH: OnceCell<Option<OsString>> = OnceCell::const_new();

/// Returns the PATH of the user's login shell. Takes up to [`QUERY_TIMEOUT`] on the first call, whose result all later
/// ones return. `None` if `SHELL` is not an absolute path, or if the shell printed no PATH.
pub(super) async fn path(process_env: &Env) -> Option<OsString> {
    LOGIN_PATH
        .get_or_init(|| async {
            let shell = process_env.var("SHELL").map(Path::new).filter(|shell| shell.is_absolute())?;
            let path = query_path(shell, process_env, QUERY_TIMEOUT).await;
            debug!(shell = %shell.display(), found = path.is_some(), "asked the login shell for its PATH");
            path
        })
        .await
        .clone()
}

/// Starts `shell` as a terminal does and returns its PATH, or `None` if it prints none within `timeout`.
async fn query_path(shell: &Path, process_env: &Env, timeout: Duration) -> Option<OsString> {
    let deadline = Instant::now() + timeout;
    // Random, so that no start-up file prints it.
    let delimiter = random::hex_id();
    let home = process_env.home().filter(|home| home.is_dir());
    let mut command = Command::new(shell);
    command
        .arg("-ilc")
        .arg(format!("printf '%s%s%s' '{delimiter}' \"$PATH\" '{delimiter}'"))
        .env_clear()
        .envs(&process_env.vars)
        .envs(NON_INTERACTIVE_VARS)
        .current_dir(home.unwrap_or_else(|| "/".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let mut group = ShellProcessGroup(command.spawn().ok()?);
    let stdout = group.0.stdout.take()?;
    let path = timeout_at(deadline, read_delimited(stdout, delimiter.as_bytes())).await.ok().flatten();
    // The shell exits by itself, or is killed when `group` is dropped.
    let _exited = timeout_at(deadline, group.0.wait()).await;
    path.filter(|path| !path.is_empty())
}

/// Kills a shell that was not reaped, and every process of its group that its start-up files left running.
struct ShellProcessGroup(Child);

impl Drop for ShellProcessGroup {
    fn drop(&mut self) {
        // A reaped process has no id: its pid may belong to another process by now.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            // Fails only if no process of the group is left.
            let _no_process = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Returns the bytes between the first two delimiters; `None` if the output ends without them, or is longer than
/// [`MAX_OUTPUT_BYTES`].
///
/// Does not read to the end, because a process that a start-up file left running may hold the pipe open.
async fn read_delimited(mut stdout: impl AsyncRead + Unpin, delimiter: &[u8]) -> Option<OsString> {
    let mut output = Vec::new();
    while output.len() < MAX_OUTPUT_BYTES && stdout.read_buf(&mut output).await.ok()? > 0 {
        let mut delimiters = memchr::memmem::find_iter(&output, delimiter);
        if let (Some(start), Some(end)) = (delimiters.next(), delimiters.next()) {
            return Some(OsString::from_vec(output[start + delimiter.len()..end].to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs `query_path` on a shell whose start-up file is `profile`. Returns the home directory too.
    async fn query_with_profile(profile: &str, timeout: Duration) -> (Option<OsString>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".profile"), profile).unwrap();
        let home = dir.path().as_os_str().to_owned();
        let process_env = Env::new([("HOME", home)], "/");
        (query_path(Path::new("/bin/sh"), &process_env, timeout).await, dir)
    }

    #[tokio::test]
    async fn output_of_start_up_files_is_ignored() {
        let (path, _dir) =
            query_with_profile("echo Welcome; PATH='/a b:/c'; export PATH", QUERY_TIMEOUT * 10).await;
        assert_eq!(path, Some("/a b:/c".into()));
    }

    #[tokio::test]
    async fn a_shell_that_leaves_a_process_running_still_has_a_path() {
        let (path, _dir) = query_with_profile("PATH=/a:/b; /bin/sleep 5 &", QUERY_TIMEOUT * 10).await;
        assert_eq!(path, Some("/a:/b".into()));
    }

    #[tokio::test]
    async fn a_shell_that_hangs_is_killed_with_its_group() {
        let hang = "sleep 60 & echo $! > \"$HOME/pid\"; wait";
        let (path, dir) = query_with_profile(hang, QUERY_TIMEOUT).await;
        assert_eq!(path, None);
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
        let is_alive = || {
            let is_zombie = base::procfs::stat(pid).is_some_and(|process| process.is_zombie);
            nix::sys::signal::kill(Pid::from_raw(pid), None).is_ok() && !is_zombie
        };
        while is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_shell_that_fails_has_no_path() {
        assert_eq!(query_with_profile("exit 1", QUERY_TIMEOUT).await.0, None);
    }
}
