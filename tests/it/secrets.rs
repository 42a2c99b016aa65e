//! Values that a config names instead of having them, and `dynamic-mcp secret`. The keyring is GNOME Keyring, on a bus of its
//! own; see `oauth::keyring`.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::oauth::keyring::Desktop;
use crate::support::{DISABLED_DBUS, PipeReader, wait_for_child, write_all};

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
    assert_eq!(user.run(&["secret", "list"], ""), (0, String::new(), String::new()));
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
