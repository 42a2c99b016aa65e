//! One instance, as its sessions see it: what is the same for every client, and built once.

use crate::notify::subscriptions::Subscriptions;
use crate::session::instance_state::InstanceState;
use crate::tools::search::ToolSearch;
use crate::tools::tool_list::ToolList;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use upstream::GroupManager;

/// One instance, as its sessions see it. Stdio has one session for each instance; HTTP has one for each request.
pub struct ServedInstance {
    /// What the requests of all sessions share.
    pub(super) state: Arc<InstanceState>,
    /// The index of `search_dynamic_tools`.
    pub(super) search: Arc<ToolSearch>,
    /// The subscriptions of all clients.
    pub(super) subscriptions: Arc<Subscriptions>,
    /// `tools/list`, once the groups are started.
    tool_list: OnceLock<ToolList>,
}

impl ServedInstance {
    /// Creates an instance with these groups. Nothing is built before it is asked for.
    pub fn new(groups: Arc<GroupManager>) -> Arc<Self> {
        let state = InstanceState::new(groups);
        Arc::new(Self {
            subscriptions: Subscriptions::new(state.clone()),
            search: Arc::default(),
            tool_list: OnceLock::new(),
            state,
        })
    }

    /// Returns the groups.
    pub fn groups(&self) -> &Arc<GroupManager> {
        &self.state.groups
    }

    /// Returns `tools/list` of the groups, which are started. `wait`: how long from the first call on it waits for
    /// start-up discovery. Only the first call decides that.
    pub(super) fn tool_list(&self, wait: Duration) -> &ToolList {
        self.tool_list.get_or_init(|| ToolList::new(&self.state.groups, wait))
    }
}
