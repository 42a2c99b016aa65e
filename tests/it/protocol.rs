//! Everything of MCP except plain tool calls, from a client through the program to scripted upstreams and back:
//! resources, prompts, completions, logging, subscriptions, tasks, requests of upstreams to the client, and both eras.
//! `lossless` checks with generated bodies that messages pass unchanged.

use serde_json::{Value, json};

use crate::support::{InputRecord, full_upstream, merged, pure_config, scripted_upstream};

mod ambiguous_keys;
mod approval;
mod apps;
mod attribution;
mod client_extensions;
mod completions;
mod exposed_tools;
mod flat_at_scale;
mod list_changes;
mod logging;
mod lossless;
mod page_actions;
mod prompts;
mod resource_lists;
mod resource_reads;
mod resource_subscriptions;
mod roots;
mod server_requests;
mod skills;
mod stateless;
mod stateless_subscriptions;
mod status_page;
mod tasks;
mod tools_describe;
mod unlisted_uris;
mod upstream_batches;
mod uri_owners;

/// Members that must arrive unchanged. The scripted upstream has the same.
const WEIRD: &str = r#""weird":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö \u00f6 \ud83d\ude00 \/ \ud800"}, "spaced" : [ 1 , 2 ]"#;

/// The first member of `WEIRD`.
fn weird_member() -> &'static str {
    &WEIRD[..=WEIRD.rfind('}').unwrap()]
}

/// The capabilities of a client that shows pages.
fn shows_pages() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

/// The error that the scripted upstream responds with to requests for `error`.
fn weird_error() -> String {
    format!(r#"{{"code":123456789012,"message":"no \"luck\"","data":{{{WEIRD}}},"x":1e400}}"#)
}

/// A config with two full upstreams, `g` and `h`, each with its name as the scheme of its URIs.
fn two_schemes_config() -> Value {
    let entry = |name| full_upstream(&["--scheme", name, "--name", name]);
    pure_config([("g", entry("g")), ("h", entry("h"))])
}

/// A config with two full upstreams, `g` and `h`, which have the same URIs.
fn same_uris_config() -> Value {
    pure_config([("g", full_upstream(&[])), ("h", full_upstream(&[]))])
}

/// A config with a full upstream as its only server, `g`.
fn full_config(flags: &[&str]) -> Value {
    pure_config([("g", full_upstream(flags))])
}

/// A config with a full upstream as its only server, `g`, whose input is recorded.
fn recorded_config(record: &InputRecord) -> Value {
    pure_config([("g", record.attached_to(full_upstream(&[])))])
}

/// A config with `entry` as the group `g`, which soon idles out, and the group `clock`, which never does.
fn short_idle_config(entry: Value) -> Value {
    let entry = merged(entry, json!({"idle_timeout": "300ms"}));
    pure_config([("g", entry), ("clock", scripted_upstream(&[]))])
}

/// One member of each entry of a list, from the response to a list request.
fn members_of(response: &Value, list: &str, member: &str) -> Vec<String> {
    let entries = response["result"][list].as_array().unwrap_or_else(|| panic!("{response}"));
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}
