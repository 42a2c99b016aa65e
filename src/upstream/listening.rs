//! A stateless server says that its lists changed to whoever listens: we do, while we are connected.

use super::catalog::Introduction;
use super::dialect;
use crate::protocol::Era;
use crate::wire::peer::{CallError, CallOptions, LogText, Peer, RetryHint};
use crate::wire::raw;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// A `subscriptions/listen` is open until one side ends it; its owner drops it with the connection.
pub const FOR_GOOD: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Before a server that ended the subscription, or on whose way it broke, is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// Listens to the lists that the server says may change. Returns when it refuses or the connection has ended.
pub async fn listen(peer: Arc<Peer>, introduction: Introduction) {
    let kinds = [
        ("tools", "toolsListChanged"),
        ("resources", "resourcesListChanged"),
        ("prompts", "promptsListChanged"),
    ];
    let wanted = kinds.into_iter().filter(|(capability, _)| {
        let declared = introduction.declared().and_then(|declared| raw::get(&declared, capability));
        declared
            .and_then(|declared| raw::get(&declared, "listChanged"))
            .is_some_and(|changes| &changes[..] == b"true")
    });
    let wanted: Map<_, _> = wanted.map(|(_, name)| (name.to_owned(), Value::Bool(true))).collect();
    if wanted.is_empty() {
        return;
    }
    let params = serde_json::json!({ "notifications": wanted }).to_string();
    let params = dialect::request(Some(params.into()), Era::Handshake, Era::Stateless);
    loop {
        match peer.call("subscriptions/listen", params.clone(), CallOptions::within(FOR_GOOD)).await {
            Ok(Ok(_)) | Err(CallError::Failed { cure: RetryHint::Time, .. }) => {
                tokio::time::sleep(AGAIN).await;
            }
            Ok(Err(refusal)) => {
                tracing::warn!(refusal = %LogText(&refusal), "the server does not say when its lists change");
                return;
            }
            // How a connection ended is told by its owner.
            Err(CallError::Closed { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, "the server does not say when its lists change");
                return;
            }
        }
    }
}
