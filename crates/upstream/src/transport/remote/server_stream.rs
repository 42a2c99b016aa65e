//! What the server's own event stream is needed for, and why it is missing.

use parking_lot::Mutex;
use std::collections::HashSet;
use tokio::sync::watch;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

/// What is known of the server's own event stream. Shared by the tasks of a connection and those who describe the group.
#[derive(Default)]
pub struct ServerStream {
    /// The URIs of the resources that are subscribed to; their updates come on the stream.
    subscribed: watch::Sender<HashSet<Raw>>,
    /// Why the stream is missing, once that is not only an interruption.
    missing: Mutex<Option<String>>,
}

impl ServerStream {
    /// Records a request that the server has carried out, if it begins or ends a subscription.
    pub(crate) fn record(&self, method: &str, request: &Raw) {
        let uri = || raw::get(&raw::get(request, "params")?, "uri");
        if method == Method::ResourcesSubscribe.name() {
            self.subscribed.send_modify(|uris| uris.extend(uri()));
        } else if method == Method::ResourcesUnsubscribe.name() {
            let ended = uri();
            self.subscribed.send_modify(|uris| uris.retain(|uri| Some(uri) != ended.as_ref()));
        }
    }

    /// Returns whether a subscription needs the stream.
    pub(crate) fn is_needed(&self) -> bool {
        !self.subscribed.borrow().is_empty()
    }

    /// Resolves when a subscription needs the stream.
    pub(crate) async fn needed(&self) {
        // The sender is `self`, so there is always one.
        drop(self.subscribed.subscribe().wait_for(|uris| !uris.is_empty()).await);
    }

    /// Sets why the stream is missing. `None`: it is open.
    pub(crate) fn set_missing(&self, why: Option<String>) {
        *self.missing.lock() = why;
    }

    /// Returns what the user should know: a subscription needs the stream, and it is missing.
    pub fn finding(&self) -> Option<String> {
        let why = self.missing.lock().clone().filter(|_| self.is_needed())?;
        Some(format!(
            "subscriptions to its resources bring no updates, because its event stream (GET) cannot be opened: {why}"
        ))
    }
}
