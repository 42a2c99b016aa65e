//! The status as an MCP App (SEP-1865): the tools `show_status`, `status_data` and `page_action`, and the page as a resource.
//! Only clients that show pages of HTML have them.
//!
//! The result of `show_status` has the status of this instance alone, because models may read it. The page then asks for
//! `status_data`, which no model calls. What its buttons do is in `page_actions`.

use super::{page_actions, status};
use crate::errors;
use crate::names::uri_owner;
use crate::passthrough::resources;
use crate::session::context::{Invocation, RequestContext};
use crate::tools::status_page::{PAGE, URI};
use serde_json::json;
use wire::protocol::PAGE_MIME_TYPE;
use wire::{Raw, Reply};

/// Answers a call of one of the tools. `with_others`: whether the result has the other instances of the user.
///
/// # Errors
///
/// The client has no page.
pub(crate) async fn call(context: &RequestContext, with_others: bool) -> Reply {
    let page = context.requester.status_page().ok_or_else(errors::unknown_method)?;
    let groups = context.groups();
    groups.check_approvals().await;
    let own = status::page_report(groups).await;
    let report = (page.reports)(own, with_others).await;
    let text = match with_others {
        true => "The data of the status page.".to_owned(),
        false => status::for_reader(context, &groups.all()).text,
    };
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "structuredContent": report });
    // Only the result of the tool that no page may call.
    if let Some(session) = context.session().filter(|_| !with_others) {
        result["_meta"] = json!({ page_actions::TOKEN: session.page_tokens.issue(None) });
    }
    Ok(result.to_string().into())
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
