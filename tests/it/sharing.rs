//! Shared servers: one process for all of a user's windows.
//!
//! `isolation` shows that sessions of one server do not see each other, `attach` who shares and who does not, `ends` how
//! servers and the host end, `hostile` what a session can do to the others, `host` which windows find the host and what it
//! inherits, and `systemd` where it runs. `impostor` has processes that pose as others, `confinement` windows in
//! sandboxes. `unprivileged` tests users that are not root, and `status` and `logs` the commands that look at all windows. Each test has a runtime directory of its own, and so a host of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    NOBODY, ProgramsForAll, Proxy, ProxyCommand, copy_program, full_upstream, merged, pure_config,
    scripted_upstream, scripted_upstream_program, wait_until,
};

mod attach;
mod confinement;
mod ends;
mod host;
mod hostile;
mod impostor;
mod isolation;
mod logs;
mod status;
mod systemd;
mod unprivileged;

/// The windows of one user: a home and a runtime directory that several programs share.
pub(crate) struct User {
    home: TempDir,
    runtime: TempDir,
    /// Copies of the programs, if the user may not be able to reach the target directory.
    programs: Option<ProgramsForAll>,
}

impl User {
    pub(crate) fn new() -> Self {
        // Other tests raise it at some time, and only processes with equal limits share.
        process::warden::raise_nofile();
        let runtime = TempDir::new().unwrap();
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self { home: TempDir::new().unwrap(), runtime, programs: None }
    }

    /// A user who is not root. `None`, with a line that says so, if there can be none here.
    pub(crate) fn unprivileged() -> Option<Self> {
        let mut user = Self::new();
        if nix::unistd::geteuid().is_root() {
            for dir in [&user.home, &user.runtime] {
                std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            user.programs = Some(ProgramsForAll::new());
        }
        user.new_command().map(|_| user)
    }

    fn new_command(&self) -> Option<ProxyCommand> {
        match &self.programs {
            Some(programs) => ProxyCommand::unprivileged_copy(&programs.proxy()),
            None => Some(ProxyCommand::new()),
        }
    }

    /// A command of the program, such as `status`, without arguments.
    pub(crate) fn program_command(&self) -> Command {
        let mut command = match &self.programs {
            Some(programs) => Command::new(programs.proxy()),
            None => Command::new(env!("CARGO_BIN_EXE_dynamic-mcp")),
        };
        if self.programs.is_some() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.env_clear().env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// The entry of a scripted upstream that this user can start and shares.
    pub(crate) fn shared_upstream(&self, flags: &[&str]) -> Value {
        let entry = shared(scripted_upstream(flags));
        match &self.programs {
            Some(programs) => merged(entry, json!({"command": programs.upstream()})),
            None => entry,
        }
    }

    /// A command that starts a window with this config.
    pub(crate) fn command(&self, config: &Value) -> ProxyCommand {
        let home = self.home.path().to_str().unwrap();
        self.new_command()
            .unwrap()
            .config(config)
            .env("XDG_RUNTIME_DIR", self.runtime.path().to_str().unwrap())
            .env("DYNAMIC_MCP_LOG", "debug")
            // A child's environment is part of what is compared.
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home)
            .env("XDG_CACHE_HOME", home)
            .env("XDG_DATA_HOME", home)
            .args(&["--no-cache"])
    }

    /// A window with this config, after its handshake.
    pub(crate) fn window(&self, config: &Value) -> Proxy {
        self.command(config).start_initialized()
    }

    /// The home directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory of the host's socket.
    pub(crate) fn host_dir(&self) -> PathBuf {
        self.runtime.path().join("dynamic-mcp")
    }

    /// The pids of the hosts of this user that run.
    pub(crate) fn hosts(&self) -> Vec<u32> {
        let dir = self.host_dir();
        processes(|args| {
            args.first().is_some_and(|name| name == "dmcp-host")
                && args.iter().any(|arg| Path::new(arg) == dir)
        })
    }

    /// The path of the host's socket, while a host runs.
    fn host_socket(&self) -> PathBuf {
        let files = fs::read_dir(self.host_dir()).unwrap().flatten().map(|file| file.path());
        let is_socket = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("host") && name.ends_with(".sock")
        };
        files.into_iter().find(is_socket).unwrap()
    }

    /// Waits until exactly one host runs, and returns its pid.
    pub(crate) fn host(&self) -> u32 {
        wait_until("one host runs", || self.hosts().len() == 1);
        self.hosts()[0]
    }
}

impl Drop for User {
    fn drop(&mut self) {
        for host in self.hosts() {
            let _gone = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(host.cast_signed()),
                nix::sys::signal::Signal::SIGTERM,
            );
        }
    }
}

/// The pids of the processes whose arguments satisfy `wanted`. Zombies have none.
pub(crate) fn processes(wanted: impl Fn(&[String]) -> bool) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let args: Vec<String> = line
                .split(|byte| *byte == 0)
                .map(|arg| String::from_utf8_lossy(arg).into_owned())
                .filter(|arg| !arg.is_empty())
                .collect();
            !args.is_empty() && wanted(&args)
        })
        .collect()
}

/// The entry of a scripted upstream that the whole user shares.
fn shared(entry: Value) -> Value {
    merged(entry, json!({"share": "user"}))
}

/// A config with a scripted upstream `g` that the whole user shares.
fn shared_config(flags: &[&str]) -> Value {
    pure_config([("g", shared(scripted_upstream(flags)))])
}

/// The same with all features of MCP.
fn full_shared_config(flags: &[&str]) -> Value {
    pure_config([("g", shared(full_upstream(flags)))])
}

/// Two windows with these capabilities that share `g`. On a machine so loaded that attaching takes more than 2 s, where
/// windows share nothing, it tries again.
fn two_windows(user: &User, config: &Value, capabilities: &Value) -> (Proxy, Proxy) {
    for _ in 0..5 {
        let (mut a, mut b) = (user.command(config).start(), user.command(config).start());
        a.handshake_with(capabilities.clone());
        b.handshake_with(capabilities.clone());
        if a.upstream_pid("g") == b.upstream_pid("g") {
            return (a, b);
        }
        let logs = [a.log(), b.log()].concat();
        assert!(logs.contains("the host did not answer within"), "{logs}");
    }
    panic!("the machine is too slow");
}

/// Asserts that new windows share a process of their own, at another host, and that `old` keeps the one that it has.
fn assert_only_new_windows_share_another(user: &User, config: &Value, old: &mut Proxy, old_pid: u32) {
    let mut new = user.window(config);
    let new_pid = new.upstream_pid("g");
    assert_ne!(new_pid, old_pid);
    assert_eq!(user.window(config).upstream_pid("g"), new_pid);
    assert_eq!(old.upstream_pid("g"), old_pid);
    assert_eq!(user.hosts().len(), 2);
}
