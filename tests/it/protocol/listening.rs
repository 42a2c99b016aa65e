//! `subscriptions/listen` of a client that changes its mind, at servers of both eras.

use serde_json::{Value, json};

use super::{all, state};
use crate::support::{Proxy, Setup, servers, until, with};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ERAS: [&[&str]; 2] = [&[], &["--stateless"]];

fn start(flags: &[&str]) -> Proxy {
    let entry = with(all(flags), json!({"idle_timeout": "300ms"}));
    let mut proxy = Setup::new().config(&servers([("g", entry)])).start();
    // Known from now on, and its URIs.
    proxy.stateless("tools/call", call("echo", json!({"text": "x"})));
    proxy
}

fn call(name: &str, args: Value) -> Value {
    json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": name, "args": args}})
}

/// A request to listen to these URIs, as a line.
fn listen(id: &str, uris: &[&str]) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"_meta": meta, "notifications": {"resourceSubscriptions": uris}});
    json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}).to_string()
}

fn cancel(id: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

/// The URIs of the next acknowledgement of `id`.
fn acknowledged(proxy: &mut Proxy, id: &str) -> Value {
    loop {
        let message = proxy.next().unwrap().json();
        if message["method"] == "notifications/subscriptions/acknowledged"
            && message["params"]["_meta"][SUBSCRIPTION] == id
        {
            return message["params"]["notifications"]["resourceSubscriptions"].clone();
        }
    }
}

/// Whether `id` hears that the resource changed.
fn hears(proxy: &mut Proxy, id: &str, uri: &str) -> bool {
    let news = json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
    let call = proxy.send_stateless(&json!({}), "tools/call", call("tell", news));
    let mut heard = false;
    loop {
        let message = proxy.next().unwrap();
        if message.id() == Some(&*call.to_string()) {
            return heard;
        }
        heard |= message.json()["params"]["_meta"][SUBSCRIPTION] == id;
    }
}

#[test]
fn one_that_takes_the_place_of_another_hears_all() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.line(&listen("a", &["mem://one"]));
        acknowledged(&mut proxy, "a");
        // At once, and the other way round.
        proxy.write(&format!("{}\n{}\n", cancel("a"), listen("b", &["mem://one"])));
        assert_eq!(acknowledged(&mut proxy, "b"), json!(["mem://one"]));
        assert!(hears(&mut proxy, "b", "mem://one"), "{era:?}");
        proxy.write(&format!("{}\n{}\n", listen("c", &["mem://two", "mem://one"]), cancel("b")));
        assert_eq!(acknowledged(&mut proxy, "c"), json!(["mem://two", "mem://one"]));
        assert!(hears(&mut proxy, "c", "mem://one"), "{era:?}");
        assert!(!hears(&mut proxy, "b", "mem://one"), "{era:?}");
        // Under the same id.
        proxy.write(&format!("{}\n{}\n", cancel("c"), listen("c", &["mem://two"])));
        acknowledged(&mut proxy, "c");
        assert!(hears(&mut proxy, "c", "mem://two"), "{era:?}");
        assert!(!hears(&mut proxy, "c", "mem://one"), "{era:?}");
    }
}

#[test]
fn one_that_was_cancelled_keeps_nothing_connected() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.write(&format!("{}\n{}\n", listen("a", &["mem://one"]), cancel("a")));
        // By a client with a handshake, that can ask for the state.
        proxy.handshake();
        until("it is closed", || state(&mut proxy, "g") == "discovered");
    }
}

#[test]
fn what_the_server_does_not_honour_is_not_acknowledged() {
    // These servers have tools alone.
    for flags in [&[][..], &["--stateless"]] {
        let entry = with(crate::support::upstream(flags), json!({}));
        let mut proxy = Setup::new().config(&servers([("g", entry)])).start();
        let result = json!({"content": [{"type": "resource_link", "uri": "mem://one", "name": "one"}]});
        // It names the URI, so it is the one to be asked.
        let named = format!("{result}");
        proxy.stateless("tools/call", call("echo", json!({"text": named})));
        proxy.line(&listen("a", &["mem://one", "x://nowhere"]));
        assert_eq!(acknowledged(&mut proxy, "a"), json!([]), "{flags:?}");
    }
}

#[test]
fn what_lies_below_a_resource_is_heard_of_as_well() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.line(&listen("a", &["mem://one"]));
        acknowledged(&mut proxy, "a");
        if era.is_empty() {
            assert!(hears(&mut proxy, "a", "mem://one/part"), "{era:?}");
        }
        assert!(!hears(&mut proxy, "a", "mem://onesie"), "{era:?}");
    }
}
