//! The clients that use this program already, and the profile that the entry of each names.

use std::collections::BTreeMap;

use crate::clients::apps::ClientApp;
use crate::merge::client_scope::ClientScope;
use crate::merge::discover::{Discovery, Place};
use crate::merge::own_entry::option_values;

/// The clients that use this program already, each with the profile that its entry names.
pub(crate) type OwnProfiles = BTreeMap<ClientScope, Option<String>>;

/// Returns the clients whose files have an entry for this program.
pub(crate) fn own_profiles(discovery: &Discovery) -> OwnProfiles {
    let files = discovery.files.iter().chain(&discovery.other_files);
    let places = files.flat_map(|file| file.places.iter().map(|place| (file.app, place)));
    let own = |(app, place): (ClientApp, &Place)| {
        let profiles = option_values(place.own.as_ref()?, "--profile", "DYNAMIC_MCP_PROFILE");
        Some((ClientScope::of(app, place), profiles.into_iter().next()))
    };
    places.filter_map(own).collect()
}
