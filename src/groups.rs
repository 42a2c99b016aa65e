//! The GroupManager: which groups there are, and that they end.

use crate::config::{Config, GroupName};
use crate::transport::{Transport, warden};
use crate::upstream::audience::Audience;
use crate::upstream::session::Connector;
use crate::upstream::{Grace, Upstream, task};
use dashmap::DashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// What all of shutting down may take: OpenCode sends SIGTERM 2 s after it closed our stdin, others at once.
const SHUTDOWN: Duration = Duration::from_millis(1400);

pub struct GroupManager {
    config: Config,
    /// Handles only: no state is in here, and no guard is held across an await.
    groups: DashMap<GroupName, Upstream>,
    tasks: Mutex<JoinSet<()>>,
    transport: Transport,
    shutting_down: AtomicBool,
    pub audience: Arc<Audience>,
}

impl GroupManager {
    /// Starts the task of every group; none connects yet.
    pub fn start(config: Config, transport: Transport) -> Arc<Self> {
        let audience = Arc::new(Audience::default());
        let (groups, mut tasks) = (DashMap::new(), JoinSet::new());
        for (name, server) in &config.servers {
            let connector = Connector {
                transport: transport.clone(),
                audience: audience.clone(),
                max_message: config.settings.max_message_bytes,
            };
            let (upstream, task) = task::start(name.clone(), server.clone(), connector);
            tasks.spawn(task);
            groups.insert(name.clone(), upstream);
        }
        Arc::new(Self {
            config,
            groups,
            tasks: Mutex::new(tasks),
            transport,
            shutting_down: AtomicBool::new(false),
            audience,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Every group, in config order.
    pub fn all(&self) -> Vec<Upstream> {
        let names = self.config.servers.iter().map(|(name, _)| name);
        names.filter_map(|name| self.groups.get(name).map(|group| group.clone())).collect()
    }

    /// Whether every connection is being closed, so that a call that ends now says so.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Closes every upstream at once and returns when nothing of them is left, or when time is up: then the warden
    /// ends what is left as soon as we are gone.
    pub async fn shutdown(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let closing = async {
            for group in self.all() {
                group.stop(Grace::Shutdown).await;
            }
            while tasks.join_next().await.is_some() {}
            self.transport.warden.shutdown(warden::Grace::FAST).await;
        };
        if tokio::time::timeout(SHUTDOWN, closing).await.is_err() {
            tracing::warn!("not every server ended in time; what is left is killed");
        }
    }
}
