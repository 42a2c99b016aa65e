//! Tokens that end, and what comes after them.

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

use super::world::{World, visit};
use crate::protocol::{heard, reply};
use crate::support::until;

#[test]
fn a_token_is_renewed_before_it_expires() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 2});
    world.logged_in();
    let mut proxy = world.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
    until("a refresh", || {
        assert_eq!(proxy.text("g", "echo", json!({"text": "b"})), "b");
        !world.authority.grants("refresh_token").is_empty()
    });
    let refresh = world.authority.grants("refresh_token").remove(0);
    assert_eq!(refresh["resource"], world.authority.url());
    assert!(!world.authority.state().used_twice);
    assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
}

/// As if it had been got an hour ago.
fn age(world: &World) {
    let mut kept = world.kept();
    kept["received_at"] = json!(kept["received_at"].as_u64().unwrap() - 3600);
    if let Some(expires) = kept["expires_at"].as_u64() {
        kept["expires_at"] = json!(expires - 3600);
    }
    std::fs::write(&world.files()[0], kept.to_string()).unwrap();
}

#[test]
fn a_token_that_is_refused_is_renewed_once() {
    let world = World::new();
    world.logged_in();
    age(&world);
    world.authority.state().revoke_access();
    let mut proxy = world.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
    assert_eq!(world.authority.grants("refresh_token").len(), 1);

    // Refused again at once, a refresh would not help either.
    world.authority.state().revoke_access();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    assert_eq!(world.authority.grants("refresh_token").len(), 1);
}

#[test]
fn a_login_that_is_over_is_not_tried_again() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    world.authority.state().revoke_all();
    let mut proxy = world.proxy();
    for _ in 0..3 {
        let failure = proxy.failure("g", "echo", json!({}));
        assert!(failure.contains("dynamic-mcp login g"), "{failure}");
    }
    assert_eq!(world.authority.grants("refresh_token").len(), 1);
    assert!(world.kept()["refresh_token"].is_null());
    world.logged_in();
    until("the new login is used", || proxy.call("g", "echo", json!({"text": "in"}))["isError"] != true);
}

#[test]
fn an_authorization_server_that_is_not_well_costs_no_login() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    world.authority.state().down = Some(503);
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("503") && !failure.contains("dynamic-mcp login"), "{failure}");
    assert!(world.kept()["refresh_token"].is_string());
    world.authority.state().down = None;
    until("it works again", || proxy.call("g", "echo", json!({}))["isError"] != true);
}

#[test]
fn many_instances_renew_at_once_and_lose_nothing() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    let mut proxies: Vec<_> = (0..7).map(|_| world.proxy()).collect();
    let calls: Vec<_> =
        proxies.iter_mut().map(|proxy| proxy.send_call("g", "echo", json!({"text": "x"}))).collect();
    for (proxy, id) in proxies.iter_mut().zip(calls) {
        let answer = proxy.answer(id);
        assert!(answer.raw("result").unwrap().contains("\"x\""), "{:?}", answer.raw("result"));
    }
    assert_eq!(world.authority.grants("refresh_token").len(), 1, "one renewed, the others found it");
    assert!(!world.authority.state().used_twice);
}

#[test]
fn a_caller_that_goes_away_takes_no_token_along() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 2});
    world.logged_in();
    let mut proxy = world.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
    let before = world.kept()["refresh_token"].clone();
    world.authority.state().slow = Duration::from_secs(1);
    world.authority.state().grant = json!({});
    age(&world);
    let asked = world.authority.grants("refresh_token").len();
    until("a refresh is under way", || {
        let id = proxy.send_call("g", "echo", json!({}));
        std::thread::sleep(Duration::from_millis(100));
        proxy.notify("notifications/cancelled", json!({"requestId": id}));
        world.authority.server.requests().iter().filter(|request| request.path == "/as/token").count()
            > asked + 1
    });
    until("its answer is kept", || world.kept()["refresh_token"] != before);
    world.authority.state().slow = Duration::ZERO;
    assert_eq!(proxy.text("g", "echo", json!({"text": "b"})), "b");
    assert!(!world.authority.state().used_twice);
}

/// How many requests have come to the token endpoint; some may not be answered yet.
fn asked(world: &World) -> usize {
    world.authority.server.requests().iter().filter(|request| request.path == "/as/token").count()
}

/// How long a token takes that is under way when the process ends: much longer than the process without it.
const SLOW: Duration = Duration::from_millis(600);

#[test]
fn a_token_that_is_under_way_when_the_client_goes_is_kept() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    let before = (world.kept()["refresh_token"].clone(), asked(&world));
    world.authority.state().slow = SLOW;
    let mut proxy = world.proxy();
    proxy.send_call("g", "echo", json!({}));
    until("a refresh is under way", || asked(&world) > before.1);
    proxy.close_stdin();
    assert!(proxy.ends().0.success());
    assert_ne!(world.kept()["refresh_token"], before.0);
    world.authority.state().slow = Duration::ZERO;
    assert_eq!(world.proxy().text("g", "echo", json!({"text": "a"})), "a");
    assert!(!world.authority.state().used_twice);
}

#[test]
fn a_token_that_takes_long_holds_up_no_end() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    let before = asked(&world);
    world.authority.state().slow = Duration::from_secs(8);
    let mut proxy = world.proxy();
    proxy.send_call("g", "echo", json!({}));
    until("a refresh is under way", || asked(&world) > before);
    proxy.close_stdin();
    let (status, took) = proxy.ends();
    assert!(status.success() && took < Duration::from_secs(3), "{status} after {took:?}");
    assert!(proxy.log().contains("not everything ended in time"), "{}", proxy.log());
}

#[test]
fn a_login_that_the_browser_came_back_from_is_kept_whoever_goes() {
    for declined in [true, false] {
        let world = World::new();
        world.authority.state().slow = SLOW;
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        proxy.send_call("g", "echo", json!({}));
        let question = heard(&mut proxy, "elicitation/create");
        let url = question.json()["params"]["url"].as_str().unwrap().to_owned();
        let browser = std::thread::spawn(move || visit(&url));
        until("the code is being redeemed", || asked(&world) > 0);
        if declined {
            reply(&mut proxy, &question, r#""result":{"action":"decline"}"#);
            until("it is kept", || !world.files().is_empty());
        } else {
            proxy.close_stdin();
            assert!(proxy.ends().0.success());
        }
        assert!(world.kept()["refresh_token"].is_string());
        assert!(browser.join().unwrap().contains("You are logged in"));
    }
}

#[test]
fn tokens_that_cannot_be_written_are_used_and_written_later() {
    let world = World::new();
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    age(&world);
    let before = world.kept()["refresh_token"].clone();
    let mut proxy = world.proxy();
    // Where its new file would be made, whoever its user is.
    let obstacle = world.files()[0].with_extension(format!("{}.tmp", proxy.pid()));
    std::fs::create_dir_all(obstacle.join("in the way")).unwrap();
    assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
    proxy.until_logged("its new tokens cannot be kept");
    assert!(proxy.log().contains(".json: "), "it says where: {}", proxy.log());
    until("it tries again", || {
        assert_eq!(proxy.text("g", "echo", json!({"text": "b"})), "b");
        proxy.log().contains("still cannot be kept")
    });
    assert_eq!(world.kept()["refresh_token"], before);
    std::fs::remove_dir_all(&obstacle).unwrap();
    until("they are written", || {
        assert_eq!(proxy.text("g", "echo", json!({"text": "c"})), "c");
        world.kept()["refresh_token"] != before
    });
    assert_eq!(world.authority.grants("refresh_token").len(), 1);
    assert_eq!(proxy.log().matches("its new tokens cannot be kept").count(), 1);
}

#[test]
fn a_login_that_cannot_be_used_is_not_left_out() {
    let world = World::new();
    world.authority.state().open = true;
    world.authority.state().grant = json!({"expires_in": 3000});
    world.logged_in();
    let anonymous = || {
        let seen = world.authority.server.requests();
        // The login itself asks whether it is needed.
        let sent = seen.iter().filter(|request| !["", "ping"].contains(&request.rpc_method()));
        sent.filter(|request| request.header("authorization").is_empty()).count()
    };
    let mode = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&world.files()[0], permissions).unwrap();
    };
    mode(0o644);
    let failure = world.proxy().failure("g", "echo", json!({}));
    assert!(failure.contains("chmod 600"), "{failure}");
    assert_eq!(anonymous(), 0);
    mode(0o600);

    age(&world);
    world.authority.state().down = Some(503);
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("503"), "{failure}");
    assert_eq!(anonymous(), 0);
    world.authority.state().down = None;
    until("it works again", || proxy.call("g", "echo", json!({}))["isError"] != true);
    assert_eq!(anonymous(), 0);
}

#[test]
fn a_place_for_logins_that_cannot_be_used_is_told_before_anybody_opens_a_browser() {
    let world = World::new();
    std::fs::write(world.home.path().join("dynamic-mcp"), "in its place").unwrap();
    let outcome = world.run(&["login", "g", "--no-browser", "--timeout", "1"]);
    assert_eq!(outcome.code, 1, "{}", outcome.said);
    assert!(outcome.said.contains("dynamic-mcp/logins: "), "{}", outcome.said);
    assert!(!outcome.said.contains("/as/authorize"), "{}", outcome.said);
    assert!(world.authority.forms("/as/register").is_empty());
    // Who needs no login needs no place for it.
    world.authority.state().open = true;
    assert_eq!(world.proxy().text("g", "echo", json!({"text": "a"})), "a");
}

#[test]
fn no_login_is_offered_where_the_file_of_the_last_one_is_in_the_way() {
    let world = World::new();
    world.logged_in();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&world.files()[0], permissions).unwrap();
    // It would be asked, and wait.
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("chmod 600") && !failure.contains("dynamic-mcp login"), "{failure}");
    assert_eq!(proxy.group("g")["loginUrl"], json!(null));
    assert_eq!(world.authority.forms("/as/register").len(), 1, "that of the first login");
}

#[test]
fn more_rights_are_asked_for_once() {
    let world = World::new();
    world.logged_in();
    let mut proxy = world.proxy();
    assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
    let failure = proxy.failure("g", "look", json!({}));
    assert!(failure.contains("dynamic-mcp login g") && failure.contains("write"), "{failure}");
    // What it lacks, others do without.
    assert_eq!(proxy.text("g", "echo", json!({"text": "b"})), "b");
    assert_eq!(world.authority.server.requests_of("initialize").len(), 1);

    // The server is asked for both, and gives less than it was asked for.
    world.authority.state().grant = json!({"scope": "read"});
    let waiting = world.begin();
    assert_eq!(waiting.parameter("scope").as_deref(), Some("read write"));
    waiting.visit();
    assert_eq!(waiting.ends().code, 0);
    until("the login was not enough", || {
        let failure = proxy.failure("g", "look", json!({}));
        failure.contains("asked for at the login already") && !failure.contains("dynamic-mcp login")
    });

    world.authority.state().grant = json!({});
    world.logged_in();
    let kept = world.kept();
    assert_eq!(kept["granted"], json!(["read"]), "what was in vain is not asked for again");
}

/// A key as PEM, and what is seen of its signatures.
type Signer = (String, (&'static str, &'static dyn VerificationAlgorithm, Vec<u8>));

fn ec() -> Signer {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let public = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
    let pem = BASE64_STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    (pem, ("ES256", &ECDSA_P256_SHA256_FIXED, public.public_key().as_ref().to_vec()))
}

/// ring makes none.
fn rsa() -> Signer {
    let pem = include_str!("../../helpers/rsa.pem");
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let public = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap().public().as_ref().to_vec();
    (pem.to_owned(), ("RS256", &RSA_PKCS1_2048_8192_SHA256, public))
}

#[test]
fn a_client_logs_in_by_itself() {
    let (secret, keys) = (json!({"client_secret": "s3cret-word"}), [ec(), rsa()]);
    let keys = keys.map(|(pem, signer)| (json!({"private_key": pem}), Some(signer)));
    for (proof, signer) in [(secret, None)].into_iter().chain(keys) {
        let oauth = crate::support::with(json!({"flow": "client_credentials", "client_id": "me"}), proof);
        let world = World::with(oauth);
        world.authority.state().signer = signer;
        world.authority.state().metadata =
            json!({"code_challenge_methods_supported": null, "registration_endpoint": null});
        let mut proxy = world.proxy();
        assert_eq!(proxy.text("g", "echo", json!({"text": "a"})), "a");
        assert_eq!(world.authority.grants("client_credentials").len(), 1);
        assert_eq!(proxy.text("g", "look", json!({"text": "b"})), "b", "it asks for more by itself");
        let grants = world.authority.grants("client_credentials");
        assert_eq!(grants.len(), 2);
        assert_eq!(grants[1]["resource"], world.authority.url());
        assert!(!proxy.log().contains("s3cret-"), "{}", proxy.log());
        let outcome = world.run(&["login", "g"]);
        assert_eq!(outcome.code, 0, "{}", outcome.said);
        assert!(outcome.said.contains("nobody needs to log in"), "{}", outcome.said);
    }
}

#[test]
fn a_wrong_secret_is_the_configs_fault() {
    let world = World::with(
        json!({"flow": "client_credentials", "client_id": "me", "client_secret": "s3cret-wrong"}),
    );
    let mut proxy = world.proxy();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("invalid_client") && !failure.contains("s3cret"), "{failure}");
    assert!(!failure.contains("dynamic-mcp login"), "{failure}");
}
