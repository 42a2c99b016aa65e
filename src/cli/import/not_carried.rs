//! What the clients' rules for tools have that dynamic-mcp does not carry over: a line for each, with the file that it is
//! in and what to do.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::apps::{ClientApp, short_path};
use super::client_profiles::own_profiles;
use super::client_rules::{ClientRule, RuleFile, rules_for};
use super::discover::Discovery;
use super::merge::PlannedServer;
use super::tool_rules::{ToolEffect, ToolRuleSet};
use crate::config::vars::Env;
use crate::text::name;

/// What the lines are about.
pub(super) struct RuleReview<'a> {
    /// What the clients' files have.
    pub(super) discovery: &'a Discovery,
    /// The servers of servers.json, with the new ones.
    pub(super) servers: &'a [PlannedServer],
    /// The profiles that servers.json has.
    pub(super) profiles: &'a Map<String, Value>,
    /// The environment.
    pub(super) env: &'a Env,
}

impl RuleReview<'_> {
    /// The lines, and those about what holds for all tools.
    pub(super) fn lines(&self) -> (Vec<String>, Vec<String>) {
        let (mut lost, mut general) = (Vec::new(), Vec::new());
        for file in &self.discovery.rules {
            let at = format!("{} ({})", file.app.label(), short_path(&file.path, self.env));
            let mut allowed = Vec::new();
            let mut policies = file.policies.clone();
            let mut denies_all = false;
            for rule in &file.rules {
                let is_used = self.names(file).any(|server| !rule.globs(file.app, server).is_empty());
                let is_policy = rule.is_policy(file.app);
                match rule.effect {
                    _ if rule.agent.is_some() => {
                        if is_used && !is_policy {
                            lost.push(format!("{at}: {}: it is for one agent, and dynamic-mcp knows no agents", rule.written));
                        }
                    }
                    ToolEffect::Allow if !matches!(file.app, ClientApp::Opencode | ClientApp::Codex) => {
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
        (lost, general)
    }

    /// The names that the client has for servers to import that the file's rules are about.
    fn names(&self, file: &RuleFile) -> impl Iterator<Item = &str> {
        let origins = self.servers.iter().flat_map(|server| &server.origins);
        let app = file.app;
        origins.filter(move |origin| origin.app == app).map(|origin| origin.name.as_str())
    }

    /// Whether the file belongs to a project in which the client gets no entry.
    fn is_without_place(&self, file: &RuleFile) -> bool {
        let mut origins = self.servers.iter().flat_map(|server| &server.origins);
        file.is_project && !origins.any(|origin| origin.app == file.app && origin.is_project)
    }

    /// Why a rule that names none of the client's servers is not carried over. `None` if it holds already, or is not about
    /// servers.
    fn unused(&self, file: &RuleFile, rule: &ClientRule) -> Option<String> {
        let aliases = |server: &PlannedServer| {
            let short = server.name.strip_suffix(&format!("-{}", file.app.id())).map(str::to_owned);
            [Some(server.name.clone()), short]
        };
        let known = self.servers.iter().filter(|server| server.is_known);
        let named: BTreeMap<&str, ToolRuleSet> = known
            .flat_map(|server| aliases(server).into_iter().flatten().map(move |alias| (server, alias)))
            .filter(|(_, alias)| !rule.globs(file.app, alias).is_empty())
            .map(|(server, alias)| (server.name.as_str(), rules_for(file.app, &alias, [rule]).0))
            .collect();
        if named.is_empty() {
            return rule
                .names_servers(file.app)
                .then(|| format!("it names no server that {} has", file.app.label()));
        }
        let missing = named.iter().find(|(server, rules)| !self.holds(file.app, server, rules))?;
        Some(format!(
            "it names {}, which servers.json has already; write it into the `tools` of that server or of a profile",
            name(missing.0)
        ))
    }

    /// Whether servers.json has these rules for a server, in its entry or in a profile that the client uses.
    fn holds(&self, app: ClientApp, server: &str, rules: &ToolRuleSet) -> bool {
        let entry = self.servers.iter().find(|known| known.name == server);
        let in_entry = entry.and_then(|known| known.entry.get("tools"));
        let own = own_profiles(self.discovery).filter(|(scope, _)| scope.app == app);
        let in_profiles =
            own.filter_map(|(_, profile)| self.profiles.get(&profile?)?.get("tools")?.get(server));
        let mut denies = rules.clone();
        denies.without_questions(true);
        // What asks may have become a denial.
        in_entry.into_iter().chain(in_profiles).any(|tools| {
            let tools = ToolRuleSet::read(Some(tools));
            rules.is_within(&tools) || denies.is_within(&tools)
        })
    }
}
