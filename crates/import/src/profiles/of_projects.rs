//! The servers of projects: what a project brings appears in this project only.

use super::client_profiles::ProfileInput;
use crate::merge::PlannedServer;
use crate::merge::client_scope::ClientScope;

impl ProfileInput<'_> {
    /// Returns whether a server belongs to a project in which this client is not.
    pub(super) fn is_of_project(&self, scope: ClientScope, server: &PlannedServer) -> bool {
        let had = &server.earlier_uses;
        let is_users_own = server.is_known && had.is_empty();
        let is_elsewhere = match scope.is_project {
            true => server.origins.is_empty(),
            false => server.origins.iter().all(|origin| origin.is_project),
        };
        is_elsewhere && !is_users_own && !had.iter().any(|had| had.counts_in(self.project_of(scope)))
    }

    /// Returns the servers of projects in which this client is not.
    pub(super) fn of_projects(&self, scope: ClientScope) -> Vec<&str> {
        let servers = self.servers.iter().filter(|server| self.is_of_project(scope, server));
        servers.map(|server| server.name.as_str()).collect()
    }
}
