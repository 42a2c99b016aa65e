//! What servers.json has of the servers that came back to the clients, and the clients' entries have not: a secret that
//! was changed since, a tool that was denied since. `--undo` names it, so that the user does not continue with old
//! settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::clients::apps::ClientApp;
use crate::merge::accounts::KeyringValues;
use crate::merge::client_scope::ClientScope;
use crate::merge::differences::FieldDifference;
use crate::merge::discover::{Discovery, FoundServer, discover};
use crate::merge::{Merger, Origin, PlannedServer, is_same_command};
use crate::plan::report::program;
use crate::profiles::Profile;
use crate::rules::client_rules::{is_off, rules_for};
use crate::rules::tool_rules::ToolRuleSet;
use auth::secret_store::SecretStore;
use base::text::name;
use config::env::Env;

/// What a config file has.
#[derive(Debug, Default)]
pub(super) struct ConfigContent {
    /// The servers.
    pub servers: Map<String, Value>,
    /// The profiles.
    pub profiles: Map<String, Value>,
}

/// What is compared with the clients' files.
pub(super) struct UndoneConfig<'a> {
    /// The content of servers.json.
    pub content: &'a ConfigContent,
    /// Its name in texts.
    pub file: &'a str,
    /// The names of the servers that came from clients.
    pub imported: &'a BTreeSet<String>,
}

impl UndoneConfig<'_> {
    /// Returns the lines about the servers of these clients, and of these projects.
    pub(super) async fn lines(
        &self,
        apps: &BTreeSet<ClientApp>,
        projects: &BTreeSet<PathBuf>,
        store: Option<&SecretStore>,
        env: &Env,
    ) -> BTreeSet<String> {
        let apps: Vec<_> = apps.iter().copied().collect();
        let dirs = std::iter::once(None).chain(projects.iter().map(|dir| Some(dir.as_path())));
        let keyring =
            KeyringValues::read(self.content.servers.values().filter_map(Value::as_object), store).await;
        let known = keyring.resolved(&self.content.servers);
        let mut lines = BTreeSet::new();
        for dir in dirs {
            let discovery = discover(&apps, dir, env);
            let mut merger = Merger::new(Some(&known), KeyringValues::default());
            for file in &discovery.files {
                for place in &file.places {
                    let scope = ClientScope::of(file.app, place);
                    let found = place.servers.iter();
                    lines.extend(found.filter_map(|found| self.add(&mut merger, &discovery, scope, found)));
                }
            }
            for server in merger.servers.iter().filter(|server| !server.origins.is_empty()) {
                let origins = server.origins.iter();
                lines.extend(origins.flat_map(|origin| self.differences(server, origin, dir)));
                let changed = FieldDifference::since_import(server);
                lines.extend(changed.iter().map(|difference| {
                    format!("{}: {}", name(&server.name), difference.describe_beside(self.file))
                }));
            }
        }
        lines
    }

    /// Notes which server of servers.json a client's one is. Returns a line if there is none any more.
    fn add(
        &self,
        merger: &mut Merger,
        discovery: &Discovery,
        scope: ClientScope,
        found: &FoundServer,
    ) -> Option<String> {
        let mut origin = Origin::new(scope.app, scope.is_project, found.clone());
        let of_client = || scope.rules(&discovery.rules).map(|(_, rule)| rule);
        origin.rules.join(rules_for(scope.app, &found.name, of_client()).0);
        origin.is_on &= !is_off(scope.app, &found.name, scope.is_project, of_client());
        let twin = merger.twin(&origin).ok();
        let of_name = |name: &str| merger.servers.iter().position(|server| server.name == name);
        let own_name = format!("{}-{}", found.name, scope.app.id);
        let Some(index) = twin.or_else(|| of_name(&own_name)).or_else(|| of_name(&found.name)) else {
            let was_imported = [&found.name, &own_name].iter().any(|name| self.imported.contains(*name));
            let line = || {
                format!(
                    "{} is not in {} any more, and {} has it",
                    name(&found.name),
                    self.file,
                    scope.label()
                )
            };
            return was_imported.then(line);
        };
        merger.servers[index].origins.push(origin);
        None
    }

    /// Returns what a server of servers.json has beyond the fields of a client's entry.
    fn differences(&self, server: &PlannedServer, origin: &Origin, dir: Option<&Path>) -> Vec<String> {
        let scope = ClientScope::of_origin(origin);
        let (file, client) = (self.file, scope.label());
        let profile_name = scope.profile_name(dir);
        // Two projects may have directories of one name: then it is not known which profile is this one's.
        let is_only = !self.content.profiles.contains_key(&format!("{profile_name}-2"));
        let profile = self.content.profiles.get(&profile_name).filter(|_| is_only).and_then(Profile::read);
        let mut found = Vec::new();
        if !is_same_command(&server.entry, &origin.entry) {
            let [ours, theirs] = [&server.entry, &origin.entry].map(program);
            found.push(format!("{file} runs {ours}, and {client} {theirs}"));
        }
        if server.entry.get("enabled") == Some(&Value::Bool(false)) && origin.is_on {
            found.push(format!("it is disabled in {file}, and on in {client}"));
        }
        if profile.as_ref().is_some_and(|profile| !profile.chooses(&server.name)) && origin.is_on {
            found.push(format!("the profile of {client} in {file} leaves it out, and {client} has it"));
        }
        let mut rules = ToolRuleSet::read(server.entry.get("tools"));
        rules.join(profile.map(|profile| profile.rules(&server.name)).unwrap_or_default());
        // What asks may have become a denial.
        let mut denied = origin.rules.clone();
        denied.deny_asked();
        if origin.is_on && !rules.is_within(&origin.rules) && !rules.is_within(&denied) {
            found.push(format!("{file} {}, and {client} does not", rules.describe()));
        }
        found.into_iter().map(|line| format!("{}: {line}", name(&server.name))).collect()
    }
}
