//! What the clients' rules for tools have that dynamic-mcp does not carry over: a line for each, with the file that it is
//! in and what to do.

use std::path::Path;

use super::client_profiles::ClientProfiles;
use super::own_profiles::own_profiles;
use crate::clients::apps::{ClientApp, short_path};
use crate::merge::client_scope::ClientScope;
use crate::merge::discover::Discovery;
use crate::merge::{Origin, PlannedServer};
use crate::rules::client_rules::{ClientRule, RuleFile, rules_for};
use crate::rules::tool_rules::{ToolEffect, ToolRuleSet};
use base::text::{self, name};
use config::env::Env;

/// What the lines are about.
pub(crate) struct RuleReview<'a> {
    /// What the clients' files have.
    pub discovery: &'a Discovery,
    /// The servers of servers.json, with the new ones.
    pub servers: &'a [PlannedServer],
    /// The profiles that servers.json will have.
    pub profiles: &'a ClientProfiles,
    /// The environment.
    pub env: &'a Env,
}

impl RuleReview<'_> {
    /// Returns the lines, and those about what holds for all tools.
    pub(crate) fn lines(&self) -> (Vec<String>, Vec<String>) {
        let mut lost = self.off_in_projects();
        lost.extend(self.inputs_of_user());
        let mut general = Vec::new();
        for file in &self.discovery.rules {
            let at = format!("{} ({})", file.app.label, short_path(&file.path, self.env));
            let mut allowed = Vec::new();
            let mut policies = file.policies.clone();
            let mut denies_all = false;
            let is_read = |rule: &&ClientRule| {
                !(rule.is_of_projects() || rule.names_what_stays() && !self.is_without_place(file))
            };
            lost.extend(self.still_on(file).map(|reason| format!("{at}: {reason}")));
            for rule in file.rules.iter().filter(is_read) {
                let is_used = self.names(file).any(|server| !rule.globs(file.app, server).is_empty());
                let is_policy = rule.is_policy(file.app) && !rule.names_what_stays();
                let is_used = is_used || rule.names_what_stays();
                match rule.effect {
                    // A server for which it counts stays in the client's file.
                    _ if rule.agent.is_some() => {}
                    ToolEffect::Allow if !file.app.allow_lifts => {
                        if is_used && !is_policy {
                            allowed.push(rule.written.clone());
                        }
                    }
                    ToolEffect::Allow => {}
                    effect if is_policy => {
                        denies_all |= effect == ToolEffect::Deny;
                        policies.push(rule.written.clone());
                    }
                    _ if is_used && self.is_without_place(file) => lost.push(format!(
                        "{at}: {}: it is for the project, whose files have no servers; write a profile for it, and `--profile` into an entry there",
                        rule.written
                    )),
                    _ if is_used => {}
                    _ => lost.extend(self.unused(file, rule).map(|reason| format!("{at}: {}: {reason}", rule.written))),
                }
            }
            if !allowed.is_empty() {
                general.push(format!(
                    "{at} goes without a question for some tools that it now calls through dynamic-mcp, and will ask: {}",
                    allowed.join(", ")
                ));
            }
            if !policies.is_empty() {
                let also = if denies_all { ": it denies them; allow them there" } else { "" };
                general.push(format!(
                    "{at} decides for all tools, and so for those of dynamic-mcp{also}: {}",
                    policies.join(", ")
                ));
            }
        }
        general.extend(self.withheld_environment());
        general.extend(self.policies_of_gemini());
        (lost, general)
    }

    /// Returns the servers of servers.json that a file turns off, and that its client goes on to see.
    fn still_on<'f>(&'f self, file: &'f RuleFile) -> impl Iterator<Item = String> + 'f {
        let user = self.user(file).filter(|user| user.is_project == file.is_project);
        let seen = self.servers.iter().filter(move |server| {
            let is_seen = |user| self.profiles.sees(user, &server.name);
            let is_in_file = server.origins.iter().any(|origin| origin.app == file.app);
            server.is_known && !is_in_file && user.is_some_and(is_seen)
        });
        seen.filter_map(move |server| {
            let rule =
                file.rules.iter().find(|rule| rule.turns_off(file.app, server.name_in(file.app)))?;
            let server = name(&server.name);
            Some(format!(
                "{}: it turns off {server}, which servers.json has already; write `!{server}` into the profile of the client",
                rule.written
            ))
        })
    }

    /// Returns what the servers of Gemini CLI do not get of the environment.
    fn withheld_environment(&self) -> Option<String> {
        let is_local =
            |origin: &Origin| origin.app == ClientApp::Gemini && origin.entry.contains_key("command");
        self.origins().any(is_local).then(|| {
            format!(
                "{} passes your environment to its servers, but for what looks like a secret; dynamic-mcp passes \
                 them the variables that hold no secrets and are usual, so name others that they need in `inherit_env`",
                ClientApp::Gemini.label
            )
        })
    }

    /// Returns the inputs of the user's file that the entry in a project's file of the same client cannot have.
    fn inputs_of_user(&self) -> Vec<String> {
        let has_project = |app| self.origins().any(|origin| origin.app == app && origin.is_project);
        let mut lines = Vec::new();
        for server in self.servers {
            for origin in server.origins.iter().filter(|origin| !origin.is_project && has_project(origin.app))
            {
                let scope = ClientScope { app: origin.app, is_project: true };
                let is_seen = self.profiles.sees(scope, &server.name);
                let inputs = origin.variables.client.iter().filter(|(_, text)| text.starts_with("${input:"));
                lines.extend(inputs.filter(|_| is_seen).map(|(variable, text)| {
                    format!(
                        "{}: {} needs {text} of the user's file, which the project's file does not have; add the input there, and {variable} to `env` of the entry for dynamic-mcp",
                        scope.label(),
                        name(&server.name)
                    )
                }));
            }
        }
        lines
    }

    /// The policies of Gemini CLI, which are not read.
    fn policies_of_gemini(&self) -> Option<String> {
        let is_there = self.discovery.files.iter().any(|file| file.app == ClientApp::Gemini);
        let dir = self.env.home()?.join(".gemini/policies");
        let mut files = std::fs::read_dir(&dir).ok()?.flatten();
        let has_some = files.any(|file| file.path().extension().is_some_and(|end| end == "toml"));
        (is_there && has_some).then(|| {
            format!(
                "{} has policies in {}, which are not read; write what they deny of a server's tools into its `tools.deny`",
                ClientApp::Gemini.label,
                short_path(&dir, self.env)
            )
        })
    }

    /// Returns the servers that Claude Code turns off in a project, and that its entry for dynamic-mcp would start
    /// there.
    fn off_in_projects(&self) -> Vec<String> {
        let is_imported = |off: &&String| {
            self.origins().any(|origin| origin.app == ClientApp::ClaudeCode && origin.name == **off)
        };
        let line = |(dir, off): &(String, Vec<String>)| {
            let names: Vec<_> = off.iter().filter(is_imported).map(|off| name(off)).collect();
            let dir = text::path(Path::new(dir));
            (!names.is_empty()).then(|| {
                format!(
                    "{}: in {dir}, {} is off; import that project too, with --project={dir}",
                    ClientApp::ClaudeCode.label,
                    names.join(", ")
                )
            })
        };
        self.discovery.off_in_projects.iter().filter_map(line).collect()
    }

    /// Returns where the servers were found.
    fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.servers.iter().flat_map(|server| &server.origins)
    }

    /// The names that the client has for servers to import that the file's rules are about.
    fn names(&self, file: &RuleFile) -> impl Iterator<Item = &str> {
        let app = file.app;
        self.origins().filter(move |origin| origin.app == app).map(|origin| origin.name.as_str())
    }

    /// Returns whether the file belongs to a project in which the client gets no entry.
    fn is_without_place(&self, file: &RuleFile) -> bool {
        file.is_project && !self.origins().any(|origin| origin.app == file.app && origin.is_project)
    }

    /// Returns the client that the file's rules are for, if it uses this program already.
    fn user(&self, file: &RuleFile) -> Option<ClientScope> {
        let users = own_profiles(self.discovery).into_keys();
        users.filter(|scope| scope.app == file.app && (file.is_project || !scope.is_project)).max()
    }

    /// Why a rule that names none of the client's servers is not carried over. `None` if it holds already, or is not about
    /// servers.
    fn unused(&self, file: &RuleFile, rule: &ClientRule) -> Option<String> {
        let app = file.app;
        let user = self.user(file);
        let is_seen =
            |server: &PlannedServer| user.is_some_and(|user| self.profiles.sees(user, &server.name));
        let seen: Vec<_> = self.servers.iter().filter(|server| server.is_known && is_seen(server)).collect();
        // The client's own account has its name there.
        let is_of_another = |server: &PlannedServer| {
            seen.iter().any(|own| own.name != server.name && own.name_in(app) == server.name)
        };
        let named = || {
            let named = seen.iter().filter(|server| !rule.globs(app, server.name_in(app)).is_empty());
            named.filter(|server| !is_of_another(server))
        };
        if named().next().is_none() && app == ClientApp::Gemini && rule.is_about_any_server() {
            return Some(format!(
                "a tool of any server may have this name; write {} into `tools.deny` of the server that has it",
                rule.pattern()
            ));
        }
        if named().next().is_none() {
            return rule.names_servers(app).then(|| format!("it names no server that {} has", app.label));
        }
        let missing = named().find(|server| !user.is_some_and(|user| self.holds(user, server, rule)))?;
        Some(format!(
            "it names {}, which servers.json has already; write it into the `tools` of that server or of a profile",
            name(&missing.name)
        ))
    }

    /// Returns whether servers.json has a rule for a server, in its entry or in the profile of the client, or all that
    /// the client's rules say in the end, where a later one lifts it.
    fn holds(&self, user: ClientScope, server: &PlannedServer, rule: &ClientRule) -> bool {
        let mut in_force = ToolRuleSet::read(server.entry.get("tools"));
        in_force.join(self.profiles.rules(user, &server.name));
        let is_in_force = |mut rules: ToolRuleSet| {
            let is_as_written = rules.is_within(&in_force);
            // What asks may have become a denial.
            rules.deny_asked();
            is_as_written || rules.is_within(&in_force)
        };
        let alias = server.name_in(user.app);
        let all = user.rules(&self.discovery.rules).map(|(_, rule)| rule);
        is_in_force(rules_for(user.app, alias, all).0) || is_in_force(rules_for(user.app, alias, [rule]).0)
    }
}
