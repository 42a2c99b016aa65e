//! `--protocol`: the rest of MCP, with bodies as bytes.
//!
//! Any request: `x-result`, `x-error`, `x-echo` or `x-exit` in its params prescribe its answer ([`PrescribedAnswer`]).
//!
//! Resources: `one`, `two`, `params` (the params of the request as text), `weird`, `error`, `hang` and `crash`.
//! `crash-once/PATH` creates the file PATH and exits if there is none. A template covers `item/…`. `linked/…` can be
//! read but is not listed.
//!
//! Prompts: `greet`, `params`, `weird`, `error`, and one with a long name. A completion returns its params.
//!
//! Tools: `tell` sends a notification. `grow` adds an entry to a list and sends `list_changed`. `link` returns a link to
//! a resource. `cancel_asked` cancels the requests of `ask`. `end_listening` ends subscriptions. A tool with a long name
//! returns its arguments. `together` answers `n` of its calls at once.
//!
//! The tool `asks` (`kinds`, `rounds`), the resource `asks/KINDS` and the prompt `asks` (`kinds`) send requests to the
//! client (`elicitation`, `sampling`, `roots`) and return its responses.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::spawn;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input_requests;
use crate::server::Server;
use crate::stateless::{end_subscriptions, notify};
use crate::tools::text_result;
use crate::wire::quote;

/// Members that a proxy must pass byte for byte.
const WEIRD: &str = r#""weird":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö \u00f6 \ud83d\ude00 \/ \ud800"}, "spaced" : [ 1 , 2 ]"#;

const TOOLS: [&str; 7] = ["tell", "grow", "link", "cancel_asked", "asks", "together", "end_listening"];

/// How many entries `grow` has added.
#[derive(Default)]
pub(crate) struct AddedEntries {
    resources: AtomicUsize,
    prompts: AtomicUsize,
}

/// The extension of `--skills`.
pub(crate) const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The directory of the skill.
const SKILL: &str = "skill://refunds";

/// The definitions of the tools, as JSON.
pub(crate) fn tools() -> impl Iterator<Item = String> {
    let long = format!("long_{}", "x".repeat(60));
    let names = TOOLS.iter().map(|name| (*name).to_owned()).chain([long]);
    names.map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#))
}

/// The arguments of `tell`, `grow`, `link` and `end_listening`.
#[derive(Deserialize)]
struct ToolArguments<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    list: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
}

/// Returns the result of a tool. `None`: there is no such tool, or its arguments are wrong.
pub(crate) fn call_tool(server: &Server, id: &str, name: &str, arguments: &str) -> Option<String> {
    let args: ToolArguments<'_> = serde_json::from_str(arguments).ok()?;
    match name {
        "tell" => notify(server, id, &args.method?, args.params.map_or("{}", RawValue::get)),
        "grow" => {
            let list = args.list?;
            let added = match &*list {
                "tools" => &server.added_tools,
                "prompts" => &server.added_entries.prompts,
                _ => &server.added_entries.resources,
            };
            added.fetch_add(1, Ordering::Relaxed);
            notify(server, id, &format!("notifications/{list}/list_changed"), "{}");
        }
        "link" => {
            let uri = quote(&args.uri?);
            return Some(format!(
                r#"{{"content":[{{"type":"resource_link","uri":{uri},"name":"linked"}}]}}"#
            ));
        }
        "end_listening" => end_subscriptions(server, args.method.as_deref()),
        "cancel_asked" => server.cancel_client_requests(r#","reason":"no longer needed","x":1e400"#),
        name if name.starts_with("long_") => return Some(text_result(arguments)),
        _ => return None,
    }
    Some(text_result("done"))
}

/// The answer that the params of a request prescribe.
#[derive(Deserialize)]
struct PrescribedAnswer<'a> {
    /// The result.
    #[serde(borrow, rename = "x-result")]
    result: Option<&'a RawValue>,
    /// The error object.
    #[serde(borrow, rename = "x-error")]
    error: Option<&'a RawValue>,
    /// The result is the params.
    #[serde(default, rename = "x-echo")]
    echo: bool,
    /// No answer: the process exits.
    #[serde(default, rename = "x-exit")]
    exit: bool,
}

/// Answers a request whose params prescribe the answer. Returns whether they do.
pub(crate) fn answer_as_prescribed(server: &Server, id: &str, params: &str) -> bool {
    if !server.flags.has("--protocol") {
        return false;
    }
    match serde_json::from_str(params) {
        Ok(PrescribedAnswer { result: Some(result), .. }) => server.wire.result(id, result.get()),
        Ok(PrescribedAnswer { error: Some(error), .. }) => server.wire.error(id, error.get()),
        Ok(PrescribedAnswer { exit: true, .. }) => exit(1),
        Ok(PrescribedAnswer { echo: true, .. }) => server.wire.result(id, &format!(r#"{{"echo":{params}}}"#)),
        _ => return false,
    }
    true
}

/// Handles a request, except for `tools/*`. Returns `false` if the method is unknown.
pub(crate) fn handle(server: &Arc<Server>, id: &str, method: &str, params: &str) -> bool {
    if !server.flags.has("--protocol") {
        return false;
    }
    match method {
        "resources/list" => list(server, id, "resources", params, &resources(server)),
        "resources/templates/list" => {
            let template =
                format!(r#"{{"uriTemplate":"{}item/{{id}}","name":"item","x":1.0}}"#, uri_prefix(server));
            let more = server.flags.text("--template");
            let more = more.map(|more| format!(r#"{{"uriTemplate":{},"name":"more"}}"#, quote(more)));
            let templates: Vec<_> = std::iter::once(template).chain(more).collect();
            list(server, id, "resourceTemplates", params, &templates);
        }
        "prompts/list" => list(server, id, "prompts", params, &prompts(server)),
        "skills/list" | "skills/get" | "resources/directory/read" => {
            if !server.flags.has("--skills") {
                return false;
            }
            skills(server, id, method, params);
        }
        "resources/read" => read(server, id, params),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => server.wire.result(id, "{}"),
        "prompts/get" => {
            let name = string_member(params, "name");
            let content = |text: &str| {
                format!(
                    r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{}}}}}]"#,
                    quote(text)
                )
            };
            match &*name {
                "error" => server.wire.error(id, &weird_error()),
                "weird" => server.wire.result(id, &format!("{},{WEIRD}}}", content("weird"))),
                "asks" => {
                    let kinds =
                        crate::to_value(serde_json::from_str(params).ok())["arguments"]["kinds"].take();
                    let kinds = kinds.as_str().unwrap_or_default();
                    answer_with_input(server, id, params, kinds, |responses| {
                        format!(
                            r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":{}}}}}]}}"#,
                            quote(responses)
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

/// Answers with `result` of the client's responses, when they are there.
fn answer_with_input(
    server: &Arc<Server>,
    id: &str,
    params: &str,
    kinds: &str,
    result: impl Fn(&str) -> String + Send + 'static,
) {
    let (server, id, params, kinds) = (server.clone(), id.to_owned(), params.to_owned(), kinds.to_owned());
    spawn(move || {
        let requests = input_requests::of_kinds(kinds.split(['/', ',']));
        if let Some(responses) = input_requests::responses(&server, &id, &params, &requests, 1) {
            server.wire.result(&id, &result(&responses));
        }
    });
}

fn read(server: &Arc<Server>, id: &str, params: &str) {
    let uri = string_member(params, "uri");
    let contents = |text: &str| format!(r#"{{"contents":[{{"uri":{},"text":{}}}]"#, quote(&uri), quote(text));
    if server.flags.has("--skills")
        && let Some(file) = uri.strip_prefix(SKILL)
        && ["/SKILL.md", "/examples/email.md", "/hidden.md"].contains(&file)
    {
        let name = server.flags.text("--name").unwrap_or_default();
        return server.wire.result(id, &format!("{}}}", contents(&format!("{file} of {name}"))));
    }
    let Some(path) = uri.strip_prefix(&*uri_prefix(server)) else { return send_not_found(server, id, &uri) };
    match path.split_once('/').unwrap_or((path, "")) {
        ("weird", _) => server.wire.result(id, &format!("{},{WEIRD}}}", contents("weird"))),
        ("params", _) => server.wire.result(id, &format!("{}}}", contents(params))),
        ("error", _) => server.wire.error(id, &weird_error()),
        ("asks", kinds) => {
            let uri = quote(&uri);
            answer_with_input(server, id, params, kinds, move |responses| {
                format!(r#"{{"contents":[{{"uri":{uri},"text":{}}}]}}"#, quote(responses))
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
        _ => send_not_found(server, id, &uri),
    }
}

/// The methods of the skills extension.
fn skills(server: &Server, id: &str, method: &str, params: &str) {
    let description = quote(server.flags.text("--name").unwrap_or_default());
    let file = |path: &str| {
        let zeros = "0".repeat(64);
        format!(r#"{{"uri":"{SKILL}/{path}","digest":"sha256:{zeros}","size":1.0}}"#)
    };
    let skill = format!(
        r#"{{"uri":"{SKILL}/SKILL.md","frontmatter":{{"name":"refunds","description":{description},"x":1.50}},"resources":[{},{}]}}"#,
        file("SKILL.md"),
        file("examples/email.md")
    );
    match (method, &*string_member(params, "uri")) {
        ("skills/list", _) => list(server, id, "skills", params, &[skill]),
        ("skills/get", "skill://refunds/SKILL.md") => {
            server.wire.result(id, &format!(r#"{{"skill":{skill},"x":1.0}}"#));
        }
        ("resources/directory/read", "skill://refunds/examples") => {
            let child = format!(r#"{{"uri":"{SKILL}/examples/email.md","name":"email.md","x":1.0}}"#);
            list(server, id, "resources", params, &[child]);
        }
        _ => server.wire.error(id, r#"{"code":-32602,"message":"no such skill or directory"}"#),
    }
}

fn send_not_found(server: &Server, id: &str, uri: &str) {
    let uri = quote(uri);
    let code = if server.wire.stateless.contains(id) { -32602 } else { -32002 };
    server
        .wire
        .error(id, &format!(r#"{{"code":{code},"message":"Resource not found","data":{{"uri":{uri}}}}}"#));
}

fn weird_error() -> String {
    format!(r#"{{"code":123456789012,"message":"no \"luck\"","data":{{{WEIRD}}},"x":1e400}}"#)
}

fn resources(server: &Server) -> Vec<String> {
    let named = ["one", "two", "params", "weird", "error", "hang", "crash"].map(str::to_owned);
    let many = (0..server.flags.number("--many").unwrap_or(0)).map(|n| format!("many/{n}"));
    let asks = server.flags.has("--asks").then(|| "asks".to_owned());
    let added = (0..server.added_entries.resources.load(Ordering::Relaxed)).map(|n| format!("grown/{n}"));
    let entry =
        |path: String| format!(r#"{{"uri":"{}{path}","name":"{path}","size":1.0}}"#, uri_prefix(server));
    named.into_iter().chain(many).chain(asks).chain(added).map(entry).collect()
}

fn prompts(server: &Server) -> Vec<String> {
    let long = format!("long-{}", "x".repeat(60));
    let named = ["greet", "params", "weird", "error", &long, "odd näme"].map(str::to_owned);
    let asks = server.flags.has("--asks").then(|| "asks".to_owned());
    let added = (0..server.added_entries.prompts.load(Ordering::Relaxed)).map(|n| format!("grown_{n}"));
    named
        .into_iter()
        .chain(asks)
        .chain(added)
        .map(|name| format!(r#"{{"name":{},"x":1.0}}"#, quote(&name)))
        .collect()
}

/// Answers with a page of `entries`.
fn list(server: &Server, id: &str, member_name: &str, params: &str, entries: &[String]) {
    let page = server.flags.number("--page").map_or(entries.len(), |page| page.max(1) as usize);
    let cursor = string_member(params, "cursor");
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

/// The scheme and the slashes that the URIs begin with.
fn uri_prefix(server: &Server) -> String {
    format!("{}://", server.flags.text("--scheme").unwrap_or("mem"))
}

/// A string member of a JSON object. Empty: there is none.
fn string_member(object: &str, name: &str) -> String {
    let all: std::collections::HashMap<String, &RawValue> = serde_json::from_str(object).unwrap_or_default();
    all.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}
