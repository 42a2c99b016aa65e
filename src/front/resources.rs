//! `resources/*`: lists of all groups or of one, and requests that go to the group whose URI it is.

use super::relay::{Asked, Passed, pass};
use super::routing;
use super::{errors, gather, reach};
use crate::config::GroupName;
use crate::protocol::code;
use crate::upstream::Upstream;
use crate::upstream::catalog::Listed;
use crate::wire::{Raw, Reply, raw};
use errors::{LACKS_CAPABILITY, Refusal};
use gather::Kind;

const CAPABILITY: &str = "resources";

pub async fn list(asked: Asked) -> Reply {
    plain_or_of_group(asked, &Kind::RESOURCES).await
}

pub async fn templates(asked: Asked) -> Reply {
    plain_or_of_group(asked, &Kind::TEMPLATES).await
}

async fn plain_or_of_group(asked: Asked, kind: &'static Kind) -> Reply {
    if let Some(group) = asked.group()? {
        let params = asked.without_group();
        return pass(&asked, &group, Passed { method: kind.method, capability: CAPABILITY, params }).await;
    }
    let lists = gather::fresh(&asked.groups, kind).await;
    gather::page(&asked.params, kind, routing::merge(&lists, kind.key))
}

/// Reads by the group that is named, else by the one whose URI it is.
pub async fn read(asked: Asked) -> Reply {
    to_owner(&asked, "resources/read").await
}

/// Passes `method` on to the group whose `params.uri` it is.
pub async fn to_owner(asked: &Asked, method: &str) -> Reply {
    let uri = asked.text("uri")?;
    if let Some((group, uri)) = locate(asked, &uri).await? {
        return at(asked, &group, method, &uri).await;
    }
    // Nobody says that it is theirs: whoever is connected is asked, in config order.
    let mut refused = None;
    for group in asked.groups.all().into_iter().filter(|group| group.try_lease().is_some()) {
        match at(asked, &group, method, &uri).await {
            Ok(result) => return Ok(result),
            Err(error) if says_more(&error) => drop(refused.get_or_insert(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| errors::resource_not_found(&uri).into()))
}

/// Whether an error is about more than that there is no such resource, or no such capability.
fn says_more(error: &Raw) -> bool {
    let code = raw::get(error, "code").and_then(|code| serde_json::from_slice::<i64>(&code).ok());
    let no_such = [code::RESOURCE_NOT_FOUND, code::INVALID_PARAMS, code::METHOD_NOT_FOUND, LACKS_CAPABILITY];
    code.is_none_or(|code| !no_such.contains(&code))
}

async fn at(asked: &Asked, group: &Upstream, method: &str, uri: &str) -> Reply {
    let uri = serde_json::Value::from(uri).to_string();
    let params = raw::set(&asked.without_group(), "uri", uri.as_bytes());
    pass(asked, group, Passed { method, capability: CAPABILITY, params }).await
}

/// The group that a URI belongs to, and the URI there. Where nobody is known to have it, the groups that are connecting
/// for the first time are waited for: at start, one of them may.
pub async fn locate(asked: &Asked, uri: &str) -> Result<Option<(Upstream, String)>, Refusal> {
    if let Some(found) = target(asked, uri)? {
        return Ok(Some(found));
    }
    for group in asked.groups.all() {
        if asked.groups.expects(&group) {
            // What matters is what is known afterwards.
            drop(
                reach::lease(&asked.groups, &group, asked.caller.progress.as_ref())
                    .await
                    .map(|(_, lease)| lease),
            );
            if let Some(found) = target(asked, uri)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Where each of these URIs belongs, of those that have a place; the lists are looked at once for all.
pub async fn locate_all(asked: &Asked, uris: Vec<String>) -> Vec<(String, (GroupName, String))> {
    if let Ok(Some(group)) = asked.group() {
        return uris.into_iter().map(|uri| (uri.clone(), (group.name.clone(), uri))).collect();
    }
    let known = Known::now(asked);
    let mut found = Vec::new();
    let mut unlisted = 0;
    for uri in uris {
        let mut place = known.target(asked, &uri);
        if place.is_none() && unlisted < UNLISTED {
            unlisted += 1;
            place = locate(asked, &uri).await.ok().flatten().map(|(group, uri)| (group.name, uri));
        }
        found.extend(place.map(|place| (uri, place)));
    }
    found
}

/// Searches for single URIs that one request may cause.
const UNLISTED: usize = 16;

/// What the groups are known to have.
struct Known {
    resources: Vec<(GroupName, Vec<Listed>)>,
    templates: Vec<(GroupName, Vec<Listed>)>,
}

impl Known {
    fn now(asked: &Asked) -> Self {
        Self {
            resources: gather::known(&asked.groups, &Kind::RESOURCES),
            templates: gather::known(&asked.groups, &Kind::TEMPLATES),
        }
    }

    /// The group that a URI belongs to, and the URI there.
    fn target(&self, asked: &Asked, uri: &str) -> Option<(GroupName, String)> {
        if let Some((group, behind)) = routing::undisguised(uri) {
            return Some((GroupName::new(&group), behind));
        }
        if routing::listing(uri, &self.resources).is_none()
            && let Some((group, behind)) = routing::app_behind(uri, &self.resources)
        {
            return Some((group.clone(), behind));
        }
        let owner = routing::owner(uri, &self.resources, &self.templates).cloned();
        owner.or_else(|| asked.groups.named_by(uri)).map(|group| (group, uri.to_owned()))
    }
}

/// The same, as far as it is known now.
pub fn target(asked: &Asked, uri: &str) -> Result<Option<(Upstream, String)>, Refusal> {
    if let Some(group) = asked.group()? {
        return Ok(Some((group, uri.to_owned())));
    }
    let found = Known::now(asked).target(asked, uri);
    Ok(found.and_then(|(group, uri)| Some((asked.groups.get(&group)?, uri))))
}

/// What a catalog's list is called by.
pub fn listed(list: &[Listed]) -> impl Iterator<Item = &str> {
    list.iter().map(|listed| listed.key.as_str())
}
