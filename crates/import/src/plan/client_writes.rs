//! The clients' files that an import would write.

use super::replace::{ClientWrite, OwnProgram};
use crate::clients::apps::{ClientApp, HostOs, OWN_NAME, short_path};
use crate::merge::discover::Discovery;
use crate::mode::ImportMode;
use crate::tool_search::HostSearch;
use base::text;

/// Returns the clients' files with our entry, and whether all of them can be made. Writes none of them. Says which
/// files are left as they are, and why.
///
/// # Errors
///
/// Fails if stdout cannot be written, or a new file cannot be made.
pub(super) fn client_writes(
    program: &OwnProgram<'_>,
    discovery: &Discovery,
    mode: &ImportMode<'_>,
) -> anyhow::Result<(Vec<ClientWrite>, bool)> {
    let (is_named, env) = (mode.is_named(), mode.env);
    let mut writes = Vec::new();
    let mut is_complete = true;
    let others = discovery.other_files.iter().filter(|file| program.profiles.limits(file));
    let limited = others.map(|file| (file, false));
    for (file, always) in discovery.files.iter().map(|file| (file, is_named)).chain(limited) {
        match program.replace_in(file, always) {
            Ok(write) => writes.extend(write.filter(|write| !write.is_done())),
            Err(reason) => {
                terminal::message(format_args!(
                    "{} cannot be edited: {reason}; it is left as it is",
                    text::path(&file.path)
                ));
                is_complete = false;
            }
        }
    }
    let has_file = |app: ClientApp| {
        discovery.files.iter().any(|file| file.app == app)
            || discovery.errors.iter().any(|(of, _)| *of == app)
    };
    for &app in mode.apps.iter().filter(|&&app| is_named && !has_file(app)) {
        if let Some(path) = app.new_file(env, HostOs::CURRENT) {
            writes.extend(program.new_file(app, path).map_err(anyhow::Error::msg)?);
        }
    }
    for file in &discovery.files {
        let others = file.places.iter().filter(|place| is_named || !place.servers.is_empty());
        for (own, config) in others.filter_map(|place| place.other_own.as_ref()) {
            terminal::line(format_args!(
                "{}: `{}` in {} reads {} and not {}, so the file is left as it is; to move its servers, run `dynamic-mcp import {} --write-client` with that file as --config",
                file.app.label,
                text::visible(own),
                short_path(&file.path, env),
                short_path(config, env),
                short_path(program.config, env),
                file.app.id
            ))?;
        }
    }
    if writes.iter().any(|client| client.app == ClientApp::Codex) {
        match &program.codex_search {
            HostSearch::On(reason) => terminal::line(format_args!(
                "Codex gets the tools themselves (`--surface flat`), because its model searches for tools: {reason}"
            ))?,
            HostSearch::Off(reason) | HostSearch::Unknown(reason) => terminal::line(format_args!(
                "Codex gets the few tools of dynamic-mcp, because its model may not search for tools: {reason}"
            ))?,
        }
    }
    for client in writes.iter().filter(|client| !client.unpassed.is_empty()) {
        terminal::line(format_args!(
            "{} passes on no variables, and its servers need {}: write their values into `env` of `{OWN_NAME}` in {}",
            client.app.label,
            client.unpassed.join(", "),
            short_path(&client.path, env)
        ))?;
    }
    Ok((writes, is_complete))
}
