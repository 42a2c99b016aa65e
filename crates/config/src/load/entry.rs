//! The entry of a server as it was read from a file, and where it is there.

use std::path::Path;
use std::sync::Arc;

use super::source_text::SourceText;
use crate::fields::{self, AppliesTo, ConfigField};
use crate::file::ServerEntry;
use crate::file::profiles::ProfileToolsEntry;
use crate::secrets::ServerSecrets;
use crate::{ConfigError, DisabledServer, GroupName, LaunchText, ServerOrigin};

/// The entry of one server.
pub(super) struct NamedEntry {
    /// The server's name.
    pub(super) name: String,
    /// The fields that could be read; `None` if the server is disabled, or if nothing of the entry could be read.
    pub(super) entry: Option<ServerEntry>,
    /// What is wrong with the entry, in the order in which it was found.
    pub(super) errors: Vec<ConfigError>,
    /// What is doubtful in the entry.
    pub(super) warnings: Vec<ConfigError>,
    /// Where the entry is in the file.
    pub(super) source: EntrySource,
    /// The rules for its tools that the profile in use adds.
    pub(super) profile_tools: Option<ProfileToolsEntry>,
    /// The option with which a command reads the file.
    pub(super) config_option: Arc<str>,
}

impl NamedEntry {
    /// Returns whether the file disables the server.
    pub(super) fn is_disabled(&self) -> bool {
        self.entry.is_none() && self.errors.is_empty()
    }

    /// Returns the server as one that the file disables.
    pub(super) fn disabled(&self) -> DisabledServer {
        DisabledServer { name: GroupName::new(&self.name), config_option: self.config_option.clone() }
    }
}

/// Where an entry and its fields are in the file, for errors that are found after parsing.
pub(super) struct EntrySource {
    /// The config file's directory.
    pub(super) dir: Arc<Path>,
    /// The file.
    pub(super) text: Arc<SourceText>,
    /// The byte offset of the server's name. Line and column are counted only for an error.
    pub(super) offset: usize,
    /// The known fields that are not empty, in the order of the file.
    pub(super) fields: Vec<FieldSource>,
    /// The fields that could not be read.
    pub(super) wrong: Vec<&'static str>,
    /// The fields that decide what is launched or contacted, as the file writes them.
    pub(super) launch_text: LaunchText,
    /// What identifies the server for its pins.
    pub(super) origin: ServerOrigin,
    /// The values that are fetched when the server starts.
    pub(super) secrets: ServerSecrets,
}

/// Where a field is in the file.
pub(super) struct FieldSource {
    /// The field.
    pub(super) field: &'static ConfigField,
    /// The name as the file writes it.
    pub(super) name: String,
    /// The byte offset of the name.
    pub(super) offset: usize,
}

impl EntrySource {
    /// Returns the fields that apply only to servers of this kind, in the order of the table.
    pub(super) fn fields_of(&self, kind: AppliesTo) -> impl Iterator<Item = &FieldSource> {
        let of_kind = fields::all(ServerEntry::FIELDS).filter(move |field| field.applies_to == kind);
        of_kind.filter_map(|field| self.fields.iter().find(|source| source.field.name == field.name))
    }

    /// Returns whether one of these fields could not be read.
    pub(super) fn is_wrong(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.wrong.contains(field))
    }

    /// Makes an error at the first of these fields that the entry has, otherwise at the whole entry.
    pub(super) fn error(&self, fields: &[&str], message: impl ToString, hint: Option<String>) -> ConfigError {
        let field = self.fields.iter().find(|source| fields.contains(&source.field.name));
        self.text.error(field.map_or(self.offset, |source| source.offset), message, hint)
    }
}
