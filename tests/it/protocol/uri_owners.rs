//! Attacks on the owners of URIs: a group that names, or has a template for, what belongs to another one.

use serde_json::{Value, json};

use super::weird_error;
use crate::support::{InputRecord, Proxy, ProxyCommand, config_of, full_upstream, pure_config};

/// The full upstreams `evil`, with these flags, and `bank`, each with its name as the scheme of its URIs. The input of
/// `evil` is recorded.
fn evil_and_bank(record: &InputRecord, flags: &[&str]) -> [(&'static str, Value); 2] {
    let flags = [&["--scheme", "evil", "--name", "evil"], flags].concat();
    [
        ("evil", record.attached_to(full_upstream(&flags))),
        ("bank", full_upstream(&["--scheme", "bank", "--name", "bank"])),
    ]
}

fn link(proxy: &mut Proxy, group: &str, uri: &str) {
    proxy.call_tool(group, "link", json!({"uri": uri}));
}

fn read_text(proxy: &mut Proxy, uri: &str) -> String {
    let response = proxy.request("resources/read", json!({"uri": uri}));
    response["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

/// How many reads and subscriptions the upstream has received.
fn requests(record: &InputRecord) -> usize {
    record.lines_of("resources/read").len() + record.lines_of("resources/subscribe").len()
}

#[test]
fn a_group_that_names_a_uri_does_not_get_it_where_another_one_lists_the_authority() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config(evil_and_bank(&record, &[])));
    proxy.connect(["evil", "bank"]);
    // `bank` lists `bank://one` and has the template `bank://item/{id}`.
    for uri in ["bank://one", "bank://item/1", "bank://one/hidden", "bank://item/a/b", "BANK://Item/a/b"] {
        link(&mut proxy, "evil", uri);
        let read = proxy.request("resources/read", json!({"uri": uri}));
        let is_found =
            read["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.ends_with(" of bank"));
        assert!(is_found || uri.starts_with("BANK"), "{uri}: {read}");
        assert_eq!(proxy.request("resources/subscribe", json!({"uri": uri}))["result"], json!({}), "{uri}");
    }
    // Not even what `bank` does not have.
    link(&mut proxy, "evil", "bank://error/hidden");
    assert_eq!(proxy.raw_error("resources/read", r#"{"uri":"bank://error/hidden"}"#), weird_error());
    assert_eq!(requests(&record), 0);
    assert!(read_text(&mut proxy, "dynamic-mcp://evil/evil%3A%2F%2Fone").ends_with("of evil"));
}

#[test]
fn lists_decide_before_names_also_while_they_are_read_for_the_first_time() {
    let record = InputRecord::new();
    let [evil, (bank, entry)] = evil_and_bank(&record, &[]);
    let mut slow = entry;
    slow["args"].as_array_mut().unwrap().extend([json!("--slow-start"), json!("1500")]);
    let mut proxy = ProxyCommand::new().config(&config_of([evil, (bank, slow)])).start_initialized();
    link(&mut proxy, "evil", "bank://item/a/b");
    assert_eq!(read_text(&mut proxy, "bank://item/a/b"), "item/a/b of bank");
    assert_eq!(requests(&record), 0);
}

#[test]
fn a_uri_that_several_groups_named_is_refused_with_a_uri_for_each() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config(evil_and_bank(&record, &[])));
    proxy.connect(["evil", "bank"]);
    let uri = "bank://linked/x";
    link(&mut proxy, "bank", uri);
    assert_eq!(read_text(&mut proxy, uri), "linked/x of bank");
    link(&mut proxy, "evil", uri);
    let error = proxy.request("resources/read", json!({"uri": uri}))["error"].take();
    let explicit = ["evil", "bank"].map(|group| format!("dynamic-mcp://{group}/bank%3A%2F%2Flinked%2Fx"));
    assert_eq!((&error["code"], &error["data"]["candidates"]), (&json!(-32602), &json!(explicit)), "{error}");
    assert!(explicit.iter().all(|uri| error["message"].as_str().unwrap().contains(uri)), "{error}");
    assert_eq!(requests(&record), 0);
    assert_eq!(read_text(&mut proxy, &explicit[1]), "linked/x of bank");
    // Many names of one group do not make that of another one forgotten.
    let many: Vec<Value> = (0..100).map(|n| json!({"uri": format!("x://{n}")})).collect();
    for _ in 0..11 {
        let params = json!({"group": "evil", "uri": "evil://one", "x-result": {"contents": many}});
        proxy.request("resources/read", params);
    }
    assert_eq!(proxy.error_code("resources/read", json!({"uri": uri})), -32602);
}

#[test]
fn a_subscription_ends_where_it_was_made_whoever_names_its_uri_meanwhile() {
    let record = InputRecord::new();
    let mut proxy = Proxy::new(&pure_config(evil_and_bank(&record, &[])));
    proxy.connect(["evil", "bank"]);
    let uri = json!({"uri": "bank://linked/x"});
    link(&mut proxy, "bank", "bank://linked/x");
    assert_eq!(proxy.request("resources/subscribe", uri.clone())["result"], json!({}));
    link(&mut proxy, "evil", "bank://linked/x");
    assert_eq!(proxy.error_code("resources/subscribe", uri.clone()), -32602);
    assert_eq!(proxy.request("resources/unsubscribe", uri)["result"], json!({}));
    assert_eq!(record.lines_of("resources/unsubscribe").len(), 0);
}

#[test]
fn a_template_that_covers_everything_comes_last() {
    for template in ["{+uri}", "{scheme}://{+rest}", "b{+rest}"] {
        let record = InputRecord::new();
        let mut proxy = Proxy::new(&pure_config(evil_and_bank(&record, &["--template", template])));
        proxy.connect(["evil", "bank"]);
        for uri in ["bank://item/1", "bank://item/a/b"] {
            assert!(read_text(&mut proxy, uri).ends_with(" of bank"), "{template} {uri}");
        }
        link(&mut proxy, "bank", "bank://linked/x");
        assert_eq!(read_text(&mut proxy, "bank://linked/x"), "linked/x of bank", "{template}");
        assert_eq!(requests(&record), 0, "{template}");
        // What belongs to nobody goes there, and so does what its owner does not have.
        for (n, uri) in ["bu://x/y", "bank://error/hidden"].into_iter().enumerate() {
            proxy.raw_error("resources/read", &json!({"uri": uri}).to_string());
            assert_eq!(requests(&record), n + 1, "{template} {uri}");
        }
    }
}

#[test]
fn a_uri_without_an_authority_is_asked_for_where_similar_ones_are_listed_and_then_where_it_was_named() {
    let record = InputRecord::new();
    let lists = full_upstream(&["--template", "file:///{id}", "--name", "files"]);
    let links = record.attached_to(full_upstream(&["--scheme", "file", "--name", "links"]));
    let mut proxy = Proxy::new(&pure_config([("links", links), ("files", lists)]));
    proxy.connect(["links", "files"]);
    let uri = "file:///a/b";
    link(&mut proxy, "links", uri);
    let read = json!({"uri": uri, "x-result": {"contents": [{"uri": uri, "text": "x"}]}});
    assert_eq!(proxy.request("resources/read", read)["result"]["contents"][0]["text"], "x");
    assert_eq!(requests(&record), 0, "`files` has it");
    link(&mut proxy, "links", "file:///c/d");
    proxy.request("resources/read", json!({"uri": "file:///c/d"}));
    assert_eq!(requests(&record), 1, "`files` does not have it");
}
