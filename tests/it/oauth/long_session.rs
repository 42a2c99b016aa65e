//! A long session with a realistic server: TLS with a private certificate authority, a login, MCP sessions, short-lived
//! access tokens, refresh tokens that work once, and a restart.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::remote::proxies::TunnelProxy;
use crate::support::{Proxy, wait_until};

/// Calls a tool until the token has been refreshed `count` times. Each call succeeds.
fn call_until_refreshed(proxy: &mut Proxy, fixture: &Fixture, count: usize) {
    wait_until("a refresh", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
        fixture.auth_server.grants("refresh_token").len() >= count
    });
}

#[test]
fn a_session_outlasts_refreshes_and_a_restart() {
    let mut fixture = Fixture::with_tls();
    fixture.auth_server.state().token_response = json!({"expires_in": 2});
    fixture.auth_server.state().sessions = Some(BTreeSet::new());
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");

    let login = fixture.start_login();
    assert!(login.url.starts_with(&fixture.auth_server.http.origin), "{}", login.url);
    assert!(login.complete_in_browser().contains("You are logged in"));
    let output = login.wait();
    assert_eq!(output.exit_code, 0, "{}", output.text);
    wait_until("the login is used", || proxy.call_tool("g", "echo", json!({}))["isError"] != true);

    // Two access tokens expire, and two refresh tokens are used up, in one session.
    let first = fixture.stored_login()["refresh_token"].clone();
    call_until_refreshed(&mut proxy, &fixture, 1);
    call_until_refreshed(&mut proxy, &fixture, 2);
    let refreshes = fixture.auth_server.grants("refresh_token");
    assert_ne!(refreshes[0]["refresh_token"], refreshes[1]["refresh_token"]);
    assert_ne!(fixture.stored_login()["refresh_token"], first);
    let sessions: BTreeSet<_> = fixture
        .auth_server
        .http
        .requests_of("tools/call")
        .iter()
        .map(|c| c.header("mcp-session-id").to_owned())
        .collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");

    // The server restarts: the session is gone, the login is not.
    fixture.auth_server.restart();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back");
    let calls = fixture.auth_server.http.requests_of("tools/call");
    let last = calls.last().unwrap().header("mcp-session-id").to_owned();
    assert!(!last.is_empty() && !sessions.contains(&last), "{last} of {sessions:?}");
    call_until_refreshed(&mut proxy, &fixture, 1);
    assert!(!fixture.auth_server.state().refresh_token_reused);

    assert_eq!(proxy.group_status("g")["error"], Value::Null);
    let shown = proxy.log() + &proxy.status().to_string();
    assert!(!shown.contains("s3cret-"), "{shown}");
}

/// Waits until the server has accepted a connection for each tunnel, and one of the browser.
fn all_connections_are_tunnels(fixture: &Fixture, tunnels: &TunnelProxy) {
    wait_until("a connection for each tunnel", || {
        fixture.auth_server.http.connections() == tunnels.requests().len() + 1
    });
}

#[test]
fn all_requests_of_a_login_use_the_proxy_of_the_environment() {
    let mut fixture = Fixture::with_tls();
    let tunnels = TunnelProxy::start(200);
    fixture.env = vec![("HTTPS_PROXY", tunnels.url())];
    fixture.log_in();
    all_connections_are_tunnels(&fixture, &tunnels);
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    all_connections_are_tunnels(&fixture, &tunnels);
    assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());

    let refusing = TunnelProxy::start(407);
    fixture.env = vec![("HTTPS_PROXY", refusing.url())];
    let output = fixture.run(&["login", "g"]);
    let reason = "(set in the environment) requires other credentials than those in its URL (HTTP 407)";
    assert_eq!(output.exit_code, 4, "{}", output.text);
    assert!(output.text.contains(reason) && !output.text.contains("s3cret-"), "{}", output.text);
}
