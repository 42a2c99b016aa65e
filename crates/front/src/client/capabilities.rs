//! The capabilities that the client declared: all with `initialize`, or some with each of its requests (stateless era).

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::protocol::{EXTENSIONS_OF_OUR_OWN, Era, PAGE_MIME_TYPE, UI_EXTENSION, capability};
use wire::{Raw, raw};

/// The largest capabilities of a stateless client that are kept, in bytes: its requests add to them.
const MAX_BYTES: usize = 64 << 10;

/// The capabilities of a stateless client that concern upstreams: those through which it can be asked for input, and
/// the extensions.
const STATELESS_CAPABILITIES: [&str; 5] = [
    capability::ELICITATION,
    capability::SAMPLING,
    capability::ROOTS,
    capability::EXTENSIONS,
    capability::EXPERIMENTAL,
];
/// The capabilities whose members are offered to upstreams one by one.
const OFFERED_BY_MEMBER: [&str; 2] = [capability::EXTENSIONS, capability::EXPERIMENTAL];

/// The capabilities of a client.
#[derive(Default)]
pub struct ClientCapabilities {
    /// What the client declared so far.
    declared: Mutex<DeclaredCapabilities>,
    /// Whether the client declared that it shows apps. Each call asks for this, so it does not take the lock.
    shows_apps: AtomicBool,
    /// Whether the apps that it shows may be pages of HTML.
    shows_pages: AtomicBool,
}

#[derive(Default)]
struct DeclaredCapabilities {
    /// The era in which the client declared them; `None` if it has declared nothing yet.
    era: Option<Era>,
    /// What `initialize` declared. For a stateless client, all of `STATELESS_CAPABILITIES` that any of its requests
    /// declared.
    all: Raw,
}

impl ClientCapabilities {
    /// Sets the capabilities that `initialize` declared.
    pub fn initialize(&self, capabilities: Raw) {
        self.set(&mut self.declared.lock(), Era::Handshake, capabilities);
    }

    /// Adds the capabilities that a stateless request declared. They are ignored once `initialize` was received, and if
    /// there are more than `MAX_BYTES`. Returns whether nothing was declared before.
    pub fn add(&self, capabilities: &Raw) -> bool {
        let mut declared = self.declared.lock();
        let (known, is_first) = match declared.era {
            None => (Raw::from_static(b"{}"), true),
            Some(Era::Stateless) => (declared.all.clone(), false),
            Some(Era::Handshake) => return false,
        };
        let union = match capabilities.len() <= MAX_BYTES {
            true => STATELESS_CAPABILITIES
                .iter()
                .fold(known.clone(), |known, name| merge(&known, name, capabilities)),
            false => known.clone(),
        };
        self.set(&mut declared, Era::Stateless, if union.len() <= MAX_BYTES { union } else { known });
        is_first
    }

    fn set(&self, declared: &mut DeclaredCapabilities, era: Era, all: Raw) {
        let extensions = raw::get(&all, capability::EXTENSIONS);
        let apps = extensions.and_then(|all| raw::get(&all, UI_EXTENSION));
        let types = apps.as_ref().and_then(|apps| raw::get(apps, "mimeTypes"));
        let types: Option<Vec<String>> = types.and_then(|types| serde_json::from_slice(&types).ok());
        let shows_pages = types.is_some_and(|types| types.iter().any(|known| known == PAGE_MIME_TYPE));
        self.shows_apps.store(apps.is_some(), Ordering::Release);
        self.shows_pages.store(shows_pages, Ordering::Release);
        *declared = DeclaredCapabilities { era: Some(era), all };
    }

    /// Returns whether the client takes no requests, so that it can only be asked through its own calls. Returns false
    /// until it has declared something.
    pub fn is_stateless(&self) -> bool {
        self.declared.lock().era == Some(Era::Stateless)
    }

    /// Returns whether the client declared that it shows apps.
    pub(crate) fn shows_apps(&self) -> bool {
        self.shows_apps.load(Ordering::Acquire)
    }

    /// Returns whether the client declared that it shows apps that are pages of HTML.
    pub(crate) fn shows_pages(&self) -> bool {
        self.shows_pages.load(Ordering::Acquire)
    }

    /// Returns the client's declaration of a capability.
    pub fn get(&self, capability: &str) -> Option<Raw> {
        raw::get(&self.declared.lock().all, capability)
    }

    /// Returns what an upstream is offered: the client's declarations of `names`, and its extensions without the ones
    /// about the proxy itself.
    pub fn offered(&self, names: &[&str]) -> Raw {
        let declared = names.iter().filter_map(|name| Some((*name, self.get(name)?)));
        let by_member = OFFERED_BY_MEMBER.iter().filter_map(|name| {
            let members = raw::entries(&self.get(name)?)?;
            let carried =
                members.into_iter().filter(|(key, _)| !EXTENSIONS_OF_OUR_OWN.contains(&key.as_str()));
            let carried: Vec<_> = carried.collect();
            (!carried.is_empty()).then(|| (*name, raw::object(&carried)))
        });
        declared
            .chain(by_member)
            .fold(Raw::from_static(b"{}"), |all, (name, value)| raw::set(&all, name, &value))
    }
}

/// Adds to `known` what `declared` has of one capability.
fn merge(known: &Raw, name: &str, declared: &Raw) -> Raw {
    let Some(value) = raw::get(declared, name) else { return known.clone() };
    let mut both = raw::get(known, name).and_then(|before| raw::entries(&before)).unwrap_or_default();
    both.extend(raw::entries(&value).unwrap_or_default());
    raw::set(known, name, &raw::object(&both))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_capabilities_until_initialize_declares_them() {
        let (capabilities, raw) = (ClientCapabilities::default(), |text: &'static str| Raw::from(text));
        assert!(capabilities.get("roots").is_none() && !capabilities.is_stateless());
        assert!(capabilities.add(&raw(r#"{"elicitation":{"url":{}},"other":{}}"#)));
        let apps = r#"{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/ui":{},"a/b":{}}}"#;
        let pages =
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        assert!(!capabilities.add(&raw(apps)), "only the first request begins the era");
        assert_eq!(capabilities.get("elicitation").unwrap(), r#"{"url":{},"form":{}}"#);
        assert!(capabilities.get("other").is_none(), "upstreams need not know it");
        assert!(capabilities.is_stateless() && capabilities.shows_apps() && !capabilities.shows_pages());
        capabilities.add(&raw(pages));
        assert!(capabilities.shows_pages());
        capabilities.initialize(raw(r#"{"roots":{},"extensions":{"a/b":{}}}"#));
        assert!(!capabilities.add(&raw(apps)) && !capabilities.shows_apps() && !capabilities.shows_pages());
        assert!(!capabilities.is_stateless());
        assert_eq!(capabilities.offered(&["roots", "sampling"]), r#"{"roots":{},"extensions":{"a/b":{}}}"#);
    }
}
