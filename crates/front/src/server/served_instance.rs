//! One instance, as its clients see it: what is the same for every client, and built once.

use crate::client::suspended_calls::SuspendedCalls;
use crate::notify::subscriptions::Subscriptions;
use crate::session::requester::InstanceState;
use crate::session::subscription_order::SubscriptionOrder;
use crate::tools::search::ToolSearch;
use crate::tools::tool_list::ToolList;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use upstream::GroupManager;
use wire::protocol::STATELESS;

/// One instance, as its clients see it. `dispatch` serves their requests.
pub struct ServedInstance {
    /// What the requests of all clients share.
    pub(super) state: Arc<InstanceState>,
    /// The index of `search_dynamic_tools`.
    pub(super) search: Arc<ToolSearch>,
    /// The calls that wait for input. Each has its requester, so no requester has them.
    pub(super) suspended: Arc<SuspendedCalls>,
    /// The subscriptions of all clients.
    pub(super) subscriptions: Arc<Subscriptions>,
    /// What the command line chooses.
    pub(super) options: SessionOptions,
    /// `tools/list`, once the groups are started.
    tool_list: OnceLock<ToolList>,
}

impl ServedInstance {
    /// Creates an instance with these groups. Nothing is built before it is asked for. `order`: notes which subscriptions
    /// of its only client were sent.
    pub(super) fn new(
        groups: Arc<GroupManager>,
        options: SessionOptions,
        order: Option<Arc<SubscriptionOrder>>,
    ) -> Self {
        Self {
            subscriptions: Subscriptions::new(groups.clone(), order),
            search: ToolSearch::at_start(),
            suspended: Arc::default(),
            options,
            tool_list: OnceLock::new(),
            state: InstanceState::new(groups),
        }
    }

    /// Returns the groups.
    pub(super) fn groups(&self) -> &Arc<GroupManager> {
        &self.state.groups
    }

    /// Returns `tools/list` of the groups, which are started. From the first call on it waits for start-up
    /// discovery for as long as the options say.
    pub(super) fn tool_list(&self) -> &ToolList {
        self.tool_list.get_or_init(|| ToolList::new(&self.state.groups, self.options.first_list_wait))
    }
}

/// What the command line chooses for the session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// How long the first `tools/list` may wait for start-up discovery, from the start of the groups on.
    pub first_list_wait: Duration,
    /// The latest revision that the client is offered.
    pub latest_revision: &'static str,
    /// Whether `initialize` may come again, and requests may come without `notifications/initialized`.
    pub lenient_handshake: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { first_list_wait: Duration::ZERO, latest_revision: STATELESS, lenient_handshake: false }
    }
}
