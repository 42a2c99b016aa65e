//! The tasks of all groups, and which of them panicked.

use crate::handle::Upstream;
use config::GroupName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};

/// The tasks of all groups.
#[derive(Default)]
pub(super) struct GroupTasks(Mutex<RunningTasks>);

#[derive(Default)]
struct RunningTasks {
    /// The tasks that have not ended.
    tasks: JoinSet<()>,
    /// The groups of the tasks.
    names: HashMap<Id, GroupName>,
    /// Notified when a task is added.
    added: Arc<Notify>,
    /// Groups that the config no longer has, and whose tasks have not ended.
    retired: HashMap<GroupName, Upstream>,
}

impl GroupTasks {
    /// Spawns the task of a group.
    pub(super) fn spawn(&self, name: &GroupName, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock();
        let id = running.tasks.spawn(task).id();
        running.names.insert(id, name.clone());
        running.added.notify_one();
    }

    /// Remembers a group that the config no longer has until its task has ended.
    pub(super) fn retire(&self, group: Upstream) {
        self.0.lock().retired.insert(group.name.clone(), group);
    }

    /// Returns a retired group whose task may not have ended.
    pub(super) fn retired(&self, name: &GroupName) -> Option<Upstream> {
        self.0.lock().retired.get(name).cloned()
    }

    /// Takes all tasks, for the shutdown.
    pub(super) fn take(&self) -> JoinSet<()> {
        std::mem::take(&mut self.0.lock().tasks)
    }

    /// Waits until a task panics, and returns its group. Cancel-safe.
    pub(super) async fn panicked(&self) -> GroupName {
        loop {
            let ended = self.next_ended().await;
            let (id, panicked) = match &ended {
                Ok((id, ())) => (*id, false),
                Err(error) => (error.id(), error.is_panic()),
            };
            let mut running = self.0.lock();
            running.retired.retain(|_, group| !group.has_ended());
            if let Some(name) = running.names.remove(&id).filter(|_| panicked) {
                return name;
            }
        }
    }

    async fn next_ended(&self) -> Result<(Id, ()), JoinError> {
        let added = self.0.lock().added.clone();
        loop {
            let ended = poll_fn(|context| match self.0.lock().tasks.poll_join_next_with_id(context) {
                // No task runs.
                Poll::Ready(None) => Poll::Ready(None),
                other => other,
            });
            tokio::select! {
                biased;
                Some(ended) = ended => return ended,
                () = added.notified() => {}
            }
        }
    }
}
