//! MCP Apps (SEP-1865): how a host finds the user interface of a tool.
//!
//! A host looks for `_meta.ui.resourceUri` in the definition of the tool that it called, and so it finds the app of a tool
//! that `tools/list` has. A tool that is called by `call_dynamic_tool` is not in that list, so its result names the app.

use crate::names::known_lists::{self, GroupEntries};
use crate::names::uri_owner;
use config::GroupName;
use memchr::{memchr, memmem};
use serde_json::json;
use std::sync::OnceLock;
use upstream::GroupManager;
use upstream::catalog::claims::APP_SCHEME;
use upstream::catalog::tool::{OLD_APP_KEY, app_of};
use wire::{Raw, raw};

/// The URIs under which clients see apps, read when the first one is needed.
pub(crate) struct AppUris<'g> {
    groups: &'g GroupManager,
    known: OnceLock<GroupEntries>,
}

impl<'g> AppUris<'g> {
    /// Reads nothing yet.
    pub(crate) fn new(groups: &'g GroupManager) -> Self {
        Self { groups, known: OnceLock::new() }
    }

    /// Returns the URI under which clients see an app of a group.
    fn of(&self, group: &GroupName, uri: &str) -> String {
        let known = self.known.get_or_init(|| known_lists::resources_and_claims(self.groups));
        uri_owner::client_uri(group, uri, known)
    }

    /// Returns the definition with the URI of its app replaced by the one under which clients see it. A definition
    /// without an app stays as it is.
    pub(crate) fn set_in(&self, group: &GroupName, definition: &Raw) -> Raw {
        if !may_name_app(definition) {
            return definition.clone();
        }
        let Some(meta) = raw::get(definition, "_meta") else { return definition.clone() };
        let nested = raw::get(&meta, "ui").and_then(|ui| {
            let uri = self.of(group, &raw::get_str(&ui, "resourceUri")?);
            Some(raw::set_str(&ui, "resourceUri", &uri))
        });
        let mut renamed = nested.map_or_else(|| meta.clone(), |ui| raw::set(&meta, "ui", &ui));
        if let Some(uri) = raw::get_str(&meta, OLD_APP_KEY) {
            renamed = raw::set_str(&renamed, OLD_APP_KEY, &self.of(group, &uri));
        }
        raw::set(definition, "_meta", &renamed)
    }

    /// Returns the result of a tool with the app that the tool's definition names. A result that has `_meta.ui` stays
    /// as it is, and so does one of a tool without an app.
    pub(crate) fn name_in_result(&self, group: &GroupName, definition: &Raw, result: &Raw) -> Raw {
        let Some(uri) = app_of(definition) else { return result.clone() };
        let meta = raw::get(result, "_meta").filter(|meta| meta.starts_with(b"{"));
        if meta.as_ref().is_some_and(|meta| raw::get(meta, "ui").is_some()) {
            return result.clone();
        }
        let uri = self.of(group, &uri);
        let ui = json!({ "resourceUri": uri }).to_string();
        let named = raw::set(&meta.unwrap_or(Raw::from_static(b"{}")), "ui", ui.as_bytes());
        raw::set(result, "_meta", &raw::set_str(&named, OLD_APP_KEY, &uri))
    }
}

/// Returns whether a definition may name an app. Of one with escapes this is not known, because `ui:\/\/` is the same
/// address.
fn may_name_app(definition: &[u8]) -> bool {
    memmem::find(definition, APP_SCHEME.as_bytes()).is_some() || memchr(b'\\', definition).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_address_is_seen() {
        assert!(may_name_app(br#"{"_meta":{"ui":{"resourceUri":"ui://a/b"}}}"#));
        assert!(may_name_app(br#"{"_meta":{"ui":{"resourceUri":"ui:\/\/dynamic-mcp/status"}}}"#));
        assert!(!may_name_app(br#"{"name":"a"}"#));
    }
}
