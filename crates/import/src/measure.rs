//! `--measure`: what the clients start today, and what they would start with dynamic-mcp.
//!
//! Each server is started once, through the warden, as a client starts it: a process of its own that stays. A client
//! starts all of its servers in each of its windows, so its figures are their sums, and the start takes as long as the
//! slowest of them. Then this program is started as a client starts it, on the same servers, twice: first with an empty
//! cache, which it fills as it does once a day, and then as always. The second start is measured.
//!
//! `measure_progress` says on stderr how far it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep};

use super::clients::apps::ClientApp;
use super::files::edit::{ObjectEdit, edit};
use super::files::write;
use super::merge::PlannedServer;
use super::source::{read_text, servers_keys, understood};
use base::private_files;
use base::text::{self, counted, name, shorten, visible};
use config::env::Env;
use config::load::load;
use config::{Config, Mode, Overrides, Share};
use instance::embedded::wait_for_groups;
use instance::program_client::ProgramClient;
use instance::{Instance, InstanceOptions};
use measure_progress::MeasureProgress;
use process::processes::ProcessTree;
use terminal::VisibleText;
use upstream::cache::Cache;
use upstream::catalog::tool::model_tokens;
use upstream::groups::startup_info::StartupInfo;
use upstream::{State, Upstream};

mod measure_progress;

/// How long all servers together may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// How often the processes are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long a process is given to take the memory that it takes.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// The longest reason for a server that did not start, in characters.
const MAX_REASON: usize = 100;

/// What was measured of one server, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    processes: usize,
    /// The proportional set size in bytes; `None` if the system does not tell.
    memory: Option<u64>,
    start: Duration,
    /// The estimated tokens that the model reads of the definitions.
    tokens: usize,
}

impl Figures {
    /// Creates the figures of several that start at the same time.
    fn sum<'f>(all: impl IntoIterator<Item = &'f Self>) -> Self {
        all.into_iter().fold(Self { memory: Some(0), ..Self::default() }, |sum, one| Self {
            processes: sum.processes + one.processes,
            memory: sum.memory.zip(one.memory).map(|(a, b)| a + b),
            start: sum.start.max(one.start),
            tokens: sum.tokens + one.tokens,
        })
    }

    fn columns(&self) -> String {
        let memory =
            self.memory.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0} MB", bytes as f64 / 1e6));
        format!(
            "{:>9} {:>9} {:>8} {:>9}",
            self.processes,
            memory,
            format!("{:.2} s", self.start.as_secs_f64()),
            format!("~{}", self.tokens)
        )
    }
}

/// The heads of the columns.
const COLUMNS: &str = "processes    memory    start    tokens";

/// Starts the servers and this program, and returns what to print about it. A server that has not started within
/// `START_TIMEOUT` is named in it. `target` is servers.json, and `config` is the text that it will have. `options` say
/// where logins are.
///
/// # Errors
///
/// Fails if the temporary files cannot be written, or this program cannot be started, does not answer or does not exit.
pub(crate) async fn measure(
    servers: &[PlannedServer],
    target: &Path,
    config: &str,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<VisibleText> {
    let files = TemporaryFiles::create(target, config)?;
    let mut loaded = load(std::slice::from_ref(&files.config), env, &Overrides::default());
    let is_of_client =
        |name: &str| servers.iter().any(|server| server.name == name && !server.origins.is_empty());
    loaded.servers.retain(|(name, _)| is_of_client(name.as_str()));
    let mut progress = MeasureProgress::new(loaded.servers.iter().map(|(name, _)| name.to_string()));
    let before = measure_servers(loaded, options, env, &mut progress).await;
    files.disable(before.iter().filter(|(_, figures)| figures.is_err()).map(|(server, _)| server))?;
    let after = measure_own(&files, &mut progress).await?;
    drop(progress);
    Ok(table(servers, &before, &after))
}

type Measured = BTreeMap<String, Result<Figures, String>>;

/// Starts all servers, measures each that starts within `START_TIMEOUT`, and ends them.
async fn measure_servers(
    mut config: Config,
    options: &InstanceOptions,
    env: &Env,
    progress: &mut MeasureProgress,
) -> Measured {
    for server in config.servers.iter_mut().filter_map(|(_, server)| server.as_mut().ok()) {
        let server = Arc::make_mut(server);
        server.common.mode = Mode::Eager;
        server.common.share = Share::Client;
    }
    // It neither writes nor uses what the user's own instances have learned.
    let options = InstanceOptions { cache_dir: None, pins_dir: None, ..options.clone() };
    let cache = Cache::open(None);
    let (env, startup) = (Arc::new(env.clone()), StartupInfo::default());
    let Instance { groups, .. }: Instance = Instance::new(config, cache, &options, env, startup, true);
    groups.start().await;
    wait_for_groups(&groups, START_TIMEOUT, is_starting, |all, _| {
        all.iter().filter(|group| !is_starting(group)).for_each(|group| {
            progress.server_ended(group.name.as_str(), matches!(group.snapshot().state, State::Connected));
        });
    })
    .await;
    sleep(SETTLE_TIME).await;
    let tree = ProcessTree::read();
    let measured =
        groups.all().iter().map(|group| (group.name.as_str().to_owned(), figures(group, &tree))).collect();
    groups.shutdown().await;
    measured
}

/// Returns whether a server is neither connected nor has failed to be.
fn is_starting(group: &Upstream) -> bool {
    let snapshot = group.snapshot();
    let has_failed = snapshot.attempted && snapshot.connecting.is_none();
    !matches!(snapshot.state, State::Connected) && !has_failed
}

fn figures(group: &Upstream, tree: &ProcessTree) -> Result<Figures, String> {
    let snapshot = group.snapshot();
    let (State::Connected, Some(catalog)) = (&snapshot.state, &snapshot.catalog) else {
        let reason = snapshot.last_failure().map_or_else(
            || format!("it did not start within {} s", START_TIMEOUT.as_secs()),
            |error| visible(error.to_string().lines().next().unwrap_or_default()),
        );
        return Err(reason);
    };
    let process = snapshot.process().map(|process| process.pid);
    let definitions = catalog.definitions().into_iter().flatten();
    Ok(Figures {
        processes: process.map_or(0, |pid| tree.count(pid)),
        memory: process.map_or(Some(0), |pid| tree.memory(pid)),
        start: catalog.connect_time.unwrap_or_default(),
        tokens: definitions.map(|(_, definition)| model_tokens(definition)).sum(),
    })
}

/// Starts this program twice and measures the second time.
///
/// # Errors
///
/// Fails if it cannot be started, does not answer or does not exit.
async fn measure_own(files: &TemporaryFiles, progress: &mut MeasureProgress) -> anyhow::Result<Figures> {
    let args = ["--log-level=error".as_ref(), "--config".as_ref(), files.config.as_os_str()];
    let dirs = [("XDG_CACHE_HOME", files.dir.as_path()), ("XDG_STATE_HOME", files.dir.as_path())];
    progress.phase("starting dynamic-mcp on the same servers: the first time, with an empty cache");
    let mut first = ProgramClient::start(&args, &dirs)?;
    first.initialize().await?;
    first.client.list_tools().await?;
    wait_until_alone(first.pid()).await;
    first.shut_down().await?;
    progress.phase("starting dynamic-mcp on the same servers: the second time, as always");
    let began = Instant::now();
    let mut second = ProgramClient::start(&args, &dirs)?;
    second.initialize().await?;
    let tools = second.client.list_tools().await?;
    let start = began.elapsed();
    sleep(SETTLE_TIME).await;
    let tree = ProcessTree::read();
    let pid = second.pid();
    let figures = Figures {
        processes: pid.map_or(1, |pid| tree.count(pid)),
        memory: pid.and_then(|pid| tree.memory(pid)),
        start,
        tokens: tools.iter().map(|tool| model_tokens(&tool.to_string().into())).sum(),
    };
    second.shut_down().await?;
    Ok(figures)
}

/// Waits until the servers that were started to learn their tools are closed again, and only the warden is left, but
/// for `START_TIMEOUT` at most. Does not wait without a pid.
async fn wait_until_alone(pid: Option<u32>) {
    const ALONE: usize = 2;
    const TIMES: usize = 5;
    let Some(pid) = pid else { return };
    let deadline = Instant::now() + START_TIMEOUT;
    let mut times = 0;
    sleep(SETTLE_TIME).await;
    while times < TIMES && Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
        times = if ProcessTree::read().count(pid) <= ALONE { times + 1 } else { 0 };
    }
}

fn table(servers: &[PlannedServer], measured: &Measured, after: &Figures) -> VisibleText {
    let mut out = VisibleText::default();
    out.paragraph(format_args!("{:<28} {COLUMNS}", "Each server, started once"));
    let mut failed = 0;
    for (server, figures) in measured {
        match figures {
            Ok(figures) => out.line(format_args!("  {:<26} {}", name(server), figures.columns())),
            Err(reason) => {
                failed += 1;
                out.line(format_args!(
                    "  {:<26} did not start: {}",
                    name(server),
                    shorten(reason, MAX_REASON)
                ));
            }
        }
    }
    out.paragraph(format_args!("{:<28} {COLUMNS}", "Per instance"));
    for app in ClientApp::all() {
        let is_on = |server: &&PlannedServer| server.origins.iter().any(|origin| origin.app == app);
        let of_app = servers.iter().filter(is_on);
        let started: Vec<&Figures> =
            of_app.filter_map(|server| measured.get(&server.name)?.as_ref().ok()).collect();
        if !started.is_empty() {
            let today = format!("{} today", app.label);
            out.line(format_args!("  {today:<26} {}", Figures::sum(started).columns()));
        }
    }
    out.line(format_args!("  {:<26} {}", "each with dynamic-mcp", after.columns()));
    out.line(format_args!(
        "Memory is proportional: what processes share counts in parts. Tokens of the listed tools are estimated. \
         A server starts when it is used, and is closed when it is idle."
    ));
    if failed > 0 {
        out.line(format_args!(
            "{} did not start and {} not counted.",
            counted(failed, "server"),
            if failed == 1 { "is" } else { "are" }
        ));
    }
    out
}

/// The config that is measured, and a directory for the cache. Both are removed at the end.
struct TemporaryFiles {
    config: PathBuf,
    dir: PathBuf,
}

impl TemporaryFiles {
    fn create(target: &Path, text: &str) -> anyhow::Result<Self> {
        let id = std::process::id();
        let dir = std::env::temp_dir().join(format!("dynamic-mcp-measure-{id}"));
        // This fails if the directory exists, so that no other user can have prepared it.
        private_files::make_dir(&dir).with_context(|| format!("cannot create {}", text::path(&dir)))?;
        let config = match target.exists() {
            // Its relative paths start there.
            true => target.with_file_name(format!(".measured-{id}.json")),
            false => dir.join("servers.json"),
        };
        let files = Self { config, dir };
        write::replace(&files.config, None, text)?;
        Ok(files)
    }

    /// Disables servers that did not start: they are not counted, and what tries to start them must not be, either.
    fn disable<'n>(&self, servers: impl Iterator<Item = &'n String>) -> anyhow::Result<()> {
        let text = read_text(&self.config)?.unwrap_or_default();
        let keys = servers_keys(&self.config, &understood(&self.config, &text)?);
        let disable = |server: &String| {
            let entry = keys.iter().chain([server]).cloned().collect();
            ObjectEdit::set(entry, vec![("enabled".to_owned(), false.into())])
        };
        let edits: Vec<_> = servers.map(disable).collect();
        let edited = edit(&self.config, &text, &edits).map_err(anyhow::Error::msg)?;
        Ok(write::replace(&self.config, Some(&text), &edited)?)
    }
}

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.config));
        drop(fs::remove_dir_all(&self.dir));
    }
}
