//! `tools/list` as one client knows it, and when it is told that it changed.

use super::meta_tools::{self, GroupLine};
use crate::config::Mode;
use crate::groups::GroupManager;
use crate::wire::Raw;
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A client is told at most so often: some list again at once, each time.
const GAP: Duration = Duration::from_secs(1);

pub struct ToolList {
    listed: watch::Receiver<u64>,
    /// The list as the client last had it, or was told to get it.
    known: Raw,
    /// As it was rendered last, and at which count of `listed`.
    rendered: (u64, Raw),
    /// Not before this is the client told again.
    next: Option<Instant>,
}

impl ToolList {
    pub fn new(groups: &GroupManager) -> Self {
        let listed = groups.listed();
        let (count, list) = (*listed.borrow(), render(groups));
        Self { listed, known: list.clone(), rendered: (count, list), next: None }
    }

    /// The result of `tools/list` as it is now.
    pub fn render(&mut self, groups: &GroupManager) -> Raw {
        let count = *self.listed.borrow();
        if self.rendered.0 != count {
            self.rendered = (count, render(groups));
        }
        self.rendered.1.clone()
    }

    /// Resolves when the list may be another and the client may be told. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.listed.changed().await.is_err() {
            return std::future::pending().await;
        }
        // Said again at once, should this be dropped while it waits.
        self.listed.mark_changed();
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        self.listed.mark_unchanged();
    }

    /// The client has this list now.
    pub fn told(&mut self, list: &Raw) {
        self.known = list.clone();
    }

    /// Whether the client is to be told: the list differs from what it knows.
    pub fn tell(&mut self, list: &Raw) -> bool {
        let differs = self.known != *list;
        if differs {
            self.known = list.clone();
            self.next = Some(Instant::now() + GAP);
        }
        differs
    }
}

fn render(groups: &GroupManager) -> Raw {
    let names_budget = groups.config().settings.names_budget;
    with_lines(groups, |lines| json!({ "tools": meta_tools::list(lines, names_budget) }).to_string().into())
}

/// `instructions` of `initialize`.
pub fn instructions(groups: &GroupManager) -> String {
    with_lines(groups, meta_tools::instructions)
}

/// The groups as the config and their surfaces have them; those that cannot work are named by `get_status`.
fn with_lines<T>(groups: &GroupManager, use_them: impl FnOnce(&[GroupLine<'_>]) -> T) -> T {
    let (config, shown) = (groups.config(), groups.shown());
    let lines = config.servers.iter().filter_map(|(name, server)| {
        let server = server.as_ref().ok()?;
        let surface = shown.get(name);
        let about = surface.and_then(|surface| surface.about.as_deref());
        let tools = surface.filter(|_| server.mode != Mode::Pure).map_or(&[][..], |surface| &surface.tools);
        Some(GroupLine { name: name.as_str(), about: server.description.as_deref().or(about), tools })
    });
    use_them(&lines.collect::<Vec<_>>())
}
