//! The lists of a server beside its tools, and hashes by which their changes are noticed.

use super::entries::ListEntries;
use super::list_limits::{CatalogList, LeftOff};
use super::list_reader::within_room;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// The lists of an upstream beside its tools, as they were last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherLists {
    /// `resources/list`.
    pub resources: ListEntries,
    /// `resources/templates/list`.
    pub templates: ListEntries,
    /// `prompts/list`.
    pub prompts: ListEntries,
    /// `skills/list`.
    pub skills: ListEntries,
}

/// Hashes of the other lists, to notice changes without reading a cached file. 0 stands for an empty list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListHashes {
    /// Of the resources and the templates.
    pub resources: u64,
    /// Of the prompts.
    pub prompts: u64,
}

impl OtherLists {
    /// Leaves off what exceeds the limit for all definitions of a group.
    pub(super) fn within_room(self, room: &mut usize, left_off: &mut LeftOff) -> Self {
        let mut fitting = |list, entries: ListEntries| match entries.definition_bytes() {
            bytes if bytes <= *room => {
                *room -= bytes;
                entries
            }
            _ => within_room(list, entries.to_vec(), room, left_off).into(),
        };
        Self {
            resources: fitting(CatalogList::Resources, self.resources),
            templates: fitting(CatalogList::Templates, self.templates),
            prompts: fitting(CatalogList::Prompts, self.prompts),
            skills: fitting(CatalogList::Skills, self.skills),
        }
    }

    /// The bytes of all definitions.
    pub fn bytes(&self) -> usize {
        let lists = [&self.resources, &self.templates, &self.prompts, &self.skills];
        lists.into_iter().map(ListEntries::definition_bytes).sum()
    }

    pub(super) fn hashes(&self) -> ListHashes {
        let hash = |lists: &[&ListEntries]| {
            if lists.iter().all(|list| list.is_empty()) {
                return 0;
            }
            let mut hasher = DefaultHasher::new();
            for list in lists {
                list.iter().map(|entry| &entry.definition[..]).collect::<Vec<_>>().hash(&mut hasher);
            }
            hasher.finish()
        };
        ListHashes { resources: hash(&[&self.resources, &self.templates]), prompts: hash(&[&self.prompts]) }
    }
}
