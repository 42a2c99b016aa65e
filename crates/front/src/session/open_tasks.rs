//! The MCP tasks of clients that have not ended. Each keeps its group connected, because a task does not outlive its server.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use upstream::Lease;
use wire::protocol::methods::notification;
use wire::{Raw, raw};

/// How long a task keeps its group connected if it names no time to live, or a longer one.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);

/// The tasks of one client that are not known to have ended.
#[derive(Default)]
pub(crate) struct OpenTasks(Mutex<TasksById>);

#[derive(Default)]
struct TasksById {
    /// Notifying the entry of a task releases its lease.
    ended: HashMap<String, Arc<Notify>>,
    /// Each holds the lease of one task.
    holders: JoinSet<()>,
}

impl OpenTasks {
    /// Holds the lease until the task has ended, its connection has ended, or its time to live (in milliseconds) is
    /// over, for an hour at most. Returns at once.
    pub(crate) fn add(&self, id: String, lease: Lease, ttl_ms: Option<u64>) {
        let lifetime = ttl_ms.map_or(MAX_LIFETIME, Duration::from_millis).min(MAX_LIFETIME);
        let ended = Arc::new(Notify::new());
        let mut tasks = self.0.lock();
        while tasks.holders.try_join_next().is_some() {}
        tasks.ended.retain(|_, ended| Arc::strong_count(ended) > 1);
        if let Some(previous) = tasks.ended.insert(id, ended.clone()) {
            // A server that uses an id again has ended the other task.
            previous.notify_one();
        }
        tasks.holders.spawn(async move {
            tokio::select! {
                () = ended.notified() => {}
                () = lease.ended() => {}
                () = tokio::time::sleep(lifetime) => {}
            }
        });
    }

    /// Notes what a notification of an upstream says about a task.
    pub(crate) fn observe(&self, method: &str, params: Option<&Raw>) {
        if let (notification::TASKS | notification::TASKS_STATUS, Some(task)) = (method, params) {
            self.update(task);
        }
    }

    /// Notes a task's status, as an upstream reports it, under the id that the client knows. Only a final status
    /// matters.
    pub(crate) fn update(&self, task: &Raw) {
        let status = raw::get_str(task, "status");
        if matches!(status.as_deref(), Some("completed" | "failed" | "cancelled")) {
            self.remove(&raw::get_str(task, "taskId").unwrap_or_default());
        }
    }

    /// Notes that a task has ended, which releases its lease. Unknown ids are ignored.
    pub(crate) fn remove(&self, id: &str) {
        if let Some(ended) = self.0.lock().ended.remove(id) {
            ended.notify_one();
        }
    }
}
