//! `dynamic-mcp check [NAME]…`: starts the servers of the config and reports of each whether it works, and why not.
//!
//! # Theory of operation
//!
//! The servers are started as an instance starts them (`instance::embedded`), so their errors, with what to do about
//! them, are the ones that a client would get. `findings` looks at the tools of the servers that work, `as_client`
//! finds out how a client starts us, and `table` prints.
//!
//! A server that cannot be used makes the exit code 1. A finding does not: the server works.

use super::config_files::{load_config, refuse_unknown};
use super::list_cost;
use super::started::{START_TIMEOUT, on_instance, wait_for_all};
use super::usage;
use clap::Args;
use config::env::Env;
use config::{Config, Endpoint, Mode, Overrides, SurfaceKind};
use import::apps::ClientApp;
use import::running_twice;
use instance::InstanceOptions;
use process::launch::prepare;
use process::processes::ProcessTree;
use serde::Serialize;
use std::cell::LazyCell;
use std::ffi::OsString;
use std::process::ExitCode;
use terminal::outcome::{EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED};
use terminal::table::Layout;
use upstream::{State, Upstream};

mod as_client;
mod findings;
mod launcher;
mod overrides;
mod table;

/// Start the servers and report what works, what does not, and what to do about it
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp check\n  dynamic-mcp check files docs\n  dynamic-mcp check --as claude-desktop"
)]
pub struct CheckArgs {
    /// The names of servers in the config; all by default
    #[arg(value_name = "SERVER")]
    pub names: Vec<String>,
    /// Start the servers with the PATH, the environment and the entry of this client
    #[arg(long = "as", value_name = "CLIENT")]
    pub client: Option<ClientApp>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is known of a server after it was started.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedServer {
    /// Its name.
    name: String,
    /// Whether it can be used.
    works: bool,
    /// Why it cannot be used, and what to do about it.
    error: Option<String>,
    /// The program that is started, or the origin of the URL.
    runs: Option<String>,
    /// How long connecting took, in milliseconds.
    connect_ms: Option<u64>,
    /// The number of its tools that the config allows.
    tools: Option<usize>,
    /// What the list of these tools costs, in tokens.
    tokens: Option<usize>,
    /// What is doubtful in its config entry.
    warnings: Vec<String>,
    /// What to know about a server that works.
    findings: Vec<String>,
}

/// What `check` found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    /// With a client: where the environment and the options are from.
    environment: Vec<String>,
    /// The servers, in the order of the config.
    servers: Vec<CheckedServer>,
    /// What is wrong with the config.
    errors: Vec<String>,
    /// The servers that the config disables, and how to enable them.
    disabled: Vec<String>,
    /// What is doubtful in the config, apart from the entries of servers.
    warnings: Vec<String>,
    /// Which profile is in use, and how many servers it leaves out, in one line.
    profile: Option<String>,
    /// What the lists of tools cost the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cost: Vec<String>,
}

/// Starts the servers and prints what was found.
///
/// # Errors
///
/// Fails if the config has no such server or profile, the servers cannot be started at all, or stdout cannot be
/// written. A server that does not work is in the report, and gives `EXIT_FAILURE`.
pub async fn check(args: &CheckArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let mut report = CheckReport::default();
    let (mut env, mut process_env, mut of_client) = (env.clone(), env.clone(), None);
    if let Some(client) = args.client {
        let start = as_client::client_start(client, &env, &options.config_args(&env)).await;
        (env, process_env, report.environment) = (start.env, start.ambient, start.notes);
        if !options.names_files {
            of_client = options_of_entry(start.args, options, &env, &mut report.errors);
        }
    }
    let options = of_client.as_ref().unwrap_or(options);
    let overrides = Overrides { mode: Some(Mode::Eager), ..Overrides::default() };
    let mut config = load_config(overrides, options, &env)?;
    refuse_unknown(&args.names, &config)?;
    report.profile = config.profile_summary();
    config
        .servers
        .retain(|(known, _)| args.names.is_empty() || args.names.iter().any(|name| known.as_str() == name));
    report.errors.extend(config.errors.iter().map(ToString::to_string));
    report.disabled = config.disabled.iter().map(|server| format!("{}: {server}", server.name)).collect();
    report.warnings = config.warnings.iter().map(ToString::to_string).collect();
    report.warnings.extend(options.files.last().map(|file| running_twice(file, &env)).unwrap_or_default());
    let is_empty = config.servers.is_empty();
    let surface = options.overrides.surface.unwrap_or(config.settings.surface);
    let has_own_tools = [surface, config.settings.surface] == [SurfaceKind::Meta; 2];
    if !is_empty {
        let with_cost = has_own_tools && args.names.is_empty();
        let Some(found) = start_all(config, options, &env, process_env, with_cost).await? else {
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        };
        (report.servers, report.cost) = found;
        if let Some(client) = args.client {
            let tokens = report.servers.iter().filter_map(|server| server.tokens).sum();
            let waits = !options.session.first_list_wait.is_zero();
            report.warnings.extend(as_client::surface_warning(client, surface, tokens, waits, &env));
        }
    }
    match args.json {
        true => terminal::payload(format!("{}\n", serde_json::to_string(&report)?).as_bytes())?,
        false => terminal::print(&table::table(&report, Layout::of_stdout(0, &env)).wrapped())?,
    }
    let works = report.errors.is_empty() && report.servers.iter().all(|server| server.works);
    Ok(match (is_empty, works) {
        (true, _) => ExitCode::from(EXIT_CONFIG),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_FAILURE),
    })
}

/// Returns the options that our entry in a client's file has, with the profile of `ours` if there is one. What is wrong
/// with the entry is reported, as an instance does.
fn options_of_entry(
    args: Vec<OsString>,
    ours: &InstanceOptions,
    env: &Env,
    errors: &mut Vec<String>,
) -> Option<InstanceOptions> {
    let (cli, wrong) = usage::parse(std::iter::once("dynamic-mcp".into()).chain(args)).ok()?;
    errors
        .extend(wrong.into_iter().map(|error| format!("in `args` of the client's entry: {}", error.message)));
    let mut options = cli.instance_options(env);
    options.overrides.profile = ours.overrides.profile.clone().or(options.overrides.profile);
    Some(options)
}

/// Starts all servers, and ends them once each has answered or failed, or after `START_TIMEOUT`. Returns what is known of
/// each, and what the lists cost if that is wanted. `None`: a signal came.
///
/// # Errors
///
/// Fails if the instance cannot be started.
async fn start_all(
    config: Config,
    options: &InstanceOptions,
    env: &Env,
    process_env: Env,
    with_cost: bool,
) -> anyhow::Result<Option<(Vec<CheckedServer>, Vec<String>)>> {
    let mut programs = Vec::new();
    for (_, server) in &config.servers {
        programs.push(match server.as_ref().map(|server| &server.endpoint) {
            Ok(Endpoint::Stdio(stdio)) => prepare(stdio, &process_env, std::time::Duration::ZERO)
                .await
                .ok()
                .map(|launch| launch.program.display().to_string()),
            // The rest of a URL may hold a key.
            Ok(Endpoint::Http(http)) => {
                url::Url::parse(&http.url).ok().map(|url| url.origin().ascii_serialization())
            }
            Err(_) => None,
        });
    }
    // The client may start us in another directory.
    let files = options.files.iter().map(|file| env.cwd().join(file)).collect();
    let options = InstanceOptions { files, ..options.clone() };
    on_instance(config, &options, process_env, async |instance| {
        wait_for_all(instance).await;
        let processes: LazyCell<ProcessTree> = LazyCell::new(ProcessTree::read);
        let groups = instance.groups.all().into_iter().zip(programs);
        let servers = groups.map(|(group, runs)| checked(&group, runs, &processes)).collect();
        (servers, if with_cost { list_cost::lines(&instance.groups) } else { Vec::new() })
    })
    .await
}

fn checked(group: &Upstream, runs: Option<String>, processes: &LazyCell<ProcessTree>) -> CheckedServer {
    let snapshot = group.snapshot();
    let mut server = CheckedServer {
        name: group.name.as_str().to_owned(),
        runs,
        warnings: snapshot.config_warnings().collect(),
        ..CheckedServer::default()
    };
    let (State::Connected, Some(catalog)) = (&snapshot.state, &snapshot.catalog) else {
        let error = snapshot.last_failure().map(ToString::to_string);
        server.error = Some(error.unwrap_or_else(|| {
            let line = group.startup_line().map(|line| format!("; the last line of its stderr: {line}"));
            format!("it was not ready within {} s{}", START_TIMEOUT.as_secs(), line.unwrap_or_default())
        }));
        return server;
    };
    let definitions = catalog.definitions().into_iter().flatten();
    let usable: Vec<_> = definitions.filter(|(tool, _)| snapshot.rules.allows(&tool.name)).collect();
    server.works = true;
    server.connect_ms = catalog.connect_time.and_then(|took| u64::try_from(took.as_millis()).ok());
    server.tools = Some(usable.len());
    server.tokens = Some(snapshot.tool_tokens());
    server.findings = findings::of(group, &usable);
    server.findings.extend(overrides::of(group));
    server.findings.extend(launcher::of(group, processes));
    server
}
