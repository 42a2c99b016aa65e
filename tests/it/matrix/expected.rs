//! What is to become of every method: the one place to change when the program can do more.

use super::{Observed, REVISIONS, asked, is_stateless, plain, tasks, told};

fn expected(method: &str, client: &str, upstream: &str) -> &'static str {
    match (is_stateless(client), is_stateless(upstream)) {
        (false, false) => between_handshakes(method, upstream),
        (false, true) => "unavailable",
        (true, _) => "refused -32601",
    }
}

fn between_handshakes(method: &str, upstream: &str) -> &'static str {
    let [as_task, .., told] = tasks::METHODS;
    match method {
        "`ping`" | "`ping` of an upstream" => "answered here",
        // Our own list is not made of its tools.
        "`notifications/tools/list_changed`" => "kept back",
        _ if !tasks::METHODS.contains(&method) => "passes",
        _ if !tasks::are_known(upstream) => "–",
        _ if method == as_task || method == told => "passes",
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
