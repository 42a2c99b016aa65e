//! The capabilities that the client declared: all with `initialize`, or some with each of its requests (stateless era).

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::protocol::{EXTENSIONS_OF_OUR_OWN, UI_EXTENSION, capability};
use wire::{Raw, raw};

/// The capabilities of a stateless client that concern upstreams: those through which it can be asked for input, and
/// the extensions.
const STATELESS_CAPABILITIES: [&str; 5] = [
    capability::ELICITATION,
    capability::SAMPLING,
    capability::ROOTS,
    capability::EXTENSIONS,
    capability::EXPERIMENTAL,
];
/// The capabilities of which upstreams are offered each member by itself.
const OFFERED_BY_MEMBER: [&str; 2] = [capability::EXTENSIONS, capability::EXPERIMENTAL];

/// The capabilities of a client.
#[derive(Default)]
pub struct ClientCapabilities {
    /// What the client declared so far.
    declared: Mutex<DeclaredCapabilities>,
    /// Whether the client declared that it shows apps. Each call asks for this, so it does not take the lock.
    shows_apps: AtomicBool,
}

#[derive(Default)]
enum DeclaredCapabilities {
    /// Nothing yet.
    #[default]
    Nothing,
    /// The params of `initialize` had these.
    ByInitialize(Raw),
    /// The requests of a stateless client declared these of `STATELESS_CAPABILITIES`, all of them together.
    ByRequests(Raw),
}

impl ClientCapabilities {
    /// Sets the capabilities that `initialize` declared.
    pub fn initialize(&self, capabilities: Raw) {
        let mut declared = self.declared.lock();
        self.note_apps(&capabilities);
        *declared = DeclaredCapabilities::ByInitialize(capabilities);
    }

    /// Adds the capabilities that a stateless request declared. They are ignored once `initialize` was received. Returns
    /// whether nothing was declared before.
    pub fn add(&self, capabilities: &Raw) -> bool {
        let mut declared = self.declared.lock();
        let (known, is_first) = match &*declared {
            DeclaredCapabilities::Nothing => (Raw::from_static(b"{}"), true),
            DeclaredCapabilities::ByRequests(known) => (known.clone(), false),
            DeclaredCapabilities::ByInitialize(_) => return false,
        };
        let union =
            STATELESS_CAPABILITIES.iter().fold(known, |known, name| merge(&known, name, capabilities));
        self.note_apps(&union);
        *declared = DeclaredCapabilities::ByRequests(union);
        is_first
    }

    fn note_apps(&self, capabilities: &Raw) {
        let extensions = raw::get(capabilities, capability::EXTENSIONS);
        let shows_apps = extensions.is_some_and(|all| raw::get(&all, UI_EXTENSION).is_some());
        self.shows_apps.store(shows_apps, Ordering::Release);
    }

    /// Returns whether the client takes no requests, so that it can only be asked through its own calls.
    pub fn is_stateless(&self) -> bool {
        matches!(&*self.declared.lock(), DeclaredCapabilities::ByRequests(_))
    }

    /// Returns whether the client declared that it shows apps.
    pub fn shows_apps(&self) -> bool {
        self.shows_apps.load(Ordering::Acquire)
    }

    /// The client's declaration of a capability.
    pub fn get(&self, capability: &str) -> Option<Raw> {
        match &*self.declared.lock() {
            DeclaredCapabilities::Nothing => None,
            DeclaredCapabilities::ByInitialize(all) | DeclaredCapabilities::ByRequests(all) => {
                raw::get(all, capability)
            }
        }
    }

    /// What an upstream is offered: the client's declarations of `names`, and its extensions except those that are about
    /// the proxy itself.
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
    let modes = raw::entries(&value).unwrap_or_default();
    let before = raw::get(known, name).unwrap_or(Raw::from_static(b"{}"));
    let both = modes.iter().fold(before, |both, (mode, value)| raw::set(&both, mode, value));
    raw::set(known, name, &both)
}
