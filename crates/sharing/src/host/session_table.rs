//! What the sessions of one server have in common. No I/O: each change returns what has to be sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use wire::protocol::LogSeverity;

/// How many tasks the host remembers the owner of. The oldest are forgotten: no session may ask about them any more.
const MAX_TASKS: usize = 4096;

/// A session whose last request is older than this takes no share of the server.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// The number of a session. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SessionId(pub(super) u64);

/// The sessions of one server. `S` is how a session is reached.
#[derive(Debug)]
pub(super) struct SessionTable<S> {
    /// The sessions.
    sessions: BTreeMap<SessionId, SessionEntry<S>>,
    /// The sessions that subscribed to each resource. The server has one subscription for all of them.
    subscribers: HashMap<String, BTreeSet<SessionId>>,
    /// The session that each task belongs to.
    tasks: HashMap<String, SessionId>,
    /// The tasks, oldest first.
    task_order: VecDeque<String>,
    /// The log level that the server was asked for.
    server_level: Option<LogSeverity>,
    /// Whether no more sessions are added, because the server ends.
    is_closed: bool,
}

/// One session.
#[derive(Debug)]
struct SessionEntry<S> {
    /// How it is reached.
    reach: S,
    /// The number of its requests that the server has not answered.
    open: usize,
    /// When its last request came.
    last_request: Option<Instant>,
    /// The log level that it asked for.
    level: Option<LogSeverity>,
}

/// How the other sessions of a server use it when a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Competition {
    /// None has used it lately.
    None,
    /// Some have used it within the last second.
    Recent,
    /// Some have open requests.
    Open,
}

/// What the server has to be told after a session has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// The resources without a subscribed session.
    pub(super) unsubscribe: Vec<String>,
    /// The tasks of the session. No other session can ask about them.
    pub(super) cancel_tasks: Vec<String>,
    /// The log level that is enough for the others.
    pub(super) level: Option<LogSeverity>,
}

impl<S> Default for SessionTable<S> {
    fn default() -> Self {
        Self {
            sessions: BTreeMap::new(),
            subscribers: HashMap::new(),
            tasks: HashMap::new(),
            task_order: VecDeque::new(),
            server_level: None,
            is_closed: false,
        }
    }
}

impl<S> SessionTable<S> {
    /// Adds a session. Returns false if the server ends.
    pub(super) fn add(&mut self, id: SessionId, reach: S) -> bool {
        if !self.is_closed {
            self.sessions.insert(id, SessionEntry { reach, open: 0, last_request: None, level: None });
        }
        !self.is_closed
    }

    /// Returns whether no more sessions are added.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds no more sessions. Returns those that there are.
    pub(super) fn close(&mut self) -> impl Iterator<Item = &S> {
        self.is_closed = true;
        self.all()
    }

    /// Adds no more sessions, unless there is one. Returns whether the table is closed.
    pub(super) fn close_if_empty(&mut self) -> bool {
        self.is_closed |= self.sessions.is_empty();
        self.is_closed
    }

    /// Removes a session and everything of it.
    pub(super) fn remove(&mut self, id: SessionId) -> Leftovers {
        self.sessions.remove(&id);
        let lost_its_last = |_: &String, subscribers: &mut BTreeSet<SessionId>| {
            subscribers.remove(&id) && subscribers.is_empty()
        };
        let unsubscribe = self.subscribers.extract_if(lost_its_last).map(|(uri, _)| uri).collect();
        let cancel_tasks = self.tasks.extract_if(|_, owner| *owner == id).map(|(task, _)| task).collect();
        let tasks = &self.tasks;
        self.task_order.retain(|task| tasks.contains_key(task));
        Leftovers { unsubscribe, cancel_tasks, level: self.changed_level() }
    }

    /// Returns the sessions.
    pub(super) fn all(&self) -> impl Iterator<Item = &S> {
        self.sessions.values().map(|session| &session.reach)
    }

    /// Counts a request of a session. Returns how the other sessions use the server.
    pub(super) fn request_began(&mut self, id: SessionId, now: Instant) -> Competition {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.open += 1;
            session.last_request = Some(now);
        }
        self.competition(id, now)
    }

    /// Returns how the other sessions use the server.
    pub(super) fn competition(&self, id: SessionId, now: Instant) -> Competition {
        let mut competition = Competition::None;
        for (_, other) in self.sessions.iter().filter(|(other, _)| **other != id) {
            if other.open > 0 {
                return Competition::Open;
            }
            if other.last_request.is_some_and(|last| now < last + ACTIVE_FOR) {
                competition = Competition::Recent;
            }
        }
        competition
    }

    /// Counts the end of such a request.
    pub(super) fn request_ended(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.open -= 1;
        }
    }

    /// Returns whether any session has an open request.
    pub(super) fn is_busy(&self) -> bool {
        self.sessions.values().any(|session| session.open > 0)
    }

    /// Returns the session that a message of the server belongs to that names no request: the only one with an open
    /// request.
    pub(super) fn only_busy(&self) -> Option<&S> {
        self.only_busy_entry().map(|session| &session.reach)
    }

    fn only_busy_entry(&self) -> Option<&SessionEntry<S>> {
        let mut busy = self.sessions.values().filter(|session| session.open > 0);
        busy.next().filter(|_| busy.next().is_none())
    }

    /// Returns the session that gets a log message of this severity: the only one with an open request, if it wants it.
    pub(super) fn log_reader(&self, severity: Option<LogSeverity>) -> Option<&S> {
        let session = self.only_busy_entry()?;
        match (session.level, severity) {
            (Some(wanted), Some(severity)) if severity < wanted => None,
            _ => Some(&session.reach),
        }
    }

    /// Adds a subscriber. It counts from the moment that its request is sent, so that another session's `unsubscribe`,
    /// which may come before the answer, leaves it.
    pub(super) fn subscribe(&mut self, id: SessionId, uri: &str) {
        self.subscribers.entry(uri.to_owned()).or_default().insert(id);
    }

    /// Removes a subscriber. Returns whether none is left, so that the server has to be told. That is also so if there
    /// was none.
    pub(super) fn unsubscribe(&mut self, id: SessionId, uri: &str) -> bool {
        let Some(subscribers) = self.subscribers.get_mut(uri) else { return true };
        subscribers.remove(&id);
        let is_last = subscribers.is_empty();
        if is_last {
            self.subscribers.remove(uri);
        }
        is_last
    }

    /// Returns the subscribers of a resource.
    pub(super) fn subscribers(&self, uri: &str) -> impl Iterator<Item = &S> {
        let ids = self.subscribers.get(uri).into_iter().flatten();
        ids.filter_map(|id| self.sessions.get(id)).map(|session| &session.reach)
    }

    /// Remembers whose a task is.
    pub(super) fn add_task(&mut self, id: SessionId, task: String) {
        if self.tasks.insert(task.clone(), id).is_none() {
            self.task_order.push_back(task);
        }
        if self.task_order.len() > MAX_TASKS
            && let Some(oldest) = self.task_order.pop_front()
        {
            self.tasks.remove(&oldest);
        }
    }

    /// Returns whether a task belongs to a session.
    pub(super) fn owns_task(&self, id: SessionId, task: &str) -> bool {
        self.tasks.get(task) == Some(&id)
    }

    /// Returns the session that a task belongs to.
    pub(super) fn task_owner(&self, task: &str) -> Option<&S> {
        self.sessions.get(self.tasks.get(task)?).map(|session| &session.reach)
    }

    /// Sets the log level that a session wants. Returns the level to ask the server for, if that changes.
    pub(super) fn set_level(&mut self, id: SessionId, level: LogSeverity) -> Option<LogSeverity> {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.level = Some(level);
        }
        self.changed_level()
    }

    /// Returns the lowest level that a session wants, if the server was asked for another one, and records that the
    /// server is asked for it now.
    fn changed_level(&mut self) -> Option<LogSeverity> {
        let lowest = self.sessions.values().filter_map(|session| session.level).min()?;
        if self.server_level == Some(lowest) {
            return None;
        }
        self.server_level = Some(lowest);
        Some(lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn table() -> SessionTable<char> {
        let mut table = SessionTable::default();
        table.add(A, 'a');
        table.add(B, 'b');
        table
    }

    fn level(name: &str) -> LogSeverity {
        LogSeverity::parse(name).unwrap()
    }

    #[test]
    fn the_server_keeps_a_subscription_until_the_last_session_ends_it() {
        let mut table = table();
        table.subscribe(A, "u");
        table.subscribe(B, "u");
        assert_eq!(table.subscribers("u").collect::<String>(), "ab");
        assert!(!table.unsubscribe(A, "u"));
        assert!(!table.unsubscribe(A, "u"));
        assert_eq!(table.subscribers("u").collect::<String>(), "b");
        assert_eq!(table.remove(B).unsubscribe, ["u"]);
        assert_eq!(table.subscribers("u").count(), 0);
        assert!(table.unsubscribe(A, "other"));
    }

    #[test]
    fn the_server_is_asked_for_the_lowest_level_only() {
        let mut table = table();
        assert_eq!(table.set_level(A, level("warning")), Some(level("warning")));
        assert_eq!(table.set_level(B, level("error")), None);
        assert_eq!(table.set_level(B, level("debug")), Some(level("debug")));
        assert_eq!(table.remove(B).level, Some(level("warning")));
        assert_eq!(table.remove(A).level, None);
    }

    #[test]
    fn a_log_message_goes_to_the_only_session_that_waits_and_wants_it() {
        let mut table = table();
        table.set_level(A, level("warning"));
        assert_eq!(table.log_reader(Some(level("error"))), None);
        let now = Instant::now();
        assert_eq!(table.request_began(A, now), Competition::None);
        assert_eq!(table.log_reader(Some(level("error"))), Some(&'a'));
        assert_eq!(table.log_reader(None), Some(&'a'));
        assert_eq!(table.log_reader(Some(level("info"))), None);
        assert_eq!(table.request_began(B, now), Competition::Open);
        assert_eq!(table.log_reader(Some(level("error"))), None);
        assert_eq!(table.only_busy(), None);
        table.request_ended(A);
        assert_eq!(table.only_busy(), Some(&'b'));
        assert_eq!(table.log_reader(Some(level("debug"))), Some(&'b'));
        assert_eq!(table.request_began(B, now), Competition::Recent);
        assert_eq!(table.request_began(B, now + ACTIVE_FOR), Competition::None);
    }

    #[test]
    fn a_task_belongs_to_the_session_that_made_it() {
        let mut table = table();
        table.add_task(A, "t".to_owned());
        assert!(table.owns_task(A, "t") && !table.owns_task(B, "t"));
        assert_eq!(table.task_owner("t"), Some(&'a'));
        assert_eq!(table.remove(A).cancel_tasks, ["t"]);
        assert_eq!(table.task_owner("t"), None);
        for n in 0..=MAX_TASKS {
            table.add_task(B, n.to_string());
        }
        assert!(!table.owns_task(B, "0") && table.owns_task(B, "1"));
        assert_eq!(table.task_order.len(), MAX_TASKS);
    }
}
