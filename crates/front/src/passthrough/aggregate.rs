//! The lists of all groups as one. Connected groups are asked; the others contribute the list of their last connection.
//! Nothing is started for it.

use crate::call::forward::forward_method;
use crate::errors;
use crate::names::known_lists::{GroupEntries, ListKind, read_last_known};
use crate::session::context::Invocation;
use crate::session::requester::Requester;
use base::blocking;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::timeout;
use upstream::catalog::entries::{ListEntries, ListEntry};
use upstream::catalog::list_reader::ListReader;
use upstream::{GroupManager, Upstream};
use wire::peer::CallOptions;
use wire::protocol::Era;
use wire::{Raw, Reply, raw};

/// The limit for all pages of one group's list.
const GROUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of entries on one page of a merged list.
const PAGE_SIZE: usize = 1000;

/// Answers a request for a list: forwards it to the group that it names, or returns one page of what `merge` makes of the
/// lists of all groups.
///
/// # Errors
///
/// The named group does not exist, the cursor is none of ours, or making the list took too long.
pub async fn list(
    invocation: &Invocation,
    kind: &'static ListKind,
    merge: impl FnOnce(&Requester, &GroupEntries) -> Vec<Raw> + Send + 'static,
) -> Reply {
    if let Some(group) = invocation.group()? {
        let params = invocation.params_without_group();
        return forward_method(&invocation.context, &group, kind.method, params).await;
    }
    let lists = current(invocation.groups(), kind).await;
    let bytes: usize = lists.iter().map(|(_, entries)| entries.definition_bytes()).sum();
    let (requester, params) = (invocation.context.requester.clone(), invocation.params.clone());
    let page = blocking::run_on(params.len().saturating_add(bytes), move || {
        page(&params, kind, merge(&requester, &lists))
    })
    .await;
    page.unwrap_or_else(|_| Err(errors::lists_took_too_long().into()))
}

/// Returns the lists as they are now. Asks all connected groups at once, for two seconds at most. A group that is not
/// connected or does not answer contributes the list of its last connection.
async fn current(groups: &GroupManager, kind: &'static ListKind) -> GroupEntries {
    let lists = groups.all().into_iter().map(|group| async move {
        let listed = timeout(GROUP_TIMEOUT, ask(&group, kind)).await.ok().flatten();
        let name = group.name.clone();
        let entries = match listed {
            Some(entries) => entries,
            None => read_last_known(group, kind).await,
        };
        (name, entries)
    });
    join_all(lists).await
}

/// Asks a connected group. Returns `None` if it is not connected or does not answer with a list, and an empty list if
/// it does not have the capability.
async fn ask(group: &Upstream, kind: &ListKind) -> Option<ListEntries> {
    let lease = group.try_lease()?;
    let catalog = group.snapshot().catalog.clone()?;
    if !kind.method.info().capability.is_some_and(|capability| catalog.info.declares(capability)) {
        return Some(ListEntries::default());
    }
    if kind.method.extension().is_some_and(|extension| !catalog.info.has_extension(extension)) {
        return Some(ListEntries::default());
    }
    let (mut reader, mut cursor) = (ListReader::<ListEntry>::new(kind.list), None::<Raw>);
    loop {
        let params =
            cursor.as_ref().map(|cursor| raw::set(&Raw::from_static(b"{}"), "cursor", cursor).into());
        let options = CallOptions::within(GROUP_TIMEOUT);
        let call = lease.call(kind.method.name(), params.as_ref(), Era::Handshake, &options);
        let page = call.await.ok()?.ok()?;
        cursor = reader.read(page).await.ok()?;
        if cursor.is_none() {
            return Some(reader.into_parts().0.into());
        }
    }
}

/// Returns one page of a merged list, with `PAGE_SIZE` entries at most. Our cursor is the index at which the page
/// begins.
///
/// # Errors
///
/// The cursor is none of ours.
fn page(params: &Raw, kind: &ListKind, entries: Vec<Raw>) -> Reply {
    let begin = match raw::get(params, "cursor").filter(|cursor| !matches!(&cursor[..], b"null" | b"\"\"")) {
        None => 0,
        Some(cursor) => {
            let index = serde_json::from_slice::<String>(&cursor).ok().and_then(|index| index.parse().ok());
            let index = index.filter(|index| (1..=entries.len()).contains(index));
            index.ok_or_else(|| Raw::from(errors::invalid_params("unknown cursor")))?
        }
    };
    let end = entries.len().min(begin + PAGE_SIZE);
    let page = raw::array(&entries[begin..end]);
    let next = if end < entries.len() { format!(",\"nextCursor\":\"{end}\"") } else { String::new() };
    Ok([format!("{{\"{}\":", kind.list.member()).as_bytes(), &page, next.as_bytes(), b"}"].concat().into())
}
