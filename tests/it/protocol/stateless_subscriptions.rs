//! `subscriptions/listen` of stateless clients: subscriptions that are replaced or cancelled, with upstreams of both
//! eras.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, full_upstream, merged, pure_config, scripted_config};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The flags of an upstream of each era.
const ERAS: [&[&str]; 2] = [&[], &["--stateless"]];

/// A session of a stateless client that has used `g`, so that the URIs of `g` are known.
fn start(flags: &[&str]) -> Proxy {
    let entry = merged(full_upstream(flags), json!({"idle_timeout": "300ms"}));
    let mut proxy = ProxyCommand::new().config(&pure_config([("g", entry)])).start();
    proxy.stateless_request("tools/call", call_params("echo", json!({"text": "x"})));
    proxy
}

/// The params of a call of a tool of `g`.
fn call_params(name: &str, args: Value) -> Value {
    json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": name, "args": args}})
}

/// A request for a subscription to these URIs, as a line.
fn listen_line(id: &str, uris: &[&str]) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"_meta": meta, "notifications": {"resourceSubscriptions": uris}});
    json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}).to_string()
}

/// The cancellation of a request, as a line.
fn cancel_line(id: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

/// Waits for the acknowledgement of a subscription, and returns its URIs.
fn acknowledged_uris(proxy: &mut Proxy, id: &str) -> Value {
    loop {
        let message = proxy.next_message().unwrap().json();
        if message["method"] == "notifications/subscriptions/acknowledged"
            && message["params"]["_meta"][SUBSCRIPTION] == id
        {
            return message["params"]["notifications"]["resourceSubscriptions"].clone();
        }
    }
}

/// Makes the upstream report an update of this resource. Returns whether the subscription `id` gets it.
fn gets_update(proxy: &mut Proxy, id: &str, uri: &str) -> bool {
    let notification = json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
    let call = proxy.send_stateless_request(&json!({}), "tools/call", call_params("tell", notification));
    let mut is_forwarded = false;
    loop {
        let message = proxy.next_message().unwrap();
        if message.id() == Some(&*call.to_string()) {
            return is_forwarded;
        }
        is_forwarded |= message.json()["params"]["_meta"][SUBSCRIPTION] == id;
    }
}

#[test]
fn a_subscription_that_replaces_another_gets_all_updates() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.write_line(&listen_line("a", &["mem://one"]));
        acknowledged_uris(&mut proxy, "a");
        // The replacement is in the same write, after the cancellation, then before it.
        proxy.write(&format!("{}\n{}\n", cancel_line("a"), listen_line("b", &["mem://one"])));
        assert_eq!(acknowledged_uris(&mut proxy, "b"), json!(["mem://one"]));
        assert!(gets_update(&mut proxy, "b", "mem://one"), "{era:?}");
        proxy.write(&format!("{}\n{}\n", listen_line("c", &["mem://two", "mem://one"]), cancel_line("b")));
        assert_eq!(acknowledged_uris(&mut proxy, "c"), json!(["mem://two", "mem://one"]));
        assert!(gets_update(&mut proxy, "c", "mem://one"), "{era:?}");
        assert!(!gets_update(&mut proxy, "b", "mem://one"), "{era:?}");
        // With the same id.
        proxy.write(&format!("{}\n{}\n", cancel_line("c"), listen_line("c", &["mem://two"])));
        acknowledged_uris(&mut proxy, "c");
        assert!(gets_update(&mut proxy, "c", "mem://two"), "{era:?}");
        assert!(!gets_update(&mut proxy, "c", "mem://one"), "{era:?}");
    }
}

#[test]
fn a_cancelled_subscription_does_not_keep_its_group_connected() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.write(&format!("{}\n{}\n", listen_line("a", &["mem://one"]), cancel_line("a")));
        proxy.handshake();
        proxy.wait_for_state("g", "discovered");
    }
}

#[test]
fn a_client_of_both_eras_gets_each_update_once_for_each_subscription() {
    const UPDATED: &str = "notifications/resources/updated";
    for era in ERAS {
        let mut proxy = start(era);
        proxy.handshake();
        proxy.write_line(&listen_line("a", &["mem://one"]));
        acknowledged_uris(&mut proxy, "a");
        // How many updates come with and without the id of a subscription.
        let updates = |proxy: &mut Proxy| {
            let call =
                proxy.send_call("g", "tell", json!({"method": UPDATED, "params": {"uri": "mem://one"}}));
            let (mut listened, mut plain) = (0, 0);
            loop {
                let message = proxy.next_message().unwrap();
                if message.id() == Some(&*call.to_string()) {
                    return (listened, plain);
                }
                if message.method() == Some(UPDATED) {
                    let is_listened = message.json()["params"]["_meta"][SUBSCRIPTION] == "a";
                    *(if is_listened { &mut listened } else { &mut plain }) += 1;
                }
            }
        };
        assert_eq!(updates(&mut proxy), (1, 0), "{era:?}");
        let uri = json!({"uri": "mem://one"});
        proxy.request("resources/subscribe", uri.clone());
        assert_eq!(updates(&mut proxy), (1, 1), "it asked for both, {era:?}");
        proxy.request("resources/unsubscribe", uri);
        assert_eq!(updates(&mut proxy), (1, 0), "{era:?}");
        proxy.write_line(&cancel_line("a"));
        if era.is_empty() {
            // Servers of the handshake era may send updates that nobody asked for.
            assert_eq!(updates(&mut proxy), (0, 1));
        }
    }
}

#[test]
fn uris_of_servers_without_subscriptions_are_not_acknowledged() {
    // These servers have only tools.
    for flags in [&[][..], &["--stateless"]] {
        let mut proxy = ProxyCommand::new().config(&scripted_config(flags)).start();
        let result = json!({"content": [{"type": "resource_link", "uri": "mem://one", "name": "one"}]});
        // The result names the URI, so the group is known as its origin.
        proxy.stateless_request("tools/call", call_params("echo", json!({"text": result.to_string()})));
        proxy.write_line(&listen_line("a", &["mem://one", "x://nowhere"]));
        assert_eq!(acknowledged_uris(&mut proxy, "a"), json!([]), "{flags:?}");
    }
}

#[test]
fn updates_below_a_subscribed_resource_are_forwarded() {
    for era in ERAS {
        let mut proxy = start(era);
        proxy.write_line(&listen_line("a", &["mem://one"]));
        acknowledged_uris(&mut proxy, "a");
        if era.is_empty() {
            assert!(gets_update(&mut proxy, "a", "mem://one/part"), "{era:?}");
        }
        assert!(!gets_update(&mut proxy, "a", "mem://onesie"), "{era:?}");
    }
}
