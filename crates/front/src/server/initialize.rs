//! The results of `initialize` and `server/discover`.

use super::phase::AdvertisedCapabilities;
use crate::client::Client;
use crate::tools::tool_list;
use serde_json::{Value, json};
use upstream::GroupManager;
use upstream::clients::LogLevel;
use upstream::groups::startup_info::log_line;
use wire::protocol::{
    OLDEST_HANDSHAKE, REVISIONS, SKILLS_EXTENSION, TASKS_EXTENSION, is_stateless, meta, revisions_up_to,
};
use wire::{Raw, raw};

/// How many errors, and how many warnings, are sent to the client as log messages. `get_status` has all.
const MAX_REPORTED: usize = 20;

/// Returns the capabilities to advertise. They depend only on the config: a capability is advertised if one server may
/// have it, or if there is no server.
pub fn advertised(groups: &GroupManager) -> AdvertisedCapabilities {
    let config = groups.config();
    let features: Vec<_> =
        config.servers.iter().filter_map(|(_, server)| Some(server.as_ref().ok()?.common.features)).collect();
    let stores = tool_list::stores_results(&config);
    AdvertisedCapabilities {
        resources: stores || features.is_empty() || features.iter().any(|features| features.resources),
        // We have one ourselves, which a config without prompts does not need.
        prompts: features.is_empty() || features.iter().any(|features| features.prompts),
        tasks: false,
        connected: true,
    }
}

/// Returns the revision that the client asks for if it is a known one of the handshake era, else the latest of these.
/// `latest`: the latest revision that this client is offered. Logs the client's name and version.
pub(crate) fn negotiate(params: &Raw, latest: &str) -> &'static str {
    let requested = raw::get_str(params, "protocolVersion");
    let offered = || revisions_up_to(latest).filter(|revision| !is_stateless(revision));
    let known = offered().find(|known| requested.as_deref() == Some(known));
    let revision = known.or_else(|| offered().next()).unwrap_or(OLDEST_HANDSHAKE);
    let client =
        raw::get(params, "clientInfo").and_then(|info| raw::get_str(&info, "name")).unwrap_or_default();
    let requested = requested.as_deref().unwrap_or("none");
    tracing::info!(%client, requested, revision, "client connected");
    revision
}

/// Tells the client what is wrong with the command line and the config, up to `MAX_REPORTED` errors and as many
/// warnings. It gets this when its handshake is over.
pub(crate) fn report_problems(client: &Client, groups: &GroupManager) {
    let config = groups.config();
    let log = log_line(groups.log_file());
    let usage = groups.usage_errors().iter().map(|error| format!("command line error: {error}"));
    let errors = config.errors.iter().map(|error| format!("config error: {error}"));
    let entries = config.servers.iter().filter_map(|(name, server)| {
        let error = server.as_ref().err()?;
        Some(format!("Group {name} is not available: its config entry is invalid: {error}"))
    });
    for error in usage.chain(errors).chain(entries).take(MAX_REPORTED) {
        client.notifications.log(None, LogLevel::Error, &format!("{error}{log}"));
    }
    for warning in config.all_warnings().take(MAX_REPORTED) {
        client.notifications.log(None, LogLevel::Warning, &format!("config warning: {warning}"));
    }
}

/// Returns the result of `initialize`.
pub fn initialize_result(revision: &str, groups: &GroupManager, advertised: AdvertisedCapabilities) -> Raw {
    let mut capabilities = capabilities(advertised, advertised.connected);
    if advertised.resources {
        capabilities["extensions"] = json!({ SKILLS_EXTENSION: { "directoryRead": true } });
    }
    if advertised.tasks {
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    let result = json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "serverInfo": server_info(),
        "instructions": tool_list::instructions(groups),
    });
    result.to_string().into()
}

/// Returns the result of `server/discover`.
pub fn discover_result(groups: &GroupManager, advertised: AdvertisedCapabilities) -> Raw {
    let mut capabilities = capabilities(advertised, true);
    capabilities["extensions"] = json!({ TASKS_EXTENSION: {} });
    if advertised.resources {
        capabilities["extensions"][SKILLS_EXTENSION] = json!({ "directoryRead": true });
    }
    let result = json!({
        "supportedVersions": REVISIONS,
        "capabilities": capabilities,
        "instructions": tool_list::instructions(groups),
        "_meta": { (meta::SERVER): server_info() },
    });
    result.to_string().into()
}

fn server_info() -> Value {
    json!({ "name": "dynamic-mcp", "title": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the capabilities that are the same in both eras. `notifies`: whether the client can be told that something
/// changed.
fn capabilities(advertised: AdvertisedCapabilities, notifies: bool) -> Value {
    let changes = || if notifies { json!({ "listChanged": true }) } else { json!({}) };
    let mut capabilities = match advertised.connected {
        true => json!({ "logging": {}, "completions": {} }),
        false => json!({ "completions": {} }),
    };
    if advertised.prompts {
        capabilities["prompts"] = changes();
    }
    if advertised.resources {
        capabilities["resources"] =
            if notifies { json!({ "subscribe": true, "listChanged": true }) } else { json!({}) };
    }
    capabilities["tools"] = changes();
    capabilities
}
