//! The events of the console. Under Wine only Ctrl-C arrives: it ends a thread of the process at Ctrl-Break.
#![expect(unsafe_code, reason = "events of the console have no safe wrapper")]

use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};

use windows_sys::Win32::System::Console::{CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler};
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::support::{Processes, Proxy, output_of, scripted_config, wait_until};

/// Set in the process that has a console of its own.
const HAS_OWN_CONSOLE: &str = "DYNAMIC_MCP_TEST_CONSOLE";

#[test]
fn ctrl_c_ends_the_program_in_order_and_with_it_its_servers() {
    if std::env::var_os(HAS_OWN_CONSOLE).is_none() {
        return run_with_own_console("console::ctrl_c_ends_the_program_in_order_and_with_it_its_servers");
    }
    let mut proxy = Proxy::new(&scripted_config(&["--ignore-eof"]));
    proxy.upstream_pid("g");
    let processes = Processes::descendants_of(proxy.pid());
    assert!(!processes.running().is_empty());
    // It comes to every process of the console. We ignore it, which only children inherit that are started later.
    // SAFETY: no pointer is passed.
    unsafe {
        assert_ne!(SetConsoleCtrlHandler(None, 1), 0);
        assert_ne!(GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0), 0);
    }
    let (status, _) = proxy.wait_for_exit();
    assert_eq!(status.code(), Some(0), "{}", proxy.log());
    assert!(proxy.log().contains("CTRL_C_EVENT"), "{}", proxy.log());
    wait_until("no server is left", || processes.running().is_empty());
}

/// Runs this test in a process with a console of its own, which has no window.
fn run_with_own_console(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(HAS_OWN_CONSOLE, "1");
    command.creation_flags(CREATE_NO_WINDOW);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = output_of(&mut command);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
