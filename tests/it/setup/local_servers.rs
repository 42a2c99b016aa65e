//! Programs that are not MCP servers, or that say why they end: the error shows what they print.

use serde_json::{Value, json};

use crate::support::{Proxy, merged, pure_config};

/// A shell script as a server.
fn script(text: &str) -> Value {
    json!({"command": "sh", "args": ["-c", text]})
}

#[test]
fn the_error_shows_what_a_program_printed_that_never_spoke_mcp() {
    let listening =
        "echo 'INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)' >&2; exec sleep 60";
    let cases = [
        (
            "text",
            script("echo 'Usage: server --root DIR'; echo; printf 'missing \\033[1m--root'; exit 2"),
            vec![
                "its process exited with code 2 before it answered initialize",
                "; its stdout has text that is not MCP:\n> Usage: server --root DIR\n",
                "> missing \\u{1b}[1m--root",
            ],
        ),
        (
            "http",
            merged(script(listening), json!({"timeout": {"initialize": 1}})),
            vec![
                "initialize was not answered within 1",
                " s; it prints \"INFO: Uvicorn running on http://127.0.0.1:8000 (",
                "so it is an HTTP server: start it yourself, and configure its address as \"url\" in place of \"command\"",
            ],
        ),
        (
            "arguments",
            json!({"command": "sh -c s3cret"}),
            vec![
                "\"command\" has arguments in it: write \"command\": \"sh\", and put the other 2 words into \"args\"",
            ],
        ),
    ];
    let config = pure_config(cases.clone().map(|(name, entry, _)| (name, entry)));
    let mut proxy = Proxy::new(&config);
    let calls = cases.map(|(name, _, parts)| (parts, proxy.send_call(name, "echo", json!({}))));
    for (parts, call) in calls {
        let response = proxy.response(call).json();
        let text = response["result"]["content"][0]["text"].as_str().unwrap();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
    }
}
