//! `get_status`: the states of the groups, as text and as JSON. `group_status` has one group.

use super::group_status::{add_remedies, group_json, group_line, millis, shorten_for_model, user_status};
use super::tool_list::ListCost;
use crate::arguments;
use crate::ask::login_offer;
use crate::errors::tool_errors;
use crate::names::lookup;
use crate::session::context::RequestContext;
use base::clock::rounded;
use base::text::grouped;
use base::text::shorten;
use config::{Config, GroupName};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use upstream::{GroupManager, Snapshot, State, Upstream};
use wire::Raw;

/// How many failed groups the first line names.
const MAX_NAMED_GROUPS: usize = 10;

/// How many of the last lines of stderr the page shows of a server, and how many characters of a line.
const MAX_LAST_LINES: usize = 3;
const MAX_LAST_LINE: usize = 300;

/// The states of groups.
pub struct Status {
    /// The `structuredContent`.
    pub json: Value,
    /// What is wrong, then one line per group.
    pub text: String,
}

/// Answers `get_status`. For a single group that needs a login, the login is started, and its address awaited for five
/// seconds at most, so that it can be shown.
pub async fn get_status(context: &RequestContext, arguments: Option<&Raw>) -> Raw {
    let groups = context.groups();
    groups.check_approvals().await;
    let all = groups.all();
    let group = arguments::status_group(arguments);
    let group = group.and_then(|name| name.map(|name| lookup::group(groups, &name)).transpose());
    let chosen = match group {
        Ok(Some(group)) => {
            if context.session().is_some() {
                login_offer::start_for_status(groups, &group).await;
            }
            vec![group]
        }
        Ok(None) => all,
        Err(text) => return tool_errors::result(&text),
    };
    let mut status = for_reader(context, &chosen);
    shorten_for_model(&mut status.json);
    let (count, bytes) = context.session().map(|session| session.results.size()).unwrap_or_default();
    if count > 0 {
        status.json["storedResults"] = json!({ "count": count, "bytes": bytes });
        status.text.push_str(&format!("\nstored results: {count} ({} bytes)", grouped(bytes)));
    }
    json!({ "content": [{ "type": "text", "text": status.text }], "structuredContent": status.json })
        .to_string()
        .into()
}

/// Reports the states of `groups` to whoever asks: the owner of the config, or one of many users.
pub(crate) fn for_reader(context: &RequestContext, groups: &[Upstream]) -> Status {
    let manager = context.groups();
    match context.session() {
        Some(_) => report(groups, manager),
        None => report_for_user(groups, manager),
    }
}

/// Reports the states of all groups as JSON, with what the status page shows beside `get_status`: remedies, the last lines
/// of stderr, and the tokens of definitions. Waits a second at most for the logs of shared servers.
pub async fn page_report(manager: &Arc<GroupManager>) -> Value {
    let all = manager.all();
    let mut status = report(&all, manager).json;
    let last_lines = join_all(all.iter().map(last_lines)).await;
    for (at, (group, lines)) in all.iter().zip(last_lines).enumerate() {
        let of_group = &mut status["groups"][at];
        add_remedies(of_group, group, &group.snapshot());
        of_group["stderr"] = json!(lines);
    }
    let cost = manager.run_on_lists(ListCost::of).await;
    status["tokens"] =
        cost.map(|cost| json!({ "direct": cost.direct, "listed": cost.listed })).unwrap_or_default();
    status
}

async fn last_lines(group: &Upstream) -> Vec<String> {
    let lines = group.log_page(None).await.lines;
    let last = lines.iter().rev().filter(|line| !line.trim().is_empty()).take(MAX_LAST_LINES);
    let mut last: Vec<_> = last.map(|line| shorten(line, MAX_LAST_LINE)).collect();
    last.reverse();
    last
}

/// Reports the states of `groups`. `status` and `error` are about all groups.
fn report(groups: &[Upstream], manager: &GroupManager) -> Status {
    let (config, all) = (manager.config(), manager.all());
    let snapshots: Vec<_> = groups.iter().map(|group| (group, group.snapshot())).collect();
    let ready = snapshots.iter().filter(|(_, s)| s.catalog.is_some()).count();
    let problems = Problems::of(manager);
    let (status, error) = overall(manager, &problems);
    // Groups that were not started saved the time that their last connection took.
    let unstarted = snapshots.iter().filter(|(_, snapshot)| !snapshot.attempted);
    let starts: Vec<_> =
        unstarted.filter_map(|(_, snapshot)| snapshot.catalog.as_ref()?.connect_time).collect();
    let saved: Duration = starts.iter().sum();
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
        "groups": snapshots.iter().map(|(group, s)| group_json(group, s, note_of(group, s))).collect::<Vec<_>>(),
        "disabled": config.disabled.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(),
        "startUpSavedMs": millis(saved),
        "warnings": warnings,
        "profile": config.profile_summary(),
        "logFile": manager.log_file(),
    });
    let mut lines = Vec::from_iter(headline);
    let has_problems = !lines.is_empty();
    lines.extend(problems.lines());
    let unstarted = match starts.len() {
        0 => String::new(),
        count => format!("; {count} not started yet, which took {} together last time", rounded(saved)),
    };
    let may_have_servers = !all.is_empty() || !config.has_no_server() || !problems.config.is_empty();
    // Of one group, its line says all of it.
    let is_of_all = groups.len() == all.len();
    if !may_have_servers {
        lines.push(Config::NO_SERVER.to_owned());
    } else if is_of_all {
        lines.push(format!("{status}: the tools of {ready} of {} groups are known{unstarted}", all.len()));
    }
    for (group, snapshot) in &snapshots {
        lines.push(group_line(group, snapshot, note_of(group, snapshot)));
    }
    if is_of_all {
        lines.extend(config.disabled.iter().map(|server| format!("- {}: {server}", server.name)));
    }
    let warnings = warnings.iter().map(|warning| format!("config warning: {warning}"));
    lines.extend(config.profile_summary().into_iter().chain(warnings));
    if let Some(log) = manager.log_file().filter(|_| has_problems) {
        lines.push(format!("log: {}", log.display()));
    }
    Status { json, text: lines.join("\n") }
}

/// Reports the states of `groups` to one of many users, who learns nothing of processes, of the calls of others, and of what
/// only the owner of the config can correct.
fn report_for_user(groups: &[Upstream], manager: &GroupManager) -> Status {
    let problems = Problems::of(manager);
    let (status, _) = overall(manager, &problems);
    let notes = manager.notes();
    let of_group = |group: &Upstream| {
        let snapshot = group.snapshot();
        user_status(group, &snapshot, notes.get(&group.name).filter(|_| !snapshot.attempted))
    };
    let (groups_json, lines): (Vec<_>, Vec<_>) = groups.iter().map(of_group).unzip();
    let failed: Vec<_> = groups.iter().filter(|group| is_failed(group)).map(|group| &group.name).collect();
    let headline = problems.headline(&failed, groups.len());
    let ready = groups.iter().filter(|group| group.snapshot().catalog.is_some()).count();
    let json = json!({
        "problems": headline.iter().collect::<Vec<_>>(),
        "status": status,
        "ready": ready,
        "total": groups.len(),
        "groups": groups_json,
    });
    let summary = format!("{status}: the tools of {ready} of {} groups are known", groups.len());
    let text = headline.into_iter().chain([summary]).chain(lines).collect::<Vec<_>>().join("\n");
    Status { json, text }
}

/// `status` and `error`, which are about all groups.
fn overall(manager: &GroupManager, problems: &Problems) -> (&'static str, Option<String>) {
    let all = manager.all();
    let all_failed = !all.is_empty() && all.iter().all(is_failed);
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
    (status, error)
}

fn is_failed(group: &Upstream) -> bool {
    matches!(group.snapshot().state, State::Failed(_))
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
        let reload = manager.reload_errors();
        let reload = reload
            .iter()
            .map(|error| format!("{error}; until this is corrected, what was valid before stays in effect"));
        Self {
            usage: manager.usage_errors().to_vec(),
            config: manager.config().errors.iter().map(ToString::to_string).chain(reload).collect(),
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
            (!failed.is_empty()).then(|| match groups {
                1 => format!("group {named} failed"),
                _ => format!("{} of {groups} groups failed: {named}{more}", failed.len()),
            }),
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
