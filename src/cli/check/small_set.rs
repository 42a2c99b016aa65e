//! Finds out whether the definitions of all tools cost the model less than the tools that dynamic-mcp lists in their
//! place.

use super::CheckedServer;
use base::text::CHARACTERS_PER_TOKEN;
use instance::embedded::EmbeddedInstance;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

/// The tool of dynamic-mcp that the surface `flat` lists, too.
const LISTED_ALWAYS: &str = "get_status";

/// Returns what to do if the tools of all servers cost less than those of dynamic-mcp; `None` if they do not, or if some
/// server does not work. Lists the tools as a client does.
pub(super) async fn of(instance: &EmbeddedInstance, servers: &[CheckedServer]) -> Option<String> {
    let all: usize = servers.iter().map(|server| server.tokens).sum::<Option<usize>>()?;
    let list = instance.request(Method::ToolsList, &Raw::from_static(b"{}")).await.ok()?;
    // An exposed tool has the name of its server before two underscores.
    let own = raw::elements(&list, "tools").unwrap_or_default().into_iter().filter_map(|tool| {
        let name = raw::get_str(&tool, "name").filter(|name| !name.contains("__"))?;
        Some((name, tool.len() / CHARACTERS_PER_TOKEN))
    });
    let replaced: usize = own.filter(|(name, _)| name != LISTED_ALWAYS).map(|(_, tokens)| tokens).sum();
    (all < replaced).then(|| {
        format!(
            "the tools of all servers take {all} tokens, and those of dynamic-mcp that stand for them {replaced}; with \
             `--surface flat` in the client's entry, or `\"surface\": \"flat\"` in `settings`, the model gets the tools \
             themselves"
        )
    })
}
