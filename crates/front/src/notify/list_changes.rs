//! Decides when a client is told that a list changed: only if the list differs from the one that the client knows, and
//! at most once a second.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use wire::Raw;
use wire::protocol::methods::notification;

/// The shortest interval between two rounds of notifications. Some clients list everything again after each one.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Stands for the hash of a list that is not known, so that any list differs from it.
const NO_HASH: u64 = 0;

/// The content of the lists at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListContents {
    /// The result of `tools/list`; `None` if it is not known.
    pub tools: Option<Raw>,
    /// A hash of the resources and templates; `None` if they are not known.
    pub resources: Option<u64>,
    /// A hash of the prompts; `None` if they are not known.
    pub prompts: Option<u64>,
}

/// Reads the contents of the lists.
pub(crate) type ReadLists = Box<dyn Fn() -> BoxFuture<'static, ListContents> + Send>;

/// The contents that a client knows, shared with the requests that answer with a list. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct KnownLists(Arc<Mutex<ListContents>>);

impl KnownLists {
    /// Notes that the client receives this result of `tools/list`.
    pub(crate) fn tools_listed(&self, tools: &Raw) {
        self.0.lock().tools = Some(tools.clone());
    }

    /// Notes that the client asks for the resources or templates. If they are not known yet, any content counts as a change.
    pub(crate) fn resources_asked(&self) {
        self.0.lock().resources.get_or_insert(NO_HASH);
    }

    /// Notes that the client asks for the prompts. If they are not known yet, any content counts as a change.
    pub(crate) fn prompts_asked(&self) {
        self.0.lock().prompts.get_or_insert(NO_HASH);
    }
}

/// The lists as one client knows them.
pub(crate) struct ListChanges {
    /// Resolves when a list may have changed, to the receiver that reports the next change. It is a set because a set
    /// polls a future only when it was woken, and not each time that a message comes.
    waiting: FuturesUnordered<BoxFuture<'static, watch::Receiver<u64>>>,
    /// The receiver that reported a change, until the client may be told.
    due: Option<watch::Receiver<u64>>,
    /// Reads the contents of the lists.
    read: ReadLists,
    /// The contents that are being read.
    reading: FuturesUnordered<BoxFuture<'static, ListContents>>,
    /// The contents that the client knows.
    known: KnownLists,
    /// When the client may be told next.
    not_before: Option<Instant>,
}

impl ListChanges {
    /// Creates the lists of a client. `version` changes whenever a list may have changed; `known` is what the client
    /// gets if it lists now.
    pub(crate) fn new(version: watch::Receiver<u64>, known: ListContents, read: ReadLists) -> Self {
        Self {
            waiting: FuturesUnordered::from_iter([next_version(version).boxed()]),
            due: None,
            read,
            reading: FuturesUnordered::new(),
            known: KnownLists(Arc::new(Mutex::new(known))),
            not_before: None,
        }
    }

    /// Waits until a list may have changed and the client may be told. Returns the contents of the lists, which may be
    /// the same as before; `update` compares them. Cancel-safe.
    pub(crate) async fn changed(&mut self) -> ListContents {
        if self.reading.is_empty() {
            if self.due.is_none() {
                self.due = self.waiting.next().await;
            }
            if let Some(not_before) = self.not_before {
                // Boxed, because this future is made with every message.
                Box::pin(sleep_until(not_before)).await;
            }
            if let Some(mut version) = self.due.take() {
                version.mark_unchanged();
                self.waiting.push(next_version(version).boxed());
            }
            self.reading.push((self.read)());
        }
        self.reading.next().await.unwrap_or_default()
    }

    /// Reads the contents of the lists. Returns `None` if that takes a while; `changed` returns them then.
    pub(crate) fn read_now(&mut self) -> Option<ListContents> {
        let mut reading = (self.read)();
        let read = reading.as_mut().now_or_never();
        if read.is_none() {
            self.reading.push(reading);
        }
        read
    }

    /// Returns the contents that the client knows.
    pub(crate) fn known(&self) -> &KnownLists {
        &self.known
    }

    /// Takes the current contents, and returns the notifications for the lists that changed. A list that was not known,
    /// or is not now, counts as unchanged. If one changed, `changed` waits a second before the next round.
    pub(crate) fn update(&mut self, current: ListContents) -> Vec<&'static str> {
        let known = std::mem::replace(&mut *self.known.0.lock(), current.clone());
        let changes = [
            (differs(&known.tools, &current.tools), notification::TOOLS_LIST_CHANGED),
            (differs(&known.resources, &current.resources), notification::RESOURCES_LIST_CHANGED),
            (differs(&known.prompts, &current.prompts), notification::PROMPTS_LIST_CHANGED),
        ];
        let changed: Vec<_> =
            changes.into_iter().filter(|(changed, _)| *changed).map(|(_, method)| method).collect();
        if !changed.is_empty() {
            self.not_before = Some(Instant::now() + MIN_INTERVAL);
        }
        changed
    }
}

/// Returns whether a list that the client knows is another one now.
fn differs<T: PartialEq>(known: &Option<T>, current: &Option<T>) -> bool {
    known.is_some() && current.is_some() && known != current
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
        ListContents {
            tools: Some(Raw::from_static(tools.as_bytes())),
            resources: None,
            prompts: Some(prompts),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_lists_that_differ_are_reported_and_at_most_once_a_second() {
        let version = watch::Sender::new(0);
        let now = Arc::new(Mutex::new(contents("b", 1)));
        let read = now.clone();
        let read: ReadLists = Box::new(move || std::future::ready(read.lock().clone()).boxed());
        let mut changes = ListChanges::new(version.subscribe(), contents("a", 1), read);
        version.send_replace(1);
        let current = changes.changed().await;
        assert_eq!(changes.update(current), ["notifications/tools/list_changed"]);
        version.send_replace(2);
        let begin = Instant::now();
        assert!(timeout(MIN_INTERVAL / 2, changes.changed()).await.is_err());
        let current = changes.changed().await;
        assert_eq!(begin.elapsed(), MIN_INTERVAL);
        assert!(changes.update(current).is_empty());
        changes.known().tools_listed(&Raw::from_static(b"c"));
        *now.lock() = contents("c", 1);
        let current = changes.read_now().unwrap();
        assert!(changes.update(current).is_empty(), "the client has that list already");
        let with_resources = || ListContents { resources: Some(5), ..contents("c", 1) };
        assert!(changes.update(with_resources()).is_empty(), "the client has not asked for them");
        changes.update(contents("c", 1));
        changes.known().resources_asked();
        assert_eq!(changes.update(with_resources()), ["notifications/resources/list_changed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_take_a_while_are_reported_when_they_are_read() {
        let version = watch::Sender::new(0);
        let slow = || async {
            tokio::time::sleep(MIN_INTERVAL).await;
            contents("b", 1)
        };
        let mut changes =
            ListChanges::new(version.subscribe(), contents("a", 1), Box::new(move || slow().boxed()));
        assert!(changes.read_now().is_none());
        assert!(timeout(MIN_INTERVAL / 2, changes.changed()).await.is_err(), "it may be dropped meanwhile");
        let current = changes.changed().await;
        assert_eq!(changes.update(current), ["notifications/tools/list_changed"]);
    }
}
