//! The binary: reads the environment, builds the runtime, runs the command and turns its outcome into an exit code.

use anyhow::Context;
use base::{blocking, memory, telemetry};
use config::dirs;
use config::dirs::expand_home;
use config::env::Env;
use dynamic_mcp::cli::servers::ServerEdit;
use dynamic_mcp::cli::usage::{self, UsageError};
use dynamic_mcp::cli::{self, CacheCommand, Cli, CliCommand, LogFormat, bundles, demo, servers, shell};
use import::ImportArgs;
use instance::InstanceOptions;
use instance::serve::{self, ServeOutcome};
#[cfg(target_os = "linux")]
use sharing::attach_helper;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use terminal::outcome::{self, CommandError, EXIT_USAGE};
use upstream::groups::startup_info::StartupInfo;

fn main() -> ExitCode {
    let mode = std::env::args_os().nth(1);
    let is_mode = |name: &str| mode.as_deref().is_some_and(|mode| mode == name);
    // The attach helper alone must be readable: it has no secrets, and the host looks at what confines it.
    #[cfg(target_os = "linux")]
    if is_mode(attach_helper::MODE_ARG) {
        return attach_helper::run(std::env::args_os().skip(2));
    }
    // First of all, for our process and for the warden, which both begin here.
    hide_from_other_processes();
    // Then at once: the warden must have a single thread and no open files.
    #[cfg(unix)]
    if is_mode(process::warden::MODE_ARG) {
        return process::warden::run();
    }
    if is_mode(jq::child::MODE_ARG) {
        return jq::child::run();
    }
    memory::configure();
    #[cfg(target_os = "linux")]
    if is_mode(sharing::MODE_ARG) {
        return sharing::host::run(std::env::args_os().skip(2));
    }
    match usage::parse(std::env::args_os()) {
        Ok((cli, errors)) => run(&cli, errors).unwrap_or_else(|error| {
            if !outcome::is_end_of_reader(&error) {
                terminal::message(format_args!("{error:#}"));
            }
            error.downcast_ref::<CommandError>().map_or(ExitCode::FAILURE, CommandError::exit_code)
        }),
        // 0 for help and the version.
        Err(answer) => {
            usage::print(&answer);
            u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// Keeps other processes of the user, such as the servers that we start, from reading our environment, memory and
/// descriptors in /proc, and from attaching a debugger (PR_SET_DUMPABLE, ptrace(2)). It also prevents core dumps.
///
/// Root and processes with CAP_SYS_PTRACE are not kept out. exec resets this, so servers are as readable as ever.
fn hide_from_other_processes() {
    // Fails only where a sandbox forbids prctl(2), and there is nothing to tell it to yet.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false).ok();
}

fn run(cli: &Cli, mut usage_errors: Vec<UsageError>) -> anyhow::Result<ExitCode> {
    let env = Env::of_process();
    // A log file is kept while clients are served.
    let serves = matches!(cli.command, None | Some(CliCommand::Serve(_)));
    let by_client = cli.command.is_none();
    // They say themselves which servers did not start.
    let options = cli.instance_options(&env);
    let quiet = cli.command.as_ref().filter(|command| command.starts_servers()).map(|_| "off");
    let log_dir = dirs::state_dir(&env).filter(|_| serves).map(|dir| dir.join("log"));
    let log = telemetry::init(telemetry::Options {
        level: cli.options.log_level.as_deref().or(quiet),
        filter: env.get("DYNAMIC_MCP_LOG"),
        file: cli.options.log_file.as_ref().map(|path| expand_home(path, &env)).as_deref(),
        dir: log_dir.as_deref(),
        no_color: env.get("NO_COLOR").is_some_and(|value| !value.is_empty()),
        json: cli.options.log_format == LogFormat::Json,
    });
    usage_errors.extend(log.errors.iter().map(UsageError::new));
    // A client that starts us does not show these to the user, so it is served nevertheless, and is told.
    if !usage_errors.is_empty() && (!by_client || io::stdin().is_terminal()) {
        return Ok(usage_exit(&usage_errors));
    }
    #[cfg(unix)]
    // Before anything counts its descriptors.
    process::warden::raise_nofile();
    let runtime = blocking::runtime().context("cannot start the async runtime")?;
    let outcome = runtime.block_on(async {
        survive_file_size_limit()?;
        match &cli.command {
            Some(command) => run_command(command, &options, &env).await,
            None => {
                let errors = usage_errors.iter().map(|error| error.message.clone()).collect();
                let startup = StartupInfo { errors, log_file: log.file.clone(), ..StartupInfo::default() };
                if io::stdin().is_terminal() {
                    terminal::to_stderr(format_args!("{TERMINAL_HINT}\n"));
                }
                match serve::serve(&options, env.clone(), startup).await? {
                    ServeOutcome::Served => return Ok(ExitCode::SUCCESS),
                    ServeOutcome::NoClient => {}
                    ServeOutcome::WrongProfile(error) => usage_errors.push(UsageError::new(error)),
                }
                Ok(if usage_errors.is_empty() { ExitCode::SUCCESS } else { usage_exit(&usage_errors) })
            }
        }
    });
    // A blocking thread that reads stdin cannot be cancelled. Waiting for it would delay the exit.
    runtime.shutdown_background();
    outcome
}

/// The text for a person who starts the program in a terminal.
const TERMINAL_HINT: &str = "dynamic-mcp speaks MCP on stdin and stdout and is started by a client, such as Claude Desktop or OpenCode.
To see what it does, run: dynamic-mcp demo
Waiting for JSON-RPC on stdin; end with Ctrl-D.";

/// Runs a command, and returns its exit code.
///
/// # Errors
///
/// The error of the command.
async fn run_command(command: &CliCommand, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Demo => demo::demo(env).await,
        CliCommand::Login(args) => cli::login::login(args, options, env).await,
        CliCommand::Logout { name } => cli::login::logout(name, options, env).await,
        CliCommand::Approve(args) => cli::approve::approve(args, options, env),
        CliCommand::Import(args) => import_servers(args, options, env).await,
        CliCommand::Secret { command } => cli::secrets::run(command, env).await,
        CliCommand::Add(args) if bundles::is_bundle(args) => bundles::add(args, options, env).await,
        CliCommand::Add(args) => servers::add(args, options, env).await,
        CliCommand::Remove(args) => servers::change(ServerEdit::Remove, args, options, env),
        CliCommand::Enable(args) => servers::change(ServerEdit::Enable, args, options, env),
        CliCommand::Disable(args) => servers::change(ServerEdit::Disable, args, options, env),
        CliCommand::Check(args) => cli::check::check(args, options, env).await,
        CliCommand::Tools(args) => shell::tools(args, options, env).await,
        CliCommand::Search(args) => shell::search(args, options, env).await,
        CliCommand::Call(args) => shell::call(args, options, env).await,
        CliCommand::Resources(args) => shell::list(args, shell::RESOURCE_LISTS, options, env).await,
        CliCommand::Prompts(args) => shell::list(args, shell::PROMPT_LISTS, options, env).await,
        CliCommand::Status(args) => cli::status::status(args, env).await,
        CliCommand::Logs(args) => cli::logs::logs(args, env).await,
        CliCommand::Reconnect(args) => cli::reconnect::reconnect(args, env).await,
        CliCommand::Serve(args) => cli::serve::serve(args, options, env).await,
        CliCommand::Schema => cli::schema(),
        CliCommand::Cache { command: CacheCommand::Clear } => cli::cache::clear(env),
        CliCommand::Cache { command: CacheCommand::Export } => cli::cache::export(options, env),
        CliCommand::Completions(args) => cli::completions::print_script(args),
        CliCommand::Complete { words, typed } => {
            cli::completions::complete(words, typed.as_deref(), env).await
        }
        CliCommand::DemoServer { group, pid_file } => demo::server::serve(group, pid_file.as_deref()),
    }
}

/// Imports servers, and says if `flat` costs less.
///
/// # Errors
///
/// The error of the command.
async fn import_servers(args: &ImportArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let code = import::import(args, options, env).await?;
    if code == ExitCode::SUCCESS && args.adds_servers() {
        cli::list_cost::hint_after_import(options, env).await?;
    }
    Ok(code)
}

/// Prints the errors, and returns the exit code for them.
fn usage_exit(errors: &[UsageError]) -> ExitCode {
    errors.iter().for_each(UsageError::print);
    ExitCode::from(EXIT_USAGE)
}

/// Makes a write above RLIMIT_FSIZE an error. By default it is a signal that ends the process. The signal is handled
/// rather than ignored, because child processes would inherit that.
///
/// # Errors
///
/// Fails if the signal cannot be handled.
fn survive_file_size_limit() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler stays when the stream of its signals is dropped.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ)).context("cannot handle SIGXFSZ")?);
    }
    Ok(())
}
