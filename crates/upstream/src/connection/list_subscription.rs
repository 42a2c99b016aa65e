//! The subscription to changes of a stateless server's lists, kept open while the connection lasts.

use super::translate;
use crate::catalog::ServerInfo;
use serde_json::{Map, Value};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use wire::Raw;
use wire::log_text::LogText;
use wire::peer::{CallError, CallOptions, Peer, RetryHint};
use wire::protocol::Era;
use wire::protocol::methods::Method;

/// The limit for a `subscriptions/listen`, which is open until one side ends it.
pub const SUBSCRIPTION_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The interval before a subscription that ended or failed is made again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The same if the server wants a login, which takes a person.
const LOGIN_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Subscribes to the lists that the server says may change, and again some time after a subscription ended or failed for
/// now. Notifies `lists_changed` when it is subscribed again: nobody heard of a change meanwhile. Returns when the server refuses, the request fails for good or the connection ends; at once if no
/// list may change.
pub(crate) async fn keep_subscribed(peer: Arc<Peer>, info: ServerInfo, lists_changed: Arc<Notify>) {
    let kinds = [
        ("tools", "toolsListChanged"),
        ("resources", "resourcesListChanged"),
        ("prompts", "promptsListChanged"),
    ];
    let wanted = kinds.into_iter().filter(|(capability, _)| info.announces_changes(capability));
    let wanted: Map<_, _> = wanted.map(|(_, name)| (name.to_owned(), Value::Bool(true))).collect();
    if wanted.is_empty() {
        return;
    }
    let params = serde_json::json!({ "notifications": wanted }).to_string();
    let params =
        translate::request(Some(params.into()), Era::Handshake, Era::Stateless, &Raw::from_static(b"{}"));
    let method = Method::SubscriptionsListen.name();
    let mut was_subscribed = false;
    loop {
        let (on_acknowledged, mut acknowledged) = watch::channel(None);
        let options = CallOptions {
            on_acknowledged: Some(on_acknowledged),
            ..CallOptions::within(SUBSCRIPTION_TIMEOUT)
        };
        let mut call = pin!(peer.call(method, params.clone(), options));
        let outcome = tokio::select! {
            outcome = &mut call => outcome,
            true = async { acknowledged.wait_for(Option::is_some).await.is_ok() } => {
                if std::mem::replace(&mut was_subscribed, true) {
                    lists_changed.notify_one();
                }
                call.await
            }
        };
        match outcome {
            Ok(Ok(_)) | Err(CallError::Failed { hint: RetryHint::Later, .. }) => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(CallError::Failed { hint: RetryHint::AfterLogin, .. }) => {
                tokio::time::sleep(LOGIN_RETRY_INTERVAL).await;
            }
            Ok(Err(error)) => {
                tracing::warn!(error = %LogText(&error), "the server does not report changes of its lists");
                return;
            }
            // The connection's owner logs why it ended.
            Err(CallError::Closed { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, "the server does not report changes of its lists");
                return;
            }
        }
    }
}
