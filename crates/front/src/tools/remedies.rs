//! What the user can do about a group that does not work: commands that the status page offers to copy. They are made of
//! words of ours and of names that a shell takes as they are, never of texts of servers.

use crate::changed_tools;
use base::text::shell_word;
use config::Endpoint;
use serde_json::{Value, json};
use upstream::{Snapshot, Upstream, UpstreamError};

/// What to do, and the command for it.
fn remedy(what: &str, command: String) -> Value {
    json!({ "what": what, "command": command })
}

/// Adds to the status of a group what the page says of it beside `get_status`.
pub(super) fn add_to(status: &mut Value, group: &Upstream, snapshot: &Snapshot) {
    let error = snapshot.last_failure();
    status["brief"] = json!(error.map(|error| error.brief()));
    status["needsLogin"] = json!(error.is_some_and(|error| error.needs_login()));
    let Some(word) = shell_word(group.name.as_str()) else { return };
    status["remedies"] = json!(error.map(|error| of_failure(&word, snapshot, error)));
    status["interruption"] = json!([again("This ends it, and connects the server again", &word)]);
    if let Some(server) = snapshot.server.as_deref() {
        let approve = changed_tools::approve_command(&group.name, server, None);
        status["approval"] = json!([remedy("Review the changes, and accept them", approve)]);
    }
}

fn again(what: &str, word: &str) -> Value {
    remedy(what, format!("dynamic-mcp reconnect {word} --all"))
}

/// Returns what to do about the failure of a group, whose name is `word` in a shell.
fn of_failure(word: &str, snapshot: &Snapshot, error: &UpstreamError) -> Vec<Value> {
    let server = snapshot.server.as_deref();
    let config = server.map(changed_tools::config_option).unwrap_or_default();
    let check = |what| remedy(what, format!("dynamic-mcp check {word}{config}"));
    let is_remote = server.is_some_and(|server| matches!(server.endpoint, Endpoint::Http(_)));
    match error {
        _ if error.needs_login() => {
            vec![remedy("Log in, in a browser", format!("dynamic-mcp login {word}{config}"))]
        }
        UpstreamError::Config(_) => {
            vec![check("Correct the entry; the file is read again when it is saved. This tries it")]
        }
        UpstreamError::Launch { .. } => {
            vec![
                check("Install the program, or correct the entry. This tries it"),
                again("Then connect", word),
            ]
        }
        _ if is_remote => {
            vec![check("Correct its entry. This tries it, step by step"), again("Then connect", word)]
        }
        _ => vec![
            remedy("Read all that it printed", format!("dynamic-mcp logs {word} --all")),
            check("Correct the cause, in its entry or outside. This tries it"),
            again("Then connect", word),
        ],
    }
}
