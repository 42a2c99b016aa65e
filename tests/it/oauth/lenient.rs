//! Authorization servers that take the specifications less exactly than others, and work with the SDKs.

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::remote::Server;

/// Serves `status` and `body` at `path`.
fn serve(fixture: &Fixture, path: &'static str, status: u16, body: &Value) {
    fixture.auth_server.state().documents.insert(path, (status, body.to_string()));
}

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "/.well-known/oauth-authorization-server/as";

#[test]
fn token_responses_of_odd_forms_are_read() {
    for (response, lifetime, granted) in [
        (json!({"expires_in": "3600"}), Some(3600), json!(["read"])),
        (json!({"expires_in": 3599.7}), Some(3599), json!(["read"])),
        (json!({"expires_in": -1}), None, json!(["read"])),
        (json!({"expires_in": "soon", "token_type": null}), None, json!(["read"])),
        (json!({"scope": ["a", "b"]}), None, json!(["a", "b"])),
    ] {
        let fixture = Fixture::new();
        fixture.auth_server.state().token_response = response;
        fixture.auth_server.state().token_media_type = Some("text/plain");
        fixture.log_in();
        let login = fixture.stored_login();
        let received_at = login["received_at"].as_u64().unwrap();
        let expires_at = lifetime.map(|lifetime| received_at + lifetime);
        assert_eq!((&login["expires_at"], &login["granted"]), (&json!(expires_at), &granted));
    }
}

#[test]
fn answers_to_registrations_of_odd_forms_are_read() {
    let fixture = Fixture::new();
    fixture.auth_server.state().registration_refusal = Some((200, "text/plain", r#"{"client_id": "me"}"#));
    fixture.log_in();
    assert_eq!(fixture.stored_login()["client_id"], "me");
}

#[test]
fn an_error_with_the_status_of_a_success_is_told_in_its_words() {
    let error = r#"{"error": "bad_verification_code", "error_description": "CODE is used."}"#;
    let fixture = Fixture::new();
    fixture.auth_server.state().code_refusal = Some((200, "application/json", error));
    let text = fixture.login().text;
    assert!(text.contains("the authorization code: \"bad_verification_code (… is used.)\""), "{text}");
    let fixture = Fixture::new();
    fixture.auth_server.state().registration_refusal = Some((200, "application/json", error));
    let text = fixture.login().text;
    assert!(text.contains("did not register a client (it answered \"bad_verification_code"), "{text}");
}

#[test]
fn discovery_goes_on_after_a_place_that_fails() {
    let refused = Server::start(|_| None);
    let other = Fixture::new();
    let fixture = Fixture::new();
    let origin = fixture.auth_server.http.origin.clone();
    serve(&fixture, "/.well-known/oauth-authorization-server/failing", 500, &json!({}));
    serve(
        &fixture,
        "/.well-known/oauth-authorization-server/posing",
        200,
        &json!({"issuer": format!("{}/as", other.auth_server.http.origin), "authorization_endpoint": origin,
                "token_endpoint": origin}),
    );
    let closed = refused.origin.clone();
    refused.close();
    let resource = json!({
        "resource": fixture.auth_server.url(),
        "authorization_servers": [
            format!("{origin}/missing"), format!("{origin}/failing"), closed, format!("{origin}/posing"),
            format!("{origin}/as"),
        ],
    });
    for status in [404, 500, 200] {
        serve(&fixture, RESOURCE, status, &json!({}));
        serve(&fixture, "/.well-known/oauth-protected-resource", 200, &resource);
        fixture.log_in();
        assert_eq!(fixture.stored_login()["issuer"], format!("{origin}/as"));
        std::fs::remove_file(&fixture.login_files()[0]).unwrap();
    }
}

#[test]
fn only_the_authorization_server_of_the_login_is_asked() {
    let fixture = Fixture::new();
    fixture.log_in_with_expired_token();
    let other = Fixture::new();
    let issuers = [&other, &fixture].map(|of| format!("{}/as", of.auth_server.http.origin));
    fixture.auth_server.state().resource_metadata = json!({"authorization_servers": issuers});
    let mut proxy = fixture.proxy();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "a"})), "a");
    assert_eq!(fixture.auth_server.grants("refresh_token").len(), 1);
    // A failure does not lead to another one either, and the login is kept.
    drop(proxy);
    fixture.age_login();
    serve(&fixture, METADATA, 500, &json!({}));
    let failure = fixture.proxy().call_failure("g", "echo", json!({}));
    assert!(failure.contains("its login cannot be refreshed") && failure.contains("500"), "{failure}");
    assert_eq!(other.auth_server.http.requests().len(), 0);
    // Without the resource's metadata, the server's own seems to be another one.
    let own = json!({"issuer": fixture.auth_server.http.origin, "code_challenge_methods_supported": ["S256"],
                     "authorization_endpoint": issuers[1], "token_endpoint": issuers[1]});
    serve(&fixture, RESOURCE, 503, &json!({}));
    serve(&fixture, "/.well-known/oauth-authorization-server", 200, &own);
    let failure = fixture.proxy().call_failure("g", "echo", json!({}));
    assert!(failure.contains("its login cannot be refreshed") && failure.contains("503"), "{failure}");
}
