//! The status as an MCP App (SEP-1865): the tools `show_status` and `status_data`, and the page as a resource. Only clients
//! that show pages of HTML have them. And our own prompt, `status`, which many clients offer as a slash command.
//!
//! The result of `show_status` has the status of this instance alone, because models may read it. The page then asks for
//! `status_data`, which no model calls.

use super::status;
use crate::errors;
use crate::names::uri_owner;
use crate::passthrough::{prompts, resources};
use crate::session::context::{Invocation, RequestContext};
use crate::tools::status_page::{PAGE, URI};
use serde_json::json;
use wire::protocol::PAGE_MIME_TYPE;
use wire::{Raw, Reply, raw};

/// Answers a call of one of the tools. `with_others`: whether the result has the other instances of the user.
///
/// # Errors
///
/// The client has no page.
pub(crate) async fn call(context: &RequestContext, with_others: bool) -> Reply {
    let reports = context.requester.status_page().ok_or_else(errors::unknown_method)?;
    let groups = context.groups();
    groups.check_approvals().await;
    let own = status::page_report(groups).await;
    let report = reports(own, with_others).await;
    let text = match with_others {
        true => "The data of the status page.".to_owned(),
        false => status::for_reader(context, &groups.all()).text,
    };
    Ok(json!({ "content": [{ "type": "text", "text": text }], "structuredContent": report })
        .to_string()
        .into())
}

/// `resources/list`: the page, if the client shows pages, and the resources of all groups.
///
/// # Errors
///
/// See [`resources::list`].
pub(crate) async fn list_resources(invocation: Invocation) -> Reply {
    let has_page = invocation.context.requester.status_page().is_some();
    let page = json!({
        "uri": URI,
        "name": "status",
        "title": "Status of the MCP servers",
        "mimeType": PAGE_MIME_TYPE,
    });
    resources::list(invocation, has_page.then(|| page.to_string().into())).await
}

/// `resources/read`: the page, if the client shows pages, or a resource of a group.
///
/// # Errors
///
/// The URI is reserved for pages and there is none; or see [`resources::read`].
pub(crate) async fn read_resource(invocation: Invocation) -> Reply {
    let uri = invocation.string("uri")?;
    if !uri_owner::is_reserved(&uri) || invocation.params.get("group").is_some() {
        return resources::read(invocation).await;
    }
    match uri == URI && invocation.context.requester.status_page().is_some() {
        true => Ok(page()),
        false => Err(errors::resource_not_found(&uri).into()),
    }
}

/// Returns the page as the result of `resources/read`. Its policy is the default: inline script, and no connection.
fn page() -> Raw {
    let ui = json!({ "permissions": { "clipboardWrite": {} }, "prefersBorder": false });
    let contents = json!({ "uri": URI, "mimeType": PAGE_MIME_TYPE, "text": PAGE, "_meta": { "ui": ui } });
    json!({ "contents": [contents] }).to_string().into()
}

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
pub(crate) async fn list_prompts(invocation: Invocation) -> Reply {
    let definition =
        json!({ "name": NAME, "title": "Status of the MCP servers", "description": DESCRIPTION });
    prompts::list(invocation, definition.to_string().into()).await
}

/// `prompts/get`: ours, or that of a group.
///
/// # Errors
///
/// See [`prompts::get`]. Ours has none.
pub(crate) async fn get_prompt(invocation: Invocation) -> Reply {
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
/// See [`prompts::complete`]. Ours has none.
pub(crate) async fn complete(invocation: Invocation) -> Reply {
    let reference = raw::get(&invocation.params, "ref");
    let name = reference.filter(|reference| raw::get_str(reference, "type").as_deref() == Some("ref/prompt"));
    let name = name.and_then(|reference| raw::get_str(&reference, "name"));
    if is_ours(&invocation, name) {
        return Ok(Raw::from_static(br#"{"completion":{"values":[]}}"#));
    }
    prompts::complete(invocation).await
}

/// Returns whether a request that names a prompt means ours.
fn is_ours(invocation: &Invocation, name: Option<String>) -> bool {
    name.is_some_and(|name| name == NAME) && raw::get(&invocation.params, "group").is_none()
}
