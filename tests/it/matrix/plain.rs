//! Requests of a client that an upstream answers without asking anything.

use super::session::{Direct, Session, split};
use super::{Outcomes, by_form, is_stateless, refused};
use crate::support::Message;

/// How a request finds its group.
enum Route {
    Group,
    MetaTool,
    ExposedName,
}

const REQUESTS: [(&str, &str, &str, Route); 8] = [
    (
        "`tools/call` by `call_dynamic_tool`",
        "tools/call",
        r#""name":"weird","arguments":{}"#,
        Route::MetaTool,
    ),
    ("`tools/call` by `group__tool`", "tools/call", r#""name":"weird","arguments":{}"#, Route::ExposedName),
    ("`resources/list`", "resources/list", "", Route::Group),
    ("`resources/templates/list`", "resources/templates/list", "", Route::Group),
    ("`resources/read`", "resources/read", r#""uri":"mem://weird""#, Route::Group),
    ("`prompts/list`", "prompts/list", "", Route::Group),
    ("`prompts/get`", "prompts/get", r#""name":"weird""#, Route::Group),
    (
        "`completion/complete`",
        "completion/complete",
        r#""ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"A"}"#,
        Route::Group,
    ),
];

pub(super) const METHODS: [&str; 13] = [
    "`ping`",
    "`tools/list`, as `get_dynamic_tools` tells it",
    REQUESTS[0].0,
    REQUESTS[1].0,
    REQUESTS[2].0,
    REQUESTS[3].0,
    REQUESTS[4].0,
    REQUESTS[5].0,
    REQUESTS[6].0,
    REQUESTS[7].0,
    "`logging/setLevel`, or `logLevel`",
    "errors",
    "`notifications/roots/list_changed`",
];

pub(super) fn probe(session: &mut Session, direct: &mut Direct) -> Outcomes {
    let mut outcomes = vec![ping(session), definitions(session, direct)];
    outcomes.extend(REQUESTS.iter().map(|(_, method, members, route)| {
        let wanted = direct.ask(method, members);
        let group = direct.revision;
        let got = match route {
            Route::Group => {
                let comma = if members.is_empty() { "" } else { "," };
                session.ask(method, &format!(r#""group":"{group}"{comma}{members}"#))
            }
            Route::MetaTool => {
                let id = session.send_call(group, "weird", "{}", "", "");
                session.proxy.answer(id)
            }
            Route::ExposedName => {
                session.ask(method, &members.replace(r#""weird""#, &format!(r#""{group}__weird""#)))
            }
        };
        same(method, &got, &wanted)
    }));
    outcomes.extend([
        level(session, direct.revision),
        errors(session, direct),
        roots(session, direct.revision),
    ]);
    METHODS.into_iter().zip(outcomes).collect()
}

/// How a result compares with that of the upstream itself.
fn same(method: &str, got: &Message, wanted: &Message) -> String {
    if let Some(code) = got.code() {
        return refused(code);
    }
    let [got, wanted] = [got, wanted].map(|answer| split(answer.raw("result").unwrap()));
    let rest = |parts: &[std::collections::BTreeMap<String, String>; 2]| {
        let mut rest = parts[1].clone();
        // The scripted upstream says here what its params were, and those are of an era.
        rest.remove("completion");
        rest
    };
    assert_eq!(rest(&got), rest(&wanted), "{method}");
    by_form(got[0] == wanted[0])
}

fn ping(session: &mut Session) -> String {
    session.ask("ping", "").code().map_or_else(|| "answered here".to_owned(), refused)
}

fn definitions(session: &mut Session, direct: &mut Direct) -> String {
    let group = direct.revision;
    let list = direct.ask("tools/list", "");
    let start = list.line.find(r#"{"name":"echo""#).unwrap();
    let end = list.line.find(r#",{"name":"read_only_echo""#).unwrap();
    let echo = &list.line[start..end];
    let members = format!(r#""name":"get_dynamic_tools","arguments":{{"group":"{group}","lazy":false}}"#);
    let told = session.ask("tools/call", &members).json();
    assert!(crate::support::text_of(&told["result"]).contains(echo), "{echo}\nin {told}");
    by_form(true)
}

fn level(session: &mut Session, upstream: &str) -> String {
    if is_stateless(session.revision) {
        let code = session.ask("logging/setLevel", r#""level":"info""#).code().unwrap();
        assert_eq!(code, -32601);
    } else if let Some(code) = session.ask("logging/setLevel", r#""level":"info""#).code() {
        return refused(code);
    }
    // It counts for what is said from now on.
    let mut comes = |level: &str| {
        let args = format!(
            r#"{{"method":"notifications/message","params":{{"level":"{level}","logger":"matrix","data":1.10}}}}"#
        );
        let id = session.send_call(upstream, "tell", &args, &session.hears("info"), "");
        session.proxy.answer(id);
        session.heard().iter().any(|told| told.line.contains(r#""logger":"matrix","data":1.10"#))
    };
    assert!(!comes("debug"), "{upstream}");
    if comes("warning") {
        by_form(is_stateless(session.revision) == is_stateless(upstream))
    } else {
        "kept back".to_owned()
    }
}

/// Codes, messages and data of an upstream.
fn errors(session: &mut Session, direct: &mut Direct) -> String {
    let members = r#""name":"error""#;
    let wanted = direct.ask("prompts/get", members);
    let got = session.ask("prompts/get", &format!(r#""group":"{}",{members}"#, direct.revision));
    assert_eq!(got.raw("error"), wanted.raw("error"));
    let uri = r#""uri":"mem://nothing""#;
    let got = session.ask("resources/read", &format!(r#""group":"{}",{uri}"#, direct.revision)).code();
    assert_eq!(got, Some(if is_stateless(session.revision) { -32602 } else { -32002 }), "not found");
    by_form(got == direct.ask("resources/read", uri).code())
}

fn roots(session: &mut Session, upstream: &str) -> String {
    let method = "notifications/roots/list_changed";
    session.proxy.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"x":1e400}}}}"#));
    let is_due = !is_stateless(session.revision) && !is_stateless(upstream);
    if is_due {
        session.records[upstream].line(method, 0);
    } else {
        session.text(upstream, "echo", r#"{"text":"x"}"#);
    }
    match session.records[upstream].lines(method).is_empty() {
        true => "kept back".to_owned(),
        false => by_form(is_due),
    }
}
