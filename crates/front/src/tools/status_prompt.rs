//! Our own prompt, `status`, which many clients offer as a slash command.

use super::status;
use crate::passthrough::{completion, prompts};
use crate::session::invocation::Invocation;
use serde_json::json;
use wire::{Raw, Reply, raw};

/// The name of the prompt. Prompts of upstreams have names with `__`.
pub const NAME: &str = "status";
const DESCRIPTION: &str = "Shows which MCP servers work, what failed, and what to do about it";
/// What the model is asked to do with the status.
const INSTRUCTION: &str = "This is the status of the MCP servers behind dynamic-mcp. Tell me in a few sentences which servers \
    do not work, why, and what I have to do, with the commands and paths as they stand here. If all work, say so.";

/// `prompts/list`: ours and those of all groups.
///
/// # Errors
///
/// See [`prompts::list`].
pub async fn list(invocation: Invocation) -> Reply {
    let definition =
        json!({ "name": NAME, "title": "Status of the MCP servers", "description": DESCRIPTION });
    prompts::list(invocation, definition.to_string().into()).await
}

/// `prompts/get`: ours, or that of a group.
///
/// # Errors
///
/// See [`prompts::get`]. Ours has none.
pub async fn get(invocation: Invocation) -> Reply {
    if !is_ours(&invocation, raw::get_str(&invocation.params, "name")) {
        return prompts::get(invocation).await;
    }
    let groups = invocation.groups();
    groups.check_approvals().await;
    let status = status::for_reader(&invocation.context, &groups.all());
    let text = format!("{INSTRUCTION}\n\n{}", status.text);
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    Ok(Raw::from(json!({ "description": DESCRIPTION, "messages": [message] }).to_string()))
}

/// `completion/complete`: ours, which has no arguments, or that of a group.
///
/// # Errors
///
/// See [`completion::complete`]. Ours has none.
pub async fn complete(invocation: Invocation) -> Reply {
    let reference = raw::get(&invocation.params, "ref");
    let name = reference.filter(|reference| raw::get_str(reference, "type").as_deref() == Some("ref/prompt"));
    let name = name.and_then(|reference| raw::get_str(&reference, "name"));
    if is_ours(&invocation, name) {
        return Ok(Raw::from_static(br#"{"completion":{"values":[]}}"#));
    }
    completion::complete(invocation).await
}

/// Returns whether a request that names a prompt means ours.
fn is_ours(invocation: &Invocation, name: Option<String>) -> bool {
    name.is_some_and(|name| name == NAME) && raw::get(&invocation.params, "group").is_none()
}
