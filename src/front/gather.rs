//! Lists of all groups as one: connected groups are asked, for the others the list of their last connection stands.
//! Nothing is started for it.

use super::errors;
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::upstream::Upstream;
use crate::upstream::catalog::{self, Listed, Lists};
use crate::wire::peer::CallOptions;
use crate::wire::{Raw, Reply, raw};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::timeout;

/// For all pages of one group's list.
const ASKED: Duration = Duration::from_secs(2);
/// Entries of one page of ours.
const PAGE: usize = 1000;

/// One of the lists that groups have beside their tools.
pub struct Kind {
    pub method: &'static str,
    /// Of the result.
    member: &'static str,
    /// Of an entry.
    pub key: &'static str,
    capability: &'static str,
    of: fn(&Lists) -> &Vec<Listed>,
}

impl Kind {
    pub const RESOURCES: Self = Self {
        method: "resources/list",
        member: "resources",
        key: "uri",
        capability: "resources",
        of: |lists| &lists.resources,
    };
    pub const TEMPLATES: Self = Self {
        method: "resources/templates/list",
        member: "resourceTemplates",
        key: "uriTemplate",
        capability: "resources",
        of: |lists| &lists.templates,
    };
    pub const PROMPTS: Self = Self {
        method: "prompts/list",
        member: "prompts",
        key: "name",
        capability: "prompts",
        of: |lists| &lists.prompts,
    };
    /// Never remembered: there are none without a connection.
    pub const TASKS: Self = Self {
        method: "tasks/list",
        member: "tasks",
        key: "taskId",
        capability: "tasks",
        of: |_| {
            static NONE: Vec<Listed> = Vec::new();
            &NONE
        },
    };
}

/// The lists as they are now.
pub async fn fresh(groups: &GroupManager, kind: &Kind) -> Vec<(GroupName, Vec<Listed>)> {
    let lists = groups.all().into_iter().map(|group| async move {
        let asked = timeout(ASKED, ask(&group, kind)).await.ok().flatten();
        let list = asked.unwrap_or_else(|| last(&group, kind));
        (group.name.clone(), list)
    });
    join_all(lists).await
}

/// The lists as of the last connections.
pub fn known(groups: &GroupManager, kind: &Kind) -> Vec<(GroupName, Vec<Listed>)> {
    groups.all().iter().map(|group| (group.name.clone(), last(group, kind))).collect()
}

fn last(group: &Upstream, kind: &Kind) -> Vec<Listed> {
    let catalog = group.snapshot().catalog.clone();
    catalog.and_then(|catalog| catalog.lists().map(|lists| (kind.of)(lists).clone())).unwrap_or_default()
}

/// `None`: not connected, without this list, or no answer that could be used.
async fn ask(group: &Upstream, kind: &Kind) -> Option<Vec<Listed>> {
    let lease = group.try_lease()?;
    let catalog = group.snapshot().catalog.clone()?;
    if !catalog.introduction.declares(kind.capability) {
        return Some(Vec::new());
    }
    let (mut list, mut cursor) = (Vec::new(), None::<Raw>);
    loop {
        let params = cursor.as_ref().map(|cursor| raw::set(&Raw::from_static(b"{}"), "cursor", cursor));
        let page =
            lease.call(kind.method, params, Era::Handshake, CallOptions::within(ASKED)).await.ok()?.ok()?;
        list.extend(catalog::read_listed(&page, kind.member, kind.key));
        let next = raw::get(&page, "nextCursor").filter(|next| &next[..] != b"null");
        if next.is_none() || next == cursor {
            return Some(list);
        }
        cursor = next;
    }
}

/// One page of a merged list. A cursor of ours is where the page begins.
pub fn page(params: &Raw, kind: &Kind, entries: Vec<Raw>) -> Reply {
    let begin = match raw::get(params, "cursor").filter(|cursor| !matches!(&cursor[..], b"null" | b"\"\"")) {
        None => 0,
        Some(cursor) => {
            let at: Option<usize> =
                serde_json::from_slice::<String>(&cursor).ok().and_then(|at| at.parse().ok());
            at.filter(|at| *at <= entries.len() && *at > 0)
                .ok_or_else(|| Raw::from(errors::bad_params("unknown cursor")))?
        }
    };
    let end = entries.len().min(begin + PAGE);
    let joined = entries[begin..end].join(&b","[..]);
    let next = if end < entries.len() { format!(",\"nextCursor\":\"{end}\"") } else { String::new() };
    Ok([format!("{{\"{}\":[", kind.member).as_bytes(), &joined, b"]", next.as_bytes(), b"}"].concat().into())
}
