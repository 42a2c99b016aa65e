//! A server that lists the tools of one catalog.

use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// The name of a server with `n` tools taken evenly from all catalogs.
pub(crate) fn sample_name(n: usize) -> String {
    format!("sample{n}")
}

fn tools(name: &str) -> Value {
    let catalogs: Vec<Value> = serde_json::from_str(super::CATALOGS).unwrap();
    if let Some(n) = name.strip_prefix("sample") {
        let n: usize = n.parse().unwrap();
        let all: Vec<&Value> =
            catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap()).collect();
        return all.iter().step_by(all.len() / n).take(n).copied().cloned().collect();
    }
    catalogs.iter().find(|catalog| catalog["server"] == name).unwrap()["tools"].clone()
}

/// Serves the catalog called `name` on stdio.
pub(crate) fn serve(name: &str) {
    #[expect(clippy::disallowed_methods, reason = "stdout is the protocol's")]
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": name, "version": "1" },
            }),
            "tools/list" => json!({ "tools": tools(name) }),
            _ => json!({}),
        };
        if let Some(id) = message.get("id") {
            writeln!(stdout, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result })).unwrap();
        }
    }
}
