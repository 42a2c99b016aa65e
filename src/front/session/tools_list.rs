//! `tools/list`, and the lists as the client knows them.

use super::{ClientSession, stateless};
use crate::front::errors;
use crate::front::interaction::list_changes::{ListChanges, ReadLists};
use crate::front::tools::protocol_extensions;
use crate::front::tools::tool_list::{self, ToolList};
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::protocol::methods::Method;
use crate::wire::{Raw, Request};
use futures_util::FutureExt;
use std::sync::Arc;

/// How long a client may cache `tools/list`, in milliseconds. Listeners are notified of changes earlier.
const LIST_TTL_MS: u32 = 300_000;

impl ClientSession {
    /// `tools/list`: answers at once unless the groups list much.
    pub(super) fn list_tools(&mut self, request: Request, era: Era) {
        let params = request.params.as_deref();
        let checked = tool_list::check_params(params).and_then(|()| protocol_extensions::parse_lazy(params));
        let lazy = match checked {
            Ok(lazy) => lazy,
            Err(error) => return self.answer(&request, era, Err(error.into())),
        };
        let (groups, list, known) = (self.groups.clone(), self.tool_list.clone(), self.list_changes.known());
        let mut reading = Box::pin(async move {
            let listed = match lazy {
                Some(lazy) => {
                    groups.run_on_lists(move |groups| protocol_extensions::list(groups, lazy, era)).await
                }
                None => list.result(&groups).await.inspect(|list| known.tools_listed(list)),
            };
            listed.map_err(|_| Raw::from(errors::lists_took_too_long()))
        });
        match reading.as_mut().now_or_never() {
            Some(reply) => self.answer(&request, era, reply),
            None => {
                let (method, ttl_ms) = (Method::ToolsList, self.list_ttl_ms());
                self.requests.start(
                    request.id,
                    match era {
                        Era::Handshake => reading,
                        Era::Stateless => {
                            Box::pin(async move { stateless::complete(method, reading.await, ttl_ms) })
                        }
                    },
                );
            }
        }
    }

    /// How long a client may cache a list, in milliseconds.
    pub(super) fn list_ttl_ms(&self) -> u32 {
        if self.groups.is_discovering() { 0 } else { LIST_TTL_MS }
    }
}

/// Returns the list of tools, and the lists as the client knows them: as they are now if the groups `are_started` and list
/// little, else not at all.
pub(super) fn lists(groups: &Arc<GroupManager>, are_started: bool) -> (ToolList, ListChanges) {
    let tool_list = ToolList::new(groups);
    let (list, of) = (tool_list.clone(), groups.clone());
    let read: ReadLists = Box::new(move || list.clone().contents(of.clone()).boxed());
    let known = if are_started { read().now_or_never() } else { None };
    (tool_list, ListChanges::new(groups.list_version(), known.unwrap_or_default(), read))
}
