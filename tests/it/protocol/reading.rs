//! `resources/read`: whose a URI is, and what comes of it.

use serde_json::json;

use super::{Record, WEIRD, all, error_of, result_of, said, two, weird_error, weird_member};
use crate::support::{Proxy, servers, upstream, with};

fn read(proxy: &mut Proxy, uri: &str) -> String {
    let answer = proxy.ask("resources/read", json!({"uri": uri}));
    answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_uri_goes_to_whoever_lists_it_or_has_a_template_for_it() {
    let mut proxy = Proxy::new(&two());
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    for (uri, text) in [
        ("g://one", "one of g"),
        ("h://two", "two of h"),
        ("h://item/7", "item/7 of h"),
        ("dynamic-mcp://h/h%3A%2F%2Fone", "one of h"),
    ] {
        assert_eq!(read(&mut proxy, uri), text);
    }
    for uri in ["h://nothing", "x://y", "", "dynamic-mcp://nobody/x", "dynamic-mcp://h/%zz"] {
        let error = proxy.ask("resources/read", json!({"uri": uri}))["error"].take();
        assert_eq!(error["code"], -32002, "{uri}: {error}");
        assert_eq!(error["data"]["uri"], uri, "{error}");
    }
    for params in ["{}", r#"{"uri":3}"#, r#"{"uri":null}"#, "[]"] {
        assert!(error_of(&mut proxy, "resources/read", params).contains("-32602"), "{params}");
    }
}

#[test]
fn a_uri_that_only_a_result_named_is_read_where_it_came_from() {
    let mut proxy = Proxy::new(&two());
    proxy.call("h", "link", json!({"uri": "h://linked/ü"}));
    proxy.failure("h", "crash", json!({}));
    assert_eq!(read(&mut proxy, "h://linked/ü"), "linked/ü of h");
}

#[test]
fn a_uri_that_nobody_lists_is_asked_of_the_connected_groups() {
    let mut proxy = Proxy::new(&two());
    proxy.upstream_pid("h");
    assert_eq!(read(&mut proxy, "h://linked/x"), "linked/x of h");
    assert_eq!(proxy.refused("resources/read", json!({"uri": "g://linked/x"})), -32002);
    assert_eq!(proxy.group("g")["state"], "pending");
}

#[test]
fn a_named_group_is_connected_and_its_answer_is_its_own() {
    let mut proxy = Proxy::new(&two());
    let read = proxy.ask("resources/read", json!({"uri": "h://linked/x", "group": "h"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of h");
    let error = proxy.ask("resources/read", json!({"uri": "g://one", "group": "h"}))["error"].take();
    let wanted = json!({"code": -32002, "message": "Resource not found", "data": {"uri": "g://one"}});
    assert_eq!(error, wanted);
}

#[test]
fn what_a_group_says_of_a_uri_that_nobody_lists_is_not_lost() {
    let mut proxy = Proxy::new(&servers([("g", all(&["--scheme", "g"])), ("h", all(&["--scheme", "h"]))]));
    for group in ["g", "h"] {
        proxy.upstream_pid(group);
    }
    // Not in its list, so both are asked; the first does not know it, the second fails in its own way.
    let error = error_of(&mut proxy, "resources/read", r#"{"uri":"h://error/hidden","group":null}"#);
    assert_eq!(error, weird_error());
    let subscribed = proxy.ask("resources/subscribe", json!({"uri": "h://linked/quietly"}));
    assert_eq!(subscribed["result"], json!({}), "asked of those that are connected");
}

#[test]
fn apps_of_two_groups_stay_in_their_scheme() {
    let named = |name| all(&["--scheme", "ui", "--name", name]);
    let mut proxy = Proxy::new(&servers([("g", named("g")), ("h", named("h"))]));
    for group in ["g", "h"] {
        proxy.upstream_pid(group);
    }
    let listed = proxy.ask("resources/list", json!({}))["result"].to_string();
    assert!(listed.contains(r#""uri":"ui://one""#) && listed.contains(r#""uri":"ui://h/one""#), "{listed}");
    assert_eq!(read(&mut proxy, "ui://one"), "one of g");
    assert_eq!(read(&mut proxy, "ui://h/one"), "one of h");
}

#[test]
fn params_results_and_errors_pass_byte_for_byte() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    proxy.upstream_pid("g");
    let meta = r#""_meta":{"x/y":[1e400,-0.0],"traceparent":"t"}"#;
    for group in ["", r#","group":"g""#] {
        let params = format!(r#"{{"uri":"mem://params",{meta},{WEIRD}{group}}}"#);
        result_of(&mut proxy, "resources/read", &params);
        let last = record.lines("resources/read").len() - 1;
        let arrived = record.line("resources/read", last);
        for part in [meta, weird_member(), "[ 1 , 2 ]", r#""uri":"mem://params""#] {
            assert!(arrived.raw("params").unwrap().contains(part), "{part} in {}", arrived.line);
        }
        assert!(!arrived.line.contains("group"), "{}", arrived.line);
    }
    let weird = result_of(&mut proxy, "resources/read", r#"{"uri":"mem://weird"}"#);
    assert_eq!(weird, format!(r#"{{"contents":[{{"uri":"mem://weird","text":"weird"}}],{WEIRD}}}"#));
    assert_eq!(error_of(&mut proxy, "resources/read", r#"{"uri":"mem://error"}"#), weird_error());
}

#[test]
fn a_read_that_is_not_answered_in_time_fails_and_is_cancelled() {
    let record = Record::new();
    let entry = with(record.of(all(&[])), json!({"timeout": {"resources": 1}}));
    let mut proxy = Proxy::new(&servers([("g", entry)]));
    proxy.upstream_pid("g");
    let error = proxy.ask("resources/read", json!({"uri": "mem://hang"}))["error"].take();
    assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31002), &json!("g")), "{error}");
    let id = record.line("resources/read", 0).id().unwrap().to_owned();
    let cancelled = record.line("notifications/cancelled", 0).json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), id);
    assert_eq!(read(&mut proxy, "mem://one"), "one of ");
}

#[test]
fn a_client_that_takes_its_read_back_is_not_answered() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    proxy.upstream_pid("g");
    // Its lists are known now.
    for _ in 0..2 {
        said(&mut proxy);
    }
    let id = proxy.send("resources/read", json!({"uri": "mem://hang"}));
    let theirs = record.line("resources/read", 0).id().unwrap().to_owned();
    proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "bored", "x": 1.5}));
    let cancelled = record.line("notifications/cancelled", 0).json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), theirs);
    assert_eq!((&cancelled["params"]["reason"], &cancelled["params"]["x"]), (&json!("bored"), &json!(1.5)));
    super::hears_nothing(&mut proxy);
}

#[test]
fn a_read_is_asked_once_more_when_the_connection_breaks_and_not_twice() {
    let record = Record::new();
    let mut proxy = Proxy::new(&servers([("g", record.of(all(&[])))]));
    proxy.upstream_pid("g");
    let file = record.0.path().join("crashed");
    let once = format!("mem://crash-once/{}", file.display());
    let answer = proxy.ask("resources/read", json!({"uri": once, "group": "g"}));
    assert!(answer["result"]["contents"].is_array(), "{answer}");
    let error = proxy.ask("resources/read", json!({"uri": "mem://crash"}))["error"].take();
    assert_eq!((&error["code"], &error["data"]["group"]), (&json!(-31003), &json!("g")), "{error}");
    assert_eq!(record.lines("resources/read").len(), 4);
}

#[test]
fn a_group_that_does_not_declare_capabilities_is_asked_all_the_same() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&["--resources", "--no-capabilities"]))]));
    let answer = proxy.ask("resources/read", json!({"uri": "mem://one", "group": "g"}));
    assert_eq!(answer["result"]["contents"][0]["uri"], "mem://one", "{answer}");
}
