//! `dynamic-mcp add FILE.mcpb`: makes a server of a bundle.
//!
//! # Theory of operation
//!
//! A bundle is unpacked into a new directory, `bundles/ID` in the directory of data: its files into `files`, and into
//! `bundle.json` the values of its settings. An update gets another directory, so the entry in the config changes from one
//! version to the other at once; then the old directory is removed. `installed` has what is unpacked, also for `remove`.
//!
//! `settings` finds the values: those of `--set`, those of the version before, and those that the person at the terminal
//! types. Secrets are stored in the system's keyring.

use super::servers::{AddArgs, added, new_entry};
use super::servers_file::{ServersFile, read_files};
use anyhow::{Context, anyhow, bail};
use base::private_files::replace;
use base::{blocking, random, text};
use bundle::archive::OpenBundle;
use bundle::manifest::{BundleHost, PLATFORM};
use config::env::Env;
use config::load::name_error;
use import::edit::ObjectEdit;
use installed::{BundleRecord, RECORD, bundle_of, remove_unused, root};
use instance::InstanceOptions;
use instance::stores::secret_store;
use serde_json::{Map, Value};
use settings::FoundSettings;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use terminal::outcome::{CommandError, EXIT_USAGE, report};

pub(super) mod installed;
mod settings;

/// How long a bundle may take to be read or unpacked.
const UNPACK_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns whether the command line names a bundle in place of a server.
pub fn is_bundle(args: &AddArgs) -> bool {
    let extension = Path::new(&args.name).extension().unwrap_or_default();
    args.is_incomplete() && ["mcpb", "dxt"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Adds the server of a bundle, or updates it.
///
/// # Errors
///
/// Says why the bundle cannot be used, or what cannot be written.
pub async fn add(args: &AddArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let root = root(env).context("there is no directory for bundles because HOME is not set")?;
    let (path, scratch) = (env.cwd().join(&args.name), root.clone());
    let opened = blocking::run(UNPACK_TIMEOUT, move || OpenBundle::open(&path, &scratch)).await?;
    let mut bundle = opened.map_err(|reason| anyhow!("{}: {reason}", text::name(&args.name)))?;
    bundle.manifest.check(PLATFORM).map_err(anyhow::Error::msg)?;
    let name = args.server_name.as_ref().unwrap_or(&bundle.manifest.name).trim().to_owned();
    if let Some((reason, _)) = name_error(&name, false) {
        bail!(CommandError::new(EXIT_USAGE, format!("{reason}; choose another one with --name")));
    }
    let mut files = read_files(options, env)?;
    let known = files.iter().rposition(|file| file.entry(&name).is_some());
    let file = known.map(|known| files.swap_remove(known)).or_else(|| files.pop());
    let file = file.context("there is no config file because HOME is not set")?;
    let (old, record) = bundle_of(&name, &file.path, env).unzip();
    let record = record.filter(|record: &BundleRecord| record.id == bundle.manifest.id());
    if known.is_some() && record.is_none() {
        let message = format!("{} is another server already; choose a name with --name", text::name(&name));
        bail!(CommandError::new(EXIT_USAGE, message));
    }
    let dir = root.join(random::hex_id());
    let unpacked = dir.join("files");
    let store = secret_store(env).context("there is no directory for the names of secrets")?;
    let (values, secrets) = (record.unwrap_or_default().settings, Vec::new());
    let mut found = FoundSettings { values, secrets, store, server: &name, config: &file.path, env };
    found.find(&bundle.manifest, &args.set).await?;
    let (config, server, id) = (file.path.clone(), name.clone(), bundle.manifest.id());
    let record = BundleRecord { config, server, id, settings: found.values };
    let made = async {
        let host = BundleHost { dir: &unpacked, home: env.home(), platform: PLATFORM };
        let to = unpacked.clone();
        let bundle = blocking::run(UNPACK_TIMEOUT, move || bundle.unpack(&to).map(|()| bundle)).await?;
        let bundle = bundle.map_err(anyhow::Error::msg)?;
        let entry = bundle.manifest.entry(&record.settings, &host).map_err(anyhow::Error::msg)?;
        replace(&dir.join(RECORD), &serde_json::to_vec(&record)?, true)?;
        for (secret, value) in found.secrets {
            found.store.set(&secret, value).await?;
        }
        file.write(vec![change(&file, &name, entry, new_entry(args)?)])?;
        Ok(bundle.is_signed)
    };
    if made.await.inspect_err(|_: &anyhow::Error| drop(fs::remove_dir_all(&dir)))? {
        terminal::message("the signature of the bundle was not verified");
    }
    old.map(|old| remove_unused(&old, options, env)).transpose()?;
    report(&name, Ok(added(&name, &file, options, env).await))
}

/// Returns the change that writes the entry of a bundle. Of an entry that is there, what the user added stays.
fn change(file: &ServersFile, name: &str, entry: Map<String, Value>, more: Map<String, Value>) -> ObjectEdit {
    let known = file.entry(name);
    let env =
        [known, Some(&entry), Some(&more)].into_iter().filter_map(|entry| entry?.get("env")?.as_object());
    let env: Map<_, _> = env.flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    let is_new = |name: &str| name != "description" || known.is_none_or(|known| !known.contains_key(name));
    let mut set: Map<_, _> = entry.into_iter().filter(|(name, _)| is_new(name)).chain(more).collect();
    if !env.is_empty() {
        set.insert("env".to_owned(), Value::Object(env));
    }
    let remove = if set.contains_key("args") { Vec::new() } else { vec!["args".to_owned()] };
    let keys = file.keys.iter().cloned().chain([name.to_owned()]).collect();
    ObjectEdit { keys, remove, set: set.into_iter().collect() }
}
