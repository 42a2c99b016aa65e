//! A lease on the group that a request names, with news for the client while it waits.

use super::errors;
use crate::groups::GroupManager;
use crate::upstream::{Lease, Unavailable, Upstream};
use crate::wire::peer::Progress;
use crate::wire::{Frame, raw};
use serde_json::json;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, interval_at};

/// How often a client that gave a progress token hears that a server is still starting.
const NEWS: Duration = Duration::from_secs(5);
/// Reloads that one request follows.
const SUCCESSORS: usize = 3;

/// A group that could not be reached, and why.
pub struct Unreachable {
    pub group: Upstream,
    pub why: Unavailable,
}

impl From<Unreachable> for String {
    /// Text for the model.
    fn from(unreachable: Unreachable) -> Self {
        errors::unavailable(&unreachable.group.name, &unreachable.why)
    }
}

/// Connects if need be. A group that a reload replaced meanwhile is followed to its successor.
pub async fn lease(
    groups: &GroupManager,
    group: &Upstream,
    progress: Option<&Progress>,
) -> Result<(Upstream, Lease), Unreachable> {
    let mut group = group.clone();
    for _ in 0..SUCCESSORS {
        match with_news(&group, progress).await {
            Ok(lease) => return Ok((group, lease)),
            Err(Unavailable::Gone) if !groups.is_shutting_down() => match groups.get(&group.name) {
                Some(successor) => group = successor,
                None => break,
            },
            Err(why) => return Err(Unreachable { group, why }),
        }
    }
    Err(Unreachable { group, why: Unavailable::Gone })
}

async fn with_news(group: &Upstream, progress: Option<&Progress>) -> Result<Lease, Unavailable> {
    let wait = group.snapshot().wait();
    let mut lease = pin!(group.acquire(wait));
    let Some(progress) = progress else { return lease.await };
    let started = Instant::now();
    let mut news = interval_at(started + NEWS, NEWS);
    loop {
        tokio::select! {
            biased;
            outcome = &mut lease => return outcome,
            _ = news.tick() => tell(group, progress, started.elapsed(), wait),
        }
    }
}

/// The value counts up to 0, so that whatever the server says afterwards goes on from there: progress has to increase.
fn tell(group: &Upstream, progress: &Progress, waited: Duration, wait: Duration) {
    let Some(token) = progress.token() else { return };
    let params = json!({
        "progress": -wait.saturating_sub(waited).as_secs_f64().round(),
        "message": format!("group {} is starting ({} s so far)", group.name, waited.as_secs()),
    });
    let params = raw::set(&params.to_string().into(), "progressToken", &token);
    progress.output.send(Frame::notification("notifications/progress", Some(params)));
}
