//! `check --share`: finds out which local servers the windows of a user can share, and proposes a value of `share`.
//!
//! # Theory of operation
//!
//! A server can be shared if nothing that one session gets depends on what another one did. So each server is started
//! many times, and every request must get the answer that it gets as the first of a fresh process: after each other
//! request, after many, beside others, and after a while. `procedure` has these steps, and `share_test` what each of them
//! does. The requests are calls of its read-only tools (`requests`, `arguments`), its resources and its prompts. `tested_server` has its processes, and `traces` what calls
//! leave in them and in the working directory. What a server says of itself decides only which tools are called.
//!
//! The config is not written: what no call showed, the user has to judge.

use crate::cli::config_files::{load_config, refuse_unknown};
use base::text::{joined_up_to, name, quoted};
use clap::Args;
use config::env::Env;
use config::{Config, ConfigError, Endpoint, GroupName, Overrides, ServerConfig, Share};
use import::ask::Answers;
use instance::InstanceOptions;
use instance::signals::interrupted;
use instance::stores::secret_keyring;
use process::launch::prepare;
use process::secrets::SecretResolver;
use process::warden::{StopTimeouts, Warden};
use requests::{CallsFile, GivenCall, choose, read_calls};
use serde::Serialize;
use serde_json::{Value, json};
use share_test::{ShareTest, TestEnd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE};
use terminal::{VisibleText, counted};
use tested_server::TestedServer;
use tokio::time::{Instant, timeout};

mod arguments;
mod procedure;
mod requests;
mod share_test;
mod tested_server;
mod traces;

/// How long the test of one server may take.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// How many tools are named.
const MAX_NAMED: usize = 5;

/// The options of `--share`.
#[derive(Args, Debug)]
pub struct ShareArgs {
    /// Find out which servers your clients can share, and propose a value of `share` (Linux only)
    #[arg(long, conflicts_with_all = ["client", "pin"])]
    pub share: bool,
    /// With `--share`, offer to call the tools that are not read-only as well
    #[arg(long, requires = "share")]
    pub all_tools: bool,
    /// With `--share`, make the calls in this JSON file in place of generated ones
    #[arg(long, value_name = "FILE", requires = "share")]
    pub calls: Option<PathBuf>,
    /// With `--share`, stop the test of a server after this time, in seconds or as 10m (default: 5m)
    #[arg(long, value_name = "DURATION", requires = "share", value_parser = crate::cli::parse_duration)]
    pub time_limit: Option<Duration>,
}

/// What to test, and how.
pub(super) struct ShareRequest<'a> {
    pub(super) options: &'a ShareArgs,
    /// The names of the servers; all if there are none.
    pub(super) names: &'a [String],
    /// Who allows the calls of tools that are not read-only.
    pub(super) answers: Answers,
    /// Whether the report is JSON.
    pub(super) json: bool,
}

/// What became of the test of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum ShareVerdict {
    /// No step found a reason against it.
    Shareable,
    /// It must stay private.
    Private,
    /// Not everything was tested.
    #[default]
    Incomplete,
}

/// What is known of a server after the test.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShareReport {
    /// Its name.
    name: String,
    verdict: ShareVerdict,
    /// The value of `share` to write.
    share: Option<&'static str>,
    /// Why it must stay private, or what was not tested.
    reasons: Vec<String>,
    /// How many requests it was tested with.
    requests: usize,
    /// How many of them were answered, each counted as often as it was made.
    answers: usize,
    /// How many processes were started.
    processes: usize,
    /// How long that took.
    seconds: u64,
}

/// Tests the servers one after the other, and prints what was found.
///
/// # Errors
///
/// Fails if the config has no such server, the file of calls cannot be used, stdout or the terminal cannot be used, or
/// the system is not Linux.
pub(super) async fn check_share(
    request: &ShareRequest<'_>,
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        return Err(CommandError::new(EXIT_USAGE, "servers are shared on Linux only").into());
    }
    let calls = request.options.calls.as_deref().map(read_calls).transpose()?.unwrap_or_default();
    let config = load_config(Overrides::default(), options, env)?;
    refuse_unknown(request.names, &config)?;
    refuse_unknown(&calls.keys().cloned().collect::<Vec<_>>(), &config)?;
    config.errors.iter().for_each(terminal::message);
    let warden = Warden::new();
    let reports = tokio::select! {
        reports = test_all(request, &calls, &config, env, &warden) => Some(reports),
        () = interrupted() => None,
    };
    // Whatever was not closed.
    warden.shutdown(StopTimeouts::FAST).await;
    let Some(reports) = reports.transpose()? else { return Ok(ExitCode::from(EXIT_INTERRUPTED)) };
    if request.json {
        terminal::payload(format!("{}\n", json!({"servers": reports})).as_bytes())?;
    }
    let is_complete = reports.iter().all(|report| report.verdict != ShareVerdict::Incomplete);
    Ok(match (reports.is_empty(), is_complete && config.errors.is_empty()) {
        (true, _) => ExitCode::from(EXIT_CONFIG),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(EXIT_FAILURE),
    })
}

async fn test_all(
    request: &ShareRequest<'_>,
    calls: &CallsFile,
    config: &Config,
    env: &Env,
    warden: &Warden,
) -> anyhow::Result<Vec<ShareReport>> {
    let env = Arc::new(env.clone());
    let secrets = SecretResolver::new(secret_keyring(&env), env.clone(), warden.clone());
    let mut reports = Vec::new();
    for (name, server) in &config.servers {
        if !request.names.is_empty() && !request.names.iter().any(|wanted| wanted == name.as_str()) {
            continue;
        }
        let began = Instant::now();
        let mut report = ShareReport { name: name.as_str().to_owned(), ..ShareReport::default() };
        match prepared(name, server, &secrets, &env, warden).await {
            Ok(mut server) => {
                server.max_message_bytes = config.settings.max_message_bytes;
                let given = calls.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
                test(request, &server, given, &mut report).await?;
            }
            Err(end) => report.end(end),
        }
        report.seconds = began.elapsed().as_secs();
        if !request.json {
            terminal::print(&report.text().wrapped())?;
        }
        reports.push(report);
    }
    Ok(reports)
}

/// Fetches the secrets of a server, and finds its program.
///
/// # Errors
///
/// The server has no process that could be shared, or cannot be started.
async fn prepared(
    name: &GroupName,
    server: &Result<Arc<ServerConfig>, ConfigError>,
    secrets: &SecretResolver,
    env: &Arc<Env>,
    warden: &Warden,
) -> Result<TestedServer, TestEnd> {
    let unfinished = |error: &dyn std::fmt::Display| TestEnd::Unfinished(error.to_string());
    let config = server.clone().map_err(|error| unfinished(&error))?;
    if config.common.stateful {
        return Err(TestEnd::Found("its entry says `stateful`".to_owned()));
    }
    let config = secrets.resolve(config).await.map_err(|error| unfinished(&error))?;
    let Endpoint::Stdio(stdio) = &config.endpoint else {
        return Err(TestEnd::Found("it is a remote server, which has no process here".to_owned()));
    };
    let launch = prepare(stdio, env, config.timeout.connect).await.map_err(|error| unfinished(&error))?;
    let (name, stdio, env, warden) = (name.clone(), stdio.clone(), env.clone(), warden.clone());
    Ok(TestedServer { name, config, stdio, launch, env, warden, max_message_bytes: 0 })
}

/// Tests a server and puts what is found into the report.
///
/// # Errors
///
/// Fails if the terminal cannot be used.
async fn test(
    request: &ShareRequest<'_>,
    server: &TestedServer,
    given: &[GivenCall],
    report: &mut ShareReport,
) -> anyhow::Result<()> {
    let mut test = match ShareTest::begin(server).await {
        Ok(test) => test,
        Err(end) => {
            report.end(end);
            return Ok(());
        }
    };
    let lists = test.lists.clone();
    let (read_only, others) = tools_by_kind(&server.config, &lists);
    let mut called = read_only;
    let mut missing = Vec::new();
    if !others.is_empty() {
        let named = named(&others);
        match request.options.all_tools && may_call_others(request, server, &named).await? {
            true => called.extend(others),
            false => missing.push(format!(
                "these tools are not read-only and were not called: {named}; `--all-tools` calls them"
            )),
        }
    }
    for call in given.iter().filter(|call| !called.iter().any(|tool| tool["name"] == *call.tool)) {
        missing.push(format!("{} in the file of calls is no tool that is called", quoted(&call.tool)));
    }
    test.set_requests(choose(&lists, &called, given));
    let limit = request.options.time_limit.unwrap_or(TIME_LIMIT);
    let end = timeout(limit, test.run(&mut missing)).await;
    (report.requests, report.answers, report.processes) = (test.requests.len(), test.answers, test.starts);
    drop(test);
    match end {
        Ok(Ok(share)) if missing.is_empty() => {
            (report.verdict, report.share) = (ShareVerdict::Shareable, Some(share));
        }
        Ok(Ok(_)) => {}
        Ok(Err(TestEnd::Found(why))) => {
            missing.clear();
            report.end(TestEnd::Found(why));
        }
        Ok(Err(end)) => report.end(end),
        Err(_) => missing
            .push(format!("it takes longer than {} s; `--time-limit` sets another limit", limit.as_secs())),
    }
    report.reasons.extend(missing);
    Ok(())
}

/// Returns the tools that the config allows: those that are read-only by the config, or by their annotations where these
/// count, and the others. A tool whose calls the user confirms is one of the others.
fn tools_by_kind<'l>(server: &ServerConfig, lists: &'l Value) -> (Vec<&'l Value>, Vec<&'l Value>) {
    let rules = server.rules();
    let tools = lists["tools"].as_array().into_iter().flatten();
    let usable = tools.filter(|tool| tool["name"].as_str().is_some_and(|own| rules.allows_own(own)));
    usable.partition(|tool| {
        let shown = tool["name"].as_str().and_then(|own| server.tools.overrides.shown_name(own));
        let claimed = tool["annotations"]["readOnlyHint"] == true;
        shown.is_some_and(|shown| rules.relies_on(shown, claimed) && rules.asks(shown).is_none())
    })
}

/// Says which tools are not read-only, and asks whether to call them.
async fn may_call_others(
    request: &ShareRequest<'_>,
    server: &TestedServer,
    named: &str,
) -> std::io::Result<bool> {
    let name = name(server.name.as_str());
    match request.answers {
        Answers::Terminal if !request.json => {
            let question = format!(
                "{name}: these tools are not read-only: {named}. Call them many times, in any order? What they do stays done."
            );
            Answers::Terminal.confirm(&question).await
        }
        Answers::Yes => {
            terminal::message(format_args!("{name}: calls tools that are not read-only: {named}"));
            Ok(true)
        }
        Answers::Terminal | Answers::Nobody => Ok(false),
    }
}

fn named(tools: &[&Value]) -> String {
    joined_up_to(MAX_NAMED, tools.iter().map(|tool| quoted(tool["name"].as_str().unwrap_or_default())))
}

/// After an import: says how many local servers have a process in each window, and what finds out whether they need it.
///
/// # Errors
///
/// Fails if the config cannot be read or stdout cannot be written.
#[cfg(target_os = "linux")]
pub fn hint_after_import(options: &InstanceOptions, env: &Env) -> anyhow::Result<()> {
    let config = load_config(Overrides::default(), options, env)?;
    let private = config.servers.iter().filter_map(|(_, server)| server.as_ref().ok()).filter(|server| {
        let is_local = matches!(server.endpoint, Endpoint::Stdio(_));
        is_local && server.effective_share() == Share::Auto && !sharing::is_shared(server)
    });
    let count = private.count();
    if count > 0 {
        let verb = if count == 1 { "has" } else { "have" };
        terminal::line(format_args!(
            "{} {verb} a process for each instance. `dynamic-mcp check --share{}` finds out which of them can be \
             shared.",
            counted(count, "local server"),
            options.config_args(env)
        ))?;
    }
    Ok(())
}

/// Nothing is shared.
#[cfg(not(target_os = "linux"))]
pub fn hint_after_import(_: &InstanceOptions, _: &Env) -> anyhow::Result<()> {
    Ok(())
}

impl ShareReport {
    fn end(&mut self, end: TestEnd) {
        let (verdict, share, why) = match end {
            TestEnd::Found(why) => (ShareVerdict::Private, Some(Share::Client.name()), why),
            TestEnd::Unfinished(why) => (ShareVerdict::Incomplete, None, why),
        };
        (self.verdict, self.share) = (verdict, share);
        self.reasons.push(why);
    }

    fn text(&self) -> VisibleText {
        let mut text = VisibleText::default();
        let name = name(&self.name);
        match (self.verdict, self.share) {
            (ShareVerdict::Shareable, Some(share)) => {
                text.line(format_args!("{name}: can be shared: add \"share\": \"{share}\" to its entry"));
            }
            (ShareVerdict::Private, _) => text.line(format_args!("{name}: must stay private")),
            _ => text.line(format_args!("{name}: not tested completely, so it stays private")),
        }
        self.reasons.iter().for_each(|reason| text.line(format_args!("    {reason}")));
        if self.processes > 0 {
            text.line(format_args!(
                "    {}, {} in all; {} starts, {} s",
                counted(self.requests, "request"),
                counted(self.answers, "answer"),
                self.processes,
                self.seconds
            ));
        }
        text
    }
}
