//! Nothing that one side says is another when it arrives: generated bodies through one running program.
//!
//! Bodies have members of every result there is, and of none; numbers that no type holds; text in every spelling. They
//! are compared byte for byte.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use serde_json::value::RawValue;

use super::{all, client, heard, reply, send_tool};
use crate::support::{Message, Proxy, servers, text_of};

/// For each method: generated bodies are small, and what is wrong is wrong with most of them.
const CASES: u32 = 48;

const NUMBERS: [&str; 12] = [
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1.10",
    "1e400",
    "-1E+2",
    "1e-400",
    "9007199254740993",
    "18446744073709551616",
    "123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
];

const PIECES: [&str; 18] = [
    "a",
    "é",
    "😀",
    "\u{2028}",
    " ",
    r"\u00e9",
    r"\ud83d\ude00",
    r"\ud800",
    r"\/",
    "/",
    r"\n",
    r"\u0000",
    r#"\""#,
    r"\\",
    r"\u001f",
    "\u{7f}",
    "}",
    "]",
];

/// Names that results of other methods have, that we know, and that nobody knows.
const NAMES: [&str; 24] = [
    "messages",
    "tools",
    "contents",
    "content",
    "task",
    "resources",
    "prompts",
    "resourceTemplates",
    "completion",
    "structuredContent",
    "isError",
    "nextCursor",
    "type",
    "text",
    "uri",
    "annotations",
    "resultType",
    "requestState",
    "inputRequests",
    "x-unknown",
    "",
    "ö",
    r"\u0041",
    "id",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(select(&PIECES[..]), 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// Any JSON, as somebody may write it.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(&["null", "true", "false", "[]", "{}", r#""""#][..]).prop_map(str::to_owned),
        select(&NUMBERS[..]).prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        text(),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let space = || select(&["", " ", "\t"][..]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), space())
                .prop_map(|(values, space)| format!("[{space}{}]", values.join(&format!("{space},")))),
            (members(select(&NAMES[..]), inner), space())
                .prop_map(|(all, space)| format!("{{{all}{space}}}")),
        ]
    })
}

/// Members of an object, without its braces. No name is there twice.
fn members(
    names: impl Strategy<Value = &'static str>,
    values: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    prop::collection::btree_map(names, values, 0..5).prop_map(|members| {
        let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
        members.collect::<Vec<_>>().join(",")
    })
}

fn body() -> impl Strategy<Value = String> {
    members(select(&NAMES[..]), value()).prop_map(|members| format!("{{{members}}}"))
}

/// Members of params: by names that no request has.
fn unknown_members() -> impl Strategy<Value = String> {
    const UNKNOWN: [&str; 5] = ["x-unknown", "x-ö", "messages", "contents", r"x-\u0041"];
    members(select(&UNKNOWN[..]), value())
}

/// A request through the program: its method, and its params without what they are to carry.
const REQUESTS: [(&str, &str); 10] = [
    ("tools/call", r#""name":"call_dynamic_tool","arguments":{"group":"g","name":"args","args":{}}"#),
    ("tools/call", r#""name":"g__args","arguments":{}"#),
    ("resources/list", r#""group":"g""#),
    ("resources/templates/list", r#""group":"g""#),
    ("resources/read", r#""group":"g","uri":"mem://one""#),
    ("resources/read", r#""uri":"mem://one""#),
    ("prompts/list", r#""group":"g""#),
    ("prompts/get", r#""group":"g","name":"greet""#),
    ("prompts/get", r#""name":"g__greet""#),
    (
        "completion/complete",
        r#""ref":{"type":"ref/prompt","name":"g__greet"},"argument":{"name":"a","value":""}"#,
    ),
];

/// Runs `case` with generated values in one session.
fn for_all<T: std::fmt::Debug>(values: impl Strategy<Value = T>, case: impl Fn(&mut Proxy, T)) {
    let everything = json!({"roots": {}, "sampling": {}, "elicitation": {}});
    let mut proxy = client(&servers([("g", all(&[]))]), everything);
    proxy.upstream_pid("g");
    let proxy = RefCell::new(proxy);
    let config =
        Config { cases: CASES, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let run = |value| {
        case(&mut proxy.borrow_mut(), value);
        Ok::<_, TestCaseError>(())
    };
    TestRunner::new(config).run(&values, run).unwrap_or_else(|error| panic!("{error}"));
}

fn ask(proxy: &mut Proxy, (method, params): (&str, &str), more: &str) -> Message {
    let id = proxy.send_raw(method, &format!("{{{params},{more}}}"));
    proxy.answer(id)
}

#[test]
fn results() {
    for_all(body(), |proxy, body| {
        for request in REQUESTS {
            let answer = ask(proxy, request, &format!(r#""x-result":{body}"#));
            assert_eq!(answer.raw("result"), Some(&*body), "{request:?}");
        }
    });
}

#[test]
fn errors() {
    let codes =
        select(&["-32603", "-32002", "-32042", "-31005", "0", "1e3", "123456789012345678901234567890"][..]);
    for_all((codes, text(), value(), unknown_members()), |proxy, (code, message, data, more)| {
        let comma = if more.is_empty() { "" } else { "," };
        let error = format!(r#"{{"code":{code},"message":{message},"data":{data}{comma}{more}}}"#);
        for request in REQUESTS {
            let answer = ask(proxy, request, &format!(r#""x-error":{error}"#));
            assert_eq!(answer.raw("error"), Some(&*error), "{request:?}");
        }
    });
}

#[test]
fn params() {
    for_all((unknown_members(), body()), |proxy, (more, meta)| {
        let comma = if more.is_empty() { "" } else { "," };
        let sent = format!(r#""_meta":{meta},"x-echo":true{comma}{more}"#);
        for request in REQUESTS {
            let answer = ask(proxy, request, &sent);
            let result = answer.raw("result").unwrap_or_else(|| panic!("{request:?}: {}", answer.line));
            let arrived = result.strip_prefix(r#"{"echo":"#).unwrap().strip_suffix('}').unwrap();
            let of = |object: &str| -> BTreeMap<String, String> {
                let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap();
                members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
            };
            let arrived = of(arrived);
            for (name, value) in of(&format!("{{{sent}}}")) {
                assert_eq!(arrived.get(&name), Some(&value), "{name} of {request:?}");
            }
            assert!(!arrived.contains_key("group"), "{request:?}");
        }
    });
}

#[test]
fn arguments() {
    for_all(body(), |proxy, args| {
        let id = send_tool(proxy, "g", "args", &args);
        let wanted = format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quoted(&args));
        assert_eq!(proxy.answer(id).raw("result"), Some(&*wanted));
        let id = proxy.send_raw("tools/call", &format!(r#"{{"name":"g__args","arguments":{args}}}"#));
        assert_eq!(proxy.answer(id).raw("result"), Some(&*wanted));
    });
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn questions_and_their_answers() {
    for_all((body(), body()), |proxy, (params, outcome)| {
        for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
            let args = format!(r#"{{"method":"{method}","params":{params}}}"#);
            let call = send_tool(proxy, "g", "ask", &args);
            let asked = heard(proxy, method);
            assert_eq!(asked.raw("params"), Some(&*params), "{method}");
            reply(proxy, &asked, &format!(r#""result":{outcome}"#));
            let answered = proxy.answer(call).json();
            let line = text_of(&answered["result"]);
            assert!(line.ends_with(&format!(r#""result":{outcome}}}"#)), "{outcome} in {line}");
        }
    });
}

#[test]
fn notifications() {
    let methods = ["notifications/message", "notifications/resources/updated", "notifications/x-unknown"];
    for_all(unknown_members(), |proxy, members| {
        let params = format!("{{{members}}}");
        for method in methods {
            let id = send_tool(proxy, "g", "tell", &format!(r#"{{"method":"{method}","params":{params}}}"#));
            proxy.answer(id);
            assert_eq!(heard(proxy, method).raw("params"), Some(&*params), "{method}");
        }
    });
}
