//! URIs that no group lists and no template covers: which groups are asked for them, in which order, and with which
//! answer.

use serde_json::{Value, json};

use super::{two_schemes_config, weird_error};
use crate::support::{InputRecord, Proxy, ProxyCommand, full_upstream, pure_config, scripted_upstream};

/// Two full upstreams, `g` and `h`, each with its name as the scheme of its URIs, whose input is recorded.
fn recorded_schemes(records: &[InputRecord; 2]) -> Value {
    let entry =
        |record: &InputRecord, name| record.attached_to(full_upstream(&["--scheme", name, "--name", name]));
    pure_config([("g", entry(&records[0], "g")), ("h", entry(&records[1], "h"))])
}

/// How many requests of this method each of the two upstreams has received.
fn received(records: &[InputRecord; 2], method: &str) -> [usize; 2] {
    records.each_ref().map(|record| record.lines_of(method).len())
}

#[test]
fn a_read_goes_first_to_the_group_that_lists_similar_ones() {
    let records = [InputRecord::new(), InputRecord::new()];
    let mut proxy = Proxy::new(&recorded_schemes(&records));
    proxy.connect(["g", "h"]);
    let read = proxy.request("resources/read", json!({"uri": "h://linked/x"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of h", "{read}");
    assert_eq!(received(&records, "resources/read"), [0, 1]);
    // No group has this one. The answer is that of the group which lists similar ones.
    let error = proxy.request("resources/read", json!({"uri": "h://nothing"}))["error"].take();
    let own = json!({"code": -32002, "message": "Resource not found", "data": {"uri": "h://nothing"}});
    assert_eq!(error, own);
    assert_eq!(received(&records, "resources/read"), [1, 2]);
    // A failure says more than that others do not have it.
    assert_eq!(
        proxy.raw_error("resources/read", r#"{"uri":"h://error/hidden","group":null}"#),
        weird_error()
    );
    // One that resembles nothing is asked for everywhere, in the order of the config.
    assert_eq!(proxy.error_code("resources/read", json!({"uri": "x://y"})), -32002);
    assert_eq!(received(&records, "resources/read"), [3, 4]);
    // These name a group that does not exist.
    for uri in ["dynamic-mcp://nobody/x", "dynamic-mcp://h/%zz"] {
        assert_eq!(proxy.error_code("resources/read", json!({"uri": uri})), -32002, "{uri}");
    }
    assert_eq!(received(&records, "resources/read"), [3, 4]);
}

#[test]
fn groups_that_are_not_connected_are_asked_too_and_those_that_nothing_is_known_of_at_the_end() {
    let mut proxy = Proxy::new(&two_schemes_config());
    proxy.connect(["g"]);
    let read = proxy.request("resources/read", json!({"uri": "g://linked/x"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of g", "{read}");
    assert_eq!(proxy.group_state("h"), "pending", "it was not needed");
    let read = proxy.request("resources/read", json!({"uri": "h://linked/x"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of h", "{read}");
    assert_eq!(proxy.group_state("h"), "connected");
}

#[test]
fn groups_without_resources_and_groups_that_cannot_connect_do_not_hide_the_answer() {
    let tools = InputRecord::new();
    let mut off = full_upstream(&[]);
    off["features"] = json!({"resources": false});
    let mut proxy = Proxy::new(&pure_config([
        ("tools", tools.attached_to(scripted_upstream(&[]))),
        ("off", off),
        ("gone", json!({"command": "no-such-program"})),
        ("h", full_upstream(&["--scheme", "h", "--name", "h"])),
    ]));
    proxy.connect(["tools", "h"]);
    let error = proxy.request("resources/read", json!({"uri": "x://y"}))["error"].take();
    assert_eq!(error, json!({"code": -32002, "message": "Resource not found", "data": {"uri": "x://y"}}));
    let read = proxy.request("resources/read", json!({"uri": "h://linked/x"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of h", "{read}");
    assert_eq!(tools.lines_of("resources/read").len(), 0);
    assert_eq!(proxy.group_state("off"), "pending");

    let mut proxy = Proxy::new(&pure_config([("tools", scripted_upstream(&[]))]));
    let error = proxy.request("resources/read", json!({"uri": "x://y"}))["error"].take();
    assert_eq!(error["code"], -32002, "a group without resources is not asked: {error}");
}

#[test]
fn one_group_gets_every_request_and_its_answer_is_the_answer() {
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(full_upstream(&[])))]);
    let mut proxy = Proxy::new(&config);
    let error = proxy.request("resources/read", json!({"uri": "x://y"}))["error"].take();
    assert_eq!(error, json!({"code": -32002, "message": "Resource not found", "data": {"uri": "x://y"}}));
    assert_eq!(proxy.raw_error("resources/read", r#"{"uri":"mem://error/hidden"}"#), weird_error());
    // Some servers offer lists alone.
    let lacks = json!({"code": -32601, "message": "no reads"});
    let read = proxy.request("resources/read", json!({"uri": "x://y", "x-error": lacks}));
    assert_eq!(read["error"], lacks);
    let read = proxy.request("resources/read", json!({"uri": "mem://linked/x"}));
    assert_eq!(read["result"]["contents"][0]["text"], "linked/x of ", "{read}");
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(proxy.request(method, json!({"uri": "x://y"}))["result"], json!({}), "{method}");
        record.wait_for(method, 0);
    }
}

#[test]
fn a_subscription_is_made_where_similar_ones_are_listed_and_ended_there() {
    let records = [InputRecord::new(), InputRecord::new()];
    let mut proxy = Proxy::new(&recorded_schemes(&records));
    proxy.connect(["g", "h"]);
    let uri = json!({"uri": "h://linked/quietly"});
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(proxy.request(method, uri.clone())["result"], json!({}), "{method}");
        assert_eq!(received(&records, method), [0, 1], "{method}");
    }
}

#[test]
fn a_stateless_subscription_is_made_there_too() {
    let records = [InputRecord::new(), InputRecord::new()];
    let mut proxy = ProxyCommand::new().config(&recorded_schemes(&records)).start();
    for group in ["g", "h"] {
        let call = json!({"name": "call_dynamic_tool", "arguments": {"group": group, "name": "pid"}});
        proxy.stateless_request("tools/call", call);
    }
    let uris = ["h://linked/quietly", "dynamic-mcp://nobody/x"];
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    proxy.send_stateless_request(&json!({}), "subscriptions/listen", filter);
    let acknowledged = proxy.wait_for_message("notifications/subscriptions/acknowledged").json();
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!([uris[0]]));
    assert_eq!(received(&records, "resources/subscribe"), [0, 1]);
}

#[test]
fn a_server_that_does_not_declare_resources_reads_those_that_it_names() {
    let config = pure_config([
        (
            "g",
            scripted_upstream(&["--undeclared", "--definitions", r#"{"name":"verbatim","inputSchema":{}}"#]),
        ),
        ("h", scripted_upstream(&["--resources"])),
    ]);
    let mut proxy = Proxy::new(&config);
    proxy.connect(["g", "h"]);
    let link = json!({"content": [{"type": "resource_link", "uri": "mem:///nine", "name": "nine"}]});
    let named = proxy.call_tool("g", "verbatim", link);
    assert_eq!(named["content"][0]["uri"], "mem:///nine", "{named}");
    let read = proxy.request("resources/read", json!({"uri": "mem:///nine"}));
    assert_eq!(read["result"]["contents"][0]["uri"], "mem:///nine", "{read}");
}
