//! Malicious servers.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{Fixture, get, get_with_host};
use crate::remote::{Reply, Server};
use crate::support::{merged, output_of};

/// Asserts that a login fails with this text, and that nothing is stored.
fn assert_login_fails(fixture: &Fixture, text: &str) {
    let output = fixture.login();
    assert_eq!(output.exit_code, 1, "{}", output.text);
    assert!(output.text.contains(text), "{text:?} in {}", output.text);
    assert!(fixture.login_files().is_empty());
}

#[test]
fn only_safe_web_addresses_are_opened_in_the_browser() {
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
        let fixture = Fixture::new();
        fixture.auth_server.state().metadata = json!({"authorization_endpoint": endpoint});
        let (browser, arguments) = fixture.fake_browser();
        let output = output_of(fixture.command(&["login", "g"]).env("BROWSER", browser));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{endpoint}: {text}");
        assert!(text.contains("the login leads to"), "{endpoint}: {text}");
        assert!(!arguments.exists() && !arguments.with_extension("part").exists(), "{endpoint}");
        assert!(fixture.auth_server.forms("/as/register").is_empty(), "{endpoint}");
    }
}

#[test]
fn only_safe_endpoints_are_used() {
    let canary = Server::start(|_| Some(Reply::status(200)));
    let port = canary.origin.rsplit(':').next().unwrap();
    for (member, value) in [
        ("token_endpoint", format!("http://[::ffff:10.0.0.1]:{port}/")),
        ("token_endpoint", "http://login.example/token".to_owned()),
        ("registration_endpoint", "http://192.168.0.1/".to_owned()),
        ("registration_endpoint", "file:///x".to_owned()),
    ] {
        let fixture = Fixture::new();
        fixture.auth_server.state().metadata = json!({member: value});
        assert_login_fails(&fixture, "the login leads to");
    }
    let fixture = Fixture::new();
    fixture.auth_server.state().token_redirect = Some(format!("{}/", canary.origin));
    assert_login_fails(&fixture, "");
    assert!(canary.requests().is_empty(), "a redirect of the token endpoint was followed");
}

#[test]
fn metadata_is_not_followed_to_another_origin() {
    let canary = Server::start(|_| Some(Reply::json("{}")));
    let fixture = Fixture::new();
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server/as"] {
        fixture.auth_server.state().redirected_path = Some((path, canary.url()));
        assert_ne!(fixture.login().exit_code, 0, "{path}");
    }
    assert!(canary.requests().is_empty());
    assert!(fixture.auth_server.forms("/as/token").is_empty());
}

#[test]
fn a_response_that_is_too_large_or_too_slow_ends_the_login() {
    let fixture = Fixture::new();
    fixture.auth_server.state().metadata = json!({"filler": "x".repeat(1 << 20)});
    assert_login_fails(&fixture, "answered with more than 1 MiB");
    let fixture = Fixture::new();
    fixture.auth_server.state().token_delay = Duration::from_secs(12);
    let started = Instant::now();
    let output = fixture.login();
    assert_eq!(output.exit_code, 4, "{}", output.text);
    assert!(output.text.contains("no answer within 10 s"), "{}", output.text);
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
}

#[test]
fn metadata_at_a_private_address_is_not_requested() {
    let fixture = Fixture::new();
    fixture.auth_server.state().challenge =
        Some(r#"Bearer resource_metadata="https://169.254.169.254/latest/meta-data""#.to_owned());
    // The address is ignored, and the metadata is read from the well-known URL.
    fixture.log_in();
    let fixture = Fixture::new();
    fixture.auth_server.state().resource_metadata = json!({"authorization_servers": ["https://10.0.0.1/"]});
    let output = fixture.login();
    assert_eq!(output.exit_code, 1);
    assert!(output.text.contains("10.0.0.1"), "{}", output.text);
    assert!(fixture.auth_server.forms("/as/authorize").is_empty());
}

#[test]
fn metadata_of_another_resource_is_rejected() {
    let fixture = Fixture::new();
    fixture.auth_server.state().resource_metadata = json!({"resource": "https://other.example/mcp"});
    let output = fixture.login();
    assert_eq!(output.exit_code, 1, "{}", output.text);
    assert!(fixture.auth_server.forms("/as/token").is_empty());
}

#[test]
fn another_issuer_is_rejected_in_metadata_and_in_the_browsers_return() {
    let fixture = Fixture::new();
    fixture.auth_server.state().metadata = json!({"issuer": "https://other.example"});
    assert_login_fails(&fixture, "other.example");

    for (parameters, metadata) in [
        (json!({"iss": "https://other.example", "error_description": "MARKER"}), json!({})),
        (json!({"iss": null}), json!({})),
        (
            json!({"iss": "https://other.example"}),
            json!({"authorization_response_iss_parameter_supported": null}),
        ),
        (json!({"iss": "https://other.example", "code": null, "error": "MARKER"}), json!({})),
    ] {
        let fixture = Fixture::new();
        (fixture.auth_server.state().callback_parameters, fixture.auth_server.state().metadata) =
            (parameters, metadata);
        let output = fixture.login();
        assert_eq!(output.exit_code, 1);
        assert!(output.text.contains("another authorization server"), "{}", output.text);
        assert!(!output.text.contains("MARKER"), "{}", output.text);
        assert!(fixture.auth_server.forms("/as/token").is_empty());
    }

    let fixture = Fixture::new();
    (fixture.auth_server.state().callback_parameters, fixture.auth_server.state().metadata) =
        (json!({"iss": null}), json!({"authorization_response_iss_parameter_supported": null}));
    fixture.log_in();
}

#[test]
fn a_server_without_pkce_is_rejected() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let fixture = Fixture::new();
        fixture.auth_server.state().metadata = json!({"code_challenge_methods_supported": methods});
        assert_login_fails(&fixture, "PKCE");
        let fixture = Fixture::with_oauth(json!({"require_pkce": false}));
        fixture.auth_server.state().metadata = json!({"code_challenge_methods_supported": methods});
        assert_eq!(
            fixture.login().exit_code == 0,
            methods == Value::Null,
            "the setting is for servers that do not announce their methods"
        );
    }
}

#[test]
fn the_browsers_return_is_accepted_once_and_only_with_the_right_state() {
    let fixture = Fixture::new();
    let login = fixture.start_login();
    let callback = login.callback_url();
    let _silent_connection = TcpStream::connect(callback.split('/').nth(2).unwrap()).unwrap();
    let (host, path) = callback.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let state = login.url_parameter("state").unwrap();

    for wrong in [
        callback.replace(&state, "guessed"),
        callback.replace("state=", "stat="),
        format!("http://{host}/callback"),
    ] {
        let (head, page) = get(&wrong);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(!page.contains("guessed"));
    }
    assert!(get(&format!("http://{host}/?state={state}<script>")).0.starts_with("HTTP/1.1 404 "));
    // A page whose name resolves to this machine (DNS rebinding).
    assert_eq!(get_with_host(host, "evil.example", path).0, "");
    assert!(fixture.auth_server.forms("/as/token").is_empty());

    let (head, page) = get(&callback);
    assert!(head.starts_with("HTTP/1.1 200 ") && !page.contains(&state));
    assert_eq!(login.wait().exit_code, 0);
    assert!(TcpStream::connect(host).is_err(), "it still listens");
    assert_eq!(fixture.auth_server.forms("/as/token").len(), 1);
}

#[test]
fn secrets_that_an_error_response_repeats_are_not_shown() {
    let fixture = Fixture::new();
    fixture.auth_server.state().callback_parameters = json!({"code": "s3cret-code-x"});
    let output = fixture.login();
    assert_eq!(output.exit_code, 1);
    assert!(output.text.contains("code=…&"), "{}", output.text);
}

#[test]
fn a_token_is_sent_only_to_its_server() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut other = Fixture::new();
    let url = other.auth_server.url();
    // The same name in the config with another address is another login.
    other.home = fixture.home;
    other.set_server(json!({"url": url}));
    let mut proxy = other.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    for request in other.auth_server.http.requests() {
        assert_eq!(request.header("authorization"), "");
    }
}

#[test]
fn a_login_on_this_machine_takes_no_proxy() {
    let canary = Server::start(|_| Some(Reply::status(502)));
    let mut fixture = Fixture::new();
    fixture.env = vec![("HTTP_PROXY", canary.origin.clone()), ("ALL_PROXY", canary.origin.clone())];
    fixture.log_in_with_expired_token();
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "a"})), "a");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
    assert_eq!(fixture.run(&["logout", "g"]).exit_code, 0);
    assert!(canary.requests().is_empty(), "{:?}", canary.requests());
}

#[test]
fn tokens_other_than_bearer_tokens_are_rejected() {
    let fixture = Fixture::new();
    fixture.auth_server.state().token_response = json!({"token_type": "DPoP"});
    assert_login_fails(&fixture, "bearer");
}

#[test]
fn a_new_authorization_server_gets_no_tokens_of_the_old_one() {
    let fixture = Fixture::new();
    fixture.auth_server.state().token_response = json!({"expires_in": 1});
    fixture.log_in();
    let new = Fixture::new();
    let server = format!("{}/as", new.auth_server.http.origin);
    fixture.auth_server.state().resource_metadata = json!({"authorization_servers": [server]});
    std::thread::sleep(Duration::from_millis(1100));
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    assert!(new.auth_server.forms("/as/token").is_empty());
    assert!(fixture.auth_server.grants("refresh_token").is_empty());
    // The client was registered at the old one, so a login registers another.
    fixture.log_in();
    assert_eq!(new.auth_server.forms("/as/token").len(), 1);
}

/// Makes the server name the authorization server of another fixture. Returns both issuers.
fn name_another_server(fixture: &Fixture, new: &Fixture) -> [String; 2] {
    let issuers = [fixture, new].map(|of| format!("{}/as", of.auth_server.http.origin));
    fixture.auth_server.state().resource_metadata = json!({"authorization_servers": [issuers[1]]});
    issuers
}

/// Asserts that an authorization server got nothing but requests for its metadata.
fn assert_got_nothing(server: &Fixture) {
    for path in ["/as/token", "/as/register", "/as/revoke", "/as/authorize"] {
        assert!(server.auth_server.forms(path).is_empty(), "{path}");
    }
    let requests = server.auth_server.http.requests();
    assert!(requests.iter().all(|request| request.header("authorization").is_empty()));
}

#[test]
fn credentials_of_the_config_go_to_the_first_authorization_server_only() {
    let oauth = json!({"flow": "client_credentials", "client_id": "me", "client_secret": "s3cret-word"});
    let mut fixture = Fixture::with_oauth(oauth.clone());
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "a"})), "a");
    let new = Fixture::with_oauth(oauth.clone());
    let issuers = name_another_server(&fixture, &new);
    fixture.auth_server.state().revoke_access();
    fixture.age_login();
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(issuers.iter().all(|issuer| failure.contains(issuer.as_str())), "{failure}");
    assert!(failure.contains("`oauth.issuer`") && failure.contains("dynamic-mcp logout g"), "{failure}");
    assert_got_nothing(&new);
    drop(proxy);
    // The config decides.
    fixture.set_server(json!({"oauth": merged(oauth.clone(), json!({"issuer": issuers[0]}))}));
    let failure = fixture.proxy().call_failure("g", "echo", json!({}));
    assert!(issuers.iter().all(|issuer| failure.contains(issuer.as_str())), "{failure}");
    assert_got_nothing(&new);
    fixture.set_server(json!({"oauth": merged(oauth, json!({"issuer": issuers[1]}))}));
    fixture.proxy().call_failure("g", "echo", json!({}));
    assert_eq!(new.auth_server.grants("client_credentials").len(), 1);
}

#[test]
fn a_login_forgets_the_authorization_server_only_after_a_logout() {
    let fixture = Fixture::with_oauth(json!({"client_id": "me", "client_secret": "s3cret-word"}));
    fixture.log_in();
    let new = Fixture::new();
    let issuers = name_another_server(&fixture, &new);
    let output = fixture.login();
    assert_eq!(output.exit_code, 1, "{}", output.text);
    assert!(issuers.iter().all(|issuer| output.text.contains(issuer.as_str())), "{}", output.text);
    assert_got_nothing(&new);
    let output = fixture.run(&["logout", "g"]);
    assert!(output.text.contains("could not be revoked"), "{}", output.text);
    assert_got_nothing(&new);
    fixture.log_in();
    assert_eq!(new.auth_server.forms("/as/token").len(), 1);
}

#[test]
fn a_login_goes_to_the_issuer_of_the_config_only() {
    let fixture = Fixture::with_oauth(json!({"issuer": "https://login.example.com"}));
    assert_login_fails(&fixture, "https://login.example.com");
    assert_got_nothing(&fixture);
}
