//! Calls that need more scopes than the login has: the client offers another login, and the call is repeated.

use serde_json::json;

use super::fixture::{Fixture, complete_in_browser};
use super::offered_logins::{ACCEPT, DECLINE, answer_question, result, send_echo, wait_for_question};
use crate::support::text_of;

#[test]
fn a_call_that_lacks_scopes_is_repeated_with_them() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    let call = proxy.send_call("g", "look", json!({}));
    let (question, url) = wait_for_question(&mut proxy);
    assert!(url.contains("write"), "{url}");
    // Other calls succeed meanwhile.
    let other = send_echo(&mut proxy);
    assert_eq!(text_of(&result(&mut proxy, other)), "in");
    proxy.respond(&question, ACCEPT);
    complete_in_browser(&url);
    let repeated = result(&mut proxy, call);
    assert!(repeated["isError"] != true, "{repeated}");
    assert_eq!(text_of(&repeated), "called", "{repeated}");
    let calls = fixture.auth_server.http.requests_of("tools/call");
    let looks = calls.iter().filter(|call| call.body["params"]["name"] == "look");
    let tokens: Vec<_> = looks.map(|call| call.header("authorization")).collect();
    let last = tokens.last().unwrap();
    assert_eq!(tokens.iter().filter(|token| *token == last).count(), 1, "the call ran once");
}

#[test]
fn a_call_whose_scopes_are_declined_reports_them() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = proxy.send_call("g", "look", json!({}));
    answer_question(&mut proxy, DECLINE);
    let failure = result(&mut proxy, call);
    for text in ["needs more permissions: \"write\"", "declined to log in"] {
        assert!(text_of(&failure).contains(text), "{failure}");
    }
}

#[test]
fn declining_more_scopes_does_not_decline_a_login() {
    let fixture = Fixture::new();
    fixture.log_in();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = proxy.send_call("g", "look", json!({}));
    let question = proxy.wait_for_message("elicitation/create");
    assert!(question.json()["params"]["message"].as_str().unwrap().contains("lacks a permission"));
    proxy.respond(&question, DECLINE);
    assert!(text_of(&result(&mut proxy, call)).contains("need no more permissions still work"));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    // The same question is not asked again.
    let failure = proxy.call_failure("g", "look", json!({}));
    assert!(failure.contains("declined to log in"), "{failure}");
    fixture.auth_server.state().revoke_all();
    let call = send_echo(&mut proxy);
    let question = proxy.wait_for_message("elicitation/create");
    assert!(question.json()["params"]["message"].as_str().unwrap().contains("needs you to log in"));
    proxy.respond(&question, ACCEPT);
    complete_in_browser(question.json()["params"]["url"].as_str().unwrap());
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}
