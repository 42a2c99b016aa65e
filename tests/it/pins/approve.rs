//! `dynamic-mcp approve GROUP [TOOL]`: what it prints, and its exit codes.

use serde_json::json;

use super::{ChangingServer, reread, tool};

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
    error(&["approve", "g", "nope"], 2, r#"g: there is no tool "nope"; none has changed"#);
    server.define(&[tool("generated_x", "Changed.")]);
    reread(&mut proxy);
    proxy.call_failure("g", "generated_x", json!({}));
    error(&["approve", "g", "nope"], 2, r#"there is no tool "nope"; changed: "generated_x""#);
    error(&["approve"], 2, "Usage");
    server.approve(&["generated_x"]);
    error(&["approve", "g", "generated_x"], 1, "has not changed");
    let server = ChangingServer::new(json!({"pin_tools": "yes"}));
    let (code, text) = server.run(&["approve", "g"]);
    assert!(code == 78 && text.contains("`pin_tools`"), "{code}: {text}");
}
