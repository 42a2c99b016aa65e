//! What `import` prints: the files, the servers, and the difference that a change makes. Values that are probably secrets
//! are never shown.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use similar::TextDiff;

use crate::clients::apps::short_path;
use crate::json::{members, strings};
use crate::merge::accounts::passes_all;
use crate::merge::client_scope::ClientScope;
use crate::merge::differences::FieldDifference;
use crate::merge::discover::Discovery;
use crate::merge::{Origin, PlannedServer};
use crate::profiles::client_profiles::ClientProfiles;
use crate::rules::tool_rules::ToolRuleSet;
use base::redact;
use base::text::{self, joined, name, quoted, visible};
use config::env::Env;
use terminal::{VisibleText, counted};

/// After this time, a difference need not be the shortest.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Lists the clients' files with the number of servers in each, and what is wrong with them.
pub(crate) fn files(discovery: &Discovery, env: &Env) -> VisibleText {
    let mut out = VisibleText::default();
    for file in &discovery.files {
        let count: usize = file.places.iter().map(|place| place.servers.len()).sum();
        let label = file.app.label;
        let path = short_path(&file.path, env);
        out.line(format_args!("{label:<15} {path}: {}", counted(count, "server")));
        for (server, reason) in file.places.iter().flat_map(|place| &place.staying) {
            out.line(format_args!("{:<15}   {} stays there: {reason}", "", name(server)));
        }
    }
    if !discovery.other_projects.is_empty() {
        out.line(
            "Claude Code has servers for single projects too; add --project=DIR to import those of one:",
        );
        discovery.other_projects.iter().for_each(|dir| out.line(format_args!("  {dir}")));
    }
    out
}

/// Lists the servers that are new, and names those that servers.json has.
pub(crate) fn servers(servers: &[PlannedServer], target: &Path, env: &Env) -> VisibleText {
    let mut out = VisibleText::default();
    let (known, new): (Vec<_>, Vec<_>) = servers.iter().partition(|server| server.is_known);
    let target = short_path(target, env);
    if !new.is_empty() {
        out.paragraph(format_args!("{} for {target}:", counted(new.len(), "server")));
    }
    for server in new {
        describe(&mut out, server);
    }
    let known: Vec<_> = known.into_iter().filter(|server| !server.origins.is_empty()).collect();
    if !known.is_empty() {
        out.paragraph(format_args!("Already in {target}, and left as they are:"));
    }
    for server in known {
        out.line(format_args!("  {}: in {}", name(&server.name), origins(server)));
        if server.entry.get("enabled") == Some(&Value::Bool(false))
            && server.origins.iter().any(|origin| origin.is_on)
        {
            out.line(format_args!(
                "    it is disabled in {target}, and so for every client; `dynamic-mcp enable {}` turns it on",
                name(&server.name)
            ));
        }
        for difference in FieldDifference::all(server) {
            out.line(format_args!("    {}", difference.describe_outcome(Some(&target))));
        }
    }
    out
}

/// Says which clients get profiles, and what cannot be carried over.
pub(crate) fn access(profiles: &ClientProfiles, lost: &[String], general: &[String]) -> VisibleText {
    let mut out = VisibleText::default();
    if !profiles.lines.is_empty() {
        out.paragraph("What each client may use:");
        profiles.lines.iter().for_each(|line| out.line(format_args!("  {line}")));
    }
    let lost: Vec<_> = profiles.not_carried.iter().chain(lost).collect();
    if !(lost.is_empty() && general.is_empty()) {
        out.line("");
    }
    lost.iter().for_each(|line| out.line(format_args!("Not carried over: {line}")));
    general.iter().for_each(|line| out.line(format_args!("Note: {line}")));
    out
}

fn describe(out: &mut VisibleText, server: &PlannedServer) {
    let is_off = server.entry.get("enabled") == Some(&Value::Bool(false));
    let state = if is_off { " (disabled)" } else { "" };
    out.line(format_args!("  {}{state}", name(&server.name)));
    out.line(format_args!("    {}", program(&server.entry)));
    out.line(format_args!("    from {}", origins(server)));
    for field in ["env", "headers"] {
        let names = joined(members(server.entry.get(field)).map(|(member, _)| name(member)));
        if !names.is_empty() {
            out.line(format_args!("    {field}: {names}"));
        }
    }
    match server.entry.get("inherit_env") {
        Some(Value::Bool(true)) => out.line(format_args!("    {}", whole_environment(server))),
        names @ Some(Value::Array(_)) => {
            let names = joined(strings(names).map(name));
            out.line(format_args!("    gets these variables of yours: {names}"));
        }
        _ => {}
    }
    let rules = ToolRuleSet::read(server.entry.get("tools"));
    if !rules.is_empty() {
        out.line(format_args!("    tools: {}", rules.describe()));
    }
    for (other, difference) in server.origins.iter().filter_map(|origin| origin.other_account.as_ref()) {
        out.line(format_args!("    {}", difference.describe(&name(other))));
    }
    for difference in FieldDifference::all(server) {
        out.line(format_args!("    {}", difference.describe_outcome(None)));
    }
    for note in &server.notes {
        out.line(format_args!("    note: {}", visible(note)));
    }
    for origin in &server.origins {
        for (variable, text) in &origin.variables.client {
            let app = origin.app.label;
            out.line(format_args!(
                "    {} is known to {app} only: {variable} here, which {app}'s entry for dynamic-mcp sets",
                visible(text)
            ));
        }
    }
}

/// Says that a server gets all variables, as it does with these clients, and who else shares that server.
fn whole_environment(server: &PlannedServer) -> String {
    let labels = |origins: Vec<&Origin>| {
        let labels: BTreeSet<&str> = origins.into_iter().map(|origin| origin.app.label).collect();
        labels.into_iter().collect::<Vec<_>>().join(" and ")
    };
    let (all, some): (Vec<_>, Vec<_>) = server.origins.iter().partition(|origin| passes_all(&origin.entry));
    let others = match some.is_empty() {
        true => String::new(),
        false => format!(", and now with {} too", labels(some)),
    };
    format!("gets your whole environment, as with {}{others}", labels(all))
}

/// Returns the clients that have a server, with its name there if it is another one.
fn origins(server: &PlannedServer) -> String {
    let mut texts: Vec<String> = Vec::new();
    for origin in &server.origins {
        let mut text = ClientScope::of_origin(origin).label();
        if origin.name != server.name {
            text.push_str(&format!(" (as {})", name(&origin.name)));
        }
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

/// Returns what a server runs or contacts, without the secrets in it.
pub(crate) fn program(entry: &Map<String, Value>) -> String {
    let word = |word: &str| match word.is_empty() || word.contains(char::is_whitespace) {
        true => quoted(word),
        false => visible(word),
    };
    match (entry.get("url"), entry.get("command")) {
        (Some(url), _) => visible(&redact::text(url.as_str().unwrap_or_default())),
        (None, command) => {
            let words = command.and_then(Value::as_str).into_iter().chain(strings(entry.get("args")));
            redact::args(words).iter().map(|shown| word(shown)).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns the difference between two texts of a file, without the secrets in them. A file that does not exist has none.
pub(crate) fn diff(path: &Path, before: Option<&str>, after: Option<&str>) -> VisibleText {
    let texts = [before, after].map(Option::unwrap_or_default);
    let redacted = texts.map(redact::text);
    let [old, new] = texts.map(|text| text.lines().collect::<Vec<_>>());
    let [shown_old, shown_new] = redacted.each_ref().map(|text| text.lines().collect::<Vec<_>>());
    let file = text::path(path);
    let mut out = VisibleText::default();
    let mut config = TextDiff::configure();
    let diff = config.timeout(DIFF_TIMEOUT).diff_slices(&old, &new);
    // Secrets that differ have the same mask: the lines are compared as they are, and shown without secrets.
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        if out == VisibleText::default() {
            out.lines("", format_args!("--- {file}\n+++ {file}"));
        }
        out.line(hunk.header());
        for change in hunk.iter_changes() {
            let line = match (change.old_index(), change.new_index()) {
                (Some(at), _) => shown_old.get(at),
                (None, at) => at.and_then(|at| shown_new.get(at)),
            };
            out.lines("", format_args!("{}{}", change.tag(), line.copied().unwrap_or_default()));
        }
    }
    out
}

/// How many servers and profiles servers.json gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigChanges {
    /// The new servers.
    pub servers: usize,
    /// The new profiles.
    pub profiles: usize,
    /// The profiles that change.
    pub(crate) changed_profiles: usize,
}

impl ConfigChanges {
    /// Says what is written into a file, with these verbs for what is new and what changes. `None`: nothing.
    pub(crate) fn describe(self, add: &str, change: &str, file: &str) -> Option<String> {
        let new = [(self.servers, "server"), (self.profiles, "profile")];
        let new: Vec<_> =
            new.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(*count, noun)).collect();
        let new = (!new.is_empty()).then(|| format!("{add} {} to {file}", new.join(" and ")));
        let changed = (self.changed_profiles > 0).then(|| counted(self.changed_profiles, "profile"));
        match (new, changed) {
            (Some(new), Some(changed)) => {
                Some(format!("{new}, and {} {changed} there", change.to_lowercase()))
            }
            (None, Some(changed)) => Some(format!("{change} {changed} in {file}")),
            (new, None) => new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_and_what_changes_is_said_apart() {
        let said = |servers, profiles, changed_profiles| {
            let changes = ConfigChanges { servers, profiles, changed_profiles };
            changes.describe("Added", "Changed", "x.json").unwrap_or_default()
        };
        assert_eq!(said(1, 0, 0), "Added 1 server to x.json");
        assert_eq!(said(2, 1, 1), "Added 2 servers and 1 profile to x.json, and changed 1 profile there");
        assert_eq!(said(0, 0, 2), "Changed 2 profiles in x.json");
        assert_eq!(said(0, 0, 0), "");
    }

    #[test]
    fn a_difference_shows_backslashes_tabs_and_hidden_characters() {
        let after = "{\r\n\t\"cwd\": \"C:\\\\temp\\\\repo\",\r\n\t\"note\": \"x\u{202e}\",\r\n\t\"apiKey\": \"s3cret\"\r\n}\r\n";
        let shown = diff(Path::new(r"C:\temp\x.json"), None, Some(after)).to_string();
        assert!(shown.starts_with("--- C:\\temp\\x.json\n+++ C:\\temp\\x.json\n"), "{shown}");
        assert!(shown.contains("+\t\"cwd\": \"C:\\\\temp\\\\repo\",\n"), "{shown}");
        assert!(
            !shown.contains("s3cret") && shown.contains("x\\u{202e}\",\n") && shown.contains("•••"),
            "{shown}"
        );
    }
}
