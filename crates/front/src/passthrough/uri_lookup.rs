//! Finds the groups that a URI may belong to.
//!
//! A URI that a group lists, or that a template covers, belongs to that group. If neither is so, the scheme and the
//! authority decide: where a group lists others with the same ones, it does not help another group to name the URI in a
//! result. Otherwise the URI goes to the group that did; if several did, the request is refused. But a server may serve
//! what it does not list or name. Any other URI is tried at the groups that offer resources, in turn: first the groups
//! that list URIs with the same scheme and authority. With one group there is nothing to find: it gets every request,
//! and its answer is the answer.

use crate::ask::acquire::acquire;
use crate::errors::{self, LACKS_CAPABILITY, RpcError, UNAVAILABLE};
use crate::names::known_lists::{self, GroupEntries, ListKind};
use crate::names::uri_owner::{self, Affinity};
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use config::GroupName;
use std::cmp::Reverse;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use upstream::{Need, Snapshot, Upstream};
use wire::protocol::{capability, code, max_bytes};
use wire::{Raw, Reply, raw};

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

impl Candidate {
    fn owner(group: Upstream, uri: &str) -> Self {
        Self { group, uri: uri.to_owned(), claim: Claim::Owner }
    }
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

/// Returns the groups to ask for a URI, in this order; one if its owner is known. If no group is known to have it, the
/// groups that connect for the first time are awaited: at start, one of them may have it.
///
/// # Errors
///
/// `params.group` names a group that does not exist, several groups named the URI, or it took too long.
pub(super) async fn candidates(invocation: &Invocation, uri: &str) -> Result<Vec<Candidate>, RpcError> {
    if let Some(group) = invocation.group()? {
        return Ok(vec![Candidate::owner(group, uri)]);
    }
    let mut owner = find_owner(invocation, uri).await?;
    for group in invocation.groups().all() {
        if owner.is_none() && await_catalog(invocation, &group).await {
            owner = find_owner(invocation, uri).await?;
        }
    }
    if let Some(owner) = owner {
        return Ok(vec![owner]);
    }
    let uri = uri.to_owned();
    let context = invocation.context.with_names(names_in(&uri));
    let find = move |requester: &Requester| KnownUris::new(requester).unlisted(&uri);
    context.run_on_lists(find).await?
}

/// Returns as how many names a URI counts: it is compared with each template, up to its whole length.
fn names_in(uri: &str) -> usize {
    1 + uri.len() / max_bytes::NAME
}

/// Finds the group that lists a URI or has a template for it, in what is known now.
///
/// # Errors
///
/// It took too long.
async fn find_owner(invocation: &Invocation, uri: &str) -> Result<Option<Candidate>, RpcError> {
    let (uri, context) = (uri.to_owned(), invocation.context.with_names(names_in(uri)));
    let find = move |requester: &Requester| KnownUris::new(requester).owner(&uri);
    context.run_on_lists(find).await
}

/// Waits for the first catalog of a group, if that is coming. Returns whether it was.
async fn await_catalog(invocation: &Invocation, group: &Upstream) -> bool {
    let groups = invocation.groups();
    let is_expected = groups.expects_catalog(group);
    if is_expected {
        // Only what is known afterwards matters.
        drop(acquire(groups, group, Need::Lists, invocation.context.progress.as_ref()).await.ok());
    }
    is_expected
}

/// Returns whether a group can be asked for resources. A group that never connected can, unless its config turns
/// resources off.
fn may_offer_resources(group: &Upstream) -> bool {
    let snapshot = group.snapshot();
    let catalog = snapshot.catalog.as_ref();
    has_resources_on(&snapshot) && catalog.is_none_or(|catalog| catalog.info.may_have(capability::RESOURCES))
}

/// Returns whether the config lets a group offer resources.
fn has_resources_on(snapshot: &Snapshot) -> bool {
    snapshot.server.as_ref().is_some_and(|server| server.common.features.resources)
}

/// Asks the groups that may have a resource, in turn, until one has it. Returns its answer, which may be an error if no
/// other group can have the resource. The search among several groups takes a minute at most. If only one group can
/// have the resource, its answer is awaited without that limit.
///
/// # Errors
///
/// Those of [`candidates`], or none of several groups has the resource. Of their errors, it is the one that says most.
pub(super) async fn ask_candidates<F: Future<Output = Reply>>(
    invocation: &Invocation,
    uri: &str,
    ask: impl Fn(Candidate) -> F,
) -> Result<Reply, Raw> {
    let candidates = candidates(invocation, uri).await?;
    let deadline = Instant::now() + SEARCH_TIMEOUT;
    let mut best: Option<(Weight, Raw)> = None;
    for candidate in candidates {
        let (claim, group) = (candidate.claim, candidate.group.clone());
        let asked = ask(candidate);
        let error = match claim {
            Claim::Owner => return Ok(asked.await),
            Claim::Sole => {
                let reply = asked.await;
                if reply.as_ref().is_err_and(lacks_method) {
                    // Once its lists were read, it may turn out to offer none either.
                    drop(acquire(invocation.groups(), &group, Need::Tools, None).await.ok());
                    if !may_offer_resources(&group) {
                        continue;
                    }
                }
                return Ok(reply);
            }
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

/// Returns whether an error says that a server does not read resources.
fn lacks_method(error: &Raw) -> bool {
    matches!(raw::error_code(error), Some(code::METHOD_NOT_FOUND | LACKS_CAPABILITY))
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
        _ if lacks_method(error) => None,
        Some(UNAVAILABLE) if claim == Claim::None => None,
        _ => Some(Weight::Failure),
    }
}

/// Finds the owner of a URI in what is known now. `None` if no group is known to have it.
///
/// # Errors
///
/// `params.group` names a group that does not exist, several groups named the URI, or it took too long.
pub(super) async fn find_known_owner(
    invocation: &Invocation,
    uri: &str,
) -> Result<Option<(Upstream, String)>, RpcError> {
    if let Some(group) = invocation.group()? {
        return Ok(Some((group, uri.to_owned())));
    }
    let (uri, context) = (uri.to_owned(), invocation.context.with_names(names_in(uri)));
    let find = move |requester: &Requester| {
        let known = KnownUris::new(requester);
        let owner = match known.owner(&uri) {
            Some(owner) => Some(owner),
            None => known.unlisted(&uri)?.into_iter().find(|found| found.claim == Claim::Owner),
        };
        Ok(owner.map(|Candidate { group, uri, .. }| (group, uri)))
    };
    context.run_on_lists(find).await?
}

/// Finds the groups to ask for each of several URIs. If `params.group` names a group, that is the one. Only so many
/// URIs that have no owner are searched for; further ones have no groups, as have those that several groups named. If
/// one has no owner, the groups that connect for the first time are awaited. The known lists are read once for all.
pub(super) async fn candidates_of_all(
    invocation: &Invocation,
    uris: Vec<String>,
) -> Vec<(String, Vec<Candidate>)> {
    if let Ok(Some(group)) = invocation.group() {
        let owned = |uri: String| (uri.clone(), vec![Candidate::owner(group.clone(), &uri)]);
        return uris.into_iter().map(owned).collect();
    }
    let unfound = uris.clone();
    let context = invocation.context.with_names(uris.iter().map(|uri| names_in(uri)).sum());
    let lacks_owner = {
        let uris = uris.clone();
        move |requester: &Requester| {
            let known = KnownUris::new(requester);
            uris.iter().any(|uri| known.owner(uri).is_none())
        }
    };
    if context.run_on_lists(lacks_owner).await.unwrap_or_default() {
        for group in invocation.groups().all() {
            await_catalog(invocation, &group).await;
        }
    }
    let find = move |requester: &Requester| find_all(requester, uris);
    let found = context.run_on_lists(find).await;
    found.unwrap_or_else(|_| unfound.into_iter().map(|uri| (uri, Vec::new())).collect())
}

fn find_all(requester: &Requester, uris: Vec<String>) -> Vec<(String, Vec<Candidate>)> {
    let known = KnownUris::new(requester);
    let mut searches = 0;
    let find = |uri: String| {
        let found = match known.owner(&uri) {
            Some(owner) => vec![owner],
            None => known.unlisted(&uri).unwrap_or_default(),
        };
        let is_search = found.first().is_some_and(|first| first.claim != Claim::Owner);
        searches += usize::from(is_search);
        let found = if is_search && searches > MAX_SEARCHES { Vec::new() } else { found };
        (uri, found)
    };
    uris.into_iter().map(find).collect()
}

/// A group that may have a URI that no group lists.
struct Contender {
    group: Upstream,
    /// How much the URI resembles what the group lists.
    affinity: Affinity,
    /// Whether a result of the group named the URI.
    has_named: bool,
    /// Whether a template of the group covers this URI and every other one, of any scheme.
    is_catch_all: bool,
}

impl Contender {
    /// Returns whether the group lists others with the same scheme and authority.
    fn has_claim(&self) -> bool {
        self.affinity == Affinity::Authority
    }

    /// Returns the place in the order in which groups are asked.
    fn rank(&self) -> impl Ord + use<> {
        let is_known = self.group.snapshot().catalog.is_some();
        Reverse((self.has_claim(), self.has_named, self.is_catch_all, self.affinity, is_known))
    }
}

/// The resources and templates that the groups are known to have.
struct KnownUris<'r> {
    /// Who asks.
    requester: &'r Requester,
    /// The resources with what the groups claim beside them, once that is needed.
    claimed: OnceLock<GroupEntries>,
    /// The resources of each group.
    resources: GroupEntries,
    /// The resource templates of each group.
    templates: GroupEntries,
}

impl<'r> KnownUris<'r> {
    fn new(requester: &'r Requester) -> Self {
        let entries = |kind| known_lists::entries(requester.groups(), kind);
        let (resources, templates) = (entries(&ListKind::RESOURCES), entries(&ListKind::TEMPLATES));
        Self { requester, claimed: OnceLock::new(), resources, templates }
    }

    /// Returns the group that lists a URI or has a template for it, and the URI there.
    fn owner(&self, uri: &str) -> Option<Candidate> {
        let (group, uri) = self.owner_name(uri)?;
        Some(Candidate::owner(self.requester.groups().get(&group)?, &uri))
    }

    fn owner_name(&self, uri: &str) -> Option<(GroupName, String)> {
        if let Some((group, original)) = uri_owner::parse_rewritten(uri) {
            return Some((GroupName::new(&group), original));
        }
        if uri_owner::keeps_scheme(uri) {
            let all = self.claimed();
            let own = uri_owner::lister(uri, all).map(|group| (group.clone(), uri.to_owned()));
            let prefixed = || uri_owner::parse_kept_scheme(uri, all).map(|(group, own)| (group.clone(), own));
            if let Some(found) = own.or_else(prefixed) {
                return Some(found);
            }
        }
        let owner = uri_owner::owner(uri, &self.resources, &self.templates);
        owner.map(|group| (group.clone(), uri.to_owned()))
    }

    fn claimed(&self) -> &GroupEntries {
        self.claimed.get_or_init(|| known_lists::resources_and_claims(self.requester.groups()))
    }

    /// Returns the groups to ask for a URI that no group lists: the one that named it, else those that list similar ones,
    /// then the others that offer resources, then those of which nothing is known.
    ///
    /// # Errors
    ///
    /// Several groups named the URI.
    fn unlisted(&self, uri: &str) -> Result<Vec<Candidate>, RpcError> {
        if uri_owner::is_rewritten(uri) || uri_owner::is_reserved(uri) {
            // It names a group that does not exist, or an app of ours.
            return Ok(Vec::new());
        }
        let mut groups = self.contenders(uri);
        let is_claimed = groups.iter().any(Contender::has_claim);
        let is_entitled = |group: &&Contender| group.has_named && (!is_claimed || group.has_claim());
        let entitled: Vec<_> = groups.iter().filter(is_entitled).collect();
        let catch_all = || groups.iter().find(|group| group.is_catch_all).filter(|_| !is_claimed);
        match entitled[..] {
            [Contender { group, .. }] => return Ok(vec![Candidate::owner(group.clone(), uri)]),
            [_, _, ..] => {
                let explicit = entitled.iter().map(|entitled| uri_owner::explicit(&entitled.group.name, uri));
                return Err(errors::ambiguous_resource(uri, &explicit.collect::<Vec<_>>()));
            }
            [] => {
                if let Some(Contender { group, .. }) = catch_all() {
                    return Ok(vec![Candidate::owner(group.clone(), uri)]);
                }
            }
        }
        let is_reserved = is_claimed && uri_owner::has_authority(uri);
        let is_ambiguous = groups.iter().filter(|group| group.has_named).count() > 1;
        groups.retain(|group| {
            let merely_named = group.has_named && !group.has_claim() && !group.is_catch_all;
            !merely_named || !is_reserved && !is_ambiguous
        });
        groups.sort_by_cached_key(Contender::rank);
        let is_only = groups.len() == 1;
        let candidate = |Contender { group, affinity, .. }| {
            let claim = match affinity {
                _ if is_only => Claim::Sole,
                Affinity::None => Claim::None,
                Affinity::Scheme | Affinity::Authority => Claim::Similar,
            };
            Candidate { group, uri: uri.to_owned(), claim }
        };
        Ok(groups.into_iter().map(candidate).collect())
    }

    /// Returns the groups that offer resources or named this one, with what speaks for them as the owner of a URI.
    fn contenders(&self, uri: &str) -> Vec<Contender> {
        let origins = self.requester.session().map(|session| session.uri_origins.lock());
        let named: Vec<_> = origins.iter().flat_map(|origins| origins.groups(uri)).collect();
        let catch_alls: Vec<_> = uri_owner::catch_alls(uri, &self.templates).collect();
        // A server that names a resource in a result reads it, also without the capability.
        let may_read = |group: &Upstream| {
            may_offer_resources(group) || named.contains(&&group.name) && has_resources_on(&group.snapshot())
        };
        let groups = self.requester.groups().all().into_iter().filter(may_read);
        let contender = |group: Upstream| Contender {
            affinity: self.affinity(&group.name, uri),
            has_named: named.contains(&&group.name),
            is_catch_all: catch_alls.contains(&&group.name),
            group,
        };
        groups.map(contender).collect()
    }

    /// Returns how much a URI resembles what a group lists.
    fn affinity(&self, group: &GroupName, uri: &str) -> Affinity {
        let resources = if uri_owner::keeps_scheme(uri) { self.claimed() } else { &self.resources };
        let lists = [resources, &self.templates].into_iter();
        let entries = lists.flatten().filter(|(name, _)| name == group).flat_map(|(_, list)| list.iter());
        entries.map(|entry| Affinity::between(&entry.key, uri)).max().unwrap_or(Affinity::None)
    }
}
