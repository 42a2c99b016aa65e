//! What `import` prints: the files, the servers, and the difference that a change makes. Values that are probably secrets
//! are never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use similar::TextDiff;

use super::client_write::ClientWrite;
use super::config_file::ConfigChange;
use super::remarks::remarks;
use crate::clients::apps::short_path;
use crate::json::{members, strings};
use crate::merge::accounts::passes_all;
use crate::merge::differences::FieldDifference;
use crate::merge::discover::{ClientFile, Discovery};
use crate::merge::{Origin, PlannedServer};
use crate::shown_plan::FileChange;
use crate::tool_rules::ToolRuleSet;
use base::redact;
use base::text::{self, counted, joined, name, quoted, shorten, visible};
use config::env::Env;
use terminal::VisibleText;

/// After this time, a difference need not be the shortest.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest program of a server in the summary, in characters.
const MAX_PROGRAM: usize = 60;

/// Lists what was found and what becomes of it: a line for each file and for each server.
pub(super) fn summary(
    discovery: &Discovery,
    configs: &[ConfigChange],
    writes: &[ClientWrite],
    env: &Env,
) -> VisibleText {
    let mut out = VisibleText::default();
    for file in &discovery.files {
        let count: usize = file.places.iter().map(|place| place.servers.len()).sum();
        let write = writes.iter().find(|write| write.path == file.path);
        let change = write.map_or_else(String::new, |write| format!("; {}", write.describe()));
        if let Some(package) = &file.package {
            out.line(format_args!("{:<15} {}: {}", file.app.label, package.title(), of_package(file)));
            continue;
        }
        let path = short_path(&file.path, env);
        out.line(format_args!("{:<15} {path}: {}{change}", file.app.label, counted(count, "server")));
        for (server, reason) in file.places.iter().flat_map(|place| &place.staying) {
            out.line(format_args!("{:<15}   {} stays there: {reason}", "", name(server)));
        }
    }
    let of_others = writes.iter().filter(|write| discovery.files.iter().all(|file| file.path != write.path));
    for write in of_others {
        let path = short_path(&write.path, env);
        out.line(format_args!("{:<15} {path}: {}", write.app.label, write.describe()));
    }
    if !discovery.other_projects.is_empty() {
        let dirs = joined(discovery.other_projects.iter().map(|dir| short_path(dir, env)));
        out.line(format_args!(
            "Single projects have servers too; add --project=DIR to import those of one, or --all-projects: {dirs}"
        ));
    }
    for config in configs {
        let path = short_path(&config.path, env);
        let count = config.new_servers().count();
        if count > 0 {
            out.paragraph(format_args!("{} for {path}:", counted(count, "server")));
        }
        let width =
            config.new_servers().map(|server| name(&server.name).chars().count()).max().unwrap_or_default();
        for server in config.new_servers() {
            let state = if server.is_off() { "disabled, " } else { "" };
            let program = shorten(&program(&server.entry), MAX_PROGRAM);
            out.line(format_args!(
                "  {:<width$}  {program} ({state}{})",
                name(&server.name),
                origins(server)
            ));
        }
        let known = config.servers.iter().filter(|server| server.is_known && !server.origins.is_empty());
        let known = joined(known.map(|server| name(&server.name)));
        if !known.is_empty() {
            out.paragraph(format_args!("Already in {path}, and left as they are: {known}."));
        }
    }
    let remarks = remarks(discovery, configs, writes, env);
    if !remarks.is_empty() {
        out.line("");
    }
    remarks.into_iter().for_each(|remark| out.line(remark));
    out
}

/// Says how many servers of a package move, and why others stay.
fn of_package(file: &ClientFile) -> String {
    let count: usize = file.places.iter().map(|place| place.servers.len()).sum();
    let mut reasons: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (server, reason) in file.places.iter().flat_map(|place| &place.staying) {
        reasons.entry(reason).or_default().push(name(server));
    }
    let staying = reasons.iter().map(|(reason, names)| format!("{} stays there: {reason}", names.join(", ")));
    let moving = Some(counted(count, "server")).filter(|_| count > 0);
    moving.into_iter().chain(staying).collect::<Vec<_>>().join("; ")
}

/// Returns all that is known of the servers, and these changes of files.
pub(super) fn details<'a>(
    configs: &[ConfigChange],
    changes: impl Iterator<Item = FileChange<'a>>,
    env: &Env,
) -> VisibleText {
    let mut out = VisibleText::default();
    for config in configs {
        let path = short_path(&config.path, env);
        out.paragraph(format_args!("{path}:"));
        config.new_servers().for_each(|server| describe(&mut out, server));
        for server in config.servers.iter().filter(|server| server.is_known && !server.origins.is_empty()) {
            out.line(format_args!("  {} is there already, as in {}", name(&server.name), origins(server)));
            for difference in FieldDifference::all(server) {
                out.line(format_args!("    {}", difference.describe_outcome(Some(&path))));
            }
        }
    }
    for (path, before, after) in changes {
        let diff = diff(path, before, after);
        if diff != VisibleText::default() {
            out.line("");
            out.lines("", diff);
        }
    }
    out
}

fn describe(out: &mut VisibleText, server: &PlannedServer) {
    out.line(format_args!("  {}{}", name(&server.name), if server.is_off() { " (disabled)" } else { "" }));
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
        let mut text = origin.app.label.to_owned();
        if origin.client_name != server.name {
            text.push_str(&format!(" (as {})", name(&origin.client_name)));
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

#[cfg(test)]
mod tests {
    use super::*;

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
