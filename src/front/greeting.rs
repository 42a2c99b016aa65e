//! The answers to `initialize` and `server/discover`.

use super::list;
use super::phase::Offers;
use crate::groups::GroupManager;
use crate::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, REVISIONS, TASKS_EXTENSION, meta};
use crate::wire::{Raw, raw};
use rmcp::model::{
    Implementation, InitializeResult, PromptsCapability, ResourcesCapability, ServerCapabilities,
    ToolsCapability,
};
use serde_json::json;

/// What is advertised: it follows the config alone. One server that is asked for resources is enough, and without
/// any server there is no reason to refuse.
pub fn offers(groups: &GroupManager) -> Offers {
    let config = groups.config();
    let features: Vec<_> =
        config.servers.iter().filter_map(|(_, server)| Some(server.as_ref().ok()?.features)).collect();
    Offers {
        resources: features.is_empty() || features.iter().any(|features| features.resources),
        prompts: features.is_empty() || features.iter().any(|features| features.prompts),
        tasks: false,
    }
}

/// The revision the client asks for, if we know it.
pub fn revision(params: &Raw) -> &'static str {
    let asked = raw::get_str(params, "protocolVersion");
    let known = asked.as_deref().and_then(|asked| HANDSHAKE_REVISIONS.iter().find(|known| **known == asked));
    let revision = known.copied().unwrap_or(LATEST_HANDSHAKE);
    let client =
        raw::get(params, "clientInfo").and_then(|info| raw::get_str(&info, "name")).unwrap_or_default();
    tracing::info!(%client, asked = asked.as_deref().unwrap_or("nothing"), revision, "client connected");
    revision
}

/// What a client is told that speaks `revision`.
pub fn answer(revision: &str, groups: &GroupManager, offers: Offers) -> Raw {
    let mut result = InitializeResult::new(capabilities(offers));
    result.server_info = ourselves();
    result.instructions = Some(list::instructions(groups));
    let mut result = json!(result);
    result["protocolVersion"] = json!(revision);
    if offers.tasks {
        result["capabilities"]["tasks"] =
            json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    result.to_string().into()
}

/// What a stateless client is told that asks who is here.
pub fn discovered(groups: &GroupManager, offers: Offers) -> Raw {
    let mut capabilities = json!(capabilities(offers));
    capabilities["extensions"] = json!({ TASKS_EXTENSION: {} });
    let result = json!({
        "supportedVersions": REVISIONS,
        "capabilities": capabilities,
        "instructions": list::instructions(groups),
        "_meta": { (meta::SERVER): ourselves() },
    });
    result.to_string().into()
}

fn ourselves() -> Implementation {
    let mut info = Implementation::new("dynamic-mcp", env!("CARGO_PKG_VERSION"));
    info.title = Some("dynamic-mcp".to_owned());
    info
}

fn capabilities(offers: Offers) -> ServerCapabilities {
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    let mut resources = ResourcesCapability::default();
    resources.subscribe = Some(true);
    resources.list_changed = Some(true);
    let mut prompts = PromptsCapability::default();
    prompts.list_changed = Some(true);
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(tools);
    capabilities.resources = offers.resources.then_some(resources);
    capabilities.prompts = offers.prompts.then_some(prompts);
    capabilities.completions = Some(serde_json::Map::new());
    capabilities.logging = Some(serde_json::Map::new());
    capabilities
}
