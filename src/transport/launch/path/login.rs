//! Asks the user's login shell for its PATH.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
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

use crate::transport::launch::ProcessEnv;

/// Start-up files with version managers in them take up to a second; some of them never end.
const LIMIT: Duration = Duration::from_secs(2);

/// More than any greeting that start-up files print, and no more than we care to keep.
const OUTPUT_LIMIT: usize = 1 << 20;

/// Keeps what is common in interactive start-up files from waiting for an answer or starting tmux.
const QUIET: [(&str, &str); 3] =
    [("DISABLE_AUTO_UPDATE", "true"), ("ZSH_TMUX_AUTOSTART", "false"), ("ZSH_TMUX_AUTOSTARTED", "true")];

/// The answer, for the life of the process: a shell that failed once is not asked again.
static PATH: OnceCell<Option<OsString>> = OnceCell::const_new();

pub(super) async fn path(ambient: &ProcessEnv) -> Option<OsString> {
    PATH.get_or_init(|| async {
        let shell = ambient.var("SHELL").map(Path::new).filter(|shell| shell.is_absolute())?;
        let path = ask(shell, ambient, LIMIT).await;
        debug!(shell = %shell.display(), found = path.is_some(), "asked the login shell for its PATH");
        path
    })
    .await
    .clone()
}

/// The PATH that `shell` has when it starts as in a terminal; `None` if it does not say within `limit`.
async fn ask(shell: &Path, ambient: &ProcessEnv, limit: Duration) -> Option<OsString> {
    let deadline = Instant::now() + limit;
    let mark = mark();
    let home = ambient.home().filter(|home| home.is_dir());
    let mut command = Command::new(shell);
    command
        .arg("-ilc")
        .arg(format!("printf '%s%s%s' '{mark}' \"$PATH\" '{mark}'"))
        .env_clear()
        .envs(&ambient.vars)
        .envs(QUIET)
        .current_dir(home.unwrap_or_else(|| "/".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let mut group = Group(command.spawn().ok()?);
    let stdout = group.0.stdout.take()?;
    let path = timeout_at(deadline, between(stdout, mark.as_bytes())).await.ok().flatten();
    // It goes by itself, or with its group when `group` is dropped.
    let _exited = timeout_at(deadline, group.0.wait()).await;
    path.filter(|path| !path.is_empty())
}

/// Ends a shell that was not waited for, and all that its start-up files left running.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // No id once it is reaped: then the number may be a stranger's.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            // Fails only if it is gone.
            let _gone = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Text that no start-up file prints: it is new each time.
fn mark() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// What `from` has between two marks; read no further, for what start-up files leave running may
/// hold it open.
async fn between(mut from: impl AsyncRead + Unpin, mark: &[u8]) -> Option<OsString> {
    let mut output = Vec::new();
    while output.len() < OUTPUT_LIMIT && from.read_buf(&mut output).await.ok()? > 0 {
        let mut marks = memchr::memmem::find_iter(&output, mark);
        if let (Some(start), Some(end)) = (marks.next(), marks.next()) {
            return Some(OsString::from_vec(output[start + mark.len()..end].to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    /// What a login shell says whose start-up file is `profile`.
    async fn path_of(profile: &str, limit: Duration) -> (Option<OsString>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".profile"), profile).unwrap();
        let home = dir.path().as_os_str().to_owned();
        let ambient = ProcessEnv { vars: BTreeMap::from([("HOME".into(), home)]), cwd: "/".into() };
        (ask(Path::new("/bin/sh"), &ambient, limit).await, dir)
    }

    #[tokio::test]
    async fn a_greeting_is_not_taken_for_the_path() {
        let (path, _dir) = path_of("echo Welcome; PATH='/a b:/c'; export PATH", LIMIT * 10).await;
        assert_eq!(path, Some("/a b:/c".into()));
    }

    #[tokio::test]
    async fn a_shell_that_leaves_something_running_still_answers() {
        let (path, _dir) = path_of("PATH=/a:/b; /bin/sleep 5 &", LIMIT * 10).await;
        assert_eq!(path, Some("/a:/b".into()));
    }

    #[tokio::test]
    async fn a_shell_that_hangs_is_killed_with_its_group() {
        let hang = "sleep 60 & echo $! > \"$HOME/pid\"; wait";
        let (path, dir) = path_of(hang, LIMIT).await;
        assert_eq!(path, None);
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
        let is_alive = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            nix::sys::signal::kill(Pid::from_raw(pid), None).is_ok() && !state.contains(") Z ")
        };
        while is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_shell_that_fails_has_no_answer() {
        assert_eq!(path_of("exit 1", LIMIT).await.0, None);
    }

    #[test]
    fn marks_differ() {
        assert_ne!(mark(), mark());
    }
}
