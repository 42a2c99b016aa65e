//! What a client without a connection carries from one request to the next: the upstream's state, which is sealed for it,
//! and links, which name their group because no process remembers which one it was.

use crate::names::known_lists::{self, ListKind};
use crate::names::uri_owner;
use crate::session::caller::{Caller, REQUEST_STATE, RequestIdentity};
use crate::session::input_required::needs_input;
use upstream::Upstream;
use wire::body::Body;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

/// The text where the state of a request is not the caller's.
pub(super) const FOREIGN_STATE: &str = "params.requestState is unknown, has expired, or belongs to another request: make \
     the request again without it";

/// Returns the params for the upstream with its own state in place of the sealed one. `None` if they have none.
///
/// # Errors
///
/// The state was not sealed for this caller and request, or has expired.
pub(super) fn open(
    caller: &Caller,
    group: &Upstream,
    method: Method,
    params: &Body,
) -> Result<Option<Box<Body>>, &'static str> {
    if !method.info().may_request_input {
        return Ok(None);
    }
    let joined = params.join();
    if raw::get(&joined, REQUEST_STATE).is_none() {
        return Ok(None);
    }
    let request = RequestIdentity::of(group.name.as_str(), method.name(), &joined);
    let opened = caller.open_state(&request, &joined).ok_or(FOREIGN_STATE)?;
    Ok(Some(Box::new(opened.into())))
}

/// Returns the result for the client: with a sealed state if it asks for input, and with links that it can follow.
pub(super) fn seal(caller: &Caller, group: &Upstream, method: Method, params: &Body, result: Raw) -> Raw {
    if method.info().may_request_input && needs_input(&result) {
        let request = RequestIdentity::of(group.name.as_str(), method.name(), &params.join());
        return caller.seal_state(&request, &result);
    }
    match method {
        Method::ToolsCall | Method::TasksResult => with_links(group, &result, "content", name_block),
        Method::PromptsGet => with_links(group, &result, "messages", |group, message| {
            let content = raw::get(message, "content")?;
            Some(raw::set(message, "content", &name_block(group, &content)?))
        }),
        _ => result,
    }
}

/// Replaces the elements of a list that `name` changes.
fn with_links(
    group: &Upstream,
    result: &Raw,
    list: &str,
    name: impl Fn(&Upstream, &Raw) -> Option<Raw>,
) -> Raw {
    let Some(elements) = raw::elements(result, list) else { return result.clone() };
    let named: Vec<_> = elements.iter().map(|element| name(group, element)).collect();
    if named.iter().all(Option::is_none) {
        return result.clone();
    }
    let named: Vec<_> =
        named.into_iter().zip(elements).map(|(named, given)| named.unwrap_or(given)).collect();
    raw::set(result, list, &raw::array(&named))
}

/// Names the group in the URI of a block of content that is a link or has a resource. `None` if it stays as it is.
fn name_block(group: &Upstream, block: &Raw) -> Option<Raw> {
    match raw::get_str(block, "type")?.as_str() {
        "resource_link" => Some(raw::set_str(block, "uri", &named_uri(group, &raw::get_str(block, "uri")?)?)),
        "resource" => {
            let resource = raw::get(block, "resource")?;
            let uri = named_uri(group, &raw::get_str(&resource, "uri")?)?;
            Some(raw::set(block, "resource", &raw::set_str(&resource, "uri", &uri)))
        }
        _ => None,
    }
}

/// Returns the URI that names the group. `None` for one that the group lists, for the address of a web page, which clients
/// open themselves, and for one whose scheme has a meaning for clients.
fn named_uri(group: &Upstream, uri: &str) -> Option<String> {
    let is_known = uri.starts_with("http://")
        || uri.starts_with("https://")
        || uri_owner::keeps_scheme(uri)
        || uri_owner::is_rewritten(uri)
        || known_lists::last_known(group, &ListKind::RESOURCES).has(uri);
    (!is_known).then(|| uri_owner::explicit(&group.name, uri))
}
