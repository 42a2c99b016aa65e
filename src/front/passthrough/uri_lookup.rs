//! Finds the groups that a URI may belong to.
//!
//! A URI that a group lists, or that a template covers, belongs to that group, and so does one that a result of the
//! group named. But a server may serve what it does not list. Any other URI is tried at the groups that offer
//! resources, in turn: first where the scheme and the authority are those of what the group lists. With one group there
//! is nothing to find: it gets every request, and its answer is the answer.

use super::aggregate::{self, GroupEntries, ListKind};
use super::claims;
use super::uri_owner::{self, Affinity};
use crate::config::GroupName;
use crate::front::errors::{self, LACKS_CAPABILITY, RpcError, UNAVAILABLE};
use crate::front::interaction::acquire::acquire;
use crate::front::interaction::invocation::Invocation;
use crate::protocol::{capability, code};
use crate::upstream::Upstream;
use crate::wire::{Raw, Reply, raw};
use std::cmp::Reverse;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many unlisted URIs one request may search for.
const MAX_SEARCHES: usize = 16;
/// How long one search may take. Groups that have not been asked by then are not asked.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// A group that may have a resource.
pub(super) struct Candidate {
    /// The group.
    pub(super) group: Upstream,
    /// The URI there.
    pub(super) uri: String,
    /// Why it may have it.
    claim: Claim,
}

/// Why a group may have a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It is known to be the owner, or the request names it.
    Owner,
    /// No other group offers resources.
    Sole,
    /// It lists others like it.
    Similar,
    /// It offers resources.
    None,
}

/// Returns the groups to ask for a URI, in this order; one if its owner is known.
///
/// # Errors
///
/// `params.group` names a group that does not exist.
pub(super) async fn candidates(invocation: &Invocation, uri: &str) -> Result<Vec<Candidate>, RpcError> {
    if let Some((group, uri)) = find_owner(invocation, uri).await? {
        return Ok(vec![Candidate { group, uri, claim: Claim::Owner }]);
    }
    Ok(unlisted(invocation, uri))
}

/// Returns the groups to ask for a URI without an owner: those that list similar ones, then the others that offer
/// resources, then those of which nothing is known.
fn unlisted(invocation: &Invocation, uri: &str) -> Vec<Candidate> {
    if uri_owner::is_rewritten(uri) {
        // It names a group that does not exist.
        return Vec::new();
    }
    let groups = invocation.groups().all().into_iter().filter(may_offer_resources);
    let known = KnownUris::new(invocation);
    let mut ranked: Vec<_> = groups.map(|group| (known.affinity(&group.name, uri), group)).collect();
    ranked.sort_by_key(|(affinity, group)| Reverse((*affinity, group.snapshot().catalog.is_some())));
    let is_only = ranked.len() == 1;
    let claim = |affinity| match affinity {
        _ if is_only => Claim::Sole,
        Affinity::None => Claim::None,
        Affinity::Scheme | Affinity::Authority => Claim::Similar,
    };
    let candidates = ranked.into_iter();
    candidates
        .map(|(affinity, group)| Candidate { group, uri: uri.to_owned(), claim: claim(affinity) })
        .collect()
}

/// Returns whether a group can be asked for resources, as far as is known.
fn may_offer_resources(group: &Upstream) -> bool {
    let snapshot = group.snapshot();
    let is_configured = snapshot.server.as_ref().is_some_and(|server| server.features.resources);
    let catalog = snapshot.catalog.as_ref();
    is_configured && catalog.is_none_or(|catalog| catalog.info.may_have(capability::RESOURCES))
}

/// Asks the groups that may have a resource, in turn, until one has it. Returns its answer, which may be an error if no
/// other group can have the resource.
///
/// # Errors
///
/// `params.group` names a group that does not exist, or none of several groups has the resource. Of their errors, it
/// is the one that says most.
pub(super) async fn ask_candidates<F: Future<Output = Reply>>(
    invocation: &Invocation,
    uri: &str,
    ask: impl Fn(Candidate) -> F,
) -> Result<Reply, Raw> {
    let candidates = candidates(invocation, uri).await?;
    let deadline = Instant::now() + SEARCH_TIMEOUT;
    let mut best: Option<(Weight, Raw)> = None;
    for candidate in candidates {
        let claim = candidate.claim;
        let asked = ask(candidate);
        let error = match claim {
            Claim::Owner => return Ok(asked.await),
            Claim::Sole => match asked.await {
                // It turned out to offer none either.
                Err(error) if raw::error_code(&error) == Some(LACKS_CAPABILITY) => continue,
                reply => return Ok(reply),
            },
            Claim::Similar | Claim::None => match timeout_at(deadline, asked).await {
                Ok(Ok(result)) => return Ok(Ok(result)),
                Ok(Err(error)) => error,
                Err(_late) => break,
            },
        };
        if let Some(weight) = weight(&error, claim)
            && best.as_ref().is_none_or(|(best, _)| weight > *best)
        {
            best = Some((weight, error));
        }
    }
    Err(best.map_or_else(|| errors::resource_not_found(uri).into(), |(_, error)| error))
}

/// How much an error says about a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// The server does not have it.
    NotFound,
    /// The server may have it, but something is wrong.
    Failure,
}

/// Returns how much an error says about a resource; `None` if it says nothing, such as that a group which lists nothing
/// like it cannot be connected.
fn weight(error: &Raw, claim: Claim) -> Option<Weight> {
    match raw::error_code(error) {
        Some(code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS) => Some(Weight::NotFound),
        Some(code::METHOD_NOT_FOUND | LACKS_CAPABILITY) => None,
        Some(UNAVAILABLE) if claim == Claim::None => None,
        _ => Some(Weight::Failure),
    }
}

/// Finds the group that a URI belongs to, and the URI there. If no group is known to have it, the groups that connect
/// for the first time are awaited: at start, one of them may have it.
///
/// # Errors
///
/// `params.group` names a group that does not exist.
async fn find_owner(invocation: &Invocation, uri: &str) -> Result<Option<(Upstream, String)>, RpcError> {
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
    Ok(KnownUris::new(invocation).owner(invocation, uri))
}

/// Finds the groups to ask for each of several URIs. Only so many that have no owner are searched for; further ones are
/// left out. The known lists are read once for all.
pub(super) async fn candidates_of_all(
    invocation: &Invocation,
    uris: Vec<String>,
) -> Vec<(String, Vec<Candidate>)> {
    let known = KnownUris::new(invocation);
    let named = invocation.group().ok().flatten();
    let mut found = Vec::new();
    let mut searches = 0;
    for uri in uris {
        let owner = match &named {
            Some(group) => Some((group.clone(), uri.clone())),
            None => known.owner(invocation, &uri),
        };
        let candidates = match owner {
            Some((group, uri)) => vec![Candidate { group, uri, claim: Claim::Owner }],
            None if searches < MAX_SEARCHES => {
                searches += 1;
                candidates(invocation, &uri).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        found.push((uri, candidates));
    }
    found
}

/// The resources and templates that the groups are known to have.
struct KnownUris {
    /// The resources with what the groups claim beside them, once that is needed.
    claimed: OnceLock<GroupEntries>,
    /// The resources of each group.
    resources: GroupEntries,
    /// The resource templates of each group.
    templates: GroupEntries,
}

impl KnownUris {
    fn new(invocation: &Invocation) -> Self {
        Self {
            claimed: OnceLock::new(),
            resources: aggregate::known(invocation.groups(), &ListKind::RESOURCES),
            templates: aggregate::known(invocation.groups(), &ListKind::TEMPLATES),
        }
    }

    /// Returns the group that a URI belongs to, and the URI there.
    fn owner(&self, invocation: &Invocation, uri: &str) -> Option<(Upstream, String)> {
        let (group, uri) = self.owner_name(invocation, uri)?;
        Some((invocation.groups().get(&group)?, uri))
    }

    fn owner_name(&self, invocation: &Invocation, uri: &str) -> Option<(GroupName, String)> {
        if let Some((group, original)) = uri_owner::parse_rewritten(uri) {
            return Some((GroupName::new(&group), original));
        }
        if uri_owner::keeps_scheme(uri) {
            let all = self.claimed.get_or_init(|| claims::with_resources(invocation.groups()));
            let own = uri_owner::lister(uri, all).map(|group| (group.clone(), uri.to_owned()));
            let prefixed = || uri_owner::parse_prefixed(uri, all).map(|(group, own)| (group.clone(), own));
            if let Some(found) = own.or_else(prefixed) {
                return Some(found);
            }
        }
        let owner = uri_owner::owner(uri, &self.resources, &self.templates).cloned();
        let origin = || invocation.context.session.uri_origins.lock().group(uri).cloned();
        owner.or_else(origin).map(|group| (group, uri.to_owned()))
    }

    /// How much a URI resembles what a group lists.
    fn affinity(&self, group: &GroupName, uri: &str) -> Affinity {
        let lists = [&self.resources, &self.templates].into_iter();
        let entries = lists.flatten().filter(|(name, _)| name == group).flat_map(|(_, list)| list);
        entries.map(|entry| Affinity::between(&entry.key, uri)).max().unwrap_or(Affinity::None)
    }
}
