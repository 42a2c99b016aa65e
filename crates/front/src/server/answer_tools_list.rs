//! `tools/list`, and the lists as the client knows them.

use super::phase::SessionPhase;
use super::{ClientSession, stateless};
use crate::errors::{self, RpcError};
use crate::notify::list_changes::{ListChanges, ListContents, ReadLists};
use crate::session::request_span;
use crate::tools::protocol_extensions;
use crate::tools::tool_list::{self, ToolList};
use futures_util::FutureExt;
use std::sync::Arc;
use upstream::GroupManager;
use wire::protocol::Era;
use wire::protocol::methods::Method;
use wire::{Raw, Reply, Request};

impl ClientSession {
    /// `tools/list`: answers at once unless the groups list much, or the first list waits for start-up discovery.
    pub(super) fn list_tools(&mut self, request: Request, era: Era) {
        let known = self.list_changes.known();
        let told = move |list: &Raw| known.tools_listed(list);
        let read = read(self.groups(), self.tool_list.clone(), request.params.as_deref(), era, told);
        let mut reading = match read {
            Ok(reading) => Box::pin(reading),
            Err(error) => return self.answer(&request, era, Err(error.into())),
        };
        match reading.as_mut().now_or_never() {
            Some(reply) => self.answer(&request, era, reply),
            None => {
                let groups = self.groups().clone();
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

    /// Tells the client which lists changed, if it may be told already.
    pub(super) fn notify_list_changes(&mut self, contents: ListContents) {
        let is_operating = self.phase == SessionPhase::Operation;
        if !is_operating && !self.client().notifications.has_listeners() {
            return;
        }
        for method in self.list_changes.update(contents) {
            if is_operating {
                self.peer.notify(method, None);
            }
            self.client().notifications.list_changed(method);
        }
    }
}

/// Reads the list of tools that a request asks for. `told` gets the list that the client knows then.
///
/// # Errors
///
/// The params are not those of `tools/list`. The future fails if reading the list took too long.
pub(super) fn read<T: FnOnce(&Raw) + Send + 'static>(
    groups: &Arc<GroupManager>,
    list: ToolList,
    params: Option<&Raw>,
    era: Era,
    told: T,
) -> Result<impl Future<Output = Reply> + Send + use<T>, RpcError> {
    tool_list::check_params(params)?;
    let lazy = protocol_extensions::parse_lazy(params)?;
    let groups = groups.clone();
    Ok(async move {
        let listed = match lazy {
            Some(lazy) => {
                groups.run_on_lists(move |groups| protocol_extensions::list(groups, lazy, era)).await
            }
            None => list.result(&groups).await.inspect(told),
        };
        listed.map_err(|_| Raw::from(errors::lists_took_too_long()))
    })
}

/// Returns the lists as a client knows them: as they are now if they are known at once, else not at all. Before the groups
/// are started no list is known.
pub(super) fn changes(tool_list: &ToolList, groups: &Arc<GroupManager>, is_started: bool) -> ListChanges {
    let (list, of) = (tool_list.clone(), groups.clone());
    let read: ReadLists = Box::new(move || list.clone().contents(of.clone()).boxed());
    let known = is_started.then(|| read().now_or_never()).flatten();
    ListChanges::new(groups.list_version(), known.unwrap_or_default(), read)
}
