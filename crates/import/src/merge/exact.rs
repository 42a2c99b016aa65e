//! Servers that stay in their client's file, because they cannot be carried over exactly: the client has rules for them that
//! servers.json cannot have, or they are a project's, and would appear elsewhere or get what is the user's.

use super::discover::{Discovery, FoundServer};
use crate::clients::apps::ClientApp;
use crate::rules::client_rules::{ClientRule, TurnedOff, rules_for};
use crate::rules::tool_rules::ToolEffect;
use base::text::{joined, visible};

impl Discovery {
    /// Leaves each server in its client's file whose rules cannot be carried over exactly.
    pub(crate) fn leave_inexact(&mut self) {
        for file in &mut self.files {
            let of_client = || self.rules.iter().filter(|rules| rules.app == file.app);
            let of_user = of_client().filter(|rules| !rules.is_project).flat_map(|rules| &rules.rules);
            let scopes = [of_user.collect(), of_client().flat_map(|rules| &rules.rules).collect::<Vec<_>>()];
            let asks = file.app.shows_questions(&file.root);
            for place in &mut file.places {
                for server in std::mem::take(&mut place.servers) {
                    // Where a project's rules count, too, they may lift what the user's forbid.
                    match scopes.iter().find_map(|rules| inexact(file.app, &server.name, rules, asks)) {
                        Some(reason) => place.staying.push((server.name, reason)),
                        None => place.servers.push(server),
                    }
                }
            }
        }
    }
}

impl Discovery {
    /// Leaves a project's servers in its files if no entry limits them to the project (`is_limited`), and those that would
    /// get something of the user's entries if nobody can be asked (`can_ask`).
    pub(crate) fn leave_unlimited(&mut self, is_limited: bool, can_ask: bool) {
        self.leave_of_project(|found| match is_limited {
            false => Some(
                "--write-client imports it too, because an entry in the project limits it to the project"
                    .to_owned(),
            ),
            true if can_ask || found.taken.is_empty() => None,
            true => Some(format!(
                "it would get {} of your own entry; run this without --yes to agree to that",
                found.taken_fields()
            )),
        });
    }

    /// Leaves those of a project's servers in its files for which there is a reason, and the user's servers that their
    /// entries change.
    pub(crate) fn leave_of_project(&mut self, mut reason: impl FnMut(&FoundServer) -> Option<String>) {
        let mut changed = Vec::new();
        for file in &mut self.files {
            for place in file.places.iter_mut().filter(|place| place.project.is_some()) {
                for found in std::mem::take(&mut place.servers) {
                    let Some(reason) = reason(&found) else {
                        place.servers.push(found);
                        continue;
                    };
                    if !found.taken.is_empty() {
                        changed.push((file.app, found.name.clone()));
                    }
                    place.staying.push((found.name, reason));
                }
            }
        }
        for file in &mut self.files {
            let is_changed = |found: &mut FoundServer| changed.contains(&(file.app, found.name.clone()));
            for place in file.places.iter_mut().filter(|place| place.project.is_none()) {
                let left = place.servers.extract_if(.., is_changed);
                place
                    .staying
                    .extend(left.map(|found| (found.name, "the project's file changes it".to_owned())));
            }
        }
    }
}

/// Returns why the rules of a client for one of its servers cannot be carried over. `None`: they can be. `asks`: whether
/// the client shows its user the questions of servers.
fn inexact(app: ClientApp, server: &str, rules: &[&ClientRule], asks: bool) -> Option<String> {
    let is_about = |rule: &&&ClientRule| !rule.is_policy(app) && !rule.globs(app, server).is_empty();
    if let Some(rule) = rules.iter().filter(|rule| rule.agent.is_some()).find(is_about) {
        return Some(format!("{}: it is for one agent, and dynamic-mcp knows no agents", rule.written));
    }
    let of_all = || rules.iter().filter(|rule| rule.agent.is_none() && rule.turns_off == TurnedOff::No);
    let denies = |rule: &&&ClientRule| rule.effect == ToolEffect::Deny;
    if let Some(rule) = of_all().rfind(|rule| rule.is_policy(app)).filter(denies) {
        return Some(format!("{}: it denies every tool, and so those of dynamic-mcp", rule.written));
    }
    let (set, exceptions) = rules_for(app, server, of_all().copied());
    if let Some(rule) = exceptions.first() {
        return Some(format!("{}: it is an exception that a list cannot have", rule.written));
    }
    // A file of an agent, which is not read, may turn them on for that agent.
    let mut off = of_all().filter(denies).filter(|rule| rule.globs(app, server) == ["*"]);
    if app == ClientApp::Opencode && set.denies_all() {
        let rule = off.next_back().map_or("", |rule| &rule.written);
        return Some(format!("{rule}: its tools are off, except for agents that turn them on"));
    }
    let asked = joined(set.asked().map(visible));
    (!asked.is_empty() && !asks)
        .then(|| format!("{} asks before {asked}, and shows no questions of servers", app.label))
}
