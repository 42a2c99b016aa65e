//! Servers made with both major versions of the official SDKs, on stdio: tools, a resource, a prompt, progress and an
//! elicitation through dynamic-mcp equal those of the server itself, for each client.

use serde_json::{Value, json};

use crate::clients::{
    Client, PY_V1, PY_V2_PROBING, TS_V1, TS_V2, TS_V2_PROBING, proxied_call, run_calls, tool_call,
};
use crate::workspace::{Workspace, path_string};

macro_rules! sdks {
    ($($module:ident = $client:expr;)*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn with_typescript_v1() { check_server(&$client, "bin/node", "server_ts_v1.mjs", &[]); }

            #[test]
            fn with_typescript_v2() { check_server(&$client, "bin/node", "server_ts_v2.mjs", &[]); }

            #[test]
            fn with_typescript_v2_without_handshake() {
                check_server(&$client, "bin/node", "server_ts_v2.mjs", &["reject"]);
            }

            #[test]
            fn with_python_v1() { check_server(&$client, "python1/bin/python", "server_py.py", &[]); }

            #[test]
            fn with_python_v2() { check_server(&$client, "python2/bin/python", "server_py.py", &[]); }
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

/// Calls of tools, each with a part of the expected result.
fn calls() -> [(Value, &'static str); 4] {
    [
        (tool_call("add", &json!({ "a": 2, "b": 40 })), "42"),
        (tool_call("add", &json!({ "a": -2, "b": 40 })), r#""isError":true"#),
        (with_progress(tool_call("count", &json!({ "to": 3 }))), "Counted to 3."),
        (tool_call("greet", &json!({})), "Hello, Ada."),
    ]
}

/// The same call with a progress token.
pub(crate) fn with_progress(mut call: Value) -> Value {
    call["with_progress"] = true.into();
    call
}

/// The same call through dynamic-mcp.
pub(crate) fn proxied(call: &Value) -> Value {
    let mut proxied = proxied_call("sdk", call["name"].as_str().unwrap(), &call["arguments"]);
    for member in ["with_progress", "wait_for"] {
        if !call[member].is_null() {
            proxied[member] = call[member].clone();
        }
    }
    proxied
}

/// `args`: arguments of the server behind dynamic-mcp.
fn check_server(client: &Client, program: &str, script: &str, args: &[&str]) {
    let Some(workspace) = Workspace::new() else { return };
    let command =
        vec![path_string(&workspace.install_dir.join(program)), path_string(&workspace.path(script))];
    let upstream = command.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned())).collect();
    let (calls, expected): (Vec<_>, Vec<_>) = calls().into_iter().unzip();
    let read = json!({ "read": "fixture://greeting" });
    let prompt = |name: &str| json!({ "prompt": name, "arguments": { "about": "rust" } });
    let direct_plan: Vec<_> = calls.iter().cloned().chain([read.clone(), prompt("poem")]).collect();
    let proxied_plan: Vec<_> = calls.iter().map(proxied).chain([read, prompt("sdk__poem")]).collect();

    let direct = run_calls(&workspace, client, "legacy", &command, &direct_plan);
    let proxy = workspace.proxy_for_commands(&[("sdk", upstream)]);
    let proxied = run_calls(&workspace, client, client.mode, &proxy, &proxied_plan);
    workspace.assert_no_process_left();

    let expected = expected.into_iter().chain(["hällo 🦀", "A poem about rust."]);
    for (n, expected) in expected.enumerate() {
        let [mut direct, mut proxied] = [&direct, &proxied].map(|report| report["results"][n].clone());
        for progress in
            [&mut direct, &mut proxied].into_iter().filter_map(|result| result.get_mut("progress"))
        {
            assert_increasing_progress(&progress.take());
        }
        assert_eq!(proxied, direct, "{script}, {expected}");
        assert!(direct.to_string().contains(expected), "{expected} in {direct}");
    }
}

/// Asserts that there is progress, in order and unchanged. Clients lose later notifications that they read together with
/// the result.
pub(crate) fn assert_increasing_progress(progress: &Value) {
    let notifications = progress.as_array().unwrap();
    assert!(!notifications.is_empty());
    let mut last = 0;
    for notification in notifications {
        let n = notification["progress"].as_f64().unwrap() as u64;
        assert!(n > last && notification["total"].as_f64() == Some(3.0), "{notifications:?}");
        assert_eq!(notification["message"], format!("step {n}"));
        last = n;
    }
}
