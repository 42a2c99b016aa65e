//! Whether the clients have different servers, for the question which of them each sees with dynamic-mcp.

use std::collections::BTreeMap;

use super::Profile;
use super::access::ClientAccess;
use super::client_profiles::ProfileInput;
use super::own_profiles::own_profiles;
use crate::merge::PlannedServer;
use crate::merge::client_scope::ClientScope;

impl ProfileInput<'_> {
    /// Returns the clients with the number of servers that each has, if some have not all.
    pub(crate) fn differing_clients(&self) -> Vec<String> {
        let users: BTreeMap<ClientScope, Option<String>> = own_profiles(self.discovery).collect();
        let chooses = |own: &Option<String>, server: &str| {
            let profile = own.as_ref().and_then(|own| Profile::read(self.existing.get(own)?));
            profile.is_none_or(|profile| profile.chooses(server))
        };
        let users: Vec<(ClientAccess, &Option<String>)> =
            users.iter().map(|(scope, own)| (self.with_known_servers(*scope), own)).collect();
        let indexed = || self.servers.iter().enumerate();
        let differs_from_new = |(client, own): &(ClientAccess, &Option<String>)| {
            let new = indexed().filter(|(_, server)| !server.is_known && chooses(own, &server.name));
            new.into_iter().any(|(index, _)| self.is_left_out(client, index))
        };
        let fresh = || {
            let is_user = |client: &ClientAccess| users.iter().any(|(user, _)| user.scope == client.scope);
            self.clients.iter().filter(move |client| !is_user(client))
        };
        let differs =
            fresh().any(|client| !self.of_others(client).is_empty()) || users.iter().any(differs_from_new);
        if !differs {
            return Vec::new();
        }
        let has = |client: &ClientAccess, own: &Option<String>, index: usize, server: &PlannedServer| {
            client.servers.get(&index).is_some_and(|used| used.is_on)
                && (!server.is_known || chooses(own, &server.name))
        };
        let all =
            fresh().map(|client| (client, &None)).chain(users.iter().map(|(client, own)| (client, *own)));
        let count = |client: &ClientAccess, own: &Option<String>| {
            indexed().filter(|(index, server)| has(client, own, *index, server)).count()
        };
        all.map(|(client, own)| format!("{} {}", client.scope.label(), count(client, own))).collect()
    }
}
