//! The catalogs and pins of a config's servers in one file, for other machines that use the same config.
//!
//! A server is identified as in the cache, so the catalog of a local server counts only where it starts in the same
//! directory. What is put into the cache counts as read now: whoever passes the file on vouches for it.

use super::variants::{VariantSummary, Variants, definitions_file};
use super::{CacheKey, IndexFile, VERSION, lock, read_index, write_index};
use crate::pins::exported as pins;
use crate::pins::record::PinRecord;
use base::clock::unix_time_s;
use base::private_files::{private_dir, read_private, replace_one_of_many};
use config::env::Env;
use config::{Config, GroupName, ServerConfig};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The limit for the definitions of one catalog, in bytes.
const MAX_DEFINITIONS: u64 = 64 << 20;

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedCatalogs {
    /// The version of the cache's format.
    version: u32,
    /// The entries of the cache by launch.
    servers: BTreeMap<String, Box<RawValue>>,
    /// The definitions of their tools, by the names of their files.
    definitions: BTreeMap<String, Box<RawValue>>,
    /// The pins by group.
    pins: BTreeMap<String, PinRecord>,
}

/// Where catalogs and pins are on this machine.
#[derive(Clone, Debug)]
pub struct CatalogDirs {
    /// The directory of the cache.
    pub cache: PathBuf,
    /// The directory of the pins.
    pub pins: PathBuf,
}

impl ExportedCatalogs {
    /// Reads what is known of the servers of a config, and the names of those of which nothing is. Blocks.
    pub fn read(config: &Config, env: &Env, dirs: &CatalogDirs) -> (Self, Vec<GroupName>) {
        let index = read_index(&dirs.cache);
        let mut exported = Self { version: VERSION, ..Self::default() };
        let mut unknown = Vec::new();
        for (name, server) in servers(config) {
            let launch = launch_of(server, env);
            let known = index.servers.get(&launch).filter(|entry| {
                let files = definition_files(&launch, entry);
                let read = files.into_iter().map(|file| Some((read_definitions(&dirs.cache, &file)?, file)));
                let read: Option<Vec<_>> = read.collect();
                let is_whole = read.is_some();
                exported.definitions.extend(read.into_iter().flatten().map(|(text, file)| (file, text)));
                is_whole
            });
            match known {
                Some(entry) => drop(exported.servers.insert(launch, entry.clone())),
                None => unknown.push(name.clone()),
            }
            let record = pins::record_of(&dirs.pins, name, server);
            exported.pins.extend(record.map(|record| (name.as_str().to_owned(), record)));
        }
        (exported, unknown)
    }

    /// Puts what the file has of the servers of a config into the cache and the pins of this machine, in place of what is
    /// there. Returns how many catalogs that were. Blocks.
    ///
    /// # Errors
    ///
    /// The file is of another version, or what it has cannot be written.
    pub fn install(mut self, config: &Config, env: &Env, dirs: &CatalogDirs) -> Result<usize, String> {
        if self.version != VERSION {
            return Err(format!("its format has version {} instead of {VERSION}", self.version));
        }
        private_dir(&dirs.cache).map_err(|error| error.to_string())?;
        let _lock = lock(&dirs.cache);
        let IndexFile { servers: mut known, failures, .. } = read_index(&dirs.cache);
        let wanted: BTreeSet<_> = servers(config).map(|(_, server)| launch_of(server, env)).collect();
        let mut installed = 0;
        for launch in wanted {
            let Some(entry) = self.servers.remove(&launch) else { continue };
            for file in definition_files(&launch, &entry) {
                let text = self.definitions.get(&file).ok_or("it lacks definitions that it names")?;
                replace_one_of_many(&dirs.cache.join(&file), text.get().as_bytes(), false)
                    .map_err(|error| error.to_string())?;
            }
            let mut variants: Variants =
                serde_json::from_str(entry.get()).map_err(|error| error.to_string())?;
            variants.set_read_at(unix_time_s());
            known.insert(launch, to_raw_value(&variants).map_err(|error| error.to_string())?);
            installed += 1;
        }
        write_index(&dirs.cache, known, failures).map_err(|error| error.to_string())?;
        for (name, server) in servers(config) {
            if let Some(record) = self.pins.remove(name.as_str()) {
                pins::install_record(&dirs.pins, name, server, record)?;
            }
        }
        Ok(installed)
    }
}

/// The valid servers of a config.
fn servers(config: &Config) -> impl Iterator<Item = (&GroupName, &ServerConfig)> {
    config.servers.iter().filter_map(|(name, server)| Some((name, &**server.as_ref().ok()?)))
}

fn launch_of(server: &ServerConfig, env: &Env) -> String {
    CacheKey::of_server(server, env, &[]).launch
}

/// The names of the files with the definitions of an entry.
fn definition_files(launch: &str, entry: &RawValue) -> Vec<String> {
    let variants: Vec<VariantSummary> = serde_json::from_str(entry.get()).unwrap_or_default();
    // A name from a file of somebody else must not lead elsewhere.
    let is_hash = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let contents = variants.into_iter().map(|variant| variant.content).filter(|content| is_hash(content));
    contents.map(|content| definitions_file(launch, &content)).collect()
}

fn read_definitions(dir: &Path, file: &str) -> Option<Box<RawValue>> {
    let text = read_private(&dir.join(file), MAX_DEFINITIONS).ok()?;
    RawValue::from_string(String::from_utf8(text).ok()?).ok()
}
