//! The client of a session: what it sent and got, and what must hold of that.

use crate::list::{AnswerPlan, ClientPlan, RequestKind};
use crate::server::{LONG_TOOL, Shared};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::raw;

/// How long a server has to be well again before everything must work: lists that could not be read are read again after
/// 30 s.
pub(crate) const RECOVERY: Duration = Duration::from_secs(45);
/// A request ends after this: `timeout.wait` and the longest timeout of a method, twice, and what a person takes who
/// answers.
pub(crate) const BOUND: Duration = Duration::from_secs(2 * (20 + 30) + 10);
/// A request that waits for a person who never answers, or for the end of a task.
pub(crate) const LONG_BOUND: Duration = Duration::from_secs(2 * 3600 + 300);

/// A request that is not answered.
pub(crate) struct Open {
    pub(crate) kind: RequestKind,
    pub(crate) server: usize,
    pub(crate) tool: &'static str,
    /// The text that an answer must have if the server is well.
    pub(crate) expected: String,
    pub(crate) nonce: String,
    pub(crate) sent: Instant,
    pub(crate) cancelled: Option<Instant>,
    pub(crate) bound: Duration,
}

/// What the session knows of one server.
pub(crate) struct Known {
    pub(crate) state: Shared,
    /// When its entry last changed.
    pub(crate) edited: Option<Instant>,
    pub(crate) is_configured: bool,
    pub(crate) denies: bool,
}

pub(crate) struct Client {
    pub(crate) is_handshake: bool,
    pub(crate) open: BTreeMap<String, Open>,
    pub(crate) count: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) plan: AnswerPlan,
    pub(crate) known: Vec<Known>,
    /// When the client last did not read.
    pub(crate) paused: Option<Instant>,
    pub(crate) is_paused: bool,
    /// When the session began.
    pub(crate) began: Instant,
    pub(crate) is_ending: bool,
    pub(crate) is_operating: bool,
    pub(crate) can_answer: bool,
    pub(crate) is_flat: bool,
    /// See `World`.
    exposed: Arc<Mutex<BTreeMap<String, String>>>,
    /// Whether it has ever left questions without an answer.
    was_silent: bool,
    pub(crate) tasks: Vec<String>,
    /// The servers whose answer with the result of a task may have been dropped, so that nobody knows of its end.
    pub(crate) lost_results: BTreeSet<usize>,
    /// The open subscriptions, and when each was asked for.
    pub(crate) subscribed: BTreeMap<(usize, String), Instant>,
    /// When the end of a subscription was last asked for.
    unsubscribed: HashMap<(usize, String), Instant>,
    /// The answer to each list as the client knows it, and when a notification said that it changed.
    lists: HashMap<&'static str, (Bytes, Option<Instant>)>,
    told: HashMap<String, Instant>,
    /// How many approvals of the guarded tool were given.
    pub(crate) approvals: usize,
    pub(crate) updates: Vec<String>,
    /// The answers so far, for the checks at the end.
    pub(crate) answers: HashMap<String, Bytes>,
    /// Ids that were answered.
    done: BTreeSet<String>,
    pub(crate) refused_as_lost: Vec<(usize, Instant)>,
    pub(crate) statistics: BTreeMap<&'static str, usize>,
}

impl Client {
    pub(crate) fn new(
        plan: &ClientPlan,
        is_flat: bool,
        known: Vec<Known>,
        exposed: Arc<Mutex<BTreeMap<String, String>>>,
    ) -> Self {
        Self {
            is_handshake: plan.handshake.is_some(),
            open: BTreeMap::new(),
            count: 0,
            violations: Vec::new(),
            plan: AnswerPlan::Accept,
            known,
            paused: None,
            is_paused: false,
            began: Instant::now(),
            is_ending: false,
            is_operating: false,
            can_answer: plan.can_answer,
            is_flat,
            exposed,
            was_silent: false,
            tasks: Vec::new(),
            lost_results: BTreeSet::new(),
            subscribed: BTreeMap::new(),
            unsubscribed: HashMap::new(),
            lists: HashMap::new(),
            told: HashMap::new(),
            approvals: 0,
            updates: Vec::new(),
            answers: HashMap::new(),
            done: BTreeSet::new(),
            refused_as_lost: Vec::new(),
            statistics: BTreeMap::new(),
        }
    }

    pub(crate) fn answer_with(&mut self, plan: AnswerPlan) {
        self.plan = plan;
        self.was_silent |= plan == AnswerPlan::Never;
    }

    pub(crate) fn violate(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }

    fn was_paused(&self, within: Duration) -> bool {
        self.is_paused || self.paused.is_some_and(|at| at.elapsed() < within)
    }

    /// Whether nothing excuses a failure of a request about this server that was sent at `sent`.
    fn is_well(&self, server: usize, sent: Instant) -> bool {
        let within = sent.elapsed() + RECOVERY;
        self.is_undisturbed(server, within) && !self.known[server].state.lock().was_troubled(within)
    }

    /// Whether neither the user nor the client has disturbed a server within this time.
    fn is_undisturbed(&self, server: usize, within: Duration) -> bool {
        let known = &self.known[server];
        known.is_configured
            && known.edited.is_none_or(|at| at.elapsed() > within)
            && !self.was_paused(within)
            && !self.is_ending
    }

    /// Checks that no request waits longer than it may.
    pub(crate) fn check_deadlines(&mut self) {
        if self.is_paused {
            return;
        }
        let late = self.open.iter().filter(|(_, open)| self.is_late(open));
        let late: Vec<_> = late
            .map(|(id, open)| format!("{:?} {id} has no answer after {:?}", open.kind, open.sent.elapsed()))
            .collect();
        self.violations.extend(late);
    }

    /// Whether a request waits, or has waited, for longer than it may.
    fn is_late(&self, open: &Open) -> bool {
        let since = self.paused.map_or(open.sent, |paused| paused.max(open.sent));
        let bound = if self.was_silent { open.bound.max(LONG_BOUND) } else { open.bound };
        open.cancelled.is_none() && since.elapsed() > bound
    }

    /// Handles one line of the proxy.
    pub(crate) fn receive(&mut self, line: &[u8], replies: &mpsc::UnboundedSender<(Duration, String)>) {
        let line = Bytes::copy_from_slice(line);
        if std::str::from_utf8(&line).is_err() {
            return self.violate("a line that is not UTF-8");
        }
        if line.first() == Some(&b'[') {
            for element in raw::elements_of(&line).unwrap_or_default() {
                self.receive(&element, replies);
            }
            return;
        }
        match (raw::get_str(&line, "method"), raw::get(&line, "id")) {
            (Some(method), Some(id)) => self.question(&method, &id, &line, replies),
            (Some(method), None) => self.notification(&method, &line),
            (None, Some(id)) => self.answer(&String::from_utf8_lossy(&id), line),
            (None, None) => self.violate(format!("no message: {}", String::from_utf8_lossy(&line))),
        }
    }

    fn question(
        &mut self,
        method: &str,
        id: &[u8],
        line: &[u8],
        replies: &mpsc::UnboundedSender<(Duration, String)>,
    ) {
        let id = String::from_utf8_lossy(id);
        let text = String::from_utf8_lossy(line);
        *self.statistics.entry("questions").or_default() += 1;
        let accepted = match method {
            "ping" => json!({}),
            "roots/list" => json!({"roots": []}),
            "sampling/createMessage" => {
                json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"})
            }
            "elicitation/create" => {
                let accepts = matches!(self.plan, AnswerPlan::Accept | AnswerPlan::Late);
                if accepts && text.contains("guarded") {
                    self.approvals += 1;
                }
                match self.plan {
                    AnswerPlan::Dismiss => json!({"action": "cancel"}),
                    _ if accepts => json!({"action": "accept", "content": {}}),
                    _ => json!({"action": "decline"}),
                }
            }
            _ => return self.violate(format!("the client was asked {text}")),
        };
        if !self.can_answer && method != "ping" {
            return self.violate(format!("a client without capabilities was asked {text}"));
        }
        let (delay, answer) = match self.plan {
            AnswerPlan::Never => return,
            AnswerPlan::Error => {
                (0, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no"}}}}"#))
            }
            AnswerPlan::Late => (2, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{accepted}}}"#)),
            AnswerPlan::Accept | AnswerPlan::Decline | AnswerPlan::Dismiss => {
                (0, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{accepted}}}"#))
            }
        };
        drop(replies.send((Duration::from_secs(delay), answer)));
    }

    fn notification(&mut self, method: &str, line: &[u8]) {
        *self.statistics.entry("notifications").or_default() += 1;
        if let Some(list) = method.strip_suffix("/list_changed") {
            for (name, (_, told)) in &mut self.lists {
                if list.ends_with(name) || (*name == "templates" && list.ends_with("resources")) {
                    *told = Some(Instant::now());
                }
            }
            if !self.is_handshake {
                return;
            }
            if !self.is_operating {
                self.violate(format!("{method} before the session operates"));
            }
            let last = self.told.insert(method.to_owned(), Instant::now());
            // What a pipe held back may come at once.
            if last.is_some_and(|last| last.elapsed() < Duration::from_millis(999))
                && !self.was_paused(Duration::from_secs(5))
            {
                self.violate(format!("{method} twice within a second"));
            }
        }
        if method == "notifications/resources/updated" {
            let params = raw::get(&Bytes::copy_from_slice(line), "params");
            let uri = params.and_then(|params| raw::get_str(&params, "uri")).unwrap_or_default();
            if self.is_handshake && !self.was_ever_subscribed(&uri) {
                self.violate(format!("an update of {uri}, which nobody subscribed to"));
            }
            self.updates.push(uri);
        }
    }

    /// Whether a subscription was not ended by a request that was sent later and answered earlier.
    fn was_last(&self, open: &Open) -> bool {
        let ended = self.unsubscribed.get(&(open.server, open.expected.clone()));
        ended.is_none_or(|ended| *ended < open.sent)
    }

    /// Notes that the client has no subscription to a resource any more, because of a request that was sent at `sent`.
    pub(crate) fn end_subscription(&mut self, topic: &(usize, String), sent: Instant) {
        // The answers may come in another order.
        if self.subscribed.get(topic).is_some_and(|asked| *asked < sent) {
            self.subscribed.remove(topic);
        }
        self.unsubscribed.insert(topic.clone(), sent);
        *self.statistics.entry("unsubscribed").or_default() += 1;
    }

    fn was_ever_subscribed(&self, uri: &str) -> bool {
        let is_open = |open: &Open| open.kind == RequestKind::Subscribe && open.expected == uri;
        self.subscribed.keys().any(|(_, known)| known == uri)
            || self.open.values().any(is_open)
            || self.statistics.get("unsubscribed").is_some_and(|n| *n > 0)
    }

    fn answer(&mut self, id: &str, line: Bytes) {
        let text = String::from_utf8_lossy(&line).into_owned();
        if id == "null" {
            return;
        }
        let Some(open) = self.open.remove(id) else {
            let again = if self.done.contains(id) { "a second answer" } else { "an answer to nothing" };
            return self.violate(format!("{again}: {}", shorten(&text)));
        };
        self.done.insert(id.to_owned());
        if let Some(cancelled) = open.cancelled
            && cancelled.elapsed() > Duration::from_millis(5)
            && !self.was_paused(cancelled.elapsed() + Duration::from_secs(1))
        {
            return self.violate(format!("an answer after the request was cancelled: {}", shorten(&text)));
        }
        *self.statistics.entry("answers").or_default() += 1;
        if self.is_late(&open) && !self.is_paused {
            self.violate(format!("{:?} {id} was answered after {:?}", open.kind, open.sent.elapsed()));
        }
        self.check_list(&open, &line);
        if crate::is_verbose() {
            eprintln!("    {:?}: {}", open.kind, shorten(&text));
        }
        self.check(&open, &text);
        self.answers.insert(id.to_owned(), line);
    }

    /// A list that differs from the one that the client knows is announced before.
    fn check_list(&mut self, open: &Open, line: &Bytes) {
        let name = match open.kind {
            RequestKind::ToolsList => "tools",
            RequestKind::ResourcesList => "resources",
            RequestKind::TemplatesList => "templates",
            RequestKind::PromptsList => "prompts",
            _ => return,
        };
        let Some(result) = raw::get(line, "result") else { return };
        if open.kind == RequestKind::ToolsList {
            self.learn_names(&result);
        }
        // A request that was sent before the notification does not answer it.
        let told = self.lists.get(name).and_then(|(_, told)| *told);
        let last = self.lists.insert(name, (result.clone(), told.filter(|told| *told >= open.sent)));
        // Notifications come only once the session operates, and a list that waited may have been passed by one.
        if let Some((last, _)) = last
            && self.is_handshake
            && self.is_operating
            && last != result
            && told.is_none()
            && open.sent.elapsed() < Duration::from_millis(1)
            && name == "tools"
            && self.began.elapsed() > Duration::from_secs(5)
        {
            // At most once a second, so that the notification may be due.
            let due = self
                .told
                .get("notifications/tools/list_changed")
                .is_some_and(|at| at.elapsed() < Duration::from_secs(1));
            if !due && !self.recently_changed() {
                self.violate(format!(
                    "tools/list changed and nobody said so:\n{}\n{}",
                    String::from_utf8_lossy(&last),
                    String::from_utf8_lossy(&result)
                ));
            }
        }
    }

    /// Notes under which names the list has the tools whose own names are too long.
    fn learn_names(&mut self, result: &Bytes) {
        for tool in raw::elements(result, "tools").unwrap_or_default() {
            let name = raw::get_str(&tool, "name").unwrap_or_default();
            let owner = name.split("__").next().unwrap_or_default().to_owned();
            if name.contains(&LONG_TOOL[..10]) && name.starts_with("s") {
                self.exposed.lock().insert(owner, name);
            }
        }
    }

    /// A list that changes at this very moment may be read before the notification is written.
    fn recently_changed(&self) -> bool {
        self.known.iter().any(|known| {
            known.edited.is_some_and(|at| at.elapsed() < Duration::from_secs(3))
                || known.state.lock().listed_at.is_some_and(|at| at.elapsed() < Duration::from_secs(3))
        })
    }

    fn check(&mut self, open: &Open, text: &str) {
        use RequestKind as K;
        let is_error = text.contains(r#""error":{"#) || text.contains(r#""isError":true"#);
        if is_error && text.contains("was restarted since the last call") {
            self.refused_as_lost.push((open.server, Instant::now()));
            return;
        }
        if text.contains("input_required") {
            return;
        }
        if !is_error
            && let Some(execution) = self.execution(open)
            && !matches!(open.kind, K::CallAsTask)
            && !text.contains(&execution)
        {
            return self.violate(format!(
                "the result is not what the server sent:\n{}\n{}",
                shorten(text),
                shorten(&execution)
            ));
        }
        if matches!(open.kind, K::Call | K::CallDirectly | K::CallReadOnly)
            && !is_error
            && self.execution(open).is_none()
        {
            return self.violate(format!("a result of a call that no server got: {}", shorten(text)));
        }
        if let Some(task) = text.split(r#""taskId":""#).nth(1).and_then(|rest| rest.split('"').next())
            && open.kind == K::CallAsTask
        {
            self.tasks.push(task.to_owned());
        }
        match open.kind {
            K::Subscribe if !is_error && self.was_last(open) => {
                self.subscribed.insert((open.server, open.expected.clone()), open.sent);
            }
            // The server may have subscribed it all the same.
            K::Subscribe if is_error => *self.statistics.entry("unsubscribed").or_default() += 1,
            K::Unsubscribe => self.end_subscription(&(open.server, open.expected.clone()), open.sent),
            _ => {}
        }
        self.check_cause(open, text, is_error);
        if !self.must_succeed(open) {
            return;
        }
        *self.statistics.entry("must succeed").or_default() += 1;
        let has_text = matches!(open.kind, K::Subscribe | K::CallAsTask) || text.contains(&open.expected);
        if is_error || !has_text {
            self.violate(format!(
                "{:?} of {} failed although nothing was wrong; it lacks {:?}: {}",
                open.kind,
                open.tool,
                open.expected,
                shorten(text)
            ));
        }
    }

    /// A failure names its cause.
    fn check_cause(&mut self, open: &Open, text: &str, is_error: bool) {
        use RequestKind as K;
        if !is_error || !self.is_operating || !matches!(open.kind, K::Call | K::CallReadOnly) {
            return;
        }
        // The user is asked for an approval first, and what the config denies needs no server.
        if open.tool == "guarded" || (open.tool == "write" && self.known[open.server].denies) {
            return;
        }
        let within = open.sent.elapsed() + RECOVERY;
        let needs_login = self.known[open.server].state.lock().only_needs_login_for(within);
        let said = text.to_ascii_lowercase();
        if needs_login
            && self.is_undisturbed(open.server, within)
            && !["login", "log in", "logged in"].iter().any(|words| said.contains(words))
        {
            self.violate(format!(
                "the server wants a login, and the error does not say so: {}",
                shorten(text)
            ));
        }
    }

    fn execution(&self, open: &Open) -> Option<String> {
        if open.nonce.is_empty() {
            return None;
        }
        let state = self.known[open.server].state.lock();
        state
            .executions
            .iter()
            .rev()
            .find(|execution| execution.nonce == open.nonce)
            .map(|e| e.content.clone())
    }

    fn must_succeed(&self, open: &Open) -> bool {
        use RequestKind as K;
        let known = &self.known[open.server];
        let needs_server = match open.kind {
            K::ToolsList
            | K::Ping
            | K::Status
            | K::Search
            | K::ResourcesList
            | K::TemplatesList
            | K::PromptsList => {
                // A client that is not operating may be refused.
                return self.is_operating && !self.is_ending && open.kind == K::ToolsList;
            }
            K::Call | K::CallReadOnly => open.tool == "echo" || open.tool == "write",
            K::CallDirectly => known.state.lock().plan.is_exposed || self.is_flat,
            K::CallWithoutGroup => {
                // Its tools have to be known, and a changed program may have others.
                let state = known.state.lock();
                state.listed_at.is_some_and(|at| {
                    let is_current = at > self.began && known.edited.is_none_or(|edited| at > edited);
                    is_current && open.sent.saturating_duration_since(at) > RECOVERY
                })
            }
            K::Read | K::Subscribe => {
                let state = known.state.lock();
                let is_listed = state.listed_at.is_some_and(|at| at > self.began && at < open.sent);
                let is_expected = state.plan.mode != crate::list::ServerMode::Pure;
                state.plan.has_all_lists && (is_listed || is_expected)
            }
            K::PromptGet | K::Complete => known.state.lock().plan.has_all_lists,
            K::GetTools => true,
            _ => false,
        };
        let is_denied = known.denies && open.tool == "write";
        // What it lists silently is not known; the tools of a call that names the group are looked for again.
        let is_unknown = !matches!(open.kind, K::Call | K::CallReadOnly) && known.state.lock().was_ever_empty;
        // The era of the client has no such method.
        let exists = self.is_handshake || open.kind != K::Subscribe;
        needs_server
            && exists
            && !is_denied
            && !is_unknown
            && self.is_operating
            && self.is_well(open.server, open.sent)
            && !self.lost_its_state(open)
    }

    /// Whether a stateful server has ended by itself, so that one call has to say so.
    fn lost_its_state(&self, open: &Open) -> bool {
        let state = self.known[open.server].state.lock();
        state.plan.is_stateful && !state.crashed.is_empty()
    }

    /// Checks what holds at every moment.
    pub(crate) fn check_servers(&mut self) {
        let mut found = Vec::new();
        let mut guarded = 0;
        for known in &self.known {
            let mut state = known.state.lock();
            found.append(&mut state.violations);
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for execution in state.executions.iter().filter(|execution| execution.at >= self.began) {
                *counts.entry(&execution.nonce).or_default() += 1;
                guarded += usize::from(execution.tool == "guarded");
                let limit = if execution.tool == "echo" && !state.plan.is_stateful { 2 } else { 1 };
                if counts[&*execution.nonce] > limit {
                    found.push(format!(
                        "{} ran {} times: {execution:?}",
                        state.name, counts[&*execution.nonce]
                    ));
                }
            }
        }
        if guarded > self.approvals {
            found.push(format!(
                "the guarded tool ran {guarded} times and was approved {} times",
                self.approvals
            ));
        }
        self.violations.extend(found);
    }

    /// A call of a stateful server that was lost is refused once before another one runs.
    pub(crate) fn check_lost_state(&mut self) {
        // A client that did not read may be told later.
        if self.paused.is_some() {
            return;
        }
        let mut found = Vec::new();
        for (n, known) in self.known.iter().enumerate() {
            let state = known.state.lock();
            let executions: Vec<_> =
                state.executions.iter().filter(|execution| execution.at >= self.began).collect();
            for pair in executions.windows(2) {
                let [before, after] = pair else { continue };
                if state.plan.is_stateful
                    && after.process != before.process
                    && state.crashed.contains(&before.process)
                {
                    let was_told = self
                        .refused_as_lost
                        .iter()
                        .any(|(m, at)| *m == n && *at >= before.at && *at <= after.at);
                    let was_edited = known.edited.is_some_and(|at| at >= before.at);
                    if !was_told && !was_edited {
                        found.push(format!(
                            "{} ran a call on a fresh process and nobody was told: {after:?}",
                            state.name
                        ));
                    }
                }
            }
        }
        self.violations.extend(found);
    }
}

/// Returns the beginning of a text.
pub(crate) fn shorten(text: &str) -> String {
    let end = text.char_indices().nth(600).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}
