//! Servers made with the official SDKs, in both their majors: what every client is told through dynamic-mcp is what it
//! is told directly. Beside tools that is a resource, a prompt, progress, and an answer to what the server asks.

use serde_json::{Value, json};

use crate::pairs::{Client, PY_V1, PY_V2_PROBING, TS_V1, TS_V2, TS_V2_PROBING, run, tool_call};
use crate::scratch::{Scratch, text};

macro_rules! sdks {
    ($($client:ident = $how:expr;)*) => {
        $(mod $client {
            use super::*;

            #[test]
            fn with_typescript_v1() { with(&$how, "bin/node", "server_ts_v1.mjs", &[]); }

            #[test]
            fn with_typescript_v2() { with(&$how, "bin/node", "server_ts_v2.mjs", &[]); }

            #[test]
            fn with_typescript_v2_without_handshake() {
                with(&$how, "bin/node", "server_ts_v2.mjs", &["reject"]);
            }

            #[test]
            fn with_python_v1() { with(&$how, "python1/bin/python", "server_py.py", &[]); }

            #[test]
            fn with_python_v2() { with(&$how, "python2/bin/python", "server_py.py", &[]); }
        })*
    };
}

sdks! {
    typescript_v1 = TS_V1;
    typescript_v2 = TS_V2;
    typescript_v2_probing = TS_V2_PROBING;
    python_v1 = PY_V1;
    python_v2_probing = PY_V2_PROBING;
}

/// Calls of tools, each with a piece of what comes back.
fn calls() -> [(Value, &'static str); 4] {
    [
        (tool_call("add", &json!({ "a": 2, "b": 40 })), "42"),
        (tool_call("add", &json!({ "a": -2, "b": 40 })), r#""isError":true"#),
        (watched(tool_call("count", &json!({ "to": 3 }))), "Counted to 3."),
        (tool_call("greet", &json!({})), "Hello, Ada."),
    ]
}

/// Made by a client that wants to know how far it is.
pub(crate) fn watched(mut call: Value) -> Value {
    call["watch"] = true.into();
    call
}

/// Through the tool of ours that calls it.
pub(crate) fn through(call: &Value) -> Value {
    let arguments = json!({ "group": "sdk", "name": call["name"], "args": call["arguments"] });
    let through = tool_call("call_dynamic_tool", &arguments);
    let mut through = if call["watch"] == true { watched(through) } else { through };
    if !call["until"].is_null() {
        through["until"] = call["until"].clone();
    }
    through
}

/// `more` are arguments of the server when it is not asked directly.
fn with(client: &Client, program: &str, script: &str, more: &[&str]) {
    let Some(scratch) = Scratch::new() else { return };
    let command = vec![text(&scratch.real.join(program)), text(&scratch.path(script))];
    let behind = command.iter().cloned().chain(more.iter().map(|more| (*more).to_owned())).collect();
    let (calls, says): (Vec<_>, Vec<_>) = calls().into_iter().unzip();
    let read = json!({ "read": "fixture://greeting" });
    let prompt = |name: &str| json!({ "prompt": name, "arguments": { "about": "rust" } });
    let direct: Vec<_> = calls.iter().cloned().chain([read.clone(), prompt("poem")]).collect();
    let proxied: Vec<_> = calls.iter().map(through).chain([read, prompt("sdk__poem")]).collect();

    let direct = run(&scratch, client, "legacy", &command, &direct);
    let proxied = run(&scratch, client, client.mode, &scratch.proxy(&[("sdk", behind)]), &proxied);
    scratch.assert_nothing_is_left();

    let says = says.into_iter().chain(["hällo 🦀", "A poem about rust."]);
    for (n, says) in says.enumerate() {
        let [mut direct, mut proxied] = [&direct, &proxied].map(|report| report["results"][n].clone());
        for steps in [&mut direct, &mut proxied].into_iter().filter_map(|result| result.get_mut("steps")) {
            check_steps(&steps.take());
        }
        assert_eq!(proxied, direct, "{script}, {says}");
        assert!(direct.to_string().contains(says), "{says} in {direct}");
    }
}

/// In order and as they were told. Clients lose those that they read together with the result; not the first one.
pub(crate) fn check_steps(steps: &Value) {
    let steps = steps.as_array().unwrap();
    assert!(!steps.is_empty());
    let mut last = 0;
    for step in steps {
        let n = step["progress"].as_f64().unwrap() as u64;
        assert!(n > last && step["total"].as_f64() == Some(3.0), "{steps:?}");
        assert_eq!(step["message"], format!("step {n}"));
        last = n;
    }
}
