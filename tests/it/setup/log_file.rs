//! The log file that is kept by default, and the errors that name it.

use std::fs;

use serde_json::json;

use crate::support::{ProxyCommand, pure_config, scripted_upstream, text_of, wait_until};

#[test]
fn a_log_file_is_kept_and_every_error_names_it() {
    let config =
        pure_config([("broken", json!({"command": "no-such-command"})), ("good", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().config(&config).start_initialized();
    let state = if cfg!(windows) { r"data\dynamic-mcp\state" } else { ".local/state/dynamic-mcp" };
    let path = proxy.home().join(state).join("log").join("dynamic-mcp.log");
    wait_until("the log file has the start", || {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("is ready"))
    });
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let failure = proxy.call_failure("broken", "echo", json!({}));
    assert!(failure.ends_with(&format!("\nLog: {}", path.display())), "{failure}");
    let status = proxy.call_meta_tool("get_status", json!({}));
    let text = text_of(&status);
    assert!(text.starts_with("1 of 2 groups failed: broken\n"), "{text}");
    assert!(text.ends_with(&format!("\nlog: {}", path.display())), "{text}");
    assert_eq!(status["structuredContent"]["logFile"], json!(path));
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().all(|line| line.starts_with(&format!("[{}] ", proxy.pid()))), "{text}");
    // stderr has the same.
    assert!(proxy.log().contains("is ready"), "{}", proxy.log());
}

#[test]
#[cfg_attr(windows, ignore = "has paths of Unix")]
fn no_log_file_is_kept_beside_a_chosen_one_or_where_none_can_be_written() {
    let command = ProxyCommand::new();
    let chosen = command.home().join("chosen.log");
    let mut proxy =
        command.args(&["--log-file", "~/chosen.log"]).config(&pure_config([])).start_initialized();
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(status["structuredContent"]["logFile"], json!(chosen));
    assert!(!proxy.home().join(".local").exists());
    assert_eq!(proxy.log(), "");

    let command = ProxyCommand::new();
    fs::write(command.home().join("state"), "a file").unwrap();
    let state = command.home().join("state").to_str().unwrap().to_owned();
    let mut proxy = command.env("XDG_STATE_HOME", &state).config(&pure_config([])).start_initialized();
    proxy.wait_for_log("no log file is kept");
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(status["structuredContent"]["logFile"], json!(null));
}
