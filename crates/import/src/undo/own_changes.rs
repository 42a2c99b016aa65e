//! What the config files have of the servers that come back to the clients, and the clients' entries have not: a secret that
//! was changed since, a tool that was denied since, a server that was added. `--undo` names it, so that the user does not
//! continue with old settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::undo_step::UndoStep;
use crate::clients::apps::{ClientApp, short_path};
use crate::files::change_record::ChangeRecord;
use crate::files::records::ChangeRecords;
use crate::json::into_members;
use crate::merge::accounts::KeyringValues;
use crate::merge::differences::FieldDifference;
use crate::merge::discover::{Discovery, discover_in};
use crate::merge::{Merger, Origin, PlannedServer, is_same_command};
use crate::plan::report::program;
use crate::profiles::Profile;
use crate::source::{FileTexts, read_text, servers_keys, understood, value_at};
use crate::tool_rules::ToolRuleSet;
use base::text::{self, joined, name};
use config::env::Env;
use terminal::VisibleText;

/// Returns what the config files of these changes have beyond the clients' files, which will have these texts. `config`: the
/// config file of records that do not name theirs.
pub(super) async fn own_changes(
    records: &ChangeRecords,
    steps: &[(u32, ChangeRecord, UndoStep)],
    texts: &FileTexts,
    config: Option<PathBuf>,
    env: &Env,
) -> VisibleText {
    let mut out = VisibleText::default();
    let changes = || steps.iter().map(|(_, change, _)| change);
    let apps: BTreeSet<ClientApp> = changes().filter_map(ChangeRecord::app).collect();
    let configs: BTreeSet<PathBuf> =
        changes().filter_map(|change| change.config.clone().or_else(|| config.clone())).collect();
    let projects = changes().flat_map(|change| &change.places).filter_map(|place| place.project.as_deref());
    let projects: BTreeSet<Option<&Path>> = projects.map(Some).chain([None]).collect();
    let discovered =
        projects.into_iter().map(|project| discover_in(texts, ClientApp::all(), project, false, env));
    let discovered: Vec<Discovery> = discovered.collect();
    for undone in &configs {
        let of_config =
            records.all().filter(|(_, record)| record.config.as_ref().or(config.as_ref()) == Some(undone));
        let imported: BTreeSet<&String> = of_config.flat_map(|(_, record)| &record.servers).collect();
        let file = short_path(undone, env);
        match config_content(undone) {
            Ok((servers, profiles)) => {
                let keyring = KeyringValues::read(&servers, env).await;
                let merger = Merger::new(&keyring.resolved(&servers), KeyringValues::default());
                let files = UndoneConfig { file, profiles, apps: &apps, imported: &imported };
                files.describe(merger, &discovered, &mut out);
            }
            Err(reason) => {
                out.line(format_args!("Whether servers were added since is not known: {reason}"));
            }
        }
    }
    out
}

/// A config file whose clients get their servers back.
struct UndoneConfig<'a> {
    /// Its name in texts.
    file: String,
    profiles: Map<String, Value>,
    /// The clients.
    apps: &'a BTreeSet<ClientApp>,
    /// The names of the servers that came from clients.
    imported: &'a BTreeSet<&'a String>,
}

impl UndoneConfig<'_> {
    /// Says what its servers have beyond those of the clients.
    fn describe(&self, mut merger: Merger, discovered: &[Discovery], out: &mut VisibleText) {
        let file = &self.file;
        let mut changed = BTreeSet::new();
        for (client, place) in discovered.iter().flat_map(Discovery::places) {
            for found in &place.servers {
                let own_name = format!("{}-{}", found.name, client.app.id);
                let was_imported = self.imported.contains(&found.name) || self.imported.contains(&own_name);
                let is_there = merger.attach(Origin::new(client.app, found), &own_name);
                if !is_there && was_imported && self.apps.contains(&client.app) {
                    changed.insert(format!("{} is not in {file} any more", name(&found.name)));
                }
            }
        }
        for server in &merger.servers {
            let origins = server.origins.iter().filter(|origin| self.apps.contains(&origin.app));
            let differences = origins.flat_map(|origin| differences(server, origin, &self.profiles, file));
            let fields = FieldDifference::since_import(server, self.apps);
            let all = differences.chain(fields.iter().map(|difference| difference.describe_beside(file)));
            changed.extend(all.map(|line| format!("{}: {line}", name(&server.name))));
        }
        if !changed.is_empty() {
            out.line(format_args!("{file} has changes that the clients do not get:"));
            changed.iter().for_each(|line| out.line(format_args!("  {line}")));
        }
        let is_added =
            |server: &&PlannedServer| server.origins.is_empty() && !self.imported.contains(&server.name);
        let added = joined(merger.servers.iter().filter(is_added).map(|server| name(&server.name)));
        if !added.is_empty() && !self.apps.is_empty() {
            out.line(format_args!("Only in {file}, where they stay, and in no client: {added}."));
        }
    }
}

/// The servers and the profiles of a config file.
type ConfigContent = (Map<String, Value>, Map<String, Value>);

/// Returns the servers and the profiles of a config file. One that does not exist has none.
///
/// # Errors
///
/// Says why the file cannot be read.
fn config_content(config: &Path) -> Result<ConfigContent, String> {
    let text = read_text(config).map_err(|error| error.to_string())?.unwrap_or_default();
    let root = understood(config, &text).map_err(|error| error.to_string())?;
    match value_at(&root, &servers_keys(config, &root)) {
        Some(servers) if !servers.is_object() => {
            Err(format!("{} has no servers that can be read", text::path(config)))
        }
        servers => Ok((into_members(servers.cloned()), into_members(root.get("profiles").cloned()))),
    }
}

/// Returns what a server of the config file has beyond the compared fields of a client's entry.
fn differences(
    server: &PlannedServer,
    origin: &Origin,
    profiles: &Map<String, Value>,
    file: &str,
) -> Vec<String> {
    let client = origin.app.label;
    let mut found = Vec::new();
    if !is_same_command(&server.entry, &origin.entry) {
        let [ours, theirs] = [&server.entry, &origin.entry].map(program);
        found.push(format!("{file} runs {ours}, and {client} {theirs}"));
    }
    if server.is_off() && origin.is_on {
        found.push(format!("it is disabled in {file}, and on in {client}"));
    }
    let profile = profiles.get(origin.app.id).and_then(Profile::read);
    if profile.is_some_and(|profile| !profile.chooses(&server.name)) && origin.is_on {
        found.push(format!("the profile of {client} in {file} leaves it out, and {client} has it"));
    }
    let [ours, theirs] = [&server.entry, &origin.entry].map(|entry| ToolRuleSet::read(entry.get("tools")));
    if origin.is_on && !ours.is_within(&theirs) {
        found.push(format!("{file} {}, and {client} does not", ours.describe()));
    }
    found
}
