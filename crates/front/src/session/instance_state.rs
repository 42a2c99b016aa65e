//! What all sessions of one instance share. It depends on the groups alone, and never on a client.

use super::open_tasks::OpenTasks;
use super::subscription_order::SubscriptionOrder;
use crate::known_names::KnownNames;
use jq::JqRunner;
use schema::validate::ArgumentValidator;
use std::sync::{Arc, OnceLock};
use upstream::GroupManager;

/// What all sessions of one instance share.
pub struct InstanceState {
    /// The groups of this instance.
    pub groups: Arc<GroupManager>,
    /// Checks arguments against the schemas of tools.
    pub validator: ArgumentValidator,
    /// Runs the programs of `select`.
    pub jq: JqRunner,
    /// The exposed names of all known tools.
    pub names: KnownNames,
    /// The tasks of clients that still run.
    pub(crate) open_tasks: OpenTasks,
    /// Which subscriptions were sent, so that no later request overtakes them. Empty before the first subscription.
    pub(crate) subscription_order: OnceLock<Arc<SubscriptionOrder>>,
}

impl InstanceState {
    /// Creates the state of an instance with these groups, of which nothing is read yet.
    pub fn new(groups: Arc<GroupManager>) -> Arc<Self> {
        Arc::new(Self {
            groups,
            validator: ArgumentValidator::default(),
            jq: JqRunner::default(),
            names: KnownNames::default(),
            open_tasks: OpenTasks::default(),
            subscription_order: OnceLock::new(),
        })
    }
}
