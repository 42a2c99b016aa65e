//! Plays a list: the proxy's own session and groups between a client and servers in this process, under paused time.

use crate::client::{BOUND, Client, Known, LONG_BOUND, Open, shorten};
use crate::list::{AnswerPlan, ClientNoise, Edit, Ending, FaultList, RequestKind, ServerMode, Step};
use crate::login::Logins;
use crate::server::{ServerState, Servers, TOOLS, lossy};
use config::env::Env;
use config::{Config, GroupName, Overrides, load};
use dynamic_mcp_front::server::ClientSession;
use dynamic_mcp_front::server::clients::FrontClient;
use dynamic_mcp_front::server::served_instance::SessionOptions;
use parking_lot::Mutex;
use process::launch::direct::DirectLaunches;
use process::secrets::SecretResolver;
use process::warden::Warden;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, duplex};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use upstream::GroupManager;
use upstream::cache::Cache;
use upstream::groups::startup_info::StartupInfo;
use upstream::pins::PinStore;
use upstream::transport::Transport;
use wire::lines::LineReader;
use wire::output::Output;
use wire::peer::Peer;
use wire::protocol::HANDSHAKE_REVISIONS;

/// What a run of a list gives, for the figures.
#[derive(Default)]
pub(crate) struct Played {
    pub(crate) violations: Vec<String>,
    pub(crate) statistics: BTreeMap<&'static str, usize>,
}

/// Plays a list in a runtime of its own.
pub(crate) fn play(list: &FaultList) -> Played {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let mut played = runtime.block_on(async {
        let mut world = World::new(list);
        world.play().await;
        world.played
    });
    drop(runtime);
    played.violations.extend(crate::transitions::take_violations());
    played
}

/// What stays when a session ends and another one begins.
struct World<'a> {
    list: &'a FaultList,
    dir: TempDir,
    servers: Arc<Servers>,
    logins: Arc<Logins>,
    entries: Vec<Entry>,
    /// The exposed name of the tool of each server whose own name is too long to be exposed as it is. A client keeps the
    /// names that it has seen, also over the end of a session.
    exposed: Arc<Mutex<BTreeMap<String, String>>>,
    is_broken: bool,
    played: Played,
}

/// An entry of the config as the user has edited it.
struct Entry {
    program: u32,
    idle_timeout: u16,
    mode: ServerMode,
    is_removed: bool,
    is_invalid: bool,
    denies: bool,
    edited: Option<Instant>,
}

/// One session.
struct Session {
    client: Arc<Mutex<Client>>,
    groups: Arc<GroupManager>,
    to_proxy: mpsc::UnboundedSender<(Duration, String)>,
    reads: watch::Sender<bool>,
    configs: mpsc::UnboundedSender<Config>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    /// The client's ends of its pipes, and what else runs beside the session.
    tasks: JoinSet<()>,
    weak_client: Weak<FrontClient>,
}

impl<'a> World<'a> {
    fn new(list: &'a FaultList) -> Self {
        let named = list.servers.iter().enumerate().map(|(n, plan)| {
            let name = format!("s{n}");
            (name.clone(), ServerState::new(name, plan.clone()))
        });
        let servers = Arc::new(Servers(named.collect()));
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let entry = |plan: &crate::list::ServerPlan| Entry {
            program: 0,
            idle_timeout: plan.idle_timeout,
            mode: plan.mode,
            is_removed: false,
            is_invalid: false,
            denies: false,
            edited: None,
        };
        Self {
            list,
            dir: dir.unwrap(),
            logins: Logins::new(servers.clone()),
            servers,
            entries: list.servers.iter().map(entry).collect(),
            exposed: Arc::default(),
            is_broken: false,
            played: Played::default(),
        }
    }

    async fn play(&mut self) {
        let tasks_before = Handle::current().metrics().num_alive_tasks();
        let mut rest = self.list.steps.as_slice();
        loop {
            let restart = rest.iter().position(|step| matches!(step, Step::Restart { .. }));
            let (steps, next) = rest.split_at(restart.unwrap_or(rest.len()));
            let ending = if next.is_empty() { self.list.ending } else { Ending::Eof };
            self.play_session(steps, ending).await;
            let budget = wire::budget::reserved_bytes();
            if budget != 0 {
                self.played.violations.push(format!("{budget} bytes of the budget are left"));
            }
            let left = Handle::current().metrics().num_alive_tasks();
            if left > tasks_before {
                self.played.violations.push(format!("{} tasks are left", left - tasks_before));
            }
            if !self.played.violations.is_empty() || next.is_empty() {
                return;
            }
            let keeps_cache = matches!(next[0], Step::Restart { keeps_cache: true });
            if !keeps_cache {
                drop(std::fs::remove_dir_all(self.dir.path().join("cache")));
            }
            for state in self.servers.0.values() {
                state.lock().begin_session(keeps_cache);
            }
            rest = &next[1..];
        }
    }

    fn config(&self) -> Config {
        let mut servers = serde_json::Map::new();
        for (n, (entry, plan)) in self.entries.iter().zip(&self.list.servers).enumerate() {
            if entry.is_removed {
                continue;
            }
            let mode = match entry.mode {
                ServerMode::Eager => "eager",
                ServerMode::Pure => "pure",
                ServerMode::Hybrid => "hybrid",
            };
            let mut json = json!({
                "lazy_startup": mode,
                "idle_timeout": entry.idle_timeout,
                "stateful": plan.is_stateful,
                "timeout": {"tools": 30, "resources": 30, "prompts": 30},
                "tools": {"ask": ["guarded"]},
            });
            match plan.is_remote {
                true => json["url"] = json!(format!("http://127.0.0.1:1/{n}/{}", entry.program)),
                false => {
                    (json["command"], json["args"]) =
                        (json!("true"), json!([format!("{n}/{}", entry.program)]));
                }
            }
            if plan.is_exposed {
                json["expose"] = json!(["*"]);
            }
            if entry.denies {
                json["tools"]["deny"] = json!(["write"]);
            }
            if entry.is_invalid {
                json["idle_timeout"] = json!("never ever");
            }
            servers.insert(format!("s{n}"), json);
        }
        let surface = if self.list.is_flat { "flat" } else { "meta" };
        let text = json!({"settings": {"surface": surface}, "mcpServers": servers}).to_string();
        let text = if self.is_broken { &text[..text.len() / 2] } else { &text };
        let file = self.dir.path().join("servers.json");
        std::fs::write(&file, text).unwrap();
        load::load(&[file], &self.env(), &Overrides::default())
    }

    fn env(&self) -> Env {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Env::new([("PATH", path)], self.dir.path().to_owned())
    }

    async fn play_session(&mut self, steps: &[Step], ending: Ending) {
        let mut session = self.start().await;
        for step in steps {
            if crate::is_verbose() {
                eprintln!("--- {:?} {step:?}", session.client.lock().began.elapsed());
            }
            self.step(&mut session, step).await;
            sleep(Duration::from_millis(1)).await;
            let mut client = session.client.lock();
            client.check_servers();
            client.check_deadlines();
            if !client.violations.is_empty() {
                break;
            }
        }
        let is_fine = session.client.lock().violations.is_empty();
        if is_fine && ending == Ending::Recover {
            self.recover(&mut session).await;
        }
        self.end(session, ending).await;
    }

    async fn start(&mut self) -> Session {
        let env = Arc::new(self.env());
        let config = self.config();
        let warden = Warden::default();
        let transport = Transport {
            direct: DirectLaunches::new(None),
            shared: None,
            secrets: SecretResolver::new(None, env.clone(), warden.clone()),
            process_env: env,
            warden,
            logins: self.logins.clone(),
            in_memory: Some(self.servers.clone()),
        };
        let front = Arc::new(FrontClient::default());
        let weak_client = Arc::downgrade(&front);
        let pins = PinStore::new(Some(self.dir.path().join("pins")));
        let cache = Cache::open(Some(self.dir.path().join("cache")));
        let limit = 256 << 10;
        let groups = GroupManager::new(config, transport, front.clone(), cache, pins, StartupInfo::default());
        let loaded = groups.config();
        groups.load_pins(&loaded).await;
        let plan = &self.list.client;
        let known = self.servers.0.values().zip(&self.entries).map(|(state, entry)| Known {
            state: state.clone(),
            edited: entry.edited,
            is_configured: !entry.is_removed && !entry.is_invalid && !self.is_broken,
            denies: entry.denies,
        });
        let client = Client::new(plan, self.list.is_flat, known.collect(), self.exposed.clone());
        let client = Arc::new(Mutex::new(client));
        let (client_end, proxy_end) = duplex(plan.pipe as usize);
        let (proxy_in, proxy_out) = tokio::io::split(proxy_end);
        let (client_in, client_out) = tokio::io::split(client_end);
        let (output, writer) = Output::any(proxy_out);
        let mut lines = LineReader::new(Box::new(proxy_in), limit);
        let (peer, deadlines) = Peer::new(output.clone());
        let proxy = ClientSession::new(groups.clone(), &front, peer, SessionOptions::default(), None);
        let (stop, stopped) = oneshot::channel::<()>();
        let closing = groups.clone();
        let mut tasks = JoinSet::new();
        let serving = tokio::spawn(async move {
            let mut writing = tokio::spawn(writer.run());
            let mut timing = JoinSet::new();
            timing.spawn(deadlines.run());
            let stop = async {
                tokio::select! {
                    Ok(()) = stopped => {}
                    _ = &mut writing => {}
                }
            };
            proxy.run(&mut lines, stop, closing.shutdown()).await;
            output.close();
            if !writing.is_finished() && timeout(Duration::from_secs(1), &mut writing).await.is_err() {
                writing.abort();
            }
        });
        let (to_proxy, from_client) = mpsc::unbounded_channel();
        let (reads, may_read) = watch::channel(true);
        let (configs, mut new_configs) = mpsc::unbounded_channel::<Config>();
        tasks.spawn(read(client.clone(), client_in, may_read, to_proxy.clone()));
        tasks.spawn(write(client_out, from_client));
        let background = groups.clone();
        tasks.spawn(async move { background.run().await });
        let reloading = groups.clone();
        tasks.spawn(async move {
            while let Some(config) = new_configs.recv().await {
                reloading.apply(config).await;
            }
        });
        let mut session = Session {
            client,
            groups,
            to_proxy,
            reads,
            configs,
            stop: Some(stop),
            serving,
            tasks,
            weak_client,
        };
        self.introduce(&mut session).await;
        session
    }

    /// The handshake, or nothing in the stateless era.
    async fn introduce(&self, session: &mut Session) {
        let plan = &self.list.client;
        let Some(revision) = plan.handshake else {
            session.client.lock().is_operating = true;
            return;
        };
        let revision = HANDSHAKE_REVISIONS[usize::from(revision) % HANDSHAKE_REVISIONS.len()];
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities(plan.can_answer),
            "clientInfo": {"name": "client", "version": "1"},
        });
        session.send(
            json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}).to_string(),
        );
        session.client.lock().open.insert("\"init\"".to_owned(), open(RequestKind::Discover, 0));
        sleep(Duration::from_millis(1)).await;
        if plan.is_early {
            for kind in [RequestKind::ToolsList, RequestKind::Call, RequestKind::ResourcesList] {
                self.request(session, kind, 0, 0);
                sleep(Duration::from_millis(u64::from(plan.initialized_after.unwrap_or(2000) / 4))).await;
            }
        }
        let Some(initialized_after) = plan.initialized_after else { return };
        sleep(Duration::from_millis(initialized_after.into())).await;
        session.client.lock().is_operating = true;
        session.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned());
    }

    async fn step(&mut self, session: &mut Session, step: &Step) {
        let of = |server: u8| usize::from(server) % self.list.servers.len();
        match step {
            Step::Request { kind, server, pick } => self.request(session, *kind, of(*server), *pick),
            Step::Burst { kind, server, count } => {
                for n in 0..*count {
                    self.request(session, *kind, of(*server), n);
                }
            }
            Step::Cancel(pick) => session.cancel(usize::from(*pick)),
            Step::Read(reads) => session.read(*reads),
            Step::Answer(plan) => session.client.lock().answer_with(*plan),
            Step::Send(noise) => session.send(noise_line(*noise).to_owned()),
            Step::Server { server, fault } => {
                session.client.lock().known[of(*server)].state.lock().fault(*fault);
            }
            Step::Edit { server, edit } => self.edit(session, of(*server), *edit),
            Step::Reconnect(server) => {
                let name = GroupName::new(&format!("s{}", of(*server)));
                session.client.lock().known[of(*server)].state.lock().trouble = Some(Instant::now());
                if let Some(group) = session.groups.get(&name) {
                    session.tasks.spawn(async move { group.reconnect().await });
                }
            }
            Step::Wait(ms) => sleep(Duration::from_millis((*ms).into())).await,
            Step::Restart { .. } => {}
        }
    }

    fn edit(&mut self, session: &Session, n: usize, edit: Edit) {
        let entry = &mut self.entries[n];
        entry.edited = Some(Instant::now());
        match edit {
            Edit::Settings => entry.idle_timeout = entry.idle_timeout.saturating_add(1),
            Edit::Program => entry.program += 1,
            Edit::Mode(mode) => entry.mode = mode,
            Edit::Deny => entry.denies = !entry.denies,
            Edit::Remove => entry.is_removed = !entry.is_removed,
            Edit::RemoveAndAdd => {
                entry.is_removed = true;
                self.apply(session);
                self.entries[n].is_removed = false;
            }
            Edit::Invalid => entry.is_invalid = !entry.is_invalid,
            Edit::Broken => self.break_config(!self.is_broken),
        }
        self.apply(session);
    }

    /// Breaks the config file, or makes it whole again, which concerns every entry.
    fn break_config(&mut self, is_broken: bool) {
        self.is_broken = is_broken;
        for entry in &mut self.entries {
            entry.edited = Some(Instant::now());
        }
    }

    /// Applies the config as it is now.
    fn apply(&self, session: &Session) {
        let mut client = session.client.lock();
        for (known, entry) in client.known.iter_mut().zip(&self.entries) {
            // While the file cannot be read, nobody knows which edits count.
            known.edited = if self.is_broken { Some(Instant::now()) } else { entry.edited.max(known.edited) };
            known.is_configured = !entry.is_removed && !entry.is_invalid && !self.is_broken;
            known.denies = entry.denies;
            let mut state = known.state.lock();
            state.plan.mode = entry.mode;
            state.was_edited |= entry.edited.is_some();
        }
        drop(session.configs.send(self.config()));
    }

    fn request(&self, session: &Session, kind: RequestKind, server: usize, pick: u8) {
        use RequestKind as K;
        let mut client = session.client.lock();
        client.count += 1;
        let count = client.count;
        let id = match count % 3 {
            0 => count.to_string(),
            1 => format!("\"r-{count}\""),
            _ => format!("1000000000000000000000{count}"),
        };
        let name = format!("s{server}");
        let nonce = format!("n{count}");
        let tool = TOOLS[usize::from(pick) % TOOLS.len()];
        let size = [0, 10, 2000, 60_000][usize::from(pick) / 5 % 4];
        let args = json!({"nonce": nonce, "size": size});
        let ours =
            |tool: &str, arguments: Value| ("tools/call", json!({"name": tool, "arguments": arguments}));
        let call = |tool: &str| ours("call_dynamic_tool", json!({"group": name, "name": tool, "args": args}));
        let uri = |what: &str| json!({"uri": format!("mem://{name}/{what}")});
        let task = || {
            let tasks = &client.tasks;
            json!({"taskId": tasks.get(usize::from(pick) % tasks.len().max(1)).cloned().unwrap_or_else(|| "none".to_owned())})
        };
        let resource = ["one", "item/3"][usize::from(pick) % 2];
        let (method, mut params) = match kind {
            K::ToolsList => ("tools/list", json!({})),
            K::GetTools => ours("get_dynamic_tools", json!({"group": name})),
            K::Search => ours("search_dynamic_tools", json!({"query": "echo"})),
            K::Status => ours("get_status", json!({})),
            K::Call => call(tool),
            K::CallWithoutGroup => {
                ours("call_dynamic_tool", json!({"name": format!("only_{name}"), "args": args}))
            }
            K::CallDirectly => {
                let exposed = match pick % 2 {
                    0 => format!("{name}__echo"),
                    _ => self.exposed.lock().get(&name).cloned().unwrap_or_else(|| format!("{name}__echo")),
                };
                ("tools/call", json!({"name": exposed, "arguments": args}))
            }
            K::CallReadOnly => {
                ours("call_dynamic_tool_readonly", json!({"group": name, "name": "echo", "args": args}))
            }
            K::CallAsTask => {
                let (method, mut params) = call("tasked");
                params["task"] = json!({"ttl": 600_000});
                (method, params)
            }
            K::ResourcesList => ("resources/list", json!({})),
            K::TemplatesList => ("resources/templates/list", json!({})),
            K::Read => ("resources/read", uri(resource)),
            K::ReadUnknown => ("resources/read", json!({"uri": "nowhere://x"})),
            K::Subscribe => ("resources/subscribe", uri("one")),
            K::Unsubscribe => ("resources/unsubscribe", uri("one")),
            K::PromptsList => ("prompts/list", json!({})),
            K::PromptGet => ("prompts/get", json!({"name": format!("{name}__greet")})),
            K::Complete => (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": format!("{name}__greet")}, "argument": {"name": "a", "value": "b"}}),
            ),
            K::SetLevel => ("logging/setLevel", json!({"level": "info"})),
            K::Ping => ("ping", json!({})),
            K::TaskGet => ("tasks/get", task()),
            K::TaskResult => ("tasks/result", task()),
            K::TaskCancel => ("tasks/cancel", task()),
            K::TasksList => ("tasks/list", json!({})),
            K::Listen => (
                "subscriptions/listen",
                json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": [format!("mem://{name}/one")]}}),
            ),
            K::Discover => ("server/discover", json!({})),
            K::Unknown => ("x/unknown", json!({})),
        };
        if !client.is_handshake {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": capabilities(self.list.client.can_answer),
            });
        }
        let expected = match kind {
            K::Call | K::CallWithoutGroup | K::CallDirectly | K::CallReadOnly => format!("{nonce}@{name}"),
            K::Read => format!("read at {name}"),
            K::Subscribe | K::Unsubscribe => format!("mem://{name}/one"),
            K::PromptGet => format!("prompt of {name}"),
            K::Complete => format!("\"{name}\""),
            K::GetTools => "echo".to_owned(),
            _ => String::new(),
        };
        let is_call =
            matches!(kind, K::Call | K::CallWithoutGroup | K::CallDirectly | K::CallReadOnly | K::CallAsTask);
        let tool = match kind {
            K::Call => tool,
            K::CallDirectly | K::CallReadOnly => "echo",
            _ => "",
        };
        client.open.insert(
            id.clone(),
            Open {
                kind,
                server,
                tool,
                expected,
                nonce: if is_call { nonce } else { String::new() },
                sent: Instant::now(),
                cancelled: None,
                // A stateless client's subscription has no answer until it ends.
                bound: match kind {
                    K::Listen => Duration::MAX,
                    K::TaskResult => LONG_BOUND,
                    // The proxy holds them for a second at most.
                    _ if self.list.client.handshake.is_some()
                        && self.list.client.initialized_after.is_none() =>
                    {
                        Duration::from_secs(5)
                    }
                    _ => BOUND,
                },
            },
        );
        drop(client);
        session.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }

    /// Makes everything well, and checks that everything works.
    async fn recover(&mut self, session: &mut Session) {
        session.read(true);
        if !session.client.lock().is_operating {
            return;
        }
        if self.is_broken {
            self.break_config(false);
        }
        for entry in &mut self.entries {
            let changes = entry.is_removed || entry.is_invalid || entry.denies;
            (entry.is_removed, entry.is_invalid, entry.denies) = (false, false, false);
            if changes {
                entry.edited = Some(Instant::now());
            }
        }
        self.apply(session);
        {
            let mut client = session.client.lock();
            client.answer_with(AnswerPlan::Accept);
            for known in &client.known {
                let mut state = known.state.lock();
                state.fault(crate::list::Fault::Heal);
            }
        }
        // The first request of a stateless client starts the groups.
        self.request(session, RequestKind::ToolsList, 0, 0);
        sleep(Duration::from_secs(140)).await;
        for n in 0..self.list.servers.len() {
            self.check_server(session, n).await;
        }
        self.check_idle(session).await;
        let mut client = session.client.lock();
        client.check_servers();
        client.check_lost_state();
        client.check_deadlines();
    }

    /// Sends a request and returns its answer.
    async fn ask(&self, session: &Session, kind: RequestKind, server: usize) -> String {
        self.request(session, kind, server, 0);
        let id = session
            .client
            .lock()
            .open
            .iter()
            .max_by_key(|(_, open)| open.sent)
            .map(|(id, _)| id.clone())
            .unwrap();
        let answer = async {
            loop {
                if let Some(answer) = session.client.lock().answers.get(&id) {
                    return lossy(&String::from_utf8_lossy(answer)).to_string();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), answer)
            .await
            .unwrap_or_else(|_| format!("no answer to {kind:?} {id}"))
    }

    async fn check_server(&self, session: &Session, n: usize) {
        use RequestKind as K;
        let state = session.client.lock().known[n].state.clone();
        let (name, plan) = (format!("s{n}"), state.lock().plan.clone());
        let call = self.ask(session, K::Call, n).await;
        let is_lost = plan.is_stateful && call.contains("was restarted");
        let call = if is_lost { self.ask(session, K::Call, n).await } else { call };
        let mut checks = vec![(call, format!("@{name}"))];
        let tools = self.ask(session, K::GetTools, n).await;
        let (listed, announced) = {
            let state = state.lock();
            (state.listed, state.announced)
        };
        if listed < announced {
            session.client.lock().violate(format!(
                "{name} said that its lists changed ({announced}), and they were not read ({listed})"
            ));
        }
        checks.push((tools, format!("v{listed}")));
        checks.push((self.ask(session, K::CallWithoutGroup, n).await, format!("@{name}")));
        if plan.is_exposed || self.list.is_flat {
            checks.push((self.ask(session, K::CallDirectly, n).await, format!("@{name}")));
            if plan.mode != ServerMode::Pure {
                checks.push((self.ask(session, K::ToolsList, n).await, format!("{name}__echo")));
            }
        }
        if plan.has_all_lists {
            checks.push((self.ask(session, K::Read, n).await, format!("read at {name}")));
            checks.push((self.ask(session, K::PromptGet, n).await, format!("prompt of {name}")));
            checks.push((self.ask(session, K::ResourcesList, n).await, format!("mem://{name}/one")));
            checks.push((self.ask(session, K::PromptsList, n).await, format!("{name}__greet")));
        }
        if let Some(is_told) = state.lock().is_told_of_lists()
            && !is_told
        {
            session.client.lock().violate(format!("nobody listens to changes of the lists of {name}"));
        }
        let is_subscribed = session.client.lock().subscribed.contains_key(&(n, format!("mem://{name}/one")));
        if is_subscribed {
            session.client.lock().updates.clear();
            let uri = state.lock().uri("one");
            state.lock().update(&uri);
            sleep(Duration::from_secs(10)).await;
            let mut client = session.client.lock();
            let count = client.updates.iter().filter(|update| **update == uri).count();
            if count != 1 {
                client.violate(format!("{count} notifications of the update of {uri}"));
            }
        }
        let mut client = session.client.lock();
        for (answer, wanted) in checks {
            if !answer.contains(&wanted) {
                client.violate(format!(
                    "after everything is well again, {name} lacks {wanted:?}: {}",
                    shorten(&answer)
                ));
            }
        }
    }

    /// An unused connection is closed; an eager one is there.
    async fn check_idle(&self, session: &Session) {
        let states: Vec<_> = session.client.lock().known.iter().map(|known| known.state.clone()).collect();
        for state in &states {
            state.lock().end_tasks();
        }
        // Open calls end, and then every idle timeout.
        sleep(Duration::from_secs(300) + Duration::from_secs(400)).await;
        let mut client = session.client.lock();
        // A subscription, and a call that is still open, keep the connection.
        let has_open = client.open.values().any(|open| open.cancelled.is_none());
        let mut found = Vec::new();
        for (n, (state, entry)) in states.iter().zip(&self.entries).enumerate() {
            let (state, plan) = (state.lock(), &self.list.servers[n]);
            let count = state.connections.len();
            let is_kept = plan.is_stateful
                || entry.idle_timeout == 0
                || client.subscribed.keys().any(|(m, _)| *m == n)
                || !client.lost_results.is_empty();
            match entry.mode {
                ServerMode::Eager if count != 1 => found.push(format!("eager s{n} has {count} connections")),
                ServerMode::Hybrid | ServerMode::Pure
                    if count != 0 && !is_kept && !has_open && client.is_handshake =>
                {
                    found.push(format!("s{n} is unused and has a connection"));
                }
                _ => {}
            }
        }
        client.violations.extend(found);
    }

    async fn end(&mut self, session: Session, ending: Ending) {
        let Session { client, groups, to_proxy, reads, configs, stop, mut serving, mut tasks, weak_client } =
            session;
        {
            let mut client = client.lock();
            client.is_ending = true;
            for known in &client.known {
                known.state.lock().trouble = Some(Instant::now());
            }
        }
        drop(configs);
        let began = Instant::now();
        let mut stop = stop;
        match ending {
            Ending::Recover | Ending::Eof => drop(to_proxy.send((Duration::MAX, String::new()))),
            Ending::Stop => drop(stop.take().map(|stop| stop.send(()))),
            Ending::Gone => tasks.abort_all(),
        }
        let was_reading = *reads.borrow();
        if timeout(Duration::from_secs(30), &mut serving).await.is_err() {
            client.lock().violate("the session does not end");
            serving.abort();
        } else if began.elapsed() > Duration::from_secs(5) {
            client.lock().violate(format!("the end took {:?}", began.elapsed()));
        }
        sleep(Duration::from_millis(100)).await;
        {
            let mut client = client.lock();
            // A request that is in the pipe when we are told to stop is not read.
            let is_read =
                |open: &Open| ending != Ending::Stop || began > open.sent + Duration::from_millis(1);
            let unanswered = client.open.iter().filter(|(_, open)| open.cancelled.is_none() && is_read(open));
            let unanswered: Vec<_> = unanswered.map(|(id, open)| format!("{:?} {id}", open.kind)).collect();
            if !unanswered.is_empty() && ending != Ending::Gone && was_reading {
                client.violate(format!("no answer at the end: {unanswered:?}"));
            }
            client.check_servers();
            client.check_lost_state();
        }
        tasks.shutdown().await;
        drop((to_proxy, reads, stop));
        let weak_groups = Arc::downgrade(&groups);
        drop(groups);
        sleep(Duration::from_secs(10)).await;
        let mut violations = std::mem::take(&mut client.lock().violations);
        if weak_groups.strong_count() + weak_client.strong_count() > 0 {
            violations.push("somebody still has the groups or the client".to_owned());
        }
        for (name, state) in &self.servers.0 {
            if !state.lock().connections.is_empty() {
                violations.push(format!("{name} still runs"));
            }
        }
        self.played.violations.append(&mut violations);
        for (what, count) in &client.lock().statistics {
            *self.played.statistics.entry(what).or_default() += count;
        }
    }
}

impl Session {
    fn send(&self, line: String) {
        drop(self.to_proxy.send((Duration::ZERO, line)));
    }

    fn cancel(&self, pick: usize) {
        let mut client = self.client.lock();
        let mut open: Vec<_> = client
            .open
            .iter_mut()
            .filter(|(id, open)| open.cancelled.is_none() && *id != "\"init\"")
            .collect();
        let count = open.len();
        let Some((id, open)) = (count > 0).then(|| &mut open[pick % count]) else { return };
        open.cancelled = Some(Instant::now());
        // It may have ended all the same.
        let ended = (open.kind == RequestKind::Unsubscribe)
            .then(|| ((open.server, open.expected.clone()), open.sent));
        let task_of = (open.kind == RequestKind::TaskResult).then_some(open.server);
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        client.lost_results.extend(task_of);
        if let Some((topic, sent)) = ended {
            client.end_subscription(&topic, sent);
        }
        drop(client);
        self.send(line);
    }

    fn read(&self, reads: bool) {
        let mut client = self.client.lock();
        if client.is_paused || !reads {
            client.paused = Some(Instant::now());
        }
        client.is_paused = !reads;
        drop(client);
        self.reads.send_replace(reads);
    }
}

fn open(kind: RequestKind, server: usize) -> Open {
    Open {
        kind,
        server,
        tool: "",
        expected: String::new(),
        nonce: String::new(),
        sent: Instant::now(),
        cancelled: None,
        bound: BOUND,
    }
}

fn noise_line(noise: ClientNoise) -> &'static str {
    match noise {
        ClientNoise::RootsChanged => r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        ClientNoise::UnknownNotification => r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
        ClientNoise::CancelUnknown => {
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}"#
        }
        ClientNoise::NoJson => "hello",
        ClientNoise::NoMessage => r#"{"jsonrpc":"2.0"}"#,
        ClientNoise::Batch => r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#,
        ClientNoise::UnknownAnswer => r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
    }
}

fn capabilities(can_answer: bool) -> Value {
    match can_answer {
        true => {
            json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {"form": {}, "url": {}}})
        }
        false => json!({}),
    }
}

/// Reads what the proxy writes, while the client reads.
async fn read(
    client: Arc<Mutex<Client>>,
    mut input: ReadHalf<tokio::io::DuplexStream>,
    mut reads: watch::Receiver<bool>,
    replies: mpsc::UnboundedSender<(Duration, String)>,
) {
    let (mut buffer, mut unread) = (vec![0; 64 << 10], Vec::new());
    loop {
        if reads.wait_for(|reads| *reads).await.is_err() {
            return;
        }
        let count = tokio::select! {
            biased;
            _ = reads.changed() => continue,
            count = input.read(&mut buffer) => count.unwrap_or(0),
        };
        if count == 0 {
            if !unread.is_empty() && !client.lock().is_ending {
                client.lock().violate("the output ends with half a line");
            }
            return;
        }
        unread.extend_from_slice(&buffer[..count]);
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            client.lock().receive(&line[..end], &replies);
        }
    }
}

/// Writes what the client sends. A delay of `MAX` closes the pipe.
async fn write(
    mut output: WriteHalf<tokio::io::DuplexStream>,
    mut lines: mpsc::UnboundedReceiver<(Duration, String)>,
) {
    let mut late = JoinSet::new();
    loop {
        let received = tokio::select! {
            received = lines.recv() => received,
            Some(Ok(line)) = late.join_next() => Some((Duration::ZERO, line)),
        };
        let Some((delay, mut line)) = received else { return };
        if delay == Duration::MAX {
            drop(output.shutdown().await);
            return;
        }
        if !delay.is_zero() {
            late.spawn(async move {
                sleep(delay).await;
                line
            });
            continue;
        }
        line.push('\n');
        if output.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}
