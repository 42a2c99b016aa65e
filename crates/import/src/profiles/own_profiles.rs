//! The clients that use this program already, and the profile that the entry of each names.

use crate::merge::client_scope::ClientScope;
use crate::merge::discover::Discovery;
use crate::merge::own_entry::option_values;

/// Returns the clients whose files have an entry for this program, with the profile that it names.
pub(crate) fn own_profiles(discovery: &Discovery) -> impl Iterator<Item = (ClientScope, Option<String>)> {
    discovery.files.iter().chain(&discovery.other_files).flat_map(|file| {
        file.places.iter().filter_map(|place| {
            let profiles = option_values(place.own.as_ref()?, "--profile", "DYNAMIC_MCP_PROFILE");
            Some((ClientScope::of(file.app, place), profiles.into_iter().next()))
        })
    })
}
