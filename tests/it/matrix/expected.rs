//! What is to become of every method: the one place to change when the program can do more.

use super::{Observed, REVISIONS, asked, is_stateless, plain, tasks, told};

fn expected(method: &str, client: &str, upstream: &str) -> &'static str {
    if tasks::METHODS.contains(&method) {
        return of_tasks(method, client, upstream);
    }
    match (is_stateless(client), is_stateless(upstream)) {
        (false, false) => between_handshakes(method),
        (true, true) => without_handshakes(method),
        (true, false) => to_a_handshake(method),
        (false, true) => from_a_handshake(method),
    }
}

fn between_handshakes(method: &str) -> &'static str {
    match method {
        "`ping`" | "`ping` of an upstream" => "answered here",
        // Our own list is not made of its tools.
        "`notifications/tools/list_changed`" => "kept back",
        _ => "passes",
    }
}

fn without_handshakes(method: &str) -> &'static str {
    match method {
        "`ping`" => "refused -32601",
        "`ping` of an upstream" => "–",
        // There are none of the client's, and a client hears what it asked for.
        "`notifications/tools/list_changed`"
        | "`notifications/roots/list_changed`"
        | "`notifications/elicitation/complete` and others" => "kept back",
        _ => "passes",
    }
}

/// From a stateless client.
fn to_a_handshake(method: &str) -> &'static str {
    match method {
        "`ping` of an upstream" => "answered here",
        "`tools/list`, as `get_dynamic_tools` tells it"
        | "`notifications/progress`"
        | "`notifications/message`"
        | "`notifications/cancelled` of the client" => "passes",
        method => match without_handshakes(method) {
            "passes" => "bridged",
            other => other,
        },
    }
}

/// To a stateless upstream.
fn from_a_handshake(method: &str) -> &'static str {
    match method {
        "`ping`" => "answered here",
        "`ping` of an upstream" => "–",
        "`notifications/tools/list_changed`" | "`notifications/roots/list_changed`" => "kept back",
        _ if asked::METHODS.contains(&method) => "bridged",
        "`logging/setLevel`, or `logLevel`"
        | "errors"
        | "`notifications/resources/updated`, after `resources/subscribe` or `subscriptions/listen`"
        | "`notifications/resources/list_changed`"
        | "`notifications/prompts/list_changed`"
        | "`notifications/elicitation/complete` and others"
        | "`resources/unsubscribe`, or the end of a subscription" => "bridged",
        _ => "passes",
    }
}

fn of_tasks(method: &str, client: &str, upstream: &str) -> &'static str {
    let [as_task, _, _, list, _, told] = tasks::METHODS;
    let is_crossing = is_stateless(client) != is_stateless(upstream);
    match method {
        _ if !tasks::are_known(upstream) => "–",
        // Neither knows the other's tasks.
        _ if is_crossing && method == as_task => "answered at once",
        _ if is_crossing => "–",
        _ if method == list && is_stateless(client) => "refused -32601",
        _ if method == as_task || method == told || tasks::are_known(client) => "passes",
        _ => "refused -32004",
    }
}

/// All methods in the order of the page.
pub(super) fn methods() -> impl Iterator<Item = &'static str> {
    plain::METHODS.into_iter().chain(asked::METHODS).chain(told::METHODS).chain(tasks::METHODS)
}

pub(super) fn compare(observed: &Observed) {
    let mut wrong = Vec::new();
    for client in REVISIONS {
        for upstream in REVISIONS {
            let outcomes = &observed[&(client, upstream)];
            assert_eq!(
                outcomes.iter().map(|(method, _)| *method).collect::<Vec<_>>(),
                methods().collect::<Vec<_>>()
            );
            for (method, outcome) in outcomes {
                let expected = expected(method, client, upstream);
                if outcome != expected {
                    wrong.push(format!("{client} {upstream} {method}: {outcome}, not {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
