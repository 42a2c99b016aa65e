//! Logins in a keyring: GNOME Keyring, on a bus of its own. Where its programs are not installed, these tests print
//! `SKIPPED` and pass; with `CI=true` or `DYNAMIC_MCP_REQUIRE_REAL=1` they fail instead.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::fixture::Fixture;
use crate::support::session_bus::{Daemon, start_session_bus};
use crate::support::{are_installed, output_of, wait_until};

/// How long a call may take if the keyring does not work: one wait for it, and a margin for a loaded machine.
const MAX_CALL_TIME: Duration = Duration::from_secs(15);

const PROGRAMS: [&str; 4] = ["dbus-daemon", "dbus-send", "gnome-keyring-daemon", "secret-tool"];

/// A session bus with a keyring, for one test.
pub(crate) struct Desktop {
    keyring: Daemon,
    _bus: Daemon,
    dir: TempDir,
}

impl Desktop {
    /// Starts with the keyring unlocked. `None` if the programs are not installed.
    pub(crate) fn start() -> Option<Self> {
        if !are_installed(&PROGRAMS) {
            return None;
        }
        let dir = TempDir::new().unwrap();
        let bus = start_session_bus(dir.path());
        let keyring = start_keyring(&dir, true);
        Some(Self { keyring, _bus: bus, dir })
    }

    /// Restarts the keyring, as a login to the desktop does: unlocked with the password, or locked without.
    pub(crate) fn restart_keyring(&mut self, unlocked: bool) {
        drop(self.keyring.0.kill());
        self.keyring = start_keyring(&self.dir, unlocked);
    }

    /// Makes the keyring stop answering.
    fn suspend_keyring(&self) {
        kill(Pid::from_raw(self.keyring.0.id().cast_signed()), Signal::SIGSTOP).unwrap();
    }

    /// Lets it go on, with all requests that it has received meanwhile.
    fn resume_keyring(&self) {
        kill(Pid::from_raw(self.keyring.0.id().cast_signed()), Signal::SIGCONT).unwrap();
    }

    /// The entries of dynamic-mcp, with their secrets if the keyring is unlocked.
    pub(crate) fn entries(&self) -> String {
        stdout_of(command(&self.dir, "secret-tool").args(["search", "--all", "service", "dynamic-mcp"]))
    }

    /// The environment of the user's shell.
    pub(crate) fn shell_env(&self) -> Vec<(&'static str, String)> {
        vec![("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/bus", self.dir.path().display()))]
    }

    /// The environment that a client passes on which passes on little.
    fn client_env(&self) -> Vec<(&'static str, String)> {
        let dir = self.dir.path().to_str().unwrap().to_owned();
        vec![("DBUS_SESSION_BUS_ADDRESS", String::new()), ("XDG_RUNTIME_DIR", dir)]
    }

    /// A fixture in the user's shell, with these overrides of token responses.
    fn fixture(&self, token_response: Value) -> Fixture {
        let mut fixture = Fixture::new();
        fixture.env = self.shell_env();
        fixture.auth_server.state().token_response = token_response;
        fixture
    }
}

fn command(dir: &TempDir, program: &str) -> Command {
    let mut command = Command::new(program);
    let bus = format!("unix:path={}/bus", dir.path().display());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("DBUS_SESSION_BUS_ADDRESS", bus);
    for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"] {
        command.env(name, dir.path());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn start_keyring(dir: &TempDir, unlocked: bool) -> Daemon {
    let mut command = command(dir, "gnome-keyring-daemon");
    command.args(["--foreground", "--components=secrets"]).stdout(Stdio::null());
    if unlocked {
        command.arg("--unlock");
    }
    let mut daemon = Daemon(command.spawn().unwrap());
    daemon.0.stdin.take().unwrap().write_all(b"pw").unwrap();
    wait_until("there is a keyring", || {
        let mut request = self::command(dir, "dbus-send");
        request.args(["--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets"]);
        request.args(["org.freedesktop.Secret.Service.ReadAlias", "string:default"]);
        stdout_of(&mut request).contains("/collection/login")
    });
    daemon
}

fn stdout_of(command: &mut Command) -> String {
    String::from_utf8(output_of(command).stdout).unwrap()
}

/// Asserts that the login file has only the marker for a login in the keyring.
fn assert_only_in_keyring(fixture: &Fixture) {
    let stored = fixture.stored_login();
    assert_eq!(stored, json!({"version": 1, "url": fixture.auth_server.url(), "kept": "in the keyring"}));
}

#[test]
fn a_login_is_in_the_keyring_until_logout() {
    let Some(desktop) = Desktop::start() else { return };
    let mut fixture = desktop.fixture(json!({"expires_in": 2}));
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    let first = desktop.entries();
    assert!(first.contains("label = dynamic-mcp: login to g\n"), "{first}");
    assert!(first.contains("s3cret-access") && first.contains("s3cret-refresh"), "{first}");

    // Two processes find the login, and each the tokens that the other has refreshed.
    fixture.env = desktop.client_env();
    let mut proxies = [fixture.proxy(), fixture.proxy()];
    wait_until("two refreshes", || {
        for proxy in &mut proxies {
            assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
        }
        fixture.auth_server.grants("refresh_token").len() >= 2
    });
    assert!(!fixture.auth_server.state().refresh_token_reused);
    assert_only_in_keyring(&fixture);
    let last = desktop.entries();
    assert_ne!(first, last);
    assert_eq!(last.matches("label = ").count(), 1, "{last}");
    for proxy in &proxies {
        assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
    }
    drop(proxies);

    let output = fixture.run(&["logout", "g"]);
    assert!(output.exit_code == 0 && output.text.contains("revoked"), "{}", output.text);
    assert_eq!(desktop.entries(), "");
    assert!(fixture.login_files().is_empty());
}

#[test]
fn each_new_login_is_stored_in_the_keyring_or_else_in_a_file() {
    let Some(mut desktop) = Desktop::start() else { return };
    let mut fixture = desktop.fixture(json!({"expires_in": 2}));
    let with_bus = std::mem::take(&mut fixture.env);
    fixture.log_in();
    assert!(fixture.stored_login()["refresh_token"].is_string());
    fixture.env = with_bus;
    let mut proxy = fixture.proxy();
    wait_until("a refresh", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
        !fixture.auth_server.grants("refresh_token").is_empty()
    });
    drop(proxy);
    assert!(fixture.stored_login()["refresh_token"].is_string(), "processes without the bus use it too");
    assert_eq!(desktop.entries(), "");
    fixture.auth_server.state().token_response = json!({"expires_in": 3600});
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    assert!(desktop.entries().contains("s3cret-refresh"));

    // The user logs in to the desktop without the keyring's password.
    desktop.restart_keyring(false);
    let mut proxy = fixture.proxy();
    let started = Instant::now();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("which is locked: unlock it, or run `dynamic-mcp login g "), "{failure}");
    assert!(started.elapsed() < MAX_CALL_TIME, "{:?}", started.elapsed());
    let output = fixture.run(&["logout", "g"]);
    assert!(
        output.exit_code == 1 && output.text.contains("unlock it, then run `dynamic-mcp logout g "),
        "{}",
        output.text
    );
    assert_only_in_keyring(&fixture);

    // Nobody types the password in this test.
    let output = fixture.login();
    assert_eq!(output.exit_code, 0, "{}", output.text);
    assert!(
        output.text.contains("stored in a file because the system's keyring is locked"),
        "{}",
        output.text
    );
    assert!(fixture.stored_login()["refresh_token"].is_string());
    wait_until("the login is used", || proxy.call_tool("g", "echo", json!({}))["isError"] != true);

    desktop.restart_keyring(true);
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    assert_eq!(desktop.entries().matches("label = ").count(), 1);
}

#[test]
fn a_keyring_that_does_not_answer_delays_calls_only_briefly() {
    let Some(desktop) = Desktop::start() else { return };
    let fixture = desktop.fixture(json!({"expires_in": 3600}));
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    desktop.suspend_keyring();

    let mut proxy = fixture.proxy();
    let started = Instant::now();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("keyring, which does not answer: run `dynamic-mcp login g "), "{failure}");
    assert!(started.elapsed() < MAX_CALL_TIME, "{:?}", started.elapsed());

    let output = fixture.login();
    assert_eq!(output.exit_code, 0, "{}", output.text);
    assert!(started.elapsed() < 2 * MAX_CALL_TIME, "{:?}", started.elapsed());
    assert!(fixture.stored_login()["access_token"].is_string());
    wait_until("the login is used", || proxy.call_tool("g", "echo", json!({}))["isError"] != true);
}

#[test]
fn a_keyring_that_stops_answering_during_a_refresh_loses_no_tokens() {
    let Some(desktop) = Desktop::start() else { return };
    let fixture = desktop.fixture(json!({"expires_in": 2}));
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    let expired = Instant::now() + Duration::from_secs(2);
    let mut proxies = [fixture.proxy(), fixture.proxy()];
    let requests = fixture.auth_server.token_requests();
    fixture.auth_server.state().token_delay = Duration::from_secs(1);
    wait_until("the token has expired", || Instant::now() > expired);
    let calls: Vec<_> =
        proxies.iter_mut().map(|proxy| proxy.send_call("g", "echo", json!({"text": "a"}))).collect();
    wait_until("a refresh is under way", || fixture.auth_server.token_requests() > requests);
    desktop.suspend_keyring();
    for (proxy, call) in proxies.iter_mut().zip(&calls) {
        assert!(proxy.response(*call).raw("result").unwrap().contains("\"a\""), "{}", proxy.log());
    }
    assert!(fixture.stored_login()["refresh_token"].is_string(), "the new tokens are in the file");
    // What it has been asked meanwhile happens now.
    desktop.resume_keyring();
    fixture.auth_server.state().token_delay = Duration::ZERO;
    wait_until("two more refreshes", || {
        for proxy in &mut proxies {
            assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
        }
        fixture.auth_server.grants("refresh_token").len() >= 3
    });
    assert!(!fixture.auth_server.state().refresh_token_reused);
    assert_eq!(std::fs::metadata(&fixture.login_files()[0]).unwrap().mode() & 0o777, 0o600);

    // A new login is in the keyring alone, and a logout leaves nothing anywhere.
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    assert!(fixture.run(&["logout", "g"]).text.contains("revoked"));
    assert_eq!(desktop.entries(), "");
}

#[test]
fn a_logout_while_the_keyring_does_not_answer_changes_nothing() {
    let Some(desktop) = Desktop::start() else { return };
    let fixture = desktop.fixture(json!({"expires_in": 3600}));
    fixture.log_in();
    assert_only_in_keyring(&fixture);
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    desktop.suspend_keyring();
    let output = fixture.run(&["logout", "g"]);
    assert_eq!(output.exit_code, 1, "{}", output.text);
    assert!(
        output.text.contains("does not answer: unlock it, then run `dynamic-mcp logout g "),
        "{}",
        output.text
    );
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b", "the login is still there");
    desktop.resume_keyring();
    assert!(fixture.run(&["logout", "g"]).text.contains("revoked"));
    assert_eq!(desktop.entries(), "");
    assert!(fixture.login_files().is_empty());
    wait_until("the login is gone", || {
        proxy.call_tool("g", "echo", json!({}))["content"][0]["text"]
            .to_string()
            .contains("dynamic-mcp login g")
    });
}

#[test]
fn a_keyring_that_is_turned_off_is_not_used() {
    let Some(desktop) = Desktop::start() else { return };
    let mut fixture = desktop.fixture(json!({}));
    fixture.set_settings(json!({"keyring": false}));
    fixture.log_in();
    assert!(fixture.stored_login()["refresh_token"].is_string());
    assert_eq!(desktop.entries(), "");
}
