//! A lease on the group that a request names, with news for the client while it waits.

use super::caller::Caller;
use super::{errors, login};
use crate::groups::GroupManager;
use crate::groups::login_flows::Purpose;
use crate::upstream::{Lease, Unavailable, Upstream};
use crate::wire::peer::Progress;
use crate::wire::{Frame, raw};
use login::Outcome;
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
    /// What came of the login that would help, for the model.
    pub login: Option<String>,
}

impl From<Unreachable> for String {
    /// Text for the model.
    fn from(Unreachable { group, why, login }: Unreachable) -> Self {
        errors::unavailable(&group.name, &why, login.as_deref())
    }
}

/// Connects if need be. A group that a reload replaced meanwhile is followed to its successor.
pub async fn lease(
    groups: &GroupManager,
    group: &Upstream,
    progress: Option<&Progress>,
) -> Result<(Upstream, Lease), Unreachable> {
    let mut news = News::new(progress);
    follow(groups, group, &mut news).await
}

/// The same on behalf of a user, who is offered the login that the group needs, if it does.
pub async fn lease_for(
    caller: &Caller,
    groups: &GroupManager,
    group: &Upstream,
) -> Result<(Upstream, Lease), Unreachable> {
    let mut news = News::new(caller.progress.as_ref());
    let mut outcome = follow(groups, group, &mut news).await;
    if let Err(unreachable) = &outcome
        && needs_login(&unreachable.why)
        && groups.notice_login(&unreachable.group).await
    {
        outcome = follow(groups, group, &mut news).await;
    }
    let unreachable = match outcome {
        Err(unreachable) if caller.may_ask && needs_login(&unreachable.why) => unreachable,
        outcome => return outcome,
    };
    let group = &unreachable.group;
    match login::offer(caller, groups, group, Purpose::Connecting, &mut news).await {
        Outcome::LoggedIn => follow(groups, group, &mut news).await,
        Outcome::Not(login) => Err(Unreachable { login: Some(login), ..unreachable }),
        Outcome::Impossible => Err(unreachable),
    }
}

/// Offers the user the login without which the group has just refused a request. `Ok`: it may be made once more.
/// `Err`: what the model is told besides, if anything.
pub async fn login_for(
    caller: &Caller,
    groups: &GroupManager,
    group: &Upstream,
) -> Result<(), Option<String>> {
    if !caller.may_ask {
        return Err(None);
    }
    match login::offer(caller, groups, group, Purpose::Rights, &mut News::new(caller.progress.as_ref())).await
    {
        Outcome::LoggedIn => Ok(()),
        Outcome::Not(login) => Err(Some(login)),
        Outcome::Impossible => Err(None),
    }
}

fn needs_login(why: &Unavailable) -> bool {
    matches!(why, Unavailable::Failed(error) if error.needs_login())
}

async fn follow(
    groups: &GroupManager,
    group: &Upstream,
    news: &mut News<'_>,
) -> Result<(Upstream, Lease), Unreachable> {
    let mut group = group.clone();
    for _ in 0..SUCCESSORS {
        let wait = group.snapshot().wait();
        match news.while_waiting(&format!("group {} is starting", group.name), group.acquire(wait)).await {
            Ok(lease) => return Ok((group, lease)),
            Err(Unavailable::Gone) if !groups.is_shutting_down() => match groups.get(&group.name) {
                Some(successor) => group = successor,
                None => break,
            },
            Err(why) => return Err(Unreachable { group, why, login: None }),
        }
    }
    Err(Unreachable { group, why: Unavailable::Gone, login: None })
}

/// What a client hears while its request waits.
pub struct News<'a> {
    progress: Option<&'a Progress>,
    value: f64,
}

impl<'a> News<'a> {
    fn new(progress: Option<&'a Progress>) -> Self {
        Self { progress, value: -16.0 }
    }

    /// `what` is told every five seconds until `done`.
    pub async fn while_waiting<T>(&mut self, what: &str, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        let Some(progress) = self.progress else { return done.await };
        let started = Instant::now();
        let mut due = interval_at(started + NEWS, NEWS);
        loop {
            tokio::select! {
                biased;
                outcome = &mut done => return outcome,
                _ = due.tick() => self.tell(progress, &format!("{what} ({} s so far)", started.elapsed().as_secs())),
            }
        }
    }

    /// The value grows, as it has to, and never reaches 0, so that whatever the server says afterwards goes on from there.
    fn tell(&mut self, progress: &Progress, message: &str) {
        let Some(token) = progress.token() else { return };
        self.value /= 2.0;
        let params = json!({ "progress": self.value, "message": message });
        let params = raw::set(&params.to_string().into(), "progressToken", &token);
        progress.output.send(Frame::notification("notifications/progress", Some(params)));
    }
}
