//! What servers.json has of the servers that came back to the clients, and the clients' entries have not: a secret that
//! was changed since, a tool that was denied since. `--undo` names it, so that nobody goes on with what is old.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::access::ClientAccess;
use super::accounts::KeyringValues;
use super::apps::ClientApp;
use super::client_scope::ClientScope;
use super::differences::FieldDifference;
use super::discover::{Discovery, discover};
use super::merge::Merger;
use super::profiles::Profile;
use super::tool_rules::ToolRuleSet;
use crate::auth::secret_store::SecretStore;
use crate::config::vars::Env;
use base::text::name;

/// What a config file has.
#[derive(Debug, Default)]
pub(super) struct ConfigContent {
    /// The servers.
    pub(super) servers: Map<String, Value>,
    /// The profiles.
    pub(super) profiles: Map<String, Value>,
}

/// The lines about the servers of these clients, and of these projects. `config`: the content of servers.json, which is
/// called `file`.
pub(super) async fn undone_settings(
    apps: &BTreeSet<ClientApp>,
    projects: &BTreeSet<PathBuf>,
    config: &ConfigContent,
    file: &str,
    store: Option<&SecretStore>,
    env: &Env,
) -> BTreeSet<String> {
    let apps: Vec<_> = apps.iter().copied().collect();
    let dirs = std::iter::once(None).chain(projects.iter().map(|dir| Some(dir.as_path())));
    let mut lines = BTreeSet::new();
    for dir in dirs {
        let discovery = discover(&apps, dir, env);
        let entries = config.servers.values().filter_map(Value::as_object);
        let mut merger = Merger::new(Some(&config.servers), KeyringValues::read(entries, store).await);
        merger.add_all(&discovery);
        lines.extend(differing_fields(&merger, file));
        lines.extend(lost_rules(&merger, &discovery, &config.profiles, dir, file));
    }
    lines
}

fn differing_fields(merger: &Merger, file: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for server in merger.servers.iter().filter(|server| !server.origins.is_empty()) {
        for origin in &server.origins {
            let scope = ClientScope { app: origin.app, is_project: origin.is_project };
            if let Some((other, difference)) = &origin.other_account {
                lines.push(format!("{}: {}", name(other), difference.between(file, &scope.label())));
            }
        }
        // What another client has was not changed in servers.json.
        let changed = FieldDifference::all(server).into_iter().filter(|_| server.is_known);
        let changed = changed.filter(FieldDifference::is_of_no_client);
        lines.extend(
            changed.map(|difference| format!("{}: {}", name(&server.name), difference.describe_beside(file))),
        );
    }
    lines
}

/// The rules for tools that a client does not have, and had by its profile or by the entry of the server.
fn lost_rules(
    merger: &Merger,
    discovery: &Discovery,
    profiles: &Map<String, Value>,
    dir: Option<&Path>,
    file: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    for client in ClientAccess::collect(discovery, &merger.servers, &Map::new(), &mut Vec::new()) {
        let profile = client.scope.profile_name(dir);
        let profile = profiles.get(&profile).and_then(Profile::read);
        for (index, used) in &client.servers {
            let server = &merger.servers[*index];
            let mut rules = ToolRuleSet::read(server.entry.get("tools"));
            rules.join(profile.as_ref().map(|profile| profile.rules(&server.name)).unwrap_or_default());
            if server.is_known && used.is_on && !rules.is_within(&used.rules) {
                lines.push(format!(
                    "{}: {file} {}, and {} does not",
                    name(&server.name),
                    rules.describe(),
                    client.scope.label()
                ));
            }
        }
    }
    lines
}
