//! Tests that run in namespaces of their own.

use std::process::Command;

/// What became of a test that asked to run in namespaces of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceRun {
    /// It runs there.
    Inside,
    /// It has run there and passed.
    Done,
    /// The system does not allow that, or the test cannot tell its name.
    Impossible,
}

/// Runs the current test again below unshare(1) with `options`. A user who is not root becomes root in a user namespace.
/// Panics if it fails there.
pub(crate) fn run_again_in(options: &[&str]) -> NamespaceRun {
    const INSIDE: &str = "DYNAMIC_MCP_TEST_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return NamespaceRun::Inside;
    }
    let thread = std::thread::current();
    // The harness names a thread after its test, unless there is only one.
    let Some(test) = thread.name().filter(|name| *name != "main") else { return NamespaceRun::Impossible };
    let unshare = || {
        let mut command = Command::new("unshare");
        if !nix::unistd::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(options);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        return NamespaceRun::Impossible;
    }
    let program = std::env::current_exe().unwrap();
    let again =
        unshare().arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let shown = String::from_utf8_lossy(&again.stdout) + String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && shown.contains("1 passed"), "{shown}");
    shown.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    NamespaceRun::Done
}

/// The options for a PID namespace.
pub(crate) const OWN_PIDS: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
