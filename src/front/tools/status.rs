//! `get_status`: the states of the groups, as text and as JSON.

use crate::clock::unix_time_s;
use crate::config::GroupName;
use crate::front::changed_tools;
use crate::front::results::grouped;
use crate::groups::GroupManager;
use crate::groups::login_flows::LoginFlows;
use crate::groups::surface::Note;
use crate::pins::changes::{PinProblem, ToolChanges};
use crate::processes::duplicates::DuplicateServer;
use crate::text::{one_line, shorten};
use crate::upstream::Upstream;
use crate::upstream::catalog::CatalogSource;
use crate::upstream::lifecycle::State;
use crate::upstream::snapshot::Snapshot;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How many changed tools of a group the `structuredContent` has.
const MAX_CHANGED_TOOLS: usize = 100;
/// How many characters of their names it has.
const MAX_TOOL_NAME: usize = 256;
/// How many failed groups the first line names.
const MAX_NAMED_GROUPS: usize = 10;

/// The states of groups.
pub struct Status {
    /// The `structuredContent`.
    pub json: Value,
    /// What is wrong, then one line per group.
    pub text: String,
}

impl Status {
    /// Adds how many results the session keeps, and how many bytes they have, if there are any.
    pub fn add_stored_results(&mut self, (count, bytes): (usize, usize)) {
        if count > 0 {
            self.json["storedResults"] = json!({ "count": count, "bytes": bytes });
            let line = format!("\nstored results: {count} ({} bytes)", grouped(bytes));
            self.text.push_str(&line);
        }
    }
}

/// Reports the states of `groups`, of which `duplicates` run more than once. `status` and `error` are about all groups.
pub fn report(
    groups: &[Upstream],
    manager: &GroupManager,
    flows: &LoginFlows,
    duplicates: &[DuplicateServer],
) -> Status {
    let (config, all) = (manager.config(), manager.all());
    let snapshots: Vec<_> = groups.iter().map(|group| (group, group.snapshot())).collect();
    let ready = snapshots.iter().filter(|(_, s)| s.catalog.is_some()).count();
    let is_failed = |group: &Upstream| matches!(group.snapshot().state, State::Failed(_));
    let all_failed = !all.is_empty() && all.iter().all(is_failed);
    let problems = Problems::of(manager);
    let error = match (problems.config.is_empty(), all_failed) {
        (false, _) => Some(problems.config.join("\n")),
        (true, true) => Some("every group failed".to_owned()),
        (true, false) => None,
    };
    let status = match (error.is_some() && (all.is_empty() || all_failed), manager.is_discovering()) {
        (true, _) => "error",
        (false, true) => "initializing",
        (false, false) => "ready",
    };
    // Groups that were not started saved the time that their last connection took.
    let unstarted = snapshots.iter().filter(|(_, snapshot)| !snapshot.attempted);
    let saved: Duration = unstarted.filter_map(|(_, snapshot)| snapshot.catalog.as_ref()?.connect_time).sum();
    let notes = manager.notes();
    // What an attempt has found says more than a note.
    let note_of =
        |group: &Upstream, snapshot: &Snapshot| notes.get(&group.name).filter(|_| !snapshot.attempted);
    let is_broken = |group: &Upstream, snapshot: &Snapshot| {
        is_failed(group) || note_of(group, snapshot).is_some_and(|note| !note.is_of_last_run)
    };
    let failed = snapshots.iter().filter(|(group, snapshot)| is_broken(group, snapshot));
    let failed: Vec<_> = failed.map(|(group, _)| &group.name).collect();
    let headline = problems.headline(&failed, groups.len());
    let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    // What is wrong comes first here, too: some clients show models this instead of the text.
    let json = json!({
        "problems": headline.iter().chain(&problems.usage).chain(&problems.config).collect::<Vec<_>>(),
        "status": status,
        "error": error,
        "ready": ready,
        "total": snapshots.len(),
        "groups": snapshots.iter().map(|(group, s)| group_json(group, s, flows, note_of(group, s))).collect::<Vec<_>>(),
        "startUpSavedMs": millis(saved),
        "duplicates": duplicates.iter().map(DuplicateServer::json).collect::<Vec<_>>(),
        "warnings": warnings,
        "profile": config.profile_summary(),
        "logFile": manager.log_file(),
    });
    let mut lines = Vec::from_iter(headline);
    let has_problems = !lines.is_empty();
    lines.extend(problems.lines());
    let saved = match saved {
        Duration::ZERO => String::new(),
        saved => format!("; start-up time saved so far: {saved:.1?}"),
    };
    lines.push(format!("{status}: the tools of {ready} of {} groups are known{saved}", snapshots.len()));
    for (group, snapshot) in &snapshots {
        lines.push(group_line(group, snapshot, flows, note_of(group, snapshot)));
        let duplicate = duplicates.iter().find(|server| server.group == group.name.as_str());
        lines.extend(duplicate.map(|server| format!("    {}", server.text())));
    }
    let warnings = warnings.iter().map(|warning| format!("config warning: {warning}"));
    lines.extend(config.profile_summary().into_iter().chain(warnings));
    if let Some(log) = manager.log_file().filter(|_| has_problems) {
        lines.push(format!("log: {}", log.display()));
    }
    Status { json, text: lines.join("\n") }
}

/// What is wrong with this instance, apart from its groups.
struct Problems {
    /// With the command line and the environment variables of its options.
    usage: Vec<String>,
    /// With the config files.
    config: Vec<String>,
}

impl Problems {
    fn of(manager: &GroupManager) -> Self {
        let (config, reload) = (manager.config(), manager.reload_errors());
        Self {
            usage: manager.usage_errors().to_vec(),
            config: config.errors.iter().chain(&reload).map(ToString::to_string).collect(),
        }
    }

    /// Sums up what is wrong, on one line. `None` if nothing is.
    fn headline(&self, failed: &[&GroupName], groups: usize) -> Option<String> {
        let named = failed.iter().take(MAX_NAMED_GROUPS).map(|name| name.to_string());
        let more = match failed.len().checked_sub(MAX_NAMED_GROUPS) {
            Some(more @ 1..) => format!(", +{more} more"),
            _ => String::new(),
        };
        let named = named.collect::<Vec<_>>().join(", ");
        let count = |errors: &[String], what: &str| match errors.len() {
            0 => None,
            1 => Some(format!("1 {what} error")),
            n => Some(format!("{n} {what} errors")),
        };
        let parts = [
            (!failed.is_empty())
                .then(|| format!("{} of {groups} groups failed: {named}{more}", failed.len())),
            count(&self.usage, "command line"),
            count(&self.config, "config"),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// One line for each error.
    fn lines(&self) -> impl Iterator<Item = String> {
        let usage = self.usage.iter().map(|error| format!("command line error: {error}"));
        usage.chain(self.config.iter().map(|error| format!("config error: {error}")))
    }
}

fn group_json(group: &Upstream, snapshot: &Snapshot, flows: &LoginFlows, note: Option<&Note>) -> Value {
    let (error, attempts) = failure(snapshot);
    let percentiles = group.stats.percentiles();
    let catalog = snapshot.catalog.as_ref();
    let info = catalog.map(|catalog| &catalog.info);
    let process = snapshot.process();
    let changes = snapshot.pins.changes();
    json!({
        "group": group.name.as_str(),
        "state": snapshot.state.name(),
        "mode": mode(snapshot),
        "connecting": snapshot.connecting.is_some(),
        "startupHint": group.startup_hint(),
        "tools": snapshot.allowed_tools(),
        "error": error,
        "note": note.map(Note::to_string),
        "loginUrl": flows.open_url(group),
        "attempts": attempts,
        "nextAttemptMs": snapshot.next_attempt.map(|at| millis(at.saturating_duration_since(Instant::now()))),
        "pid": process.map(|process| process.pid),
        "closedMemoryBytes": group.stats.closed_memory().filter(|_| process.is_none()),
        "share": snapshot.server.as_ref().map(|server| server.effective_share().name()),
        "shared": process.map(|process| process.is_shared),
        "idleMs": snapshot.idle().map(millis),
        "closesInMs": snapshot.closes_in().map(millis),
        "unreadable": snapshot.unreadable().map(|last| json!({
            "count": last.count, "last": last.what, "lastAgeMs": millis(last.at.elapsed()),
        })),
        "calls": group.stats.calls(),
        "errors": group.stats.errors(),
        "p50Ms": percentiles.map(|(p50, _)| fractional_millis(p50)),
        "p95Ms": percentiles.map(|(_, p95)| fractional_millis(p95)),
        "cached": catalog.map(|catalog| !matches!(catalog.source, CatalogSource::Live(_))),
        "catalogAgeS": catalog.map(|catalog| catalog.age().as_secs()),
        "server": info.and_then(|info| info.title.as_deref()).map(one_line),
        "version": info.and_then(|info| info.version.as_deref()).map(one_line),
        "protocolVersion": info.map(|info| one_line(&info.protocol_version)),
        "leftOff": catalog.map(|catalog| catalog.left_off.texts()),
        "changedTools": changed_tools_json(snapshot, &changes),
        "pinProblem": changes.problem.as_ref().map(PinProblem::text),
        "serverReplacedS": changes.replaced_s.map(age_s),
    })
}

fn group_line(group: &Upstream, snapshot: &Snapshot, flows: &LoginFlows, note: Option<&Note>) -> String {
    let mut line = format!("- {}: {}", group.name, snapshot.state.name());
    if let Some(since) = snapshot.connecting {
        line.push_str(&format!(", connecting for {} s", since.elapsed().as_secs()));
    }
    if snapshot.process().is_some_and(|process| process.is_shared) {
        line.push_str(" to a process that other windows may use");
    }
    if let (Some(catalog), Some(tools)) = (&snapshot.catalog, snapshot.allowed_tools()) {
        line.push_str(&format!(", {tools} tools"));
        if !matches!(catalog.source, CatalogSource::Live(_)) {
            line.push_str(&format!(" as of {} ago", in_largest_unit(catalog.age())));
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
    if let Some(note) = note {
        line.push_str(&format!("\n    {note}"));
    }
    if let Some(hint) = group.startup_hint() {
        line.push_str(&format!("\n    {hint}"));
    }
    if let Some(last) = snapshot.unreadable() {
        let messages = match last.count {
            1 => "a message that cannot be read and belongs to no known call".to_owned(),
            n => format!("{n} messages that cannot be read and belong to no known call"),
        };
        line.push_str(&format!(
            "\n    it sent {messages}; the last one, {} ago, is {}",
            in_largest_unit(last.at.elapsed()),
            last.what
        ));
    }
    if let Some(text) = snapshot.catalog.as_ref().and_then(|catalog| catalog.left_off.text()) {
        line.push_str(&format!("\n    {text}"));
    }
    for note in change_notes(group, snapshot) {
        line.push_str(&format!("\n    {note}"));
    }
    if let Some(url) = flows.open_url(group) {
        line.push_str(&format!("\n    login needed; open this address in a browser on this machine: {url}"));
    }
    line
}

/// How the connection of a group is used, as parts of its line.
fn usage_text(group: &Upstream, snapshot: &Snapshot) -> String {
    let mut text = String::new();
    if let Some(idle) = snapshot.idle() {
        text.push_str(&format!(", idle for {} s", idle.as_secs()));
        if let Some(left) = snapshot.closes_in() {
            text.push_str(&format!(", closes in {}", in_largest_unit(left)));
        }
    }
    if let Some((p50, p95)) = group.stats.percentiles() {
        let calls = group.stats.calls();
        let calls = if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") };
        text.push_str(&format!(", {calls} (p50 {p50:.1?}, p95 {p95:.1?})"));
        match group.stats.errors() {
            0 => {}
            errors => text.push_str(&format!(", {errors} of them failed")),
        }
    }
    text
}

/// The tools that differ from what was first seen or approved, and how.
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

/// What `get_status` says about tools that changed.
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
        let effect = if server.pin_tools { "refused until" } else { "named until" };
        let tools = changed_tools::joined(named, count);
        notes.push(format!("changed since first seen, {effect} you run `{approve}`: {tools}"));
    }
    if let Some(problem) = &changes.problem {
        let effect = match problem {
            PinProblem::Unreadable(_) if server.pin_tools => "every tool is refused",
            PinProblem::Unreadable(_) => "changed tools are not noticed",
            PinProblem::Unwritable(_) => "changed tools are not remembered",
        };
        notes.push(format!("{effect}: {}", problem.text()));
    }
    if let Some(at) = changes.replaced_s.filter(|_| server.pin_tools) {
        let ago = in_largest_unit(Duration::from_secs(age_s(at)));
        notes.push(format!(
            "its command or address changed {ago} ago, and its tools were trusted as they were then; confirm with `{approve}`"
        ));
    }
    notes
}

/// How long ago a time in seconds since 1970 was.
fn age_s(at: u64) -> u64 {
    unix_time_s().saturating_sub(at)
}

/// The last failure of a group without a connection, and the number of failed attempts in a row.
fn failure(snapshot: &Snapshot) -> (Option<String>, u32) {
    let attempts = match &snapshot.state {
        State::Failed(failure) => failure.attempts,
        State::Pending | State::Discovered | State::Connected => 0,
    };
    (snapshot.last_failure().map(ToString::to_string), attempts)
}

/// Formats a duration in its largest unit.
fn in_largest_unit(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn mode(snapshot: &Snapshot) -> &'static str {
    snapshot.mode().name()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds, rounded to a hundredth.
fn fractional_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
