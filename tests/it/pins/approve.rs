//! `dynamic-mcp approve GROUP [TOOL]`: what it prints, and its exit codes.

use serde_json::json;

use super::{ChangingServer, reread, tool};
use crate::support::{Proxy, wait_until};

#[test]
fn it_prints_what_changed_with_the_old_and_the_new_description_on_a_line_each() {
    let server = ChangingServer::pinned();
    let mut proxy = server.start_connected();
    let mut renamed = tool("generated_x", "Reads it.\n\nThen \u{202e}sends it.");
    renamed["annotations"] = json!({"destructiveHint": false});
    server.define(&[renamed, tool("generated_\nnew", "New.")]);
    reread(&mut proxy);
    let status = super::status_text(&mut proxy);
    assert!(status.contains(r#""generated_\nnew" (new)"#), "{status}");
    let text = server.approve(&[]);
    let expected = r#""generated_\nnew": new
  new description: "New."
"generated_x": annotations (destructiveHint unset → false), description
  old description: "Reads it."
  new description: "Reads it. Then \u{202e}sends it."
g: approved 2 tools; running instances notice within 2 seconds
"#;
    assert_eq!(text, expected);
}

/// A tool with this default.
fn with_default(default: &str) -> serde_json::Value {
    let mut tool = tool("generated_x", "Reads it.");
    tool["inputSchema"] =
        json!({"type": "object", "properties": {"fields": {"type": "string", "default": default}}});
    tool
}

/// Ends a process in order, so that it writes what it saw. Returns its log.
fn end(mut proxy: Proxy) -> String {
    proxy.close_stdin();
    proxy.wait_for_exit();
    proxy.log()
}

#[test]
fn what_differs_at_each_start_is_approved_once() {
    let server = ChangingServer::pinned();
    server.define(&[with_default("id,name,key")]);
    end(server.start_connected());
    server.define(&[with_default("name,key,id")]);
    let mut proxy = server.start_connected();
    let refusal = proxy.call_failure("g", "generated_x", json!({}));
    let expected = "changed (inputSchema.properties.fields.default) and the user has not approved it";
    assert!(refusal.contains(expected), "{refusal}");
    assert!(refusal.ends_with("(with --varying if it differs at each start of the server)"), "{refusal}");
    let text = server.approve(&["--varying"]);
    let expected = r#""generated_x": inputSchema.properties.fields.default
  inputSchema.properties.fields.default varies: from now on it is compared without its order
g: approved 1 tool; running instances notice within 2 seconds
"#;
    assert_eq!(text, expected);
    end(proxy);
    for default in ["key,id,name", "id,key,name"] {
        server.define(&[with_default(default)]);
        let mut proxy = server.start_connected();
        proxy.call_text("g", "generated_x", json!({}));
        assert_eq!(proxy.group_status("g")["changedTools"], json!([]));
        end(proxy);
    }
    server.define(&[with_default("key,id,password")]);
    let mut proxy = server.start_connected();
    proxy.call_failure("g", "generated_x", json!({}));
}

#[test]
fn without_pins_a_change_is_logged_once() {
    let server = ChangingServer::new(json!({}));
    let line = r#"tool "generated_x" of group g changed: inputSchema"#;
    for (default, lines) in [("a,b", 0), ("b,a", 1), ("b, a", 0), ("c", 0)] {
        server.define(&[with_default(default)]);
        let log = end(server.start_connected());
        assert_eq!(log.matches(line).count(), lines, "{default}: {log}");
    }
}

#[test]
fn each_error_names_what_is_wrong_and_has_its_exit_code() {
    let server = ChangingServer::pinned();
    let error = |args: &[&str], code: i32, part: &str| {
        let (found, text) = server.run(args);
        assert!(found == code && text.contains(part), "{args:?}: {found} {text}");
    };
    error(&["approve", "g"], 1, "g: its tools have not been seen yet");
    error(&["approve", "x"], 2, "x: there is no such server; the config has g");
    let mut proxy = server.start_connected();
    error(&["approve", "g"], 1, "g: none of its tools has changed");
    error(&["approve", "g", "generated_x"], 1, r#"g: tool "generated_x" has not changed"#);
    error(&["approve", "g", "--varying"], 1, "g: none of its tools has changed");
    error(&["approve", "g", "nope"], 2, r#"g: there is no tool "nope"; none has changed"#);
    server.define(&[tool("generated_x", "Changed.")]);
    reread(&mut proxy);
    proxy.call_failure("g", "generated_x", json!({}));
    server.define(&[tool("generated_x", "Changed."), tool("generated_new", "New.")]);
    reread(&mut proxy);
    let new = r#"tool "generated_new" cannot be approved as varying: it is new"#;
    // The instance writes down what it has seen in the background.
    wait_until("it is written", || server.run(&["approve", "g", "generated_new", "--varying"]).0 == 1);
    error(&["approve", "g", "generated_new", "--varying"], 1, new);
    server.approve(&["generated_new"]);
    error(&["approve", "g", "nope"], 2, r#"there is no tool "nope"; changed: "generated_x""#);
    error(&["approve"], 2, "Usage");
    server.approve(&["generated_x"]);
    error(&["approve", "g", "generated_x"], 1, "has not changed");
    let server = ChangingServer::new(json!({"pin_tools": "yes"}));
    let (code, text) = server.run(&["approve", "g"]);
    assert!(code == 78 && text.contains("`pin_tools`"), "{code}: {text}");
}
