//! Arguments that do not fit a tool's schema are refused before the server is asked.

use serde_json::{Value, json};

use crate::support::{Proxy, one, text_of};

const STRICT: &str = r#"{"name":"added_strict","description":"Strict.","inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","maximum":5}},"required":["query"],"additionalProperties":false}},{"name":"added_odd","inputSchema":{"type":"object","properties":{"a":{"type":"nonsense"}}}},{"name":"added_parameters","parameters":{"type":"object","required":["a"]}}"#;

/// A server's record of the requests that it received.
struct CallRecord(tempfile::TempDir);

impl CallRecord {
    fn new() -> (Self, Proxy) {
        let dir = tempfile::TempDir::new().unwrap();
        let record = dir.path().join("record");
        let proxy = Proxy::new(&one(&["--definitions", STRICT, "--record", record.to_str().unwrap()]));
        (Self(dir), proxy)
    }

    fn calls(&self) -> usize {
        let text = std::fs::read_to_string(self.0.path().join("record")).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"tools/call\"")).count()
    }
}

fn direct(proxy: &mut Proxy, name: &str, arguments: Value) -> Value {
    proxy.ask("tools/call", json!({"name": name, "arguments": arguments}))["result"].take()
}

#[test]
fn arguments_that_do_not_fit_are_answered_with_the_violation_and_the_signature() {
    let (record, mut proxy) = CallRecord::new();
    for (args, violation) in [
        (json!({}), "\n- query is missing\n"),
        (json!({"query": 3}), "\n- query: 3 is not of type \"string\"\n"),
        (json!({"query": "a", "limit": 6}), "\n- limit: 6 is greater than the maximum of 5\n"),
        (
            json!({"query": "a", "limits": 6}),
            "\n- limits: there is no such parameter; did you mean `limit`?\n",
        ),
    ] {
        for result in
            [proxy.call("g", "added_strict", args.clone()), direct(&mut proxy, "g__added_strict", args)]
        {
            assert_eq!(result["isError"], true, "{result}");
            let text = text_of(&result);
            assert!(text.starts_with("The arguments do not fit tool added_strict of group g"), "{text}");
            assert!(text.contains(violation), "{text}");
            let signature = "Its signature: added_strict(query: string, limit?: integer /* <= 5 */)";
            assert!(text.ends_with(signature), "{text}");
        }
    }
    assert_eq!(record.calls(), 0, "the server was asked");
    assert!(proxy.failure("g", "added_parameters", json!({})).contains("- a is missing"));
    assert_eq!(proxy.text("g", "added_strict", json!({"query": "a"})), r#"{"query":"a"}"#);
    assert_eq!(record.calls(), 1);
}

#[test]
fn arguments_that_cannot_be_judged_are_passed_to_the_server() {
    let (_record, mut proxy) = CallRecord::new();
    let id =
        proxy.send_raw("tools/call", r#"{"name":"g__added_strict","arguments":{"query":"a","limit":1e400}}"#);
    assert_eq!(text_of(&proxy.answer(id).json()["result"]), r#"{"query":"a","limit":1e400}"#);
    for _ in 0..3 {
        assert_eq!(proxy.text("g", "added_odd", json!({"a": 1})), r#"{"a":1}"#);
    }
    proxy.until_logged("the arguments of this tool are not checked");
    let warned = proxy.log().matches("the arguments of this tool are not checked").count();
    assert_eq!(warned, 1, "{}", proxy.log());
}
