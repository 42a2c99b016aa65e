//! `tools/list`, and the lists as the client knows them.

use super::{ClientSession, stateless};
use crate::client::Client;
use crate::errors;
use crate::notify::list_changes::{ListChanges, ReadLists};
use crate::session::request_span;
use crate::tools::protocol_extensions;
use crate::tools::tool_list::{self, ToolList};
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use upstream::GroupManager;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{Raw, Request};

impl ClientSession {
    /// `tools/list`: answers at once unless the groups list much, or the first list waits for start-up discovery.
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
                let groups = self.groups.clone();
                let complete = async move {
                    let reply = reading.await;
                    match era {
                        Era::Handshake => reply,
                        Era::Stateless => {
                            stateless::complete(Method::ToolsList, reply, tool_list::ttl_ms(&groups))
                        }
                    }
                };
                self.requests.start(request.id, request_span::continued(Box::pin(complete)));
            }
        }
    }
}

/// Returns the list of tools of `client`, and the lists as the client knows them: as they are now if they are known at once, else not
/// at all. `first_list_wait`: how long the first list may wait for start-up discovery; `None` before the groups are
/// started, when no list is known.
pub(super) fn lists(
    groups: &Arc<GroupManager>,
    client: &Arc<Client>,
    first_list_wait: Option<Duration>,
) -> (ToolList, ListChanges) {
    let tool_list = ToolList::new(groups, client.clone(), first_list_wait.unwrap_or_default());
    let (list, of) = (tool_list.clone(), groups.clone());
    let read: ReadLists = Box::new(move || list.clone().contents(of.clone()).boxed());
    let known = first_list_wait.and_then(|_| read().now_or_never());
    (tool_list, ListChanges::new(groups.list_version(), known.unwrap_or_default(), read))
}
