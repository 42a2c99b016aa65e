//! What an import says at its end: what is wrong with the new servers, and what to do next.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::clients::apps::ClientApp;
use crate::files::write;
use crate::merge::PlannedServer;
use crate::merge::discover::Discovery;
use crate::mode::ImportArgs;
use base::text;
use config::dirs;
use config::env::Env;
use config::load::load;
use config::{Endpoint, Overrides};
use process::launch::find_broken;
use terminal::VisibleText;

/// Reads servers.json, and prints what is wrong with the new servers, as `get_status` would. A client may have a runtime of
/// its own that is not installed here.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub(super) async fn show_problems(target: &Path, servers: &[PlannedServer], env: &Env) -> io::Result<()> {
    let config = load(&[target.to_owned()], env, &Overrides::default());
    let is_new = |name: &str| servers.iter().any(|server| !server.is_known && server.name == name);
    let invalid = config.servers.iter().filter(|(name, _)| is_new(name.as_str()));
    // Those that only a client knows are set by its entry for us.
    let origins = servers.iter().flat_map(|server| &server.origins);
    let clients_own: Vec<String> =
        origins.flat_map(|origin| origin.variables.client.keys()).map(|name| format!("`{name}`")).collect();
    let errors = invalid.filter_map(|(_, server)| server.as_ref().err()).map(ToString::to_string);
    // An error may have several lines, each with its position.
    let mut lines: Vec<String> =
        errors.flat_map(|error| error.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let local = config.servers.iter().filter_map(|(name, server)| match &server.as_ref().ok()?.endpoint {
        Endpoint::Stdio(stdio) if is_new(name.as_str()) => Some((name, stdio)),
        _ => None,
    });
    let broken = find_broken(local, env).await;
    lines.extend(broken.iter().map(|(name, error)| format!("{name}: {error}")).collect::<BTreeSet<_>>());
    let errors = lines.iter().filter(|line| !clients_own.iter().any(|name| line.contains(name)));
    let mut text = VisibleText::default();
    errors.for_each(|line| text.line(format_args!("  {line}")));
    if text != VisibleText::default() {
        terminal::line("These do not work yet:")?;
    }
    terminal::print(&text)
}

/// Says what to do next, if there is anything. `written`: the clients whose files were written.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub(super) fn say_what_next(
    target: &Path,
    args: &ImportArgs,
    written: &[ClientApp],
    discovery: &Discovery,
    env: &Env,
) -> anyhow::Result<()> {
    let has_own = |app| discovery.places_in(app).any(|(_, place)| place.own.is_some());
    let starts_us = |app| args.write_client && (written.contains(&app) || has_own(app));
    let moved = discovery.places().filter(|(file, place)| !place.servers.is_empty() && starts_us(file.app));
    let with_buttons = moved.filter_map(|(file, _)| {
        let package = file.package.as_ref()?;
        Some(((file.app.label, package.buttons?), text::visible(&package.name)))
    });
    let mut by_hand: BTreeMap<_, Vec<_>> = BTreeMap::new();
    with_buttons.for_each(|(place, package)| by_hand.entry(place).or_default().push(package));
    for ((label, buttons), packages) in by_hand {
        terminal::line(format_args!(
            "{label}: turn these off in {buttons}, so that their servers do not run twice: {}.",
            text::joined(packages)
        ))?;
    }
    let has_servers = discovery.places().any(|(_, place)| !place.servers.is_empty());
    if !written.is_empty() {
        let labels: BTreeSet<&str> = written.iter().map(|app| app.label).collect();
        terminal::line(format_args!(
            "Restart {}. `dynamic-mcp import --undo` takes the changes in their files back.",
            text::joined(labels)
        ))?;
    } else if !args.write_client && has_servers && args.files().next().is_none() {
        let is_default = dirs::default_config_file(env).is_some_and(|file| write::absolute(&file) == target);
        let named = target.to_str().and_then(text::shell_word).filter(|_| !is_default);
        let config = named.map(|target| format!(" --config {target}")).unwrap_or_default();
        terminal::line(format_args!(
            "The clients still start these servers themselves. `dynamic-mcp import --write-client{config}` puts dynamic-mcp in their place."
        ))?;
    }
    Ok(())
}
