//! The lists of all groups as one. Connected groups are asked; the others contribute the list of their last connection.
//! Nothing is started for it.

use crate::config::GroupName;
use crate::front::errors;
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::protocol::methods::Method;
use crate::upstream::Upstream;
use crate::upstream::catalog::{self, ListEntry, OtherLists};
use crate::wire::peer::CallOptions;
use crate::wire::{Raw, Reply, raw};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::timeout;

/// The limit for all pages of one group's list.
const GROUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of entries on one page of a merged list.
const PAGE_SIZE: usize = 1000;

/// The entries of one list, by group, in config order.
pub type GroupEntries = Vec<(GroupName, Vec<ListEntry>)>;

/// One of the lists that groups have beside their tools.
pub struct ListKind {
    /// The method that lists.
    pub method: Method,
    /// The member of the result that is the list.
    member: &'static str,
    /// The member of an entry that identifies it.
    pub key: &'static str,
    /// Selects the list of the last connection.
    known: fn(&OtherLists) -> &[ListEntry],
}

impl ListKind {
    /// `resources/list`.
    pub const RESOURCES: Self = Self {
        method: Method::ResourcesList,
        member: "resources",
        key: "uri",
        known: |lists| &lists.resources,
    };
    /// `resources/templates/list`.
    pub const TEMPLATES: Self = Self {
        method: Method::ResourceTemplatesList,
        member: "resourceTemplates",
        key: "uriTemplate",
        known: |lists| &lists.templates,
    };
    /// `prompts/list`.
    pub const PROMPTS: Self =
        Self { method: Method::PromptsList, member: "prompts", key: "name", known: |lists| &lists.prompts };
    /// `skills/list`.
    pub const SKILLS: Self =
        Self { method: Method::SkillsList, member: "skills", key: "uri", known: |lists| &lists.skills };
    /// `tasks/list`. Nothing is known without a connection, because a task does not outlive its server.
    pub const TASKS: Self =
        Self { method: Method::TasksList, member: "tasks", key: "taskId", known: |_| &[] };
}

/// The lists as they are now.
pub async fn current(groups: &GroupManager, kind: &ListKind) -> GroupEntries {
    let lists = groups.all().into_iter().map(|group| async move {
        let listed = timeout(GROUP_TIMEOUT, list(&group, kind)).await.ok().flatten();
        let entries = listed.unwrap_or_else(|| last_known(&group, kind));
        (group.name.clone(), entries)
    });
    join_all(lists).await
}

/// The lists of the last connections.
pub fn known(groups: &GroupManager, kind: &ListKind) -> GroupEntries {
    groups.all().iter().map(|group| (group.name.clone(), last_known(group, kind))).collect()
}

fn last_known(group: &Upstream, kind: &ListKind) -> Vec<ListEntry> {
    let catalog = group.snapshot().catalog.clone();
    let lists = catalog.as_ref().and_then(|catalog| catalog.lists());
    lists.map(|lists| (kind.known)(lists).to_vec()).unwrap_or_default()
}

/// Asks a connected group. Returns `None` if it is not connected or does not answer with a list.
async fn list(group: &Upstream, kind: &ListKind) -> Option<Vec<ListEntry>> {
    let lease = group.try_lease()?;
    let catalog = group.snapshot().catalog.clone()?;
    if !kind.method.info().capability.is_some_and(|capability| catalog.info.declares(capability)) {
        return Some(Vec::new());
    }
    if kind.method.extension().is_some_and(|extension| !catalog.info.has_extension(extension)) {
        return Some(Vec::new());
    }
    let (mut entries, mut cursor) = (Vec::new(), None::<Raw>);
    loop {
        let params =
            cursor.as_ref().map(|cursor| raw::set(&Raw::from_static(b"{}"), "cursor", cursor).into());
        let options = CallOptions::within(GROUP_TIMEOUT);
        let call = lease.call(kind.method.name(), params.as_ref(), Era::Handshake, &options);
        let page = call.await.ok()?.ok()?;
        entries.extend(catalog::read_entries(&page, kind.member, kind.key));
        let next = raw::get(&page, "nextCursor").filter(|next| &next[..] != b"null");
        if next.is_none() || next == cursor {
            return Some(entries);
        }
        cursor = next;
    }
}

/// Returns one page of a merged list. Our cursor is the index at which the page begins.
pub fn page(params: &Raw, kind: &ListKind, entries: Vec<Raw>) -> Reply {
    let begin = match raw::get(params, "cursor").filter(|cursor| !matches!(&cursor[..], b"null" | b"\"\"")) {
        None => 0,
        Some(cursor) => {
            let index: Option<usize> =
                serde_json::from_slice::<String>(&cursor).ok().and_then(|index| index.parse().ok());
            index
                .filter(|index| *index <= entries.len() && *index > 0)
                .ok_or_else(|| Raw::from(errors::invalid_params("unknown cursor")))?
        }
    };
    let end = entries.len().min(begin + PAGE_SIZE);
    let page = raw::array(&entries[begin..end]);
    let next = if end < entries.len() { format!(",\"nextCursor\":\"{end}\"") } else { String::new() };
    Ok([format!("{{\"{}\":", kind.member).as_bytes(), &page, next.as_bytes(), b"}"].concat().into())
}
