//! The expected outcome of each method. A change of what the program supports changes this file.

use super::{Observations, REVISIONS, client_requests, is_stateless, notifications, server_requests, tasks};

fn expected(method: &str, client: &str, upstream: &str) -> &'static str {
    if tasks::METHODS.contains(&method) {
        return for_tasks(method, client, upstream);
    }
    match (is_stateless(client), is_stateless(upstream)) {
        (false, false) => handshake_to_handshake(method),
        (true, true) => stateless_to_stateless(method),
        (true, false) => stateless_to_handshake(method),
        (false, true) => handshake_to_stateless(method),
    }
}

fn handshake_to_handshake(method: &str) -> &'static str {
    match method {
        "`ping`" | "`ping` from an upstream" => "answered here",
        // The upstream's tools are not in our own list.
        "`notifications/tools/list_changed`" => "kept back",
        _ => "passes",
    }
}

fn stateless_to_stateless(method: &str) -> &'static str {
    match method {
        "`ping`" => "refused -32601",
        "`ping` from an upstream" => "–",
        // A stateless client sends no notifications of its own, and receives those that it subscribed to.
        "`notifications/tools/list_changed`"
        | "`notifications/roots/list_changed`"
        | "`notifications/elicitation/complete` and others" => "kept back",
        _ => "passes",
    }
}

fn stateless_to_handshake(method: &str) -> &'static str {
    match method {
        "`ping` from an upstream" => "answered here",
        "`tools/list`, through `get_dynamic_tools`"
        | "`notifications/progress`"
        | "`notifications/message`"
        | "`notifications/cancelled` from the client" => "passes",
        method => match stateless_to_stateless(method) {
            "passes" => "bridged",
            other => other,
        },
    }
}

fn handshake_to_stateless(method: &str) -> &'static str {
    match method {
        "`ping`" => "answered here",
        "`ping` from an upstream" => "–",
        "`notifications/tools/list_changed`" | "`notifications/roots/list_changed`" => "kept back",
        _ if server_requests::METHODS.contains(&method) => "bridged",
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

fn for_tasks(method: &str, client: &str, upstream: &str) -> &'static str {
    let [call, _, _, list, _, notification] = tasks::METHODS;
    let eras_differ = is_stateless(client) != is_stateless(upstream);
    match method {
        _ if !tasks::exist_in(upstream) => "–",
        // Neither side supports the other's tasks.
        _ if eras_differ && method == call => "answered at once",
        _ if eras_differ => "–",
        _ if method == list && is_stateless(client) => "refused -32601",
        _ if method == call || method == notification || tasks::exist_in(client) => "passes",
        _ => "refused -32004",
    }
}

/// All methods in the order of the table.
pub(super) fn methods() -> impl Iterator<Item = &'static str> {
    client_requests::METHODS
        .into_iter()
        .chain(server_requests::METHODS)
        .chain(notifications::METHODS)
        .chain(tasks::METHODS)
}

pub(super) fn assert_matches(observations: &Observations) {
    let mut differences = Vec::new();
    for client in REVISIONS {
        for upstream in REVISIONS {
            let outcomes = &observations[&(client, upstream)];
            assert_eq!(
                outcomes.iter().map(|(method, _)| *method).collect::<Vec<_>>(),
                methods().collect::<Vec<_>>()
            );
            for (method, outcome) in outcomes {
                let expected = expected(method, client, upstream);
                if outcome != expected {
                    differences.push(format!("{client} → {upstream}, {method}: {outcome}, not {expected}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
