//! Servers that mean harm.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, get, get_as};
use crate::remote::{Reply, Server};

/// A login that fails with these words, and asks nobody for a token.
fn refused(world: &World, words: &str) {
    let outcome = world.login();
    assert_eq!(outcome.code, 1, "{}", outcome.said);
    assert!(outcome.said.contains(words), "{words:?} in {}", outcome.said);
    assert!(world.files().is_empty());
}

#[test]
fn addresses_that_are_no_web_pages_are_not_opened() {
    for endpoint in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "ms-msdt:/id",
        "JAVASCRIPT:alert(1)",
        " javascript:alert(1)",
        "blob:https://login.example/x",
        "smb://login.example/share",
        "search-ms:query=x",
        "vscode://file/etc/passwd",
        "https://login.example/\r\nX: y",
        "https://login.example/\u{1b}[31m",
        "https://user@login.example/",
        "https://",
        "//login.example/authorize",
        "https://2130706433.example@10.0.0.1/",
        "https://0x0a000001/",
        "https://[::ffff:a00:1]/",
        "a:$(calc)",
        "https://x/\u{0}",
        "https://user:word@login.example/",
        "http://login.example/authorize",
        "https://10.0.0.1/authorize",
        "https://169.254.169.254/latest",
        "",
        "-x",
    ] {
        let world = World::new();
        world.authority.state().metadata = json!({"authorization_endpoint": endpoint});
        let (seen, browser) = world.browser();
        let output = world.command(&["login", "g"]).env("BROWSER", browser).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{endpoint}: {said}");
        assert!(said.contains("the login leads to"), "{endpoint}: {said}");
        assert!(!seen.exists() && !seen.with_extension("part").exists(), "{endpoint}");
        assert!(world.authority.forms("/as/register").is_empty(), "{endpoint}");
    }
}

#[test]
fn tokens_are_asked_for_in_safe_places_only() {
    let canary = Server::start(|_| Some(Reply::status(200)));
    let port = canary.origin.rsplit(':').next().unwrap();
    for (member, value) in [
        ("token_endpoint", format!("http://[::ffff:10.0.0.1]:{port}/")),
        ("token_endpoint", "http://login.example/token".to_owned()),
        ("registration_endpoint", "http://192.168.0.1/".to_owned()),
        ("registration_endpoint", "file:///x".to_owned()),
    ] {
        let world = World::new();
        world.authority.state().metadata = json!({member: value});
        refused(&world, "the login leads to");
    }
    let world = World::new();
    world.authority.state().redirect = Some(format!("{}/", canary.origin));
    refused(&world, "");
    assert!(canary.requests().is_empty(), "a redirect of the token endpoint was followed");
}

#[test]
fn metadata_that_has_moved_to_another_server_is_not_followed() {
    let canary = Server::start(|_| Some(Reply::json("{}")));
    let world = World::new();
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server/as"] {
        world.authority.state().moved = Some((path, canary.url()));
        assert_ne!(world.login().code, 0, "{path}");
    }
    assert!(canary.requests().is_empty());
    assert!(world.authority.forms("/as/token").is_empty());
}

#[test]
fn an_answer_without_measure_or_without_end_ends_the_login() {
    let world = World::new();
    world.authority.state().metadata = json!({"filler": "x".repeat(1 << 20)});
    refused(&world, "answered with more than 1 MiB");
    let world = World::new();
    world.authority.state().slow = Duration::from_secs(12);
    let begin = tokio::time::Instant::now();
    let outcome = world.login();
    assert_eq!(outcome.code, 4, "{}", outcome.said);
    assert!(outcome.said.contains("no answer in time"), "{}", outcome.said);
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
}

#[test]
fn metadata_elsewhere_is_not_asked_for() {
    let world = World::new();
    world.authority.state().challenge =
        Some(r#"Bearer resource_metadata="https://169.254.169.254/latest/meta-data""#.to_owned());
    // What is named there is ignored; the well-known place is looked at.
    world.logged_in();
    let world = World::new();
    world.authority.state().resource = json!({"authorization_servers": ["https://10.0.0.1/"]});
    let outcome = world.login();
    assert_eq!(outcome.code, 1);
    assert!(outcome.said.contains("10.0.0.1"), "{}", outcome.said);
    assert!(world.authority.forms("/as/authorize").is_empty());
}

#[test]
fn a_document_about_another_resource_is_not_believed() {
    let world = World::new();
    world.authority.state().resource = json!({"resource": "https://other.example/mcp"});
    let outcome = world.login();
    assert_eq!(outcome.code, 1, "{}", outcome.said);
    assert!(world.authority.forms("/as/token").is_empty());
}

#[test]
fn an_issuer_that_is_another_is_refused() {
    let world = World::new();
    world.authority.state().metadata = json!({"issuer": "https://other.example"});
    refused(&world, "other.example");

    for (returns, metadata) in [
        (json!({"iss": "https://other.example", "error_description": "MARKER"}), json!({})),
        (json!({"iss": null}), json!({})),
        (
            json!({"iss": "https://other.example"}),
            json!({"authorization_response_iss_parameter_supported": null}),
        ),
        (json!({"iss": "https://other.example", "code": null, "error": "MARKER"}), json!({})),
    ] {
        let world = World::new();
        (world.authority.state().returns, world.authority.state().metadata) = (returns, metadata);
        let outcome = world.login();
        assert_eq!(outcome.code, 1);
        assert!(outcome.said.contains("another authorization server"), "{}", outcome.said);
        assert!(!outcome.said.contains("MARKER"), "{}", outcome.said);
        assert!(world.authority.forms("/as/token").is_empty());
    }

    let world = World::new();
    (world.authority.state().returns, world.authority.state().metadata) =
        (json!({"iss": null}), json!({"authorization_response_iss_parameter_supported": null}));
    world.logged_in();
}

#[test]
fn a_server_without_pkce_is_refused() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let world = World::new();
        world.authority.state().metadata = json!({"code_challenge_methods_supported": methods});
        refused(&world, "PKCE");
        let world = World::with(json!({"require_pkce": false}));
        world.authority.state().metadata = json!({"code_challenge_methods_supported": methods});
        assert_eq!(
            world.login().code == 0,
            methods == Value::Null,
            "only one that does not say may be trusted"
        );
    }
}

#[test]
fn the_browsers_return_is_good_once_and_only_with_our_state() {
    let world = World::new();
    let waiting = world.begin();
    let back = waiting.back();
    let _silent = std::net::TcpStream::connect(back.split('/').nth(2).unwrap()).unwrap();
    let (host, path) = back.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let state = waiting.parameter("state").unwrap();

    for wrong in
        [back.replace(&state, "guessed"), back.replace("state=", "stat="), format!("http://{host}/callback")]
    {
        let (head, page) = get(&wrong);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(!page.contains("guessed"));
    }
    assert!(get(&format!("http://{host}/?state={state}<script>")).0.starts_with("HTTP/1.1 404 "));
    // A page whose name was made to lead to us.
    assert_eq!(get_as(host, "evil.example", path).0, "");
    assert!(world.authority.forms("/as/token").is_empty());

    let (head, page) = get(&back);
    assert!(head.starts_with("HTTP/1.1 200 ") && !page.contains(&state));
    assert_eq!(waiting.ends().code, 0);
    assert!(std::net::TcpStream::connect(host).is_err(), "it listens on");
    assert_eq!(world.authority.forms("/as/token").len(), 1);
}

#[test]
fn what_a_failing_server_repeats_is_not_shown() {
    let world = World::new();
    world.authority.state().returns = json!({"code": "s3cret-code-x"});
    let outcome = world.login();
    assert_eq!(outcome.code, 1);
    assert!(outcome.said.contains("code=…&"), "{}", outcome.said);
}

#[test]
fn a_token_of_one_server_is_sent_to_no_other() {
    let world = World::new();
    world.logged_in();
    let mut other = World::new();
    let url = other.authority.url();
    // The same name in the config, another address: its login is another.
    other.home = world.home;
    other.set(json!({"url": url}));
    let mut proxy = other.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    for request in other.authority.server.requests() {
        assert_eq!(request.header("authorization"), "");
    }
}

#[test]
fn tokens_of_an_unknown_kind_are_refused() {
    let world = World::new();
    world.authority.state().grant = json!({"token_type": "DPoP"});
    refused(&world, "bearer");
}

#[test]
fn an_authorization_server_that_was_replaced_gets_nothing_of_the_old_one() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 1});
    world.logged_in();
    let new = World::new();
    let server = format!("{}/as", new.authority.server.origin);
    world.authority.state().resource = json!({"authorization_servers": [server]});
    std::thread::sleep(Duration::from_millis(1100));
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    assert!(new.authority.forms("/as/token").is_empty());
    assert!(world.authority.grants("refresh_token").is_empty());
}
