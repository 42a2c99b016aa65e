//! Files with many comments and many servers: four times as much takes about four times as long.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Home;
use crate::support::Turn;

/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);

/// Imports a file of Cursor and undoes that. Returns the time of both, and the file then.
fn round_trip(text: &str) -> (Duration, String) {
    let home = Home::empty();
    home.write(".cursor/mcp.json", text);
    let begin = Instant::now();
    home.imported(&["cursor", "--yes", "--write-client"]);
    assert!(home.text(".cursor/mcp.json").len() < 2000, "the servers and their comments are still there");
    home.imported(&["--undo", "--yes"]);
    (begin.elapsed(), home.text(".cursor/mcp.json"))
}

fn assert_linear(large: (usize, Duration), small: (usize, Duration)) {
    // A quadratic one would take 16 times as long.
    let ratio = u32::try_from(large.0 / small.0).unwrap() * 2;
    assert!(
        large.1 < small.1 * ratio + SLACK,
        "{} take {:?}, {} take {:?}",
        large.0,
        large.1,
        small.0,
        small.1
    );
}

#[test]
fn many_comment_lines_are_carried_over_in_linear_time() {
    let _turn = Turn::take();
    let file = |lines: usize| {
        let comments: String = (0..lines).map(|n| format!("    // comment {n}\n")).collect();
        format!(
            "{{\n  \"mcpServers\": {{\n    \"a\": {{\"command\": \"a\"}},\n{comments}    \"b\": {{\"command\": \"b\"}}\n  }}\n}}\n"
        )
    };
    let took = |lines: usize| {
        let text = file(lines);
        let (took, after) = round_trip(&text);
        assert_eq!(after, text, "{lines} lines");
        (lines, took)
    };
    assert_linear(took(60_000), took(15_000));
}

#[test]
fn many_servers_are_imported_in_linear_time() {
    let _turn = Turn::take();
    let took = |count: usize| {
        let entry =
            |n: usize| (format!("s{n}"), json!({"command": "npx", "args": ["-y", format!("package-{n}")]}));
        let servers: Map<String, Value> = (0..count).map(entry).collect();
        let home = Home::of(&[(".cursor/mcp.json", json!({"mcpServers": servers}))]);
        let begin = Instant::now();
        home.imported(&["cursor", "--yes"]);
        assert_eq!(home.servers().as_object().unwrap().len(), count);
        (count, begin.elapsed())
    };
    assert_linear(took(1000), took(250));
}
