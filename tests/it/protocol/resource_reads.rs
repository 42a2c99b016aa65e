//! `resources/read`: which group a URI is routed to, unchanged params, results and errors, timeouts, cancellation, and
//! one repetition after a crash.

use serde_json::json;

use super::{WEIRD, recorded_config, two_schemes_config, weird_error, weird_member};
use crate::support::{InputRecord, Proxy, full_upstream, merged, pure_config, scripted_upstream};

/// Reads a resource and returns its text.
fn read_text(proxy: &mut Proxy, uri: &str) -> String {
    let response = proxy.request("resources/read", json!({"uri": uri}));
    response["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

#[test]
fn a_uri_is_routed_to_the_group_that_lists_it_or_has_a_template_for_it() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.connect(["g", "h"]);
    for (uri, text) in [
        ("g://one", "one of g"),
        ("h://two", "two of h"),
        ("h://item/7", "item/7 of h"),
        ("dynamic-mcp://h/h%3A%2F%2Fone", "one of h"),
    ] {
        assert_eq!(read_text(&mut proxy, uri), text);
    }
    for uri in ["h://nothing", "x://y", "", "dynamic-mcp://nobody/x", "dynamic-mcp://h/%zz"] {
        let error = proxy.request("resources/read", json!({"uri": uri}))["error"].take();
        assert_eq!(error["code"], -32002, "{uri}: {error}");
        assert_eq!(error["data"]["uri"], uri, "{error}");
    }
    for params in ["{}", r#"{"uri":3}"#, r#"{"uri":null}"#, "[]"] {
        assert!(proxy.raw_error("resources/read", params).contains("-32602"), "{params}");
    }
}

#[test]
fn a_uri_from_a_result_is_routed_to_the_group_of_the_result() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.call_tool("h", "link", json!({"uri": "h://linked/ü"}));
    proxy.call_failure("h", "crash", json!({}));
    assert_eq!(read_text(&mut proxy, "h://linked/ü"), "linked/ü of h");
}

#[test]
fn a_named_group_is_connected_and_its_response_is_unchanged() {
    let mut proxy = Proxy::new(&two_schemes_config());
    let read = proxy.request("resources/read", json!({"uri": "h://linked/x", "group": "h"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of h");
    let error = proxy.request("resources/read", json!({"uri": "g://one", "group": "h"}))["error"].take();
    let expected = json!({"code": -32002, "message": "Resource not found", "data": {"uri": "g://one"}});
    assert_eq!(error, expected);
}

#[test]
fn rewritten_ui_uris_keep_their_scheme() {
    let entry = |name| full_upstream(&["--scheme", "ui", "--name", name]);
    let mut proxy = Proxy::new(&pure_config([("g", entry("g")), ("h", entry("h"))]));
    proxy.connect(["g", "h"]);
    let listed = proxy.request("resources/list", json!({}))["result"].to_string();
    assert!(listed.contains(r#""uri":"ui://one""#) && listed.contains(r#""uri":"ui://h/one""#), "{listed}");
    assert_eq!(read_text(&mut proxy, "ui://one"), "one of g");
    assert_eq!(read_text(&mut proxy, "ui://h/one"), "one of h");
}

#[test]
fn params_results_and_errors_pass_byte_for_byte() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.upstream_pid("g");
    let meta = r#""_meta":{"x/y":[1e400,-0.0],"traceparent":"t"}"#;
    for group in ["", r#","group":"g""#] {
        let params = format!(r#"{{"uri":"mem://params",{meta},{WEIRD}{group}}}"#);
        proxy.raw_result("resources/read", &params);
        let last = record.lines_of("resources/read").len() - 1;
        let received = record.wait_for("resources/read", last);
        for part in [meta, weird_member(), "[ 1 , 2 ]", r#""uri":"mem://params""#] {
            assert!(received.raw("params").unwrap().contains(part), "{part} in {}", received.line);
        }
        assert!(!received.line.contains("group"), "{}", received.line);
    }
    let weird = proxy.raw_result("resources/read", r#"{"uri":"mem://weird"}"#);
    assert_eq!(weird, format!(r#"{{"contents":[{{"uri":"mem://weird","text":"weird"}}],{WEIRD}}}"#));
    assert_eq!(proxy.raw_error("resources/read", r#"{"uri":"mem://error"}"#), weird_error());
}

#[test]
fn a_read_that_times_out_is_cancelled_at_the_upstream() {
    let record = InputRecord::new();
    let entry = merged(record.attached_to(full_upstream(&[])), json!({"timeout": {"resources": 1}}));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    proxy.upstream_pid("g");
    let error = proxy.request("resources/read", json!({"uri": "mem://hang"}))["error"].take();
    assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31002), &json!("g")), "{error}");
    let id = record.wait_for("resources/read", 0).id().unwrap().to_owned();
    let cancelled = record.wait_for("notifications/cancelled", 0).json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), id);
    assert_eq!(read_text(&mut proxy, "mem://one"), "one of ");
}

#[test]
fn a_cancelled_read_gets_no_response() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.upstream_pid("g");
    // The notifications about the first read of resources and prompts.
    for _ in 0..2 {
        proxy.next_server_message();
    }
    let id = proxy.send_request("resources/read", json!({"uri": "mem://hang"}));
    let upstream_id = record.wait_for("resources/read", 0).id().unwrap().to_owned();
    proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough", "x": 1.5}));
    let cancelled = record.wait_for("notifications/cancelled", 0).json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), upstream_id);
    assert_eq!((&cancelled["params"]["reason"], &cancelled["params"]["x"]), (&json!("enough"), &json!(1.5)));
    proxy.assert_no_message();
}

#[test]
fn a_read_is_repeated_once_after_a_crash() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&recorded_config(&record));
    proxy.upstream_pid("g");
    let file = record.path("crashed");
    let uri_that_crashes_once = format!("mem://crash-once/{}", file.display());
    let response = proxy.request("resources/read", json!({"uri": uri_that_crashes_once, "group": "g"}));
    assert!(response["result"]["contents"].is_array(), "{response}");
    let error = proxy.request("resources/read", json!({"uri": "mem://crash"}))["error"].take();
    assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31003), &json!("g")), "{error}");
    assert_eq!(record.lines_of("resources/read").len(), 4);
}

#[test]
fn a_group_without_declared_capabilities_can_be_read() {
    let mut proxy =
        Proxy::new(&pure_config([("g", scripted_upstream(&["--resources", "--no-capabilities"]))]));
    let response = proxy.request("resources/read", json!({"uri": "mem://one", "group": "g"}));
    assert_eq!(response["result"]["contents"][0]["uri"], "mem://one", "{response}");
}
