//! `--protocol`: everything else of MCP, with bodies as bytes.
//!
//! A request of any method that has `x-result`, `x-error` or `x-echo` in its params is answered with that, or with them.
//! Resources: `one`, `two`, `params` (the params of the request as text), `weird`, `error`, `hang` and `crash`;
//! `crash-once/PATH` exits unless there is a file PATH, and makes it. `item/…` is covered by a template, `linked/…`
//! only read. Prompts: `greet`, `params`, `weird`, `error`, and one of a long name. A completion returns its params.
//! Tools: `tell` sends a notification, `grow` adds to a list and says so, `link` names a resource, `cancel_asked` takes
//! back what `ask` asked, `end_listening` ends subscriptions; one of a long name returns its arguments. `together`
//! answers `n` calls of it at once. The tool `asks` (`kinds`, `rounds`), the resource `asks/KINDS` and the prompt `asks`
//! (`kinds`) ask the client (`elicitation`, `sampling`, `roots`) and return its answers.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::spawn;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::asking;
use crate::server::Server;
use crate::stateless::{end_listening, tell};
use crate::tools::text;
use crate::wire::quote;

/// Nothing of it may change on its way.
const WEIRD: &str = r#""weird":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö \u00f6 \ud83d\ude00 \/ \ud800"}, "spaced" : [ 1 , 2 ]"#;

const TOOLS: [&str; 7] = ["tell", "grow", "link", "cancel_asked", "asks", "together", "end_listening"];

/// Entries that `grow` added.
#[derive(Default)]
pub(crate) struct Grown {
    resources: AtomicUsize,
    prompts: AtomicUsize,
}

pub(crate) fn tools() -> impl Iterator<Item = String> {
    let long = format!("long_{}", "x".repeat(60));
    let names = TOOLS.iter().map(|name| (*name).to_owned()).chain([long]);
    names.map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
}

/// What `tell` and `grow` and `link` are given.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    list: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
}

pub(crate) fn call(server: &Server, id: &str, name: &str, arguments: &str) -> Option<String> {
    let told: Told<'_> = serde_json::from_str(arguments).ok()?;
    match name {
        "tell" => tell(server, id, &told.method?, told.params.map_or("{}", RawValue::get)),
        "grow" => {
            let list = told.list?;
            let grown = match &*list {
                "tools" => &server.added,
                "prompts" => &server.grown.prompts,
                _ => &server.grown.resources,
            };
            grown.fetch_add(1, Ordering::Relaxed);
            tell(server, id, &format!("notifications/{list}/list_changed"), "{}");
        }
        "link" => {
            let uri = quote(&told.uri?);
            return Some(format!(
                r#"{{"content":[{{"type":"resource_link","uri":{uri},"name":"linked"}}]}}"#
            ));
        }
        "end_listening" => end_listening(server, told.method.as_deref()),
        "cancel_asked" => server.cancel_asked(r#","reason":"no longer needed","x":1e400"#),
        name if name.starts_with("long_") => return Some(text(arguments)),
        _ => return None,
    }
    Some(text("done"))
}

/// What a request may say of its own answer.
#[derive(Deserialize)]
struct AsTold<'a> {
    #[serde(borrow, rename = "x-result")]
    result: Option<&'a RawValue>,
    #[serde(borrow, rename = "x-error")]
    error: Option<&'a RawValue>,
    #[serde(default, rename = "x-echo")]
    echo: bool,
    #[serde(default, rename = "x-exit")]
    exit: bool,
}

/// Whether the request, of whatever method, said how it is to be answered: `x-result`, `x-error`, with its own params,
/// `x-echo`, or not at all, `x-exit`. Then it is.
pub(crate) fn serve_as_told(server: &Server, id: &str, params: &str) -> bool {
    if !server.flags.has("--protocol") {
        return false;
    }
    match serde_json::from_str(params) {
        Ok(AsTold { result: Some(result), .. }) => server.wire.result(id, result.get()),
        Ok(AsTold { error: Some(error), .. }) => server.wire.error(id, error.get()),
        Ok(AsTold { exit: true, .. }) => exit(1),
        Ok(AsTold { echo: true, .. }) => server.wire.result(id, &format!(r#"{{"echo":{params}}}"#)),
        _ => return false,
    }
    true
}

/// Whether the request is one of these; then it is answered, or never will be.
pub(crate) fn serve(server: &Arc<Server>, id: &str, method: &str, params: &str) -> bool {
    if !server.flags.has("--protocol") {
        return false;
    }
    match method {
        "resources/list" => list(server, id, "resources", params, &resources(server)),
        "resources/templates/list" => {
            let template =
                format!(r#"{{"uriTemplate":"{}item/{{id}}","name":"item","x":1.0}}"#, scheme(server));
            list(server, id, "resourceTemplates", params, &[template]);
        }
        "prompts/list" => list(server, id, "prompts", params, &prompts(server)),
        "resources/read" => read(server, id, params),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => server.wire.result(id, "{}"),
        "prompts/get" => {
            let name = member(params, "name");
            let content = |text: &str| {
                format!(
                    r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{}}}}}]"#,
                    quote(text)
                )
            };
            match &*name {
                "error" => server.wire.error(id, &error()),
                "weird" => server.wire.result(id, &format!("{},{WEIRD}}}", content("weird"))),
                "asks" => {
                    let kinds = crate::value(serde_json::from_str(params).ok())["arguments"]["kinds"].take();
                    let kinds = kinds.as_str().unwrap_or_default();
                    asks(server, id, params, kinds, |inputs| {
                        format!(
                            r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{}}}}}]}}"#,
                            quote(inputs)
                        )
                    });
                }
                _ => server.wire.result(id, &format!("{}}}", content(params))),
            }
        }
        "completion/complete" => {
            let values = quote(params);
            server
                .wire
                .result(id, &format!(r#"{{"completion":{{"values":[{values}],"total":1.0}},{WEIRD}}}"#));
        }
        _ => return false,
    }
    true
}

/// Answers once the client said what is asked, with what `result` makes of that.
fn asks(
    server: &Arc<Server>,
    id: &str,
    params: &str,
    kinds: &str,
    result: impl Fn(&str) -> String + Send + 'static,
) {
    let (server, id, params, kinds) = (server.clone(), id.to_owned(), params.to_owned(), kinds.to_owned());
    spawn(move || {
        let questions = asking::questions(kinds.split(['/', ',']));
        if let Some(inputs) = asking::inputs(&server, &id, &params, &questions, 1) {
            server.wire.result(&id, &result(&inputs));
        }
    });
}

fn read(server: &Arc<Server>, id: &str, params: &str) {
    let uri = member(params, "uri");
    let contents = |text: &str| format!(r#"{{"contents":[{{"uri":{},"text":{}}}]"#, quote(&uri), quote(text));
    let Some(path) = uri.strip_prefix(&*scheme(server)) else { return not_found(server, id, &uri) };
    match path.split_once('/').unwrap_or((path, "")) {
        ("weird", _) => server.wire.result(id, &format!("{},{WEIRD}}}", contents("weird"))),
        ("params", _) => server.wire.result(id, &format!("{}}}", contents(params))),
        ("error", _) => server.wire.error(id, &error()),
        ("asks", kinds) => {
            let uri = quote(&uri);
            asks(server, id, params, kinds, move |inputs| {
                format!(r#"{{"contents":[{{"uri":{uri},"text":{}}}]}}"#, quote(inputs))
            });
        }
        ("hang", _) => (),
        ("crash", _) => exit(1),
        ("crash-once", file) if !Path::new(file).exists() => {
            File::create(file).unwrap();
            exit(1)
        }
        ("one" | "two" | "item" | "linked" | "many" | "grown" | "crash-once", _) => {
            let name = server.flags.text("--name").unwrap_or_default();
            server.wire.result(id, &format!("{}}}", contents(&format!("{path} of {name}"))));
        }
        _ => not_found(server, id, &uri),
    }
}

fn not_found(server: &Server, id: &str, uri: &str) {
    let uri = quote(uri);
    let code = if server.wire.stateless.has(id) { -32602 } else { -32002 };
    server
        .wire
        .error(id, &format!(r#"{{"code":{code},"message":"Resource not found","data":{{"uri":{uri}}}}}"#));
}

fn error() -> String {
    format!(r#"{{"code":123456789012,"message":"no \"luck\"","data":{{{WEIRD}}},"x":1e400}}"#)
}

fn resources(server: &Server) -> Vec<String> {
    let named = ["one", "two", "params", "weird", "error", "hang", "crash"].map(str::to_owned);
    let many = (0..server.flags.number("--many").unwrap_or(0)).map(|n| format!("many/{n}"));
    let asks = server.flags.has("--asks").then(|| "asks".to_owned());
    let grown = (0..server.grown.resources.load(Ordering::Relaxed)).map(|n| format!("grown/{n}"));
    let entry = |path: String| format!(r#"{{"uri":"{}{path}","name":"{path}","size":1.0}}"#, scheme(server));
    named.into_iter().chain(many).chain(asks).chain(grown).map(entry).collect()
}

fn prompts(server: &Server) -> Vec<String> {
    let long = format!("long-{}", "x".repeat(60));
    let named = ["greet", "params", "weird", "error", &long, "odd näme"].map(str::to_owned);
    let asks = server.flags.has("--asks").then(|| "asks".to_owned());
    let grown = (0..server.grown.prompts.load(Ordering::Relaxed)).map(|n| format!("grown_{n}"));
    named
        .into_iter()
        .chain(asks)
        .chain(grown)
        .map(|name| format!(r#"{{"name":{},"x":1.0}}"#, quote(&name)))
        .collect()
}

fn list(server: &Server, id: &str, member_name: &str, params: &str, entries: &[String]) {
    let page = server.flags.number("--page").map_or(entries.len(), |page| page.max(1) as usize);
    let cursor = member(params, "cursor");
    let start =
        if cursor.is_empty() { Some(0) } else { cursor.strip_prefix("opaque:").and_then(|n| n.parse().ok()) };
    let Some(start) = start.filter(|start| *start <= entries.len()) else {
        return server.wire.error(id, r#"{"code":-32602,"message":"Invalid cursor","data":1e400}"#);
    };
    let end = entries.len().min(start + page);
    let next = if end < entries.len() { format!(r#","nextCursor":"opaque:{end}""#) } else { String::new() };
    server
        .wire
        .result(id, &format!(r#"{{"{member_name}":[{}]{next},"x":1e400}}"#, entries[start..end].join(",")));
}

fn scheme(server: &Server) -> String {
    format!("{}://", server.flags.text("--scheme").unwrap_or("mem"))
}

/// A string of an object; empty where there is none.
fn member(object: &str, name: &str) -> String {
    let all: std::collections::HashMap<String, &RawValue> = serde_json::from_str(object).unwrap_or_default();
    all.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}
