//! What the status page shows of the instances of this user.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// Reports on the running instances.
pub trait InstanceReports: Send + Sync {
    /// Returns the report of `dynamic-mcp status --json`, restricted to this client. `own` is the status of this
    /// instance. `with_others`: whether other instances are in it, as far as they use servers of this one.
    fn report(&self, own: Value, with_others: bool) -> BoxFuture<'_, Value>;
}

/// Reports on nothing, for a session whose client shows no page.
pub struct NoReports;

impl InstanceReports for NoReports {
    fn report(&self, _own: Value, _with_others: bool) -> BoxFuture<'_, Value> {
        Box::pin(async { json!({ "instances": [] }) })
    }
}
