//! The URIs that belong to groups although no list of resources has to have them: those of MCP Apps, which definitions of
//! tools name, and those of skills.

use super::aggregate::{self, GroupEntries, ListKind};
use super::uri_owner::APP_SCHEME;
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, ListEntry};
use crate::wire::{Raw, raw};
use memchr::memmem;

/// The key of `_meta` that older servers name the app of a tool with.
pub const OLD_APP_KEY: &str = "ui/resourceUri";

/// The URIs that the groups claim, as far as is known.
pub fn all(groups: &GroupManager) -> GroupEntries {
    groups.all().iter().map(|group| (group.name.clone(), of_group(group))).collect()
}

/// The resources that the groups list, and what they claim beside those.
pub fn with_resources(groups: &GroupManager) -> GroupEntries {
    let mut known = aggregate::known(groups, &ListKind::RESOURCES);
    for (group, claims) in all(groups) {
        if let Some((_, list)) = known.iter_mut().find(|(name, _)| *name == group) {
            list.extend(claims);
        }
    }
    known
}

fn of_group(group: &Upstream) -> Vec<ListEntry> {
    let catalog = group.snapshot().catalog.clone();
    let Some(catalog) = catalog else { return Vec::new() };
    let apps = apps(&catalog);
    let skills = catalog.lists().into_iter().flat_map(|lists| lists.skills.iter().flat_map(skill_uris));
    let entry = |key| ListEntry { key, definition: Raw::new() };
    apps.into_iter().chain(skills).map(entry).collect()
}

/// The URIs of the apps that tools of a catalog name.
fn apps(catalog: &Catalog) -> Vec<String> {
    let finder = memmem::Finder::new(APP_SCHEME.as_bytes());
    let definitions = catalog.definitions().into_iter().flatten().map(|(_, definition)| definition);
    definitions.filter(|definition| finder.find(definition).is_some()).filter_map(app_of).collect()
}

/// The URI of the app that a definition names.
pub fn app_of(definition: &Raw) -> Option<String> {
    let meta = raw::get(definition, "_meta")?;
    let nested = raw::get(&meta, "ui").and_then(|ui| raw::get_str(&ui, "resourceUri"));
    nested.or_else(|| raw::get_str(&meta, OLD_APP_KEY))
}

/// The URIs of the files of a skill.
fn skill_uris(skill: &ListEntry) -> Vec<String> {
    let files = raw::elements(&skill.definition, "resources").unwrap_or_default();
    let files = files.iter().filter_map(|file| raw::get_str(file, "uri"));
    std::iter::once(skill.key.clone()).chain(files).collect()
}
