//! What the lists of tools cost the model: directly, and with dynamic-mcp.

use super::config_files::load_config;
use super::started::on_instance;
use base::text::{counted, grouped};
use config::env::Env;
use config::{Mode, Overrides, SurfaceKind};
use front::tools::tool_list::ListCost;
use instance::InstanceOptions;
use upstream::GroupManager;

/// Says what the lists cost, and what to do if the servers' tools cost less.
pub(super) fn lines(groups: &GroupManager) -> Vec<String> {
    let tools = groups.all().iter().filter_map(|group| group.snapshot().allowed_tools()).sum();
    let cost = ListCost::of(groups);
    let tools = counted(tools, "tool");
    let line =
        format!("{tools}, {} tokens; your client reads {}", grouped(cost.direct), grouped(cost.listed));
    std::iter::once(line).chain(hint(&cost, groups)).collect()
}

/// Says what to do if the servers' tools cost less than those that stand for them. `None` also if the tools of some server
/// are not known, which may cost more.
fn hint(cost: &ListCost, groups: &GroupManager) -> Option<String> {
    let are_known = groups.all().iter().all(|group| group.snapshot().catalog.is_some());
    (are_known && cost.direct < cost.replaced).then(|| {
        format!(
            "the tools of all servers cost less than the {} tokens of dynamic-mcp's tools that stand for them; with \
             `--surface flat` in the client's entry, or `\"surface\": \"flat\"` in `settings`, the model gets the tools \
             themselves",
            cost.replaced
        )
    })
}

/// After an import: prints the [`hint`] if the cache knows the tools of all servers. Starts no server.
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
    let hint = on_instance(config, options, env.clone(), async |instance| {
        hint(&ListCost::of(&instance.groups), &instance.groups)
    });
    Ok(hint.await?.flatten().map_or(Ok(()), terminal::line)?)
}
