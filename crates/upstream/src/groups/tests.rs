//! Tests the groups of an instance with a server in this process, in virtual time.

use super::*;
use crate::cache::{Cache, CacheKey};
use crate::clients::{ClientRequest, Clients, LogLevel};
use crate::error::UpstreamError;
use crate::groups::startup_info::StartupInfo;
use crate::handle::Upstream;
use crate::pins::PinStore;
use crate::transport::{Grace, OpenInMemory, OpenTransport, RequestFailures, ServerControl, Transport};
use crate::{AcquireError, Need};
use config::env::Env;
use config::{Config, Endpoint, GroupName, HttpConfig, Overrides, ServerConfig, load};
use futures_util::future::BoxFuture;
use http_client::credentials::{Credentials, LoginService, PendingLogin};
use http_client::error::RemoteError;
use parking_lot::Mutex;
use process::launch::direct::DirectLaunches;
use process::secrets::SecretResolver;
use process::warden::Warden;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::{Instant, sleep};
use wire::output::Output;
use wire::{Raw, Reply};

const WAIT: Duration = Duration::from_secs(20);

/// A server whose only tool is named after its version, the argument in its config.
#[derive(Default)]
struct Server {
    /// The versions that were started, in order.
    started: Mutex<Vec<String>>,
    /// The version whose task panics when it starts or ends.
    broken: Mutex<Option<(String, Phase)>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Start,
    End,
}

impl Server {
    /// Panics once if the version is broken in this phase.
    fn check(&self, version: &str, phase: Phase) {
        let is_broken = |broken: &mut (String, Phase)| *broken == (version.to_owned(), phase);
        assert!(self.broken.lock().take_if(is_broken).is_none(), "scripted");
    }
}

struct Process {
    server: Arc<Server>,
    version: String,
}

impl OpenInMemory for Arc<Server> {
    fn open(
        &self,
        _: &GroupName,
        server: &ServerConfig,
    ) -> BoxFuture<'static, Result<OpenTransport, UpstreamError>> {
        let Endpoint::Stdio(stdio) = &server.endpoint else { unreachable!() };
        let (server, version) = (self.clone(), stdio.args[0].clone());
        Box::pin(async move {
            server.check(&version, Phase::Start);
            server.started.lock().push(version.clone());
            let (theirs, ours) = duplex(64 << 10);
            tokio::spawn(serve(theirs, version.clone()));
            let (input, sink) = tokio::io::split(ours);
            let (output, writer) = Output::any(sink);
            let handle = Arc::new(Process { server, version });
            let failures = RequestFailures::NONE;
            Ok(OpenTransport { input: Box::new(input), output, writer, handle, failures })
        })
    }
}

impl ServerControl for Process {
    fn connection_end(&self) -> BoxFuture<'_, UpstreamError> {
        Box::pin(async { UpstreamError::Internal })
    }
    fn stop(&self, _: Grace) -> BoxFuture<'_, ()> {
        let (server, version) = (self.server.clone(), self.version.clone());
        Box::pin(async move {
            sleep(Duration::from_secs(1)).await;
            server.check(&version, Phase::End);
        })
    }
}

async fn serve(stream: DuplexStream, version: String) {
    let (input, mut sink) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = request.get("id") else { continue };
        let answer = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "server", "version": "1"},
            }}),
            "tools/list" => json!({"jsonrpc": "2.0", "id": id, "result": {
                "tools": [{"name": format!("tool_{version}"), "inputSchema": {"type": "object"}}],
            }}),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}}),
        };
        if sink.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

struct NoClient;

impl Clients for NoClient {
    fn is_ready(&self) -> bool {
        true
    }
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    fn offered_capabilities(&self) -> Raw {
        Raw::from_static(b"{}")
    }
    fn log_level(&self) -> Option<String> {
        None
    }
    fn notify(&self, _: &GroupName, _: &str, _: Option<&Raw>) {}
    fn log(&self, _: Option<&GroupName>, _: LogLevel, _: &str) {}
    fn request(&self, _: ClientRequest) -> BoxFuture<'static, Reply> {
        unreachable!()
    }
}

struct NoLogins;

impl LoginService for NoLogins {
    fn credentials(&self, _: &GroupName, _: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError> {
        unreachable!()
    }
    fn changed_elsewhere(&self, _: &GroupName, _: &HttpConfig) -> BoxFuture<'static, bool> {
        Box::pin(async { false })
    }
    fn begin_login(
        &self,
        _: &GroupName,
        _: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>> {
        unreachable!()
    }
    fn flush(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// An instance whose config has the group `g`.
struct World {
    dir: tempfile::TempDir,
    server: Arc<Server>,
    groups: Arc<GroupManager>,
}

impl World {
    fn new() -> Self {
        let (dir, server) = (tempfile::tempdir().unwrap(), Arc::<Server>::default());
        let (env, warden) = (Arc::new(env()), Warden::default());
        let transport = Transport {
            direct: DirectLaunches::new(None),
            shared: None,
            secrets: SecretResolver::new(None, env.clone(), warden.clone()),
            process_env: env,
            warden,
            logins: Arc::new(NoLogins),
            in_memory: Some(Arc::new(server.clone())),
        };
        let cache = Cache::open(Some(dir.path().join("cache")));
        let config = config(&dir, "1");
        let pins = PinStore::new(None);
        let groups =
            GroupManager::new(config, transport, Arc::new(NoClient), cache, pins, StartupInfo::default());
        Self { dir, server, groups }
    }

    /// The config with this version of the server.
    fn config(&self, version: &str) -> Config {
        config(&self.dir, version)
    }

    fn group(&self) -> Upstream {
        self.groups.get_by_name("g").unwrap()
    }

    /// Connects the group and returns the name of its tool.
    async fn connect(&self) -> Result<String, AcquireError> {
        let _lease = self.group().acquire(Need::Lists, WAIT).await?;
        Ok(self.group().snapshot().catalog.as_ref().unwrap().tools[0].name.clone())
    }
}

fn env() -> Env {
    Env::new([("PATH", "/bin")], "/")
}

fn config(dir: &tempfile::TempDir, version: &str) -> Config {
    let server = json!({"command": "true", "args": [version], "lazy_startup": "pure", "idle_timeout": 0});
    config_of(dir, &server)
}

fn config_of(dir: &tempfile::TempDir, server: &Value) -> Config {
    let file = dir.path().join("servers.json");
    std::fs::write(&file, json!({"mcpServers": {"g": server}}).to_string()).unwrap();
    load::load(&[file], &env(), &Overrides::default())
}

#[tokio::test(start_paused = true)]
async fn the_panic_of_a_task_that_drains_leaves_its_successor_alone() {
    let world = World::new();
    let groups = world.groups.clone();
    tokio::spawn(async move { groups.run().await });
    world.groups.start().await;
    assert_eq!(world.connect().await.unwrap(), "tool_1");
    *world.server.broken.lock() = Some(("1".to_owned(), Phase::End));
    world.groups.apply(world.config("2")).await;
    let successor = world.group();
    assert_eq!(world.connect().await.unwrap(), "tool_2");
    sleep(WAIT).await;
    assert!(world.server.broken.lock().is_none(), "it has panicked");
    assert!(world.group().is_same(&successor));
    assert!(successor.try_lease().is_some());
    assert_eq!(*world.server.started.lock(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_task_panicked_works_at_its_next_use() {
    let world = World::new();
    *world.server.broken.lock() = Some(("1".to_owned(), Phase::Start));
    let groups = world.groups.clone();
    tokio::spawn(async move { groups.run().await });
    world.groups.start().await;
    let panicked = world.group();
    assert!(matches!(world.connect().await, Err(AcquireError::Gone)));
    sleep(Duration::from_millis(1)).await;
    assert!(!world.group().is_same(&panicked));
    assert_eq!(world.connect().await.unwrap(), "tool_1");
}

#[tokio::test]
async fn a_catalog_that_arrives_while_the_config_changes_is_not_stored_for_the_new_entry() {
    let world = World::new();
    world.groups.start().await;
    assert_eq!(world.connect().await.unwrap(), "tool_1");
    let new = world.config("2");
    let key = |config: &Config| {
        let server = config.server(&GroupName::new("g")).unwrap().as_ref().unwrap();
        CacheKey::of_server(server, &env(), b"{}")
    };
    let (old_key, new_key) = (key(&world.groups.config()), key(&new));
    world.groups.config.send_replace(Arc::new(new));
    let changed = BTreeSet::from([GroupName::new("g")]);
    world.groups.handle_changes(&changed);
    let known = world.groups.environment.cache.flush_and_read().await;
    assert!(known.get(&new_key).is_none());
    assert!(known.get(&old_key).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_removed_group_is_kept_until_its_task_has_ended_and_its_successor_waits_for_that() {
    let world = World::new();
    world.groups.start().await;
    assert_eq!(world.connect().await.unwrap(), "tool_1");
    let removed = world.group();
    let without = || Config { servers: Vec::new(), ..world.config("1") };
    world.groups.apply(without()).await;
    assert!(world.groups.get_by_name("g").is_none() && world.groups.all().is_empty());
    assert!(!removed.has_ended());
    world.groups.apply(world.config("1")).await;
    assert!(!world.group().is_same(&removed));
    let began = Instant::now();
    assert_eq!(world.connect().await.unwrap(), "tool_1");
    assert!(removed.has_ended() && began.elapsed() >= Duration::from_secs(1));
    world.groups.apply(without()).await;
    sleep(WAIT).await;
    let mut registry = world.groups.registry.lock();
    assert!(registry.entry(&GroupName::new("g")).handle.is_none(), "nothing of it is left");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_of_the_tools_is_about_one_program() {
    let world = World::new();
    world.groups.start().await;
    let pins = || world.group().snapshot().pins.clone();
    let first = pins();
    let without_resources = |command: &str| {
        let server = json!({"command": command, "args": ["1"], "features": {"resources": false}});
        config_of(&world.dir, &server)
    };
    world.groups.apply(without_resources("true")).await;
    assert!(Arc::ptr_eq(&pins(), &first), "the group was replaced, and its program is the same");
    world.groups.apply(without_resources("false")).await;
    assert!(!Arc::ptr_eq(&pins(), &first));
}
