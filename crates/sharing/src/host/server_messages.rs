//! Routes what a shared server sends on its own: requests and notifications that no call took.

use super::server::SharedServer;
use crate::attach::SERVER_ENDED;
use base::text::one_line;
use std::sync::Arc;
use wire::log_text::LogText;
use wire::peer::Peer;
use wire::protocol::methods::{Method, notification};
use wire::protocol::{LogSeverity, code};
use wire::{Raw, Request, error_object, raw};

impl SharedServer {
    /// Answers a request of the server. A question to a client is refused, because it does not say which one is meant,
    /// and the server is not shared any more from the next session on.
    pub(super) fn answer(&self, request: &Request) {
        if request.method.known() == Some(Method::Ping) {
            return self.peer.reply(&request.id, Ok(Raw::from_static(b"{}")));
        }
        self.mark_unshareable("it asks its client");
        let message =
            "this process is shared by several clients, so it cannot ask one of them; its next one is not";
        self.peer.reply(&request.id, Err(error_object(code::METHOD_NOT_FOUND, message, None)));
    }

    /// Passes a notification on to the sessions that it concerns.
    pub(super) fn route(&self, method: &str, params: Option<&Raw>) {
        let text = |name| params.and_then(|params| raw::get_str(params, name));
        let mut changes_lists_when_used = false;
        let receivers: Vec<Arc<Peer>> = {
            let table = self.table.lock();
            match method {
                notification::TOOLS_LIST_CHANGED
                | notification::RESOURCES_LIST_CHANGED
                | notification::PROMPTS_LIST_CHANGED => {
                    changes_lists_when_used = table.is_busy();
                    table.all().cloned().collect()
                }
                notification::RESOURCES_UPDATED => {
                    text("uri").map(|uri| table.subscribers(&uri).cloned().collect()).unwrap_or_default()
                }
                notification::TASKS_STATUS => {
                    text("taskId").and_then(|task| table.task_owner(&task).cloned()).into_iter().collect()
                }
                notification::MESSAGE => {
                    let severity = text("level").and_then(|level| LogSeverity::parse(&level));
                    table.log_reader(severity).cloned().into_iter().collect()
                }
                // Progress of a request that is over, the cancellation of a question that was refused, and a name that
                // only the host itself uses.
                notification::PROGRESS | notification::CANCELLED | SERVER_ENDED => return,
                _ => table.only_busy().cloned().into_iter().collect(),
            }
        };
        if changes_lists_when_used {
            self.mark_unshareable("its lists change during a request");
        }
        if receivers.is_empty() {
            let params = params.map(|params| LogText(params).to_string()).unwrap_or_default();
            self.log.push(format!("{} {params}", one_line(method)));
        }
        for receiver in receivers {
            receiver.notify(method, params.cloned());
        }
    }
}
