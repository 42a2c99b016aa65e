//! What `--undo` says at its end: which clients to restart, and which servers no client has any more.
//!
//! A server of servers.json that came from a client is in its file again, or in a record. One that was added since, by
//! hand or with `dynamic-mcp add`, is printed in the form of each client whose file was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::undone_settings::{ConfigContent, UndoneConfig};
use crate::clients::apps::{ClientApp, HostOs, is_own_entry, short_path};
use crate::clients::client_form::client_form;
use crate::clients::translate::translate;
use crate::clients::variables::EntryContext;
use crate::files::edit::{ObjectEdit, edit};
use crate::files::source::{read_text, servers_keys, understood, value_at};
use crate::json::{into_members, map_strings, members};
use base::redact;
use base::text::{self, joined, name};
use config::env::Env;
use config::notation::canonical;
use instance::stores::secret_store;
use terminal::{VisibleText, counted};

/// The files that an undo changes, with their clients and their text afterwards; `None` if there is no file.
pub(super) type UndoneFiles = BTreeMap<PathBuf, (ClientApp, Option<String>)>;

/// Returns the steps that are left to the user after an undo changed these files and projects. `configs`: the config
/// files of the clients. `imported`: the names of the servers in it that came from clients.
pub(super) async fn after_undo(
    files: &UndoneFiles,
    projects: &BTreeSet<PathBuf>,
    configs: &BTreeSet<PathBuf>,
    imported: &BTreeSet<String>,
    env: &Env,
) -> VisibleText {
    let mut out = VisibleText::default();
    let apps: BTreeSet<ClientApp> = files.values().map(|(app, _)| *app).collect();
    if apps.is_empty() {
        return out;
    }
    out.line(format_args!("Restart {}.", joined(apps.iter().map(|app| app.label))));
    let known = ClientServers::read(files, env);
    for config in configs {
        let content = match own_content(config) {
            Ok(read) => read,
            Err(reason) => {
                out.line(format_args!("Whether servers were added since is not known: {reason}"));
                continue;
            }
        };
        let file = short_path(config, env);
        let store = secret_store(env);
        let undone = UndoneConfig { content: &content, file: &file, imported };
        let differing = undone.lines(&apps, projects, store.as_ref(), env).await;
        if !differing.is_empty() {
            out.paragraph("The clients have these servers as they were before the import:");
            differing.iter().for_each(|line| out.line(format_args!("  {line}")));
        }
        let is_added = |name: &str, entry: &Value| !imported.contains(name) && !known.has(name, entry);
        let added: Vec<_> = content.servers.iter().filter(|(name, entry)| is_added(name, entry)).collect();
        if added.is_empty() {
            continue;
        }
        out.paragraph(format_args!(
            "{} of {file} {} in no client now: {}.",
            counted(added.len(), "server"),
            if added.len() == 1 { "is" } else { "are" },
            joined(added.iter().map(|(server, _)| name(server)))
        ));
        for app in &apps {
            print_entries(&mut out, *app, &added, files, env);
        }
    }
    out
}

/// Prints these servers as the file of a client has them.
fn print_entries(
    out: &mut VisibleText,
    app: ClientApp,
    servers: &[(&String, &Value)],
    files: &UndoneFiles,
    env: &Env,
) {
    let Some((path, (_, text))) = files.iter().find(|(_, (of, _))| *of == app) else { return };
    let root = text.as_deref().and_then(|text| understood(path, text).ok()).unwrap_or_default();
    let (mut set, mut notes) = (Vec::new(), Vec::new());
    for (server, entry) in servers {
        let Some(entry) = entry.as_object() else { continue };
        let form = client_form(app, entry);
        notes.extend(form.notes.into_iter().map(|note| format!("{}: {note}", name(server))));
        set.push(((*server).clone(), Value::Object(form.entry)));
    }
    let keys = app.servers_path(&root);
    let Ok(text) = edit(path, "", &[ObjectEdit::set(keys, set)]) else { return };
    out.line(format_args!("For {}, in {}:", app.label, short_path(path, env)));
    let shown = redact::text(&text);
    out.lines("  ", &shown);
    if shown != text {
        out.line("  The values that are not shown are in servers.json.");
    }
    notes.iter().for_each(|note| out.line(format_args!("  {note}")));
}

/// Returns the servers and the profiles of a config file. One that does not exist has none.
///
/// # Errors
///
/// Says why the file cannot be read.
fn own_content(config: &Path) -> Result<ConfigContent, String> {
    let text = read_text(config).map_err(|error| error.to_string())?.unwrap_or_default();
    let root = understood(config, &text).map_err(|error| error.to_string())?;
    let profiles = into_members(root.get("profiles").cloned());
    match value_at(&root, &servers_keys(config, &root)) {
        Some(servers) if !servers.is_object() => {
            Err(format!("{} has no servers that can be read", text::path(config)))
        }
        servers => Ok(ConfigContent { servers: into_members(servers.cloned()), profiles }),
    }
}

/// The servers in the clients' files after an undo.
#[derive(Default)]
struct ClientServers {
    names: BTreeSet<String>,
    /// Their entries in our form, without the ones that have none.
    entries: Vec<Map<String, Value>>,
}

impl ClientServers {
    fn read(files: &UndoneFiles, env: &Env) -> Self {
        let mut servers = Self::default();
        for app in ClientApp::all() {
            let user_files = app.user_files(env, HostOs::CURRENT).into_iter();
            for path in user_files.filter(|path| !files.contains_key(path)) {
                // One that cannot be read has none that we know.
                let text = read_text(&path).ok().flatten().unwrap_or_default();
                servers.add(*app, &path, &text, env);
            }
        }
        for (path, (app, text)) in files {
            servers.add(*app, path, text.as_deref().unwrap_or_default(), env);
        }
        servers
    }

    fn add(&mut self, app: ClientApp, path: &Path, text: &str, env: &Env) {
        let Ok(root) = understood(path, text) else { return };
        let of_projects = members(root.get("projects")).filter_map(|(_, project)| project.get("mcpServers"));
        let own_place = value_at(&root, &app.servers_path(&root));
        let dir = path.parent().unwrap_or(path);
        let context = EntryContext { app, dir, project: None, env };
        for (name, value) in own_place.into_iter().chain(of_projects).flat_map(|place| members(Some(place))) {
            let Some(entry) = value.as_object().filter(|_| !is_own_entry(value)) else { continue };
            self.names.insert(name.clone());
            self.entries.extend(translate(entry, &context).ok().map(|translated| translated.entry));
        }
    }

    /// Returns whether a client has a server: one of its name, or one that runs the same with the same secrets.
    fn has(&self, name: &str, entry: &Value) -> bool {
        let is_same = |known: &Map<String, Value>| {
            ["command", "args", "env", "url", "headers"]
                .iter()
                .all(|field| plain(known.get(*field)) == plain(entry.get(*field)))
        };
        self.names.contains(name) || self.entries.iter().any(is_same)
    }
}

/// Returns the value with every string as it is always written. An empty list or object is none.
fn plain(value: Option<&Value>) -> Option<Value> {
    let value = value.filter(|value| **value != json!([]) && **value != json!({}))?;
    Some(map_strings(value, &mut canonical))
}
