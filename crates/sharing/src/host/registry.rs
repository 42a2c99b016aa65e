//! The servers of the host, by identity. The first session of a server starts it.

use super::server::SharedServer;
use super::session_table::SessionId;
use super::unshareable::Unshareable;
use crate::attach::ServerIdentity;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use process::launch::Launch;
use process::runtime_dir::RuntimeDir;
use process::warden::{SpawnError, SpawnedProcess, Warden};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, watch};

/// How many servers a host runs. Further ones are private.
pub(super) const MAX_SERVERS: usize = 64;
/// How many instances are remembered that had to wait for another one. The oldest are forgotten.
const MAX_HURRIED: usize = 1024;

/// The servers of the host.
pub(super) struct Registry {
    /// Starts their processes.
    warden: Warden,
    /// The servers by identity.
    servers: Mutex<HashMap<Arc<ServerIdentity>, watch::Receiver<ServerPhase>>>,
    /// Where the task of a new server goes, which the listener owns. It has room for all servers.
    tasks: mpsc::Sender<BoxFuture<'static, ()>>,
    /// The servers that must not be shared.
    unshareable: Arc<Unshareable>,
    /// The instances that had to wait for another one, by pid, with a hash of the server: an identity may hold secrets.
    hurried: Mutex<VecDeque<(u32, u64)>>,
    /// Makes these hashes.
    hasher: RandomState,
    /// The last id of a session.
    last_session: AtomicU64,
}

/// The state of one server.
#[derive(Clone)]
enum ServerPhase {
    /// Its process is being started.
    Starting,
    /// It has sessions, or may get some.
    Running(Arc<SharedServer>),
    /// It cannot be started, and this is why.
    Failed(String),
    /// Nothing of it is left.
    Ended,
}

impl Registry {
    pub(super) fn new(
        warden: Warden,
        dir: RuntimeDir,
        tasks: mpsc::Sender<BoxFuture<'static, ()>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            warden,
            servers: Mutex::default(),
            tasks,
            unshareable: Arc::new(Unshareable::new(dir)),
            hurried: Mutex::default(),
            hasher: RandomState::new(),
            last_session: AtomicU64::new(0),
        })
    }

    /// Returns the id of a new session.
    pub(super) fn new_session_id(&self) -> SessionId {
        SessionId(self.last_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a server, and whether it was started for this call, because it did not run. It starts as `without_launcher`
    /// says, or as `identity` says if that is `None` or cannot be executed. `instance` is the process that wants to use it.
    /// Waits for the end of an earlier process of the same server; the caller limits the wait.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the instance has to start the server itself.
    pub(super) async fn find(
        self: &Arc<Self>,
        identity: &Arc<ServerIdentity>,
        without_launcher: Option<ServerIdentity>,
        instance: u32,
    ) -> Result<(Arc<SharedServer>, bool), String> {
        if let Some(reason) = self.unshareable.reason(identity) {
            return Err(format!("the server is not shareable: {reason}"));
        }
        if self.hurried.lock().contains(&(instance, self.hasher.hash_one(identity))) {
            return Err("a request of this client waited for another client".to_owned());
        }
        loop {
            let (mut phase, is_new) = self.find_or_start(identity, without_launcher.as_ref())?;
            let started = phase.wait_for(|phase| !matches!(phase, ServerPhase::Starting)).await;
            let started = started.map(|phase| phase.clone());
            // Only a panic ends the task of a server before it has told the end.
            match started.map_err(|_| "its task in the host has failed".to_owned())? {
                ServerPhase::Running(server) if server.accepts_sessions() => return Ok((server, is_new)),
                ServerPhase::Failed(reason) => return Err(reason),
                // It may hold a port or a file that its successor needs.
                _ => phase.wait_for(|phase| matches!(phase, ServerPhase::Ended)).await.map_or((), |_| ()),
            }
        }
    }

    fn find_or_start(
        self: &Arc<Self>,
        identity: &Arc<ServerIdentity>,
        without_launcher: Option<&ServerIdentity>,
    ) -> Result<(watch::Receiver<ServerPhase>, bool), String> {
        let mut servers = self.servers.lock();
        // The entry of a task that panicked is replaced.
        if let Some(phase) = servers.get(identity).filter(|phase| phase.has_changed().is_ok()) {
            return Ok((phase.clone(), false));
        }
        if servers.len() >= MAX_SERVERS {
            return Err(format!("{MAX_SERVERS} servers are shared already"));
        }
        let (publisher, phase) = watch::channel(ServerPhase::Starting);
        servers.insert(identity.clone(), phase.clone());
        let direct = without_launcher.map(ServerIdentity::launch);
        let task = self.clone().run_server(identity.clone(), direct, publisher);
        self.tasks.try_send(Box::pin(task)).map_err(|_| "the host ends".to_owned())?;
        Ok((phase, true))
    }

    /// The task of one server, from its start until nothing of it is left. `direct` starts it without its launcher.
    async fn run_server(
        self: Arc<Self>,
        identity: Arc<ServerIdentity>,
        direct: Option<Launch>,
        phase: watch::Sender<ServerPhase>,
    ) {
        let end = match self.start(&identity, direct).await {
            Ok((process, is_direct)) => {
                tracing::debug!(pid = process.pid, is_direct, ?identity, "started a shared server");
                let (server, process) =
                    SharedServer::new(identity.clone(), self.unshareable.clone(), process, is_direct);
                phase.send_replace(ServerPhase::Running(server.clone()));
                server.run(process).await;
                ServerPhase::Ended
            }
            Err(error) => ServerPhase::Failed(error.to_string()),
        };
        // Before its end is known, so that a session that waits for it starts a new one.
        self.servers.lock().remove(&identity);
        phase.send_replace(end);
    }

    /// Starts the process of a server, by `direct` if that can be executed. Returns whether `direct` has started it.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be started as the config has it either.
    async fn start(
        &self,
        identity: &ServerIdentity,
        direct: Option<Launch>,
    ) -> Result<(SpawnedProcess, bool), SpawnError> {
        let launch = identity.launch();
        let server = launch.server_id();
        // Of another host that was killed, or of an instance.
        self.warden.predecessor_ended(server).await;
        if let Some(direct) = direct
            && let Ok(process) = self.warden.spawn_server(direct, Some(server)).await
        {
            return Ok((process, true));
        }
        self.warden.spawn_server(launch, Some(server)).await.map(|process| (process, false))
    }

    /// Remembers that a request of the process `instance` waited for another session of the server.
    pub(super) fn remember_wait(&self, instance: u32, identity: &Arc<ServerIdentity>) {
        let mut hurried = self.hurried.lock();
        hurried.push_back((instance, self.hasher.hash_one(identity)));
        if hurried.len() > MAX_HURRIED {
            hurried.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_server_whose_task_failed_is_private_and_then_started_again() {
        let dir = tempfile::tempdir().unwrap();
        let (tasks, mut new_tasks) = mpsc::channel(MAX_SERVERS);
        let runtime_dir = RuntimeDir::open_at(dir.path().join("run")).unwrap();
        let registry = Registry::new(Warden::default(), runtime_dir, tasks);
        let identity = Arc::new(ServerIdentity {
            program: "/bin/x".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".to_owned(),
            max_message_bytes: 1,
        });
        for _ in 0..2 {
            let fails = async { drop(new_tasks.recv().await.unwrap()) };
            let both = async { tokio::join!(registry.find(&identity, None, 1), fails) };
            let (found, ()) = timeout(Duration::from_secs(20), both).await.unwrap();
            assert_eq!(found.err().unwrap(), "its task in the host has failed");
        }
    }
}
