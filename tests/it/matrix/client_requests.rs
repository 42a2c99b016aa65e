//! Requests of the client that an upstream answers without requests of its own.

use super::session::{DirectUpstream, Session, members_by_era};
use super::{Outcomes, is_stateless, kept_back, passes_or_bridged, refused};
use crate::support::{Message, text_of};

/// How a request names its group.
enum Route {
    /// By the member `group` of its params.
    Group,
    /// By the arguments of `call_dynamic_tool`.
    MetaTool,
    /// By the exposed name of the tool.
    ExposedName,
}

/// The row of the table, the method, the members of the params, and the route.
const REQUESTS: [(&str, &str, &str, Route); 11] = [
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
    ("`skills/list`", "skills/list", "", Route::Group),
    ("`skills/get`", "skills/get", r#""uri":"skill://refunds/SKILL.md""#, Route::Group),
    (
        "`resources/directory/read`",
        "resources/directory/read",
        r#""uri":"skill://refunds/examples""#,
        Route::Group,
    ),
];

pub(super) const METHODS: [&str; 16] = [
    "`ping`",
    "`tools/list`, through `get_dynamic_tools`",
    REQUESTS[0].0,
    REQUESTS[1].0,
    REQUESTS[2].0,
    REQUESTS[3].0,
    REQUESTS[4].0,
    REQUESTS[5].0,
    REQUESTS[6].0,
    REQUESTS[7].0,
    REQUESTS[8].0,
    REQUESTS[9].0,
    REQUESTS[10].0,
    "`logging/setLevel`, or `logLevel`",
    "errors",
    "`notifications/roots/list_changed`",
];

pub(super) fn observe(session: &mut Session, direct: &mut DirectUpstream) -> Outcomes {
    let mut outcomes = vec![ping(session), tool_definitions(session, direct)];
    outcomes.extend(REQUESTS.iter().map(|(_, method, members, route)| {
        let expected = direct.request(method, members);
        let group = direct.revision;
        let response = match route {
            Route::Group => {
                let comma = if members.is_empty() { "" } else { "," };
                session.request(method, &format!(r#""group":"{group}"{comma}{members}"#))
            }
            Route::MetaTool => {
                let id = session.send_call(group, "weird", "{}", "", "");
                session.proxy.response(id)
            }
            Route::ExposedName => {
                session.request(method, &members.replace(r#""weird""#, &format!(r#""{group}__weird""#)))
            }
        };
        compared(method, &response, &expected)
    }));
    outcomes.extend([
        log_level(session, direct.revision),
        errors(session, direct),
        changed_roots(session, direct.revision),
    ]);
    METHODS.into_iter().zip(outcomes).collect()
}

/// Compares a result with that of the upstream itself.
fn compared(method: &str, response: &Message, expected: &Message) -> String {
    if let Some(code) = response.error_code() {
        return refused(code);
    }
    let [actual, expected] =
        [response, expected].map(|response| members_by_era(response.raw("result").unwrap()));
    let others = |members: &[std::collections::BTreeMap<String, String>; 2]| {
        let mut others = members[1].clone();
        // The scripted upstream quotes its params in this member, and params depend on the era.
        others.remove("completion");
        others
    };
    assert_eq!(others(&actual), others(&expected), "{method}");
    passes_or_bridged(actual[0] == expected[0])
}

fn ping(session: &mut Session) -> String {
    session.request("ping", "").error_code().map_or_else(|| "answered here".to_owned(), refused)
}

fn tool_definitions(session: &mut Session, direct: &mut DirectUpstream) -> String {
    let group = direct.revision;
    let list = direct.request("tools/list", "");
    let start = list.line.find(r#"{"name":"echo""#).unwrap();
    let end = list.line.find(r#",{"name":"read_only_echo""#).unwrap();
    let echo = &list.line[start..end];
    let members = format!(r#""name":"get_dynamic_tools","arguments":{{"group":"{group}","lazy":false}}"#);
    let described = session.request("tools/call", &members).json();
    assert!(text_of(&described["result"]).contains(echo), "{echo}\nin {described}");
    passes_or_bridged(true)
}

fn log_level(session: &mut Session, upstream: &str) -> String {
    let code = session.request("logging/setLevel", r#""level":"info""#).error_code();
    if is_stateless(session.revision) {
        assert_eq!(code, Some(-32601));
    } else if let Some(code) = code {
        return refused(code);
    }
    // The level applies to later messages.
    let mut is_forwarded = |level: &str| {
        let args = format!(
            r#"{{"method":"notifications/message","params":{{"level":"{level}","logger":"matrix","data":1.10}}}}"#
        );
        let id = session.send_call(upstream, "tell", &args, &session.log_level_member("info"), "");
        session.proxy.response(id);
        let received = session.received_messages();
        received.iter().any(|message| message.line.contains(r#""logger":"matrix","data":1.10"#))
    };
    assert!(!is_forwarded("debug"), "{upstream}");
    if is_forwarded("warning") {
        passes_or_bridged(is_stateless(session.revision) == is_stateless(upstream))
    } else {
        kept_back()
    }
}

/// The codes, messages and data of an upstream's errors.
fn errors(session: &mut Session, direct: &mut DirectUpstream) -> String {
    let members = r#""name":"error""#;
    let expected = direct.request("prompts/get", members);
    let response = session.request("prompts/get", &format!(r#""group":"{}",{members}"#, direct.revision));
    assert_eq!(response.raw("error"), expected.raw("error"));
    let uri = r#""uri":"mem://nothing""#;
    let code =
        session.request("resources/read", &format!(r#""group":"{}",{uri}"#, direct.revision)).error_code();
    assert_eq!(code, Some(if is_stateless(session.revision) { -32602 } else { -32002 }), "not found");
    passes_or_bridged(code == direct.request("resources/read", uri).error_code())
}

fn changed_roots(session: &mut Session, upstream: &str) -> String {
    let method = "notifications/roots/list_changed";
    session.proxy.write_line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"x":1e400}}}}"#));
    let is_expected = !is_stateless(session.revision) && !is_stateless(upstream);
    if is_expected {
        session.records[upstream].wait_for(method, 0);
    } else {
        session.call_text(upstream, "echo", r#"{"text":"x"}"#);
    }
    match session.records[upstream].lines_of(method).is_empty() {
        true => kept_back(),
        false => passes_or_bridged(is_expected),
    }
}
