//! What to know about an import beside its lists, one line each.

use std::collections::BTreeSet;

use super::client_write::ClientWrite;
use super::config_file::ConfigChange;
use crate::clients::apps::{ClientApp, OWN_NAME, short_path};
use crate::clients::host_search::HostSearch;
use crate::merge::accounts::passes_all;
use crate::merge::discover::{ClientFile, Discovery, Place};
use crate::merge::{Origin, PlannedServer};
use base::text::{counted, joined, name, visible};
use config::env::Env;

/// Our tools that change nothing.
const QUIET_TOOLS: [&str; 4] =
    ["get_dynamic_tools", "search_dynamic_tools", "call_dynamic_tool_readonly", "get_status"];

/// Returns the lines about the servers, about the clients, and about files that are left as they are.
pub(super) fn remarks(
    discovery: &Discovery,
    configs: &[ConfigChange],
    writes: &[ClientWrite],
    env: &Env,
) -> Vec<String> {
    let mut remarks: Vec<String> = configs.iter().flat_map(|config| config.profiles.lines.clone()).collect();
    remarks.extend(of_servers(configs, env));
    remarks.extend(of_clients(discovery, configs, writes, env));
    let reads_other = |(file, place): (&ClientFile, &Place)| {
        let (own, config) = place.other_own.as_ref().filter(|_| !place.servers.is_empty())?;
        Some(format!(
            "{}: `{}` in {} reads {}, so the file is left as it is; to move its servers, run `dynamic-mcp import {} --write-client` with that file as --config",
            file.app.label,
            visible(own),
            short_path(&file.path, env),
            short_path(config, env),
            file.app.id
        ))
    };
    remarks.extend(discovery.places().filter_map(reads_other));
    remarks
}

/// Returns where the new servers were found, each with the name that it gets.
fn origins(configs: &[ConfigChange]) -> impl Iterator<Item = (&str, &Origin)> {
    let servers = configs.iter().flat_map(ConfigChange::new_servers);
    servers.flat_map(|server| server.origins.iter().map(|origin| (server.name.as_str(), origin)))
}

fn of_servers(configs: &[ConfigChange], env: &Env) -> Vec<String> {
    let mut remarks = Vec::new();
    for config in configs {
        let off = config.servers.iter().filter(|server| server.is_known && server.is_off());
        for server in off.filter(|server| server.origins.iter().any(|origin| origin.is_on)) {
            let (name, path) = (name(&server.name), short_path(&config.path, env));
            remarks.push(format!(
                "{name} is disabled in {path}, and so for every client; `dynamic-mcp enable {name}` turns it on"
            ));
        }
    }
    let unset = origins(configs).flat_map(|(server, origin)| {
        origin.unset.iter().map(move |variable| format!("{variable} ({})", name(server)))
    });
    let unset = joined(unset.collect::<BTreeSet<_>>());
    if !unset.is_empty() {
        remarks.push(format!("Not set here, and so empty for their servers: {unset}."));
    }
    let ignored = origins(configs).flat_map(|(_, origin)| origin.ignored.iter().map(|field| visible(field)));
    let ignored = joined(ignored.collect::<BTreeSet<_>>());
    if !ignored.is_empty() {
        remarks.push(format!("Without meaning here, and left out: {ignored}."));
    }
    remarks
}

fn of_clients(
    discovery: &Discovery,
    configs: &[ConfigChange],
    writes: &[ClientWrite],
    env: &Env,
) -> Vec<String> {
    let mut remarks = Vec::new();
    let local = origins(configs).filter(|(_, origin)| origin.entry.contains_key("command"));
    let local: BTreeSet<ClientApp> = local.map(|(_, origin)| origin.app).collect();
    let passing = joined(local.iter().filter(|app| app.passes_environment).map(|app| app.label));
    if !passing.is_empty() {
        remarks.push(format!("The servers of {passing} get your whole environment, as before."));
    }
    let servers = configs.iter().flat_map(ConfigChange::new_servers);
    let is_mixed = |server: &&PlannedServer| {
        let passing = server.origins.iter().filter(|origin| passes_all(&origin.entry)).count();
        passing > 0 && passing < server.origins.len()
    };
    let mixed = joined(servers.filter(is_mixed).map(|server| name(&server.name)));
    if !mixed.is_empty() {
        remarks.push(format!("Now these get it in each of their clients: {mixed}."));
    }
    for app in &local {
        remarks.extend((app.remarks)(env).into_iter().map(|remark| format!("{}: {remark}", app.label)));
    }
    for (app, policies) in &discovery.policies {
        let policies = policies.join(", ");
        remarks.push(format!(
            "{} decides for all tools, and so for those of dynamic-mcp: {policies}",
            app.label
        ));
    }
    let has_local =
        |place: &Place| place.servers.iter().any(|server| server.translated.entry.contains_key("command"));
    let versioned = discovery.places().filter(|(file, place)| {
        file.package.as_ref().is_some_and(|package| package.is_versioned) && has_local(place)
    });
    for app in versioned.map(|(file, _)| file.app).collect::<BTreeSet<_>>() {
        remarks.push(format!(
            "{}: the servers of plugins are those of the present versions; after an update of a plugin, `dynamic-mcp import --undo` and another import move the new ones",
            app.label
        ));
    }
    let is_written = |app: ClientApp| writes.iter().any(|write| write.app == app);
    // Where our tools are listed one by one, its approvals are carried over.
    let is_flat =
        |app: ClientApp| app.lists_tools_once && matches!((app.tool_search)(&app, env), HostSearch::On(_));
    for (app, count) in discovery.allowing.iter().filter(|(app, _)| is_written(*app) && !is_flat(*app)) {
        remarks.push(format!(
            "{}: {} for tools of these servers will count no more, so it will ask; to let it search and read without a question, allow the tools {} of `{OWN_NAME}`",
            app.label,
            counted(*count, "permission"),
            joined(QUIET_TOOLS)
        ));
    }
    for write in writes.iter().filter(|write| !write.unpassed.is_empty()) {
        remarks.push(format!(
            "{} passes on no variables, and its servers need {}: write their values into `env` of `{OWN_NAME}` in {}",
            write.app.label,
            write.unpassed.join(", "),
            short_path(&write.path, env)
        ));
    }
    remarks
}
