//! What is on the disk after a command was killed at any call that changes a file, or after any such call failed: old or
//! new, whole, nothing of the user's lost, no secret that others can read, and nothing left that stays for ever.
//! `tests/helpers/write_faults.rs` makes the faults.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::oauth::fixture::Fixture;
use crate::oauth::keyring::Desktop;
use crate::scripted::example;
use crate::support::{config_of, merged, scripted_upstream};

/// A value that nobody else may read.
const SECRET: &str = "ghp_s3cret0123456789";
/// No command makes so many calls that change a file.
const MAX_CALLS: usize = 1000;
/// How many runs there are at a time where they share nothing.
const WORKERS: usize = 4;

/// What happens at a call that changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process is killed before it.
    Kill,
    /// The process is killed when half of the bytes are written.
    Torn,
    /// It fails with this error.
    Error(i32),
    /// It and all that follow fail with this error.
    ErrorFrom(i32),
}

/// A home directory.
struct Disk(TempDir);

impl Disk {
    /// One with these files, which only their owner can read.
    fn with(files: &[(&str, String)]) -> Self {
        let disk = Self(TempDir::new().unwrap());
        for (name, text) in files {
            let path = disk.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        disk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The text of a file, with `/HOME` in place of this directory.
    fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path().join(name)).ok()?;
        Some(text.replace(self.path().to_str().unwrap(), "/HOME"))
    }

    /// `dynamic-mcp` with these arguments, for the user of this directory.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().env("HOME", self.path()).env("PATH", "/usr/bin:/bin");
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command that has to succeed.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every file: its path from here, and its mode.
    fn files(&self) -> Vec<(PathBuf, u32)> {
        let mut files = Vec::new();
        collect(self.path(), self.path(), &mut files);
        files.sort();
        files
    }

    /// Makes temporary files so old that nobody can be writing them.
    fn age_temporaries(&self) {
        let long_ago = SystemTime::now() - Duration::from_secs(7200);
        for (path, _) in self.files().iter().filter(|(path, _)| is_temporary(path)) {
            let file = fs::File::options().write(true).open(self.path().join(path)).unwrap();
            file.set_modified(long_ago).unwrap();
        }
    }

    /// Checks that no secret can be read by others, and that every file of ours is whole.
    fn check(&self, what: &str) {
        for (path, mode) in self.files() {
            let text = String::from_utf8_lossy(&fs::read(self.path().join(&path)).unwrap()).into_owned();
            assert!(
                !text.contains(SECRET) || mode & 0o077 == 0,
                "{what}: others can read {path:?} ({mode:o})"
            );
            if path.extension().is_some_and(|extension| extension == "json") {
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{what}: {path:?} is broken: {text}");
            }
        }
    }
}

fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tmp")
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        match metadata.is_dir() {
            true => collect(root, &path, files),
            false => files.push((path.strip_prefix(root).unwrap().to_owned(), metadata.mode() & 0o7777)),
        }
    }
}

/// Runs a command with a fault at its call number `at`. Returns its output, and whether it came so far.
fn run_with_fault(mut command: Command, fault: Fault, at: usize) -> (Output, bool) {
    let marks = TempDir::new().unwrap();
    let mark = marks.path().join("mark");
    let written = match fault {
        Fault::Kill => format!("{at}:kill"),
        Fault::Torn => format!("{at}:torn"),
        Fault::Error(errno) => format!("{at}:{errno}"),
        Fault::ErrorFrom(errno) => format!("{at}+:{errno}"),
    };
    let library = example("scripted_upstream").with_file_name("libwrite_faults.so");
    command.env("LD_PRELOAD", library).env("WRITE_FAULT", written).env("WRITE_FAULT_MARK", &mark);
    let output = command.output().unwrap();
    let is_killed = matches!(fault, Fault::Kill | Fault::Torn);
    let happened = mark.exists();
    assert!(happened || !is_killed || output.status.signal().is_none(), "{output:?}");
    (output, happened)
}

/// Has every call fail that changes a file, each in a run of its own and in each way, in a command for what `prepare` made.
/// `check` looks at that afterwards. So many `workers` share the runs.
fn at_every_write<T>(
    workers: usize,
    prepare: impl Fn() -> T + Sync,
    command: impl Fn(&T) -> Command + Sync,
    check: impl Fn(&T, &Output, &str) + Sync,
) {
    let runs = |fault, first: usize| {
        let mut calls = 0;
        for at in (first..=MAX_CALLS).step_by(workers) {
            let prepared = prepare();
            let (output, happened) = run_with_fault(command(&prepared), fault, at);
            let what = format!("{fault:?} at call {at}");
            if !happened {
                break;
            }
            calls += 1;
            check(&prepared, &output, &what);
        }
        calls
    };
    for fault in faults() {
        let calls: usize = std::thread::scope(|scope| {
            let runs = &runs;
            let workers: Vec<_> =
                (1..=workers).map(|first| scope.spawn(move || runs(fault, first))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert!(calls > 3, "only {calls} calls change a file");
    }
}

/// The same for a command in a home directory, where no secret may become readable and no file of ours broken.
fn at_every_write_of(
    disk: impl Fn() -> Disk + Sync,
    args: &[&str],
    check: impl Fn(&Disk, &Output, &str) + Sync,
) {
    at_every_write(
        WORKERS,
        disk,
        |disk| disk.command(args),
        |disk, output, what| {
            disk.check(what);
            check(disk, output, what);
        },
    );
}

/// The faults of this run: the two that differ most, or all with `DYNAMIC_MCP_ALL_FAULTS`.
fn faults() -> Vec<Fault> {
    let all = [
        Fault::Kill,
        Fault::ErrorFrom(libc::ENOSPC),
        Fault::Torn,
        Fault::Error(libc::EIO),
        Fault::ErrorFrom(libc::EDQUOT),
        Fault::ErrorFrom(libc::EROFS),
    ];
    let count = if std::env::var_os("DYNAMIC_MCP_ALL_FAULTS").is_some() { all.len() } else { 2 };
    all[..count].to_vec()
}

const CURSOR: &str = ".cursor/mcp.json";
const GEMINI: &str = ".gemini/settings.json";
const SERVERS: &str = ".config/dynamic-mcp/servers.json";
const IMPORT: [&str; 3] = ["import", "--yes", "--write-client"];
const UNDO: [&str; 3] = ["import", "--undo", "--yes"];

fn clients() -> [(&'static str, String); 2] {
    let github = json!({"command": "npx", "args": ["github-mcp"], "env": {"GITHUB_TOKEN": SECRET}});
    let text = |name: &str| {
        let servers = json!({"mcpServers": {name: github, "fs": {"command": "fs"}}, "theme": "dark"});
        serde_json::to_string_pretty(&servers).unwrap()
    };
    [(CURSOR, text("github")), (GEMINI, text("hub"))]
}

/// Checks that the files of the clients are as they were or as they should be, and that what a client lost is elsewhere.
fn check_clients(disk: &Disk, old: &[(&str, String)], new: &[String], what: &str) {
    for ((name, old), new) in old.iter().zip(new) {
        let text = disk.text(name).unwrap_or_else(|| panic!("{what}: {name} is gone"));
        assert!(text == *old || text == *new, "{what}: {name} is neither old nor new: {text}");
        if text == *new && text != *old {
            let servers = disk.text(SERVERS).unwrap_or_default();
            assert!(servers.contains("github-mcp") && servers.contains(SECRET), "{what}: {servers}");
        }
    }
}

/// Runs a command again. It leaves nothing but what it leaves without a fault.
fn check_again(disk: &Disk, args: &[&str], undisturbed: &Disk, what: &str) {
    disk.age_temporaries();
    let output = disk.command(args).output().unwrap();
    assert!(output.status.success(), "{what}, then again: {output:?}");
    disk.check(&format!("{what}, then again"));
    for name in [CURSOR, GEMINI, SERVERS] {
        assert_eq!(disk.text(name), undisturbed.text(name), "{what}, then again: {name}");
    }
    check_nothing_left(disk, what);
}

fn check_nothing_left(disk: &Disk, what: &str) {
    let left: Vec<_> = disk.files().into_iter().filter(|(path, _)| is_temporary(path)).collect();
    assert!(left.is_empty(), "{what}: left for ever: {left:?}");
}

#[test]
fn an_import_that_is_interrupted_loses_nothing_and_can_be_repeated() {
    let old = clients();
    let undisturbed = Disk::with(&old);
    undisturbed.run(&IMPORT);
    let new = [CURSOR, GEMINI].map(|name| undisturbed.text(name).unwrap());
    at_every_write_of(
        || Disk::with(&old),
        &IMPORT,
        |disk, _, what| {
            check_clients(disk, &old, &new, what);
            check_again(disk, &IMPORT, &undisturbed, what);
            disk.run(&UNDO);
            for (name, old) in &old {
                let text = disk.text(name).unwrap();
                assert_eq!(json_of(&text), json_of(old), "{what}, then undone: {name}");
            }
        },
    );
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_undo_that_is_interrupted_loses_nothing_and_can_be_repeated() {
    let imported = || {
        let disk = Disk::with(&clients());
        disk.run(&IMPORT);
        disk
    };
    let old: Vec<_> =
        [CURSOR, GEMINI].map(|name| (name, imported().text(name).unwrap())).into_iter().collect();
    let undisturbed = imported();
    undisturbed.run(&UNDO);
    let new = [CURSOR, GEMINI].map(|name| undisturbed.text(name).unwrap());
    at_every_write_of(imported, &UNDO, |disk, _, what| {
        check_clients(disk, &old, &new, what);
        check_again(disk, &UNDO, &undisturbed, what);
    });
}

#[test]
fn an_edit_of_the_config_that_is_interrupted_leaves_the_old_or_the_new_text() {
    let old = json!({"mcpServers": {"a": {"command": "a", "env": {"TOKEN": SECRET}}}}).to_string();
    let args = ["add", "b", "--", "b"];
    let undisturbed = Disk::with(&[(SERVERS, old.clone())]);
    undisturbed.run(&args);
    let new = undisturbed.text(SERVERS).unwrap();
    at_every_write_of(
        || Disk::with(&[(SERVERS, old.clone())]),
        &args,
        |disk, output, what| {
            let text = disk.text(SERVERS).unwrap();
            assert!(text == old || text == new, "{what}: {text}");
            assert!(text == new || !output.status.success(), "{what}: it says that it is done");
            if text == old {
                check_again(disk, &args, &undisturbed, what);
            }
        },
    );
}

/// A home directory with a server `g` that has a tool with this description, in a catalog file.
fn with_server(entry: Value) -> Disk {
    let disk = Disk::with(&[]);
    let definitions = disk.path().join("definitions");
    let server = scripted_upstream(&["--definitions-file", definitions.to_str().unwrap()]);
    let server = merged(merged(server, json!({"cwd": disk.path()})), entry);
    let config = disk.path().join(SERVERS);
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, config_of([("g", server)]).to_string()).unwrap();
    define(&disk, "Reads it.");
    disk
}

fn define(disk: &Disk, description: &str) {
    let tool = json!({"name": "changing", "description": description, "inputSchema": {"type": "object"}});
    fs::write(disk.path().join("definitions"), tool.to_string()).unwrap();
}

const LIST: [&str; 3] = ["tools", "g", "changing"];

#[test]
fn a_cache_that_cannot_be_written_stops_no_command_and_the_next_one_repairs_it() {
    let undisturbed = with_server(json!({}));
    let listed = undisturbed.run(&LIST);
    at_every_write_of(
        || with_server(json!({})),
        &LIST,
        |disk, output, what| {
            if output.status.signal().is_none() {
                assert!(output.status.success(), "{what}: {output:?}");
                assert_eq!(String::from_utf8_lossy(&output.stdout), listed, "{what}");
            }
            disk.age_temporaries();
            assert_eq!(disk.run(&LIST), listed, "{what}, then again");
            // It connects, so that the record of its tools is written as well.
            disk.run(&["call", "g", "echo", r#"{"text":"a"}"#]);
            assert_eq!(disk.run(&LIST), listed, "{what}, then again after a call");
            check_nothing_left(disk, what);
        },
    );
}

#[test]
fn an_approval_that_is_interrupted_is_made_or_not_and_can_be_repeated() {
    let changed = || {
        let disk = with_server(json!({"pin_tools": true}));
        disk.run(&LIST);
        define(&disk, "Sends it.");
        // Only a session that reads the list again notices.
        drop(disk.command(&["call", "g", "no_such_tool"]).output().unwrap());
        disk
    };
    let approve = ["approve", "g"];
    at_every_write_of(changed, &approve, |disk, output, what| {
        let call = || disk.command(&["call", "g", "changing", "{}"]).output().unwrap();
        let is_approved = call().status.success();
        assert!(is_approved || !output.status.success(), "{what}: it says that it is done");
        disk.age_temporaries();
        if !is_approved {
            disk.run(&approve);
            let output = call();
            assert!(output.status.success(), "{what}, then again: {output:?}");
        }
        check_nothing_left(disk, what);
    });
}

#[test]
fn a_refresh_that_is_interrupted_leaves_a_whole_login() {
    let logged_in = || {
        let fixture = Fixture::new();
        fixture.log_in_with_expired_token();
        fixture
    };
    let call = |fixture: &Fixture| fixture.command(&["call", "g", "echo", r#"{"text":"a"}"#]);
    at_every_write(WORKERS, logged_in, call, |fixture, output, what| {
        if output.status.signal().is_none() && !output.status.success() {
            // Without the lock, the refresh token could be used twice.
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                said.contains("its login cannot be used: ") && said.contains(".lock: "),
                "{what}: {said}"
            );
        }
        for file in fixture.login_files() {
            let login = fs::read_to_string(&file).unwrap();
            assert!(serde_json::from_str::<Value>(&login).is_ok(), "{what}: {login}");
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o077, 0, "{what}: others can read {file:?}");
        }
        // The server replaces a refresh token when it is used. If the new one was not stored, the user logs in again.
        let again = call(fixture).output().unwrap();
        let said =
            String::from_utf8_lossy(&again.stderr).into_owned() + &String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() || said.contains("dynamic-mcp login g"), "{what}, then again: {said}");
        if !again.status.success() {
            fixture.log_in();
            assert!(call(fixture).output().unwrap().status.success(), "{what}, after a login");
        }
    });
}

#[test]
fn a_secret_that_is_stored_can_be_listed_or_stored_again() {
    let Some(desktop) = Desktop::start() else { return };
    let command = |disk: &Disk, args: &[&str]| {
        let mut command = disk.command(args);
        command.envs(desktop.shell_env()).env("HOME", disk.path());
        let value = disk.path().join("value");
        fs::write(&value, SECRET).unwrap();
        fs::set_permissions(&value, fs::Permissions::from_mode(0o600)).unwrap();
        command.stdin(fs::File::open(value).unwrap());
        command
    };
    let set = ["secret", "set", "TOKEN"];
    // All share one keyring.
    at_every_write(
        1,
        || Disk::with(&[]),
        |disk| command(disk, &set),
        |disk, output, what| {
            disk.check(what);
            let list =
                || String::from_utf8(command(disk, &["secret", "list"]).output().unwrap().stdout).unwrap();
            assert!(list() == "TOKEN\n" || !output.status.success(), "{what}: it says that it is stored");
            disk.age_temporaries();
            let again = command(disk, &set).output().unwrap();
            assert!(again.status.success(), "{what}, then again: {again:?}");
            assert_eq!(list(), "TOKEN\n", "{what}, then again");
            check_nothing_left(disk, what);
            assert!(command(disk, &["secret", "remove", "TOKEN"]).output().unwrap().status.success());
        },
    );
}
