//! The clients that use this program already, and the profile that the entry of each names.

use serde_json::Value;

use crate::merge::client_scope::ClientScope;
use crate::merge::discover::{Discovery, FoundServer};

/// Returns the clients whose files have an entry for this program, with the profile that it names.
pub(crate) fn own_profiles(discovery: &Discovery) -> impl Iterator<Item = (ClientScope, Option<String>)> {
    discovery.files.iter().chain(&discovery.other_files).flat_map(|file| {
        file.places
            .iter()
            .filter_map(|place| Some((ClientScope::of(file.app, place), profile_of(place.own.as_ref()?))))
    })
}

/// Returns the profile that an entry for this program names.
fn profile_of(own: &FoundServer) -> Option<String> {
    let entry = &own.translated.entry;
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let args: Vec<&str> = args.collect();
    let follows = |pair: &[&str]| (pair[0] == "--profile").then(|| pair[1].to_owned());
    let in_args = args.windows(2).find_map(follows);
    let in_args =
        in_args.or_else(|| args.iter().find_map(|arg| Some(arg.strip_prefix("--profile=")?.to_owned())));
    in_args.or_else(|| Some(entry.get("env")?.get("DYNAMIC_MCP_PROFILE")?.as_str()?.to_owned()))
}
