//! Logins to remote servers: the commands `login` and `logout`, and groups that need a login. The tests play the browser.
//! The submodules cover logins that the client offers, more scopes, refreshes, races, keyrings, and malicious
//! servers.

use std::fs::File;
use std::net::TcpListener;
#[cfg(unix)]
use std::path::Path;
use std::time::{Duration, SystemTime};

#[cfg(unix)]
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::remote::{Reply, Server};
use crate::support::{Proxy, output_of, text_of, wait_until};
use fixture::{Fixture, get};

mod attacks;
pub(crate) mod auth_server;
pub(crate) mod fixture;
// The other systems have a keyring of their own.
#[cfg(not(any(target_os = "macos", windows)))]
pub(crate) mod keyring;
mod lenient;
mod long_session;
mod offered_logins;
mod races;
mod refresh;
mod scope_step_up;
mod stateless_offers;

#[test]
fn a_group_says_how_to_log_in_and_works_afterwards() {
    let fixture = Fixture::new();
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    let attempts = fixture.auth_server.http.requests_of("initialize").len();
    let group = proxy.group_status("g");
    assert!(group.to_string().contains("dynamic-mcp login g"), "{group}");

    let login = fixture.start_login();
    let (head, page) = get(&login.callback_url());
    assert!(head.starts_with("HTTP/1.1 200 ") && page.contains("You are logged in"), "{head}{page}");
    assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    let output = login.wait();
    assert_eq!(output.exit_code, 0, "{}", output.text);
    assert!(output.text.contains("g: logged in (read)"), "{}", output.text);

    // There was no retry meanwhile, and the running proxy finds the login.
    assert_eq!(fixture.auth_server.http.requests_of("initialize").len(), attempts);
    wait_until("the login is used", || {
        proxy.call_tool("g", "echo", json!({"text": "in"}))["isError"] != true
    });
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    let shown = proxy.log() + &proxy.status().to_string();
    assert!(!shown.contains("s3cret-"), "{shown}");
}

#[test]
fn a_login_reads_what_the_authorization_server_compresses() {
    let fixture = Fixture::new();
    fixture.auth_server.state().gzips = true;
    fixture.log_in();
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "in"})), "in");
}

#[test]
fn eager_and_hybrid_groups_connect_after_a_login_in_another_process() {
    for mode in ["eager", "hybrid"] {
        let mut fixture = Fixture::new();
        fixture.set_server(json!({"lazy_startup": mode}));
        let mut proxy = fixture.proxy();
        wait_until("it says that it needs a login", || {
            proxy.group_status("g")["error"]
                .as_str()
                .is_some_and(|error| error.contains("dynamic-mcp login g"))
        });
        let attempts = fixture.auth_server.http.requests_of("initialize").len();
        fixture.log_in();
        // No request names the group.
        wait_until("it has connected", || proxy.group_status("g")["tools"] == 2);
        assert_eq!(proxy.group_status("g")["error"], json!(null));
        assert!(fixture.auth_server.http.requests_of("initialize").len() > attempts);
        proxy.wait_for_log("a login was stored by another process, connecting");
    }
}

#[test]
fn a_group_that_needs_a_login_sends_its_server_no_requests() {
    let mut fixture = Fixture::new();
    fixture.set_server(json!({"lazy_startup": "eager"}));
    // The stored login has ended before the group first uses it. The proxy checks its file every two seconds.
    fixture.auth_server.state().token_response = json!({"refresh_token": null});
    fixture.log_in();
    fixture.auth_server.state().revoke_all();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&fixture.login_files()[0]).unwrap().set_modified(an_hour_ago).unwrap();
    let mut proxy = fixture.proxy();
    let attempts = |proxy: &mut Proxy| proxy.status()["groups"][0]["attempts"].clone();
    wait_until("it has failed", || attempts(&mut proxy) == 1);
    let requests = fixture.auth_server.http.requests().len();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        assert_eq!(attempts(&mut proxy), 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(fixture.auth_server.http.requests().len(), requests);
}

#[test]
fn the_status_says_how_to_log_in_and_get_the_url() {
    let fixture = Fixture::new();
    let mut proxy = fixture.proxy();
    proxy.call_failure("g", "echo", json!({}));
    let answer = proxy.call_meta_tool("get_status", json!({}));
    let structured = &answer["structuredContent"]["groups"][0]["error"];
    for text in [text_of(&answer), structured.as_str().unwrap()] {
        assert!(text.contains("login needed: run `dynamic-mcp login g "), "{text}");
        assert!(text.contains("with `--no-browser` it prints the URL"), "{text}");
    }
    // The command does what the text says.
    let login = fixture.start_login();
    assert!(login.url.starts_with(&fixture.auth_server.http.origin), "{}", login.url);
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
}

#[test]
fn a_stateless_server_can_require_a_login() {
    let fixture = Fixture::new();
    fixture.auth_server.state().is_stateless = true;
    let failure = fixture.proxy().call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
}

#[test]
fn requests_have_the_parameters_that_the_specification_requires() {
    let fixture = Fixture::new();
    let login = fixture.start_login();
    let parameter = |name| login.url_parameter(name).unwrap_or_default();
    assert_eq!(
        (parameter("response_type"), parameter("code_challenge_method")),
        ("code".into(), "S256".into())
    );
    assert_eq!((parameter("resource"), parameter("scope")), (fixture.auth_server.url(), "read".into()));
    assert!(
        parameter("redirect_uri").starts_with("http://127.0.0.1:")
            && parameter("redirect_uri").ends_with("/callback")
    );
    assert!(parameter("state").len() >= 22, "128 bits: {}", parameter("state"));
    assert_eq!(parameter("code_challenge").len(), 43);
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
    let registration =
        fixture.auth_server.http.requests().into_iter().find(|r| r.path == "/as/register").unwrap();
    assert_eq!(registration.body["application_type"], "native");
    assert_eq!(registration.body["token_endpoint_auth_method"], "none");
    let token = fixture.auth_server.grants("authorization_code").remove(0);
    assert_eq!(token["resource"], fixture.auth_server.url());
}

#[test]
fn a_login_is_stored_for_its_owner_only_with_what_a_refresh_needs() {
    let fixture = Fixture::new();
    fixture.auth_server.state().issues_client_secret = true;
    fixture.log_in();
    let stored = fixture.stored_login();
    assert_eq!(stored["url"], json!(fixture.auth_server.url()));
    assert_eq!(stored["issuer"], json!(format!("{}/as", fixture.auth_server.http.origin)));
    assert!(stored["client_secret"].as_str().unwrap().starts_with("s3cret-secret"));
    assert!(!stored.to_string().contains("s3cret-id"), "the id token is not needed");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = &fixture.login_files()[0];
        assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    }
}

#[test]
fn a_configured_client_is_used_with_its_port_and_scopes() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let fixture = Fixture::with_oauth(json!({
        "client_id": "me", "client_secret": "s3cret-word", "scopes": ["a", "b"], "redirect_port": port,
    }));
    fixture.auth_server.state().metadata =
        json!({"registration_endpoint": null, "scopes_supported": ["a", "offline_access"]});
    let login = fixture.start_login();
    assert_eq!(login.url_parameter("client_id").as_deref(), Some("me"));
    assert_eq!(login.url_parameter("scope").as_deref(), Some("a b offline_access"));
    assert_eq!(login.url_parameter("redirect_uri").unwrap(), format!("http://127.0.0.1:{port}/callback"));

    let second = fixture.run(&["login", "g", "--no-browser"]);
    assert_eq!(second.exit_code, 1);
    assert!(second.text.contains(&format!("{port} (`oauth.redirect_port`)")), "{}", second.text);
    assert!(second.text.contains("if another login is waiting on it"), "{}", second.text);
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
    let token = fixture.auth_server.http.requests().into_iter().find(|r| r.path == "/as/token").unwrap();
    assert!(token.header("authorization").starts_with("Basic "));
}

#[test]
fn a_client_metadata_document_is_preferred_to_registration() {
    let document = "https://client.example/dynamic-mcp.json";
    let fixture = Fixture::with_oauth(json!({"client_metadata_url": document}));
    fixture.auth_server.state().metadata = json!({"client_id_metadata_document_supported": true});
    let login = fixture.start_login();
    assert_eq!(login.url_parameter("client_id").as_deref(), Some(document));
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
    assert!(fixture.auth_server.forms("/as/register").is_empty());
}

#[test]
fn without_registration_the_error_says_what_to_configure() {
    let fixture = Fixture::new();
    fixture.auth_server.state().metadata = json!({"registration_endpoint": null});
    let output = fixture.login();
    assert_eq!(output.exit_code, 1);
    let advice = "does not register clients by itself: register one there with the redirect URL \
                  http://127.0.0.1:8765/callback, and write \"oauth\": {\"client_id\": \"ITS_ID\", \"redirect_port\": 8765} in its \
                  config entry";
    assert!(output.text.contains(advice), "{}", output.text);
    // Nobody is told to log in, whoever asks.
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains(advice) && failure.contains("tell the user"), "{failure}");
    assert!(!failure.contains("dynamic-mcp login"), "{failure}");
}

#[test]
fn a_registration_that_fails_is_told_in_the_words_of_the_authorization_server() {
    let page = "<html><head><title>Sign in\u{202e}</title></head><body>x</body></html>";
    for (status, media_type, body, words) in [
        (404, "text/plain", "", "HTTP status 404 Not Found"),
        (403, "text/plain", "Only partners\nmay register.", "HTTP status 403 Forbidden: \"Only partners\""),
        (403, "text/html", page, "HTTP status 403 Forbidden: \"Sign in\\u{202e}\""),
        (
            400,
            "application/json",
            r#"{"detail": "too many clients"}"#,
            "HTTP status 400 Bad Request: \"too many clients\"",
        ),
        (
            400,
            "application/json",
            r#"{"error": "invalid_redirect_uri", "error_description": "Use https."}"#,
            "\"invalid_redirect_uri (Use https.)\"",
        ),
    ] {
        let fixture = Fixture::new();
        fixture.auth_server.state().registration_refusal = Some((status, media_type, body));
        let output = fixture.login();
        assert_eq!(output.exit_code, 1);
        let words = format!("did not register a client (it answered {words}): register one there");
        assert!(output.text.contains(&words), "{words}: {}", output.text);
        // The fact is kept, also for processes that start later.
        let mut proxy = fixture.proxy();
        let failure = proxy.call_failure("g", "echo", json!({}));
        assert!(failure.contains(&words) && !failure.contains("dynamic-mcp login"), "{failure}");
        let error = proxy.group_status("g")["error"].take().to_string();
        assert!(error.contains("did not register a client"), "{error}");
    }
}

#[test]
fn a_code_that_is_not_accepted_is_told_in_the_words_of_the_authorization_server() {
    let refused = |words: &str| {
        (1, format!("g: its authorization server did not accept the authorization code: {words}"))
    };
    for (status, media_type, body, (exit_code, words)) in [
        (
            400,
            "application/json",
            r#"{"error": "invalid_grant", "error_description": "The code CODE expired.\u001b[31m"}"#,
            refused("\"invalid_grant (The code … expired.\\u{1b}[31m)\""),
        ),
        (401, "application/json", r#"{"error": "invalid_client"}"#, refused("\"invalid_client\"")),
        (403, "text/plain", "Not here\nCODE", refused("HTTP status 403 Forbidden: \"Not here\"")),
        (500, "text/plain", "", (4, "answered with HTTP status 500 Internal Server Error".to_owned())),
    ] {
        let fixture = Fixture::new();
        fixture.auth_server.state().code_refusal = Some((status, media_type, body));
        let login = fixture.start_login();
        assert!(login.complete_in_browser().contains("did not work"));
        let output = login.wait();
        assert!(output.exit_code == exit_code && output.text.contains(&words), "{words}: {}", output.text);
        assert!(fixture.login_files().is_empty());
    }
}

#[test]
fn a_login_ends_by_its_timeout_or_a_signal() {
    let fixture = Fixture::new();
    let output = fixture.run(&["login", "g", "--no-browser", "--timeout", "0"]);
    assert_eq!(output.exit_code, 3);
    assert!(output.text.contains("nobody logged in within 0 s"), "{}", output.text);

    #[cfg(unix)]
    {
        let login = fixture.start_login();
        login.send_signal(Signal::SIGINT);
        let output = login.wait();
        assert_eq!(output.exit_code, 3);
        assert!(output.text.contains("cancelled"), "{}", output.text);
    }
    assert!(fixture.login_files().is_empty());
}

#[cfg(unix)]
#[test]
fn a_signal_does_not_interrupt_a_login_whose_code_is_being_redeemed() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let fixture = Fixture::new();
        fixture.auth_server.state().token_delay = Duration::from_millis(800);
        let login = fixture.start_login();
        let callback = login.callback_url();
        let browser = std::thread::spawn(move || get(&callback).1);
        wait_until("the code is being redeemed", || fixture.auth_server.token_requests() > 0);
        login.send_signal(signal);
        let output = login.wait();
        assert_eq!(output.exit_code, 0, "{signal}: {}", output.text);
        assert!(output.text.contains("g: logged in"), "{}", output.text);
        assert!(output.text.contains("g: finishing the login"), "{}", output.text);
        assert!(fixture.stored_login()["refresh_token"].is_string());
        assert!(browser.join().unwrap().contains("You are logged in"));
    }
}

#[test]
fn exit_codes_tell_the_kinds_of_errors_apart() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run(&["login", "h"]).exit_code, 2);
    assert!(fixture.run(&["login", "h"]).text.contains("the config has g"));
    fixture.set_server(json!({"headers": {"Authorization": "x"}}));
    assert_eq!(fixture.run(&["login", "g"]).exit_code, 2);
    fixture.set_server(json!({"headers": {}, "url": "http://127.0.0.1:1/mcp"}));
    assert_eq!(fixture.run(&["login", "g"]).exit_code, 4);
    fixture.set_server(json!({"url": "nothing"}));
    assert_eq!(fixture.run(&["login", "g"]).exit_code, 78);
}

#[test]
fn a_login_that_the_user_refuses_is_reported() {
    let fixture = Fixture::new();
    fixture.auth_server.state().callback_parameters =
        json!({"code": null, "error": "access_denied", "error_description": "<b>no</b>\u{1b}[31m"});
    let login = fixture.start_login();
    let page = login.complete_in_browser();
    assert!(page.contains("did not work") && !page.contains("access_denied"), "{page}");
    let output = login.wait();
    assert_eq!(output.exit_code, 1);
    assert!(output.text.contains("access_denied") && !output.text.contains('\u{1b}'), "{}", output.text);
    assert!(fixture.login_files().is_empty());
}

#[test]
fn a_logout_revokes_the_tokens_and_removes_the_login() {
    let fixture = Fixture::new();
    fixture.auth_server.state().issues_client_secret = true;
    fixture.log_in();
    assert_eq!(fixture.auth_server.state().live_tokens(), 2);
    let output = fixture.run(&["logout", "g"]);
    assert_eq!(output.exit_code, 0);
    assert!(output.text.contains("revoked"), "{}", output.text);
    assert_eq!(fixture.auth_server.state().live_tokens(), 0);
    assert!(fixture.login_files().is_empty());
    assert!(fixture.run(&["logout", "g"]).text.contains("there was no login"));

    fixture.log_in();
    fixture.auth_server.state().metadata = json!({"revocation_endpoint": null});
    let output = fixture.run(&["logout", "g"]);
    assert!(output.text.contains("could not be revoked"), "{}", output.text);
    assert!(fixture.login_files().is_empty());
}

#[test]
fn the_browser_gets_the_url_as_its_only_argument() {
    let fixture = Fixture::new();
    let (browser, arguments) = fixture.fake_browser();
    let mut command = fixture.command(&["login", "g", "--timeout", "2"]);
    let output = output_of(command.env("BROWSER", &browser).env("PATH", "/usr/bin:/bin"));
    assert_eq!(output.status.code(), Some(3));
    wait_until("the browser was started", || arguments.exists());
    let arguments = std::fs::read_to_string(arguments).unwrap();
    let (count, url) = arguments.trim().split_once('\n').unwrap();
    assert_eq!(count, "1");
    assert!(url.starts_with(&format!("{}/as/authorize?", fixture.auth_server.http.origin)), "{url}");
}

#[test]
fn a_server_without_authorization_needs_no_login() {
    let server = Server::start(|request| match (request.path.as_str(), request.method.as_str()) {
        ("/mcp", "GET") => Some(Reply::events(|out| {
            out.keep_open();
            true
        })),
        ("/mcp", _) => None,
        _ => Some(Reply::status(404)),
    });
    let mut fixture = Fixture::new();
    fixture.set_server(json!({"url": server.url()}));
    let output = fixture.run(&["login", "g"]);
    assert_eq!(output.exit_code, 0);
    assert!(output.text.contains("without a login"), "{}", output.text);
}

#[test]
fn a_server_of_2025_03_26_without_metadata_has_its_endpoints_at_the_root() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.auth_server.state();
        (state.has_no_metadata, state.challenge, state.callback_parameters) =
            (true, Some("Bearer".to_owned()), json!({"iss": null}));
    }
    let login = fixture.start_login();
    assert!(
        login.url.starts_with(&format!("{}/authorize?", fixture.auth_server.http.origin)),
        "{}",
        login.url
    );
    assert!(login.url_parameter("code_challenge").is_some(), "PKCE is used in any case");
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "in"})), "in");
}
