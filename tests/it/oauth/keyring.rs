//! Logins in a keyring: GNOME's, on a bus of its own. Where it is not installed, these tests say `SKIPPED` and pass; with
//! `CI=true` or `DYNAMIC_MCP_REQUIRE_REAL=1` they fail instead.
#![cfg(not(target_os = "macos"))]

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use super::world::World;
use crate::support::until;

/// What a call may take that meets a keyring which does not work: a wait for it, and some more for a loaded machine.
const TOLD: Duration = Duration::from_secs(15);

const PROGRAMS: [&str; 4] = ["dbus-daemon", "dbus-send", "gnome-keyring-daemon", "secret-tool"];

const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=DIR/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>"#;

/// A bus and a keyring that nobody else uses.
struct Desktop {
    keyring: Daemon,
    _bus: Daemon,
    dir: TempDir,
}

/// Ends with its owner, also when a test fails.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Desktop {
    /// With its keyring unlocked.
    fn start() -> Option<Self> {
        if !PROGRAMS.iter().all(|program| Path::new("/usr/bin").join(program).exists()) {
            let set = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
            let programs = PROGRAMS.join(", ");
            assert!(!set("CI", "true") && !set("DYNAMIC_MCP_REQUIRE_REAL", "1"), "not installed: {programs}");
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            // Not eprintln: what a test that passes prints is not shown.
            drop(writeln!(std::io::stderr(), "SKIPPED: {test}: needs {programs}"));
            return None;
        }
        let dir = TempDir::new().unwrap();
        let config = dir.path().join("bus.conf");
        std::fs::write(&config, BUS.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        let mut command = command(&dir, "dbus-daemon");
        let bus = Daemon(command.arg("--nofork").arg("--config-file").arg(config).spawn().unwrap());
        until("there is a bus", || dir.path().join("bus").exists());
        let keyring = keyring(&dir, true);
        Some(Self { keyring, _bus: bus, dir })
    }

    /// Of another login to the desktop, with or without the keyring's password.
    fn restart(&mut self, unlocked: bool) {
        drop(self.keyring.0.kill());
        self.keyring = keyring(&self.dir, unlocked);
    }

    /// The keyring answers nothing any more.
    fn halt(&self) {
        kill(Pid::from_raw(self.keyring.0.id().cast_signed()), Signal::SIGSTOP).unwrap();
    }

    /// Our entries, with their secrets if they are not locked.
    fn entries(&self) -> String {
        said(command(&self.dir, "secret-tool").args(["search", "--all", "service", "dynamic-mcp"]))
    }

    /// What a person's shell knows of it.
    fn shell(&self) -> Vec<(&'static str, String)> {
        vec![("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/bus", self.dir.path().display()))]
    }

    /// What is left of that where a client passes on little of its environment.
    fn client(&self) -> Vec<(&'static str, String)> {
        let dir = self.dir.path().to_str().unwrap().to_owned();
        vec![("DBUS_SESSION_BUS_ADDRESS", String::new()), ("XDG_RUNTIME_DIR", dir)]
    }

    fn world(&self, grant: serde_json::Value) -> World {
        let mut world = World::new();
        world.env = self.shell();
        world.authority.state().grant = grant;
        world
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

fn keyring(dir: &TempDir, unlocked: bool) -> Daemon {
    let mut command = command(dir, "gnome-keyring-daemon");
    command.args(["--foreground", "--components=secrets"]).stdout(Stdio::null());
    if unlocked {
        command.arg("--unlock");
    }
    let mut daemon = Daemon(command.spawn().unwrap());
    daemon.0.stdin.take().unwrap().write_all(b"pw").unwrap();
    until("there is a keyring", || {
        let mut asking = self::command(dir, "dbus-send");
        asking.args(["--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets"]);
        asking.args(["org.freedesktop.Secret.Service.ReadAlias", "string:default"]);
        said(&mut asking).contains("/collection/login")
    });
    daemon
}

fn said(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// The one file says where the login is, and has nothing of it.
fn assert_only_in_keyring(world: &World) {
    let kept = world.kept();
    assert_eq!(kept, json!({"version": 1, "url": world.authority.url(), "kept": "in the keyring"}));
}

#[test]
fn a_login_is_in_the_keyring_from_the_first_token_to_the_logout() {
    let Some(desktop) = Desktop::start() else { return };
    let mut world = desktop.world(json!({"expires_in": 2}));
    world.logged_in();
    assert_only_in_keyring(&world);
    let first = desktop.entries();
    assert!(first.contains("label = dynamic-mcp: login to g\n"), "{first}");
    assert!(first.contains("s3cret-access") && first.contains("s3cret-refresh"), "{first}");

    // Two instances find it, and the new tokens of each other.
    world.env = desktop.client();
    let mut proxies = [world.proxy(), world.proxy()];
    until("two renewals", || {
        for proxy in &mut proxies {
            assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
        }
        world.authority.grants("refresh_token").len() >= 2
    });
    assert!(!world.authority.state().used_twice);
    assert_only_in_keyring(&world);
    let last = desktop.entries();
    assert_ne!(first, last);
    assert_eq!(last.matches("label = ").count(), 1, "{last}");
    for proxy in &proxies {
        assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
    }
    drop(proxies);

    let outcome = world.run(&["logout", "g"]);
    assert!(outcome.code == 0 && outcome.said.contains("revoked"), "{}", outcome.said);
    assert_eq!(desktop.entries(), "");
    assert!(world.files().is_empty());
}

#[test]
fn a_login_goes_to_the_keyring_or_a_file_as_the_keyring_comes_and_goes() {
    let Some(mut desktop) = Desktop::start() else { return };
    let mut world = desktop.world(json!({"expires_in": 2}));
    let with_bus = std::mem::take(&mut world.env);
    world.logged_in();
    assert!(world.kept()["refresh_token"].is_string());
    world.env = with_bus;
    let mut proxy = world.proxy();
    until("a renewal", || {
        assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
        !world.authority.grants("refresh_token").is_empty()
    });
    drop(proxy);
    assert!(world.kept()["refresh_token"].is_string(), "instances without the bus use it as well");
    assert_eq!(desktop.entries(), "");
    world.authority.state().grant = json!({"expires_in": 3600});
    world.logged_in();
    assert_only_in_keyring(&world);
    assert!(desktop.entries().contains("s3cret-refresh"));

    // Somebody logs in to the desktop without the keyring's password.
    desktop.restart(false);
    let mut proxy = world.proxy();
    let began = Instant::now();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("which is locked: unlock it, or run `dynamic-mcp login g`"), "{failure}");
    assert!(began.elapsed() < TOLD, "{:?}", began.elapsed());
    let outcome = world.run(&["logout", "g"]);
    assert!(
        outcome.code == 1 && outcome.said.contains("unlock it, then run `dynamic-mcp logout g` again"),
        "{}",
        outcome.said
    );
    assert_only_in_keyring(&world);

    // There is nobody to type it here.
    let outcome = world.login();
    assert_eq!(outcome.code, 0, "{}", outcome.said);
    assert!(outcome.said.contains("kept in a file: the system's keyring is locked"), "{}", outcome.said);
    assert!(world.kept()["refresh_token"].is_string());
    until("it is used", || proxy.call("g", "echo", json!({}))["isError"] != true);

    desktop.restart(true);
    world.logged_in();
    assert_only_in_keyring(&world);
    assert_eq!(desktop.entries().matches("label = ").count(), 1);
}

#[test]
fn a_keyring_that_does_not_answer_holds_up_nobody_for_long() {
    let Some(desktop) = Desktop::start() else { return };
    let world = desktop.world(json!({"expires_in": 3600}));
    world.logged_in();
    assert_only_in_keyring(&world);
    desktop.halt();

    let mut proxy = world.proxy();
    let began = Instant::now();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("keyring, which does not answer: run `dynamic-mcp login g`"), "{failure}");
    assert!(began.elapsed() < TOLD, "{:?}", began.elapsed());

    let outcome = world.login();
    assert_eq!(outcome.code, 0, "{}", outcome.said);
    assert!(began.elapsed() < 2 * TOLD, "{:?}", began.elapsed());
    assert!(world.kept()["access_token"].is_string());
    until("it is used", || proxy.call("g", "echo", json!({}))["isError"] != true);
}

#[test]
fn a_keyring_that_the_config_turns_off_is_left_alone() {
    let Some(desktop) = Desktop::start() else { return };
    let mut world = desktop.world(json!({}));
    world.settings(json!({"keyring": false}));
    world.logged_in();
    assert!(world.kept()["refresh_token"].is_string());
    assert_eq!(desktop.entries(), "");
}
