//! What a server says of itself in the handshake, and what it asks right after it.

use base::text::shorten;
use serde::{Deserialize, Serialize};
use wire::protocol::{Era, capability};
use wire::{Raw, raw};

/// The limit for the declared capabilities, in bytes, because each request looks at them. Larger capabilities count as
/// missing.
const MAX_CAPABILITIES: usize = 64 << 10;
/// How many characters of the instructions are kept. A model sees fewer.
const MAX_INSTRUCTIONS: usize = 64 << 10;
/// How many characters of every other text are kept.
const MAX_TEXT: usize = 1000;

/// The answer to `initialize` or `server/discover`. Every member may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The era of the connection, regardless of the revision that the server names.
    #[serde(default)]
    pub era: Era,
    /// The revision; empty if the server names none.
    pub protocol_version: String,
    /// The server's capabilities as JSON text.
    pub capabilities: Option<String>,
    /// `serverInfo.title`, else its `name`.
    pub title: Option<String>,
    /// `serverInfo.version`.
    pub version: Option<String>,
    /// `instructions`, unless blank.
    pub instructions: Option<String>,
    /// Whether the server asked for roots at its last start, if that is known.
    #[serde(default)]
    pub asks_for_roots: Option<bool>,
}

impl ServerInfo {
    /// Reads the result of `initialize`, or a result of `server/discover` in the same form. Cuts texts to their limits.
    /// Capabilities of more than `MAX_CAPABILITIES` bytes count as missing.
    pub fn read(result: &Raw, era: Era) -> Self {
        let info = raw::get(result, "serverInfo");
        let text = |key| {
            let text = info.as_ref().and_then(|info| raw::get_str(info, key)).filter(|text| !text.is_empty());
            text.map(|text| shorten(&text, MAX_TEXT))
        };
        let version = raw::get_str(result, "protocolVersion").unwrap_or_default();
        let instructions = raw::get_str(result, "instructions").filter(|text| !text.trim().is_empty());
        Self {
            era,
            protocol_version: shorten(&version, MAX_TEXT),
            capabilities: raw::get(result, "capabilities")
                .filter(|capabilities| capabilities.len() <= MAX_CAPABILITIES)
                .map(|raw| String::from_utf8_lossy(&raw).into_owned()),
            title: text("title").or_else(|| text("name")),
            version: text("version"),
            instructions: instructions.map(|text| shorten(&text, MAX_INSTRUCTIONS)),
            asks_for_roots: None,
        }
    }

    /// Returns whether the server may have `capability`. A server that declares no capability at all is asked anyway:
    /// the declaration may be missing, and a refusal costs one round trip.
    pub fn may_have(&self, capability: &str) -> bool {
        let none =
            || self.declared().and_then(|declared| raw::entries(&declared)).is_none_or(|all| all.is_empty());
        self.declares(capability) || none()
    }

    /// Returns whether the server declares `capability`.
    pub fn declares(&self, capability: &str) -> bool {
        self.declared().is_some_and(|declared| raw::get(&declared, capability).is_some())
    }

    /// Returns whether the server declares an extension.
    pub fn has_extension(&self, extension: &str) -> bool {
        let declared = self.declared().and_then(|declared| raw::get(&declared, capability::EXTENSIONS));
        declared.is_some_and(|extensions| raw::get(&extensions, extension).is_some())
    }

    /// Returns whether the server declares that it reports changes of the list of this capability.
    pub fn announces_changes(&self, capability: &str) -> bool {
        let declared = self.declared().and_then(|declared| raw::get(&declared, capability));
        let changes = declared.and_then(|declared| raw::get(&declared, "listChanged"));
        changes.is_some_and(|changes| &changes[..] == b"true")
    }

    /// The declared capabilities, if there are any.
    pub fn declared(&self) -> Option<Raw> {
        Some(Raw::copy_from_slice(self.capabilities.as_ref()?.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_declares_nothing_may_have_anything() {
        let may_have = |capabilities: Option<&str>| {
            ServerInfo { capabilities: capabilities.map(str::to_owned), ..ServerInfo::default() }
                .may_have("tools")
        };
        assert!(may_have(None) && may_have(Some("{}")) && may_have(Some(r#"{"tools":{}}"#)));
        assert!(!may_have(Some(r#"{"prompts":{}}"#)));
    }
}
