//! What the command line, which the client's config file has, chooses for the session.

use std::time::Duration;
use wire::protocol::STATELESS;

/// What the command line chooses for the session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// How long the first `tools/list` may wait for start-up discovery, from the start of the groups on.
    pub first_list_wait: Duration,
    /// The latest revision that the client is offered.
    pub latest_revision: &'static str,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { first_list_wait: Duration::ZERO, latest_revision: STATELESS }
    }
}
