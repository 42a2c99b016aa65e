//! Reads the PATH of the user's login shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::LoginPath;
use base::random;
use config::env::Env;

/// Start-up files with version managers in them take seconds, in a cold container much longer. Some never end.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// More than the start-up files of any shell print.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Variables that keep common interactive start-up files from asking a question or starting tmux.
const NON_INTERACTIVE_VARS: [(&str, &str); 3] =
    [("DISABLE_AUTO_UPDATE", "true"), ("ZSH_TMUX_AUTOSTART", "false"), ("ZSH_TMUX_AUTOSTARTED", "true")];

/// The login shell of our user, for all servers.
static LOGIN_SHELL: LoginShell = LoginShell(Mutex::new(None));

/// A shell, and what it was last asked. Only its answer is kept for good.
struct LoginShell(Mutex<Option<Query>>);

/// A question to a shell. It is answered in the background.
#[derive(Clone)]
struct Query {
    shell: PathBuf,
    asked_at: Instant,
    /// `None` until the shell has answered, `Some(None)` if it printed no PATH in time.
    answer: watch::Receiver<Option<Option<OsString>>>,
}

/// Returns the PATH of the user's login shell, which is awaited until it has had this `time`.
pub(super) async fn path(process_env: &Env, time: Duration) -> LoginPath {
    LOGIN_SHELL.path(process_env, time).await
}

impl LoginShell {
    async fn path(&self, process_env: &Env, time: Duration) -> LoginPath {
        let shell = process_env.var("SHELL").map(Path::new).filter(|shell| shell.is_absolute());
        let Some(shell) = shell else { return LoginPath::default() };
        let mut query = self.ask(shell, process_env);
        let deadline = query.asked_at + time;
        let answered = timeout_at(deadline, query.answer.wait_for(Option::is_some)).await;
        let path = answered.ok().and_then(|answer| answer.ok()?.clone().flatten());
        let lack = path.is_none().then(|| (query.shell, query.asked_at.elapsed()));
        LoginPath { path, lack }
    }

    /// Returns the last question to the shell. Asks it in the background if it was not asked, or if it did not answer in
    /// `QUERY_TIMEOUT`.
    fn ask(&self, shell: &Path, process_env: &Env) -> Query {
        let mut last = self.0.lock();
        let is_over = |query: &Query| {
            !matches!(*query.answer.borrow(), Some(Some(_))) && query.asked_at.elapsed() >= QUERY_TIMEOUT
        };
        if let Some(query) = last.as_ref().filter(|query| !is_over(query)) {
            return query.clone();
        }
        let (sender, answer) = watch::channel(None);
        let query = Query { shell: shell.to_owned(), asked_at: Instant::now(), answer };
        *last = Some(query.clone());
        let (shell, process_env) = (shell.to_owned(), process_env.clone());
        // It ends by itself.
        tokio::spawn(async move {
            let path = query_path(&shell, &process_env, QUERY_TIMEOUT).await;
            debug!(shell = %shell.display(), found = path.is_some(), "asked the login shell for its PATH");
            sender.send_replace(Some(path));
        });
        query
    }
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
        .envs(&*process_env.vars)
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
            query_with_profile("echo Welcome; PATH='/a b:/c'; export PATH", QUERY_TIMEOUT).await;
        assert_eq!(path, Some("/a b:/c".into()));
    }

    #[tokio::test]
    async fn a_shell_that_leaves_a_process_running_still_has_a_path() {
        let (path, _dir) = query_with_profile("PATH=/a:/b; /bin/sleep 5 &", QUERY_TIMEOUT).await;
        assert_eq!(path, Some("/a:/b".into()));
    }

    #[tokio::test]
    async fn a_shell_that_hangs_is_killed_with_its_group() {
        let hang = "sleep 60 & echo $! > \"$HOME/pid\"; wait";
        let (path, dir) = query_with_profile(hang, Duration::from_secs(2)).await;
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
    async fn a_slow_shell_is_awaited_in_the_background() {
        let dir = tempfile::tempdir().unwrap();
        let waits = "while ! [ -e \"$HOME/go\" ]; do /bin/sleep 0.02; done; PATH=/a:/b";
        fs::write(dir.path().join(".profile"), waits).unwrap();
        let vars = [("HOME", dir.path().as_os_str().to_owned()), ("SHELL", "/bin/sh".into())];
        let (process_env, shell) = (Env::new(vars, "/"), LoginShell(Mutex::default()));
        let late = shell.path(&process_env, Duration::from_millis(50)).await;
        assert_eq!((late.path, late.lack.unwrap().0), (None, "/bin/sh".into()));
        fs::write(dir.path().join("go"), "").unwrap();
        let found = shell.path(&process_env, QUERY_TIMEOUT).await;
        assert_eq!((found.path, found.lack), (Some("/a:/b".into()), None));
    }

    #[tokio::test]
    async fn a_shell_that_fails_has_no_path() {
        assert_eq!(query_with_profile("exit 1", QUERY_TIMEOUT).await.0, None);
    }
}
