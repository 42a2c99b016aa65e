//! The URIs that belong to a group although no list of resources has to have them: the URIs of MCP Apps, which the
//! definitions of tools name, and the URIs of the files of skills.

use super::Catalog;
use super::entries::{ListEntries, ListEntry};
use super::tool::app_of;
use memchr::memmem;
use wire::protocol::max_bytes;
use wire::{Raw, raw};

/// The scheme of MCP Apps, which hosts look for.
pub const APP_SCHEME: &str = "ui://";

impl Catalog {
    /// The URIs that the group claims and that a request may have. They are computed at the first call. There are none
    /// if the cache has lost the definitions.
    pub fn claims(&self) -> &ListEntries {
        if let Some(original) = self.overridden_catalog() {
            return original.claims();
        }
        self.claims.get_or_init(|| {
            let skills = self.lists().into_iter().flat_map(|lists| lists.skills.iter().flat_map(skill_uris));
            let entry = |key| ListEntry { key, definition: Raw::new() };
            let uris = apps(self).chain(skills).filter(|uri| uri.len() <= max_bytes::URI);
            uris.map(entry).collect()
        })
    }
}

/// The URIs of the apps that tools of a catalog name.
fn apps(catalog: &Catalog) -> impl Iterator<Item = String> {
    let finder = memmem::Finder::new(APP_SCHEME);
    let definitions = catalog.definitions().into_iter().flatten().map(|(_, definition)| definition);
    definitions.filter(move |definition| finder.find(definition).is_some()).filter_map(app_of)
}

/// The URIs of the files of a skill.
fn skill_uris(skill: &ListEntry) -> Vec<String> {
    let files = raw::elements(&skill.definition, "resources").unwrap_or_default();
    let files = files.iter().filter_map(|file| raw::get_str(file, "uri"));
    std::iter::once(skill.key.clone()).chain(files).collect()
}
