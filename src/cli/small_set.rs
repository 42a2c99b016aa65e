//! Finds out whether the definitions of all tools cost the model less than the tools that dynamic-mcp lists in their
//! place.

use super::config_files::load_config;
use super::started::on_instance;
use config::env::Env;
use config::{Mode, Overrides, SurfaceKind};
use instance::InstanceOptions;
use instance::embedded::EmbeddedInstance;
use upstream::Upstream;
use upstream::catalog::tool::model_tokens;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

/// The tool of dynamic-mcp that the surface `flat` lists, too.
const LISTED_ALWAYS: &str = "get_status";

/// Returns what to do if the tools of all servers cost less than those of dynamic-mcp; `None` if they do not, or if the
/// tools of some server are not known. Lists the tools as a client does.
pub(super) async fn of(instance: &EmbeddedInstance) -> Option<String> {
    let all: usize = instance.groups.all().iter().map(tokens).sum::<Option<usize>>()?;
    let list = instance.client.request(Method::ToolsList, &Raw::from_static(b"{}")).await.ok()?;
    // An exposed tool has the name of its server before two underscores.
    let own = raw::elements(&list, "tools").unwrap_or_default().into_iter().filter_map(|tool| {
        let name = raw::get_str(&tool, "name").filter(|name| !name.contains("__"))?;
        Some((name, model_tokens(&tool)))
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

/// Returns what the list of the tools that the config allows costs, in tokens; `None` if they are not known.
pub(super) fn tokens(group: &Upstream) -> Option<usize> {
    let snapshot = group.snapshot();
    let definitions = snapshot.catalog.as_ref()?.definitions()?;
    let usable = definitions.filter(|(tool, _)| snapshot.rules.allows(&tool.name));
    Some(usable.map(|(_, definition)| model_tokens(definition)).sum())
}

/// After an import: prints the hint of [`of`] if the cache knows the tools of all servers. Starts no server.
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
    let hint = on_instance(config, options, env.clone(), of).await?.flatten();
    hint.map_or(Ok(()), |hint| Ok(terminal::line(format_args!("note: {hint}"))?))
}
