//! What a test can do with processes on Unix only: other users, launchers, process groups and signals.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use super::{Proxy, ProxyCommand};
use crate::support::wait_until_closed;

/// The user that has no rights.
pub(crate) const NOBODY: u32 = 65534;

/// Copies a program, by another process: if ours had the copy open for writing while another test starts a process, that
/// one would have it open, too, and the copy could not be run (ETXTBSY of execve(2)).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "{from:?}");
}

/// Copies of the program and of the scripted upstream that every user can run. The target directory may be below one that
/// only its owner can enter.
pub(crate) struct ProgramsForAll(TempDir);

impl ProgramsForAll {
    pub(crate) fn new() -> Self {
        let programs = Self(TempDir::new().unwrap());
        fs::set_permissions(programs.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(env!("CARGO_BIN_EXE_dynamic-mcp").as_ref(), &programs.proxy());
        copy_program(crate::support::scripted_upstream_program().as_ref(), &programs.upstream());
        programs
    }

    pub(crate) fn proxy(&self) -> PathBuf {
        self.0.path().join("dynamic-mcp")
    }

    pub(crate) fn upstream(&self) -> PathBuf {
        self.0.path().join("upstream")
    }

    /// Runs the copy of the program.
    pub(crate) fn proxy_command(&self) -> ProxyCommand {
        ProxyCommand::of(&self.proxy(), TempDir::new().unwrap())
    }
}

impl ProxyCommand {
    /// As a user that is not root, because root may do what this user may not: as `nobody` if the tests run as root.
    /// `None`, with a line that says so, if root cannot become that user here.
    pub(crate) fn unprivileged() -> Option<Self> {
        if !geteuid().is_root() {
            return Some(Self::new());
        }
        // A copy, because the user may not be able to reach the target directory.
        let home = TempDir::new().unwrap();
        let program = home.path().join("dynamic-mcp");
        copy_program(env!("CARGO_BIN_EXE_dynamic-mcp").as_ref(), &program);
        Self::of(&program, home).into_nobody()
    }

    /// A copy of the program, as a user that is not root.
    pub(crate) fn unprivileged_copy(program: &Path) -> Option<Self> {
        Self::of(program, TempDir::new().unwrap()).into_nobody()
    }

    fn into_nobody(mut self) -> Option<Self> {
        if !geteuid().is_root() {
            return Some(self);
        }
        if !Command::new("true").uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: root cannot become user {NOBODY} here");
            return None;
        }
        chown(self.home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        self.command.uid(NOBODY).gid(NOBODY);
        self.user = Some(NOBODY);
        Some(self)
    }

    /// Lets another program, such as `prlimit`, start it: the program with its arguments follows `command`.
    pub(crate) fn started_by(mut self, command: &[&str]) -> Self {
        // Its environment has another PATH than the tests.
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = std::env::split_paths(&dirs).map(|dir| dir.join(command[0]));
        let mut outer = Command::new(paths.find(|path| path.is_file()).unwrap_or_else(|| command[0].into()));
        outer.args(&command[1..]).arg(self.command.get_program()).args(self.command.get_args());
        outer.env_clear().current_dir(self.home.path());
        outer.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(user) = self.user {
            outer.uid(user).gid(user);
        }
        self.command = outer;
        self
    }

    /// The same, but the other program runs as the user of the tests.
    #[cfg(target_os = "linux")]
    pub(crate) fn started_by_tester(mut self, command: &[&str]) -> Self {
        self.user = None;
        self.started_by(command)
    }

    pub(crate) fn in_own_process_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }
}

impl Proxy {
    /// Returns once no process can read it: until then, the program could write to it without an error.
    pub(crate) fn close_stdout(&mut self) {
        let stdout = self.stdout.take().unwrap();
        let path = format!("/proc/self/fd/{}", stdout.as_raw_fd());
        let writing_end = File::options().write(true).open(path).unwrap();
        drop(stdout);
        wait_until_closed(&writing_end).unwrap();
    }

    pub(crate) fn send_signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }
}
