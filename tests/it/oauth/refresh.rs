//! Tokens that expire or are refused, and the tokens that replace them.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, VerificationAlgorithm,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

#[cfg(unix)]
use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::fixture::{Fixture, complete_in_browser};
use crate::support::wait_until;

#[test]
fn a_token_is_refreshed_before_it_expires() {
    let fixture = Fixture::new();
    fixture.auth_server.state().token_response = json!({"expires_in": 2});
    fixture.log_in();
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    wait_until("a refresh", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
        !fixture.auth_server.grants("refresh_token").is_empty()
    });
    let refresh = fixture.auth_server.grants("refresh_token").remove(0);
    assert_eq!(refresh["resource"], fixture.auth_server.url());
    assert!(!fixture.auth_server.state().refresh_token_reused);
    assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
}

#[test]
fn a_refused_token_is_refreshed_once() {
    let fixture = Fixture::new();
    fixture.log_in();
    fixture.age_login();
    fixture.auth_server.state().revoke_access();
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);

    // The new token is refused at once, so another refresh would not help.
    fixture.auth_server.state().revoke_access();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
}

#[test]
fn a_refused_token_is_refreshed_after_the_clock_was_set_back() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut login = fixture.stored_login();
    login["received_at"] = json!(login["received_at"].as_u64().unwrap() + 3600);
    std::fs::write(&fixture.login_files()[0], login.to_string()).unwrap();
    fixture.auth_server.state().revoke_access();
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "a"})), "a");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
}

#[test]
fn a_rejected_refresh_token_is_not_used_again() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    fixture.auth_server.state().revoke_all();
    let mut proxy = fixture.proxy();
    for _ in 0..3 {
        let failure = proxy.call_failure("g", "echo", json!({}));
        assert!(failure.contains("dynamic-mcp login g"), "{failure}");
        // What the server says repeats the request.
        let words = "(the login has ended: its authorization server answered \"invalid_grant (grant_type=refresh_token";
        assert!(failure.contains(words) && !failure.contains("s3cret-refresh"), "{failure}");
    }
    // Another process reads it.
    let failure = fixture.proxy().call_failure("g", "echo", json!({}));
    assert!(failure.contains("invalid_grant"), "{failure}");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
    assert!(fixture.stored_login()["refresh_token"].is_null());
    fixture.log_in();
    wait_until("the new login is used", || {
        proxy.call_tool("g", "echo", json!({"text": "in"}))["isError"] != true
    });
}

#[test]
fn a_failing_authorization_server_does_not_end_the_login() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    fixture.auth_server.state().token_status = Some(503);
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("503") && !failure.contains("dynamic-mcp login"), "{failure}");
    assert!(fixture.stored_login()["refresh_token"].is_string());
    fixture.auth_server.state().token_status = None;
    wait_until("it works again", || proxy.call_tool("g", "echo", json!({}))["isError"] != true);
}

#[test]
fn one_of_many_processes_refreshes_and_the_others_use_the_result() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let mut proxies: Vec<_> = (0..7).map(|_| fixture.proxy()).collect();
    let calls: Vec<_> =
        proxies.iter_mut().map(|proxy| proxy.send_call("g", "echo", json!({"text": "x"}))).collect();
    for (proxy, id) in proxies.iter_mut().zip(calls) {
        let answer = proxy.response(id);
        assert!(answer.raw("result").unwrap().contains("\"x\""), "{:?}", answer.raw("result"));
    }
    assert_eq!(
        fixture.auth_server.grants("refresh_token").len(),
        1,
        "one refreshed, the others found the result"
    );
    assert!(!fixture.auth_server.state().refresh_token_reused);
}

#[test]
fn a_cancelled_call_does_not_cancel_the_refresh() {
    let fixture = Fixture::new();
    fixture.auth_server.state().token_response = json!({"expires_in": 2});
    fixture.log_in();
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    let before = fixture.stored_login()["refresh_token"].clone();
    fixture.auth_server.state().token_delay = Duration::from_secs(1);
    fixture.auth_server.state().token_response = json!({});
    fixture.age_login();
    let requests = fixture.auth_server.grants("refresh_token").len();
    wait_until("a refresh is under way", || {
        let id = proxy.send_call("g", "echo", json!({}));
        std::thread::sleep(Duration::from_millis(100));
        proxy.notify("notifications/cancelled", json!({"requestId": id}));
        fixture.auth_server.token_requests() > requests + 1
    });
    wait_until("its response is stored", || fixture.stored_login()["refresh_token"] != before);
    fixture.auth_server.state().token_delay = Duration::ZERO;
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
    assert!(!fixture.auth_server.state().refresh_token_reused);
}

/// How long a refresh takes that delays exit. Exit takes much less without it.
const TOKEN_DELAY: Duration = Duration::from_millis(600);

#[test]
fn a_refresh_is_completed_when_the_client_disconnects() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let refresh_token = fixture.stored_login()["refresh_token"].clone();
    let requests = fixture.auth_server.token_requests();
    fixture.auth_server.state().token_delay = TOKEN_DELAY;
    let mut proxy = fixture.proxy();
    proxy.send_call("g", "echo", json!({}));
    wait_until("a refresh is under way", || fixture.auth_server.token_requests() > requests);
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
    assert_ne!(fixture.stored_login()["refresh_token"], refresh_token);
    fixture.auth_server.state().token_delay = Duration::ZERO;
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "a"})), "a");
    assert!(!fixture.auth_server.state().refresh_token_reused);
}

/// The client waits for the end of stdout, then for the exit, then sends SIGTERM.
#[test]
fn a_slow_refresh_delays_exit_until_its_tokens_are_stored_and_nothing_else() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let refresh_token = fixture.stored_login()["refresh_token"].clone();
    let requests = fixture.auth_server.token_requests();
    fixture.auth_server.state().token_delay = Duration::from_secs(4);
    let mut proxy = fixture.proxy();
    let call = proxy.send_call("g", "echo", json!({}));
    wait_until("a refresh is under way", || fixture.auth_server.token_requests() > requests);
    let start = Instant::now();
    proxy.close_stdin();
    assert!(proxy.response(call).json()["error"].is_object(), "the call is answered before");
    assert!(proxy.next_message().is_none(), "the end of stdout");
    let took = start.elapsed();
    assert!(took < Duration::from_millis(3500), "{took:?}");
    assert!(!proxy.has_exited());
    assert!(!proxy.log().contains("not everything ended in time"), "{}", proxy.log());
    proxy.wait_for_log("waiting for new tokens");
    #[cfg(unix)]
    proxy.send_signal(Signal::SIGTERM);
    assert!(proxy.wait_for_exit().0.success());
    assert_ne!(fixture.stored_login()["refresh_token"], refresh_token);
}

#[test]
fn a_login_is_completed_once_the_browser_has_returned() {
    for declined in [true, false] {
        let fixture = Fixture::new();
        fixture.auth_server.state().token_delay = TOKEN_DELAY;
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        proxy.send_call("g", "echo", json!({}));
        let question = proxy.wait_for_message("elicitation/create");
        let url = question.json()["params"]["url"].as_str().unwrap().to_owned();
        let browser = std::thread::spawn(move || complete_in_browser(&url));
        wait_until("the code is being redeemed", || fixture.auth_server.token_requests() > 0);
        if declined {
            proxy.respond(&question, r#""result":{"action":"decline"}"#);
            wait_until("the login is stored", || !fixture.login_files().is_empty());
        } else {
            proxy.close_stdin();
            assert!(proxy.wait_for_exit().0.success());
        }
        assert!(fixture.stored_login()["refresh_token"].is_string());
        assert!(browser.join().unwrap().contains("You are logged in"));
    }
}

#[test]
fn tokens_that_cannot_be_written_are_used_and_written_later() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let before = fixture.stored_login()["refresh_token"].clone();
    let mut proxy = fixture.proxy();
    // A directory in place of the temporary file keeps any user from writing it.
    let obstacle = fixture.login_files()[0].with_extension(format!("{}.tmp", proxy.pid()));
    std::fs::create_dir_all(obstacle.join("obstacle")).unwrap();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    proxy.wait_for_log("its new tokens cannot be stored");
    assert!(proxy.log().contains(".json: "), "the log has no path: {}", proxy.log());
    wait_until("it tries again", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
        proxy.log().contains("still cannot be stored")
    });
    assert_eq!(fixture.stored_login()["refresh_token"], before);
    std::fs::remove_dir_all(&obstacle).unwrap();
    wait_until("they are written", || {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "c"})), "c");
        fixture.stored_login()["refresh_token"] != before
    });
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
    assert_eq!(proxy.log().matches("its new tokens cannot be stored").count(), 1);
}

#[test]
fn requests_fail_while_the_login_cannot_be_used() {
    let fixture = Fixture::new();
    fixture.auth_server.state().allows_anonymous = true;
    fixture.auth_server.state().token_response = json!({"expires_in": 3000});
    fixture.log_in();
    let anonymous_requests = || {
        let seen = fixture.auth_server.http.requests();
        // `login` sends a ping to see whether a login is needed.
        let sent = seen.iter().filter(|request| !["", "ping"].contains(&request.rpc_method()));
        sent.filter(|request| request.header("authorization").is_empty()).count()
    };
    #[cfg(unix)]
    {
        let set_mode = |mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&fixture.login_files()[0], permissions).unwrap();
        };
        set_mode(0o644);
        let failure = fixture.proxy().call_failure("g", "echo", json!({}));
        assert!(failure.contains("chmod 600"), "{failure}");
        assert_eq!(anonymous_requests(), 0);
        set_mode(0o600);
    }

    fixture.age_login();
    fixture.auth_server.state().token_status = Some(503);
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("503"), "{failure}");
    assert_eq!(anonymous_requests(), 0);
    fixture.auth_server.state().token_status = None;
    wait_until("it works again", || proxy.call_tool("g", "echo", json!({}))["isError"] != true);
    assert_eq!(anonymous_requests(), 0);
}

#[test]
fn an_unwritable_login_directory_is_reported_before_the_url_is_shown() {
    let fixture = Fixture::new();
    std::fs::write(fixture.home.path().join("dynamic-mcp"), "a file in place of the directory").unwrap();
    let output = fixture.run(&["login", "g", "--no-browser", "--timeout", "1"]);
    assert_eq!(output.exit_code, 1, "{}", output.text);
    assert!(output.text.replace('\\', "/").contains("dynamic-mcp/logins: "), "{}", output.text);
    assert!(!output.text.contains("/as/authorize"), "{}", output.text);
    assert!(fixture.auth_server.forms("/as/register").is_empty());
    // A server that needs no login needs no directory.
    fixture.auth_server.state().allows_anonymous = true;
    assert_eq!(fixture.proxy().call_text("g", "echo", json!({"text": "a"})), "a");
}

// It changes the mode of the file.
#[cfg(unix)]
#[test]
fn no_login_is_offered_if_its_file_could_not_be_read() {
    let fixture = Fixture::new();
    fixture.log_in();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&fixture.login_files()[0], permissions).unwrap();
    // A client that is offered a login would get a question.
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("chmod 600") && !failure.contains("dynamic-mcp login"), "{failure}");
    assert_eq!(proxy.group_status("g")["loginUrl"], json!(null));
    assert_eq!(fixture.auth_server.forms("/as/register").len(), 1, "the first login registered");
}

#[test]
fn missing_scopes_are_requested_once() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    let failure = proxy.call_failure("g", "look", json!({}));
    assert!(failure.contains("dynamic-mcp login g") && failure.contains("write"), "{failure}");
    // Other calls do not need the scope.
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
    assert_eq!(fixture.auth_server.http.requests_of("initialize").len(), 1);

    // The next login requests both scopes, and gets one.
    fixture.auth_server.state().token_response = json!({"scope": "read"});
    let login = fixture.start_login();
    assert_eq!(login.url_parameter("scope").as_deref(), Some("read write"));
    login.complete_in_browser();
    assert_eq!(login.wait().exit_code, 0);
    wait_until("the login was not enough", || {
        let failure = proxy.call_failure("g", "look", json!({}));
        failure.contains("which the last login already asked for") && !failure.contains("dynamic-mcp login")
    });

    fixture.auth_server.state().token_response = json!({});
    fixture.log_in();
    let granted = fixture.stored_login()["granted"].take();
    assert_eq!(granted, json!(["read"]), "a scope that was not granted is not requested again");
}

/// A private key as PEM, and what verifies its signatures.
type TestKey = (String, (&'static str, &'static dyn VerificationAlgorithm, Vec<u8>));

fn ec_key() -> TestKey {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let public = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
    let pem = BASE64_STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    (pem, ("ES256", &ECDSA_P256_SHA256_FIXED, public.public_key().as_ref().to_vec()))
}

/// From a file, because ring does not generate RSA keys.
fn rsa_key() -> TestKey {
    let pem = include_str!("../../helpers/rsa.pem");
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let public = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap().public().as_ref().to_vec();
    (pem.to_owned(), ("RS256", &RSA_PKCS1_2048_8192_SHA256, public))
}

#[test]
fn client_credentials_need_no_user() {
    let (secret, keys) = (json!({"client_secret": "s3cret-word"}), [ec_key(), rsa_key()]);
    let keys = keys.map(|(pem, signer)| (json!({"private_key": pem}), Some(signer)));
    for (proof, signer) in [(secret, None)].into_iter().chain(keys) {
        let oauth = crate::support::merged(json!({"flow": "client_credentials", "client_id": "me"}), proof);
        let fixture = Fixture::with_oauth(oauth);
        fixture.auth_server.state().assertion_key = signer;
        fixture.auth_server.state().metadata =
            json!({"code_challenge_methods_supported": null, "registration_endpoint": null});
        let mut proxy = fixture.proxy();
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
        assert_eq!(fixture.auth_server.grants("client_credentials").len(), 1);
        assert_eq!(
            proxy.call_text("g", "look", json!({"text": "b"})),
            "b",
            "the missing scope is requested without a user"
        );
        let grants = fixture.auth_server.grants("client_credentials");
        assert_eq!(grants.len(), 2);
        assert_eq!(grants[1]["resource"], fixture.auth_server.url());
        assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
        let output = fixture.run(&["login", "g"]);
        assert_eq!(output.exit_code, 0, "{}", output.text);
        assert!(output.text.contains("nobody needs to log in"), "{}", output.text);
    }
}

#[test]
fn a_wrong_client_secret_is_reported_and_no_login_is_offered() {
    let fixture = Fixture::with_oauth(
        json!({"flow": "client_credentials", "client_id": "me", "client_secret": "s3cret-wrong"}),
    );
    let mut proxy = fixture.proxy();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("invalid_client") && !failure.contains("s3cret"), "{failure}");
    assert!(!failure.contains("dynamic-mcp login"), "{failure}");
}
