//! A remote server as there are many: TLS by a company's own authority, a login, sessions, tokens that live a short
//! while, refresh tokens that are good once, and a new release now and then.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::World;
use crate::remote::proxies::TunnelProxy;
use crate::support::{Proxy, until};

/// What the model asks for while its token is renewed: every answer is the one it asked for.
fn calls_until_renewed(proxy: &mut Proxy, world: &World, count: usize) {
    until("a renewal", || {
        assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
        world.authority.grants("refresh_token").len() >= count
    });
}

#[test]
fn a_day_with_a_real_server() {
    let mut world = World::tls();
    world.authority.state().grant = json!({"expires_in": 2});
    world.authority.state().sessions = Some(BTreeSet::new());
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");

    let waiting = world.begin();
    assert!(waiting.url.starts_with(&world.authority.server.origin), "{}", waiting.url);
    assert!(waiting.visit().contains("You are logged in"));
    let outcome = waiting.ends();
    assert_eq!(outcome.code, 0, "{}", outcome.said);
    until("the login is used", || proxy.call("g", "echo", json!({}))["isError"] != true);

    // Two tokens end, and two refresh tokens are used up, under one session.
    let first = world.kept()["refresh_token"].clone();
    calls_until_renewed(&mut proxy, &world, 1);
    calls_until_renewed(&mut proxy, &world, 2);
    let renewals = world.authority.grants("refresh_token");
    assert_ne!(renewals[0]["refresh_token"], renewals[1]["refresh_token"]);
    assert_ne!(world.kept()["refresh_token"], first);
    let sessions: BTreeSet<_> = world
        .authority
        .server
        .requests_of("tools/call")
        .iter()
        .map(|c| c.header("mcp-session-id").to_owned())
        .collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");

    // A new release: the session is gone, the login is not.
    world.authority.restart();
    assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back");
    let calls = world.authority.server.requests_of("tools/call");
    let last = calls.last().unwrap().header("mcp-session-id").to_owned();
    assert!(!last.is_empty() && !sessions.contains(&last), "{last} of {sessions:?}");
    calls_until_renewed(&mut proxy, &world, 1);
    assert!(!world.authority.state().used_twice);

    assert_eq!(proxy.group("g")["error"], Value::Null);
    let all = proxy.log() + &proxy.status().to_string();
    assert!(!all.contains("s3cret-"), "{all}");
}

#[test]
fn a_login_passes_the_proxy_of_the_environment() {
    let mut world = World::tls();
    let tunnels = TunnelProxy::start(200);
    world.env = vec![("HTTPS_PROXY", tunnels.url())];
    world.logged_in();
    let browser = 1;
    assert_eq!(world.authority.server.connections(), tunnels.requests().len() + browser);
    let mut proxy = world.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    assert_eq!(world.authority.server.connections(), tunnels.requests().len() + browser);
    assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());

    let refuses = TunnelProxy::start(407);
    world.env = vec![("HTTPS_PROXY", refuses.url())];
    let outcome = world.run(&["login", "g"]);
    let said = "(set in the environment) requires other credentials than those in its URL (HTTP 407)";
    assert_eq!(outcome.code, 4, "{}", outcome.said);
    assert!(outcome.said.contains(said) && !outcome.said.contains("s3cret-"), "{}", outcome.said);
}
