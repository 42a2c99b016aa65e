//! `dynamic-mcp __demo-server`: an MCP server that keeps notes in memory and speaks as much of MCP as the demo needs.
//!
//! It reads a request, answers it and reads the next one. It does not check the arguments of a tool: the proxy has
//! checked them against `notes.json`.

use anyhow::ensure;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use wire::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, code};

/// The definitions of the tools, as `tools/list` returns them.
const TOOLS: &str = include_str!("notes.json");

/// Group, title, body and tag of each note at the start.
const NOTES: [[&str; 4]; 6] = [
    ["personal", "Reading list", "- The Design of Everyday Things\n- A Pattern Language", "books"],
    ["work", "Offsite: ideas", "Budget 4000. Ask Ana about the cabin by the lake.", "offsite"],
    ["work", "Standing desk", "Height 112 cm standing, 71 cm sitting.", "office"],
    ["team", "On call", "Changes on Mondays at 10:00. Ana has the phone number.", "support"],
    ["recipes", "Bread", "500 g flour, 350 g water, 10 g salt. Leave overnight.", "baking"],
    ["travel", "Night trains", "Book three months ahead. Earplugs.", "trains"],
];

/// Serves the notes of `group` on stdin and stdout until stdin ends. `pid_file` holds the process ID meanwhile.
///
/// # Errors
///
/// Fails if the demo has no such group, if a line is not JSON, and on I/O errors.
pub fn serve(group: &str, pid_file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let (tools, mut notes) = (serde_json::from_str(TOOLS)?, Vec::new());
    for [_, title, body, tag] in NOTES.iter().filter(|[owner, ..]| *owner == group) {
        add_note(&mut notes, &json!({ "title": title, "body": body, "tags": [tag] }));
    }
    ensure!(!notes.is_empty(), "the demo has no group {group:?}");
    pid_file.map_or(Ok(()), |file| fs::write(file, std::process::id().to_string()))?;
    #[expect(clippy::disallowed_methods, reason = "stdout is the protocol's")]
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        // A notification has no id and gets no answer.
        if let Some(id) = request.get("id") {
            let (member, answer) = match handle(&request, &tools, &mut notes) {
                Ok(result) => ("result", result),
                Err((code, message)) => ("error", json!({ "code": code, "message": message })),
            };
            writeln!(stdout, "{}", json!({ "jsonrpc": "2.0", "id": id, member: answer }))?;
        }
    }
    pid_file.map_or(Ok(()), fs::remove_file)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the result of a request.
///
/// # Errors
///
/// Returns the code and the message of a JSON-RPC error.
fn handle(request: &Value, tools: &Value, notes: &mut Vec<Value>) -> Result<Value, (i64, String)> {
    let params = &request["params"];
    let args = &params["arguments"];
    Ok(match [&request["method"], &params["name"]].map(|name| name.as_str().unwrap_or_default()) {
        ["initialize", _] => {
            let requested = HANDSHAKE_REVISIONS.into_iter().find(|known| params["protocolVersion"] == *known);
            json!({
                "protocolVersion": requested.unwrap_or(LATEST_HANDSHAKE),
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "demo-notes", "version": env!("CARGO_PKG_VERSION") },
            })
        }
        ["ping", _] => json!({}),
        ["tools/list", _] => json!({ "tools": tools }),
        ["tools/call", "add_note"] if args["body"].is_null() => {
            json!({ "content": [{ "type": "text", "text": "a note needs a body" }], "isError": true })
        }
        ["tools/call", "add_note"] => text_result(&add_note(notes, args)),
        ["tools/call", "get_note"] => match notes.iter().find(|note| note["id"] == args["id"]) {
            Some(note) => text_result(note),
            None => return Err((code::INVALID_PARAMS, format!("there is no note {}", args["id"]))),
        },
        ["tools/call", "list_notes"] => text_result(&titles(notes, "")),
        ["tools/call", "search_notes"] => {
            text_result(&titles(notes, args["query"].as_str().unwrap_or_default()))
        }
        ["tools/call", tool] => return Err((code::INVALID_PARAMS, format!("unknown tool: {tool}"))),
        [method, _] => return Err((code::METHOD_NOT_FOUND, format!("method not found: {method}"))),
    })
}

fn text_result(value: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": value.to_string() }] })
}

fn add_note(notes: &mut Vec<Value>, args: &Value) -> Value {
    let id = format!("note-{}", notes.len() + 1);
    let note = json!({ "id": id, "title": args["title"], "body": args["body"], "tags": args["tags"] });
    notes.push(note.clone());
    note
}

/// Returns the ids and titles of the notes that have all words of `query`.
fn titles(notes: &[Value], query: &str) -> Value {
    let has_words = |note: &&Value| {
        let text = format!("{} {} {}", note["title"], note["body"], note["tags"]).to_lowercase();
        query.to_lowercase().split_whitespace().all(|word| text.contains(word))
    };
    let title = |note: &Value| json!({ "id": note["id"], "title": note["title"] });
    json!({ "notes": notes.iter().filter(has_words).map(title).collect::<Vec<_>>() })
}
