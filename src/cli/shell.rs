//! `dynamic-mcp tools`, `search`, `call`, `resources` and `prompts`: the servers of the config, at the terminal.
//!
//! # Theory of operation
//!
//! Each command is an MCP client of an instance of its own in the same process (`instance::embedded`). The instance has the
//! same config, cache, pins, logins and shared servers as one that a client starts, and answers by the same code, so
//! every rule, repair, approval and search is the same. `forms` asks the person at the terminal what the instance asks
//! its client. `run` starts and ends the instance, and `print` writes the answers.
//!
//! Only servers that a command needs are started: the server of the call, or the servers whose tools are not in the
//! cache. Resources and prompts are not cached, so they need all servers or the named one.

use anyhow::{Context, bail};
use clap::Args;
use config::env::Env;
use config::{Mode, Overrides, SurfaceKind};
use front::arguments::{SearchQuery, without_line_ends};
use front::call::large_results::{self, SelectError};
use front::names::exposed_names::exposed_names;
use front::names::own_tools::{CALL_DYNAMIC_TOOL, GET_DYNAMIC_TOOLS};
use front::tools::own_prompts;
use front::tools::search::ToolSearch;
use instance::InstanceOptions;
use instance::embedded::EmbeddedInstance;
use jq::JqRunner;
use print::Printout;
use run::{run, wait_for_discovery};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::io::{self, Read};
use std::process::ExitCode;
use terminal::outcome::{CommandError, EXIT_FAILURE, EXIT_TOOL_ERROR, EXIT_USAGE};
use upstream::State;
use wire::protocol::methods::Method;
use wire::{Raw, raw};

pub(super) mod forms;
mod print;
mod run;

/// List the tools of all servers, the signatures of one server's tools, or the definition of one tool
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp tools\n  dynamic-mcp tools files\n  dynamic-mcp tools files read_file"
)]
pub struct ToolsArgs {
    /// The name of a server in the config
    #[arg(value_name = "SERVER")]
    pub group: Option<String>,
    /// The name of one of its tools
    pub tool: Option<String>,
    /// Print the definitions as JSON
    #[arg(long)]
    pub json: bool,
}

/// Search the tools of all servers
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dynamic-mcp search read a file")]
pub struct SearchArgs {
    /// What the tool should do
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Search the tools of this server only
    #[arg(long = "server", alias = "group", value_name = "SERVER")]
    pub group: Option<String>,
    /// The largest number of results, up to 20
    #[arg(long)]
    pub limit: Option<usize>,
    /// Print the tools and their definitions as JSON
    #[arg(long)]
    pub json: bool,
}

/// Call a tool
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dynamic-mcp call files read_file '{\"path\": \"notes.txt\"}'\n  dynamic-mcp call files list '{}' --select '.entries[].name'"
)]
pub struct CallArgs {
    /// The name of the server in the config
    #[arg(value_name = "SERVER")]
    pub group: String,
    /// The name of the tool
    pub tool: String,
    /// The tool's arguments, as a JSON object; - reads them from stdin
    #[arg(default_value = "{}")]
    pub args: String,
    /// Print only what this jq program makes of the result
    ///
    /// It runs over the structured content of the result, else over its text if that is JSON.
    #[arg(long, value_name = "PROGRAM", allow_hyphen_values = true)]
    pub select: Option<String>,
    /// Print the raw result
    #[arg(long)]
    pub json: bool,
}

/// List the resources or prompts of all servers, or of one
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The name of a server in the config
    #[arg(value_name = "SERVER")]
    pub group: Option<String>,
    /// Print the raw result
    #[arg(long)]
    pub json: bool,
}

/// Prints the tools of all servers, or of one.
///
/// # Errors
///
/// Fails if the config has no server that can be used, the instance cannot be started or does not answer, or stdout
/// cannot be written.
pub async fn tools(args: &ToolsArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    // As flat as a client can see them, so that JSON has the definitions.
    let surface = args.json.then_some(SurfaceKind::Flat);
    let overrides = Overrides { mode: Some(Mode::Hybrid), surface, ..Overrides::default() };
    run(overrides, args.group.as_deref(), options, env, async |instance| {
        wait_for_discovery(instance).await;
        match (args.json, &args.group) {
            (true, _) => {
                let list = instance.client.request(Method::ToolsList, &Raw::from_static(b"{}")).await?;
                let names = exposed_names(&instance.groups);
                let own = print::without_own_tools(&list, args.tool.as_deref(), &names);
                Ok(Printout::text(own).with_failures(&instance.groups.all()))
            }
            (false, None) => {
                let groups = instance.groups.all();
                Ok(Printout::text(print::overview(&groups).to_string()).with_failures(&groups))
            }
            (false, Some(group)) => {
                let arguments = match &args.tool {
                    None => json!({ "group": group, "detail": "signature" }),
                    Some(tool) => json!({ "group": group, "tools": [tool] }),
                };
                let result =
                    instance.client.call_tool(GET_DYNAMIC_TOOLS, arguments.to_string().as_bytes()).await?;
                Ok(Printout::result(&result, false, EXIT_FAILURE).for_people(&options.config_args(env)))
            }
        }
    })
    .await
}

/// Prints the tools that match a search.
///
/// # Errors
///
/// Fails if the config has no server that can be used, the instance cannot be started, or stdout cannot be written.
pub async fn search(args: &SearchArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let overrides = Overrides { mode: Some(Mode::Hybrid), ..Overrides::default() };
    run(overrides, args.group.as_deref(), options, env, async |instance| {
        wait_for_discovery(instance).await;
        let query = SearchQuery { query: args.query.join(" "), group: args.group.clone(), limit: args.limit };
        let found = ToolSearch::default().search(&instance.groups, &query).await;
        let config_args = options.config_args(env);
        let groups = instance.groups.all();
        Ok(match found {
            Ok(found) if args.json => Printout::lines(String::from_utf8_lossy(&found.json()).into_owned()),
            Ok(found) => Printout::lines(found.without_unavailable().text()).for_people(&config_args),
            Err(text) => Printout::failure(text).for_people(&config_args),
        }
        .without_failed(&groups, &config_args))
    })
    .await
}

/// Calls a tool and prints its result. Reads the arguments before from stdin if they are `-`. `--select` is checked
/// before the call.
///
/// # Errors
///
/// Fails if the arguments are no JSON object or cannot be read, `--select` is invalid, the config has no server that
/// can be used, the instance cannot be started or does not answer, or stdout cannot be written. A tool that reports an
/// error gives an exit code.
pub async fn call(args: &CallArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let given = match args.args.as_str() {
        "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read the arguments from stdin")?;
            text
        }
        text => text.to_owned(),
    };
    let is_object = given.trim_start().starts_with('{');
    match serde_json::from_str::<&RawValue>(&given) {
        Ok(_) if is_object => {}
        Ok(_) => bail!(usage(format!("the arguments must be a JSON object, such as {EXAMPLE}"))),
        Err(error) => {
            let why = error.to_string().replace("expected ident", "a value is not in quotes");
            bail!(usage(format!("the arguments are not JSON: {why}; write, for example, {EXAMPLE}")));
        }
    }
    // A message is one line.
    let given = without_line_ends(given.trim().to_owned().into());
    if let Some(program) = &args.select {
        let checked = JqRunner::default().check(program).await;
        checked.map_err(|error| usage(format!("--select: {error}; the tool was not called")))?;
    }
    let overrides = Overrides { mode: Some(Mode::Pure), ..Overrides::default() };
    run(overrides, None, options, env, async |instance| {
        let arguments = json!({ "group": args.group, "name": args.tool }).to_string().into();
        let arguments = raw::set(&arguments, "args", &given);
        let result = instance.client.call_tool(CALL_DYNAMIC_TOOL, &arguments).await?;
        // What fails before the server is asked is not the tool's error.
        let was_called = instance.groups.all().iter().any(|group| group.stats.calls() > 0);
        let error_code = if was_called { EXIT_TOOL_ERROR } else { EXIT_FAILURE };
        let is_error = raw::get(&result, "isError").is_some_and(|value| value[..] == *b"true");
        if is_error && !was_called && !args.json {
            // The text is for a model, which may wait and call again.
            let group = instance.groups.get_by_name(&args.group);
            return Ok(match group.filter(|group| matches!(group.snapshot().state, State::Failed(_))) {
                Some(group) => Printout::default().with_failures(&[group]),
                None => Printout::result(&result, false, error_code).for_people(&options.config_args(env)),
            });
        }
        let Some(program) = &args.select else { return Ok(Printout::result(&result, args.json, error_code)) };
        // Here rather than in the instance, whose texts tell a model how to read the result again.
        Ok(match large_results::derive(&JqRunner::default(), &result, program).await {
            Ok(Some(derived)) if args.json => Printout::result(&derived.result(), true, error_code),
            Ok(Some(derived)) => Printout::lines(derived.outputs),
            Ok(None) => Printout::result(&result, args.json, error_code),
            Err(SelectError { why, shape }) => Printout::failure(format!(
                "--select: {why}\nThe tool was called. The shape of its result: {shape}"
            )),
        })
    })
    .await
}

/// How arguments are written.
const EXAMPLE: &str = "'{\"path\": \"notes.txt\"}'";

/// The lists of `dynamic-mcp resources`.
pub const RESOURCE_LISTS: &[Method] = &[Method::ResourcesList, Method::ResourceTemplatesList];
/// The list of `dynamic-mcp prompts`.
pub const PROMPT_LISTS: &[Method] = &[Method::PromptsList];

/// Prints the entries of these lists.
///
/// # Errors
///
/// Fails if the config has no server that can be used, the instance cannot be started or does not answer, or stdout
/// cannot be written.
pub async fn list(
    args: &ListArgs,
    methods: &[Method],
    options: &InstanceOptions,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let overrides = Overrides { mode: Some(Mode::Eager), ..Overrides::default() };
    run(overrides, args.group.as_deref(), options, env, async |instance| {
        wait_for_discovery(instance).await;
        let mut lists = Map::new();
        for method in methods {
            all_pages(instance, *method, &mut lists).await?;
        }
        if let Some(Value::Array(prompts)) = lists.get_mut("prompts") {
            // Our own is for models.
            prompts.retain(|prompt| !own_prompts::is_ours(&prompt["name"]));
        }
        let all = Value::Object(lists);
        let text = if args.json { format!("{all}\n") } else { print::entries(&all).to_string() };
        Ok(Printout::text(text).with_failures(&instance.groups.all()))
    })
    .await
}

/// Requests all pages of a list and adds them to `lists`, under the name of the list.
///
/// # Errors
///
/// Fails if the instance answers with an error, or not at all.
async fn all_pages(
    instance: &EmbeddedInstance,
    method: Method,
    lists: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = instance.client.request(method, &params.to_string().into()).await?;
        let mut page: Map<String, Value> = serde_json::from_slice(&page)?;
        cursor = page.remove("nextCursor").unwrap_or_default();
        for (name, value) in page {
            if let Value::Array(mut entries) = value
                && let Value::Array(all) = lists.entry(name).or_insert_with(|| json!([]))
            {
                all.append(&mut entries);
            }
        }
        if cursor.is_null() {
            return Ok(());
        }
    }
}

/// Returns the error of a command line that is wrong.
fn usage(message: String) -> CommandError {
    CommandError::new(EXIT_USAGE, message)
}
