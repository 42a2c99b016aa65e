//! Logins that the client offers to the user when a request needs one.

use serde_json::{Value, json};

use super::fixture::{Fixture, callback_url, complete_in_browser};
use crate::support::{Message, Proxy, text_of, wait_until};

pub(super) const ACCEPT: &str = r#""result":{"action":"accept"}"#;
pub(super) const DECLINE: &str = r#""result":{"action":"decline"}"#;
const DISMISS: &str = r#""result":{"action":"cancel"}"#;
const REJECT: &str = r#""error":{"code":-32603,"message":"no window"}"#;

/// Sends a call of the tool `echo`. Returns the id of the request.
pub(super) fn send_echo(proxy: &mut Proxy) -> u64 {
    proxy.send_call("g", "echo", json!({"text": "in"}))
}

pub(super) fn result(proxy: &mut Proxy, call: u64) -> Value {
    proxy.response(call).json()["result"].take()
}

/// The group in the status of all groups. Asking for the group alone would begin its login.
fn group_status(proxy: &mut Proxy) -> Value {
    proxy.status()["groups"][0].take()
}

/// Waits for the question of a login. Returns it and its URL.
pub(super) fn wait_for_question(proxy: &mut Proxy) -> (Message, String) {
    let question = proxy.wait_for_message("elicitation/create");
    let url = question.json()["params"]["url"].as_str().unwrap().to_owned();
    (question, url)
}

/// Answers the question of a login. Returns its URL.
pub(super) fn answer_question(proxy: &mut Proxy, answer: &str) -> String {
    let (question, url) = wait_for_question(proxy);
    proxy.respond(&question, answer);
    url
}

/// Accepts the question of a login, and logs in.
fn accept_and_log_in(proxy: &mut Proxy) {
    complete_in_browser(&answer_question(proxy, ACCEPT));
}

/// The URL in a text for the model.
pub(super) fn url_in(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("http")).unwrap_or_else(|| panic!("no URL: {text}"))
}

#[test]
fn the_user_is_shown_the_url_and_the_call_goes_on_after_the_login() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    let question = proxy.wait_for_message("elicitation/create");
    let params = question.json()["params"].take();
    assert_eq!(params["mode"], "url");
    assert!(params["message"].as_str().unwrap().starts_with("[g] "), "{params}");
    let url = params["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("{}/as/authorize?", fixture.auth_server.http.origin)), "{url}");
    proxy.respond(&question, ACCEPT);
    assert!(complete_in_browser(url).contains("You are logged in"));
    let complete = proxy.wait_for_message("notifications/elicitation/complete").json();
    assert_eq!(complete["params"], json!({"elicitationId": params["elicitationId"]}));
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "again"})), "again");
    assert_eq!(fixture.login_files().len(), 1);
    let log = proxy.log();
    assert!(!log.contains("s3cret-"), "{log}");
}

#[test]
fn no_login_begins_before_a_request_names_the_group() {
    for mode in ["eager", "hybrid"] {
        let mut fixture = Fixture::new();
        fixture.set_server(json!({"lazy_startup": mode}));
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        wait_until("it has failed", || group_status(&mut proxy)["state"] == "failed");
        assert_eq!(group_status(&mut proxy)["loginUrl"], Value::Null);
        proxy.request("resources/list", json!({}));
        proxy.request("tools/describe_batch", json!({"names": ["g__echo"]}));
        // It is told that the group does not work, and that the list says so, and is not asked anything.
        let ping = proxy.send_request("ping", json!({}));
        while let Some(message) = proxy.next_message()
            && message.id() != Some(&*ping.to_string())
        {
            let told = ["notifications/message", "notifications/tools/list_changed"];
            assert!(message.method().is_some_and(|method| told.contains(&method)), "{}", message.line);
        }
        assert!(fixture.auth_server.forms("/as/register").is_empty());
    }
}

#[test]
fn all_kinds_of_requests_wait_for_a_login() {
    for (method, params) in [
        ("tools/call", json!({"name": "get_dynamic_tools", "arguments": {"group": "g"}})),
        ("tools/call", json!({"name": "g__echo", "arguments": {"text": "in"}})),
        ("resources/read", json!({"group": "g", "uri": "x://y"})),
        ("prompts/get", json!({"group": "g", "name": "y"})),
    ] {
        let fixture = Fixture::new();
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        let request = proxy.send_request(method, params);
        let question = proxy.wait_for_message("elicitation/create");
        let url = question.json()["params"]["url"].as_str().unwrap().to_owned();
        proxy.respond(&question, ACCEPT);
        complete_in_browser(&url);
        let answer = proxy.response(request).json();
        assert!(!answer.to_string().contains("login"), "{method}: {answer}");
    }
}

#[test]
fn a_user_who_declines_is_not_asked_again() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    let (question, url) = wait_for_question(&mut proxy);
    proxy.respond(&question, DECLINE);
    let failure = result(&mut proxy, call);
    assert!(failure["isError"] == true && text_of(&failure).contains("declined the login"), "{failure}");
    assert!(text_of(&failure).contains("dynamic-mcp login g"), "{failure}");
    let call = send_echo(&mut proxy);
    let failure = result(&mut proxy, call);
    assert!(text_of(&failure).contains("declined the login"), "{failure}");
    // The login no longer listens for the browser.
    let callback = callback_url(&url);
    let address = callback.split('/').nth(2).unwrap();
    wait_until("the port is closed", || std::net::TcpStream::connect(address).is_err());
    assert_eq!(group_status(&mut proxy)["loginUrl"], Value::Null);
    assert!(fixture.auth_server.forms("/as/token").is_empty());
}

#[test]
fn a_user_who_dismisses_the_question_is_asked_again_by_the_next_call() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}, "form": {}}));
    let mut questions = Vec::new();
    for _ in 0..2 {
        let call = send_echo(&mut proxy);
        let question = proxy.wait_for_message("elicitation/create");
        questions.push(question.json()["params"].take());
        proxy.respond(&question, DISMISS);
        let failure = result(&mut proxy, call);
        assert!(text_of(&failure).contains("dismissed the login"), "{failure}");
    }
    assert_eq!(questions[0], questions[1], "it is the same login");
    assert_eq!(fixture.auth_server.forms("/as/register").len(), 1);
}

#[test]
fn a_client_without_url_elicitation_gets_the_url_as_text() {
    let fixture = Fixture::new();
    for elicitation in [json!({}), json!({"form": {}}), Value::Null] {
        let mut proxy = fixture.eliciting_proxy(elicitation);
        let failure = proxy.call_failure("g", "echo", json!({"text": "in"}));
        assert!(
            failure.contains("Ask the user to log in") && failure.contains("within 4 minutes"),
            "{failure}"
        );
        let url = url_in(&failure);
        let status = proxy.call_meta_tool("get_status", json!({}));
        assert_eq!(status["structuredContent"]["groups"][0]["loginUrl"], url);
        assert!(text_of(&status).contains(url), "{status}");
        complete_in_browser(url);
        // The next call succeeds without waiting for a retry.
        wait_until("the login has finished", || group_status(&mut proxy)["loginUrl"] == Value::Null);
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
        assert_eq!(fixture.run(&["logout", "g"]).exit_code, 0);
    }
}

#[test]
fn a_client_that_rejects_the_question_gets_the_url_as_text() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    answer_question(&mut proxy, REJECT);
    let failure = result(&mut proxy, call);
    assert!(url_in(text_of(&failure)).contains("/as/authorize?"), "{failure}");
}

#[test]
fn the_status_of_a_group_begins_its_login_and_has_the_url() {
    let mut fixture = Fixture::new();
    fixture.set_server(json!({"lazy_startup": "eager"}));
    let mut proxy = fixture.proxy();
    wait_until("it has failed", || group_status(&mut proxy)["state"] == "failed");
    let status = proxy.call_meta_tool("get_status", json!({"group": "g"}));
    let url = status["structuredContent"]["groups"][0]["loginUrl"].as_str().unwrap();
    complete_in_browser(url);
    wait_until("it has connected", || group_status(&mut proxy)["state"] == "connected");
    assert_eq!(group_status(&mut proxy)["loginUrl"], Value::Null);
}

#[test]
fn concurrent_calls_share_one_login_and_one_question() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let calls = [(); 3].map(|()| send_echo(&mut proxy));
    let (question, url) = wait_for_question(&mut proxy);
    proxy.respond(&question, ACCEPT);
    complete_in_browser(&url);
    for call in calls {
        assert_eq!(text_of(&result(&mut proxy, call)), "in");
    }
    assert_eq!(fixture.auth_server.grants("authorization_code").len(), 1);
    assert_eq!(fixture.auth_server.forms("/as/register").len(), 1);
    assert_eq!(
        proxy.wait_for_message("notifications/elicitation/complete").json()["params"]["elicitationId"],
        question.json()["params"]["elicitationId"]
    );
    proxy.assert_no_message();
}

#[test]
fn all_calls_that_share_a_question_get_its_answer() {
    for (answer, text) in
        [(DISMISS, "dismissed the login"), (DECLINE, "declined the login"), (REJECT, "/as/authorize?")]
    {
        let fixture = Fixture::new();
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        let calls = [(); 3].map(|()| send_echo(&mut proxy));
        let question = proxy.wait_for_message("elicitation/create");
        // By the answer to the ping, the other calls wait.
        proxy.request("ping", json!({}));
        proxy.respond(&question, answer);
        for call in calls {
            let failure = result(&mut proxy, call);
            assert!(text_of(&failure).contains(text), "{answer}: {failure}");
        }
    }
}

#[test]
fn another_call_asks_if_the_asking_call_is_cancelled() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let first = send_echo(&mut proxy);
    proxy.wait_for_message("elicitation/create");
    let second = send_echo(&mut proxy);
    proxy.request("ping", json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": first}));
    accept_and_log_in(&mut proxy);
    assert_eq!(text_of(&result(&mut proxy, second)), "in");
}

#[test]
fn a_login_in_another_process_ends_the_wait() {
    for accepted in [false, true] {
        let fixture = Fixture::new();
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        let call = send_echo(&mut proxy);
        let question = proxy.wait_for_message("elicitation/create");
        if accepted {
            proxy.respond(&question, ACCEPT);
        }
        fixture.log_in();
        assert_eq!(text_of(&result(&mut proxy, call)), "in");
        assert_eq!(group_status(&mut proxy)["loginUrl"], Value::Null);
    }
}

#[test]
fn the_status_uses_a_new_login_instead_of_beginning_one() {
    let fixture = Fixture::new();
    let mut proxy = fixture.proxy();
    proxy.request("resources/read", json!({"group": "g", "uri": "x://y"}));
    let registered = fixture.auth_server.forms("/as/register").len();
    fixture.log_in();
    let status = proxy.call_meta_tool("get_status", json!({"group": "g"}));
    assert_eq!(
        fixture.auth_server.forms("/as/register").len(),
        registered + 1,
        "only the command registered: {status}"
    );
    wait_until("it has connected", || group_status(&mut proxy)["state"] == "connected");
}

#[test]
fn a_cancelled_call_cancels_its_question_but_not_the_login() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    let question = proxy.wait_for_message("elicitation/create");
    proxy.notify("notifications/cancelled", json!({"requestId": call}));
    let cancelled = proxy.wait_for_message("notifications/cancelled").json();
    assert_eq!(cancelled["params"]["requestId"].to_string(), question.id().unwrap());
    complete_in_browser(question.json()["params"]["url"].as_str().unwrap());
    wait_until("the login is stored", || fixture.login_files().len() == 1);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
}

#[test]
fn a_login_that_fails_in_the_browser_is_reported_to_the_waiting_call() {
    let fixture = Fixture::new();
    fixture.auth_server.state().callback_parameters = json!({"code": null, "error": "access_denied"});
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    accept_and_log_in(&mut proxy);
    let failure = result(&mut proxy, call);
    assert!(text_of(&failure).contains("The login failed") && text_of(&failure).contains("access_denied"));
}

#[test]
fn a_login_that_cannot_begin_says_why() {
    let fixture = Fixture::new();
    fixture.auth_server.state().registration_refusal = Some((403, "text/plain", "Only partners"));
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let advice = "(it answered HTTP status 403 Forbidden: \"Only partners\"): register one there";
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains(advice) && !failure.contains("dynamic-mcp login"), "{failure}");
    wait_until("the status has the reason, too", || {
        group_status(&mut proxy)["error"].as_str().is_some_and(|error| error.contains(advice))
    });
}

#[test]
fn a_login_in_another_process_is_used_before_the_user_is_asked_again() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    let question = proxy.wait_for_message("elicitation/create");
    fixture.log_in();
    proxy.respond(&question, DISMISS);
    let failure = result(&mut proxy, call);
    // Wine is so slow that the login may be found before the answer.
    let is_used_already = cfg!(windows) && text_of(&failure) == "in";
    assert!(is_used_already || text_of(&failure).contains("dismissed"), "{failure}");
    // The next call succeeds without a question or a wait for a retry.
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    wait_until("the offered login has ended", || group_status(&mut proxy)["loginUrl"] == Value::Null);
}

#[test]
fn no_login_is_offered_for_credentials_in_the_config() {
    for entry in [
        json!({"headers": {"Authorization": "Bearer wrong"}}),
        json!({"oauth": {"flow": "client_credentials", "client_id": "me", "client_secret": "wrong"}}),
    ] {
        let mut fixture = Fixture::new();
        fixture.auth_server.state().token_status = Some(400);
        fixture.set_server(entry);
        let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
        let failure = proxy.call_failure("g", "echo", json!({}));
        assert!(failure.contains("tell the user") && !failure.contains("authorize?"), "{failure}");
    }
}

#[test]
fn a_call_that_waits_for_a_login_reports_progress() {
    let fixture = Fixture::new();
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let arguments = json!({"group": "g", "name": "echo", "args": {"text": "in"}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let call = proxy.send_request("tools/call", params);
    let question = proxy.wait_for_message("elicitation/create");
    let progress = proxy.wait_for_message("notifications/progress").json();
    assert!(progress["params"]["message"].as_str().unwrap().contains("waits for the user to agree"));
    proxy.respond(&question, ACCEPT);
    let mut values = vec![progress["params"]["progress"].as_f64().unwrap()];
    let progress = proxy.wait_for_message("notifications/progress").json();
    assert!(progress["params"]["message"].as_str().unwrap().contains("waits for its login in the browser"));
    values.push(progress["params"]["progress"].as_f64().unwrap());
    assert!(values[0] < values[1] && values[1] < 0.0, "{values:?}");
    complete_in_browser(question.json()["params"]["url"].as_str().unwrap());
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}

#[test]
fn a_configured_port_is_left_to_the_command_unless_the_client_shows_the_url() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let fixture = Fixture::with_oauth(json!({"redirect_port": port}));
    let mut proxy = fixture.eliciting_proxy(json!({}));
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("dynamic-mcp login g") && !failure.contains("authorize?"), "{failure}");
    assert_eq!(proxy.group_status("g")["loginUrl"], Value::Null);
    fixture.log_in();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "in"})), "in");
    // A client that shows the URL makes the command unnecessary.
    assert_eq!(fixture.run(&["logout", "g"]).exit_code, 0);
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    let (question, url) = wait_for_question(&mut proxy);
    assert!(url.contains(&format!("127.0.0.1%3A{port}%2Fcallback")), "{url}");
    proxy.respond(&question, ACCEPT);
    complete_in_browser(&url);
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}

#[test]
fn a_user_who_refuses_in_the_browser_is_not_asked_again_at_once() {
    let fixture = Fixture::new();
    fixture.auth_server.state().callback_parameters = json!({"code": null, "error": "access_denied"});
    let mut proxy = fixture.eliciting_proxy(json!({"url": {}}));
    let call = send_echo(&mut proxy);
    accept_and_log_in(&mut proxy);
    result(&mut proxy, call);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("access_denied"), "{failure}");
}

#[test]
fn a_changed_config_ends_a_login_that_is_under_way() {
    let mut fixture = Fixture::new();
    let mut proxy = fixture.proxy();
    let url = url_in(&proxy.call_failure("g", "echo", json!({}))).to_owned();
    assert_eq!(group_status(&mut proxy)["loginUrl"], url);
    let other = Fixture::new();
    fixture.set_server(json!({"url": other.auth_server.url()}));
    std::fs::write(proxy.config_file(), fixture.config().to_string()).unwrap();
    wait_until("the config has been reloaded", || group_status(&mut proxy)["loginUrl"] == Value::Null);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(url_in(&failure).starts_with(&other.auth_server.http.origin), "{failure}");
}
