//! Stored results on every route and in both eras, and the name that is reserved.

use serde_json::{Value, json};

use super::{config, id_in, note, read_text, text_result, upstream};
use crate::support::{Proxy, config_of, merged, pure_config, text_of};

#[test]
fn tools_of_the_flat_surface_store_their_results_and_their_definition_promises_no_structure() {
    let entry = merged(upstream(), json!({"store_above": 1000}));
    let config =
        merged(config_of([("g", entry)]), json!({"settings": {"surface": "flat", "lazy_startup": "eager"}}));
    let mut proxy = Proxy::new(&config);
    proxy.connect(["g"]);
    let result = proxy
        .request("tools/call", json!({"name": "g__verbatim", "arguments": text_result(&"x".repeat(3000))}));
    let id = id_in(note(&result["result"]));
    assert_eq!(read_text(&mut proxy, &id, json!({"bytes": "0-3"})), "xxx");
    let mut fresh = Proxy::new(&config);
    fresh.connect(["g"]);
    let described = |proxy: &mut Proxy| -> Vec<Value> {
        proxy.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
    };
    crate::support::wait_until("the list has the tool", || {
        described(&mut fresh).iter().any(|tool| tool["name"] == "g__verbatim")
    });
    let tools = described(&mut fresh);
    let verbatim = tools.iter().find(|tool| tool["name"] == "g__verbatim").unwrap();
    assert_eq!(verbatim.get("outputSchema"), None);
    assert!(tools.iter().any(|tool| tool["name"] == "call_dynamic_tool"), "which reads the results");
}

#[test]
fn a_stateless_client_reads_stored_results_too() {
    let mut proxy = Proxy::new(&config(json!({"store_above": 1000})));
    let arguments = json!({"group": "g", "name": "verbatim", "args": text_result(&"x".repeat(3000))});
    let result =
        proxy.stateless_request("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    assert_eq!(result["result"]["resultType"], "complete", "{result}");
    let id = id_in(note(&result["result"]));
    let uri = format!("dynamic-mcp://result/{id}");
    let read = proxy.stateless_request("resources/read", json!({"uri": uri}));
    assert_eq!(read["result"]["contents"][0]["text"], "x".repeat(3000));
    let unknown = proxy.stateless_request("resources/read", json!({"uri": "dynamic-mcp://result/x"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn a_server_of_our_own_name_is_a_config_error_and_the_others_work() {
    let config =
        pure_config([("dynamic-mcp", upstream()), ("g", merged(upstream(), json!({"store_above": 1000})))]);
    let mut proxy = Proxy::new(&config);
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert!(
        text_of(&status)
            .contains("the name `dynamic-mcp` is reserved for dynamic-mcp itself (rename the server)"),
        "{status}"
    );
    let result = proxy.call_tool("g", "verbatim", text_result(&"x".repeat(3000)));
    assert_eq!(read_text(&mut proxy, &id_in(note(&result)), json!({"bytes": "0-1"})), "x");
}

#[test]
fn a_group_called_result_keeps_its_rewritten_uris() {
    let protocol = crate::support::full_upstream(&[]);
    let config =
        config_of([("first", protocol.clone()), ("result", merged(protocol, json!({"store_above": 1000})))]);
    let mut proxy = Proxy::new(&config);
    proxy.connect(["first", "result"]);
    let listed = proxy.request("resources/list", json!({}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    let rewritten = resources.iter().filter_map(|resource| resource["uri"].as_str());
    let rewritten: Vec<_> = rewritten.filter(|uri| uri.starts_with("dynamic-mcp://result/")).collect();
    let uri = rewritten.first().unwrap_or_else(|| panic!("{listed}"));
    let read = proxy.request("resources/read", json!({"uri": uri}));
    assert!(read["result"]["contents"].is_array(), "{read}");
}
