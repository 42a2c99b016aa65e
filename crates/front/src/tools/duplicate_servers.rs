//! Finds the servers of this instance that other instances run as well, for `get_status`.

use base::blocking;
use config::Share;
use process::processes::ProcessTree;
use process::processes::duplicates::{self, DuplicateServer, PrivateServer};
use std::time::Duration;
use upstream::Upstream;

/// How long the search may take. After that, no server is named.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the servers of these groups that run more than once, without the ones that the config keeps private. Reads
/// /proc.
pub async fn find(groups: &[Upstream]) -> Vec<DuplicateServer> {
    let private = groups.iter().filter_map(|group| {
        let snapshot = group.snapshot();
        let process = snapshot.process().filter(|process| !process.is_shared)?;
        let share = snapshot.server.as_deref()?.effective_share();
        (share != Share::Client).then(|| PrivateServer {
            group: group.name.as_str().to_owned(),
            pid: process.pid,
            is_configured: share != Share::Auto,
        })
    });
    let private: Vec<_> = private.collect();
    if private.is_empty() {
        return Vec::new();
    }
    let search = move || duplicates::of_instance(&private, &ProcessTree::read());
    blocking::run(TIMEOUT, search).await.unwrap_or_default()
}
