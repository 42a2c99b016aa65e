//! Programs that are not MCP servers, or that say why they end: the error shows what they print.

use serde_json::{Value, json};

use crate::support::{Proxy, merged, pure_config, scripted_upstream_program, wait_until};

/// A shell script as a server.
fn script(text: &str) -> Value {
    json!({"command": "sh", "args": ["-c", text]})
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
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
                " s (timeout.initialize); it prints \"INFO: Uvicorn running on http://127.0.0.1:8000 (",
                "so it is an HTTP server: start it yourself, and configure its address as \"url\" in place of \"command\"",
            ],
        ),
        (
            "arguments",
            json!({"command": "sh -c s3cret"}),
            vec![
                "\"command\" has arguments in it: write \"command\": \"sh\", and put the words after it into \"args\"",
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

/// A line about a port is certain only on stdout, and even there only once: a server that answers late is used.
#[test]
#[cfg_attr(windows, ignore = "sockets of a process are known on Linux only")]
fn an_http_server_is_recognized_while_it_does_not_answer() {
    let line = "INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)";
    let with_port = format!("echo '{line}' >&2; sleep 2.5; exec {}", scripted_upstream_program().display());
    let config = pure_config([
        ("http", script(&format!("echo '{line}'; exec sleep 60"))),
        ("dashboard", script(&with_port)),
    ]);
    let mut proxy = Proxy::new(&config);
    let dashboard = proxy.send_call("dashboard", "echo", json!({"text": "late"}));
    let http = proxy.send_call("http", "echo", json!({}));
    let shown = "it prints \"INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)\", as an HTTP server does";
    wait_until("the hint is shown", || proxy.group_status("dashboard")["startupHint"].is_string());
    let text = proxy.call_meta_tool("get_status", json!({}))["content"][0]["text"].to_string();
    assert!(text.contains(&json!(shown).to_string().trim_matches('"')[..40]), "{text}");
    let response = proxy.response(http).json();
    let text = response["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("initialize was not answered within 2 s; it prints \"INFO: Uvicorn"), "{text}");
    assert!(text.contains("so it is an HTTP server: start it yourself"), "{text}");
    let response = proxy.response(dashboard).json();
    assert!(response["result"]["content"][0]["text"].as_str().unwrap().contains("late"), "{response}");
    assert!(proxy.group_status("dashboard")["startupHint"].is_null());
}
