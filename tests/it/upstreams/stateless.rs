//! Servers of revision 2026-07-28: found by their refusal, told with each request what they need, listened to.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::protocol::Record;
use crate::support::{Proxy, Setup, as_configured, one, servers, text_of, upstream, with};

const STATELESS: [&str; 2] = ["--stateless", "--protocol"];

/// Params of a client of the same revision, that can be asked these things.
fn about(more: Value, capabilities: Value) -> Value {
    let mut params = more;
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

/// The next notification with this method.
fn told(proxy: &mut Proxy, method: &str) -> Value {
    loop {
        let message = proxy.next().unwrap();
        if message.method() == Some(method) {
            return message.json();
        }
    }
}

#[test]
fn a_server_that_refuses_the_handshake_is_asked_who_it_is() {
    for flags in [
        &[][..],
        &["--refuses-initialize", "-32601"],
        &["--refuses-initialize", "-32602"],
        &["--refuses-initialize", "-32000"],
        &["--dual"],
    ] {
        let flags = [if flags == ["--dual"] { &[][..] } else { &["--stateless"] }, flags].concat();
        let mut proxy = Proxy::new(&one(&flags));
        assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        let revision = if flags == ["--dual"] { "2025-11-25" } else { "2026-07-28" };
        assert_eq!(proxy.group("g")["protocolVersion"], revision, "{flags:?}");
        proxy.until_logged("Discovered g");
        assert_eq!(proxy.log().matches("Connecting to g").count(), 1, "{flags:?}: one attempt");
    }
}

#[test]
fn what_a_server_is_was_remembered_and_may_change() {
    let (cache, record) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let record = record.path().join("lines");
    let run = |flags: &[&str]| {
        let _gone = fs::remove_file(&record);
        // The same command line to us, another server each time.
        let flags = [flags, &["--record", record.to_str().unwrap()]].concat();
        let script = record.with_file_name("run.sh");
        let program = upstream(&[])["command"].as_str().unwrap().to_owned();
        let flags = flags.iter().map(|flag| format!("'{flag}'")).collect::<Vec<_>>().join(" ");
        fs::write(&script, format!("exec '{program}' {flags}\n")).unwrap();
        let config = as_configured([(
            "g",
            json!({"command": "sh", "args": [script], "lazy_startup": "pure", "cwd": "/"}),
        )]);
        let setup = Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config);
        let mut proxy = setup.ready();
        assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
        proxy.close_stdin();
        proxy.ends();
        let lines = fs::read_to_string(&record).unwrap();
        let methods =
            lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].clone());
        let mut first = methods.filter(|method| method == "initialize" || method == "server/discover");
        (first.next().unwrap(), first.next())
    };
    assert_eq!(run(&["--stateless"]), (json!("initialize"), Some(json!("server/discover"))));
    assert_eq!(run(&["--stateless"]), (json!("server/discover"), None), "as it was remembered");
    assert_eq!(run(&[]), (json!("server/discover"), Some(json!("initialize"))), "it is another one now");
    assert_eq!(run(&[]), (json!("initialize"), None));
    // It names a revision that has no handshake, and shook hands: it is taken at its deed.
    for _ in 0..2 {
        assert_eq!(run(&["--version", "2026-07-28"]), (json!("initialize"), None));
    }
}

#[test]
fn a_process_that_names_this_revision_in_a_handshake_that_leads_nowhere_is_asked_who_it_is() {
    let program = upstream(&[])["command"].as_str().unwrap().to_owned();
    let greeting =
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}}"#;
    let script = format!(
        r#"read -r line
        case $line in
            *'"initialize"'*) echo '{greeting}' ;;
            *) {{ printf '%s\n' "$line"; cat; }} | exec '{program}' --stateless ;;
        esac
        while read -r line; do
            id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            [ -z "$id" ] || echo '{{"jsonrpc":"2.0","id":'$id',"error":{{"code":-32602,"message":"who asks?"}}}}'
        done"#
    );
    let mut proxy = Proxy::new(&servers([("g", json!({"command": "sh", "args": ["-c", script]}))]));
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn the_log_level_of_a_session_is_told_with_each_request() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(upstream(&STATELESS)))]));
    proxy.text("g", "echo", json!({"text": "x"}));
    assert!(!record.line("tools/call", 0).line.contains("logLevel"));
    proxy.ask("logging/setLevel", json!({"level": "warning"}));
    let message =
        |level: &str| json!({"method": "notifications/message", "params": {"level": level, "data": level}});
    proxy.call("g", "tell", message("info"));
    proxy.call("g", "tell", message("error"));
    assert_eq!(told(&mut proxy, "notifications/message")["params"]["data"], "error");
    let called = record.line("tools/call", 1).json();
    assert_eq!(called["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
}

#[test]
fn a_server_that_ends_a_subscription_by_cancelling_it_is_listened_to_again() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(upstream(&STATELESS)))]));
    proxy.text("g", "echo", json!({"text": "x"}));
    record.line("subscriptions/listen", 0);
    proxy.text("g", "end_listening", json!({"method": "notifications/cancelled"}));
    record.line("subscriptions/listen", 1);
}

#[test]
fn a_refusal_is_told_soon_though_the_server_says_nothing_to_what_it_does_not_know() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such luck"}}"#;
    let script = format!("read line; case $line in *initialize*) echo '{refusal}';; esac; cat >/dev/null");
    let mut proxy = Proxy::new(&servers([("g", json!({"command": "sh", "args": ["-c", script]}))]));
    let started = tokio::time::Instant::now();
    let text = proxy.failure("g", "echo", json!({}));
    assert!(text.contains("initialize was refused") && text.contains("no such luck"), "{text}");
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn a_client_with_a_handshake_uses_it_as_any_other() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&STATELESS))]));
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    let read = proxy.ask("resources/read", json!({"uri": "mem://one"}));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().starts_with("one"), "{read}");
    assert_eq!(
        proxy.ask("prompts/get", json!({"name": "g__greet"}))["result"]["messages"][0]["role"],
        "user"
    );
    let arguments = json!({"group": "g", "name": "progress", "args": {"n": 2}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": 7}});
    let id = proxy.send("tools/call", params);
    assert_eq!(told(&mut proxy, "notifications/progress")["params"]["progressToken"], 7);
    proxy.answer(id);
}

#[test]
fn its_lists_and_resources_are_listened_to() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&STATELESS))]));
    proxy.text("g", "echo", json!({"text": "x"}));
    assert_eq!(proxy.ask("resources/subscribe", json!({"uri": "mem://one"}))["result"], json!({}));
    let updated =
        json!({"method": "notifications/resources/updated", "params": {"uri": "mem://one", "x": 1.5}});
    proxy.send_call("g", "tell", updated.clone());
    let news = told(&mut proxy, "notifications/resources/updated");
    assert_eq!(news["params"], json!({"uri": "mem://one", "x": 1.5}), "and no number of ours");
    // Twice: the first one may be of the catalog that was just read for the first time.
    for _ in 0..2 {
        proxy.send_call("g", "grow", json!({"list": "resources"}));
        told(&mut proxy, "notifications/resources/list_changed");
    }
    let listed = proxy.ask("resources/list", json!({}))["result"]["resources"].to_string();
    assert!(listed.contains("grown/1"), "{listed}");
    proxy.ask("resources/unsubscribe", json!({"uri": "mem://one"}));
    proxy.send_call("g", "tell", updated);
    loop {
        let message = proxy.next().unwrap();
        assert_ne!(message.method(), Some("notifications/resources/updated"), "no longer wanted");
        if message.id().is_some() && message.json()["result"]["content"][0]["text"] == "done" {
            break;
        }
    }
}

#[test]
fn a_lost_server_is_listened_to_again() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&STATELESS))]));
    proxy.text("g", "echo", json!({"text": "x"}));
    for uri in ["mem://one", "mem://two"] {
        proxy.ask("resources/subscribe", json!({"uri": uri}));
    }
    proxy.failure("g", "crash", json!({}));
    for uri in ["mem://one", "mem://two"] {
        proxy.send_call(
            "g",
            "tell",
            json!({"method": "notifications/resources/updated", "params": {"uri": uri}}),
        );
        assert_eq!(told(&mut proxy, "notifications/resources/updated")["params"]["uri"], uri);
    }
}

#[test]
fn what_it_asks_for_goes_to_a_client_of_its_era_and_the_answers_back() {
    let mut proxy = Setup::new().config(&servers([("g", with(upstream(&STATELESS), json!({})))])).start();
    let able = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
    let args = json!({"group": "g", "name": "asks", "args": {"rounds": 2}});
    let call = json!({"name": "call_dynamic_tool", "arguments": args});
    let read = json!({"uri": "mem://asks/elicitation", "group": "g"});
    let get = json!({"name": "asks", "group": "g", "arguments": {"kinds": "sampling,roots"}});
    for (method, params, rounds) in
        [("tools/call", call, 2), ("resources/read", read, 1), ("prompts/get", get, 1)]
    {
        let mut params = about(params, able.clone());
        for round in 1..=rounds {
            let result = proxy.ask(method, params.clone())["result"].clone();
            assert_eq!(result["resultType"], "input_required", "{method} {round}: {result}");
            let requests = result["inputRequests"].as_object().unwrap();
            let elicited = requests.values().find(|request| request["method"] == "elicitation/create");
            assert!(
                elicited
                    .is_none_or(|request| request["params"]["message"].as_str().unwrap().starts_with("[g] ")),
                "{result}"
            );
            params["requestState"] = result["requestState"].clone();
            let answers = requests.keys().map(|key| (key.clone(), json!({"said": [key, round]})));
            params["inputResponses"] = Value::Object(answers.collect());
        }
        let done = proxy.ask(method, params.clone());
        assert_eq!(done["result"]["resultType"], "complete", "{method}: {done}");
        assert!(done.to_string().contains("said"), "{method}: {done}");
    }
    let incapable = about(json!({"uri": "mem://asks/roots", "group": "g"}), json!({}));
    let error = proxy.ask("resources/read", incapable)["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["requiredCapabilities"]),
        (&json!(-32021), &json!({"roots": {}}))
    );
    let plain = about(json!({"name": "g__echo", "arguments": {"text": "x"}}), able);
    let answer = proxy.ask("tools/call", plain);
    assert_eq!(text_of(&answer["result"]), "x");
    let meta = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(meta["name"], "scripted-upstream", "what the server says of itself stays");
}
