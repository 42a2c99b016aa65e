//! `resources/*`: the lists of all groups or of one, and requests that go to the owner of a URI.

use super::aggregate::{self, GroupEntries, ListKind};
use super::forward::forward_method;
use super::uri_owner;
use crate::config::GroupName;
use crate::front::errors::{self, LACKS_CAPABILITY, RpcError};
use crate::front::interaction::acquire::acquire;
use crate::front::interaction::invocation::Invocation;
use crate::front::results::content::ToolResult;
use crate::front::results::{URI_PREFIX, preview};
use crate::protocol::code;
use crate::protocol::methods::Method;
use crate::upstream::Upstream;
use crate::wire::{Raw, Reply, raw};

/// How many unlisted URIs one request may search for.
const MAX_SEARCHES: usize = 16;

/// `resources/list`.
pub async fn list(invocation: Invocation) -> Reply {
    list_kind(invocation, &ListKind::RESOURCES).await
}

/// `resources/templates/list`.
pub async fn templates(invocation: Invocation) -> Reply {
    list_kind(invocation, &ListKind::TEMPLATES).await
}

async fn list_kind(invocation: Invocation, kind: &'static ListKind) -> Reply {
    if let Some(group) = invocation.group()? {
        let params = invocation.params_without_group();
        return forward_method(&invocation.context, &group, kind.method, params).await;
    }
    let lists = aggregate::current(invocation.groups(), kind).await;
    aggregate::page(&invocation.params, kind, uri_owner::merge(&lists, kind.key))
}

/// `resources/read`: goes to the named group, else to the owner of the URI.
pub async fn read(invocation: Invocation) -> Reply {
    let uri = invocation.string("uri")?;
    if let Some(id) = uri.strip_prefix(URI_PREFIX)
        && let Some(stored) = invocation.context.session.results.get(id).await
        && let Some(result) = ToolResult::parse(&stored.result)
    {
        return Ok(preview::contents(&result, &uri));
    }
    if let Some((group, uri)) = find_owner(&invocation, &uri).await? {
        return read_at(&invocation, &group, &uri).await;
    }
    // No group claims the URI, so the connected groups are asked in config order.
    let mut first_error = None;
    for group in connected(&invocation) {
        match read_at(&invocation, &group, &uri).await {
            Ok(result) => return Ok(result),
            Err(error) if !means_not_found(&error) => drop(first_error.get_or_insert(error)),
            Err(_) => {}
        }
    }
    Err(first_error.unwrap_or_else(|| errors::resource_not_found(&uri).into()))
}

async fn read_at(invocation: &Invocation, group: &Upstream, uri: &str) -> Reply {
    let params = invocation.params_with("uri", uri);
    forward_method(&invocation.context, group, Method::ResourcesRead, params).await
}

/// The connected groups, in config order.
pub(super) fn connected(invocation: &Invocation) -> impl Iterator<Item = Upstream> {
    invocation.groups().all().into_iter().filter(|group| group.try_lease().is_some())
}

/// Returns whether an error says no more than that the resource or the capability does not exist.
fn means_not_found(error: &Raw) -> bool {
    let code = raw::get(error, "code").and_then(|code| serde_json::from_slice::<i64>(&code).ok());
    let codes = [code::RESOURCE_NOT_FOUND, code::INVALID_PARAMS, code::METHOD_NOT_FOUND, LACKS_CAPABILITY];
    code.is_some_and(|code| codes.contains(&code))
}

/// Finds the group that a URI belongs to, and the URI there. If no group is known to have it, the groups that connect
/// for the first time are awaited: at start, one of them may have it.
///
/// # Errors
///
/// `params.group` names a group that does not exist.
pub(super) async fn find_owner(
    invocation: &Invocation,
    uri: &str,
) -> Result<Option<(Upstream, String)>, RpcError> {
    if let Some(found) = find_known_owner(invocation, uri)? {
        return Ok(Some(found));
    }
    let groups = invocation.groups();
    for group in groups.all() {
        if groups.expects_catalog(&group) {
            let progress = invocation.context.progress.as_ref();
            // Only what is known afterwards matters.
            drop(acquire(groups, &group, progress).await.map(|(_, lease)| lease));
            if let Some(found) = find_known_owner(invocation, uri)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Finds the owner of a URI in what is known now.
///
/// # Errors
///
/// `params.group` names a group that does not exist.
pub(super) fn find_known_owner(
    invocation: &Invocation,
    uri: &str,
) -> Result<Option<(Upstream, String)>, RpcError> {
    if let Some(group) = invocation.group()? {
        return Ok(Some((group, uri.to_owned())));
    }
    let found = KnownUris::new(invocation).owner(invocation, uri);
    Ok(found.and_then(|(group, uri)| Some((invocation.groups().get(&group)?, uri))))
}

/// Finds the owners of several URIs; those without an owner are left out. The known lists are read once for all.
pub(super) async fn find_owners(
    invocation: &Invocation,
    uris: Vec<String>,
) -> Vec<(String, (GroupName, String))> {
    if let Ok(Some(group)) = invocation.group() {
        return uris.into_iter().map(|uri| (uri.clone(), (group.name.clone(), uri))).collect();
    }
    let known = KnownUris::new(invocation);
    let mut found = Vec::new();
    let mut searches = 0;
    for uri in uris {
        let mut owner = known.owner(invocation, &uri);
        if owner.is_none() && searches < MAX_SEARCHES {
            searches += 1;
            let searched = find_owner(invocation, &uri).await.ok().flatten();
            owner = searched.map(|(group, uri)| (group.name.clone(), uri));
        }
        found.extend(owner.map(|owner| (uri, owner)));
    }
    found
}

/// The resources and templates that the groups are known to have.
struct KnownUris {
    /// The resources of each group.
    resources: GroupEntries,
    /// The resource templates of each group.
    templates: GroupEntries,
}

impl KnownUris {
    fn new(invocation: &Invocation) -> Self {
        Self {
            resources: aggregate::known(invocation.groups(), &ListKind::RESOURCES),
            templates: aggregate::known(invocation.groups(), &ListKind::TEMPLATES),
        }
    }

    /// Returns the group that a URI belongs to, and the URI there.
    fn owner(&self, invocation: &Invocation, uri: &str) -> Option<(GroupName, String)> {
        if let Some((group, original)) = uri_owner::parse_rewritten(uri) {
            return Some((GroupName::new(&group), original));
        }
        if uri_owner::lister(uri, &self.resources).is_none()
            && let Some((group, original)) = uri_owner::parse_rewritten_app(uri, &self.resources)
        {
            return Some((group.clone(), original));
        }
        let owner = uri_owner::owner(uri, &self.resources, &self.templates).cloned();
        let origin = || invocation.context.session.uri_origins.lock().group(uri).cloned();
        owner.or_else(origin).map(|group| (group, uri.to_owned()))
    }
}
