//! Sessions of one server do not see each other.

use super::*;
use crate::support::{InputRecord, Message};

/// A config with a shared upstream of all features, and the record of what it receives.
fn recorded() -> (Value, InputRecord) {
    let record = InputRecord::new();
    let entry = record.attached_to(shared(full_upstream(&["--tasks"])));
    (pure_config([("g", entry)]), record)
}

fn tell(window: &mut Proxy, method: &str, params: Value) {
    window.call_text("g", "tell", json!({"method": method, "params": params}));
}

/// The messages with this method that a window has got so far.
fn received(window: &mut Proxy, method: &str) -> Vec<Message> {
    let ping = window.send_request("ping", json!({})).to_string();
    let mut found = Vec::new();
    loop {
        let message = window.next_message().unwrap();
        if message.id() == Some(&*ping) {
            return found;
        }
        if message.method() == Some(method) {
            found.push(message);
        }
    }
}

#[test]
fn a_server_that_asks_its_client_is_private_the_next_time() {
    let user = User::new();
    let config = full_shared_config(&[]);
    let capabilities = json!({"elicitation": {}, "roots": {}, "sampling": {}});
    let (mut a, mut b) = two_windows(&user, &config, &capabilities);
    let pid = a.upstream_pid("g");
    let question = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    let answer = a.call_text("g", "ask", question.clone());
    assert!(answer.contains("-32601") && answer.contains("shared"), "{answer}");
    assert_eq!(received(&mut a, "elicitation/create").len(), 0);
    assert_eq!(received(&mut b, "elicitation/create").len(), 0);
    // Sessions that there are go on.
    assert_eq!(b.upstream_pid("g"), pid);
    let mut c = user.command(&config).start();
    c.handshake_with(capabilities);
    assert_ne!(c.upstream_pid("g"), pid);
    let id = c.send_call("g", "ask", question);
    let asked = c.wait_for_message("elicitation/create");
    c.respond(&asked, r#""result":{"action":"decline"}"#);
    assert!(c.response(id).line.contains("decline"));
}

#[test]
fn a_server_whose_lists_change_during_a_call_is_private_the_next_time() {
    let user = User::new();
    let config = full_shared_config(&[]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let pid = a.upstream_pid("g");
    a.call_text("g", "grow", json!({"list": "tools"}));
    // The lists concern everybody.
    wait_until("both windows know the new tool", || {
        [&mut a, &mut b].map(|window| window.call_tool("g", "added_0", json!({}))["isError"] != true)
            == [true, true]
    });
    assert_ne!(user.window(&config).upstream_pid("g"), pid);
}

#[test]
fn a_log_message_goes_to_the_only_session_that_waits() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    a.request("logging/setLevel", json!({"level": "debug"}));
    b.request("logging/setLevel", json!({"level": "error"}));
    let message = |level: &str, data: &str| json!({"level": level, "data": data});
    tell(&mut a, "notifications/message", message("info", "for a"));
    tell(&mut b, "notifications/message", message("info", "too low for b"));
    tell(&mut b, "notifications/message", message("error", "for b"));
    // Somebody else has an open request, so nobody knows whose message it is.
    let open = b.send_call("g", "late", json!({}));
    let has_late =
        |record: &InputRecord| record.lines_of("tools/call").iter().any(|line| line.contains("\"late\""));
    wait_until("the server has the call", || has_late(&record));
    tell(&mut a, "notifications/message", message("error", "for nobody"));
    b.notify("notifications/cancelled", json!({"requestId": open}));
    let data = |messages: Vec<Message>| -> Vec<Value> {
        messages.iter().map(|message| message.json()["params"]["data"].clone()).collect()
    };
    assert_eq!(data(received(&mut a, "notifications/message")), ["for a"]);
    assert_eq!(data(received(&mut b, "notifications/message")), ["for b"]);
}

#[test]
fn an_unsubscribe_of_one_session_leaves_that_of_another() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let uri = json!({"uri": "mem://one"});
    for window in [&mut a, &mut b] {
        assert!(window.request("resources/subscribe", uri.clone())["result"].is_object());
    }
    tell(&mut a, "notifications/resources/updated", uri.clone());
    for window in [&mut a, &mut b] {
        window.wait_for_message("notifications/resources/updated");
    }
    a.request("resources/unsubscribe", uri.clone());
    tell(&mut a, "notifications/resources/updated", uri.clone());
    b.wait_for_message("notifications/resources/updated");
    assert_eq!(received(&mut a, "notifications/resources/updated").len(), 0);
    assert_eq!(record.lines_of("resources/unsubscribe").len(), 0);
    // The end of the last subscriber ends the subscription.
    drop(b);
    record.wait_for("resources/unsubscribe", 0);
}

#[test]
fn a_subscribe_does_not_overtake_the_unsubscribe_before_it() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let uri = json!({"uri": "mem://one"});
    a.request("resources/subscribe", uri.clone());
    // The other session uses the server, and this one has taken its share of it.
    b.send_call("g", "sleep", json!({"ms": 3000}));
    for _ in 0..4 {
        a.send_call("g", "sleep", json!({"ms": 3000}));
    }
    wait_until("the server has the calls", || record.lines_of("tools/call").len() >= 5);
    let ended = a.send_request("resources/unsubscribe", uri.clone());
    std::thread::sleep(std::time::Duration::from_millis(200));
    b.request("resources/subscribe", uri.clone());
    a.response(ended);
    let methods = ["resources/subscribe", "resources/unsubscribe"];
    let lines = record.lines();
    let order: Vec<&str> =
        lines.iter().filter_map(|line| methods.into_iter().find(|method| line.contains(method))).collect();
    assert_eq!(order, [methods[0], methods[1], methods[0]]);
}

#[test]
fn tasks_belong_to_the_session_that_made_them() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let arguments = json!({"group": "g", "name": "task_optional", "args": {"hold": true}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "task": {"ttl": 60_000}});
    let create =
        |window: &mut Proxy| window.request("tools/call", params.clone())["result"]["task"]["taskId"].take();
    let (of_a, of_b) = (create(&mut a), create(&mut b));
    assert_ne!(of_a, of_b);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = b.request(method, json!({"taskId": of_a}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(a.request("tasks/get", json!({"taskId": of_a}))["result"]["status"], "working");
    for (window, task) in [(&mut a, &of_a), (&mut b, &of_b)] {
        let list = window.request("tasks/list", json!({}));
        let tasks = list["result"]["tasks"].as_array().unwrap();
        assert_eq!(tasks.iter().map(|task| &task["taskId"]).collect::<Vec<_>>(), [task]);
    }
    assert_eq!(b.request("tasks/cancel", json!({"taskId": of_b}))["result"]["status"], "cancelled");
    assert_eq!(received(&mut a, "notifications/tasks/status").len(), 0);
    // The tasks of a session end with it.
    drop(a);
    record.wait_for("tasks/cancel", 1);
}

#[test]
fn a_cancellation_ends_only_the_request_of_its_session() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let (of_a, of_b) = (a.send_call("g", "late", json!({})), b.send_call("g", "late", json!({})));
    record.wait_for("tools/call", 3);
    a.notify("notifications/cancelled", json!({"requestId": of_a, "reason": "by a"}));
    let cancelled = record.wait_for("notifications/cancelled", 0);
    assert_eq!(cancelled.json()["params"]["reason"], "by a");
    assert_eq!(b.call_text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(record.lines_of("notifications/cancelled").len(), 1);
    b.notify("notifications/cancelled", json!({"requestId": of_b}));
    let second = record.wait_for("notifications/cancelled", 1);
    assert_ne!(cancelled.json()["params"]["requestId"], second.json()["params"]["requestId"]);
}

#[test]
fn the_server_is_offered_no_capabilities_and_everybody_gets_its_first_answer() {
    let user = User::new();
    let (config, record) = recorded();
    let (mut a, mut b) =
        two_windows(&user, &config, &json!({"roots": {}, "sampling": {}, "elicitation": {}}));
    let hello = record.wait_for("initialize", 0).json();
    assert_eq!(hello["params"]["capabilities"], json!({}));
    for window in [&mut a, &mut b] {
        window.upstream_pid("g");
    }
    assert_eq!(record.lines_of("initialize").len(), 1);
    assert_eq!(record.lines_of("notifications/initialized").len(), 1);
    b.notify("notifications/roots/list_changed", json!({}));
    assert_eq!(b.call_text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(record.lines_of("notifications/roots/list_changed").len(), 0);
}

/// The next number of a sequence that its seed determines (SplitMix64).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Sends calls of eight windows in an order that a seed determines, several of each window at the same time. Every
/// answer and every progress must be that of its own call.
#[test]
fn eight_clients_get_their_own_answers_and_progress() {
    const WINDOWS: usize = 8;
    let total = 2_000 * crate::warden::rounds().min(5) as u64;
    const MAX_OPEN: usize = 12;
    let user = User::new();
    let config = shared_config(&[]);
    let mut windows: Vec<Proxy> = (0..WINDOWS).map(|_| user.window(&config)).collect();
    let pids: Vec<u32> = windows.iter_mut().map(|window| window.upstream_pid("g")).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let mut state = 14;
    // The open calls of each window: request id, token, number of steps.
    let mut open: Vec<Vec<(u64, String, u64)>> = vec![Vec::new(); WINDOWS];
    for call in 0..total {
        let index = (next_random(&mut state) % WINDOWS as u64) as usize;
        let (window, calls) = (&mut windows[index], &mut open[index]);
        let steps = next_random(&mut state) % 4;
        let token = format!("{index}-{call}");
        let args = json!({"n": steps, "text": token});
        let tool = if steps == 0 { "args" } else { "progress" };
        let arguments = json!({"group": "g", "name": tool, "args": args});
        let params =
            json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": token}});
        let id = window.send_request("tools/call", params);
        calls.push((id, token, steps));
        if calls.len() >= MAX_OPEN || next_random(&mut state).is_multiple_of(3) {
            finish(window, calls);
        }
    }
    for (window, calls) in windows.iter_mut().zip(&mut open) {
        finish(window, calls);
        window.assert_no_message();
    }
}

/// Reads the answers and the progress of these calls.
fn finish(window: &mut Proxy, calls: &mut Vec<(u64, String, u64)>) {
    let mut progress: std::collections::HashMap<String, u64> = Default::default();
    while !calls.is_empty() {
        let message = window.next_message().unwrap().json();
        if message["method"] == "notifications/progress" {
            let token = message["params"]["progressToken"].as_str().unwrap();
            assert!(calls.iter().any(|(_, own, _)| own == token), "{token} of another window");
            *progress.entry(token.to_owned()).or_default() += 1;
            continue;
        }
        let index = calls.iter().position(|(id, ..)| message["id"] == *id).unwrap();
        let (_, token, steps) = calls.swap_remove(index);
        assert_eq!(progress.get(&token).copied().unwrap_or_default(), steps, "{token}");
        let text = message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"));
        assert!(steps > 0 || text.contains(&format!("\"{token}\"")), "{token}: {text}");
    }
}
