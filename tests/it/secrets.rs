//! Values that a config names instead of having them, and `dynamic-mcp secret`. The keyring is GNOME Keyring, on a bus of its
//! own; see `oauth::keyring`.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use config::Overrides;
use config::env::Env;
use config::load::load;
use process::secrets::SecretResolver;
use process::warden::{MODE_ARG, Warden};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::oauth::auth_server::MockAuthServer;
use crate::oauth::keyring::Desktop;
use crate::remote::server::Server;
use crate::secret_commands::{env_of, own_config_file, printing_program, with_own_config};
use crate::support::{
    DISABLED_DBUS, PipeReader, ProxyCommand, config_of, is_alive, merged, pure_config, scripted_upstream,
    wait_for_child, wait_until, write_all,
};

/// A value that may appear nowhere but where it belongs.
const VALUE: &str = "s3cret-v4lue";

/// The commands of one user.
struct User {
    home: TempDir,
    env: Vec<(&'static str, String)>,
}

impl User {
    fn new(env: Vec<(&'static str, String)>) -> Self {
        Self { home: TempDir::new().unwrap(), env }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().env("HOME", self.home.path()).envs(self.env.iter().cloned()).args(args);
        command.env("DYNAMIC_MCP_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command with this stdin. Returns its exit code, stdout and stderr.
    fn run(&self, args: &[&str], stdin: &str) -> (i32, String, String) {
        let file = self.home.path().join("stdin");
        std::fs::write(&file, stdin).unwrap();
        let mut child = self.command(args).stdin(File::open(&file).unwrap()).spawn().unwrap();
        let stdout = PipeReader::new(child.stdout.take().unwrap()).read_to_end();
        let stderr = PipeReader::new(child.stderr.take().unwrap()).read_to_end();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(stdout), text(stderr));
        assert!(!stdout.contains(VALUE) && !stderr.contains(VALUE), "{stdout}{stderr}");
        (wait_for_child(&mut child).code().unwrap(), stdout, stderr)
    }

    /// Stores a secret.
    fn store(&self, name: &str, value: &str) {
        let (code, _, stderr) = self.run(&["secret", "set", name], value);
        assert_eq!(code, 0, "{stderr}");
    }
}

#[test]
fn secrets_are_in_the_keyring_and_only_their_names_in_files() {
    let Some(desktop) = Desktop::start() else { return };
    let user = User::new(desktop.shell_env());
    let (code, stdout, stderr) = user.run(&["secret", "set", "GITHUB"], &format!("{VALUE}\n"));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("{keyring:GITHUB}"), "{stdout}");
    let entries = desktop.entries();
    assert!(entries.contains("label = dynamic-mcp: secret GITHUB\n"), "{entries}");
    assert!(entries.contains(&format!("secret = {VALUE}\n")), "{entries}");
    user.store("GITHUB", "another");
    user.store("a-2", "x");
    let entries = desktop.entries();
    assert_eq!((entries.matches("label = ").count(), entries.contains("secret = another\n")), (2, true));
    assert_eq!(user.run(&["secret", "list"], "").1, "GITHUB\na-2\n");
    assert_eq!(user.run(&["secret", "remove", "a-2"], "").1, "a-2: removed\n");
    assert_eq!(user.run(&["secret", "remove", "a-2"], "").1, "a-2: there was no such secret\n");
    assert_eq!(user.run(&["secret", "list"], "").1, "GITHUB\n");
    assert_eq!(desktop.entries().matches("label = ").count(), 1);
}

#[test]
fn a_secret_that_cannot_be_stored_is_an_error_that_says_why() {
    let user = User::new(vec![("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS.to_owned())]);
    for (name, value, code, why) in [
        ("A", VALUE, 1, "the system's keyring cannot be reached; without one, keep the value in a file"),
        ("A B", VALUE, 2, "\"A B\" cannot be the name of a secret: write 1 to 64 letters"),
        ("A", "\n", 2, "the value is empty"),
        ("A", &VALUE.repeat(10_000), 2, "the value is larger than 65536 bytes"),
    ] {
        let (actual, stdout, stderr) = user.run(&["secret", "set", name], value);
        assert_eq!((actual, &*stdout), (code, ""), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    let none = "dynamic-mcp: there are no secrets; `dynamic-mcp secret set NAME` keeps one\n";
    assert_eq!(user.run(&["secret", "list"], ""), (0, String::new(), none.to_owned()));
}

#[test]
fn a_typed_value_is_not_shown() {
    let Some(desktop) = Desktop::start() else { return };
    let user = User::new(desktop.shell_env());
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut child = user.command(&["secret", "set", "TYPED"]).stdin(terminal.slave).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut prompt = [0; 6];
    stderr.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"Value ", "the terminal is silent when the prompt is shown");
    let mut master = File::from(terminal.master);
    write_all(&mut master, format!("{VALUE}\n").as_bytes()).unwrap();
    assert!(wait_for_child(&mut child).success());
    let mut shown = String::new();
    // The terminal is gone, which is an error after the last byte.
    master.read_to_string(&mut shown).ok();
    assert!(!shown.contains(VALUE), "{shown:?}");
    assert!(desktop.entries().contains(&format!("secret = {VALUE}\n")));
}

#[test]
fn a_signal_while_a_value_is_typed_gives_the_terminal_back() {
    use nix::sys::signal::{Signal, kill};
    use nix::sys::termios::{LocalFlags, tcgetattr};
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let user = User::new(vec![("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS.to_owned())]);
        let terminal = nix::pty::openpty(None, None).unwrap();
        let slave = terminal.slave.try_clone().unwrap();
        let mut child = user.command(&["secret", "set", "TYPED"]).stdin(slave).spawn().unwrap();
        let mut prompt = [0; 6];
        child.stderr.as_mut().unwrap().read_exact(&mut prompt).unwrap();
        let shows = || tcgetattr(&terminal.slave).unwrap().local_flags.contains(LocalFlags::ECHO);
        assert!(!shows());
        kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(wait_for_child(&mut child).code(), Some(130), "{signal}");
        assert!(shows(), "{signal}");
    }
}

#[test]
fn a_value_of_the_keyring_reaches_the_server_and_nothing_else() {
    let Some(desktop) = Desktop::start() else { return };
    let mut user = User::new(desktop.shell_env());
    let entry = merged(scripted_upstream(&[]), json!({"env": {"TOKEN": "Bearer {keyring:A}", "NONE": "x"}}));
    let missing = merged(scripted_upstream(&[]), json!({"env": {"TOKEN": "{keyring:MISSING}"}}));
    let own = with_own_config(&desktop.shell_env(), &pure_config([("g", entry), ("h", missing)]));
    user.env.push(("XDG_DATA_HOME", own.home().join("data").to_str().unwrap().to_owned()));
    user.store("A", VALUE);
    let mut proxy = own.start_initialized();
    assert_eq!(env_of(&mut proxy, "g")["TOKEN"], format!("Bearer {VALUE}"));
    let failure = proxy.call_failure("h", "env", json!({}));
    let reason = "env.TOKEN is not known: the system's keyring has no secret MISSING; store it with `dynamic-mcp secret set MISSING`";
    assert!(failure.contains(reason), "{failure}");
    assert!(!proxy.status().to_string().contains(VALUE) && !proxy.log().contains(VALUE));
    // A new value takes effect by itself.
    user.store("A", "another");
    wait_until("the server has the new value", || env_of(&mut proxy, "g")["TOKEN"] == "Bearer another");
}

#[test]
fn values_of_the_keyring_are_sent_in_headers_and_in_logins() {
    let Some(desktop) = Desktop::start() else { return };
    let mut user = User::new(desktop.shell_env());
    let (remote, auth_server) = (Server::start(|_| None), MockAuthServer::start());
    // The mock knows the client by this secret.
    let oauth = json!({"flow": "client_credentials", "client_id": "me", "client_secret": "{keyring:CLIENT}"});
    let config = pure_config([
        ("header", json!({"url": remote.url(), "headers": {"X-Key": "key {keyring:A}"}})),
        ("login", json!({"url": auth_server.url(), "oauth": oauth})),
    ]);
    let own = with_own_config(&desktop.shell_env(), &config);
    user.env.push(("XDG_DATA_HOME", own.home().join("data").to_str().unwrap().to_owned()));
    user.store("A", VALUE);
    user.store("CLIENT", "s3cret-word");
    let mut proxy = own.start_initialized();
    proxy.call_text("header", "echo", json!({"text": "x"}));
    let calls = remote.requests_of("tools/call");
    assert_eq!(calls[0].header("x-key"), format!("key {VALUE}"));
    proxy.call_text("login", "echo", json!({"text": "x"}));
    assert_eq!(auth_server.grants("client_credentials").len(), 1);
    let told = proxy.status().to_string() + &proxy.log();
    assert!(!told.contains(VALUE) && !told.contains("s3cret-word"), "{told}");
}

#[test]
fn check_says_what_runs_for_a_secret_and_why_one_or_a_login_is_missing() {
    let user = User::new(vec![("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS.to_owned())]);
    let program = printing_program(user.home.path());
    let auth_server = MockAuthServer::start();
    let with = |value: &str| merged(scripted_upstream(&[]), json!({"env": {"TOKEN": value}}));
    let client =
        |secret: &str| json!({"flow": "client_credentials", "client_id": "me", "client_secret": secret});
    let config = config_of([
        ("works", with(&format!("{{command:'{program}' {VALUE}}}"))),
        ("fails", with("{command:ls /nowhere/at/all}")),
        ("no-keyring", with("{keyring:A}")),
        ("wrong-client", json!({"url": auth_server.url(), "oauth": client("wrong")})),
        ("right-client", json!({"url": auth_server.url(), "oauth": client("s3cret-word")})),
        ("person", json!({"url": auth_server.url()})),
    ]);
    let dir = user.home.path().join(".config/dynamic-mcp");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    let (code, stdout, _) = user.run(&["check", "--json"], "");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 1, "{report}");
    let of = |name: &str| {
        report["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap()
    };
    let ran = format!("runs a command for a secret: env.TOKEN: {{command:{program} …}}");
    for (name, member, expected) in [
        ("works", "findings", &*ran),
        ("fails", "error", "env.TOKEN is not known: the command \"ls\" exited with code 2"),
        ("no-keyring", "error", "env.TOKEN is not known: the system's keyring cannot be reached"),
        (
            "wrong-client",
            "error",
            "the login failed: Client credentials error: Token exchange failed: Server returned error response: invalid_client",
        ),
        ("person", "error", "`dynamic-mcp login person`"),
    ] {
        assert_eq!(of(name)["works"], name == "works", "{report}");
        assert!(of(name)[member].to_string().replace("\\\"", "\"").contains(expected), "{name}: {report}");
    }
    assert_eq!(of("right-client")["works"], true, "{report}");
    let (_, stdout, _) = user.run(&["check", "works", "person"], "");
    assert!(stdout.contains("    note: runs a command for a secret: "), "{stdout}");
    assert!(stdout.contains("dynamic-mcp login person"), "{stdout}");
}

#[test]
fn values_are_literal_outside_of_the_users_own_file_and_its_credentials() {
    let dir = TempDir::new().unwrap();
    let value = format!("{{command:{} x}}", printing_program(dir.path()));
    let entry = merged(scripted_upstream(&[]), json!({"env": {"A": value, "B": "{keyring:B}"}}));
    // A file that is named on the command line.
    let mut proxy = ProxyCommand::new().config(&pure_config([("g", entry.clone())])).start_initialized();
    assert_eq!(env_of(&mut proxy, "g")["A"], value);
    assert_eq!(env_of(&mut proxy, "g")["B"], "{keyring:B}");
    let status = proxy.status().to_string();
    for problem in [
        "`env.A`: `{command:…}` is taken literally (it works only in ",
        "`env.B`: `{keyring:…}` is taken literally",
    ] {
        assert!(status.contains(problem), "{status}");
    }
    // The user's own file, which others can change.
    let own = with_own_config(&[], &pure_config([("g", entry)]));
    std::fs::set_permissions(own_config_file(&own), Permissions::from_mode(0o666)).unwrap();
    let mut proxy = own.start_initialized();
    assert_eq!(env_of(&mut proxy, "g")["A"], value);
    let status = proxy.status().to_string();
    assert!(
        status.contains("can be changed by other users (mode 666), so it is not used: run `chmod 600 "),
        "{status}"
    );
    // Other fields.
    let entry = merged(scripted_upstream(&[]), json!({"description": value}));
    let mut proxy = with_own_config(&[], &pure_config([("g", entry)])).start_initialized();
    assert!(
        proxy
            .status()
            .to_string()
            .contains("`description`: `{command:…}` is taken literally (it works only in `env`")
    );
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_command_that_hangs_is_killed_with_its_descendants() {
    let _guard = crate::support::ORPHANS_LOCK.read().unwrap_or_else(PoisonError::into_inner);
    let home = TempDir::new().unwrap();
    let script = home.path().join("hang");
    let pids = home.path().join("pids");
    let text = format!(
        "#!/bin/sh\ntrap '' TERM\nsetsid sleep 1000 &\necho $! > {0}.part\necho $$ >> {0}.part\nmv {0}.part {0}\nwait\n",
        pids.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let dir = home.path().join(".config/dynamic-mcp");
    std::fs::create_dir_all(&dir).unwrap();
    let config = json!({"mcpServers": {"g": {"command": "x", "env": {"A": format!("{{command:{}}}", script.display())}}}});
    std::fs::write(dir.join("servers.json"), config.to_string()).unwrap();
    let env = Env::new([("HOME", home.path().to_str().unwrap())], "/");
    let config = load(&[dir.join("servers.json")], &env, &Overrides::default());
    let server = config.servers[0].1.clone().unwrap();
    let process_env = Arc::new(env.with([("PATH", "/usr/bin:/bin")]).in_directory(home.path()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let warden = Warden::with_program(env!("CARGO_BIN_EXE_dynamic-mcp").into(), vec![MODE_ARG.into()]);
        let limit = Duration::from_millis(1500);
        let resolver = SecretResolver::with_command_timeout(None, process_env, warden, limit);
        let error = resolver.resolve(server).await.unwrap_err().to_string();
        assert!(error.contains("did not end within 1.5 s and was killed"), "{error}");
        let pids = std::fs::read_to_string(&pids).unwrap();
        for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
            wait_until("the process is gone", || !is_alive(pid));
        }
    });
}

#[test]
fn a_projects_config_reads_only_files_in_its_own_folder() {
    let home = TempDir::new().unwrap();
    let project = home.path().join("project");
    std::fs::create_dir_all(project.join("inside")).unwrap();
    std::fs::write(home.path().join("outside"), VALUE).unwrap();
    std::fs::write(project.join("inside/token"), "t0ken").unwrap();
    std::os::unix::fs::symlink(home.path().join("outside"), project.join("link")).unwrap();
    let env = Env::new([("HOME", home.path().to_str().unwrap())], "/");
    for (path, is_read) in [
        ("inside/token", true),
        ("./inside/../inside/token", true),
        ("../outside", false),
        ("~/outside", false),
        ("link", false),
        ("/etc/hostname", false),
    ] {
        let entry = json!({"command": "x", "env": {"A": format!("{{file:{path}}}")}});
        let file = project.join(".mcp.json");
        std::fs::write(&file, json!({"mcpServers": {"g": entry}}).to_string()).unwrap();
        let config = load(&[file], &env, &Overrides::default());
        let server = &config.servers[0].1;
        assert_eq!(server.is_ok(), is_read, "{path}: {server:?}");
        if let Err(errors) = server {
            let text = format!("{errors:?}");
            assert!(
                text.contains("is not in the folder of this config file, which belongs to a project"),
                "{text}"
            );
            assert!(!text.contains(VALUE));
        }
    }
}
