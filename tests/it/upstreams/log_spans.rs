//! Which request or which attempt to connect a log line belongs to.

use serde_json::json;

use crate::support::{Proxy, ProxyCommand, merged, pure_config, scripted_upstream};

/// A value that must not be in the log.
const SECRET: &str = "s3cret";

/// Starts the program with this log level, and makes a call that fails because its server does not start, and one that is not
/// answered in time.
fn proxy_after_failures(level: &str) -> Proxy {
    let slow = merged(scripted_upstream(&[]), json!({"timeout": {"tools": 0.3}}));
    let entries = [("broken", scripted_upstream(&["--crash-at-start", "no database here"])), ("slow", slow)];
    let command = ProxyCommand::new().args(&["--log-level", level]);
    let mut proxy = command.config(&pure_config(entries)).start_initialized();
    proxy.call_failure("broken", "echo", json!({"text": SECRET}));
    let id = format!("a{}", "b".repeat(100));
    let arguments = format!(r#"{{"group":"slow","name":"late","args":{{"text":"{SECRET}"}}}}"#);
    let params = format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#);
    proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#));
    proxy.wait_for_log("did not answer within 0.3 s");
    proxy
}

/// The log lines with this text.
fn lines_with(log: &str, text: &str) -> Vec<String> {
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[test]
fn lines_of_an_attempt_have_its_number_and_its_group_once() {
    let log = proxy_after_failures("info").log();
    for text in ["connect failed", "upstream::stderr: no database here"] {
        let lines = lines_with(&log, text);
        assert_eq!(lines.len(), 2, "an attempt and its retry: {log}");
        for (line, attempt) in lines.iter().zip(1..) {
            let fields = format!(" group=broken attempt={attempt}");
            assert!(line.ends_with(&fields) && line.matches("group=").count() == 1, "{line}");
        }
    }
}

#[test]
fn lines_of_a_request_have_its_method_id_group_and_tool_at_level_debug_alone() {
    let log = proxy_after_failures("debug").log();
    let id = format!("a{}", "b".repeat(62));
    let fields = format!(r#" method=tools/call id="{id} group=slow tool=late"#);
    let lines = lines_with(&log, "did not answer within 0.3 s");
    assert!(lines.len() == 1 && lines[0].ends_with(&fields), "{log}");
    assert!(!log.contains(SECRET), "{log}");

    let log = proxy_after_failures("info").log();
    let lines = lines_with(&log, r#"Tool "late" of group slow did not answer within 0.3 s"#);
    assert!(lines.len() == 1 && lines[0].contains(" WARN dynamic_mcp_front::"), "{log}");
    assert!(!log.contains("method=") && !log.contains(" request: "), "{log}");
}
