//! Logins that are offered to the user when a request needs them.

use serde_json::{Value, json};

use super::world::{World, visit};
use crate::protocol::{heard, hears_nothing, reply};
use crate::support::{Message, Proxy, text_of, until};

const ACCEPT: &str = r#""result":{"action":"accept"}"#;

fn echo(proxy: &mut Proxy) -> u64 {
    proxy.send_call("g", "echo", json!({"text": "in"}))
}

fn result(proxy: &mut Proxy, call: u64) -> Value {
    proxy.answer(call).json()["result"].take()
}

/// Without asking for it alone, which begins its login.
fn group(proxy: &mut Proxy) -> Value {
    proxy.status()["groups"][0].take()
}

/// The question that the client is asked now, and the URL in it.
fn question(proxy: &mut Proxy) -> (Message, String) {
    let asked = heard(proxy, "elicitation/create");
    let url = asked.json()["params"]["url"].as_str().unwrap().to_owned();
    (asked, url)
}

/// The user answers it. Returns the URL.
fn answer(proxy: &mut Proxy, outcome: &str) -> String {
    let (asked, url) = question(proxy);
    reply(proxy, &asked, outcome);
    url
}

/// The user agrees and logs in.
fn agree(proxy: &mut Proxy) {
    visit(&answer(proxy, ACCEPT));
}

/// The address in a text for the model.
fn address(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("http")).unwrap_or_else(|| panic!("no address: {text}"))
}

#[test]
fn the_user_is_shown_the_url_and_the_call_goes_on_after_the_login() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    let asked = heard(&mut proxy, "elicitation/create");
    let question = asked.json()["params"].take();
    assert_eq!(question["mode"], "url");
    assert!(question["message"].as_str().unwrap().starts_with("[g] "), "{question}");
    let url = question["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("{}/as/authorize?", world.authority.server.origin)), "{url}");
    reply(&mut proxy, &asked, ACCEPT);
    assert!(visit(url).contains("You are logged in"));
    let complete = heard(&mut proxy, "notifications/elicitation/complete").json();
    assert_eq!(complete["params"], json!({"elicitationId": question["elicitationId"]}));
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
    assert_eq!(proxy.text("g", "echo", json!({"text": "again"})), "again");
    assert_eq!(world.files().len(), 1);
    let log = proxy.log();
    assert!(!log.contains("s3cret-"), "{log}");
}

#[test]
fn nothing_is_begun_before_somebody_asks_for_the_group() {
    for mode in ["eager", "hybrid"] {
        let mut world = World::new();
        world.set(json!({"lazy_startup": mode}));
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        until("it has failed", || group(&mut proxy)["state"] == "failed");
        assert_eq!(group(&mut proxy)["loginUrl"], Value::Null);
        proxy.ask("resources/list", json!({}));
        proxy.ask("tools/describe_batch", json!({"names": ["g__echo"]}));
        hears_nothing(&mut proxy);
        assert!(world.authority.forms("/as/register").is_empty());
    }
}

#[test]
fn what_the_model_reads_and_prompts_wait_for_a_login_as_well() {
    for (method, params) in [
        ("tools/call", json!({"name": "get_dynamic_tools", "arguments": {"group": "g"}})),
        ("tools/call", json!({"name": "g__echo", "arguments": {"text": "in"}})),
        ("resources/read", json!({"group": "g", "uri": "x://y"})),
        ("prompts/get", json!({"group": "g", "name": "y"})),
    ] {
        let world = World::new();
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        let request = proxy.send(method, params);
        let asked = heard(&mut proxy, "elicitation/create");
        let url = asked.json()["params"]["url"].as_str().unwrap().to_owned();
        reply(&mut proxy, &asked, ACCEPT);
        visit(&url);
        let answer = proxy.answer(request).json();
        assert!(!answer.to_string().contains("login"), "{method}: {answer}");
    }
}

#[test]
fn who_declines_is_left_alone() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    let (asked, url) = question(&mut proxy);
    reply(&mut proxy, &asked, r#""result":{"action":"decline"}"#);
    let told = result(&mut proxy, call);
    assert!(told["isError"] == true && text_of(&told).contains("declined it"), "{told}");
    assert!(text_of(&told).contains("dynamic-mcp login g"), "{told}");
    let call = echo(&mut proxy);
    let told = result(&mut proxy, call);
    assert!(text_of(&told).contains("declined it"), "{told}");
    // Nobody listens for the browser any more.
    let back = super::world::back(&url);
    let port = back.split('/').nth(2).unwrap();
    until("the port is closed", || std::net::TcpStream::connect(port).is_err());
    assert_eq!(group(&mut proxy)["loginUrl"], Value::Null);
    assert!(world.authority.forms("/as/token").is_empty());
}

#[test]
fn who_dismisses_is_asked_again_by_the_next_call() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}, "form": {}}));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let call = echo(&mut proxy);
        let asked = heard(&mut proxy, "elicitation/create");
        seen.push(asked.json()["params"].take());
        reply(&mut proxy, &asked, r#""result":{"action":"cancel"}"#);
        let told = result(&mut proxy, call);
        assert!(text_of(&told).contains("dismissed it"), "{told}");
    }
    assert_eq!(seen[0], seen[1], "it is the same login");
    assert_eq!(world.authority.forms("/as/register").len(), 1);
}

#[test]
fn a_client_that_opens_no_urls_is_given_the_address_in_words() {
    let world = World::new();
    for elicitation in [json!({}), json!({"form": {}}), Value::Null] {
        let mut proxy = world.asking_proxy(elicitation);
        let told = proxy.failure("g", "echo", json!({"text": "in"}));
        assert!(told.contains("Ask the user to log in") && told.contains("within 4 minutes"), "{told}");
        let url = address(&told);
        let status = proxy.front("get_status", json!({}));
        assert_eq!(status["structuredContent"]["groups"][0]["loginUrl"], url);
        assert!(text_of(&status).contains(url), "{status}");
        visit(url);
        // At once, though the failure is young.
        until("the login is over", || group(&mut proxy)["loginUrl"] == Value::Null);
        assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
        assert_eq!(world.run(&["logout", "g"]).code, 0);
    }
}

#[test]
fn a_client_that_refuses_the_question_is_given_the_address_too() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    answer(&mut proxy, r#""error":{"code":-32603,"message":"no window"}"#);
    let told = result(&mut proxy, call);
    assert!(address(text_of(&told)).contains("/as/authorize?"), "{told}");
}

#[test]
fn the_status_of_a_group_begins_its_login_and_says_where_it_is() {
    let mut world = World::new();
    world.set(json!({"lazy_startup": "eager"}));
    let mut proxy = world.proxy();
    until("it has failed", || group(&mut proxy)["state"] == "failed");
    let status = proxy.front("get_status", json!({"group": "g"}));
    let url = status["structuredContent"]["groups"][0]["loginUrl"].as_str().unwrap();
    visit(url);
    until("it has connected", || group(&mut proxy)["state"] == "connected");
    assert_eq!(group(&mut proxy)["loginUrl"], Value::Null);
}

#[test]
fn calls_at_once_share_one_login_and_one_question() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let calls = [(); 3].map(|()| echo(&mut proxy));
    let (asked, url) = question(&mut proxy);
    reply(&mut proxy, &asked, ACCEPT);
    visit(&url);
    for call in calls {
        assert_eq!(text_of(&result(&mut proxy, call)), "in");
    }
    assert_eq!(world.authority.grants("authorization_code").len(), 1);
    assert_eq!(world.authority.forms("/as/register").len(), 1);
    assert_eq!(
        heard(&mut proxy, "notifications/elicitation/complete").json()["params"]["elicitationId"],
        asked.json()["params"]["elicitationId"]
    );
    hears_nothing(&mut proxy);
}

#[test]
fn whoever_waits_for_another_calls_question_hears_what_came_of_it() {
    for (answer, told) in [
        (r#""result":{"action":"cancel"}"#, "dismissed it"),
        (r#""result":{"action":"decline"}"#, "declined it"),
        (r#""error":{"code":-32603,"message":"no window"}"#, "/as/authorize?"),
    ] {
        let world = World::new();
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        let calls = [(); 3].map(|()| echo(&mut proxy));
        let asked = heard(&mut proxy, "elicitation/create");
        // The others wait by then.
        proxy.ask("ping", json!({}));
        reply(&mut proxy, &asked, answer);
        for call in calls {
            let told_now = result(&mut proxy, call);
            assert!(text_of(&told_now).contains(told), "{answer}: {told_now}");
        }
    }
}

#[test]
fn when_the_call_that_asks_is_cancelled_another_one_asks() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let first = echo(&mut proxy);
    heard(&mut proxy, "elicitation/create");
    let second = echo(&mut proxy);
    proxy.ask("ping", json!({}));
    proxy.notify("notifications/cancelled", json!({"requestId": first}));
    agree(&mut proxy);
    assert_eq!(text_of(&result(&mut proxy, second)), "in");
}

#[test]
fn a_login_elsewhere_ends_the_wait_for_this_one() {
    for accepted in [false, true] {
        let world = World::new();
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        let call = echo(&mut proxy);
        let asked = heard(&mut proxy, "elicitation/create");
        if accepted {
            reply(&mut proxy, &asked, ACCEPT);
        }
        world.logged_in();
        assert_eq!(text_of(&result(&mut proxy, call)), "in");
        assert_eq!(group(&mut proxy)["loginUrl"], Value::Null);
    }
}

#[test]
fn the_status_looks_for_a_login_before_it_begins_one() {
    let world = World::new();
    let mut proxy = world.proxy();
    proxy.ask("resources/read", json!({"group": "g", "uri": "x://y"}));
    let registered = world.authority.forms("/as/register").len();
    world.logged_in();
    let status = proxy.front("get_status", json!({"group": "g"}));
    assert_eq!(world.authority.forms("/as/register").len(), registered + 1, "by the command: {status}");
    until("it has connected", || group(&mut proxy)["state"] == "connected");
}

#[test]
fn a_cancelled_call_takes_its_question_back_and_leaves_the_login_open() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    let asked = heard(&mut proxy, "elicitation/create");
    proxy.notify("notifications/cancelled", json!({"requestId": call}));
    let taken_back = heard(&mut proxy, "notifications/cancelled").json();
    assert_eq!(taken_back["params"]["requestId"].to_string(), asked.id().unwrap());
    visit(asked.json()["params"]["url"].as_str().unwrap());
    until("it is logged in", || world.files().len() == 1);
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
}

#[test]
fn a_login_that_goes_wrong_in_the_browser_is_told_to_who_waits() {
    let world = World::new();
    world.authority.state().returns = json!({"code": null, "error": "access_denied"});
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    agree(&mut proxy);
    let told = result(&mut proxy, call);
    assert!(
        text_of(&told).contains("A login was begun and failed") && text_of(&told).contains("access_denied")
    );
}

#[test]
fn a_login_that_cannot_begin_says_why() {
    let world = World::new();
    world.authority.state().metadata = json!({"registration_endpoint": null});
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let told = proxy.failure("g", "echo", json!({}));
    assert!(told.contains("`oauth.client_id`"), "{told}");
}

#[test]
fn a_login_in_another_process_is_noticed_before_anybody_is_asked() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    let asked = heard(&mut proxy, "elicitation/create");
    world.logged_in();
    reply(&mut proxy, &asked, r#""result":{"action":"cancel"}"#);
    let told = result(&mut proxy, call);
    assert!(text_of(&told).contains("dismissed"), "{told}");
    // Nobody is asked again, however young the failure is.
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    until("nobody waits for the other", || group(&mut proxy)["loginUrl"] == Value::Null);
}

#[test]
fn credentials_of_the_config_are_nothing_to_log_in_with() {
    for entry in [
        json!({"headers": {"Authorization": "Bearer wrong"}}),
        json!({"oauth": {"flow": "client_credentials", "client_id": "me", "client_secret": "wrong"}}),
    ] {
        let mut world = World::new();
        world.authority.state().down = Some(400);
        world.set(entry);
        let mut proxy = world.asking_proxy(json!({"url": {}}));
        let told = proxy.failure("g", "echo", json!({}));
        assert!(told.contains("tell the user") && !told.contains("authorize?"), "{told}");
    }
}

/// A call of a stateless client that can do this.
fn stateless_echo(proxy: &mut Proxy, able: &Value, more: &Value) -> u64 {
    let arguments = json!({"group": "g", "name": "echo", "args": {"text": "in"}});
    let mut params = json!({"name": "call_dynamic_tool", "arguments": arguments});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    proxy.send_stateless(able, "tools/call", params)
}

#[test]
fn a_stateless_client_is_asked_by_the_answer() {
    let world = World::new();
    let mut proxy = world.stateless_proxy();
    let able = json!({"elicitation": {"url": {}}});
    let call = stateless_echo(&mut proxy, &able, &json!({}));
    let asked = result(&mut proxy, call);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    assert!(question["params"]["message"].as_str().unwrap().starts_with("[g] "));
    assert_eq!(question["params"]["elicitationId"], Value::Null, "this revision has none");
    let again = json!({"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"}}});
    let call = stateless_echo(&mut proxy, &able, &again);
    visit(question["params"]["url"].as_str().unwrap());
    let done = result(&mut proxy, call);
    assert_eq!((text_of(&done), &done["resultType"]), ("in", &json!("complete")));
    hears_nothing(&mut proxy);
}

#[test]
fn a_stateless_client_that_opens_no_urls_is_given_the_address_in_words() {
    let world = World::new();
    let mut proxy = world.stateless_proxy();
    let call = stateless_echo(&mut proxy, &json!({"elicitation": {"form": {}}}), &json!({}));
    let told = result(&mut proxy, call);
    assert_eq!(told["isError"], true);
    visit(address(text_of(&told)));
}

#[test]
fn who_waits_for_the_browser_hears_that_it_does() {
    let world = World::new();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let arguments = json!({"group": "g", "name": "echo", "args": {"text": "in"}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let call = proxy.send("tools/call", params);
    let asked = heard(&mut proxy, "elicitation/create");
    let thinking = heard(&mut proxy, "notifications/progress").json();
    assert!(thinking["params"]["message"].as_str().unwrap().contains("waits for the user to agree"));
    reply(&mut proxy, &asked, ACCEPT);
    let mut values = vec![thinking["params"]["progress"].as_f64().unwrap()];
    for _ in 0..1 {
        let news = heard(&mut proxy, "notifications/progress").json();
        assert!(news["params"]["message"].as_str().unwrap().contains("waits for its login in the browser"));
        values.push(news["params"]["progress"].as_f64().unwrap());
    }
    assert!(values[0] < values[1] && values[1] < 0.0, "{values:?}");
    visit(asked.json()["params"]["url"].as_str().unwrap());
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}

#[test]
fn a_call_that_needs_more_rights_is_made_again_with_them() {
    let world = World::new();
    world.logged_in();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    let call = proxy.send_call("g", "look", json!({}));
    let (asked, url) = question(&mut proxy);
    assert!(url.contains("write"), "{url}");
    // Others go on meanwhile.
    let other = echo(&mut proxy);
    assert_eq!(text_of(&result(&mut proxy, other)), "in");
    reply(&mut proxy, &asked, ACCEPT);
    visit(&url);
    let looked = result(&mut proxy, call);
    assert!(looked["isError"] != true, "{looked}");
    assert_eq!(text_of(&looked), "called", "{looked}");
    let made = world.authority.server.requests_of("tools/call");
    let looks = made.iter().filter(|call| call.body["params"]["name"] == "look");
    let tokens: Vec<_> = looks.map(|call| call.header("authorization")).collect();
    let last = tokens.last().unwrap();
    assert_eq!(tokens.iter().filter(|token| *token == last).count(), 1, "it ran once");
}

#[test]
fn a_call_whose_rights_are_declined_is_told_what_it_lacks() {
    let world = World::new();
    world.logged_in();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = proxy.send_call("g", "look", json!({}));
    answer(&mut proxy, r#""result":{"action":"decline"}"#);
    let told = result(&mut proxy, call);
    for said in ["more rights for this (write)", "declined it"] {
        assert!(text_of(&told).contains(said), "{told}");
    }
}

#[test]
fn a_port_that_the_command_needs_is_left_to_it() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = World::with(json!({"redirect_port": free}));
    let mut proxy = world.asking_proxy(json!({}));
    let told = proxy.failure("g", "echo", json!({}));
    assert!(told.contains("dynamic-mcp login g") && !told.contains("authorize?"), "{told}");
    assert_eq!(proxy.group("g")["loginUrl"], Value::Null);
    world.logged_in();
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    // Who is shown the URL by the client need not run the command.
    assert_eq!(world.run(&["logout", "g"]).code, 0);
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    let (asked, url) = question(&mut proxy);
    assert!(url.contains(&format!("127.0.0.1%3A{free}%2Fcallback")), "{url}");
    reply(&mut proxy, &asked, ACCEPT);
    visit(&url);
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}

#[test]
fn who_declines_more_rights_is_still_asked_to_log_in() {
    let world = World::new();
    world.logged_in();
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = proxy.send_call("g", "look", json!({}));
    let asked = heard(&mut proxy, "elicitation/create");
    assert!(asked.json()["params"]["message"].as_str().unwrap().contains("want of rights"));
    reply(&mut proxy, &asked, r#""result":{"action":"decline"}"#);
    assert!(text_of(&result(&mut proxy, call)).contains("needs no more rights can be used"));
    assert_eq!(proxy.text("g", "echo", json!({"text": "in"})), "in");
    // The same again is not asked again.
    let told = proxy.failure("g", "look", json!({}));
    assert!(told.contains("declined it"), "{told}");
    world.authority.state().revoke_all();
    let call = echo(&mut proxy);
    let asked = heard(&mut proxy, "elicitation/create");
    assert!(asked.json()["params"]["message"].as_str().unwrap().contains("wants you to log in"));
    reply(&mut proxy, &asked, ACCEPT);
    visit(asked.json()["params"]["url"].as_str().unwrap());
    assert_eq!(text_of(&result(&mut proxy, call)), "in");
}

#[test]
fn a_user_who_said_no_in_the_browser_is_not_asked_at_once() {
    let world = World::new();
    world.authority.state().returns = json!({"code": null, "error": "access_denied"});
    let mut proxy = world.asking_proxy(json!({"url": {}}));
    let call = echo(&mut proxy);
    agree(&mut proxy);
    result(&mut proxy, call);
    let told = proxy.failure("g", "echo", json!({}));
    assert!(told.contains("access_denied"), "{told}");
}

#[test]
fn a_login_belongs_to_the_config_that_it_was_begun_with() {
    let mut world = World::new();
    let mut proxy = world.proxy();
    let url = address(&proxy.failure("g", "echo", json!({}))).to_owned();
    assert_eq!(group(&mut proxy)["loginUrl"], url);
    let other = World::new();
    world.set(json!({"url": other.authority.url()}));
    std::fs::write(proxy.config_file(), world.config().to_string()).unwrap();
    until("it is another server", || group(&mut proxy)["loginUrl"] == Value::Null);
    let told = proxy.failure("g", "echo", json!({}));
    assert!(address(&told).starts_with(&other.authority.server.origin), "{told}");
}
