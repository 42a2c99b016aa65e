//! Names the file, the lock and the keyring entry of a login.

use crate::keyring::KeyringEntry;
use base::digest;
use config::GroupName;
use std::fs;
use std::path::Path;

/// Identifies a login: by the group's name, the server's address and the `client_id` in the config.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// A readable part of the group's name, and a hash of all parts.
    file_stem: String,
    group: GroupName,
}

impl StoreKey {
    /// Makes the key of a login. The group's name is part of it, so that a server may be in the config twice, for two
    /// accounts.
    pub fn new(group: &GroupName, url: &str, client_id: Option<&str>) -> Self {
        let readable =
            group.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40);
        let digest = digest::of_parts([group.as_str(), url, client_id.unwrap_or_default()], 12);
        let file_stem = readable.chain(['-']).chain(digest.chars()).collect();
        Self { file_stem, group: group.clone() }
    }

    /// Returns the name of the login's file and of its lock, without the extension.
    pub fn file_stem(&self) -> &str {
        &self.file_stem
    }

    /// Returns the group of the server.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// Returns the keyring entry for the login whose file and lock are in `dir`. The user has one keyring, but may have
    /// several such directories, so the directory is part of the entry's name.
    pub(super) fn keyring_entry(&self, dir: &Path) -> KeyringEntry {
        let canonical = fs::canonicalize(dir);
        let dir = canonical.as_deref().unwrap_or(dir).as_os_str();
        let username = format!("{}-{}", self.file_stem, digest::of(dir.as_encoded_bytes(), 6));
        KeyringEntry { username, label: format!("login to {}", self.group), content_type: "application/json" }
    }
}
