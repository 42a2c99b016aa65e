//! Decides when a client is told that a list changed: only if the list differs from the one that the client knows, and
//! at most once a second.

use crate::protocol::methods::notification;
use crate::wire::Raw;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The shortest interval between two rounds of notifications. Some clients list everything again after each one.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The content of the lists at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListContents {
    /// The result of `tools/list`.
    pub tools: Raw,
    /// A hash of the resources and templates.
    pub resources: u64,
    /// A hash of the prompts.
    pub prompts: u64,
}

/// The lists as one client knows them.
pub struct ListChanges {
    /// Resolves when a list may have changed, to what waits for the next time. A set polls it when it was woken, and
    /// not each time that a message comes.
    waiting: FuturesUnordered<BoxFuture<'static, watch::Receiver<u64>>>,
    /// What has resolved, until the client may be told.
    due: Option<watch::Receiver<u64>>,
    /// The contents that the client knows.
    known: ListContents,
    /// When the client may be told next.
    not_before: Option<Instant>,
}

impl ListChanges {
    /// `version` changes whenever a list may have changed; `known` is what the client gets if it lists now.
    pub fn new(version: watch::Receiver<u64>, known: ListContents) -> Self {
        let waiting = FuturesUnordered::from_iter([next_version(version).boxed()]);
        Self { waiting, due: None, known, not_before: None }
    }

    /// Resolves when a list may have changed and the client may be told. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.due.is_none() {
            self.due = self.waiting.next().await;
        }
        if let Some(not_before) = self.not_before {
            sleep_until(not_before).await;
        }
        if let Some(mut version) = self.due.take() {
            version.mark_unchanged();
            self.waiting.push(next_version(version).boxed());
        }
    }

    /// Notes that the client received this result of `tools/list`.
    pub fn tools_listed(&mut self, tools: &Raw) {
        self.known.tools = tools.clone();
    }

    /// Takes the current contents, and returns the notifications for the lists that changed.
    pub fn update(&mut self, current: ListContents) -> Vec<&'static str> {
        let known = std::mem::replace(&mut self.known, current);
        let changes = [
            (known.tools != self.known.tools, notification::TOOLS_LIST_CHANGED),
            (known.resources != self.known.resources, notification::RESOURCES_LIST_CHANGED),
            (known.prompts != self.known.prompts, notification::PROMPTS_LIST_CHANGED),
        ];
        let changed: Vec<_> =
            changes.into_iter().filter(|(changed, _)| *changed).map(|(_, method)| method).collect();
        if !changed.is_empty() {
            self.not_before = Some(Instant::now() + MIN_INTERVAL);
        }
        changed
    }
}

/// Waits until the version changes. Never resolves once it can change no more.
async fn next_version(mut version: watch::Receiver<u64>) -> watch::Receiver<u64> {
    match version.changed().await {
        Ok(()) => version,
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn contents(tools: &'static str, prompts: u64) -> ListContents {
        ListContents { tools: Raw::from_static(tools.as_bytes()), resources: 0, prompts }
    }

    #[tokio::test(start_paused = true)]
    async fn only_lists_that_differ_are_reported_and_at_most_once_a_second() {
        let version = watch::Sender::new(0);
        let mut changes = ListChanges::new(version.subscribe(), contents("a", 1));
        version.send_replace(1);
        changes.changed().await;
        assert_eq!(changes.update(contents("b", 1)), ["notifications/tools/list_changed"]);
        version.send_replace(2);
        let begin = Instant::now();
        assert!(timeout(MIN_INTERVAL / 2, changes.changed()).await.is_err());
        changes.changed().await;
        assert_eq!(begin.elapsed(), MIN_INTERVAL);
        assert!(changes.update(contents("b", 1)).is_empty());
        changes.tools_listed(&Raw::from_static(b"c"));
        assert!(changes.update(contents("c", 1)).is_empty(), "the client has that list already");
    }
}
