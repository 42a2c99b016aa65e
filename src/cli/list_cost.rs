//! What the lists of tools cost the model: directly, and with dynamic-mcp.

use super::config_files::load_config;
use super::started::on_instance;
use base::text::{counted, grouped};
use config::env::Env;
use config::{Mode, Overrides, SurfaceKind};
use front::tools::tool_list;
use instance::InstanceOptions;
use instance::embedded::EmbeddedInstance;
use upstream::Upstream;
use upstream::catalog::tool::model_tokens;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

/// The tool of dynamic-mcp that the surface `flat` lists, too.
const LISTED_ALWAYS: &str = "get_status";

/// What models read of the tools of all servers, in tokens.
pub(super) struct ListCost {
    /// How many tools the config allows.
    tools: usize,
    /// Their definitions.
    direct: usize,
    /// What a client reads with dynamic-mcp: its list of tools, and its instructions.
    listed: usize,
    /// The tools of dynamic-mcp that are in the list because the servers' tools are not; `None` if the tools of some server are
    /// not known, which may take more than these.
    replaced: Option<usize>,
}

impl ListCost {
    /// Lists the tools as a client does. Counts the servers whose tools are known. `None` if the list cannot be read.
    pub(super) async fn of(instance: &EmbeddedInstance) -> Option<Self> {
        let groups = instance.groups.all();
        let tools = groups.iter().filter_map(|group| group.snapshot().allowed_tools()).sum();
        let known: Vec<_> = groups.iter().filter_map(tokens).collect();
        let direct = known.iter().sum();
        let list = instance.client.request(Method::ToolsList, &Raw::from_static(b"{}")).await.ok()?;
        let list = raw::elements(&list, "tools").unwrap_or_default();
        let listed: usize = list.iter().map(model_tokens).sum();
        let instructions = base::tokens::estimate(&tool_list::instructions(&instance.groups));
        // An exposed tool has the name of its server before two underscores.
        let is_replacement = |tool: &&Raw| {
            raw::get_str(tool, "name").is_some_and(|name| !name.contains("__") && name != LISTED_ALWAYS)
        };
        let replaced = list.iter().filter(is_replacement).map(model_tokens).sum();
        let replaced = (known.len() == groups.len()).then_some(replaced);
        Some(Self { tools, direct, listed: listed + instructions, replaced })
    }

    /// Says what the lists cost, and what to do if the servers' tools cost less.
    pub(super) fn lines(&self) -> Vec<String> {
        let cost = format!(
            "{}, {} tokens; your client reads {}",
            counted(self.tools, "tool"),
            grouped(self.direct),
            grouped(self.listed)
        );
        std::iter::once(cost).chain(self.hint()).collect()
    }

    /// Says what to do if the servers' tools cost less than those that stand for them.
    fn hint(&self) -> Option<String> {
        let replaced = self.replaced.filter(|replaced| self.direct < *replaced)?;
        Some(format!(
            "the tools of all servers cost less than the {replaced} tokens of dynamic-mcp's tools that stand for them; with \
             `--surface flat` in the client's entry, or `\"surface\": \"flat\"` in `settings`, the model gets the tools \
             themselves"
        ))
    }
}

/// Returns what the list of the tools that the config allows costs, in tokens; `None` if they are not known.
pub(super) fn tokens(group: &Upstream) -> Option<usize> {
    let snapshot = group.snapshot();
    let definitions = snapshot.catalog.as_ref()?.definitions()?;
    let usable = definitions.filter(|(tool, _)| snapshot.rules.allows(&tool.name));
    Some(usable.map(|(_, definition)| model_tokens(definition)).sum())
}

/// After an import: prints the hint of [`ListCost`] if the cache knows the tools of all servers. Starts no server.
///
/// # Errors
///
/// Fails if the config cannot be read or stdout cannot be written.
pub async fn hint_after_import(options: &InstanceOptions, env: &Env) -> anyhow::Result<()> {
    let overrides = Overrides { mode: Some(Mode::Pure), ..Overrides::default() };
    let config = load_config(overrides, options, env)?;
    if config.settings.surface != SurfaceKind::Meta || config.servers.is_empty() {
        return Ok(());
    }
    let cost = on_instance(config, options, env.clone(), ListCost::of).await?.flatten();
    Ok(cost.and_then(|cost| cost.hint()).map_or(Ok(()), terminal::line)?)
}
