//! One group in `get_status`, as text and as JSON, and what the user can do about it: commands that the status page offers
//! to copy. They are made of words of ours and of names that a shell takes as they are, never of texts of servers.

use crate::errors::changed_tools;
use base::clock::{in_largest_unit, rounded, unix_time_s};
use base::text::{counted, one_line, shell_word, shorten};
use config::{Endpoint, GroupName, ServerConfig};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use upstream::catalog::CatalogSource;
use upstream::groups::surface::Note;
use upstream::pins::changes::{PinProblem, ToolChanges};
use upstream::task::MAX_KILLS;
use upstream::{GroupManager, Snapshot, State, Upstream, UpstreamError};

/// How many changed tools of a group the `structuredContent` has.
const MAX_CHANGED_TOOLS: usize = 100;
/// How many characters of their names it has.
const MAX_TOOL_NAME: usize = 256;

/// Returns a group in the `structuredContent`.
pub(super) fn group_json(group: &Upstream, snapshot: &Snapshot, note: Option<&Note>) -> Value {
    let (error, attempts) = failure(snapshot);
    let percentiles = group.stats.percentiles();
    let catalog = snapshot.catalog.as_ref();
    let info = catalog.map(|catalog| &catalog.info);
    let (process, in_flight) = (snapshot.process(), snapshot.in_flight());
    let changes = snapshot.pins.changes();
    json!({
        "group": group.name.as_str(),
        "state": snapshot.state.name(),
        "mode": snapshot.mode().name(),
        "connecting": snapshot.connecting.is_some(),
        "connectingMs": snapshot.connecting.map(|since| millis(since.elapsed())),
        "startupLine": group.startup_line(),
        "startupHint": group.startup_hint(),
        "tools": snapshot.allowed_tools(),
        "error": error,
        "warnings": snapshot.config_warnings().collect::<Vec<_>>(),
        "note": note.map(Note::to_string),
        "loginUrl": group.login_url(),
        "attempts": attempts,
        "nextAttemptMs": snapshot.next_attempt.map(|at| millis(at.saturating_duration_since(Instant::now()))),
        "isProgram": is_program(snapshot),
        "pid": process.map(|process| process.pid),
        "closedMemoryBytes": group.stats.closed_memory().filter(|_| process.is_none()),
        "share": snapshot.server.as_ref().map(|server| server.effective_share().name()),
        "shared": process.map(|process| process.is_shared),
        "idleMs": snapshot.idle().map(millis),
        "closesInMs": snapshot.closes_in().map(millis),
        "unreadable": snapshot.unreadable().map(|last| json!({
            "count": last.count, "last": last.what, "lastAgeMs": millis(last.at.elapsed()),
        })),
        "inFlight": in_flight.map_or(0, |(count, _)| count),
        "inFlightMs": in_flight.map(|(_, since)| millis(since)),
        "calls": group.stats.calls(),
        "errors": group.stats.errors(),
        "p50Ms": percentiles.map(|(p50, _)| fractional_millis(p50)),
        "p95Ms": percentiles.map(|(_, p95)| fractional_millis(p95)),
        "cached": catalog.map(|catalog| !matches!(catalog.source, CatalogSource::Live(_))),
        "catalogAgeS": catalog.and_then(|catalog| Some(catalog.age()?.as_secs())),
        "server": info.and_then(|info| info.title.as_deref()).map(one_line),
        "version": info.and_then(|info| info.version.as_deref()).map(one_line),
        "protocolVersion": info.map(|info| one_line(&info.protocol_version)),
        "findings": catalog.map(|_| findings(group, snapshot)),
        "leftOff": catalog.map(|catalog| catalog.left_off.texts()),
        "changedTools": changed_tools_json(snapshot, &changes),
        "pinProblem": changes.problem.as_ref().map(PinProblem::text),
        "serverReplacedS": changes.replaced_s.and_then(age_s),
    })
}

/// Returns a group as text: one line, and what is wrong below it.
pub(super) fn group_line(group: &Upstream, snapshot: &Snapshot, note: Option<&Note>) -> String {
    let mut line = format!("- {}: {}", group.name, snapshot.state.name());
    if let Some(since) = snapshot.connecting {
        line.push_str(&format!(", connecting for {} s", since.elapsed().as_secs()));
    }
    if snapshot.process().is_some_and(|process| process.is_shared) {
        line.push_str(" to a process that other instances may use");
    }
    if let (Some(catalog), Some(tools)) = (&snapshot.catalog, snapshot.allowed_tools()) {
        line.push_str(&format!(", {}", counted(tools, "tool")));
        if !matches!(catalog.source, CatalogSource::Live(_)) {
            line.push_str(&format!(" as of {} ago", ago(catalog.age())));
        }
    }
    if let Some(at) = snapshot.next_attempt {
        line.push_str(&format!(
            ", next attempt in {}",
            in_largest_unit(at.saturating_duration_since(Instant::now()))
        ));
    }
    line.push_str(&usage_text(group, snapshot));
    if let (Some(error), attempts) = failure(snapshot) {
        let error = error.replace('\n', "\n    ");
        match attempts {
            0 => line.push_str(&format!("\n    {error}")),
            1 => line.push_str(&format!(", 1 failed attempt\n    {error}")),
            attempts => line.push_str(&format!(", {attempts} failed attempts\n    {error}")),
        }
    }
    let mut notes = Vec::from_iter(note.map(Note::to_string));
    notes.extend(snapshot.config_warnings());
    notes.extend(group.startup_line().map(|stderr| format!("the last line of its stderr: {stderr}")));
    notes.extend(group.startup_hint());
    notes.extend(unreadable_text(snapshot));
    notes.extend(findings(group, snapshot));
    notes.extend(snapshot.catalog.as_ref().and_then(|catalog| catalog.left_off.text()));
    notes.extend(change_notes(group, snapshot));
    let url = group.login_url();
    notes.extend(
        url.map(|url| format!("login needed; open this address in a browser on this machine: {url}")),
    );
    notes.iter().for_each(|note| line.push_str(&format!("\n    {note}")));
    line
}

/// What a model reads of each of several groups. Of one group it reads everything.
const FOR_MODELS: &str = "group state connectingMs startupLine startupHint tools error warnings note loginUrl attempts \
    nextAttemptMs unreadable inFlight inFlightMs calls errors findings leftOff changedTools pinProblem serverReplacedS";
/// What one of many users learns of a group.
const FOR_USERS: &str = "group state connecting tools error note server version leftOff changedTools";

/// Takes the named members out of an object.
fn members(mut object: Value, names: &str) -> Value {
    names.split_whitespace().map(|name| (name.to_owned(), object[name].take())).collect()
}

/// Takes out of several groups what a model would read for nothing: all but [`FOR_MODELS`], and members that say nothing.
pub(super) fn shorten_for_model(status: &mut Value) {
    let groups = status["groups"].as_array_mut().filter(|groups| groups.len() > 1);
    for group in groups.into_iter().flatten() {
        let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        *group = members(group.take(), FOR_MODELS);
        if let Some(group) = group.as_object_mut() {
            group.retain(|_, value| !is_empty(value));
        }
    }
}

/// Returns a group in the `structuredContent` and as text, for one of many users.
pub(super) fn user_status(group: &Upstream, snapshot: &Snapshot, note: Option<&Note>) -> (Value, String) {
    let (error, _) = failure(snapshot);
    let left_off = snapshot.catalog.as_ref().and_then(|catalog| catalog.left_off.text());
    let json = members(group_json(group, snapshot, note), FOR_USERS);
    let mut line = format!("- {}: {}", group.name, snapshot.state.name());
    if let Some(tools) = snapshot.allowed_tools() {
        line.push_str(&format!(", {}", counted(tools, "tool")));
    }
    let below = error.into_iter().chain(note.map(Note::to_string)).chain(left_off);
    below.for_each(|text| line.push_str(&format!("\n    {text}")));
    (json, line)
}

/// Returns how the connection of a group is used, as parts of its line.
fn usage_text(group: &Upstream, snapshot: &Snapshot) -> String {
    let mut text = String::new();
    if let Some(idle) = snapshot.idle() {
        text.push_str(&format!(", idle for {} s", idle.as_secs()));
        if let Some(left) = snapshot.closes_in() {
            text.push_str(&format!(", closes in {}", in_largest_unit(left)));
        }
    }
    match snapshot.in_flight() {
        None => {}
        Some((1, since)) => text.push_str(&format!(", 1 call in flight for {} s", since.as_secs())),
        Some((count, since)) => {
            text.push_str(&format!(", {count} calls in flight, the first for {} s", since.as_secs()));
        }
    }
    if let Some((p50, p95)) = group.stats.percentiles() {
        let calls = group.stats.calls();
        let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
        text.push_str(&format!(", {calls} (p50 {}, p95 {})", rounded(p50), rounded(p95)));
        match group.stats.errors() {
            0 => {}
            errors => text.push_str(&format!(", {errors} of them failed")),
        }
    }
    text
}

/// Returns whether the server is a program on this machine.
fn is_program(snapshot: &Snapshot) -> bool {
    snapshot.server.as_deref().is_some_and(|server| matches!(server.endpoint, Endpoint::Stdio(_)))
}

/// Returns what was found about the server. While it is closed after its first use, this says what that means for it.
fn findings(group: &Upstream, snapshot: &Snapshot) -> Vec<String> {
    let mut findings = snapshot.findings();
    if is_program(snapshot) && matches!(snapshot.state, State::Discovered) && group.stats.idle_closes() == 1 {
        findings.push(
            "closed because it was unused; its next call starts it again. If it then lacks what it knew before, write \
             `\"stateful\": true` in its entry"
                .to_owned(),
        );
    }
    let runs_container = snapshot.server.as_deref().is_some_and(ServerConfig::runs_container);
    let kills = group.stats.kills();
    if runs_container && kills > 0 {
        let stays = if kills >= MAX_KILLS { ", so it is not closed any more" } else { "" };
        findings.push(format!(
            "it ended neither with its stdin nor at SIGTERM, and a container that is left behind goes on (`docker ps`){stays}; \
             `\"--init\"` after `\"run\"` in `args` often helps"
        ));
    }
    findings
}

/// Returns what the server sent that cannot be read.
fn unreadable_text(snapshot: &Snapshot) -> Option<String> {
    let last = snapshot.unreadable()?;
    let messages = match last.count {
        1 => "a message that cannot be read and belongs to no known call".to_owned(),
        n => format!("{n} messages that cannot be read and belong to no known call"),
    };
    let ago = in_largest_unit(last.at.elapsed());
    Some(format!("it sent {messages}; the last one, {ago} ago, is {}", last.what))
}

/// Returns the tools that differ from what was first seen or approved, and how.
fn changed_tools_json(snapshot: &Snapshot, changes: &ToolChanges) -> Value {
    let refused = snapshot.refused();
    let tools =
        changes.tools.iter().filter(|(tool, _)| snapshot.rules.allows_own(tool)).take(MAX_CHANGED_TOOLS);
    let tools = tools.map(|(tool, change)| {
        let name = shorten(tool, MAX_TOOL_NAME);
        json!({ "tool": name, "changes": change.parts, "refused": refused.contains(tool) })
    });
    tools.collect()
}

/// Returns what `get_status` says about tools that changed.
fn change_notes(group: &Upstream, snapshot: &Snapshot) -> Vec<String> {
    let changes = snapshot.pins.changes();
    let Some(server) = snapshot.server.as_deref() else { return Vec::new() };
    let approve = changed_tools::approve_command(&group.name, server, None);
    let changed: Vec<_> = changes.tools.iter().filter(|(tool, _)| snapshot.rules.allows_own(tool)).collect();
    let mut notes = Vec::new();
    if !changed.is_empty() {
        let count = changed.len();
        let named = changed
            .iter()
            .map(|(tool, change)| format!("{} ({})", changed_tools::quoted(tool), change.parts.join(", ")));
        let effect = if server.common.pin_tools { "refused until" } else { "named until" };
        let tools = changed_tools::joined(named, count);
        notes.push(format!("changed since first seen, {effect} you run `{approve}`: {tools}"));
    }
    if let Some(problem) = &changes.problem {
        let effect = match problem {
            PinProblem::Unreadable(_) if server.common.pin_tools => "every tool is refused",
            PinProblem::Unreadable(_) => "changed tools are not noticed",
            PinProblem::Unwritable(_) => "changed tools are not remembered",
        };
        notes.push(format!("{effect}: {}", problem.text()));
    }
    if let Some(at) = changes.replaced_s.filter(|_| server.common.pin_tools) {
        let ago = ago(age_s(at).map(Duration::from_secs));
        notes.push(format!(
            "its command or address changed {ago} ago, and its tools were trusted as they were then; confirm with `{approve}`"
        ));
    }
    notes
}

/// Returns how long ago a time in seconds since 1970 was. `None`: not known, because the clock was set back since.
fn age_s(at: u64) -> Option<u64> {
    unix_time_s().checked_sub(at)
}

fn ago(age: Option<Duration>) -> String {
    age.map_or_else(|| "some time".to_owned(), in_largest_unit)
}

/// Returns the last failure of a group without a connection, and the number of failed attempts in a row.
fn failure(snapshot: &Snapshot) -> (Option<String>, u32) {
    let attempts = match &snapshot.state {
        State::Failed(failure) => failure.attempts,
        State::Pending | State::Discovered | State::Connected => 0,
    };
    (snapshot.last_failure().map(ToString::to_string), attempts)
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds, rounded to a hundredth.
fn fractional_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

/// What to do, and the command for it.
fn remedy(what: &str, command: String) -> Value {
    json!({ "what": what, "command": command })
}

/// Adds to the status of a group what the page says of it beside `get_status`.
pub(super) fn add_remedies(status: &mut Value, group: &Upstream, snapshot: &Snapshot) {
    let error = snapshot.last_failure();
    status["brief"] = json!(error.map(|error| error.brief()));
    status["needsLogin"] = json!(error.is_some_and(|error| error.needs_login()));
    let Some(word) = shell_word(group.name.as_str()) else { return };
    status["remedies"] = json!(error.map(|error| of_failure(&word, snapshot, error)));
    status["interruption"] = json!([again("This ends it, and connects the server again", &word)]);
    if let Some(server) = snapshot.server.as_deref() {
        let approve = changed_tools::approve_command(&group.name, server, None);
        status["approval"] = json!([remedy("Review the changes, and accept them", approve)]);
    }
}

fn again(what: &str, word: &str) -> Value {
    remedy(what, format!("dynamic-mcp reconnect {word} --all"))
}

/// Returns what to do about the failure of a group, whose name is `word` in a shell.
fn of_failure(word: &str, snapshot: &Snapshot, error: &UpstreamError) -> Vec<Value> {
    let server = snapshot.server.as_deref();
    let config = server.map(changed_tools::config_option).unwrap_or_default();
    let check = |what| remedy(what, format!("dynamic-mcp check {word}{config}"));
    let is_remote = server.is_some_and(|server| matches!(server.endpoint, Endpoint::Http(_)));
    match error {
        _ if error.needs_login() => {
            vec![remedy("Log in, in a browser", format!("dynamic-mcp login {word}{config}"))]
        }
        UpstreamError::Config(_) => {
            vec![check("Correct the entry; the file is read again when it is saved. This tries it")]
        }
        UpstreamError::Launch { .. } => {
            vec![
                check("Install the program, or correct the entry. This tries it"),
                again("Then connect", word),
            ]
        }
        _ if is_remote => {
            vec![check("Correct its entry. This tries it, step by step"), again("Then connect", word)]
        }
        _ => vec![
            remedy("Read all that it printed", format!("dynamic-mcp logs {word} --all")),
            check("Correct the cause, in its entry or outside. This tries it"),
            again("Then connect", word),
        ],
    }
}

/// The length of the error of a group that cannot be used.
const MAX_ERROR: usize = 400;

/// The groups that cannot be used now, and why in a few words.
pub(super) struct BrokenGroups(HashMap<GroupName, Cow<'static, str>>);

impl BrokenGroups {
    /// Creates the groups that cannot be used at the moment.
    pub(super) fn of(groups: &GroupManager) -> Self {
        let notes = groups.notes();
        let brief = |group: &Upstream| {
            let snapshot = group.snapshot();
            match &snapshot.state {
                State::Failed(failure) => Some(failure.error.brief()),
                // Its last attempt succeeded.
                _ if snapshot.attempted => None,
                _ => notes.get(&group.name).map(|note| note.reason.clone()),
            }
        };
        let all = groups.all();
        Self(all.iter().filter_map(|group| Some((group.name.clone(), brief(group)?))).collect())
    }

    /// Why a group cannot be used, in a few words. `None` if it can be used.
    pub(super) fn brief(&self, group: &GroupName) -> Option<&str> {
        self.0.get(group).map(|brief| &**brief)
    }

    /// Says why a group cannot be used, if that is so, with the remedy that its error names.
    pub(super) fn sentence(&self, groups: &GroupManager, name: &GroupName) -> Option<String> {
        let brief = self.brief(name)?;
        let error = groups.get(name).and_then(|group| match &group.snapshot().state {
            State::Failed(failure) => Some(one_line(&failure.error.to_string())),
            _ => None,
        });
        let why = error.map_or_else(|| brief.to_owned(), |error| shorten(&error, MAX_ERROR));
        Some(format!(
            "{name} is configured and not available: {why}\nTell the user; get_status has all of it."
        ))
    }
}
