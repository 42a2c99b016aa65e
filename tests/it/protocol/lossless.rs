//! Property tests: generated messages pass through a running program byte for byte.
//!
//! The generated bodies have members of every result and unknown ones, numbers that no type can represent, and text with
//! every kind of escape.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use serde_json::value::RawValue;

use super::full_config;
use crate::support::{Message, Proxy, text_of};

/// Cases of each test. A few suffice, because a fault affects most generated bodies.
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

/// The text of strings is put together from these.
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

/// Names of members of several results, names that the program knows, and unknown names.
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

/// Any JSON in any notation.
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
                .prop_map(|(members, space)| format!("{{{members}{space}}}")),
        ]
    })
}

/// Members of an object, without its braces and without duplicate names.
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

/// Members of params with names that no request has.
fn unknown_members() -> impl Strategy<Value = String> {
    const UNKNOWN: [&str; 5] = ["x-unknown", "x-ö", "messages", "contents", r"x-\u0041"];
    members(select(&UNKNOWN[..]), value())
}

/// Requests that the program forwards: the method, and the members of the params that route it.
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

/// Checks a property of generated values in one session.
fn for_all<T: std::fmt::Debug>(values: impl Strategy<Value = T>, case: impl Fn(&mut Proxy, T)) {
    let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {}});
    let mut proxy = Proxy::with_capabilities(&full_config(&[]), capabilities);
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

/// Sends a request with these additional members in its params.
fn send_with_members(proxy: &mut Proxy, (method, params): (&str, &str), more: &str) -> Message {
    let id = proxy.send_raw_request(method, &format!("{{{params},{more}}}"));
    proxy.response(id)
}

#[test]
fn results_pass_byte_for_byte() {
    for_all(body(), |proxy, body| {
        for request in REQUESTS {
            let response = send_with_members(proxy, request, &format!(r#""x-result":{body}"#));
            assert_eq!(response.raw("result"), Some(&*body), "{request:?}");
        }
    });
}

#[test]
fn errors_pass_byte_for_byte() {
    let codes =
        select(&["-32603", "-32002", "-32042", "-31005", "0", "1e3", "123456789012345678901234567890"][..]);
    for_all((codes, text(), value(), unknown_members()), |proxy, (code, message, data, more)| {
        let comma = if more.is_empty() { "" } else { "," };
        let error = format!(r#"{{"code":{code},"message":{message},"data":{data}{comma}{more}}}"#);
        for request in REQUESTS {
            let response = send_with_members(proxy, request, &format!(r#""x-error":{error}"#));
            assert_eq!(response.raw("error"), Some(&*error), "{request:?}");
        }
    });
}

#[test]
fn params_pass_byte_for_byte() {
    for_all((unknown_members(), body()), |proxy, (more, meta)| {
        let comma = if more.is_empty() { "" } else { "," };
        let sent = format!(r#""_meta":{meta},"x-echo":true{comma}{more}"#);
        for request in REQUESTS {
            let response = send_with_members(proxy, request, &sent);
            let result = response.raw("result").unwrap_or_else(|| panic!("{request:?}: {}", response.line));
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
fn arguments_pass_byte_for_byte() {
    for_all(body(), |proxy, args| {
        let id = proxy.send_raw_call("g", "args", &args);
        let expected = format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quoted(&args));
        assert_eq!(proxy.response(id).raw("result"), Some(&*expected));
        let id = proxy.send_raw_request("tools/call", &format!(r#"{{"name":"g__args","arguments":{args}}}"#));
        assert_eq!(proxy.response(id).raw("result"), Some(&*expected));
    });
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn requests_to_the_client_and_their_responses_pass_byte_for_byte() {
    for_all((body(), body()), |proxy, (params, outcome)| {
        let inner = params.strip_prefix("{").unwrap().strip_suffix('}').unwrap();
        let separator = if inner.is_empty() { "" } else { "," };
        for (method, group) in [
            ("roots/list", ""),
            ("sampling/createMessage", r#""_meta":{"dynamic-mcp/group":"g"}"#),
            ("elicitation/create", r#""message":"[g] asks for input""#),
        ] {
            let named = match group {
                "" => params.clone(),
                _ => format!("{{{inner}{separator}{group}}}"),
            };
            let args = format!(r#"{{"method":"{method}","params":{params}}}"#);
            let call = proxy.send_raw_call("g", "ask", &args);
            let request = proxy.wait_for_message(method);
            assert_eq!(request.raw("params"), Some(&*named), "{method}");
            proxy.respond(&request, &format!(r#""result":{outcome}"#));
            let response = proxy.response(call).json();
            let line = text_of(&response["result"]);
            assert!(line.ends_with(&format!(r#""result":{outcome}}}"#)), "{outcome} in {line}");
        }
    });
}

#[test]
fn notifications_pass_byte_for_byte() {
    let methods = ["notifications/message", "notifications/resources/updated", "notifications/x-unknown"];
    for_all(unknown_members(), |proxy, members| {
        let params = format!("{{{members}}}");
        for method in methods {
            let id =
                proxy.send_raw_call("g", "tell", &format!(r#"{{"method":"{method}","params":{params}}}"#));
            proxy.response(id);
            assert_eq!(proxy.wait_for_message(method).raw("params"), Some(&*params), "{method}");
        }
    });
}
